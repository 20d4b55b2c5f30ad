"""A chunk: the records that go to Kafka, and what the ledger will say of them.

A chunk's values stay in Arrow until a batch is filled with them. Lines that share a Kafka record (a
bundle) are joined in Arrow: Python sees bundles, never lines. What a bundle of one line holds is
that line as it is. So every value has a form: a null, which cannot be joined, and a value with a
``\\n`` in it, which could not be taken apart again, each travel as a bundle of one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from shipper.kafka.packed import PackedArray
from shipper.ledger.records import ChunkValue
from shipper.types import Header

_SEPARATOR = b"\n"


@dataclass(eq=False)
class Chunk:
    """Records of one topic that are delivered together, with the ledger record that says so. Equal
    to itself alone."""

    topic: str
    """Topic; empty for a chunk without records: then only the ledger record is written."""
    values: Sequence[bytes | None]
    """Sliced batch by batch, so it may make its objects when it is asked for them."""
    size_bytes: int
    """Bytes of values and keys."""
    ledger_key: bytes
    ledger_value: Callable[[int | None, str | None], bytes]
    """Call with the partition that all records without a key went to (None if each has a key, or
    there is none), and the id of the topic that took them (None if it is unknown, or there is
    none)."""
    label: str
    """File and records of the chunk, for people."""
    keys: Sequence[bytes | None] | None = None
    headers: Sequence[list[Header]] | None = None
    timestamps_ms: Sequence[int] | None = None
    some_without_key: bool = True
    """Records without a key go to one partition, chunk by chunk; those with one where Java's
    producer would put them."""
    sequence: int | None = None
    """Chunks of the same sequence keep their order in a partition, also across retries: they share
    a lane and a partition."""
    sticky_partition: int | None = None
    """The partition that earlier chunks of its sequence went to, if there are any; the pool chooses
    one for a sequence that begins."""
    lines: int | None = None
    """Number of lines, if the records are bundles of lines; None: each record counts as one."""
    split: int = 0
    """Spark's hash of the split that it is of."""
    entry: ChunkValue | None = None
    """Ledger's entry for the chunk, for whoever counts deliveries."""
    partition: int | None = None
    """Chosen by the lane that sends it."""
    records: int = field(init=False)
    """Kafka records in it; stays when the records themselves are dropped."""
    serial: int = field(init=False, default=0)
    """The pool's: in which order chunks were submitted."""
    delivered: bool = field(init=False, default=False)
    """The pool's: it is certainly in Kafka."""

    def __post_init__(self) -> None:
        self.records = len(self.values)

    @property
    def counted(self) -> int:
        """Records, or the lines in them: what people are told."""
        return self.records if self.lines is None else self.lines

    @property
    def needs_partition(self) -> bool:
        return self.some_without_key and self.records > 0

    def drop_records(self) -> None:
        """Free the memory; what identifies the chunk stays."""
        self.values, self.keys, self.headers, self.timestamps_ms = (), None, None, None


class LazyColumn(Sequence[Any]):
    """An Arrow column as a sequence whose slices are lists: Python objects exist only for the batch
    that is being filled, which keeps them in the processor's cache and a chunk at the size that it
    has in Arrow."""

    def __init__(
        self, column: pa.ChunkedArray, convert: Callable[[Any], Any] | None = None
    ) -> None:
        self._column = column
        self._convert = convert

    def __len__(self) -> int:
        return len(self._column)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            first, end, _ = index.indices(len(self._column))
            found = self._column.slice(first, end - first).to_pylist()
            return found if self._convert is None else [self._convert(item) for item in found]
        found = self._column[index].as_py()
        return found if self._convert is None else self._convert(found)

    def packed(self, first: int, end: int) -> Iterator[PackedArray] | None:
        """Return values [first, end) as they lie in memory; None if some value is null. The memory
        stays as it is until the iterator goes on."""
        part = self._column.slice(first, end - first)
        if self._convert is not None or part.null_count or part.type != pa.binary():
            return None
        return (_packed(array) for array in part.chunks if len(array))


def _packed(array: pa.BinaryArray) -> PackedArray:
    _, offsets, data = array.buffers()
    found = np.frombuffer(offsets, dtype=np.int32)[array.offset : array.offset + len(array) + 1]
    # Empty values need no bytes, but no null pointer either.
    return PackedArray(found, data.address if data is not None else offsets.address)


def header_pairs(row: dict[str, bytes | None]) -> list[Header]:
    return [(name, value) for name, value in row.items() if value is not None]


@dataclass(frozen=True)
class Bundles:
    """``values[i]`` holds ``lines[i]`` lines, joined by ``\\n``."""

    values: pa.Array
    lines: list[int]


def bundle_values(values: pa.ChunkedArray, max_bytes: int, *, all_lines: bool) -> Bundles:
    """Join consecutive values into bundles of at most ``max_bytes``, separators included; a longer
    value is a bundle of its own.

    ``all_lines``: no value holds a ``\\n``, so that none has to be looked for (as it is for a line
    that nothing has changed).
    """
    array = values.combine_chunks()
    borders = _borders(_ends(array), max_bytes, _alone(array, all_lines))
    lists = pa.ListArray.from_arrays(pa.array(borders, pa.int32()), array)
    return Bundles(pc.binary_join(lists, _SEPARATOR), np.diff(borders).tolist())


def _ends(array: pa.Array) -> npt.NDArray[np.int64]:
    """Return where each value would begin, and the last one end, if a separator followed each."""
    offsets = np.frombuffer(array.buffers()[1], dtype=np.int32)[
        array.offset : array.offset + len(array) + 1
    ]
    return offsets.astype(np.int64) - int(offsets[0]) + np.arange(len(array) + 1)


def _alone(array: pa.Array, all_lines: bool) -> npt.NDArray[np.int64]:
    """Return the numbers of the values that must not be joined."""
    if all_lines and not array.null_count:
        return np.empty(0, np.int64)
    breaks = pc.fill_null(pc.match_substring(array, _SEPARATOR.decode()), True)
    return np.flatnonzero(breaks.to_numpy(zero_copy_only=False))


def _borders(
    ends: npt.NDArray[np.int64], max_bytes: int, alone: npt.NDArray[np.int64]
) -> list[int]:
    """Number of the first value of each bundle, and the end of the last one. A step for each
    bundle, not for each value."""
    count = len(ends) - 1
    stops = np.unique(np.concatenate([alone, alone + 1, [count]]))
    borders = [0]
    while (start := borders[-1]) < count:
        # The last value is followed by no separator: one byte more fits.
        end = int(np.searchsorted(ends, ends[start] + max_bytes + 1, side="right")) - 1
        stop = int(stops[np.searchsorted(stops, start, side="right")])
        borders.append(min(max(start + 1, end), stop))
    return borders
