"""The delivery gate's table of counts: rows are what was counted, columns are who counted. Pure.

::

    read + unread = filtered + quarantined + delivered + before          for the cluster
    lines         = filtered + quarantined + delivered + before          for each file
    Spark's count = the tasks' receipts = the ledger = the read-back     for each of these figures

docs/reference/accounting.md says who counts what where, and what a disagreement means.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from shipper.finding import Finding
from shipper.ledger.inventory import LedgerFigures, Tally
from shipper.report.cluster_view import dispositions
from shipper.report.results import Count, FileAccount, ShipResult, TopicAccount, write_checksum
from shipper.types import FileId

SPARK = "by Spark's own count"
RECEIPTS = "by the tasks' receipts"
LEDGER = "in the ledger, read anew"
TOPIC = "in the topic, read back"
_LINES, _BECAME = f"{RECEIPTS}: lines", f"{RECEIPTS}: what became of them"
_ENDS = f"{LEDGER}: where its splits end"
_UINT64 = 1 << 64


@dataclass
class CountRow:
    """Figures that must be the same, from places that do not know of each other."""

    check: Literal["sum_closes", "checksum", "read_back", "expired"]
    """Check that compares them. `expired`: fewer are in the topic, since retention or
    delete-records has deleted the others from the beginning of the partitions."""
    subject: Literal["window", "cluster", "topic", "file", "partition"]
    """`window`: with what was there before this ship; the others are of this ship alone."""
    name: str
    figures: Mapping[str, int | None]
    """Column, which reads as the figure's continuation → figure. None: it was due, and nobody
    counted it."""
    at_least: bool = False
    """True if the last figure may be larger: others write there as well."""
    remark: str = ""
    """Explanation for the reader, besides the figures."""
    is_checksum: bool = False

    def write(self, figure: int) -> str:
        return write_checksum(figure) if self.is_checksum else f"{figure:,}"


@dataclass
class CountTable:
    """Counts of one ship."""

    ship: ShipResult
    ledger: LedgerFigures
    rows: list[CountRow] = field(default_factory=list)
    ends: Mapping[str, Sequence[int]] | None = None
    """Topic → per partition, where the read-back ended; None: there was none."""
    unread: Finding | None = None
    """Reason why the topics could not be read back; None: they were, or nobody asked."""

    @property
    def has_rival(self) -> bool:
        """True if a later run may have sent some of this ship's chunks again, and the ledger has
        these as the later run's."""
        return self.ledger.has_later and self.ship.guarantee == "at_least_once"

    def topics(self) -> list[TopicAccount]:
        """Return the ship's account of topics, with what ledger and topics hold."""
        known = {topic.topic: topic for topic in self.ship.topics}
        read_back = self._read_back()
        return [
            known.get(name, TopicAccount(topic=name)).model_copy(
                update={
                    "ledger": self.ledger.topics[name],
                    "read_back": read_back.get(("topic", name)),
                }
            )
            for name in sorted(known.keys() | self.ledger.topics.keys())
        ]

    def counts(self) -> list[Count]:
        """Return the rows of what this ship read and sent."""
        read_back = self._read_back()
        return [
            Count(
                name=row.name,
                spark=row.figures.get(SPARK),
                receipts=row.figures[RECEIPTS],
                ledger=None if row.at_least else row.figures[LEDGER],
                read_back=read_back.get((row.subject, row.name)),
            )
            for row in self.rows
            if row.check == "sum_closes" and row.subject in ("cluster", "topic")
        ]

    def _read_back(self) -> dict[tuple[str, str], int | None]:
        """Return the subjects that were read back completely, and hold nothing of others."""
        return {
            (row.subject, row.name): row.figures.get(TOPIC)
            for row in self.rows
            if row.check == "read_back" and not row.at_least
        }


def reconcile(
    ship: ShipResult, identities: Mapping[str, FileId], ledger: LedgerFigures
) -> CountTable:
    """Fill every column but the read-back's. ``identities``: path of each file of the plan → what
    the ledger knows it as."""
    of_ledger = {
        file.path: ledger.files.get(identities[file.path], Tally())
        for file in ship.files
        if file.path in identities
    }
    sent = {
        path: ledger.checksums[file]
        for path, file in identities.items()
        if file in ledger.checksums
    }
    found = CountTable(ship, ledger)
    found.rows += [_lines(ship), *_cluster_rows(found, of_ledger), *_topic_rows(found)]
    for file in ship.files:
        found.rows += _file_rows(file, of_ledger.get(file.path))
        if not found.has_rival:
            found.rows += _file_checksums(file, sent.get(file.path, {}))
    found.rows.append(_spark_checksum(ship, of_ledger))
    return found


def _lines(ship: ShipResult) -> CountRow:
    became = dispositions(ship)
    parts = (
        " + ".join(f"{count:,} {word}" for word, count in became.items() if count)
        or "nothing at all"
    )
    figures = {
        f"{RECEIPTS} ({parts})": sum(became.values()),
        f"{SPARK}, with the records of files that were not read": ship.read + ship.unread,
    }
    return CountRow("sum_closes", "window", "lines", figures)


def _cluster_rows(table: CountTable, of_ledger: Mapping[str, Tally]) -> Iterator[CountRow]:
    """Yield what this ship read, dropped and rejected. Records already committed are in the rows of
    files and of the window."""
    ship, ledger = table.ship, table.ledger
    read_files = [file for file in ship.files if not file.unread]
    tallies = [of_ledger[file.path] for file in read_files if file.path in of_ledger]
    figures = {
        RECEIPTS: sum(file.records for file in read_files),
        LEDGER: sum(tally.lines for tally in tallies),
        SPARK: ship.read,
    }
    yield CountRow("sum_closes", "cluster", "read", figures)
    taken: Counter[str] = sum((tally.filtered for tally in tallies), Counter())
    for rule in _names("filtered: ", {**ship.filtered, **taken}, ship.observed):
        name = f"filtered: {rule}"
        figures = {RECEIPTS: ship.filtered.get(rule, 0), LEDGER: taken[rule]}
        yield CountRow("sum_closes", "cluster", name, figures | {SPARK: ship.observed.get(name)})
    reasons = ledger.reasons
    for reason in _names("quarantined: ", {**ship.quarantined, **reasons}, ship.observed):
        name = f"quarantined: {reason}"
        figures = {RECEIPTS: ship.quarantined.get(reason, 0), LEDGER: reasons[reason]}
        if table.has_rival:
            yield _at_least(CountRow("sum_closes", "cluster", name, figures))
            continue
        if (seen := ship.observed.get(name)) is not None:
            # Spark also sees the records that an earlier ship has quarantined.
            figures[SPARK] = seen - ship.settled.get(reason, 0)
        yield CountRow("sum_closes", "cluster", name, figures)


def _at_least(row: CountRow) -> CountRow:
    """Return the row if the receipts may be more than what the ledger has as this ship's."""
    figures = {LEDGER: row.figures[LEDGER], RECEIPTS: row.figures[RECEIPTS]}
    remark = "a later run sent some of them again (at least once)"
    return replace(row, figures=figures, at_least=True, remark=remark)


def _names(prefix: str, counted: Mapping[str, int], observed: Mapping[str, int]) -> list[str]:
    return list(
        dict.fromkeys(
            [*counted, *(name.removeprefix(prefix) for name in observed if name.startswith(prefix))]
        )
    )


def _topic_rows(table: CountTable) -> Iterator[CountRow]:
    topics = table.topics()
    for topic in topics:
        sent = table.ledger.sent_to(topic.topic).records
        by_ship = {RECEIPTS: topic.delivered, LEDGER: sent}
        row = CountRow("sum_closes", "topic", topic.topic, by_ship)
        yield _at_least(row) if table.has_rival else row
    for topic in topics:
        if topic.before or topic.ledger != topic.delivered:
            name = f"{topic.topic}, with what was there before"
            figures = {RECEIPTS: topic.delivered + topic.before, LEDGER: topic.ledger}
            yield CountRow("sum_closes", "window", name, figures)


def _file_rows(file: FileAccount, ledger: Tally | None) -> Iterator[CountRow]:
    there = file.delivered + file.before + sum(file.quarantined.values())
    lines = {_LINES: file.records, _BECAME: there + sum(file.filtered.values())}
    ends = {} if file.unread else {_ENDS: ledger.lines if ledger else None}
    yield CountRow("sum_closes", "file", f"file {file.path}", lines | ends)
    records = {RECEIPTS: there, LEDGER: ledger.records if ledger else None}
    yield CountRow("sum_closes", "file", f"file {file.path}: records", records)


def _file_checksums(file: FileAccount, ledger: Mapping[str, int]) -> Iterator[CountRow]:
    for topic in sorted(file.checksums.keys() | ledger.keys()):
        figures = {
            RECEIPTS: int(file.checksums.get(topic, "0"), 16),
            LEDGER: ledger.get(topic, 0) % _UINT64,
        }
        name = f"file {file.path} to {topic}"
        yield CountRow("checksum", "file", name, figures, is_checksum=True)


def _spark_checksum(ship: ShipResult, of_ledger: Mapping[str, Tally]) -> CountRow:
    """Compare all lines that Spark read to ship with all that the ledger holds of the files that
    were read, whichever run sent them."""
    read = [file for file in ship.files if not file.unread]
    of_files = sum(of_ledger[file.path].checksum for file in read if file.path in of_ledger)
    spark: int | None = None
    if ship.checksum is not None and ship.checksum_added is not None:
        spark = (int(ship.checksum, 16) + int(ship.checksum_added, 16)) % _UINT64
    elif not ship.read and not any(file.records for file in read):
        spark = 0  # no file was left to read
    figures = {SPARK: spark, LEDGER: of_files % _UINT64}
    return CountRow("checksum", "cluster", "values", figures, is_checksum=True)
