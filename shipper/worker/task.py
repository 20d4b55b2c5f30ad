"""One Spark task of the sink: from Arrow batches to its receipt."""

from __future__ import annotations

import logging
import sys
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar

import pyarrow as pa

from shipper import runtime
from shipper.config.cluster import Cluster
from shipper.errors import (
    ClusterError,
    DeliveryTimedOut,
    OutcomeUnknown,
    ShipperError,
    Superseded,
    TopicMissing,
)
from shipper.kafka.client import ClusterClient
from shipper.kafka.limits import TopicLimits
from shipper.kafka.topic_ids import TopicIdWatch
from shipper.kafka.topics import TopicLookup
from shipper.kafka.transaction import RightToShip
from shipper.ledger.codec import encode_attempt
from shipper.ledger.control import Control
from shipper.ledger.log import (
    CONTROL_NOW,
    LedgerLog,
    LedgerQuestion,
    Patience,
    ask_committed,
    ask_committed_keys,
)
from shipper.ledger.records import CONTROL, Attempt, AttemptKey, ChunkValue, Entry
from shipper.ledger.rights import transactional_id
from shipper.types import Decided
from shipper.worker.assign import RecordLimits
from shipper.worker.chunk import Chunk
from shipper.worker.cut import Prefetch, split_slices
from shipper.worker.order import ShipOrder
from shipper.worker.pool import LanePool
from shipper.worker.rate import RateLimit
from shipper.worker.receipt import MOST_NAMED, Receipt, seal_error
from shipper.worker.shipment import TaskShipment
from shipper.worker.tuning import Following

log = logging.getLogger("shipper.task")

T = TypeVar("T")

#: Slices, and their bytes, to read ahead: opening the lanes takes some ten round trips, in which
#: the JVM can read.
_MOST_PREFETCHED, _MOST_PREFETCHED_BYTES = 8, 16_000_000
_LAST_ATTEMPT = 3  # Spark gives a task four attempts; the runner's local master asks for as many.
_LOOK_AT_OTHER_TASKS_SECONDS = 2.0
#: A task that has not begun so long after another one has no share of the rate until it begins.
_ALL_BEGIN_SECONDS = 4.0
#: Such a task waits until every other one has surely looked.
_NOTICE_SECONDS = 6.0
_TRUSTED_WIRE_BYTES = 1_000_000
#: Wait of an open transaction for the topics' ids.
_IDS_SECONDS = 10.0


class TaskError(Exception):
    """Error that fails the attempt. Its text is for the driver, see shipper.worker.receipt."""


class _Without:
    """Importer that reports a module as missing."""

    def __init__(self, module: str) -> None:
        self._module = module

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name == self._module:
            raise ModuleNotFoundError(f"{name} is not wanted here", name=name)


def get_ready() -> None:
    """Prepare a worker, once, whatever it ships: keep pyarrow from importing pandas with its first
    array. That costs a second of CPU in every new worker, while the cluster waits. pyarrow looks
    once in a process, so it is enough that there is none at that moment."""
    if "pandas" in sys.modules:
        return
    without = _Without("pandas")
    sys.meta_path.insert(0, without)
    try:
        pa.scalar(0)
    finally:
        sys.meta_path.remove(without)


def ship_task(
    order: ShipOrder,
    cluster: Cluster,
    batches: Iterator[pa.RecordBatch],
    task: int,
    attempt: int,
    tries_before: int,
) -> Receipt:
    """Ship one task. ``task``: its number; ``attempt``: number among all attempts of all tasks,
    which tells later ones; ``tries_before``: earlier attempts of this task.

    Raises TaskError for a fault that another attempt may cure, except in the last attempt.
    Everything else is in the receipt. An unexpected error is raised as it is.
    """
    get_ready()
    client, common = ClusterClient(cluster), order.lane_options
    patience = Patience.of(common.settings.transaction_timeout_ms / 1000, common.deadline_seconds)
    ledger = LedgerLog(
        client, cluster, order.pipeline, generation=order.generation, patience=patience
    )
    limits = TopicLimits(order.limits, client.limits)
    receipt = Receipt(task, tries_before, first_at=runtime.time())
    lanes = TaskLanes(order, TaskAttempt(order, ledger, task, attempt), limits, receipt)
    sizes = lanes.sizes
    shipment = TaskShipment(
        order,
        RecordLimits(limits, order),
        receipt,
        submit=lanes.submit,
        at_commit=lanes.at_commit,
        sizes=sizes,
    )
    try:
        cut = split_slices(batches, lambda: sizes.tuning.slice_bytes, order.splits)
        depth = max(1, min(_MOST_PREFETCHED, _MOST_PREFETCHED_BYTES // sizes.tuning.slice_bytes))
        with Prefetch(cut, depth) as slices:
            shipment.begin(lanes.open())
            for part in slices:
                shipment.ship(part)
            shipment.finish()
            lanes.finish()
    except ShipperError as error:
        lanes.abandon()
        # After a whole wait for a topic or the cluster, another attempt would only wait once more.
        if (
            error.retriable
            and not isinstance(error, TopicMissing | DeliveryTimedOut)
            and tries_before < _LAST_ATTEMPT
        ):
            raise TaskError(seal_error(error, order.seal)) from error
        receipt.error, receipt.error_kind = error.message, type(error).__name__
    except BaseException:
        lanes.abandon()  # Spark uses this process again: no lane may live on in it
        raise
    shipment.count_predecessors()
    lanes.fill_receipt()
    return receipt


class TaskAttempt:
    """One attempt of a task, as the ledger knows it: ``announce`` → ``check`` after each opening of
    a lane, whether it may still send.
    """

    def __init__(self, order: ShipOrder, ledger: LedgerLog, task: int, number: int) -> None:
        """Make an attempt. ``number``: among all attempts of all tasks."""
        self._order = order
        self.ledger = ledger
        self._key = AttemptKey(order.generation, task, number)
        self._began = runtime.monotonic()
        self._most_tasks = max(1, min(order.tasks, len(order.splits)))
        self.active_tasks = self._most_tasks
        """Number of tasks that share the rate limit, as last counted."""
        self.is_late = False
        """True if other tasks may have taken this one's share of the rate limit."""

    def announce(self, *, ended: bool = False) -> None:
        """Tell other tasks that it begins, or has ``ended``. Raises ClusterError, OutcomeUnknown.

        If the beginning is not acknowledged, the ledger is waited for as in :meth:`check`, and the
        record written again: an outage costs none of Spark's attempts, and a copy that comes late
        does no harm (`model/attempts.pml`).
        """
        record = encode_attempt(self._order.pipeline, self._key._replace(ended=ended), Attempt())
        try:
            self.ledger.write_control([record])
        except (ClusterError, OutcomeUnknown):
            if ended:
                raise
            self.ledger.decide(CONTROL_NOW)
            self.ledger.write_control([record])

    def check(self) -> Decided[list[int]]:
        """Return the task's attempts so far. Raises Superseded if a later run, or a later attempt
        of this task, has announced itself, or if the ledger does not have this run any more."""
        order = self._order
        found = self.ledger.of_generation(order.generation).decide(CONTROL_NOW)
        control = found.answer
        by = control.generations.get(control.generation)
        if by is None:
            raise Superseded(
                f"the ledger of pipeline {order.pipeline} does not have run {order.run_id} any "
                "more: its topic was made anew, or lost records. This run sends nothing more."
            )
        if (control.generation, by.run_id) != (order.generation, order.run_id):
            raise Superseded(
                f"run {order.run_id} of pipeline {order.pipeline} was taken over by run "
                f"{by.run_id}. This run sends nothing more."
            )
        attempts = control.attempts.get(self._key.task, [])
        if attempts[-1:] != [self._key.number]:
            raise Superseded(
                f"attempt {self._key.number} of task {self._key.task} was taken over by "
                f"another attempt: {attempts}. This attempt sends nothing more."
            )
        self._count(control)
        return found.map(lambda _: attempts)

    def count_tasks(self) -> None:
        """Look again at how many are active. Raises ClusterError."""
        self._count(self.ledger.look(CONTROL_NOW))

    def _count(self, control: Control) -> None:
        """Count the tasks that share the rate limit: those that have begun and not ended, and for
        the first seconds those that will begin. They begin at the same time, and learn of each
        other only by looking: without this the first one would send at the whole rate meanwhile."""
        begun = control.active_since()
        mine = begun.pop(self._key.task, 0)
        to_begin = 0
        if runtime.monotonic() < self._began + _ALL_BEGIN_SECONDS:
            to_begin = self._most_tasks - len(control.attempts)
        self.active_tasks = max(1, len(begun) + 1 + max(0, to_begin))
        latest = min(begun.values(), default=mine) + (_ALL_BEGIN_SECONDS / 2) * 1000
        self.is_late = bool(begun) and (
            mine > latest or len(control.attempts.get(self._key.task, ())) > 1
        )


class TaskLanes:
    """Lanes of a task, and their reports: ``open`` → chunks to ``pool`` … → ``finish`` →
    ``fill_receipt``."""

    def __init__(
        self, order: ShipOrder, attempt: TaskAttempt, limits: TopicLimits, receipt: Receipt
    ) -> None:
        self._order = order
        self._attempt = attempt
        self._receipt = receipt
        self._right = RightToShip(attempt.check)
        self._cpu_before = runtime.process_time()
        quarantine = order.quarantine
        self._doubtful_bytes = order.doubtful_bytes
        self._topics = (*order.topics, *([quarantine.topic] if quarantine else []))
        self._settings = order.lane_options.settings
        patience = min(_IDS_SECONDS, self._settings.transaction_timeout_ms / 1000 / 4)
        self._topic_ids = TopicIdWatch(
            TopicLookup(self._settings).ids, order.topic_ids, patience_seconds=patience
        )
        limit = order.rate_limit_bytes
        options = replace(
            order.lane_options,
            limits=limits,
            first_partition=receipt.task,
            topics=self._topics,
            topic_ids=self._topic_ids,
            rate=RateLimit(lambda: limit / attempt.active_tasks) if limit else None,
        )
        ids = [
            transactional_id(order.pipeline, order.cluster, receipt.task, lane)
            for lane in range(order.tuning.lanes)
        ]
        self.sizes = Following(order.tuning, order.sizing)
        self.pool = LanePool(
            options, ids, self._settle, self._count_delivered, right=self._right, sizes=self.sizes
        )
        self._done = runtime.Event()
        self._counter = runtime.Thread(target=self._count_tasks, name="tasks", daemon=True)

    def open(self) -> Decided[list[Entry]]:
        """Announce this attempt, open the lanes (which fences the task's earlier attempts), and
        return what is committed then.

        The first attempt of a task has nothing to learn: since the driver took over and read the
        ledger, nobody else could commit anything of this task's splits. So it need not wait for the
        open transactions of the other tasks. Nor does it wait for its announcement before it opens
        the lanes: all that it may fence are later attempts, which have the right when they come
        back. A later one waits: the first would come back, find nobody, and send beside it.
        """
        with runtime.ThreadPoolExecutor(2, thread_name_prefix="connect") as meanwhile:
            meanwhile.submit(self._attempt.ledger.connect, (CONTROL,))
            announced = meanwhile.submit(self._attempt.announce)
            before = announced.result if self._receipt.retries else lambda: None
            self.pool.open(self._topics, announce=before)
            announced.result()
        if self._order.rate_limit_bytes:
            self._counter.start()
        attempts = self._right.check()
        if self._attempt.is_late and self.pool.rate.cap:
            self.pool.rate.cap.hold(_NOTICE_SECONDS)
        if len(attempts.answer) == 1:
            return attempts.map(lambda _: [])
        if not self._settings.transactional:
            self._doubtful_bytes = max(self._doubtful_bytes, self._order.memory_bytes)
        return self._committed(ask_committed(self._order.chunks_end))

    def _committed(self, question: LedgerQuestion[T]) -> Decided[T]:
        """Answer what is committed. The right is asked for afterwards: that the ledger still has
        this run shows that it is the same ledger that was read."""
        found = self._attempt.ledger.decide(question)
        self._right.check()
        return found

    def submit(self, chunks: list[Chunk]) -> None:
        """Submit the chunks to the pool; note those that may be there already, without
        transactions: an earlier attempt reads in the same order, and had as many chunks under way
        as its memory holds."""
        if self._doubtful_bytes > 0:
            for chunk in chunks:
                self._doubtful_bytes -= chunk.held_bytes
                self._receipt.possible_duplicates += chunk.records
                if chunk.records and len(self._receipt.doubtful) < MOST_NAMED:
                    self._receipt.doubtful.append(chunk.label)
        self.pool.submit(chunks)

    def _settle(self) -> Decided[Container[bytes]]:
        """Return the keys of the committed chunks: after each fault each lane asks, reads what is
        new, and decodes nothing."""
        return self._committed(ask_committed_keys(self._order.chunks_end))

    def at_commit(self, chunk: ChunkValue) -> ChunkValue:
        """Return the chunk's value with what is known only at its commit."""
        parked = tuple(sorted(self.pool.parked())) or None
        return replace(chunk, wire_bytes=int(chunk.bytes / self._ratio()), parked=parked)

    def finish(self) -> None:
        """Wait until everything is delivered. Raises what made a lane fail, and TopicMissing for a
        topic that stayed unusable."""
        self.pool.drain()
        self._close(self._settings.transaction_timeout_ms / 1000)
        self.pool.raise_given_up()
        if not self._settings.transactional:
            with _going_on("later runs cannot be told right now that this task has ended"):
                self._attempt.announce(ended=True)

    def abandon(self) -> None:
        """Abandon the ship after a failure: a commit that is under way may still be answered,
        nothing else is sent."""
        self._close(15.0)

    def _close(self, timeout_seconds: float) -> None:
        self._done.set()
        self._attempt.ledger.hurry()
        closed = self.pool.close(timeout_seconds)
        self._topic_ids.close()
        if closed.unknown:
            log.warning(
                ("%d chunks have no answer to their commit; the ledger will show their outcome"),
                len(closed.unknown),
            )
        if self._counter.ident is not None:
            self._counter.join()

    def _count_delivered(self, chunks: Sequence[Chunk]) -> None:
        """Count delivered chunks; called by the pool, one lane at a time. Until the pool is closed,
        only this method writes to these fields."""
        for chunk in chunks:
            if chunk.entry is not None:
                self._receipt.count_delivered(chunk.split, chunk.topic, chunk.entry)

    def fill_receipt(self) -> None:
        """Fill the receipt with what the lanes delivered until now."""
        pool, receipt = self.pool, self._receipt
        receipt.lane_reopened = pool.reopened
        receipt.parked, receipt.unsent = pool.parked_records, pool.unsent()
        receipt.lowered = pool.lowered
        receipt.unconfirmed = {
            topic: self._topic_ids.why(topic) for topic in self._topic_ids.unconfirmed
        }
        if not self._settings.transactional:
            receipt.possible_duplicates += pool.retried_records
            receipt.doubtful += pool.retried()
        receipt.wire_bytes, receipt.waited_seconds = pool.sent().wire_bytes, pool.waited_seconds
        receipt.cpu_seconds = runtime.process_time() - self._cpu_before
        receipt.ack_seconds = self.sizes.ack_seconds
        receipt.throttled_seconds = pool.rate.throttled_seconds
        receipt.last_at = runtime.time()

    def _ratio(self) -> float:
        sent = self.pool.sent()
        trusted = sent.record_bytes and sent.wire_bytes >= _TRUSTED_WIRE_BYTES
        return sent.record_bytes / sent.wire_bytes if trusted else self._order.ratio

    def _count_tasks(self) -> None:
        """Count the tasks until the end, for a share of the rate. Every error is retried: if this
        ended, the rate would stay as it was."""
        while not self._done.wait(_LOOK_AT_OTHER_TASKS_SECONDS):
            with _going_on("other tasks cannot be counted right now"):
                self._attempt.count_tasks()
        if self._settings.transactional:
            with _going_on("other tasks cannot be told right now that this one has ended"):
                self._attempt.announce(ended=True)


@contextmanager
def _going_on(what: str) -> Iterator[None]:
    try:
        yield
    except ShipperError as error:
        log.info("%s: %s", what, error)
    except Exception:
        log.warning(what, exc_info=True)
