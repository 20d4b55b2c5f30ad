"""Slices of splits, cut from Spark's Arrow batches: rows are told apart by split, cut, and read
ahead.

Rows of a split arrive one after the other and in file order; its ordinals count them. A slice is
cut when it has enough bytes and the next row has arrived, so it is always known whether the split
ends with the slice.

Only a row of its own (marks.END) says that a split ends. When something fails in Java (the reader,
an expression of the pipeline) or the task is stopped, Spark closes the stream to Python, and Arrow
takes that for the regular end. The last slice is then the beginning of a split like any other, and
the task fails or is gone a moment later.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Generic, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shipper import runtime
from shipper.worker.marks import BROKEN, END, decode_mark

T = TypeVar("T")

_POLL_SECONDS = 0.2
#: Dropped lines travel without bytes; a file of dropped lines must not become one slice.
_MOST_ROWS = 2_000_000


@dataclass
class SplitSlice:
    """Consecutive rows of one split: ordinals [first, end)."""

    split: int
    """Spark's hash of it."""
    first: int
    batches: list[pa.RecordBatch] = field(default_factory=list)
    rows: int = 0
    bytes: int = 0
    """Bytes of values."""
    beside: int = 0
    """Bytes of keys and headers."""
    marked: dict[int, list[int]] = field(default_factory=dict)
    """Mark (marks.py) → rows that have it."""
    ends_split: bool = False
    stored: int | None = None
    """Bytes that the reader took from the stored file for the split; None if the reader cannot say.
    Only with ``ends_split``."""
    unpacked: int | None = None
    """Unpacked bytes that the reader counted for the split; None if the reader cannot say. Only
    with ``ends_split``."""
    content: str | None = None
    """Sum of the split's unpacked content (shipper.ledger.sums); None if the reader cannot say.
    Only with ``ends_split``."""
    broken: bool = False
    """True if reading stopped here before the end of the split."""

    @property
    def end(self) -> int:
        return self.first + self.rows

    @property
    def held(self) -> int:
        """Bytes of its records, with all that goes to Kafka."""
        return self.bytes + self.beside

    @cached_property
    def table(self) -> pa.Table:
        return pa.Table.from_batches(self.batches)

    @property
    def bytes_read(self) -> int | None:
        """Bytes of the lines as they were read, each with its end; None if a line was not read
        completely."""
        if not self.batches:
            return 0
        if self.marked:
            return None
        if "size" in self.table.schema.names:
            return self.rows + int(pc.sum(self.table.column("size")).as_py() or 0)
        return self.rows + self.bytes


def split_slices(
    batches: Iterator[pa.RecordBatch],
    size: Callable[[], int],
    splits: Container[int] = frozenset(),
) -> Iterator[SplitSlice]:
    """Cut the stream. A slice has about ``size()`` bytes of values, keys and headers, and one row
    at least, unless it is broken or all of an empty split. ``splits``: those that there are;
    without them no row is marked, and nothing ends."""
    part: SplitSlice | None = None
    for arrived in batches:
        for number, batch, start, end in _pieces(arrived):
            split, mark = decode_mark(number, splits)
            if part is not None and part.split != split:
                yield part
                part = None
            if mark == END:
                stored, unpacked, content = _sizes(batch.column("value")[start].as_py())
                yield replace(
                    part or SplitSlice(split, 0),
                    ends_split=True,
                    stored=stored,
                    unpacked=unpacked,
                    content=content,
                )
                part = None
                continue
            if mark == BROKEN:
                yield replace(part or SplitSlice(split, 0), broken=True)
                part = None
                continue
            beside = _bytes_beside(batch)
            while start < end:
                slice_bytes = size()
                if part is not None and (part.held >= slice_bytes or part.rows >= _MOST_ROWS):
                    yield part
                    part = SplitSlice(split, part.end)
                part = part or SplitSlice(split, 0)
                values, room = batch.column("value"), slice_bytes - part.held
                count, taken = _fitting(values, start, end, room, beside)
                part.batches.append(batch.slice(start, count))
                if mark is not None:
                    part.marked.setdefault(mark, []).extend(range(part.rows, part.rows + count))
                part.rows += count
                part.bytes += taken
                part.beside += int(count * beside)
                start += count
    if part is not None:
        yield part


def _pieces(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch, int, int]]:
    """Yield (split and mark, records, first row, end), one after the other."""
    if "ends" not in batch.schema.names:
        for number, start, end in _runs(batch.column("split")):
            yield number, batch, start, end
        return
    split, ends = batch.column("split").to_pylist(), batch.column("ends")
    value, hashes = batch.column("value"), batch.column("hashes")
    for row, number in enumerate(split):
        if ends[row].is_valid:
            records = _unblocked(value, ends, hashes, row)
            yield number, records, 0, records.num_rows
        else:
            yield number, batch, row, row + 1


def _unblocked(
    value: pa.BinaryArray, ends: pa.BinaryArray, hashes: pa.BinaryArray, row: int
) -> pa.RecordBatch:
    """Return the records of a block, where they lie in memory."""
    offsets, data, sums = (_content(column, row) for column in (ends, value, hashes))
    count = offsets.size // 4 - 1
    return pa.record_batch(
        [
            pa.Array.from_buffers(pa.binary(), count, [None, offsets, data], 0),
            pa.Array.from_buffers(pa.int64(), count, [None, sums], 0),
        ],
        names=["value", "checksum"],
    )


def _content(column: pa.BinaryArray, row: int) -> pa.Buffer:
    _, offsets, data = column.buffers()
    first, end = np.frombuffer(offsets, np.int32, 2, 4 * (column.offset + row))
    return data.slice(int(first), int(end - first)) if data is not None else pa.py_buffer(b"")


def _sizes(text: bytes | None) -> tuple[int | None, int | None, str | None]:
    """See marks.SIZES."""
    stored, unpacked, *content = (text or b"-1 -1").decode().split()
    return (
        int(stored) if int(stored) >= 0 else None,
        int(unpacked) if int(unpacked) >= 0 else None,
        content[0] if content else None,
    )


def _runs(split: pa.Array) -> Iterator[tuple[int, int, int]]:
    """Yield (value, first row, end) of each run of equal values."""
    if len(split) == 0:
        return
    runs = pc.run_end_encode(split)
    start = 0
    for value, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
        yield value, start, end
        start = end


def _bytes_beside(batch: pa.RecordBatch) -> float:
    """Return the bytes of a row's key and headers, on average."""
    names = {"key", "headers"}.intersection(batch.schema.names)
    beside: float = sum(batch.column(name).nbytes for name in names) / max(1, batch.num_rows)
    return beside


def _fitting(values: pa.Array, start: int, end: int, room: int, beside: float) -> tuple[int, int]:
    """Return how many rows from ``start`` have ``room`` bytes, at least one, and the bytes of their
    values. ``beside``: bytes of a row besides its value."""
    offsets = np.frombuffer(values.buffers()[1], dtype=np.int32)[
        values.offset + start : values.offset + end + 1
    ]
    sizes = offsets + beside * np.arange(offsets.size) if beside else offsets
    count = max(1, int(np.searchsorted(sizes, int(offsets[0]) + room, side="right")) - 1)
    return count, int(offsets[count] - offsets[0])


class Prefetch(Generic[T]):
    """Iterator over ``source`` in a thread of its own, at most ``depth`` items ahead, from the
    ``with`` block's beginning on: the JVM cuts and converts the next rows while the lanes open and
    deliver the earlier ones.

    What ``source`` raises is raised to the reader. Leaving the block ends the thread, also when
    items are left.
    """

    def __init__(self, source: Iterator[T], depth: int) -> None:
        self._source = source
        self._items: runtime.Queue[tuple[T] | BaseException | None] = runtime.Queue(depth)
        self._stop = runtime.Event()
        self._thread = runtime.Thread(target=self._read, name="prefetch", daemon=True)

    def __enter__(self) -> Iterator[T]:
        self._thread.start()
        return iter(self)

    def __iter__(self) -> Iterator[T]:
        while (item := self._items.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item[0]

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._stop.set()
        # After a failure the thread may be waiting for the JVM, which closes the line to a task
        # that failed.
        self._thread.join(None if error is None else 5.0)

    def _read(self) -> None:
        try:
            for item in self._source:
                self._put((item,))
                if self._stop.is_set():
                    return
            self._put(None)
        except BaseException as error:
            self._put(error)

    def _put(self, item: tuple[T] | BaseException | None) -> None:
        while not self._stop.is_set():
            try:
                return self._items.put(item, timeout=_POLL_SECONDS)
            except runtime.Full:
                continue
