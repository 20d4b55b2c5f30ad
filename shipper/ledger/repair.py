"""Repair of damaged records in a ledger: records that shipper did not write, or that cannot be
right.

A reader that meets a damaged record stops (LedgerDamaged), so nothing is shipped while it is the
latest of its key. A repair is a run that ships nothing: it takes the lease, announces a generation
and fences earlier lanes. Then it writes, after the damaged record, what the record's key held
before, or a tombstone. From then on the damaged record is not the latest of its key, so readers
skip it, and compaction removes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from shipper.config.pipeline import Pipeline
from shipper.errors import LedgerDamaged, UsageError
from shipper.ledger.codec import Damage, Subject, decode_sound, peek_key
from shipper.ledger.log import LedgerLog, ask_files, ask_partition
from shipper.ledger.records import CHUNKS, CONTROL
from shipper.ledger.takeover import sole_run
from shipper.ledger.writing import write_as_lane
from shipper.types import EncodedRecord, LogRecord, PartitionOffset

#: Kind → what is lost with the record that the damaged one replaced.
_WHAT_IS_LOST = {
    "chunk": "the chunk would count as not shipped, and be sent again",
    "alias": (
        "lines that were delivered under the file's former name would count as not shipped, and "
        "be sent again"
    ),
    "heir": "another file with the same content could be taken for this one, and not be sent",
    "invalidation": "chunks that were invalidated by a re-ship would count again",
    "archive": "everything in the archive would count as not shipped, and be sent again",
}


@dataclass(frozen=True)
class RepairResult:
    """Result of one repair."""

    place: str
    """Place as PARTITION:OFFSET."""
    why: str
    restored: int | None
    """Offset of the key's earlier value, which was written once more after the record; None: a
    tombstone was."""
    generation: int


def damage(ledger: LedgerLog) -> list[Damage]:
    """Return every record of the topic that cannot be read and was not repaired. Reads the whole
    topic. Raises ClusterError, LedgerOutdated."""
    found = {partition: ledger.look(ask_partition(partition)) for partition in (CONTROL, CHUNKS)}
    return [
        one
        for partition, records in found.items()
        for one in _damaged(ledger.pipeline, partition, records)
    ]


def _damaged(pipeline: str, partition: int, records: Iterable[LogRecord]) -> list[Damage]:
    found: dict[bytes, Damage] = {}
    for record, _ in decode_sound(pipeline, partition, records, found):
        about = peek_key(pipeline, record)
        if about is not None and about.partition != partition and record.value is not None:
            found[record.key] = Damage(
                partition, record, f"a record of kind {about.kind} does not belong there"
            )
    return sorted(found.values(), key=lambda one: one.place)


def repair(
    ledger: LedgerLog,
    pipeline: Pipeline,
    place: PartitionOffset,
    run_id: str,
    *,
    forget: bool,
    say: Callable[[str], None],
) -> RepairResult:
    """Repair one damaged record. Raises UsageError for a record that is not damaged, or whose loss
    would send data twice unless ``forget``; ClusterError, Superseded."""
    all_damage = damage(ledger)
    where, name = str(place), ledger.cluster.name
    chosen = next((one for one in all_damage if one.place == place), None)
    if chosen is None:
        listed = ", ".join(str(one.place) for one in all_damage[:10]) or "none"
        raise UsageError(
            f"cluster {name}: {ledger.topic} has no damaged record at {where}. Nothing "
            f"was changed. Damaged records are: {listed}.",
            code="SHIP-115",
        )
    mended = ledger.ignoring(one.place for one in all_damage)
    about = _about(ledger.pipeline, chosen)
    if (
        not forget
        and about
        and about.kind in _WHAT_IS_LOST
        and _latest(mended, chosen, about) is None
    ):
        raise UsageError(
            f"cluster {name}: {ledger.topic} {where} is a record of kind {about.kind} "
            f"({about.path or 'of the pipeline'}), and its earlier value cannot be found. "
            f"Nothing was changed. Without this record, {_WHAT_IS_LOST[about.kind]}. Confirm "
            "with --forget if that is right.",
            code="SHIP-109",
        )
    with sole_run(mended, pipeline, run_id, say) as (generation, settings):
        latest = _latest(mended, chosen, about) if about else None  # now that nobody else can write
        entry = EncodedRecord(chosen.record.key, None if latest is None else latest.value)
        if chosen.partition == CHUNKS:
            write_as_lane(
                mended, settings, generation, [entry],
                f"{ledger.topic} {where} could not be repaired: {{}}. Run the command again.",
            )  # fmt: skip
        else:
            mended.write_control([entry])
    return RepairResult(where, chosen.why, None if latest is None else latest.offset, generation)


def _about(pipeline: str, damage: Damage) -> Subject | None:
    """Return the subject of the key; None for a key that is not shipper's, or lies where it hides
    nothing of its kind."""
    try:
        about = peek_key(pipeline, damage.record)
    except LedgerDamaged:
        return None
    return about if about and about.partition == damage.partition else None


def _latest(ledger: LedgerLog, damage: Damage, about: Subject) -> LogRecord | None:
    """Return the latest of the sound records with the same key: in the topic or, where the broker
    has removed it, in the snapshot or the archive."""
    key = damage.record.key
    of_key = [
        record
        for record in ledger.decide(ask_partition(damage.partition)).answer
        if record.key == key
    ]
    found = [record for record, _ in decode_sound(ledger.pipeline, damage.partition, of_key, {})]
    if not found and about.path:
        read = ledger.decide(ask_files([about.path])).answer
        found = [record for of_path in read.by_path() for record, _ in of_path if record.key == key]
    return found[-1] if found else None
