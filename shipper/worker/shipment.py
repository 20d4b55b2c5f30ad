"""Transactions from slices: the part of a slice that is not on the cluster yet, in chunks that are
handed over together."""

from __future__ import annotations

import zlib
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from shipper import runtime
from shipper.errors import SourceError
from shipper.ledger.codec import encode_chunk_key, encode_chunk_value
from shipper.ledger.fold import covered
from shipper.ledger.intervals import MOST_RUNS, Interval, IntervalSet, encode_ordinals
from shipper.ledger.quarantine_headers import QuarantineHeaders
from shipper.ledger.records import ChunkKey, ChunkValue, Entry, spark_hash
from shipper.types import Decided, Header, SplitId
from shipper.worker.assign import Assignment, RecordLimits, Rejection, Rows, assign, unshippable
from shipper.worker.chunk import Chunk, LazyColumn, NumberedHeaders, header_pairs
from shipper.worker.cut import SplitSlice
from shipper.worker.order import OrderedSplit, QuarantineOrder, ShipOrder
from shipper.worker.receipt import Receipt, add_to
from shipper.worker.tuning import Following

#: Size of key and headers that a record in quarantine keeps, together. The value may have nearly as
#: much as the topic allows.
_MOST_BESIDE_BYTES = 16_384
_UINT64 = 1 << 64
_NO_ORDINALS = np.empty(0, np.int64)

#: Adds to a ledger record what is known only when it is written.
AtCommit = Callable[[ChunkValue], ChunkValue]


class AlreadyCommitted:
    """Records of the order's splits that are already committed: when the run took over, and by this
    task's earlier attempts since."""

    def __init__(self, splits: dict[int, OrderedSplit]) -> None:
        self._intervals: dict[tuple[SplitId, str], IntervalSet] = {}
        self._homes: dict[tuple[SplitId, str], int] = {}
        self._quarantines: dict[SplitId, set[str]] = {}
        self._ends_known: set[SplitId] = set()
        for split in splits.values():
            for topic, intervals in split.there.items():
                self._intervals[split.id, topic] = IntervalSet(intervals)
            self._homes.update(
                ((split.id, topic), partition) for topic, partition in split.partitions.items()
            )
            if split.quarantines:
                self._quarantines[split.id] = set(split.quarantines)
            if split.end_known:
                self._ends_known.add(split.id)

    def add(self, chunk: Entry) -> None:
        key, value = chunk.key, chunk.value
        there = self._intervals.setdefault((key.split, key.topic), IntervalSet())
        for first, end in covered(key.first, value):
            there.add(first, end)
        if value.reasons is not None:
            self._quarantines.setdefault(key.split, set()).add(key.topic)
        if value.partition is not None:
            self._homes[key.split, key.topic] = value.partition
        if value.end:
            self._ends_known.add(key.split)

    def gaps(self, split: SplitId, topic: str, first: int, end: int) -> list[Interval]:
        """Return the parts of [first, end) that are not in ``topic``; for no topic, the lines whose
        disposition the ledger does not have."""
        there = self._intervals.get((split, topic))
        return there.gaps(first, end) if there else [Interval(first, end)]

    def quarantines(self, split: SplitId) -> set[str]:
        """Return the topics in which records of the split are in quarantine."""
        return self._quarantines.get(split, set())

    def end_known(self, split: SplitId) -> bool:
        return split in self._ends_known

    def sticky_partition(self, split: SplitId, topic: str) -> int | None:
        """Return the partition of the split's latest records in ``topic``, if they went to one."""
        return self._homes.get((split, topic))


@dataclass
class _Transaction:
    """Chunks that are gathered to be sent in one transaction."""

    chunks: list[Chunk] = field(default_factory=list)
    bytes: int = 0

    def add(self, chunk: Chunk) -> None:
        self.chunks.append(chunk)
        self.bytes += chunk.held_bytes


class TaskShipment:
    """Collector of the chunks of slices into transactions of about ``sizes.tuning.chunk_bytes``,
    which counts every record in the receipt.

    Where files keep their order, one is gathered for each lane, and files that share a lane share
    it. So no more waits here than the lanes hold, however many files there are.
    """

    def __init__(
        self, order: ShipOrder, limits: RecordLimits, receipt: Receipt, *,
        submit: Callable[[list[Chunk]], None], at_commit: AtCommit, sizes: Following,
    ) -> None:  # fmt: skip
        """Make the shipment. ``submit`` takes the chunks of one transaction, and blocks while all
        lanes are busy."""
        self._sizes = sizes
        self._order = order
        self._there = AlreadyCommitted(order.splits)
        self._predecessors: dict[ChunkKey, Entry] = {}
        """A transaction may hold two records of one key: the second one names no topic id."""
        self._limits = limits
        self._receipt = receipt
        self._submit = submit
        self._at_commit = at_commit
        self._transactions: dict[int | None, _Transaction] = {}
        """Gathered chunks, by lane if the order of files decides the lane."""
        self._busy_since = runtime.monotonic()

    def begin(self, committed: Decided[list[Entry]]) -> None:
        """Begin, when the lanes are open. ``committed``: chunks committed since the run took
        over."""
        for chunk in committed.answer:
            self._there.add(chunk)
            if chunk.value.generation == self._order.generation:
                self._predecessors[chunk.key] = chunk
        self._busy_since = runtime.monotonic()

    def ship(self, part: SplitSlice) -> None:
        """Hand over every record of the slice that is not on the cluster yet. Transactions are
        closed between slices, so that quarantined records share the transaction of their
        neighbours. Raises what made a lane fail, RecordUnshippable, SourceError."""
        if part.split not in self._order.splits:
            raise SourceError(
                "a file changed after it was planned: it was replaced or written to. What was "
                "committed stays. Run again with a new plan.",
                code="SHIP-308",
            )
        if part.broken:
            # The slice's rows are not shipped, and no end is written: a file that is smaller than a
            # slice is not shipped at all.
            self._receipt.split(part.split).records += part.rows
            return
        shipment = _SliceShipment(part, self._order, self._there, self._receipt, self._at_commit)
        found = assign(part, self._order, self._limits) if part.rows else Assignment()
        if self._order.quarantine is None:
            shipment.refuse(found.rejected)
        for chunk in shipment.missing(found):
            lane = None if chunk.sequence is None else chunk.sequence % self._order.tuning.lanes
            self._transactions.setdefault(lane, _Transaction()).add(chunk)
            now = runtime.monotonic()
            self._receipt.split(part.split).seconds += now - self._busy_since
            self._busy_since = now
        for lane, transaction in list(self._transactions.items()):
            if transaction.bytes >= self._sizes.tuning.chunk_bytes:
                self._submit(self._transactions.pop(lane).chunks)

    def finish(self) -> None:
        """Hand over what is left. Raises what made a lane fail."""
        while self._transactions:
            self._submit(self._transactions.popitem()[1].chunks)

    def count_predecessors(self) -> None:
        """Count what this task's earlier attempts committed: already committed for this attempt,
        but delivered by this ship."""
        if not self._predecessors:
            return
        numbers = {split.id: number for number, split in self._order.splits.items()}
        for chunk in self._predecessors.values():
            if chunk.key.split in numbers:
                self._receipt.take_over(numbers[chunk.key.split], chunk.key.topic, chunk.value)
        self._predecessors = {}


class _SliceShipment:
    """Missing part of one slice, and the chunks that are made of it. Ordinals count in the slice's
    split.

    A record is sent if none of its possible places has it: the topic that it goes to now, and,
    since an earlier run may have decided otherwise, a quarantine topic.
    """

    def __init__(
        self,
        part: SplitSlice,
        order: ShipOrder,
        there: AlreadyCommitted,
        receipt: Receipt,
        at_commit: AtCommit,
    ) -> None:
        self._part, self._order, self._there = part, order, there
        self._receipt, self._at_commit = receipt, at_commit
        self._split = split = order.splits[part.split]
        self._mine = receipt.split(part.split)
        self._sequence = (
            zlib.crc32(split.id.file.path.encode()) if order.lane_options.in_order else None
        )
        self._ends = False
        self._read: int | None = None
        """Bytes of the file that the split accounts for, if it ends with the slice."""
        quarantines = {topic: self._rows_in(topic) for topic in there.quarantines(split.id)}
        self._in_quarantine = {topic: rows for topic, rows in quarantines.items() if rows.any()}
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

    def refuse(self, rejected: Sequence[Rejection]) -> None:
        """Raise RecordUnshippable for the first record that can go nowhere. One that is on the
        cluster since an earlier run may have become such a record meanwhile, as its time has aged
        or a limit was lowered."""
        left = [
            replace(rejection, rows=rows)
            for rejection in rejected
            if len(rows := self._not_there(rejection))
        ]
        if left:
            raise unshippable(left, self._split.id, self._part)

    def _not_there(self, rejection: Rejection) -> Rows:
        rows = rejection.rows
        for there in (
            *self._in_quarantine.values(),
            *([self._rows_in(rejection.topic)] if rejection.topic is not None else []),
        ):
            rows = rows[~there[rows]]
        return rows

    def missing(self, found: Assignment) -> Iterator[Chunk]:
        self._mine.records += self._part.rows
        self._mine.add_read(self._part.bytes_read)
        self._ends = self._part.ends_split and self._agrees_with_reader()
        self._read = self._read_of_file() if self._ends else None
        yield from self._drop(found.dropped)
        yield from self._quarantine(found.rejected)
        end_known = self._there.end_known(self._split.id)
        for topic, rows in found.shares.items():
            for chunk in self._send(topic, rows, found.rejected_from(topic)):
                end_known |= chunk.entry is not None and chunk.entry.end
                yield chunk
        if self._ends and not end_known:
            yield self._end_chunk()

    def _agrees_with_reader(self) -> bool:
        """Return True unless the bytes of the split's lines differ from those that the reader made:
        then the split has no end, and is never complete.

        The end of the last line, which is counted, may be missing in the file.
        """
        unpacked, read = self._part.unpacked, self._mine.read
        if self._split.counts_bytes or unpacked is None or read is None:
            return True
        return read + self._split.skipped_bytes in (unpacked, unpacked + 1)

    def _read_of_file(self) -> int | None:
        """Return the bytes of the file that the split accounts for: as this task counted them,
        where its lines are the file's bytes."""
        if not self._split.counts_bytes:
            return self._part.stored
        return None if self._mine.read is None else self._mine.read + self._split.skipped_bytes

    def _adjust_for_bom(self, shipped: Rows | None) -> None:
        """Add the byte order mark that is put back. ``shipped``: rows that lie in a topic, or will.
        The mark that is put back is in no hash that Spark computed."""
        if self._split.bom and self._part.first == 0 and (shipped is None or 0 in shipped[:1]):
            without = self._part.table.column("value")[0].as_py()
            self._adjust(spark_hash(BOM_UTF8 + without) - spark_hash(without))

    def _adjust(self, checksum: int) -> None:
        self._mine.adjusted = (self._mine.adjusted + checksum) % _UINT64

    def _hashes(self, rows: Rows) -> int:
        """Sum of what Spark computed of their values."""
        if len(rows) == 0:
            return 0
        column = self._part.table.column("checksum").take(pa.array(rows)).to_numpy()
        return int(column.view(np.uint64).sum(dtype=np.uint64))

    def _gaps(self, topic: str) -> list[Interval]:
        return self._there.gaps(self._split.id, topic, self._part.first, self._part.end)

    def _rows_in(self, topic: str) -> npt.NDArray[np.bool_]:
        """Return for each row whether it is in ``topic`` if it belongs there."""
        there = np.ones(self._part.rows, np.bool_)
        for first, end in self._gaps(topic):
            there[first - self._part.first : end - self._part.first] = False
        return there

    def _count_already_committed(self, topic: str, count: int) -> None:
        self._receipt.count_already_committed(self._part.split, topic, count)

    def _drop(self, dropped: dict[str, Rows]) -> Iterator[Chunk]:
        for rule, rows in dropped.items():
            add_to(self._mine.filtered, rule, len(rows))
        for first, end in self._gaps("") if dropped else ():
            counts = {
                rule: len(_within(rows + self._part.first, first, end))
                for rule, rows in dropped.items()
            }
            filtered = {rule: count for rule, count in counts.items() if count}
            if filtered:
                yield self._dropped_chunk(first, end, filtered)

    def _quarantine(self, rejected: Sequence[Rejection]) -> Iterator[Chunk]:
        new = []
        for rejection in rejected:
            rows = self._without_quarantined(rejection.rows)[0]
            shipped = _NO_ORDINALS
            if rejection.topic is not None and len(rows):
                there = self._rows_in(rejection.topic)[rows]
                self._count_already_committed(rejection.topic, int(there.sum()))
                shipped, rows = rows[there], rows[~there]
            wanted = _NO_ORDINALS if rejection.found_by_spark else rejection.rows
            self._adjust(self._hashes(shipped) - self._hashes(wanted))
            self._adjust_for_bom(shipped)
            if already := len(rejection.rows) - len(rows):
                add_to(self._mine.already_quarantined, rejection.reason, already)
            if len(rows):
                new.append(replace(rejection, rows=rows))
        yield from self._quarantine_chunks(new)

    def _without_quarantined(self, rows: Rows) -> tuple[Rows, list[Rows]]:
        """Return the rows that are in no quarantine, and those that are, which are counted as
        already committed."""
        found = []
        for topic, there in self._in_quarantine.items():
            hit = there[rows]
            self._count_already_committed(topic, int(hit.sum()))
            found.append(rows[hit])
            rows = rows[~hit]
        return rows, found

    def _send(self, topic: str, rows: Rows | None, rejected: list[Rows]) -> Iterator[Chunk]:
        """Yield the chunks of ``topic``. ``rows``: those that go there, all if None; ``rejected``:
        those that would have gone there."""
        part = self._part
        if self._in_quarantine:
            rows, found = self._without_quarantined(np.arange(part.rows) if rows is None else rows)
            self._adjust(-sum(map(self._hashes, found)))
            rejected = rejected + found
        self._adjust_for_bom(rows)
        ordinals = None if rows is None else rows + part.first
        without = np.sort(np.concatenate(rejected)) + part.first if rejected else _NO_ORDINALS
        already_committed = part.rows if rows is None else len(rows)
        for first, end in _parts(self._gaps(topic), without):
            chosen = range(first, end) if ordinals is None else _within(ordinals, first, end)
            if len(chosen) == 0:
                continue
            already_committed -= len(chosen)
            missing = _within(without, first, end)
            if len(missing):
                # A chunk's first ordinal is its key in the ledger: one that is not in it may become
                # another chunk's.
                first = int(chosen[0])
                missing = missing[missing > first]
            yield self._shipped_chunk(
                topic, chosen, first, end, missing, ends_split=self._ends and end == part.end
            )
        self._count_already_committed(topic, already_committed)

    # The chunks.

    def _shipped_chunk(
        self,
        topic: str,
        ordinals: range | Rows,
        first: int,
        end: int,
        missing: Rows,
        *,
        ends_split: bool,
    ) -> Chunk:
        """Make a chunk of the records ``ordinals`` of [first, end). ``missing``: those of the
        interval that belong to the topic and are in quarantine."""
        table = self._rows(ordinals)
        values, names = table.column("value"), table.schema.names
        checksum = sum(
            int(part.to_numpy().view(np.uint64).sum(dtype=np.uint64))
            for part in table.column("checksum").chunks
        )
        if self._split.bom and ordinals[0] == 0:
            without = values[0].as_py()
            values = pa.chunked_array(
                [pa.array([BOM_UTF8 + without], values.type), *values.slice(1).chunks]
            )
            checksum += spark_hash(values[0].as_py()) - spark_hash(without)
        keys = table.column("key") if "key" in names else None
        entry = replace(
            self._nothing,
            last=end,
            end=ends_split,
            read=self._read if ends_split else None,
            sum=self._part.content if ends_split else None,
            records=len(values),
            bytes=_bytes(values) + (0 if keys is None else _bytes(keys)),
            checksum=checksum % _UINT64,
            without=encode_ordinals(runs(missing)) or None,
        )
        return self._chunk(
            topic,
            first,
            entry,
            LazyColumn(values),
            keys=None if keys is None else LazyColumn(keys),
            some_without_key=keys is None or keys.null_count > 0,
            headers=LazyColumn(table.column("headers"), header_pairs)
            if "headers" in names
            else None,
            # librdkafka reads 0 as "now"; a record that has this time is not shipped
            timestamps_ms=LazyColumn(table.column("timestamp").fill_null(0))
            if "timestamp" in names
            else None,
            ordinals=ordinals,
        )

    def _rows(self, ordinals: range | Rows) -> pa.Table:
        if isinstance(ordinals, range):
            return self._part.table.slice(ordinals[0] - self._part.first, len(ordinals))
        return self._part.table.take(pa.array(ordinals - self._part.first))

    def _quarantine_chunks(self, rejected: Sequence[Rejection]) -> Iterator[Chunk]:
        """Yield quarantine chunks, each so small that its ledger record is small. Nothing without a
        quarantine."""
        quarantine = self._order.quarantine
        if not rejected or quarantine is None:
            return
        rows = np.concatenate([rejection.rows for rejection in rejected])
        groups = np.repeat(
            np.arange(len(rejected)), [len(rejection.rows) for rejection in rejected]
        )
        in_order = np.argsort(rows)
        for start in range(0, len(rows), MOST_RUNS):
            part = in_order[start : start + MOST_RUNS]
            ordinals = rows[part] + self._part.first
            of_rows = [rejected[group] for group in groups[part]]
            taken = self._part.table.take(pa.array(rows[part]))
            whole = [
                as_read(value, ordinal, bom=self._split.bom)
                for value, ordinal in zip(taken.column("value").to_pylist(), ordinals, strict=True)
            ]
            values = [value and value[: quarantine.keep_bytes] for value in whole]
            entry = replace(
                self._nothing,
                last=int(ordinals[-1]) + 1,
                records=len(values),
                bytes=sum(len(value or b"") for value in values),
                checksum=sum(map(spark_hash, values)) % _UINT64,
                reasons=dict(Counter(rejection.reason for rejection in of_rows)),
                ordinals=encode_ordinals(runs(ordinals)),
                swallowed=_swallowed(taken),
            )
            marked = {row for of_mark in self._part.marked.values() for row in of_mark}
            of_part = [row in marked for row in rows[part].tolist()]
            cut = [value != kept for value, kept in zip(whole, values, strict=True)]
            headers = [
                self._quarantine_headers(quarantine, *of_row)
                for of_row in zip(
                    of_rows, ordinals.tolist(), of_part, cut, _beside(taken), strict=True
                )
            ]
            yield self._chunk(quarantine.topic, int(ordinals[0]), entry, values, headers=headers)

    def _quarantine_headers(
        self,
        quarantine: QuarantineOrder,
        rejection: Rejection,
        ordinal: int,
        of_part: bool,
        cut: bool,
        beside: _Beside,
    ) -> list[Header]:
        """Return the headers of a quarantined record. ``of_part``: Spark saw only a part of the
        record, and derived key, headers and time from it."""
        key, own, timestamp_ms = beside
        sizes = [len(key or b""), *(len(value) for _, value in own)]
        if of_part or max(sizes) > quarantine.keep_bytes or sum(sizes) > _MOST_BESIDE_BYTES:
            cut, key, own = True, None, ()
        split = self._split.id
        headers = QuarantineHeaders(
            self._order.pipeline,
            split.file.path,
            split.start,
            ordinal + 1,
            rejection.reason,
            self._order.run_id,
            rejection.topic,
            cut,
            key,
            None if of_part else timestamp_ms,
            tuple(own),
        )
        return headers.encode()

    def _dropped_chunk(self, first: int, end: int, filtered: dict[str, int]) -> Chunk:
        """Make a chunk for the ledger alone. ``filtered``: rule → lines of [first, end) that it
        took."""
        entry = replace(self._nothing, last=end, records=sum(filtered.values()), filtered=filtered)
        return self._chunk("", first, entry)

    def _end_chunk(self) -> Chunk:
        """Make a chunk for the ledger alone: the split ends with the slice."""
        entry = replace(
            self._nothing,
            last=self._part.end,
            end=True,
            read=self._read,
            sum=self._part.content,
        )
        return self._chunk("", self._part.end, entry)

    def _chunk(
        self,
        topic: str,
        first: int,
        entry: ChunkValue,
        values: Sequence[bytes | None] = (),
        **columns: Any,
    ) -> Chunk:
        split, at_commit, keyed = self._split.id, self._at_commit, columns.get("keys") is not None
        if not self._order.lane_options.settings.transactional and "ordinals" in columns:
            known = encode_chunk_key(self._order.pipeline, ChunkKey(split, 0, ""))
            columns["headers"] = NumberedHeaders(known, columns["ordinals"], columns.get("headers"))

        def ledger_value(
            partition: int | None, topic_id: str | None
        ) -> bytes:  # outlives the chunk's records, and must not hold them
            return encode_chunk_value(
                replace(at_commit(entry), partition=None if keyed else partition, topic_id=topic_id)
            )

        return Chunk(
            topic,
            values,
            entry.bytes,
            encode_chunk_key(self._order.pipeline, ChunkKey(split, first, topic)),
            ledger_value,
            f"{split.file.path} (split at byte {split.start}, records {first + 1}–{entry.last} to "
            f"topic {topic})",
            sequence=self._sequence,
            sticky_partition=self._there.sticky_partition(self._split.id, topic)
            if self._order.lane_options.in_order
            else None,
            split=self._part.split,
            entry=entry,
            **columns,
        )


def _parts(gaps: Sequence[Interval], without: Rows) -> Iterator[Interval]:
    """Yield the gaps, cut so that the ledger's record of each gap's missing ordinals stays
    small."""
    for first, end in gaps:
        for cut in _within(without, first, end)[MOST_RUNS::MOST_RUNS].tolist():
            yield Interval(first, cut)
            first = cut
        yield Interval(first, end)


def _within(ordinals: Rows, first: int, end: int) -> Rows:
    low, high = np.searchsorted(ordinals, (first, end))
    return ordinals[low:high]


def runs(ordinals: Rows) -> Iterator[Interval]:
    """Yield runs of consecutive numbers, as long as they can be."""
    if len(ordinals):
        breaks = np.flatnonzero(np.diff(ordinals) > 1)
        firsts, ends = ordinals[np.r_[0, breaks + 1]], ordinals[np.r_[breaks, -1]] + 1
        yield from map(Interval, firsts.tolist(), ends.tolist())


def as_read(value: bytes | None, ordinal: int, *, bom: bool) -> bytes | None:
    """Return the value with the byte order mark that Hadoop's line reader has dropped."""
    return BOM_UTF8 + (value or b"") if bom and ordinal == 0 else value


#: Key, headers and time (ms) of a record.
_Beside = tuple[bytes | None, Sequence[Header], int | None]


def _beside(rows: pa.Table) -> Iterable[_Beside]:
    """Yield what goes with the value of each row."""
    key, headers, timestamp = (
        rows.column(name).to_pylist() if name in rows.schema.names else None
        for name in ("key", "headers", "timestamp")
    )
    nothing = [None] * len(rows)
    pairs = [()] * len(rows) if headers is None else map(header_pairs, headers)
    return zip(key or nothing, pairs, timestamp or nothing, strict=True)


def _swallowed(rows: pa.Table) -> int | None:
    """Return how many more records the rows may be, by their column `swallowed`; None if they are
    no more."""
    return pc.sum(rows.column("swallowed")).as_py() if "swallowed" in rows.schema.names else None


def _bytes(column: pa.ChunkedArray) -> int:
    return pc.sum(pc.binary_length(column)).as_py() or 0
