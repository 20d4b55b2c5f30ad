"""One Spark task's share of a ship: its lanes, what is already there, and the receipt."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass

from shipper.delivery.ledger_log import LedgerLog
from shipper.delivery.order import Receipt, ShipOrder
from shipper.delivery.takeover import transactional_id
from shipper.errors import Superseded
from shipper.ledger.records import CHUNKS as CHUNKS_PARTITION
from shipper.ledger.records import Attempt, ChunkKey, ChunkValue, decode, encode_attempt, encode_chunk
from shipper.plan.intervals import IntervalSet
from shipper.producer.lane import Chunk, LaneOptions, LanePool
from shipper.terms import SplitId


@dataclass
class Records:
    """Records of one topic, in file order, within ``[first, last)`` of a split."""

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
    """How many lines the values hold, if those are bundles; None: each value is one."""


class TaskShipment:
    """``open`` → (``gaps`` → ``add``) … → ``finish``. Chunks are gathered into transactions of about ``chunk_size_bytes``."""

    def __init__(self, order: ShipOrder, ledger: LedgerLog, task: int, attempt: int) -> None:
        self._order = order
        self._ledger = ledger
        self._attempt = attempt
        self._task = task
        self.receipt = Receipt(task, first_at=time.time())
        self._there: dict[tuple[SplitId, str], IntervalSet] = {}
        self._ends_known: set[SplitId] = set()
        for split in order.splits.values():
            for topic, intervals in split.there.items():
                self._there[split.id, topic] = IntervalSet(intervals)
            if split.end_known:
                self._ends_known.add(split.id)
        options = LaneOptions(order.lane_settings, order.ledger_topic, CHUNKS_PARTITION, order.deadline_seconds)
        ids = [transactional_id(order.pipeline, order.cluster, task, lane) for lane in range(order.lanes)]
        self._pool = LanePool(options, ids, self._settle)
        self._transaction: list[Chunk] = []
        self._transaction_bytes = 0
        # Tasks start at different partitions, so that they do not all write to the same one.
        self._rotation = itertools.count(task)
        self._partition_counts: dict[str, int] = {}

    def open(self) -> None:
        """Announces this attempt, opens the lanes (which fences the task's earlier attempts), then learns what those committed.

        The first attempt of a task has nothing to learn: since the driver took over and read the ledger, nobody else could
        commit anything of this task's splits. So it need not wait for the open transactions of the other tasks.
        """
        order = self._order
        attempt = encode_attempt(order.pipeline, self._task, Attempt(order.generation, self._attempt))
        self._ledger.write_control([attempt])
        self._pool.open()
        if self._check_right_to_ship() == [self._attempt]:
            return
        for key, value in self._committed_since_takeover():
            self._there.setdefault((key.split, key.topic), IntervalSet()).add(key.first, value.last)
            if value.end:
                self._ends_known.add(key.split)

    def _check_right_to_ship(self) -> list[int]:
        """This task's attempts so far. Raises Superseded if a later run, or a later attempt of this task, has announced itself."""
        order = self._order
        control = self._ledger.control()
        if control.generation != order.generation:
            by = control.generations[control.generation].run_id
            raise Superseded(f"run {order.run_id} of pipeline {order.pipeline} was taken over by run {by}: it sends nothing more")
        attempts = control.attempts.get(self._task, [])
        if attempts[-1:] != [self._attempt]:
            raise Superseded(f"attempt {self._attempt} of task {self._task} was taken over by another one: {attempts}")
        return attempts

    def _committed_since_takeover(self) -> list[tuple[ChunkKey, ChunkValue]]:
        order = self._order
        wait_seconds = order.lane_settings.transaction_timeout_ms / 1000 + 15
        entries = [decode(order.pipeline, record) for record in self._ledger.chunks(order.chunks_end, wait_seconds=wait_seconds)]
        return [(e[0], e[1]) for e in entries if e and isinstance(e[0], ChunkKey) and isinstance(e[1], ChunkValue)]

    def _settle(self) -> set[bytes]:
        self._check_right_to_ship()
        committed = self._committed_since_takeover()
        return {encode_chunk(self._order.pipeline, key, value)[0] for key, value in committed}

    def gaps(self, split: SplitId, topic: str, first: int, last: int) -> list[tuple[int, int]]:
        """What of [first, last) is not on the cluster yet."""
        there = self._there.get((split, topic))
        return there.gaps(first, last) if there else [(first, last)]

    def end_known(self, split: SplitId) -> bool:
        return split in self._ends_known

    def add(self, split: int, first: int, last: int, end: bool, records: Records) -> None:
        """Takes one chunk. ``split`` is Spark's hash; ``end``: the split ends at ``last``. Blocks while all lanes are busy."""
        order = self._order
        split_id = order.splits[split].id
        count = len(records.values) if records.lines is None else records.lines
        separators = count - len(records.values)
        partition = -1
        if records.values and records.some_without_key:
            partition = self._next_partition(records.topic)
        key, value = encode_chunk(
            order.pipeline,
            ChunkKey(split_id, first, records.topic),
            ChunkValue(
                last=last,
                end=end,
                records=count,
                bytes=records.size_bytes,
                checksum=records.checksum,
                digest=order.digest,
                generation=order.generation,
                run_id=order.run_id,
                window=order.window,
                partition=partition if records.keys is None and records.values else None,
                bundles=None if records.lines is None else len(records.values),
            ),
        )
        label = f"{split_id.file.path} (split at byte {split_id.start}, records {first + 1}–{last} to topic {records.topic})"
        self._transaction.append(
            Chunk(
                records.topic, partition, records.values, key, value, label, records.size_bytes + separators,
                records.keys, records.headers, records.timestamps_ms, receipt=(split, count, records.size_bytes),
            )
        )  # fmt: skip
        self._transaction_bytes += records.size_bytes
        if self._transaction_bytes >= order.chunk_size_bytes:
            self._submit()

    def _submit(self) -> None:
        if self._transaction:
            self._pool.submit(self._transaction)
        self._transaction, self._transaction_bytes = [], 0

    def _next_partition(self, topic: str) -> int:
        count = self._partition_counts.get(topic)
        if count is None:
            count = self._partition_counts[topic] = self._pool.partitions(topic)
        return next(self._rotation) % count

    def finish(self) -> None:
        """Delivers what is left. Raises what made a lane fail."""
        self._submit()
        self._pool.close()

    def abandon(self) -> None:
        """After a failure: what is in a transaction is aborted or finished, the rest is not sent."""
        self._pool.abandon()

    def fill_receipt(self) -> Receipt:
        """The receipt, with what the lanes delivered until now."""
        for chunk in self._pool.delivered:
            split, records, size = chunk.receipt
            self.receipt.split(split).delivered += records
            if records:
                topic = self.receipt.topic(chunk.topic)
                topic.delivered += records
                topic.bytes += size
        self.receipt.lane_reopened = self._pool.reopened
        self.receipt.last_at = time.time()
        return self.receipt
