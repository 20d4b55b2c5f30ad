"""Timelines of a ship: chunks as the ledger has them, and lanes as the tasks' receipts have them.
Pure."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import pairwise

from shipper.ledger.fold import Chunks
from shipper.ledger.records import Entry
from shipper.report.results import LaneAccount, LanePoint, TimelinePoint
from shipper.types import FileId
from shipper.worker.receipt import LaneSample, Receipt

_MOST_POINTS = 600

#: Two samples of a task, one after the other.
_Step = tuple[LaneSample, LaneSample]


def timeline(committed: Sequence[Entry], generations: Collection[int]) -> list[TimelinePoint]:
    """Return what ``generations`` committed over time, in at most 600 intervals of a second or
    more, by the broker's timestamps."""
    points = [
        (chunk.timestamp_ms, chunk.value)
        for chunk in committed
        if chunk.value.generation in generations and chunk.value.records and chunk.key.topic
    ]
    if not points:
        return []
    first, last = min(at for at, _ in points), max(at for at, _ in points)
    width_ms = max(1000, -(-(last - first + 1) // _MOST_POINTS))
    counts = [[0, 0] for _ in range((last - first) // width_ms + 1)]
    for at, value in points:
        counts[(at - first) // width_ms][0] += value.records
        counts[(at - first) // width_ms][1] += value.bytes

    def moment(index: int) -> dt.datetime:
        return dt.datetime.fromtimestamp((first + (index + 1) * width_ms) / 1000, dt.UTC)

    return [
        TimelinePoint(at=moment(index), records=records, bytes=size)
        for index, (records, size) in enumerate(counts)
    ]


def last_commits(chunks: Chunks, files: Mapping[FileId, str]) -> dict[str, dt.datetime]:
    """Return tick → when the last record of its ``files`` was committed, by the broker's clock.
    ``files``: file → the tick that it belongs to."""
    found: dict[str, int] = {}
    for file, tick in files.items():
        if (at := chunks.committed_ms.get(file)) is not None:
            found[tick] = max(at, found.get(tick, at))
    return {tick: dt.datetime.fromtimestamp(at / 1000, dt.UTC) for tick, at in found.items()}


def lane_timeline(receipts: Sequence[Receipt]) -> list[LanePoint]:
    """Sum up the tasks' samples in at most 600 intervals of a second or more."""
    steps = [(receipt.task, step) for receipt in receipts for step in pairwise(receipt.samples)]
    if not steps:
        return []
    first, last = min(now.at for _, (_, now) in steps), max(now.at for _, (_, now) in steps)
    width = max(1.0, (last - first) / _MOST_POINTS)
    seen: dict[int, dict[int, list[_Step]]] = {}
    for task, step in steps:
        seen.setdefault(int((step[1].at - first) / width), {}).setdefault(task, []).append(step)
    return [
        _lane_point(first + index * width, list(tasks.values()))
        for index, tasks in sorted(seen.items())
    ]


def _lane_point(at: float, tasks: Sequence[Sequence[_Step]]) -> LanePoint:
    """Sum up one interval. ``tasks``: for each, its steps in the interval."""

    def mean(of: Callable[[LaneSample], float]) -> float:
        return sum(sum(of(now) for _, now in steps) / len(steps) for steps in tasks)

    def added(of: Callable[[LaneSample], float]) -> float:
        return sum(max(0.0, of(now) - of(before)) for steps in tasks for before, now in steps)

    passed = added(lambda sample: sample.at)
    return LanePoint(
        at=dt.datetime.fromtimestamp(at, dt.UTC),
        in_flight_bytes=int(mean(lambda sample: sample.in_flight_bytes)),
        wire_bytes=int(added(lambda sample: sample.wire_bytes)),
        busy_lanes=round(mean(lambda sample: sample.busy_lanes)),
        waited=min(1.0, added(lambda sample: sample.waited_seconds) / passed) if passed else 0.0,
        parked_records=int(mean(lambda sample: sample.parked_records)),
        reopened=int(added(lambda sample: sample.reopened)),
    )


def lane_accounts(receipts: Sequence[Receipt]) -> list[LaneAccount]:
    """Return the account of each lane of each task. A task has a receipt for every scan of the
    files; its lanes are the same ones again."""
    found: dict[tuple[int, int], LaneAccount] = {}
    for receipt in receipts:
        for lane, work in enumerate(receipt.lanes):
            account = found.setdefault(
                (receipt.task, lane),
                LaneAccount(
                    task=receipt.task, lane=lane, transactions=0, bytes=0, busy_seconds=0.0
                ),
            )
            account.transactions += work.transactions
            account.bytes += work.bytes
            account.busy_seconds += work.busy_seconds
            account.reopened += work.reopened
    return [found[key] for key in sorted(found)]
