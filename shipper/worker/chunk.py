"""A chunk: the records that go to Kafka, and what the ledger will say of them.

A chunk's values stay in Arrow until a batch is filled with them.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from shipper.kafka.batch_call import PackedArray
from shipper.ledger.records import ChunkValue
from shipper.types import Header


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
    ordinals: Sequence[int] | None = None
    """Ordinals of the records in their split, for people."""
    some_without_key: bool = True
    """Records without a key go to one partition, chunk by chunk; those with one where Java's
    producer would put them."""
    sequence: int | None = None
    """Chunks of the same sequence keep their order in a partition, also across retries: they share
    a lane and a partition."""
    sticky_partition: int | None = None
    """The partition that earlier chunks of its sequence went to, if there are any; the pool chooses
    one for a sequence that begins."""
    split: int = 0
    """Spark's hash of the split that it is of."""
    entry: ChunkValue | None = None
    """Ledger's entry for the chunk, for whoever counts deliveries."""
    partition: int | None = None
    """Chosen by the lane that sends it."""
    records: int = field(init=False)
    """Number of its records; stays when the records themselves are dropped."""
    record_bytes: float = field(init=False)
    """Bytes of key, value and headers of a record, on average; of headers, by some records."""
    serial: int = field(init=False, default=0)
    """The pool's: in which order chunks were submitted."""
    delivered: bool = field(init=False, default=False)
    """The pool's: it is certainly in Kafka."""

    def __post_init__(self) -> None:
        self.records = len(self.values)
        headers, count = self.headers or (), max(1, self.records)
        some = {0, count // 2, count - 1} if headers else set[int]()
        beside = sum(header_bytes(headers[at : at + 1][0]) for at in some)
        self.record_bytes = self.size_bytes / count + beside / max(1, len(some))

    @property
    def held_bytes(self) -> int:
        """Bytes of its values, keys and headers."""
        return round(self.records * self.record_bytes)

    @property
    def needs_partition(self) -> bool:
        return self.some_without_key and self.records > 0

    def drop_records(self) -> None:
        """Free the memory; what identifies the chunk stays."""
        self.values, self.keys, self.headers, self.timestamps_ms = (), None, None, None
        self.ordinals = None


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


class NumberedHeaders(Sequence[list[Header]]):
    """Headers of records that are sent without transactions: each record's own, and which record of
    which split it is, so that consumers know one that comes twice."""

    BYTES = 64
    """Bytes that its own headers take at most."""

    def __init__(
        self, split: bytes, ordinals: Sequence[int], own: Sequence[Sequence[Header]] | None
    ) -> None:
        """``split``: what names the split, each time the same."""
        digest = hashlib.blake2b(split, digest_size=8).hexdigest()
        self._chunk = "shipper-chunk", digest.encode()
        self._ordinals, self._own = ordinals, own

    def __len__(self) -> int:
        return len(self._ordinals)

    def __getitem__(self, index: Any) -> Any:
        own = itertools.repeat(()) if self._own is None else self._own[index]
        return [
            [*mine, self._chunk, ("shipper-number", b"%d" % (ordinal + 1))]
            for mine, ordinal in zip(own, self._ordinals[index], strict=False)
        ]


#: Bytes of the lengths of a header's name and value in a batch, about.
HEADER_OVERHEAD_BYTES = 4


def header_bytes(headers: Iterable[Header]) -> int:
    """Return the bytes that a record's headers take in a batch: names, values and their lengths."""
    return sum(len(name.encode()) + len(value) + HEADER_OVERHEAD_BYTES for name, value in headers)


def header_pairs(row: dict[str, bytes | None]) -> list[Header]:
    return [(name, value) for name, value in row.items() if value is not None]
