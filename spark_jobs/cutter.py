"""From Spark's Arrow batches to chunks: which rows belong to which split, and where to cut.

Rows of a split arrive one after the other and in file order; its ordinals count them. A piece is cut when it has
enough bytes, but only when the next row is there: so it is always known whether the split ends with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from shipper.config.mapping import LINES_HEADER
from shipper.delivery.order import BundleOrder, OrderedSplit, Receipt, ShipOrder
from shipper.delivery.task import Records, TaskShipment
from shipper.errors import DeliveryError, SourceError
from spark_jobs.bundles import bundled

_UTF8_BOM = b"\xef\xbb\xbf"
_UINT64 = 1 << 64


@dataclass
class Piece:
    """Consecutive rows of one split: ordinals [first, first + rows)."""

    split: int
    first: int
    batches: list[pa.RecordBatch] = field(default_factory=list)
    rows: int = 0
    bytes: int = 0


def pieces(batches: Iterator[pa.RecordBatch], piece_bytes: int) -> Iterator[tuple[Piece, bool]]:
    """Cuts the stream into (piece, whether its split ends there). A piece has about ``piece_bytes`` of values, one row at least."""
    piece: Piece | None = None
    for batch in batches:
        for split, start, stop in _runs(batch.column("split")):
            if piece is not None and piece.split != split:
                yield piece, True
                piece = None
            while start < stop:
                if piece is not None and piece.bytes >= piece_bytes:
                    yield piece, False
                    piece = Piece(split, piece.first + piece.rows)
                piece = piece or Piece(split, 0)
                count, size = _fitting(batch.column("value"), start, stop, piece_bytes - piece.bytes)
                piece.batches.append(batch.slice(start, count))
                piece.rows += count
                piece.bytes += size
                start += count
    if piece is not None:
        yield piece, True


def _runs(split: pa.Array) -> Iterator[tuple[int, int, int]]:
    """(split, first row, row behind the last) of each run of equal values."""
    if len(split) == 0:
        return
    runs = pc.run_end_encode(split)
    start = 0
    for value, stop in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
        yield value, start, stop
        start = stop


def _fitting(values: pa.Array, start: int, stop: int, room: int) -> tuple[int, int]:
    """How many rows from ``start`` have ``room`` bytes, one at least, and their bytes."""
    offsets = np.frombuffer(values.buffers()[1], dtype=np.int32)[values.offset + start : values.offset + stop + 1]
    count = max(1, int(np.searchsorted(offsets, int(offsets[0]) + room, side="right")) - 1)
    return count, int(offsets[count] - offsets[0])


def ship(cut: Iterator[tuple[Piece, bool]], order: ShipOrder, shipment: TaskShipment) -> None:
    """Hands every record that is not on the cluster yet to ``shipment``, and counts all of them in its receipt."""
    for piece, end in cut:
        split = order.splits.get(piece.split)
        if split is None:
            raise SourceError(
                "a file is not as the plan saw it: it was replaced or written to meanwhile. Run again: the plan is made anew."
            )
        _ship_piece(piece, end, split, order, shipment)


def _ship_piece(piece: Piece, end: bool, split: OrderedSplit, order: ShipOrder, shipment: TaskShipment) -> None:
    table = pa.Table.from_batches(piece.batches)
    last = piece.first + piece.rows
    receipt = shipment.receipt
    receipt.split(piece.split).records += piece.rows
    if split.bom and piece.first == 0:
        without = table.column("value")[0].as_py()
        receipt.split(piece.split).adjusted += _spark_hash(_UTF8_BOM + without) - _spark_hash(without)
    end_written = shipment.end_known(split.id)
    for topic, rows in _rows_by_topic(table, order.topics, split, piece.first):
        ordinals = rows + piece.first if rows is not None else None
        gaps = shipment.gaps(split.id, topic, piece.first, last)
        count = piece.rows if ordinals is None else len(ordinals)
        for first, behind in gaps:
            chosen = _within(ordinals, first - piece.first, behind - piece.first, piece.first)
            if len(chosen) == 0:
                continue
            count -= len(chosen)
            ends_here = end and behind == last
            end_written |= ends_here
            records = _records(topic, table, chosen, split, first, order.bundle)
            shipment.add(piece.split, first, behind, ends_here, records)
        _count_before(receipt, piece.split, topic, count)
    if end and not end_written:
        shipment.add(piece.split, last, last, True, Records("", (), 0, 0))


def _count_before(receipt: Receipt, split: int, topic: str, count: int) -> None:
    if count:
        receipt.split(split).before += count
        receipt.topic(topic).before += count


def _rows_by_topic(
    table: pa.Table, topics: tuple[str, ...], split: OrderedSplit, first: int
) -> Iterator[tuple[str, npt.NDArray[np.int64] | None]]:
    """(topic, its row numbers); None stands for all rows. Raises DeliveryError for a record whose topic is null."""
    if len(topics) == 1:
        yield topics[0], None
        return
    column = table.column("topic").combine_chunks()
    if column.null_count:
        at = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
        raise DeliveryError(
            f"{split.id.file.path} (split at byte {split.id.start}), record {first + at + 1}: its topic is null: a column in the "
            "route's topic is null for it. Nothing of its chunk was sent; use coalesce(…) in `records.columns`, or a `when`."
        )
    if topics:
        indices, names = column.to_numpy(), topics
    else:
        encoded = column.dictionary_encode()
        indices, names = encoded.indices.to_numpy(), tuple(encoded.dictionary.to_pylist())
    for index, name in enumerate(names):
        rows = np.flatnonzero(indices == index)
        if len(rows):
            yield name, rows


def _within(ordinals: npt.NDArray[np.int64] | None, start: int, stop: int, first: int) -> Any:
    """Row numbers of the piece whose ordinal lies in the gap; ``start`` and ``stop`` are row numbers."""
    if ordinals is None:
        return range(start, stop)
    low, high = np.searchsorted(ordinals, (first + start, first + stop))
    return ordinals[low:high] - first


def _records(topic: str, table: pa.Table, rows: Any, split: OrderedSplit, first: int, bundle: BundleOrder | None) -> Records:
    chosen = table.slice(rows.start, len(rows)) if isinstance(rows, range) else table.take(pa.array(rows))
    values = chosen.column("value")
    checksum = sum(int(part.to_numpy().view(np.uint64).sum(dtype=np.uint64)) for part in chosen.column("checksum").chunks)
    if split.bom and first == 0 and rows[0] == 0:
        without = values[0].as_py()
        values = pa.chunked_array([pa.array([_UTF8_BOM + without], values.type), *values.slice(1).chunks])
        checksum += _spark_hash(values[0].as_py()) - _spark_hash(without)
    size = _bytes(values)
    names = table.schema.names
    keys = headers = timestamps = None
    some_without_key = "key" not in names or chosen.column("key").null_count > 0
    if "key" in names:
        keys = Column(chosen.column("key"))
        size += _bytes(chosen.column("key"))
    if "headers" in names:
        headers = Column(chosen.column("headers"), _header_pairs)
    if "timestamp" in names:
        timestamps = Column(chosen.column("timestamp").fill_null(0))  # librdkafka reads 0 as "now"
    records = Records(topic, Column(values), size, checksum % _UINT64, some_without_key, keys, headers, timestamps)
    return records if bundle is None else _in_bundles(records, values, split, bundle)


def _in_bundles(records: Records, values: pa.ChunkedArray, split: OrderedSplit, order: BundleOrder) -> Records:
    """The same lines in fewer Kafka records. What is counted, in the checksum too, stays the lines."""
    found = bundled(values, order.max_bytes, all_lines=order.all_lines)
    headers = [[(LINES_HEADER, b"%d" % lines), *split.headers] for lines in found.lines]
    return replace(records, values=Column(pa.chunked_array([found.values])), lines=len(values), headers=headers)


class Column(Sequence[Any]):
    """An Arrow column as a sequence whose slices are lists: Python objects exist only for the batch that is being filled,
    which keeps them in the processor's cache and a chunk at the size that it has in Arrow."""

    def __init__(self, column: pa.ChunkedArray, convert: Callable[[Any], Any] | None = None) -> None:
        self._column = column
        self._convert = convert

    def __len__(self) -> int:
        return len(self._column)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            first, behind, _ = index.indices(len(self._column))
            found = self._column.slice(first, behind - first).to_pylist()
            return found if self._convert is None else [self._convert(item) for item in found]
        found = self._column[index].as_py()
        return found if self._convert is None else self._convert(found)

    def packed(self, first: int, behind: int) -> Iterator[tuple[npt.NDArray[np.int32], int]] | None:
        """See shipper.producer.packed.PackedValues."""
        part = self._column.slice(first, behind - first)
        if self._convert is not None or part.null_count or part.type != pa.binary():
            return None
        return (_packed(array) for array in part.chunks if len(array))


def _packed(array: pa.BinaryArray) -> tuple[npt.NDArray[np.int32], int]:
    _, offsets, data = array.buffers()
    found = np.frombuffer(offsets, dtype=np.int32)[array.offset : array.offset + len(array) + 1]
    return found, data.address if data is not None else offsets.address  # empty values need no bytes, but no null pointer either


def _header_pairs(row: dict[str, bytes | None]) -> list[tuple[str, bytes]]:
    return [(name, value) for name, value in row.items() if value is not None]


def _bytes(column: pa.ChunkedArray) -> int:
    return pc.sum(pc.binary_length(column)).as_py() or 0


def _spark_hash(value: bytes) -> int:
    return int(xxhash.xxh64_intdigest(value, 42))
