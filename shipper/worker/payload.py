"""The chunks of a slice: the records that go to Kafka, and what the ledger will say of them.

A chunk's values stay in Arrow until a batch is filled with them. Lines that share a Kafka record (a bundle) are joined in Arrow: Python sees
bundles, never lines. What a bundle of one line holds is that line as it is. So every value has a form: a null, which cannot be joined, and a
value with a ``\\n`` in it, which could not be taken apart again, each travel as a bundle of one.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from shipper.config.records import LINES_HEADER
from shipper.kafka.packed import PackedArray
from shipper.ledger.codec import encode_chunk_key, encode_chunk_value
from shipper.ledger.intervals import MOST_RUNS, Interval, encode_ordinals
from shipper.ledger.quarantine import QuarantineHeaders
from shipper.ledger.records import ChunkKey, ChunkValue, spark_hash
from shipper.types import Header
from shipper.worker.assign import Rejection, Rows
from shipper.worker.cut import SplitSlice
from shipper.worker.order import OrderedSplit, QuarantineOrder, ShipOrder

UTF8_BOM = b"\xef\xbb\xbf"
_SEPARATOR = b"\n"
#: Key and headers that a record in quarantine keeps, together. The value may have as much as the topic takes, nearly.
_MOST_BESIDE_BYTES = 16_384
_UINT64 = 1 << 64

#: Adds to a ledger record what is known only when it is written.
AtCommit = Callable[[ChunkValue], ChunkValue]


@dataclass(eq=False)
class Chunk:
    """Records of one topic that are delivered together, with the ledger record that says so. Equal to itself alone."""

    topic: str
    """Empty for a chunk without records: then only the ledger record is written."""
    values: Sequence[bytes | None]
    """Sliced batch by batch, so it may make its objects when it is asked for them."""
    size_bytes: int
    """Of values and keys."""
    ledger_key: bytes
    ledger_value: Callable[[int | None, str | None], bytes]
    """Given the partition that all records without a key went to (None if each has a key, or there is none), and the id of the topic that took
    them (None if nobody can tell, or there is none)."""
    label: str
    """For people: which file and which records."""
    keys: Sequence[bytes | None] | None = None
    headers: Sequence[list[Header]] | None = None
    timestamps_ms: Sequence[int] | None = None
    some_without_key: bool = True
    """Records without a key go to one partition, chunk by chunk; those with one where Java's producer would put them."""
    sequence: int | None = None
    """Chunks of the same sequence keep their order in a partition, also across retries: they share a lane and a partition."""
    home: int | None = None
    """The partition that earlier chunks of its sequence went to, if there are any; the pool chooses one for a sequence that begins."""
    lines: int | None = None
    """What its records count as, if they are bundles of lines; None: each counts as one."""
    split: int = 0
    """Spark's hash of the split that it is of."""
    entry: ChunkValue | None = None
    """What the ledger will say of it, for who counts what is delivered."""
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
        """Frees the memory; what identifies the chunk stays."""
        self.values, self.keys, self.headers, self.timestamps_ms = (), None, None, None


class SlicePayload:
    """Makes the chunks of one slice. Ordinals are of its split; ``home``: topic → the partition where its file went on until now."""

    def __init__(self, part: SplitSlice, order: ShipOrder, home: Callable[[str], int | None], at_commit: AtCommit) -> None:
        self._part = part
        self._order = order
        self._split = split = order.splits[part.split]
        self._home = home if order.in_order else lambda topic: None
        self._at_commit = at_commit
        self._sequence = zlib.crc32(split.id.file.path.encode()) if order.in_order else None
        self.read: int | None = None
        """Bytes of the file that the split accounts for, if it ends with the slice."""
        self._nothing = ChunkValue(
            last=0,
            end=False,
            records=0,
            bytes=0,
            checksum=0,
            digest=order.digest,
            generation=order.generation,
            run_id=order.run_id,
            window=split.window or order.window,
            splits=split.of,
            spark=order.spark,
            etag=split.etag,
            head=split.head,
        )

    def shipped(self, topic: str, ordinals: range | Rows, first: int, end: int, missing: Rows, *, ends_split: bool) -> Chunk:
        """The records ``ordinals`` of [first, end). ``missing``: those of the interval that belong to the topic and are in quarantine."""
        table = self._rows(ordinals)
        values, names = table.column("value"), table.schema.names
        checksum = sum(int(part.to_numpy().view(np.uint64).sum(dtype=np.uint64)) for part in table.column("checksum").chunks)
        if self._split.bom and ordinals[0] == 0:
            without = values[0].as_py()
            values = pa.chunked_array([pa.array([UTF8_BOM + without], values.type), *values.slice(1).chunks])
            checksum += spark_hash(values[0].as_py()) - spark_hash(without)
        keys = table.column("key") if "key" in names else None
        entry = replace(
            self._nothing,
            last=end,
            end=ends_split,
            read=self.read if ends_split else None,
            records=len(values),
            bytes=_bytes(values) + (0 if keys is None else _bytes(keys)),
            checksum=checksum % _UINT64,
            without=encode_ordinals(runs(missing)) or None,
        )
        if self._order.bundle is not None:
            found = bundled(values, self._order.bundle.max_bytes, all_lines=self._order.bundle.all_lines)
            headers = [[(LINES_HEADER, b"%d" % lines), *self._split.headers] for lines in found.lines]
            entry = replace(entry, bundles=len(headers))
            return self._chunk(topic, first, entry, LazyColumn(pa.chunked_array([found.values])), headers=headers)
        return self._chunk(
            topic,
            first,
            entry,
            LazyColumn(values),
            keys=None if keys is None else LazyColumn(keys),
            some_without_key=keys is None or keys.null_count > 0,
            headers=LazyColumn(table.column("headers"), _header_pairs) if "headers" in names else None,
            # librdkafka reads 0 as "now"; a record that has this time is not shipped
            timestamps_ms=LazyColumn(table.column("timestamp").fill_null(0)) if "timestamp" in names else None,
        )

    def _rows(self, ordinals: range | Rows) -> pa.Table:
        if isinstance(ordinals, range):
            return self._part.table.slice(ordinals[0] - self._part.first, len(ordinals))
        return self._part.table.take(pa.array(ordinals - self._part.first))

    def quarantined(self, rejected: Sequence[Rejection]) -> Iterator[Chunk]:
        """Each so small that the ledger's record of it is. Nothing without a quarantine."""
        quarantine = self._order.quarantine
        if not rejected or quarantine is None:
            return
        rows = np.concatenate([rejection.rows for rejection in rejected])
        groups = np.repeat(np.arange(len(rejected)), [len(rejection.rows) for rejection in rejected])
        in_order = np.argsort(rows)
        for start in range(0, len(rows), MOST_RUNS):
            part = in_order[start : start + MOST_RUNS]
            ordinals = rows[part] + self._part.first
            of_rows = [rejected[group] for group in groups[part]]
            taken = self._part.table.take(pa.array(rows[part]))
            whole = [
                _as_read(value, self._split, ordinal)
                for value, ordinal in zip(taken.column("value").to_pylist(), ordinals, strict=True)
            ]
            values = [_kept(value, quarantine.keep_bytes) for value in whole]
            entry = replace(
                self._nothing,
                last=int(ordinals[-1]) + 1,
                records=len(values),
                bytes=sum(len(value or b"") for value in values),
                checksum=sum(map(spark_hash, values)) % _UINT64,
                reasons=dict(Counter(rejection.reason for rejection in of_rows)),
                ordinals=encode_ordinals(runs(ordinals)),
            )
            marked = {row for of_mark in self._part.marked.values() for row in of_mark}
            of_part = [row in marked for row in rows[part].tolist()]
            cut = [value != kept for value, kept in zip(whole, values, strict=True)]
            headers = [
                self._quarantine_headers(quarantine, *of_row)
                for of_row in zip(of_rows, ordinals.tolist(), of_part, cut, *_beside(taken, self._split.headers), strict=True)
            ]
            yield self._chunk(quarantine.topic, int(ordinals[0]), entry, values, headers=headers)

    def _quarantine_headers(
        self, quarantine: QuarantineOrder, rejection: Rejection, ordinal: int, of_part: bool, cut: bool,
        key: bytes | None, own: Sequence[Header], timestamp_ms: int | None,
    ) -> list[Header]:  # fmt: skip
        """``of_part``: Spark saw only a part of the record, and made key, headers and time of it."""
        sizes = [len(key or b""), *(len(value) for _, value in own)]
        if of_part or max(sizes) > quarantine.keep_bytes or sum(sizes) > _MOST_BESIDE_BYTES:
            cut, key, own = True, None, ()
        split = self._split.id
        headers = QuarantineHeaders(
            self._order.pipeline, split.file.path, split.start, ordinal + 1, rejection.reason, self._order.run_id, rejection.topic,
            cut, key, None if of_part else timestamp_ms, tuple(own),
        )  # fmt: skip
        return headers.encode()

    def dropped(self, first: int, end: int, filtered: dict[str, int]) -> Chunk:
        """For the ledger alone. ``filtered``: rule → lines of [first, end) that it took."""
        entry = replace(self._nothing, last=end, records=sum(filtered.values()), filtered=filtered)
        return self._chunk("", first, entry)

    def split_end(self) -> Chunk:
        """For the ledger alone: the split ends with the slice."""
        return self._chunk("", self._part.end, replace(self._nothing, last=self._part.end, end=True, read=self.read))

    def _chunk(self, topic: str, first: int, entry: ChunkValue, values: Sequence[bytes | None] = (), **columns: Any) -> Chunk:
        split, at_commit, keyed = self._split.id, self._at_commit, columns.get("keys") is not None

        def ledger_value(
            partition: int | None, topic_id: str | None
        ) -> bytes:  # outlives the chunk's records, and must not hold them
            return encode_chunk_value(replace(at_commit(entry), partition=None if keyed else partition, topic_id=topic_id))

        return Chunk(
            topic,
            values,
            entry.bytes + (entry.records - len(values) if len(values) else 0),  # with what joins the lines of bundles
            encode_chunk_key(self._order.pipeline, ChunkKey(split, first, topic)),
            ledger_value,
            f"{split.file.path} (split at byte {split.start}, records {first + 1}–{entry.last} to topic {topic})",
            sequence=self._sequence,
            home=self._home(topic),
            lines=entry.records,
            split=self._part.split,
            entry=entry,
            **columns,
        )


def runs(ordinals: Rows) -> Iterator[Interval]:
    """Of consecutive numbers, as long as they can be."""
    if len(ordinals):
        breaks = np.flatnonzero(np.diff(ordinals) > 1)
        firsts, ends = ordinals[np.r_[0, breaks + 1]], ordinals[np.r_[breaks, -1]] + 1
        yield from map(Interval, firsts.tolist(), ends.tolist())


def _as_read(value: bytes | None, split: OrderedSplit, ordinal: int) -> bytes | None:
    return UTF8_BOM + (value or b"") if split.bom and ordinal == 0 else value


def _beside(rows: pa.Table, of_file: Sequence[Header]) -> tuple[list[Any], list[Any], list[Any]]:
    """Return each row's key, headers and time. ``of_file``: headers where rows have none of their own."""
    key, headers, timestamp = (
        rows.column(name).to_pylist() if name in rows.schema.names else None for name in ("key", "headers", "timestamp")
    )
    nothing = [None] * len(rows)
    return key or nothing, [of_file] * len(rows) if headers is None else list(map(_header_pairs, headers)), timestamp or nothing


def _kept(value: bytes | None, keep_bytes: int) -> bytes | None:
    return None if value is None else value[:keep_bytes]


class LazyColumn(Sequence[Any]):
    """An Arrow column as a sequence whose slices are lists: Python objects exist only for the batch that is being filled,
    which keeps them in the processor's cache and a chunk at the size that it has in Arrow."""

    def __init__(self, column: pa.ChunkedArray, convert: Callable[[Any], Any] | None = None) -> None:
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
        """See shipper.kafka.packed.PackedValues."""
        part = self._column.slice(first, end - first)
        if self._convert is not None or part.null_count or part.type != pa.binary():
            return None
        return (_packed(array) for array in part.chunks if len(array))


def _packed(array: pa.BinaryArray) -> PackedArray:
    _, offsets, data = array.buffers()
    found = np.frombuffer(offsets, dtype=np.int32)[array.offset : array.offset + len(array) + 1]
    # Empty values need no bytes, but no null pointer either.
    return PackedArray(found, data.address if data is not None else offsets.address)


def _header_pairs(row: dict[str, bytes | None]) -> list[Header]:
    return [(name, value) for name, value in row.items() if value is not None]


def _bytes(column: pa.ChunkedArray) -> int:
    return pc.sum(pc.binary_length(column)).as_py() or 0


@dataclass(frozen=True)
class Bundles:
    """``values[i]`` holds ``lines[i]`` lines, joined by ``\\n``."""

    values: pa.Array
    lines: list[int]


def bundled(values: pa.ChunkedArray, max_bytes: int, *, all_lines: bool) -> Bundles:
    """Joins consecutive values into bundles of at most ``max_bytes``, separators included; a longer value is a bundle of its own.

    ``all_lines``: no value holds a ``\\n``, so that none has to be looked for (as it is for a line that nothing has changed).
    """
    array = values.combine_chunks()
    borders = _borders(_ends(array), max_bytes, _alone(array, all_lines))
    lists = pa.ListArray.from_arrays(pa.array(borders, pa.int32()), array)
    return Bundles(pc.binary_join(lists, _SEPARATOR), np.diff(borders).tolist())


def _ends(array: pa.Array) -> npt.NDArray[np.int64]:
    """Where each value would begin, and the last one end, if every one were followed by a separator."""
    offsets = np.frombuffer(array.buffers()[1], dtype=np.int32)[array.offset : array.offset + len(array) + 1]
    return offsets.astype(np.int64) - int(offsets[0]) + np.arange(len(array) + 1)


def _alone(array: pa.Array, all_lines: bool) -> npt.NDArray[np.int64]:
    """Numbers of the values that must not be joined."""
    if all_lines and not array.null_count:
        return np.empty(0, np.int64)
    breaks = pc.fill_null(pc.match_substring(array, _SEPARATOR.decode()), True)
    return np.flatnonzero(breaks.to_numpy(zero_copy_only=False))


def _borders(ends: npt.NDArray[np.int64], max_bytes: int, alone: npt.NDArray[np.int64]) -> list[int]:
    """Number of the first value of each bundle, and the end of the last one. A step for each bundle, not for each value."""
    count = len(ends) - 1
    stops = np.unique(np.concatenate([alone, alone + 1, [count]]))
    borders = [0]
    while (start := borders[-1]) < count:
        # The last value is followed by no separator: one byte more fits.
        end = int(np.searchsorted(ends, ends[start] + max_bytes + 1, side="right")) - 1
        stop = int(stops[np.searchsorted(stops, start, side="right")])
        borders.append(min(max(start + 1, end), stop))
    return borders
