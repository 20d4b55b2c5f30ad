"""Plan and judgement of the delivery gate's read-back: which offsets of which partitions are read,
and with what they are compared."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from shipper.config.checks import ReadBackCheck
from shipper.errors import StepResultError
from shipper.ledger.inventory import LedgerFigures, Tally
from shipper.report.markup import plural
from shipper.report.results import ShipResult, write_checksum
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
from shipper.verify.reconcile import LEDGER, RECEIPTS, TOPIC, Expired, Observed, Reconciliation, Sum

_OFFSETS = "offsets further than before the ship"
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
    check: ReadBackCheck,
    ship: ShipResult,
    ledger: LedgerFigures,
    account: Reconciliation,
    reader: ReadBack,
    others: Callable[[], str | None],
) -> str:
    """Read back, and add the sums to ``account``; fill ``read_back`` of its topics and counts where
    everything was read, and ``ends`` if it has none: then partitions are read to where they end
    now. Return a description of what was read, for people.

    ``others``, asked after the reading: who else has written to the topics since the ship began, so
    that only *at least as many* can be checked. Raises StepResultError, ClusterError,
    OutcomeUnknown.
    """
    topics = _topics(ship, account, ledger)
    if not topics:
        figures = Observed(ship.delivered, RECEIPTS), Observed(0, LEDGER)
        account.read_back.append(Sum("all topics", figures))
        return "nothing was sent"
    if ship.ends_before is None:
        raise StepResultError(
            "the ends of the topics before the ship were not noted, because `gates.delivery` "
            "had no `read_back` then. The read-back has no place to begin. Run the window "
            "again.",
            code="SHIP-702",
        )
    quarantine = {topic.topic for topic in account.topics if topic.quarantine}
    account.ends = account.ends or reader.ends(lambda name: name in topics)
    found = []
    for topic in topics:
        before, sent = ship.ends_before.get(topic, []), ledger.sent.get(topic, {})
        seed = _seed(ship) if check.mode == "sample" and topic not in quarantine else None
        found.append(_partitions(topic, before, account.ends.get(topic), sent, seed))
    if check.mode == "offsets":
        _compare_offsets(account, found)
        return "offsets only; nothing was read back"

    def taker(topic: str) -> Taker:
        return take_quarantined(ship.run_id) if topic in quarantine else take_records

    sound = [one for one in found if not one.fault]
    spans = {(one.topic, number): one.spans[number] for one in sound for number in one.chosen}
    seen = reader.read(spans, taker, check.timeout_seconds)
    who = others()
    # Of topics that others write to, it is known only that all is there.
    exact = [one for one in found if who is None or one.topic in quarantine]
    for one in found:
        _hold_against(account, one, seen, at_least=one not in exact)
    _fill(account, exact, seen, ledger)
    total = sum(len(one.spans) for one in found)
    scope = (
        f"{plural(sum(part.records for part in seen.values()), 'record')} read back from "
        f"{len(spans):,} of {plural(total, 'partition')}"
    )
    return scope + (f"; {who}, so only that there are at least as many was checked" if who else "")


def _topics(ship: ShipResult, account: Reconciliation, ledger: LedgerFigures) -> list[str]:
    sent = {topic.topic for topic in account.topics if topic.delivered} | ledger.sent.keys()
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


def _compare_offsets(account: Reconciliation, found: Sequence[_Partitions]) -> None:
    """Compare offsets. Control records and aborted records take offsets too, so a partition
    advances by at least the number of records sent to it."""
    for one in found:
        total = sum(span.end - span.start for span in one.spans.values())
        expected = Observed(
            sum(tally.records for tally in one.sent.values()), f"records sent, {LEDGER}"
        )
        moved = Observed(None, f"({one.fault})") if one.fault else Observed(total, _OFFSETS)
        account.read_back.append(
            Sum(one.topic, (expected, moved), at_least=True, remark=one.remark)
        )
        if one.placed and not one.fault:
            for number, span in one.spans.items():
                sent = Observed(one.sent.get(number, Tally()).records, f"records sent, {LEDGER}")
                name = f"{one.topic}, partition {number}"
                account.partitions.append(
                    Sum(name, (sent, Observed(span.end - span.start, _OFFSETS)), at_least=True)
                )


def _hold_against(
    account: Reconciliation,
    one: _Partitions,
    seen: Mapping[PartitionId, SpanSums],
    *,
    at_least: bool,
) -> None:
    delivered = sum(topic.delivered for topic in account.topics if topic.topic == one.topic)
    ledger = Tally()
    for tally in one.sent.values():
        ledger.merge(tally)
    parts = {number: seen[one.topic, number] for number in one.chosen} if not one.fault else {}
    if one.placed and not one.fault:
        for number, part in parts.items():
            name, sent = f"{one.topic}, partition {number}", one.sent.get(number, Tally())
            if gone := _expired(name, sent, {number: part}, one.spans):
                account.expired += [] if one.whole else [gone]
                continue
            account.partitions += _records(
                name,
                [Observed(sent.records, LEDGER)],
                sent,
                part,
                at_least,
                _deleted({number: part}),
            )
    if not one.whole and not one.fault:
        return
    places = [Observed(delivered, RECEIPTS), Observed(ledger.records, LEDGER)]
    if one.fault:
        account.read_back.append(
            Sum(one.topic, (*places, Observed(None, f"{TOPIC} ({one.fault})")))
        )
        return
    whole = _together(parts.values())
    if gone := _expired(one.topic, ledger, parts, one.spans):
        account.expired.append(gone)
        account.read_back.append(Sum(one.topic, tuple(places)))
        return
    remark = "; ".join(filter(None, (one.remark, _deleted(parts))))
    account.read_back += _records(one.topic, places, ledger, whole, at_least, remark)


def _records(
    name: str, places: Sequence[Observed], sent: Tally, seen: SpanSums, at_least: bool, remark: str
) -> list[Sum]:
    sums = [Sum(name, (*places, Observed(seen.records, TOPIC)), at_least, remark)]
    # If the numbers differ, the checksums differ too, and say nothing more.
    if not at_least and seen.records == sent.records:
        checksums = (
            Observed(write_checksum(sent.checksum), LEDGER),
            Observed(write_checksum(seen.checksum), TOPIC),
        )
        sums.append(Sum(f"{name}: checksum", checksums))
    return sums


def _together(parts: Iterable[SpanSums]) -> SpanSums:
    whole = SpanSums()
    for part in parts:
        whole.add(part)
    return whole


def _expired(
    name: str, sent: Tally, parts: Mapping[int, SpanSums], spans: Mapping[int, OffsetRange]
) -> Expired | None:
    """Return the expired records; None unless all missing records can be among the offsets that the
    partitions have lost. Every record has an offset, so more than these are missing for another
    reason."""
    lost = {number: part.begins for number, part in parts.items() if part.begins is not None}
    offsets = sum(
        min(begins, spans[number].end) - spans[number].start for number, begins in lost.items()
    )
    missing = sent.records - sum(part.records for part in parts.values())
    if not 0 < missing <= offsets:
        return None
    where = [
        f"partition {number} begins at offset {begins}, and the ship's records at "
        f"{spans[number].start}"
        for number, begins in lost.items()
    ]
    return Expired(
        name,
        sent.records,
        missing,
        "; ".join(where[:3]) + (f"; and {len(where) - 3} more" if where[3:] else ""),
    )


def _deleted(parts: Mapping[int, SpanSums]) -> str:
    gone = [
        f"{number} begins at offset {part.begins} by now"
        for number, part in parts.items()
        if part.begins is not None
    ]
    return (
        f"partition {'; '.join(gone[:3])}: earlier records of this ship are deleted" if gone else ""
    )


def _fill(
    account: Reconciliation,
    found: Sequence[_Partitions],
    seen: Mapping[PartitionId, SpanSums],
    ledger: LedgerFigures,
) -> None:
    """Fill ``read_back`` of the topics and counts for topics that were read completely."""
    counts = {count.name: count for count in account.counts}
    topics = {topic.topic: topic for topic in account.topics}
    sent = ledger.reasons
    expired = {gone.name for gone in account.expired}
    for one in found:
        if one.fault or not one.whole or one.topic in expired:
            continue
        whole = _together([seen[one.topic, number] for number in one.chosen])
        if one.topic in counts:
            counts[one.topic].read_back = whole.records
        if (topic := topics.get(one.topic)) is None:
            continue
        topic.read_back = whole.records
        if topic.quarantine:
            account.read_back += [
                Sum(
                    f"quarantined: {reason}",
                    (Observed(sent[reason], LEDGER), Observed(whole.reasons[reason], TOPIC)),
                )
                for reason in sorted(sent.keys() | whole.reasons.keys())
            ]
            for reason, number in whole.reasons.items():
                if (count := counts.get(f"quarantined: {reason}")) is not None:
                    count.read_back = number
