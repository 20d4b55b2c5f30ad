"""Records in a ledger that shipper did not write, or that cannot be right: which they are, and taking one out of the way.

A reader that meets one stops (LedgerDamaged), so while it is there nobody ships. Taking it out of the way is a run that ships nothing:
lease, generation, fencing; then, behind the damaged record, what its key said before it, or a tombstone; and last, in the control
partition, a record that says who passes over which offset and why. In this order, since a key's latest record hides the ones before it,
from compaction on for ever: were only the offset passed over, a chunk whose good record the damaged one had replaced would count until
the broker compacts, and be shipped a second time after that. Killed before the last record, the ledger is as damaged as before.

And files in doubt, of which a ship has read other bytes than they have: a person vouches for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from shipper.config.cluster import Cluster
from shipper.config.pipeline import Pipeline
from shipper.errors import ClusterError, LedgerDamaged, UsageError
from shipper.kafka.connection import KafkaFault
from shipper.ledger.codec import Subject, decode, encode_doubt, encode_passed_over, peek_key
from shipper.ledger.control import passed_over_in
from shipper.ledger.fold import all_doubts
from shipper.ledger.lease import HeldLease
from shipper.ledger.log import LedgerLog
from shipper.ledger.records import CHUNKS, CONTROL, Doubt, PassedOver
from shipper.ledger.takeover import sole_run, transactional_id
from shipper.ledger.writing import lane_settings, write_as_lane
from shipper.types import EncodedRecord, LogRecord, PartitionOffset

_BATCH_BYTES = 500_000
_READ_WAIT_SECONDS = 60.0
#: Kind → what is lost with the record that the damaged one replaced.
_WHAT_IS_LOST = {
    "chunk": "the chunk would count as not shipped, and be sent again",
    "void": "chunks that were shipped anew would count again",
    "doubt": "a file of which other bytes were read than it has would count as done",
    "replay": "a replayed record would count as still in quarantine, and could be sent again",
    "archive": "all that was archived would count as not shipped, and be sent again",
}


@dataclass(frozen=True)
class Damage:
    """One record that is not shipper's or cannot be right."""

    partition: int
    record: LogRecord
    why: str
    passed_over: PassedOver | None
    """Who has said that it is to be passed over."""

    @property
    def place(self) -> PartitionOffset:
        return PartitionOffset(self.partition, self.record.offset)


@dataclass(frozen=True)
class Repair:
    """What one repair did."""

    place: str
    """As PARTITION:OFFSET."""
    why: str
    behind: str
    """What was written behind the record, so that compaction removes it."""
    generation: int


def damage(ledger: LedgerLog) -> list[Damage]:
    """Everything in the topic that cannot be read, passed over or not. Reads all of it. Raises ClusterError."""
    control = list(ledger.topic_records(CONTROL))
    passed_over = passed_over_in(ledger.pipeline, control)
    found = _damaged(ledger.pipeline, CONTROL, control, passed_over)
    return [*found, *_damaged(ledger.pipeline, CHUNKS, ledger.topic_records(CHUNKS), passed_over)]


def _damaged(
    pipeline: str, partition: int, records: Iterable[LogRecord], passed_over: dict[PartitionOffset, PassedOver]
) -> Iterator[Damage]:
    for record in records:
        try:
            about = peek_key(pipeline, record)
            decode(pipeline, record)
        except LedgerDamaged as error:
            yield Damage(partition, record, error.why, passed_over.get(PartitionOffset(partition, record.offset)))
            continue
        if about is not None and about.partition != partition and record.value is not None:
            why = f"a {about.kind} record does not belong there"
            yield Damage(partition, record, why, passed_over.get(PartitionOffset(partition, record.offset)))


def repair(
    ledger: LedgerLog, cluster: Cluster, pipeline: Pipeline, place: PartitionOffset, signed: PassedOver, *, forget: bool,
    say: Callable[[str], None],
) -> Repair:  # fmt: skip
    """Raises UsageError for a record that is none of the damaged, or whose loss would send data twice
    unless ``forget``; LeaseHeld, ClusterError, Superseded."""
    all_damage = damage(ledger)
    where = str(place)
    chosen = next((one for one in all_damage if one.place == place), None)
    if chosen is None:
        listed = ", ".join(str(one.place) for one in all_damage[:10]) or "none"
        raise UsageError(
            f"cluster {cluster.name}: {ledger.topic} has no damaged record at {where}; damaged are: {listed}. Nothing was changed."
        )
    mended = ledger.without(one.place for one in all_damage)
    if (lost := _lost(mended, chosen)) and not forget:
        raise UsageError(
            f"cluster {cluster.name}: {ledger.topic} {where} is a {lost.kind} record ({lost.path or 'of the pipeline'}), and what its key said "
            f"before cannot be found any more: passed over, {_WHAT_IS_LOST[lost.kind]}. Nothing was changed. Say --forget if that is right."
        )
    settings = lane_settings(cluster, pipeline, _BATCH_BYTES)
    with sole_run(mended, settings, cluster, pipeline, signed.run_id, say) as generation:
        latest = _latest(mended, chosen)  # now that nobody else can write
        behind = "nothing: a later record of the same key is there"
        if latest is None or latest.offset < chosen.record.offset:
            behind = "a tombstone" if latest is None else f"what its key said before, at offset {latest.offset}"
            entry = EncodedRecord(chosen.record.key, None if latest is None else latest.value)
            if chosen.partition == CHUNKS:
                lane = transactional_id(pipeline.name, cluster.name, 0, 0)
                try:
                    write_as_lane(mended, settings, lane, generation, [entry])
                except KafkaFault as fault:
                    raise ClusterError(
                        f"{ledger.topic} {where} could not be repaired: {fault}. Run the command again."
                    ) from fault
            else:
                mended.write_control([entry])
        mended.write_control([encode_passed_over(pipeline.name, place, signed)])
    return Repair(where, chosen.why, behind, generation)


def _about(ledger: LedgerLog, damage: Damage) -> Subject | None:
    """None for a key that is not shipper's, or lies where it hides nothing of its kind."""
    try:
        about = peek_key(ledger.pipeline, damage.record)
    except LedgerDamaged:
        return None
    return about if about and about.partition == damage.partition else None


def _lost(ledger: LedgerLog, damage: Damage) -> Subject | None:
    about = _about(ledger, damage)
    return about if about and about.kind in _WHAT_IS_LOST and _latest(ledger, damage) is None else None


def _latest(ledger: LedgerLog, damage: Damage) -> LogRecord | None:
    """Of the sound records with the same key: in the topic or, where the broker has removed it, in the snapshot or the archive."""
    about, key = _about(ledger, damage), damage.record.key
    if about is None:
        return None
    found = [record for record in ledger.topic_records(damage.partition) if record.key == key]
    if not found and about.path:
        read = ledger.records([about.path], wait_seconds=_READ_WAIT_SECONDS)
        found = [record for of_path in read.by_path() for record, _ in of_path if record.key == key]
    return found[-1] if found else None


def vouch_for(ledger: LedgerLog, pipeline: Pipeline, path: str, signed: str, run_id: str, say: Callable[[str], None]) -> Doubt:
    """Says in the ledger that all of the file at ``path`` is on the cluster.

    ``signed``: who, when and why. Raises UsageError for a file that is not in doubt; LeaseHeld, ClusterError."""
    delivery = pipeline.delivery
    with HeldLease(ledger, run_id, delivery.lease_seconds, delivery.lease_wait_seconds, say) as lease:
        doubts = all_doubts(ledger.records(wait_seconds=_READ_WAIT_SECONDS))
        of_path = [(file, doubt) for file, doubt in doubts.items() if file.path == path]
        if not of_path:
            listed = ", ".join(sorted({file.path for file in doubts})[:10]) or "none"
            raise UsageError(f"cluster {ledger.cluster}: {path} is not in doubt; in doubt are: {listed}. Nothing was changed.")
        vouched = [encode_doubt(ledger.pipeline, file, replace(doubt, trusted=signed)) for file, doubt in of_path]
        ledger.write_control([lease.held(), *vouched])
    return of_path[-1][1]
