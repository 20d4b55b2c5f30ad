"""Progress of a ship, read where it counts: from the ledger on the target cluster."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Callable, Iterable

from shipper import runtime
from shipper.config.units import format_bytes, format_duration, plural
from shipper.errors import DeliveryError, ShipperError
from shipper.ledger.log import LedgerLog, ask_committed
from shipper.report.progress import ShipProgress
from shipper.terminal import say
from shipper.types import FileId, SplitId
from shipper.worker.order import ShipOrder

_EVERY_SECONDS = 5.0
_LOOK_SECONDS = 0.5
"""Interval at which a ship looks whether its right to send is gone."""
_SILENT_SECONDS = 60.0
"""Between lines that say that there is nothing to say."""
#: Factor by which a commit may take longer than under the rate limit alone.
_COMMITS = 3

log = logging.getLogger("shipper.progress")


#: Progress of reading in any form: only a change of it matters.
ReadSoFar = Callable[[], object]


class Progress:
    """Watcher of a ship, for a ``with`` block: it tails the ledger and prints a line every five
    seconds; it stops the job when superseded, or when nothing was read (as ``read_so_far`` says)
    and nothing committed for the order's ``stall_seconds``."""

    def __init__(
        self,
        ledger: LedgerLog,
        order: ShipOrder,
        superseded: runtime.Event,
        stop_job: Callable[[], object],
        read_so_far: ReadSoFar = lambda: None,
        tell: Callable[[ShipProgress], object] = lambda progress: None,
    ) -> None:
        """Prepare the watcher. ``tell``: gets the figures every five seconds, and must return at
        once."""
        self._ledger = ledger
        self._order = order
        self._superseded = superseded
        self._stop_job = stop_job
        self._done = runtime.Event()
        self._thread = runtime.Thread(target=self._watch, name="progress", daemon=True)
        self._offset = order.chunks_end
        self._records = 0
        self._bytes = 0
        self._wire_bytes = 0
        self._parked: tuple[str, ...] = ()
        self._ended: set[SplitId] = set()
        self._sizes = _split_sizes(split.id for split in order.splits.values())
        self._size_bytes = sum(self._sizes.values())
        self._plain = {split.id for split in order.splits.values() if split.counts_bytes}
        self._passed: dict[SplitId, int] = {}
        """Split → bytes of the file that are committed."""
        self._read_so_far = read_so_far
        self._tell = tell
        self._began = runtime.now()
        self._told_before = (0.0, 0)
        """Seconds since the beginning and records, of the figures that were told last."""
        self._was_read: object = None
        self._moved_at = runtime.monotonic()
        self.stalled: DeliveryError | None = None
        """Error with which the job was stopped because nothing moved."""
        self._silent_until = self._unread_until = self._empty_until = 0.0
        self._told: tuple[object, ...] = ()
        """The figures of the last line."""

    def __enter__(self) -> Progress:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        began = runtime.monotonic()
        next_line = began + _EVERY_SECONDS
        while not self._done.wait(_LOOK_SECONDS):
            if self._superseded.is_set():
                self._stop_job()
                return
            if runtime.monotonic() >= next_line:
                next_line = runtime.monotonic() + _EVERY_SECONDS
                try:
                    self._line(runtime.monotonic() - began)
                    self._look_for_a_stall()
                except Exception:
                    # Only this thread stops a job that was taken over, so nothing that it prints
                    # may end it.
                    log.info("progress cannot be shown", exc_info=True)
                if self.stalled is not None:
                    self._stop_job()
                    return

    def _look_for_a_stall(self) -> None:
        was_read = self._read_so_far()
        if was_read != self._was_read:
            self._was_read, self._moved_at = was_read, runtime.monotonic()
        allowed = max(self._order.stall_seconds, _COMMITS * self._seconds_per_commit())
        if runtime.monotonic() - self._moved_at <= allowed:
            return
        parked = f" Records wait for {', '.join(self._parked)}." if self._parked else ""
        self.stalled = DeliveryError(
            f"cluster {self._order.cluster}: no line was read and no chunk was committed for "
            f"{format_duration(allowed)} (`delivery.stall_timeout`). The ship of pipeline "
            f"{self._order.pipeline} was stopped with {len(self._ended)} of "
            f"{plural(len(self._order.splits), 'split')} done.{parked} What was committed is "
            "in the ledger. Check three causes: the storage of the files does not answer, a "
            "regular expression in `records` or in a check never ends on some line, or Spark "
            "has no free cores. Then run again: only the rest is sent.",
            code="SHIP-608",
        )
        say(self.stalled.message)

    def _seconds_per_commit(self) -> float:
        """Return the seconds per commit at the rate limit, where the lanes of a task take turns."""
        order = self._order
        if not order.rate_limit_bytes:
            return 0.0
        return (
            order.tasks * order.tuning.chunk_bytes / max(1.0, order.ratio) / order.rate_limit_bytes
        )

    def _line(self, seconds: float) -> None:
        try:
            self._read()
        except ShipperError as error:
            if seconds < self._unread_until:
                return
            self._unread_until = seconds + _SILENT_SECONDS
            say(f"{self._order.cluster}: progress cannot be read right now: {error}")
            return
        if not self._records and not self._ended:
            self._empty_until = seconds
        self._tell(self._figures(seconds))
        if self._empty_until == seconds:
            if seconds >= self._silent_until:
                self._silent_until = seconds + _SILENT_SECONDS
                say(
                    f"{self._order.cluster}: nothing is committed yet, {format_duration(seconds)} "
                    "after Spark began to start tasks"
                )
            return
        figures = (self._records, len(self._ended), self._parked)
        if figures == self._told and seconds < self._silent_until:
            return  # it would be that line again, with another rate
        self._told, self._silent_until = figures, seconds + _SILENT_SECONDS
        left = self._figures(seconds).seconds_left
        eta = "" if left is None else f", about {format_duration(left)} left"
        sending = seconds - self._sending_since(seconds)
        parked = f"; records wait for {', '.join(self._parked)}" if self._parked else ""
        say(
            f"{self._order.cluster}: {plural(self._records, 'record')} "
            f"({format_bytes(self._bytes)}), {self._share:.0%} of "
            f"{format_bytes(self._size_bytes)} in files, "
            f"{self._records / sending:,.0f} records/s, "
            f"{format_bytes(self._wire_bytes / sending)}/s on the wire{eta}{parked}"
        )

    def _sending_since(self, seconds: float) -> float:
        """Return when sending began: at the last look that found nothing committed, or before it,
        if the rate limit needs longer for what is committed by now."""
        limit = self._order.rate_limit_bytes
        needed = self._wire_bytes / limit if limit else 0.0
        return max(0.0, min(self._empty_until, seconds - needed))

    def _figures(self, seconds: float) -> ShipProgress:
        (before, records), self._told_before = self._told_before, (seconds, self._records)
        return ShipProgress(
            cluster=self._order.cluster,
            began=self._began + dt.timedelta(seconds=self._sending_since(seconds)),
            at=self._began + dt.timedelta(seconds=seconds),
            records=self._records,
            bytes=self._bytes,
            wire_bytes=self._wire_bytes,
            records_per_second=(self._records - records) / max(0.001, seconds - before),
            splits=len(self._order.splits),
            splits_done=len(self._ended),
            share=self._share,
            parked=self._parked,
        )

    def _read(self) -> None:
        for chunk in self._ledger.look(ask_committed(self._offset)):
            key, value = chunk.key, chunk.value
            self._moved_at = runtime.monotonic()
            self._records += value.records if key.topic else 0
            self._bytes += value.bytes
            self._wire_bytes += value.wire_bytes or 0
            self._parked = tuple(value.parked or ())
            size, passed = self._sizes.get(key.split, 0), self._passed.get(key.split, 0)
            if value.end:
                self._ended.add(key.split)
                passed = size
            elif key.split in self._plain:  # a line is as long as it was, and has its end
                passed = min(size, passed + value.bytes + value.records)
            self._passed[key.split] = passed
            self._offset = chunk.offset + 1

    @property
    def _share(self) -> float:
        return sum(self._passed.values()) / self._size_bytes if self._size_bytes else 0.0


def _split_sizes(splits: Iterable[SplitId]) -> dict[SplitId, int]:
    """Return split → its bytes: up to where the next split of its file starts."""
    found: dict[SplitId, int] = {}
    ends: dict[FileId, int] = {}
    for split in sorted(splits, key=lambda split: split.start, reverse=True):
        # Of a packed file that has grown, a split begins at a byte of its content.
        found[split] = max(0, ends.get(split.file, split.file.size_bytes) - split.start)
        ends[split.file] = split.start
    return found
