"""The delivery gate's arithmetic: what Spark, the tasks, the ledger and the read-back counted, set
side by side. Pure.

::

    read + unread = filtered + quarantined + delivered + before          for the cluster
    lines         = filtered + quarantined + delivered + before          for each file
    Spark's count = the tasks' receipts = the ledger = the read-back     for each of these figures

docs/reference/accounting.md says who counts what where, and what a disagreement means.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from shipper.ledger.inventory import FileFigures, LedgerFigures
from shipper.report.cluster_view import dispositions
from shipper.report.results import Count, FileAccount, ShipResult, TopicAccount, write_checksum
from shipper.types import FileId

SPARK = "by Spark's own count"
RECEIPTS = "by the tasks' receipts"
LEDGER = "in the ledger, read anew"
TOPIC = "in the topic, read back"


@dataclass(frozen=True)
class Observed:
    """Count of one place; ``where`` reads as its continuation."""

    value: int | str | None
    """Count; None: it is missing although it was due."""
    where: str


@dataclass(frozen=True)
class Sum:
    """Figures that must be the same, from places that do not know of each other."""

    name: str
    figures: tuple[Observed, ...]
    at_least: bool = False
    """The last one may be larger: others write there as well."""
    remark: str = ""
    """Explanation for the reader, besides the figures."""


@dataclass(frozen=True)
class Expired:
    """Records of the ship that were deleted from the beginning of their partitions: by retention,
    or by delete-records."""

    name: str
    """Topic, or topic and partition."""
    sent: int
    missing: int
    where: str
    """Log start offsets of the partitions at the time of the recount."""


@dataclass
class Reconciliation:
    """Figures of one ship from all places, by subject."""

    topics: list[TopicAccount] = field(default_factory=list)
    counts: list[Count] = field(default_factory=list)
    sums: list[Sum] = field(default_factory=list)
    """Sums of the cluster and its topics."""
    files: list[Sum] = field(default_factory=list)
    checksums: list[Sum] = field(default_factory=list)
    file_checksums: list[Sum] = field(default_factory=list)
    read_back: list[Sum] = field(default_factory=list)
    """Sums of topics; ``partitions`` has those of their partitions."""
    partitions: list[Sum] = field(default_factory=list)
    expired: list[Expired] = field(default_factory=list)
    ends: Mapping[str, Sequence[int]] | None = None
    """Topic → per partition, where the read-back ended; None: there was none."""
    read_back_fault: str | None = None
    """Reason why the topics could not be read back."""
    read_back_passing: bool = False
    """True if they may be later."""
    read: int = 0
    """Lines that Spark read."""
    quarantined: int = 0
    """Records that this ship sent to the quarantine topic."""


def reconcile(
    ship: ShipResult, identities: Mapping[str, FileId], ledger: LedgerFigures
) -> Reconciliation:
    """Compare every figure but the read-back. ``identities``: path of each file of the plan → what
    the ledger knows it as."""
    of_ledger = {
        file.path: ledger.files.get(identities[file.path], FileFigures())
        for file in ship.files
        if file.path in identities
    }
    found = Reconciliation(
        _topics(ship, ledger), read=ship.read, quarantined=sum(ship.quarantined.values())
    )
    found.counts = _counts(ship, ledger, of_ledger, found.topics)
    found.sums = [_lines(ship), *map(_sum_of, found.counts), *_whole_window(found.topics)]
    for file in ship.files:
        found.files += _file_sums(file, of_ledger.get(file.path))
        found.file_checksums += _file_checksums(file, of_ledger.get(file.path))
    found.checksums = [_spark_checksum(ship, of_ledger)]
    return found


def _lines(ship: ShipResult) -> Sum:
    became = dispositions(ship)
    parts = (
        " + ".join(f"{count:,} {word}" for word, count in became.items() if count)
        or "nothing at all"
    )
    return Sum(
        "lines",
        (
            Observed(sum(became.values()), f"{RECEIPTS} ({parts})"),
            Observed(
                ship.read + ship.unread, f"{SPARK}, with the records of files that were not read"
            ),
        ),
    )


def _topics(ship: ShipResult, ledger: LedgerFigures) -> list[TopicAccount]:
    known = {topic.topic: topic.model_copy() for topic in ship.topics}
    found = []
    for name in sorted(known.keys() | ledger.topics.keys()):
        topic = known.get(name, TopicAccount(topic=name))
        topic.ledger = ledger.topics[name]
        found.append(topic)
    return found


def _counts(
    ship: ShipResult,
    ledger: LedgerFigures,
    of_ledger: Mapping[str, FileFigures],
    topics: Sequence[TopicAccount],
) -> list[Count]:
    """Return the counts of what this ship read and sent. Records already committed are in the sums
    of files and of the whole window."""
    read_files = [file for file in ship.files if not file.unread]
    taken: Counter[str] = sum(
        (of_ledger[file.path].shipped.filtered for file in read_files if file.path in of_ledger),
        Counter(),
    )
    read = Count(
        name="read",
        spark=ship.read,
        receipts=sum(file.records for file in read_files),
        ledger=sum(of_ledger[file.path].lines for file in read_files if file.path in of_ledger),
    )
    filtered = [
        Count(
            name=f"filtered: {rule}",
            spark=ship.observed.get(f"filtered: {rule}"),
            receipts=ship.filtered.get(rule, 0),
            ledger=taken[rule],
        )
        for rule in _names("filtered: ", {**ship.filtered, **taken}, ship.observed)
    ]
    reasons = ledger.reasons
    quarantined = [
        Count(
            name=f"quarantined: {reason}",
            spark=_less_already_quarantined(ship, reason),
            receipts=ship.quarantined.get(reason, 0),
            ledger=reasons[reason],
        )
        for reason in _names("quarantined: ", {**ship.quarantined, **reasons}, ship.observed)
    ]
    sent = [
        Count(
            name=topic.topic, receipts=topic.delivered, ledger=ledger.sent_to(topic.topic).records
        )
        for topic in topics
    ]
    return [read, *filtered, *quarantined, *sent]


def _less_already_quarantined(ship: ShipResult, reason: str) -> int | None:
    """Return Spark's count without records that an earlier ship has quarantined: Spark sees every
    record that belongs into quarantine."""
    seen = ship.observed.get(f"quarantined: {reason}")
    return None if seen is None else seen - ship.settled.get(reason, 0)


def _names(prefix: str, counted: Mapping[str, int], observed: Mapping[str, int]) -> list[str]:
    return list(
        dict.fromkeys(
            [*counted, *(name.removeprefix(prefix) for name in observed if name.startswith(prefix))]
        )
    )


def _sum_of(count: Count) -> Sum:
    places = [(count.receipts, RECEIPTS), (count.ledger, LEDGER), (count.spark, SPARK)]
    figures = tuple(Observed(value, where) for value, where in places if value is not None)
    missing = (
        (Observed(None, SPARK),)
        if count.name.startswith("filtered: ") and count.spark is None
        else ()
    )
    return Sum(count.name, figures + missing)


def _whole_window(topics: Sequence[TopicAccount]) -> list[Sum]:
    """Compare topics that hold records of the window from before this ship."""
    return [
        Sum(
            f"{topic.topic}, with what was there before",
            (Observed(topic.delivered + topic.before, RECEIPTS), Observed(topic.ledger, LEDGER)),
        )
        for topic in topics
        if topic.before or topic.ledger != topic.delivered
    ]


def _file_sums(file: FileAccount, ledger: FileFigures | None) -> list[Sum]:
    quarantined, filtered = sum(file.quarantined.values()), sum(file.filtered.values())
    there = file.delivered + file.before + quarantined
    lines = [
        Observed(file.records, f"{RECEIPTS}: lines"),
        Observed(there + filtered, f"{RECEIPTS}: what became of them"),
    ]
    if not file.unread:
        lines.append(Observed(ledger.lines if ledger else None, f"{LEDGER}: where its splits end"))
    return [
        Sum(f"file {file.path}", tuple(lines)),
        Sum(
            f"file {file.path}: records",
            (Observed(there, RECEIPTS), Observed(ledger.records if ledger else None, LEDGER)),
        ),
    ]


def _file_checksums(file: FileAccount, ledger: FileFigures | None) -> list[Sum]:
    sent = ledger.sent if ledger else {}
    return [
        Sum(
            f"file {file.path} to {topic}",
            (
                Observed(file.checksums.get(topic, write_checksum(0)), RECEIPTS),
                Observed(write_checksum(sent[topic].checksum if topic in sent else 0), LEDGER),
            ),
        )
        for topic in sorted(file.checksums.keys() | sent.keys())
    ]


def _spark_checksum(ship: ShipResult, of_ledger: Mapping[str, FileFigures]) -> Sum:
    """Compare all lines that Spark read to ship with all that the ledger holds of the files that
    were read, whichever run sent them."""
    read = [
        of_ledger[file.path].shipped.checksum
        for file in ship.files
        if not file.unread and file.path in of_ledger
    ]
    spark: str | None = None
    if ship.checksum is not None and ship.checksum_added is not None:
        spark = write_checksum(int(ship.checksum, 16) + int(ship.checksum_added, 16))
    elif not ship.read and not any(file.records for file in ship.files if not file.unread):
        spark = write_checksum(0)  # no file was left to read
    return Sum("values", (Observed(spark, SPARK), Observed(write_checksum(sum(read)), LEDGER)))
