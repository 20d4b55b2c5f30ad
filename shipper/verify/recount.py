"""Plan and judgement of the delivery gate's read-back: which offsets of which partitions are read,
and with what they are compared."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from shipper.config.checks import ReadBackCheck
from shipper.config.units import listed, plural
from shipper.errors import StepResultError
from shipper.ledger.inventory import Tally
from shipper.report.results import ShipResult
from shipper.verify.readback import (
    UNKNOWN,
    OffsetRange,
    PartitionId,
    ReadBack,
    SpanSums,
    Taker,
    take_quarantined,
    take_records,
)
from shipper.verify.reconcile import LEDGER, RECEIPTS, TOPIC, CountRow, CountTable

_OFFSETS = "offsets further than before the ship"
_SENT = f"records sent, {LEDGER}"
_SAMPLED_SHARE = 4


@dataclass(frozen=True)
class _Partitions:
    """One topic's, as they were and are."""

    topic: str
    spans: Mapping[int, OffsetRange]
    sent: Mapping[int | None, Tally]
    """Records that this ship sent to the topic, by the ledger."""
    chosen: tuple[int, ...]
    fault: str | None = None
    """Reason why nothing can be said of the topic."""
    remark: str = ""

    @property
    def placed(self) -> bool:
        """True if the ledger knows the partition of every record."""
        return None not in self.sent

    @property
    def whole(self) -> bool:
        return len(self.chosen) == len(self.spans)


def look(
    check: ReadBackCheck, table: CountTable, reader: ReadBack, others: Callable[[], str | None]
) -> str:
    """Read back, and add what was found to ``table``; and ``ends`` if it has none: then partitions
    are read to where they end now. Return a description of what was read, for people.

    ``others``, asked after the reading: who else has written to the topics since the ship began, so
    that only *at least as many* can be checked. Raises StepResultError, ClusterError,
    OutcomeUnknown.
    """
    ship = table.ship
    topics = _topics(table)
    if not topics:
        figures = {RECEIPTS: ship.delivered, LEDGER: 0}
        table.rows.append(CountRow("read_back", "topic", "all topics", figures))
        return "nothing was sent"
    if ship.ends_before is None:
        raise StepResultError(
            "the ends of the topics before the ship were not noted, because `gates.delivery` "
            "had no `read_back` then. The read-back has no place to begin. Run the window "
            "again.",
            code="SHIP-702",
        )
    quarantine = {topic.topic for topic in ship.topics if topic.quarantine}
    ends = table.ends = table.ends or reader.ends(lambda name: name in topics)
    found = []
    for topic in topics:
        before, sent = ship.ends_before.get(topic, []), table.ledger.sent.get(topic, {})
        seed = _seed(ship) if check.mode == "sample" and topic not in quarantine else None
        found.append(_partitions(topic, before, ends.get(topic), sent, seed))
    if check.mode == "offsets":
        for one in found:
            table.rows += _offsets(one)
        return "offsets only; nothing was read back"

    def taker(topic: str) -> Taker:
        return take_quarantined(ship.run_id) if topic in quarantine else take_records

    sound = [one for one in found if not one.fault]
    spans = {(one.topic, number): one.spans[number] for one in sound for number in one.chosen}
    seen = reader.read(spans, taker, check.timeout_seconds)
    who = others()
    for one in found:
        # Of topics that others write to, it is known only that all is there.
        at_least = who is not None and one.topic not in quarantine
        table.rows += _records(table, one, seen, at_least=at_least)
    for one in found:
        if one.topic in quarantine:
            table.rows += _reasons(table, one, seen)
    total = sum(len(one.spans) for one in found)
    scope = (
        f"{plural(sum(part.records for part in seen.values()), 'record')} read back from "
        f"{len(spans):,} of {plural(total, 'partition')}"
    )
    return scope + (f"; {who}, so only that there are at least as many was checked" if who else "")


def _topics(table: CountTable) -> list[str]:
    ship = table.ship
    sent = {topic.topic for topic in ship.topics if topic.delivered} | table.ledger.sent.keys()
    return sorted(sent | (ship.ends_before or {}).keys()) if sent else []


def _seed(ship: ShipResult) -> int:
    """Return the same seed for each run of a window."""
    return zlib.crc32(f"{ship.window_start:%Y%m%dT%H%M%S}/{ship.window_end:%Y%m%dT%H%M%S}".encode())


def _partitions(
    topic: str,
    before: Sequence[int],
    ends: Sequence[int] | None,
    sent: Mapping[int | None, Tally],
    seed: int | None,
) -> _Partitions:
    """``seed``: of a sample; None: all partitions are read."""
    if ends is None:
        return _Partitions(
            topic, {}, sent, (), remark="the topic does not exist, or may not be read"
        )
    for number, offset in [*enumerate(before), *enumerate(ends)]:
        if offset == UNKNOWN:
            return _Partitions(
                topic, {}, sent, (), f"its partition {number} had no leader, so its end is unknown"
            )
    spans = {
        number: OffsetRange(before[number] if number < len(before) else 0, end)
        for number, end in enumerate(ends)
    }
    back = [
        f"{number} ends at {span.end}, and ended at {span.start}"
        for number, span in spans.items()
        if span.end < span.start
    ]
    remark = (
        f"partition {'; '.join(back[:3])} before the ship: the topic was deleted or recreated"
        if back
        else ""
    )
    chosen = tuple(spans)
    if seed is not None and None not in sent:
        chosen = _sample(spans, sent, seed)
    return _Partitions(topic, spans, sent, chosen, remark=remark)


def _sample(
    spans: Mapping[int, OffsetRange], sent: Mapping[int | None, Tally], seed: int
) -> tuple[int, ...]:
    """Choose a quarter of the partitions: those that received records before the others, beginning
    at another one for each window."""
    used, idle = [n for n in spans if n in sent], [n for n in spans if n not in sent]
    turn = seed % len(used) if used else 0
    return tuple(
        sorted([*used[turn:], *used[:turn], *idle][: math.ceil(len(spans) / _SAMPLED_SHARE)])
    )


def _offsets(one: _Partitions) -> Iterator[CountRow]:
    """Compare offsets. Control records and aborted records take offsets too, so a partition
    advances by at least the number of records sent to it."""
    sent = sum(tally.records for tally in one.sent.values())
    moved = sum(span.end - span.start for span in one.spans.values())
    offsets = {f"({one.fault})": None} if one.fault else {_OFFSETS: moved}
    yield CountRow("read_back", "topic", one.topic, {_SENT: sent, **offsets}, True, one.remark)
    if one.placed and not one.fault:
        for number, span in one.spans.items():
            sent = one.sent.get(number, Tally()).records
            figures = {_SENT: sent, _OFFSETS: span.end - span.start}
            yield CountRow(
                "read_back", "partition", f"{one.topic}, partition {number}", figures, True
            )


def _records(
    table: CountTable, one: _Partitions, seen: Mapping[PartitionId, SpanSums], *, at_least: bool
) -> Iterator[CountRow]:
    """Compare the records of one topic, and of its partitions if the ledger knows them."""
    ledger = table.ledger.sent_to(one.topic)
    delivered = sum(topic.delivered for topic in table.ship.topics if topic.topic == one.topic)
    figures = {LEDGER: ledger.records}
    if not table.has_rival:
        figures = {RECEIPTS: delivered, **figures}
    row = CountRow("read_back", "topic", one.topic, figures, at_least, one.remark)
    if one.fault:
        row.figures = {**figures, f"{TOPIC} ({one.fault})": None}
        yield row
        return
    parts = {number: seen[one.topic, number] for number in one.chosen}
    for number, part in parts.items() if one.placed else ():
        sent = one.sent.get(number, Tally())
        name = f"{one.topic}, partition {number}"
        of_one = CountRow("read_back", "partition", name, {LEDGER: sent.records}, at_least)
        for each in _compare(of_one, sent, {number: part}, one.spans):
            if each.check != "expired" or not one.whole:  # else the topic's row says it
                yield each
    if one.whole:
        yield from _compare(row, ledger, parts, one.spans)


def _compare(
    row: CountRow, sent: Tally, parts: Mapping[int, SpanSums], spans: Mapping[int, OffsetRange]
) -> Iterator[CountRow]:
    """Yield the row with what these partitions hold, and one for the checksum; or one that says how
    many records have expired, and the row as it is if it has figures to compare."""
    whole = _together(parts.values())
    if where := _expired(sent.records - whole.records, parts, spans):
        counted = {LEDGER: sent.records, TOPIC: whole.records}
        yield CountRow("expired", row.subject, row.name, counted, remark=where)
        if len(row.figures) > 1:
            yield CountRow(row.check, row.subject, row.name, row.figures)
        return
    row.figures = {**row.figures, TOPIC: whole.records}
    row.remark = "; ".join(filter(None, (row.remark, _deleted(parts))))
    yield row
    # If the numbers differ, the checksums differ too, and say nothing more.
    if not row.at_least and whole.records == sent.records:
        checksums = {LEDGER: sent.checksum, TOPIC: whole.checksum}
        name = f"{row.name}: checksum"
        yield CountRow(row.check, row.subject, name, checksums, is_checksum=True)


def _reasons(
    table: CountTable, one: _Partitions, seen: Mapping[PartitionId, SpanSums]
) -> Iterator[CountRow]:
    """Compare the reasons of a quarantine topic that was read completely."""
    expired = any(row.check == "expired" and row.name == one.topic for row in table.rows)
    if one.fault or not one.whole or expired:
        return
    found = _together(seen[one.topic, number] for number in one.chosen).reasons
    sent = table.ledger.reasons
    for reason in sorted(sent.keys() | found.keys()):
        figures = {LEDGER: sent[reason], TOPIC: found[reason]}
        yield CountRow("read_back", "cluster", f"quarantined: {reason}", figures)


def _together(parts: Iterable[SpanSums]) -> SpanSums:
    whole = SpanSums()
    for part in parts:
        whole.add(part)
    return whole


def _expired(missing: int, parts: Mapping[int, SpanSums], spans: Mapping[int, OffsetRange]) -> str:
    """Return where the partitions begin; empty unless all missing records can be among the offsets
    that the partitions have lost. Every record has an offset, so more than these are missing for
    another reason."""
    lost = {number: part.begins for number, part in parts.items() if part.begins is not None}
    offsets = sum(
        min(begins, spans[number].end) - spans[number].start for number, begins in lost.items()
    )
    if not 0 < missing <= offsets:
        return ""
    where = [
        f"partition {number} begins at offset {begins}, and the ship's records at "
        f"{spans[number].start}"
        for number, begins in lost.items()
    ]
    return listed(where, 3, "; ")


def _deleted(parts: Mapping[int, SpanSums]) -> str:
    gone = [
        f"{number} begins at offset {part.begins} by now"
        for number, part in parts.items()
        if part.begins is not None
    ]
    return (
        f"partition {'; '.join(gone[:3])}: earlier records of this ship are deleted" if gone else ""
    )
