"""From Spark's Arrow batches to chunks: which rows belong to which split, and where to cut.

Rows of a split arrive one after the other and in file order; its ordinals count them. A piece is cut when it has
enough bytes, but only when the next row is there: so it is always known whether the split ends with it.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from shipper.config.records import LINES_HEADER
from shipper.errors import SourceError
from shipper.ledger.checksum import spark_hash
from shipper.ledger.ordinals import MOST_RUNS, encode_ordinals
from shipper.worker.assign import Held, Limits, Rows, sort_rows
from shipper.worker.bundles import bundled
from shipper.worker.marks import BROKEN, unmarked
from shipper.worker.order import BundleOrder, OrderedSplit, ShipOrder
from shipper.worker.rejected import UTF8_BOM, quarantined, runs
from shipper.worker.shipment import Records, TaskShipment

_UINT64 = 1 << 64
#: Dropped lines travel without bytes; a file of nothing else must not become one piece.
_MOST_ROWS = 2_000_000
_NO_ORDINALS = np.empty(0, np.int64)


@dataclass
class Piece:
    """Consecutive rows of one split: ordinals [first, first + rows)."""

    split: int
    first: int
    batches: list[pa.RecordBatch] = field(default_factory=list)
    rows: int = 0
    bytes: int = 0
    marked: dict[int, list[int]] = field(default_factory=dict)
    """Mark (marks.py) → rows that have it."""
    broken: bool = False
    """What was read of the split ends here, and is not all of it."""


def pieces(
    batches: Iterator[pa.RecordBatch], piece_bytes: int, splits: Container[int] = frozenset()
) -> Iterator[tuple[Piece, bool]]:
    """Cuts the stream into (piece, whether its split ends there). A piece has about ``piece_bytes`` of values, and one row at least, unless it
    is broken. ``splits``: those that there are; without them no row is marked."""
    piece: Piece | None = None
    for batch in batches:
        for number, start, stop in _runs(batch.column("split")):
            split, mark = unmarked(number, splits)
            if piece is not None and piece.split != split:
                yield piece, True
                piece = None
            if mark == BROKEN:
                yield replace(piece or Piece(split, 0), broken=True), False
                piece = None
                continue
            while start < stop:
                if piece is not None and (piece.bytes >= piece_bytes or piece.rows >= _MOST_ROWS):
                    yield piece, False
                    piece = Piece(split, piece.first + piece.rows)
                piece = piece or Piece(split, 0)
                count, size = _fitting(batch.column("value"), start, stop, piece_bytes - piece.bytes)
                piece.batches.append(batch.slice(start, count))
                if mark is not None:
                    piece.marked.setdefault(mark, []).extend(range(piece.rows, piece.rows + count))
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


def ship(cut: Iterator[tuple[Piece, bool]], order: ShipOrder, shipment: TaskShipment, limits: Limits) -> None:
    """Hands every record that is not on the cluster yet to ``shipment``, and counts all of them in its receipt."""
    for piece, end in cut:
        split = order.splits.get(piece.split)
        if split is None:
            raise SourceError(
                "a file is not as the plan saw it: it was replaced or written to meanwhile. Run again: the plan is made anew."
            )
        if piece.broken:
            # Its rows are not shipped, nor is an end written: a file that is smaller than a piece is not shipped at all.
            shipment.receipt.split(piece.split).records += piece.rows
            continue
        _PieceShipment(piece, split, order, shipment).ship(end, limits)
        shipment.send_full()


class _PieceShipment:
    """One piece's way to the cluster. A record is sent if it is in none of the places where it could be already: the topic that it
    goes to now, and, since what goes to quarantine may have been decided otherwise before, a quarantine topic."""

    def __init__(self, piece: Piece, split: OrderedSplit, order: ShipOrder, shipment: TaskShipment) -> None:
        self._piece, self._split, self._order, self._shipment = piece, split, order, shipment
        self._first, self._last = piece.first, piece.first + piece.rows
        self._table = pa.Table.from_batches(piece.batches)
        quarantines = {topic: self._there(topic) for topic in shipment.quarantines(split.id)}
        self._in_quarantine = {topic: there for topic, there in quarantines.items() if there.any()}

    def ship(self, end: bool, limits: Limits) -> None:
        shipment, number = self._shipment, self._piece.split
        found = sort_rows(self._table, self._order, self._split, self._first, limits, self._piece.marked)
        receipt = shipment.receipt.split(number)
        receipt.records += self._piece.rows
        receipt.add_read(None if self._piece.marked else self._bytes_read())
        self._drop(found.dropped)
        if found.held:
            self._quarantine(found.held)
        end_written = shipment.end_known(self._split.id)
        for topic, rows in found.shares:
            end_written |= self._send(topic, rows, found.held_from(topic), end)
        if end and not end_written:
            shipment.add(number, self._last, self._last, True, Records("", (), 0, 0))

    def _bytes_read(self) -> int:
        """Of the lines as they were read, each with its end."""
        if "size" in self._table.schema.names:
            return self._piece.rows + int(pc.sum(self._table.column("size")).as_py() or 0)
        return self._piece.rows + self._piece.bytes

    def _adjust_for_bom(self, shipped: Rows | None) -> None:
        """``shipped``: rows that lie in a topic, or will. The mark that is put back is in no hash that Spark computed."""
        if self._split.bom and self._first == 0 and (shipped is None or 0 in shipped[:1]):
            without = self._table.column("value")[0].as_py()
            self._adjust(spark_hash(UTF8_BOM + without) - spark_hash(without))

    def _adjust(self, checksum: int) -> None:
        receipt = self._shipment.receipt.split(self._piece.split)
        receipt.adjusted = (receipt.adjusted + checksum) % _UINT64

    def _hashes(self, rows: Rows) -> int:
        """Sum of what Spark computed of their values."""
        if len(rows) == 0:
            return 0
        column = self._table.column("checksum").take(pa.array(rows)).to_numpy()
        return int(column.view(np.uint64).sum(dtype=np.uint64))

    def _gaps(self, topic: str) -> list[tuple[int, int]]:
        return self._shipment.gaps(self._split.id, topic, self._first, self._last)

    def _there(self, topic: str) -> npt.NDArray[np.bool_]:
        """For each row, whether it is in ``topic`` if it belongs there."""
        there = np.ones(self._piece.rows, np.bool_)
        for first, behind in self._gaps(topic):
            there[first - self._first : behind - self._first] = False
        return there

    def _count_before(self, topic: str, count: int) -> None:
        if count:
            self._shipment.receipt.split(self._piece.split).before += count
            self._shipment.receipt.topic(topic).before += count

    def _drop(self, dropped: dict[str, Rows]) -> None:
        for rule, rows in dropped.items():
            self._shipment.receipt.split(self._piece.split).count_filtered(rule, len(rows))
        for first, behind in self._gaps("") if dropped else ():
            counts = {rule: len(_within(rows + self._first, first, behind)) for rule, rows in dropped.items()}
            filtered = {rule: count for rule, count in counts.items() if count}
            if filtered:
                records = Records("", (), 0, 0, lines=sum(filtered.values()), filtered=filtered)
                self._shipment.add(self._piece.split, first, behind, False, records)

    def _quarantine(self, held: Sequence[Held]) -> None:
        new = []
        for group in held:
            rows = self._without_quarantined(group.rows)[0]
            shipped = _NO_ORDINALS
            if group.topic is not None and len(rows):
                there = self._there(group.topic)[rows]
                self._count_before(group.topic, int(there.sum()))
                shipped, rows = rows[there], rows[~there]
            # Spark's checksum is of what it wants shipped. That is all that it has not given a reason itself.
            wanted = _NO_ORDINALS if group.reason in self._order.reasons else group.rows
            self._adjust(self._hashes(shipped) - self._hashes(wanted))
            self._adjust_for_bom(shipped)
            if settled := len(group.rows) - len(rows):
                self._shipment.receipt.split(self._piece.split).count_settled(group.reason, settled)
            if len(rows):
                new.append(replace(group, rows=rows))
        order = self._order
        if new and order.quarantine is not None:
            for first, behind, records in quarantined(new, self._table, self._first, self._split, order, order.quarantine):
                self._shipment.add(self._piece.split, first, behind, False, records)

    def _without_quarantined(self, rows: Rows) -> tuple[Rows, list[Rows]]:
        """The rows that are in no quarantine, and those that are; which are counted as there before."""
        found = []
        for topic, there in self._in_quarantine.items():
            hit = there[rows]
            self._count_before(topic, int(hit.sum()))
            found.append(rows[hit])
            rows = rows[~hit]
        return rows, found

    def _send(self, topic: str, rows: Rows | None, held: list[Rows], end: bool) -> bool:
        """Returns whether the ledger then knows that the split ends."""
        end_written = False
        if self._in_quarantine:
            rows, found = self._without_quarantined(np.arange(self._piece.rows) if rows is None else rows)
            self._adjust(-sum(map(self._hashes, found)))
            held = held + found
        self._adjust_for_bom(rows)
        ordinals = None if rows is None else rows + self._first
        without = np.sort(np.concatenate(held)) + self._first if held else _NO_ORDINALS
        count = self._piece.rows if rows is None else len(rows)
        for first, behind in _parts(self._gaps(topic), without):
            chosen = range(first, behind) if ordinals is None else _within(ordinals, first, behind)
            if len(chosen) == 0:
                continue
            count -= len(chosen)
            missing = _within(without, first, behind)
            if len(missing):
                # A chunk's first ordinal is its key in the ledger: one that is not in it may become another chunk's.
                first = int(chosen[0])
                missing = missing[missing > first]
            ends_here = end and behind == self._last
            end_written |= ends_here
            records = _records(topic, self._table, chosen, self._split, self._first, self._order.bundle)
            records.without = encode_ordinals(runs(missing)) or None
            self._shipment.add(self._piece.split, first, behind, ends_here, records)
        self._count_before(topic, count)
        return end_written


def _parts(gaps: Sequence[tuple[int, int]], without: Rows) -> Iterator[tuple[int, int]]:
    """The gaps, cut so that the ledger's record of what is missing in one stays small."""
    for first, behind in gaps:
        for cut in _within(without, first, behind)[MOST_RUNS::MOST_RUNS].tolist():
            yield first, cut
            first = cut
        yield first, behind


def _within(ordinals: Rows, first: int, behind: int) -> Rows:
    low, high = np.searchsorted(ordinals, (first, behind))
    return ordinals[low:high]


def _records(
    topic: str, table: pa.Table, ordinals: range | Rows, split: OrderedSplit, first: int, bundle: BundleOrder | None
) -> Records:
    """``first``: ordinal of the table's first row."""
    run = isinstance(ordinals, range)
    chosen = table.slice(ordinals[0] - first, len(ordinals)) if run else table.take(pa.array(np.asarray(ordinals) - first))
    values = chosen.column("value")
    checksum = sum(int(part.to_numpy().view(np.uint64).sum(dtype=np.uint64)) for part in chosen.column("checksum").chunks)
    if split.bom and ordinals[0] == 0:
        without = values[0].as_py()
        values = pa.chunked_array([pa.array([UTF8_BOM + without], values.type), *values.slice(1).chunks])
        checksum += spark_hash(values[0].as_py()) - spark_hash(without)
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
        """See shipper.kafka.packed.PackedValues."""
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
