"""One Spark task's share of a ship: its lanes, what is already there, and the receipt."""

from __future__ import annotations

import logging
import threading
import time
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from shipper.errors import ShipperError, Superseded
from shipper.kafka.limits import TopicLimits
from shipper.kafka.transaction import RightToShip
from shipper.ledger.codec import decode, encode_attempt, encode_chunk_key, encode_chunk_value
from shipper.ledger.fold import covered
from shipper.ledger.intervals import IntervalSet
from shipper.ledger.log import LedgerLog
from shipper.ledger.records import CHUNKS as CHUNKS_PARTITION
from shipper.ledger.records import CONTROL as CONTROL_PARTITION
from shipper.ledger.records import Attempt, ChunkKey, ChunkValue
from shipper.ledger.takeover import transactional_id
from shipper.types import LogRecord, SplitId
from shipper.worker.chunk import Chunk
from shipper.worker.order import ShipOrder
from shipper.worker.pool import LaneOptions, LanePool
from shipper.worker.rate import NoLimit, RateLimit
from shipper.worker.receipt import Receipt


@dataclass
class Records:
    """Records of one topic, in file order, within ``[first, last)`` of a split. Of no topic: lines that were dropped."""

    topic: str
    values: Sequence[bytes | None]
    size_bytes: int
    """Of values and keys."""
    checksum: int
    some_without_key: bool = True
    keys: Sequence[bytes | None] | None = None
    headers: Sequence[list[tuple[str, bytes]]] | None = None
    timestamps_ms: Sequence[int] | None = None
    lines: int | None = None
    """How many lines the values hold, if those are bundles, or were dropped; None: each value is one."""
    reasons: dict[str, int] | None = None
    """For a quarantine topic: reason → records; ``ordinals`` then says which they are."""
    ordinals: str | None = None
    without: str | None = None
    """Ordinals of the interval that would belong to the topic and are in quarantine."""
    filtered: dict[str, int] | None = None
    """For no topic: rule → lines."""


log = logging.getLogger("shipper.task")

_SAMPLE_SECONDS = 1.0
_LOOK_AT_OTHER_TASKS_SECONDS = 2.0
_TRUSTED_WIRE_BYTES = 1_000_000


class _Note(NamedTuple):
    """What the receipt needs to know of a chunk once it is delivered."""

    split: int
    lines: int
    bytes: int
    checksum: int
    reasons: dict[str, int] | None


@dataclass
class _Transaction:
    """What is gathered to be sent in one transaction."""

    chunks: list[Chunk] = field(default_factory=list)
    bytes: int = 0

    def add(self, chunk: Chunk) -> None:
        self.chunks.append(chunk)
        self.bytes += chunk.size_bytes


class TaskShipment:
    """``open`` → (``gaps`` → ``add``) … → ``finish``. Chunks are gathered into transactions of about ``chunk_size_bytes``.

    Where files keep their order, one is gathered for each lane, and files that share a lane share it. So no more waits here than the
    lanes hold, however many files there are.
    """

    def __init__(self, order: ShipOrder, ledger: LedgerLog, task: int, attempt: int, limits: TopicLimits | None = None) -> None:
        self._order = order
        self._limits = limits or TopicLimits(order.limits)
        self._ledger = ledger
        self._attempt = attempt
        self._task = task
        self.receipt = Receipt(task, first_at=time.time())
        self._there: dict[tuple[SplitId, str], IntervalSet] = {}
        self._homes: dict[tuple[SplitId, str], int] = {}
        """Where a file that is shipped in order went on a topic until now."""
        self._quarantines: dict[SplitId, set[str]] = {}
        self._ends_known: set[SplitId] = set()
        self._by_predecessors: list[tuple[ChunkKey, ChunkValue]] = []
        for split in order.splits.values():
            for topic, intervals in split.there.items():
                self._there[split.id, topic] = IntervalSet(intervals)
            self._homes.update(((split.id, topic), partition) for topic, partition in split.partitions.items())
            if split.quarantines:
                self._quarantines[split.id] = set(split.quarantines)
            if split.end_known:
                self._ends_known.add(split.id)
        ids = [transactional_id(order.pipeline, order.cluster, task, lane) for lane in range(order.lanes)]
        self._right = RightToShip(self._attempts)
        self._pool = LanePool(self._options(), ids, self._settle, self._count_delivered, right=self._right)
        self._transactions: dict[int | None, _Transaction] = {}
        """What is gathered, by lane where the order of files tells which one it must be."""
        self._active_tasks = 1
        self._busy_since = time.monotonic()
        self._done = threading.Event()
        self._sampler = threading.Thread(target=self._sample, name="samples", daemon=True)

    def _options(self) -> LaneOptions:
        order = self._order
        limit = order.rate_limit_bytes
        return LaneOptions(
            order.settings,
            order.ledger_topic,
            CHUNKS_PARTITION,
            order.deadline_seconds,
            limits=self._limits,
            batch_bytes=order.batch_bytes,
            parking_bytes=order.parking_bytes,
            partitions=order.partitions,
            share_partitions=order.share_partitions,
            first_partition=self._task,
            topics=self._topics,
            rate=NoLimit() if limit is None else RateLimit(lambda: limit / self._active_tasks * self._ratio()),
        )

    @property
    def _topics(self) -> tuple[str, ...]:
        quarantine = self._order.quarantine
        return (*self._order.topics, *([quarantine.topic] if quarantine else []))

    def open(self) -> None:
        """Announces this attempt, opens the lanes (which fences the task's earlier attempts), then learns what those committed.

        The first attempt of a task has nothing to learn: since the driver took over and read the ledger, nobody else could
        commit anything of this task's splits. So it need not wait for the open transactions of the other tasks.
        """
        order = self._order
        with ThreadPoolExecutor(1, thread_name_prefix="connect") as meanwhile:
            meanwhile.submit(self._ledger.connect, (CONTROL_PARTITION,))
            self._pool.open(self._topics, announce=lambda: self._ledger.write_control([self._announcement()]))
        self._sampler.start()
        self._busy_since = time.monotonic()
        if self._right.check() == [self._attempt]:
            return
        for key, value in self._committed_since_takeover():
            there = self._there.setdefault((key.split, key.topic), IntervalSet())
            for first, last in covered(key.first, value):
                there.add(first, last)
            if value.reasons is not None:
                self._quarantines.setdefault(key.split, set()).add(key.topic)
            if value.partition is not None:
                self._homes[key.split, key.topic] = value.partition
            if value.end:
                self._ends_known.add(key.split)
            if value.generation == order.generation:
                self._by_predecessors.append((key, value))

    def _announcement(self, *, ended: bool = False) -> tuple[bytes, bytes]:
        order = self._order
        return encode_attempt(order.pipeline, self._task, Attempt(order.generation, self._attempt, ended))

    def _attempts(self) -> list[int]:
        """This task's attempts so far. Raises Superseded if a later run, or a later attempt of this task, has announced itself."""
        order = self._order
        control = self._ledger.control()
        if control.generation != order.generation:
            by = control.generations[control.generation].run_id
            raise Superseded(f"run {order.run_id} of pipeline {order.pipeline} was taken over by run {by}: it sends nothing more")
        attempts = control.attempts.get(self._task, [])
        if attempts[-1:] != [self._attempt]:
            raise Superseded(f"attempt {self._attempt} of task {self._task} was taken over by another one: {attempts}")
        self._active_tasks = max(1, control.active_tasks())
        return attempts

    def _records_since_takeover(self) -> list[LogRecord]:
        wait_seconds = self._order.settings.transaction_timeout_ms / 1000 + 15
        return self._ledger.chunks(self._order.chunks_end, wait_seconds=wait_seconds)

    def _committed_since_takeover(self) -> list[tuple[ChunkKey, ChunkValue]]:
        entries = [decode(self._order.pipeline, record) for record in self._records_since_takeover()]
        return [(e[0], e[1]) for e in entries if e and isinstance(e[0], ChunkKey) and isinstance(e[1], ChunkValue)]

    def _settle(self) -> set[bytes]:
        self._right.check()
        return {record.key for record in self._records_since_takeover() if record.value is not None}

    def quarantines(self, split: SplitId) -> set[str]:
        """Topics in which records of the split are in quarantine already."""
        return self._quarantines.get(split, set())

    def gaps(self, split: SplitId, topic: str, first: int, last: int) -> list[tuple[int, int]]:
        """What of [first, last) is not on the cluster yet."""
        there = self._there.get((split, topic))
        return there.gaps(first, last) if there else [(first, last)]

    def end_known(self, split: SplitId) -> bool:
        return split in self._ends_known

    def add(self, split: int, first: int, last: int, end: bool, records: Records) -> None:
        """Takes one chunk. ``split`` is Spark's hash; ``end``: the split ends at ``last``. It is sent by :meth:`send_full`. The time
        since the chunk before is the split's."""
        order = self._order
        ordered = order.splits[split]
        split_id = ordered.id
        kafka_records = len(records.values)
        count = kafka_records if records.lines is None else records.lines
        separators = count - kafka_records if kafka_records else 0
        value = ChunkValue(
            last=last,
            end=end,
            records=count,
            bytes=records.size_bytes,
            checksum=records.checksum,
            digest=order.digest,
            generation=order.generation,
            run_id=order.run_id,
            window=ordered.window or order.window,
            splits=ordered.of,
            bundles=None if records.lines is None or not kafka_records else kafka_records,
            reasons=records.reasons,
            ordinals=records.ordinals,
            without=records.without,
            filtered=records.filtered,
            spark=order.spark,
        )

        keyed = records.keys is not None  # the function outlives the chunk's records, and must not hold them

        def ledger_value(partition: int | None) -> bytes:
            return encode_chunk_value(
                replace(
                    value,
                    partition=None if keyed else partition,
                    wire_bytes=int(value.bytes / self._ratio()),
                    parked=tuple(sorted(self._pool.parked())) or None,
                )
            )

        sequence = zlib.crc32(split_id.file.path.encode()) if order.in_order else None
        chunk = Chunk(
            topic=records.topic,
            values=records.values,
            size_bytes=records.size_bytes + separators,
            ledger_key=encode_chunk_key(order.pipeline, ChunkKey(split_id, first, records.topic)),
            ledger_value=ledger_value,
            label=f"{split_id.file.path} (split at byte {split_id.start}, records {first + 1}–{last} to topic {records.topic})",
            keys=records.keys,
            headers=records.headers,
            timestamps_ms=records.timestamps_ms,
            some_without_key=records.some_without_key,
            sequence=sequence,
            home=None if sequence is None else self._homes.get((split_id, records.topic)),
            lines=records.lines,
            receipt=_Note(split, count, records.size_bytes, records.checksum, records.reasons),
        )
        lane = None if sequence is None else sequence % order.lanes
        self._transactions.setdefault(lane, _Transaction()).add(chunk)
        now = time.monotonic()
        self.receipt.split(split).seconds += now - self._busy_since
        self._busy_since = now

    def send_full(self) -> None:
        """Hands over the transactions that are large enough. Asked between pieces, so that what goes to quarantine shares the
        transaction of the records around it. Blocks while all lanes are busy."""
        for lane, transaction in list(self._transactions.items()):
            if transaction.bytes >= self._order.chunk_size_bytes:
                self._pool.submit(self._transactions.pop(lane).chunks)

    def finish(self) -> None:
        """Delivers what is left. Raises what made a lane fail, and TopicMissing for a topic that stayed unusable."""
        while self._transactions:
            self._pool.submit(self._transactions.popitem()[1].chunks)
        self._pool.drain()
        self._close(self._order.settings.transaction_timeout_ms / 1000)
        self._pool.raise_given_up()

    def abandon(self) -> None:
        """After a failure: a commit that is under way may still be answered, nothing else is sent."""
        self._close(15.0)

    def _close(self, timeout_seconds: float) -> None:
        self._done.set()
        delivery = self._pool.close(timeout_seconds)
        if delivery.unknown:
            log.warning("%d chunks whose commit was not answered; the ledger will tell", len(delivery.unknown))
        if self._sampler.ident is not None:
            self._sampler.join()

    def _count_delivered(self, chunks: Sequence[Chunk]) -> None:
        """Called by the pool, one lane at a time. Nobody else writes to the fields that it adds to, before the pool is closed."""
        for chunk in chunks:
            note: _Note = chunk.receipt
            split = self.receipt.split(note.split)
            if note.reasons is not None:
                for reason, count in note.reasons.items():
                    split.count_quarantined(reason, count)
            elif chunk.topic:
                split.delivered += note.lines
            if note.lines and chunk.topic:
                split.add_checksum(chunk.topic, note.checksum)
                topic = self.receipt.topic(chunk.topic)
                topic.delivered += note.lines
                topic.bytes += note.bytes

    def fill_receipt(self) -> Receipt:
        """The receipt, with what the lanes delivered until now."""
        pool, receipt = self._pool, self.receipt
        self._take_over_receipts()
        receipt.lane_reopened = pool.reopened
        receipt.lanes = [[work.transactions, work.bytes, work.busy_seconds, work.reopened] for work in pool.work()]
        receipt.parked, receipt.dropped, receipt.lowered = pool.parked_records, pool.dropped(), pool.lowered
        if not self._order.settings.transactional:
            receipt.possible_duplicates = pool.counts.retried_records
        receipt.wire_bytes = pool.sent().wire_bytes
        receipt.last_at = time.time()
        return receipt

    def _take_over_receipts(self) -> None:
        """What this task's earlier attempts committed was there before this attempt, and was delivered by this ship all the same."""
        hashes = {split.id: number for number, split in self._order.splits.items()} if self._by_predecessors else {}
        for key, value in self._by_predecessors:
            split = self.receipt.splits.get(hashes[key.split]) if key.split in hashes else None
            if split is None or not value.records or not key.topic:
                continue  # another task's split, one that this attempt did not get to, or dropped lines, which count each time
            topic = self.receipt.topic(key.topic)
            moved = min(value.records, split.before, topic.before)
            split.before, topic.before = split.before - moved, topic.before - moved
            topic.delivered, topic.bytes = topic.delivered + moved, topic.bytes + value.bytes
            for reason, count in (value.reasons or {}).items():
                split.count_quarantined(reason, count)
                split.count_settled(reason, -min(count, split.settled.get(reason, 0)))
            split.delivered += moved if value.reasons is None else 0
            split.add_checksum(key.topic, value.checksum)
        self._by_predecessors = []

    def _ratio(self) -> float:
        sent = self._pool.sent()
        trusted = sent.record_bytes and sent.wire_bytes >= _TRUSTED_WIRE_BYTES
        return sent.record_bytes / sent.wire_bytes if trusted else self._order.ratio

    def _sample(self) -> None:
        """Until the end: what the lanes do, once a second; and, for a share of the rate, how many tasks there are. Whatever goes wrong once
        is tried again: a sampler that ends keeps the rate at what it was, and the page without its samples."""
        looked_at = time.monotonic()
        while not self._done.wait(_SAMPLE_SECONDS):
            with _going_on("no sample of the lanes can be taken right now"):
                self.receipt.samples.append(self._pool.sample())
            if self._order.rate_limit_bytes and time.monotonic() - looked_at > _LOOK_AT_OTHER_TASKS_SECONDS:
                looked_at = time.monotonic()
                with _going_on("other tasks cannot be counted right now"):
                    self._active_tasks = max(1, self._ledger.control().active_tasks())
        if self._order.rate_limit_bytes:
            with _going_on("other tasks cannot be told right now that this one has ended"):
                self._ledger.write_control([self._announcement(ended=True)])


@contextmanager
def _going_on(what: str) -> Iterator[None]:
    try:
        yield
    except ShipperError as error:
        log.info("%s: %s", what, error)
    except Exception:
        log.warning(what, exc_info=True)
