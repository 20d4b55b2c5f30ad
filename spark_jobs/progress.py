"""Progress of a ship, read where it counts: from the ledger on the target cluster."""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from types import TracebackType

from shipper.config.units import format_bytes, format_duration
from shipper.delivery.ledger_log import LedgerLog
from shipper.delivery.order import Receipt, ShipOrder
from shipper.errors import ShipperError
from shipper.ledger.records import ChunkKey, ChunkValue, decode
from shipper.report.results import LaneAccount, LanePoint, TimelinePoint
from shipper.terms import LogRecord
from spark_jobs.context import say

_EVERY_SECONDS = 5.0
_MOST_POINTS = 600


class Progress:
    """While the ``with`` block runs: tails the ledger and prints a line every five seconds; stops the job when superseded."""

    def __init__(self, ledger: LedgerLog, order: ShipOrder, superseded: threading.Event, stop_job: Callable[[], object]) -> None:
        self._ledger = ledger
        self._order = order
        self._superseded = superseded
        self._stop_job = stop_job
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="progress", daemon=True)
        self._offset = order.chunks_end
        self._records = 0
        self._bytes = 0
        self._wire_bytes = 0
        self._parked: tuple[str, ...] = ()
        self._ended: set[object] = set()

    def __enter__(self) -> Progress:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        began = time.monotonic()
        next_line = began + _EVERY_SECONDS
        while not self._done.wait(0.5):
            if self._superseded.is_set():
                self._stop_job()
                return
            if time.monotonic() >= next_line:
                next_line = time.monotonic() + _EVERY_SECONDS
                self._line(time.monotonic() - began)

    def _line(self, seconds: float) -> None:
        try:
            self._read()
        except ShipperError as error:
            say(f"{self._order.cluster}: progress cannot be read right now: {error}")
            return
        share = len(self._ended) / max(1, len(self._order.splits))
        eta = f", about {format_duration(seconds / share - seconds)} left" if share > 0.02 else ""
        rate = self._records / seconds
        parked = f"; parked: {', '.join(self._parked)}" if self._parked else ""
        say(
            f"{self._order.cluster}: {self._records:,} records ({format_bytes(self._bytes)}), {share:.0%} of {len(self._order.splits)} "
            f"splits, {rate:,.0f} records/s, {format_bytes(self._wire_bytes / seconds)}/s on the wire{eta}{parked}"
        )

    def _read(self) -> None:
        entries = self._ledger.chunks(self._offset, wait_seconds=None)
        for entry in entries:
            match decode(self._order.pipeline, entry):
                case (ChunkKey() as key, ChunkValue() as value):
                    self._records += value.records if key.topic else 0
                    self._bytes += value.bytes
                    self._wire_bytes += value.wire_bytes or 0
                    self._parked = tuple(value.parked or ())
                    if value.end:
                        self._ended.add(key.split)
        if entries:
            self._offset = entries[-1].offset + 1


def timeline(pipeline: str, committed: Sequence[LogRecord], generation: int) -> list[TimelinePoint]:
    """What ``generation`` committed over time, in at most 600 intervals of a second or more, by the broker's timestamps."""
    points: list[tuple[int, ChunkValue]] = []
    for record in committed:
        match decode(pipeline, record):
            case (ChunkKey() as key, ChunkValue() as value) if value.generation == generation and value.records and key.topic:
                points.append((record.timestamp_ms, value))
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

    return [TimelinePoint(at=moment(index), records=records, bytes=size) for index, (records, size) in enumerate(counts)]


def lane_timeline(receipts: Sequence[Receipt]) -> list[LanePoint]:
    """The tasks' samples (see LanePool.sample), summed up in at most 600 intervals of a second or more."""
    rows = [(receipt.task, *now, *before) for receipt in receipts for before, now in pairwise(receipt.samples)]
    if not rows:
        return []
    first, last = min(row[1] for row in rows), max(row[1] for row in rows)
    width = max(1.0, (last - first) / _MOST_POINTS)
    seen: dict[int, dict[int, list[tuple[float, ...]]]] = {}
    for row in rows:
        seen.setdefault(int((row[1] - first) / width), {}).setdefault(int(row[0]), []).append(row[1:])
    return [_lane_point(first + index * width, list(tasks.values())) for index, tasks in sorted(seen.items())]


def _lane_point(at: float, tasks: Sequence[Sequence[tuple[float, ...]]]) -> LanePoint:
    """``tasks``: for each, its samples in the interval, each followed by the one before."""

    def mean(field: int) -> float:
        return sum(sum(row[field] for row in rows) / len(rows) for rows in tasks)

    waited = sum(row[4] - row[11] for rows in tasks for row in rows)
    passed = sum(row[0] - row[7] for rows in tasks for row in rows)
    return LanePoint(
        at=dt.datetime.fromtimestamp(at, dt.UTC),
        in_flight_bytes=int(mean(1)),
        wire_bytes=int(sum(max(0.0, row[2] - row[9]) for rows in tasks for row in rows)),
        busy_lanes=round(mean(3)),
        waited=max(0.0, min(1.0, waited / passed)) if passed else 0.0,
        parked_records=int(mean(5)),
        reopened=int(sum(row[6] - row[13] for rows in tasks for row in rows)),
    )


def lane_accounts(receipts: Sequence[Receipt]) -> list[LaneAccount]:
    """Each lane of each task. A task has a receipt for every pass over the files; its lanes are the same ones again."""
    found: dict[tuple[int, int], LaneAccount] = {}
    for receipt in receipts:
        for lane, (transactions, size, busy, reopened) in enumerate(receipt.lanes):
            account = found.setdefault(
                (receipt.task, lane), LaneAccount(task=receipt.task, lane=lane, transactions=0, bytes=0, busy_seconds=0.0)
            )
            account.transactions += int(transactions)
            account.bytes += int(size)
            account.busy_seconds += busy
            account.reopened += int(reopened)
    return [found[key] for key in sorted(found)]
