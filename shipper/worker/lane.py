"""A lane: one producer, one transaction at a time, in a thread of its own.

The protocol, and why it is exactly-once::

    open:     init_transactions(id)     whatever an earlier producer of this id left open is ended, one way or the other,
                                        and it can never commit again (Kafka's fencing)
              settle()                  then, and only then, the ledger is read: it raises Superseded if a later run or task
                                        attempt owns the work, and else knows every chunk that made it
    ship:     begin, records, flush, ledger records, flush, commit; the topics' ids are the same before the first record
              and after the last one was acknowledged
    a fault:  the producer is thrown away, the lane opened anew, and the ledger decides whether the chunks are there

No transaction is ever repaired, and no outcome is guessed. At least once goes the same way without
begin and commit.
"""  # noqa: E501

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from shipper import runtime
from shipper.config.units import plural
from shipper.errors import (
    ClusterRefuses,
    DeliveryError,
    DeliveryTimedOut,
    LedgerGone,
    RecordUnshippable,
)
from shipper.kafka.connection import KafkaFault
from shipper.kafka.limits import RECORD_OVERHEAD_BYTES
from shipper.kafka.outcomes import Action, policy_for
from shipper.kafka.producer import LaneProducer, SentBytes
from shipper.kafka.topics import FORBIDDEN, TopicLookup
from shipper.kafka.transaction import Transactions
from shipper.types import Decided, PresentIds
from shipper.worker.chunk import Chunk, header_bytes
from shipper.worker.rate import BURST_SECONDS, PACED_SHARE, PacedTransaction, SendSize
from shipper.worker.receipt import MOST_NAMED
from shipper.worker.tuning import LARGEST_BATCH
from shipper.worker.wire_size import WireSize

if TYPE_CHECKING:
    from shipper.worker.pool import LanePool

log = logging.getLogger("shipper.lane")

_ABORT_SECONDS = 5.0
#: Longest wait before the rate limiter is asked again: its rate may have changed.
_LOOK_SECONDS = 0.5
#: Time to ask whether a topic exists.
_ABSENT_SECONDS = 5.0
#: Bytes are counted so often at most, since that makes librdkafka write down its whole state.
_COUNT_SECONDS = 0.05
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.1, 5.0
#: Faults that librdkafka reports for records that failed a check of the broker, and for those
#: beside them.
_INVALID = ("INVALID_RECORD", "_INVALID_DIFFERENT_RECORD")


class LaneState(Enum):
    """State of a lane; it says what its chunks are if the lane must stop there."""

    OPENING = "opening"
    IDLE = "idle"
    SENDING = "sending"
    """State in which nothing is delivered yet: only a commit delivers."""
    COMMITTING = "committing"
    """Unknown."""
    RECOVERING = "recovering"
    """Unknown until the lane is open again and the ledger is read."""
    CLOSED = "closed"


class LaneStopped(Exception):
    """The pool is closing and the lane's time is over."""


#: Function that returns the ledger keys of committed chunks. Raises Superseded if the caller may
#: not send any more.
ResolveOutcome = Callable[[], Decided[Container[bytes]]]


class Lane:
    """A thread that takes transactions from its pool until there are no more."""

    def __init__(self, pool: LanePool, index: int, producer_id: str) -> None:
        self.thread = runtime.Thread(target=self._run, name=f"lane {producer_id}", daemon=True)
        self.index = index
        self.state = LaneState.OPENING
        self.current: Sequence[Chunk] = ()
        """Chunks that it is delivering."""
        self.retried_records = 0
        """Records that were sent again after a fault."""
        self.retried: list[str] = []
        """The first of their chunks, for people."""
        self.buffer_wait_seconds = 0.0
        """Seconds of waiting for room in librdkafka's queue."""
        self._pool = pool
        self._options = pool.options
        self._id = producer_id
        self._rotation = pool.options.first_partition
        """Chunks that it has placed in its own share of the partitions."""
        self._several_in_flight = not (
            pool.options.settings.transactional or pool.options.in_order or pool.options.rate
        )
        self._isolating: frozenset[str] = frozenset()
        """Topics that refused a batch that should have fitted: records that could be too large go
        alone."""
        self._built_by: Mapping[str, int] = {}
        """Isolated topic → most bytes by which the batches of the transaction under way
        were built."""
        self._deadline = 0.0
        self._writes_ledger = False
        """The records are acknowledged, and their ledger records are being written: a fault is the
        ledger topic's now."""
        self._charged_bytes = 0
        """Bytes that this lane has sent, as far as the cap knows them."""
        self._paid_bytes = self._estimated_bytes = 0.0
        """Bytes that were paid for since, and the uncorrected estimate of them."""
        self._charged_at = 0.0
        self._refused_at = 0.0
        """Time (monotonic) when the ledger's topic was first forbidden; 0: it is not."""
        self._why = ""
        """Fault of the transaction that is retried."""
        self._transactions = Transactions(
            self._options.settings,
            producer_id,
            (self._options.ledger_topic, *self._options.topics),
            pool.right,
            before_fencing=pool.wait_for_permission,
            stop=self._stop_if_asked,
        )

    def _run(self) -> None:
        try:
            self._deadline = runtime.monotonic() + self._options.deadline_seconds
            self._open()
            self._pool.lane_is_open()
            while (chunks := self._pool.next_transaction(self)) is not None:
                self.current = chunks
                self._deadline = runtime.monotonic() + self._options.deadline_seconds
                self._deliver(chunks)
                self.current = ()
                self.state = LaneState.IDLE
        except LaneStopped:
            pass
        except BaseException as error:
            self._pool.fail(error)
        finally:
            give_up_at = min(self._pool.give_up_at, runtime.monotonic() + _ABORT_SECONDS)
            self._transactions.close(lambda: give_up_at)
            if not self.current:
                self.state = LaneState.CLOSED
            self._pool.lane_ended()

    @property
    def reopened(self) -> int:
        """Number of times that the lane was reopened."""
        return max(0, self._transactions.openings - 1)

    def sent(self) -> SentBytes:
        return self._transactions.sent

    def _until(self) -> float:
        return min(self._deadline, self._pool.stop_at)

    def _commit_until(self) -> float:
        return min(self._deadline, self._pool.give_up_at)

    def _wait(self, waits: Iterable[float]) -> None:
        """Wait for the rate limiter, or until the lane is to stop. The time does not count towards
        the deadline."""
        began = runtime.monotonic()
        for seconds in waits:
            left = self._pool.stop_at - runtime.monotonic()
            if left <= 0:
                break
            runtime.sleep(min(seconds, left, _LOOK_SECONDS))
        self._deadline += runtime.monotonic() - began

    def _stop_if_asked(self) -> None:
        if runtime.monotonic() >= self._pool.stop_at:
            raise LaneStopped

    def _open(self) -> None:
        """Open the lane. On return, every earlier producer with this lane's id is fenced."""
        try:
            self._transactions.open(self._until)
        except KafkaFault as fault:
            since = f". It was to be reopened, because {self._why}" if self._why else ""
            policy = policy_for(fault.name)
            kind: type[ClusterRefuses | DeliveryError] = DeliveryError
            if policy.action is Action.FAIL:
                kind = ClusterRefuses
            elif runtime.monotonic() > self._deadline:
                kind = DeliveryTimedOut
            raise kind(
                f"lane {self._id} cannot be opened: {fault} ({policy.reason}){since}"
            ) from fault

    def _deliver(self, chunks: list[Chunk]) -> None:
        """Deliver the chunks: return when each chunk is committed, or handed back to the pool
        because its topic cannot be written to. Raises DeliveryError at the deadline or for a fault
        that no retry cures."""
        queue, pause = [chunks], _FIRST_PAUSE_SECONDS
        while queue:
            left = self._assign(queue.pop())
            try:
                if left:
                    self._transaction(left)
                    self._why, self._refused_at = "", 0.0
                    self._pool.done(left)
                continue
            except KafkaFault as fault:
                log.info("lane %s: %s; opening it anew", self._id, fault)
                cause = fault
            unknown = self.state is LaneState.COMMITTING
            self.state = LaneState.RECOVERING if unknown else LaneState.SENDING
            self._stop_if_asked()
            self._judge(cause, left)
            self._transactions.discard()
            runtime.sleep(max(0.0, min(pause, self._pool.stop_at - runtime.monotonic())))
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
            self._open()
            committed = self._pool.resolve_outcome().answer
            self._pool.done([chunk for chunk in left if chunk.ledger_key in committed])
            left = [chunk for chunk in left if chunk.ledger_key not in committed]
            self.retried_records += sum(chunk.records for chunk in left)
            self.retried += [chunk.label for chunk in left if chunk.records]
            del self.retried[MOST_NAMED:]
            queue += self._after(cause, left)

    def _assign(self, chunks: list[Chunk]) -> list[Chunk]:
        """Give every chunk its partition; hand back to the pool those that have to wait for one."""
        ready = []
        for chunk in chunks:
            partitions = self._pool.partitions_for(chunk)
            if not partitions:
                self._pool.park(chunk)
                continue
            if chunk.needs_partition:
                lanes = self._pool.lanes_count
                if (
                    chunk.sequence is None
                    and self._options.share_partitions
                    and len(partitions) >= lanes
                ):
                    self._rotation += 1
                    mine = partitions[self.index :: lanes]
                    chunk.partition = mine[self._rotation % len(mine)]
                else:
                    chunk.partition = partitions[next(self._pool.places) % len(partitions)]
            ready.append(chunk)
        return ready

    def _transaction(self, chunks: list[Chunk]) -> None:
        """Send one transaction batch by batch: filled, flushed, next. A second batch waiting behind
        the one in flight makes librdkafka's thread of the broker spin, and a batch that is flushed
        soon is still in the processor's cache (measured: 0.83 CPU s per million lines with 0.5 MB
        at a time, 1.2 with 8 MB). The ledger records come last, after the records. Sent with the
        first batch they would save two round trips, but a transaction that is ended by mistake
        (docs/adr/0006) would then leave a ledger that promises records which were never sent.

        Without transactions several batches are in flight: such a producer does not spin. With
        `ordering: file` they are not, since a batch that is sent again would come after its
        successor. Nor are they once a topic has refused a batch: librdkafka fills one batch with
        all that waits for a partition, whatever the size of the rounds.

        The rate limiter waits before the transaction begins, except for a part of the transaction's
        timeout. The broker would abort an open transaction that also waits for the other lanes'
        transactions, and it would be resent for ever.
        """
        self.state = LaneState.SENDING
        self._writes_ledger = False
        rounds = list(self._rounds(chunks))
        watch, ids = self._options.topic_ids, self._ids_before(chunks)
        several = self._several_in_flight and not (self._pool.lowered or self._isolating)
        with self._paced(rounds) as pace:
            producer = self._transactions.begin(self._until)
            self._charge(producer)
            for number, batch in enumerate(rounds):
                self._wait(pace.send(number))
                with producer.faults():
                    for part in batch.slices:
                        self.buffer_wait_seconds += producer.write(
                            part.chunk, part.first, part.end, self._until
                        )
                if not several:
                    self._flush(producer)
                self._paid_bytes += batch.size.wire_bytes
                self._estimated_bytes += batch.size.uncorrected_bytes
                self._charge(producer)
            if several:
                self._flush(producer)
        asked = watch.ask(ids) if watch and ids else None
        self._write_ledger(producer, chunks, ids)
        if (
            watch
            and asked
            and (unconfirmed := self._unconfirmed(ids, watch.wait_for(asked, self._until)))
        ):
            watch.unconfirmed.update(unconfirmed)
            without = {
                topic: topic_id for topic, topic_id in ids.items() if topic not in unconfirmed
            }
            self._write_ledger(
                producer, [chunk for chunk in chunks if chunk.topic in unconfirmed], without
            )
        self.state = LaneState.COMMITTING
        self._transactions.commit(self._commit_until)

    @contextmanager
    def _paced(self, rounds: Sequence[Round]) -> Iterator[PacedTransaction]:
        """Wait until a transaction of these rounds may begin, and yield its pace."""
        most_seconds = self._options.settings.transaction_timeout_ms / 1000 * PACED_SHARE
        pace = self._pool.rate.transaction([each.size for each in rounds], most_seconds)
        try:
            self._wait(pace.begin())
            yield pace
        finally:
            pace.close()

    def _rounds(self, chunks: list[Chunk]) -> Iterator[Round]:
        """Yield the rounds of the transaction. Under a cap none has more bytes than may go at
        once."""
        cap, wire = self._pool.rate.cap, self._pool.wire_size
        if cap is None:
            for batch in self._batches(chunks):
                yield Round(batch, SendSize(sum(part.bytes for part in batch), 0))
            return
        factor = wire.factor()
        most = cap.bytes_per_second() * BURST_SECONDS / factor
        for batch in self._batches(chunks):
            slices: list[BatchSlice] = []
            records = estimate = 0.0
            for part in (small for whole in batch for small in whole.cut(most, wire)):
                of_part = wire.estimate(*part)
                if slices and estimate + of_part > most:
                    yield Round(slices, SendSize(int(records), factor * estimate, estimate))
                    slices, records, estimate = [], 0.0, 0.0
                slices.append(part)
                records, estimate = records + part.bytes, estimate + of_part
            yield Round(slices, SendSize(int(records), factor * estimate, estimate))

    def _charge(self, producer: LaneProducer) -> None:
        """Tell the cap what was really sent, with all that the protocol adds."""
        cap, now = self._pool.rate.cap, runtime.monotonic()
        if cap is None or now < self._charged_at + _COUNT_SECONDS:
            return
        producer.count_sent()
        if (sent := self._transactions.sent.wire_bytes - self._charged_bytes) <= 0:
            return  # the statistics have not come yet
        cap.correct(sent - self._paid_bytes)
        if self._estimated_bytes:
            self._pool.wire_size.learn(self._estimated_bytes, sent)
        self._charged_bytes += sent
        self._paid_bytes, self._estimated_bytes, self._charged_at = 0.0, 0.0, now

    def _flush(self, producer: LaneProducer) -> None:
        began = runtime.monotonic()
        try:
            producer.flush(self._until)
        finally:
            throttled = producer.take_throttled()
            self._pool.rate.note_throttled(throttled)
        if not throttled.seconds:
            self._pool.sizes.note(runtime.monotonic() - began)

    def _batches(self, chunks: list[Chunk]) -> Iterator[list[BatchSlice]]:
        plain = [chunk for chunk in chunks if chunk.topic not in self._isolating]
        yield from batches(plain, self._pool.round_bytes)
        if len(plain) < len(chunks):
            limits = self._options.limits
            self._built_by = {
                topic: limits.limit(topic).uncompressed_bytes for topic in self._isolating
            }
            yield from isolating_batches(
                [chunk for chunk in chunks if chunk.topic in self._isolating], self._built_by
            )

    def _ids_before(self, chunks: list[Chunk]) -> dict[str, str]:
        """Return the topics' ids as they were before the transaction's first record. Raises
        ClusterRefuses, KafkaFault."""
        watch = self._options.topic_ids
        if watch is None:
            return {}
        topics = {chunk.topic for chunk in chunks if chunk.records}
        found = watch.known(topics, self._until)
        for topic, topic_id in found.items():
            self._refuse_gone(topic, topic_id)
        watch.unconfirmed.update(topic for topic in topics - found.keys() if watch.why(topic))
        return found

    def _unconfirmed(self, before: Mapping[str, str], now: PresentIds) -> set[str]:
        """Return the topics whose ids could not be confirmed. Raises KafkaFault if a topic is not
        the one that it was before the first record."""
        for topic, topic_id in now.items():
            if topic_id is None:
                raise KafkaFault(
                    "UNKNOWN_TOPIC_OR_PART", "deleted while records were sent to it", topic=topic
                )
            if topic_id != before[topic]:
                self._refuse_gone(topic, topic_id)
                text = (
                    "deleted and created again while records were sent to it: its id was "
                    f"{before[topic]} and is {topic_id}"
                )
                raise KafkaFault("INCONSISTENT_TOPIC_ID", text, topic=topic)
        return before.keys() - now.keys()

    def _refuse_gone(self, topic: str, topic_id: str) -> None:
        """Raise ClusterRefuses if a topic that the driver believed to be gone exists: a resend
        would double its records."""
        if topic_id in self._options.gone_ids.get(topic, ()):
            raise ClusterRefuses(
                f"topic {topic} has the id {topic_id}, but a moment ago a broker said that "
                "this topic had been deleted. The metadata of one broker lag behind, and the "
                "records were about to be sent again. Nothing more was sent. Run again when "
                "all brokers are well.",
                code="SHIP-406",
            )

    def _write_ledger(
        self, producer: LaneProducer, chunks: list[Chunk], topic_ids: Mapping[str, str]
    ) -> None:
        """Write the ledger records, and return when they are acknowledged."""
        self._writes_ledger = True
        with producer.faults():
            for chunk in chunks:
                value = chunk.ledger_value(chunk.partition, topic_ids.get(chunk.topic))
                producer.produce(
                    self._options.ledger_topic,
                    value,
                    chunk.ledger_key,
                    self._options.ledger_partition,
                )
        self._flush(producer)
        self._writes_ledger = False

    def _judge(self, fault: KafkaFault, chunks: list[Chunk]) -> None:
        """Judge a fault: return if a retry makes sense, else raise."""
        fault = self._with_cause(fault)
        labels = "; ".join(chunk.label for chunk in chunks[:3]) + (" …" if len(chunks) > 3 else "")
        policy = policy_for(fault.name)
        why = f"{fault} ({policy.reason})"
        if self._writes_ledger:
            why = f"the ledger topic {self._options.ledger_topic} cannot be written to: {why}"
        self._why = f"{labels}: {why}"
        refused = policy.action is Action.FAIL
        if self._writes_ledger and policy.wait_seconds is not None:
            self._refused_at = self._refused_at or runtime.monotonic()
            refused |= runtime.monotonic() > self._refused_at + policy.wait_seconds
        if refused:
            raise ClusterRefuses(
                f"{labels}: not delivered: {why}. Remove the cause, then run again: only what "
                "is left is sent."
            ) from fault
        if policy.action is Action.SMALLER_BATCHES and not self._writes_ledger:
            self._smaller_batches(fault, chunks)
        elif runtime.monotonic() > self._deadline and (
            self._writes_ledger or policy.action is not Action.PARK
        ):
            if self._writes_ledger and self._is_absent(self._options.ledger_topic):
                raise LedgerGone.meanwhile(
                    self._options.settings.cluster, self._options.ledger_topic
                ) from fault
            raise DeliveryTimedOut(
                f"{labels}: not delivered within {self._options.deadline_seconds:g} s "
                f"(`delivery.metadata_wait`): {why}. Run again when the cluster is well: only "
                "what is left is sent."
            ) from fault

    def _is_absent(self, topic: str) -> bool:
        """True if a broker says that there is no such topic."""
        state = TopicLookup(self._options.settings)([topic], _ABSENT_SECONDS)[topic]
        return state.answered and not state.existing and not state.forbidden

    def _with_cause(self, fault: KafkaFault) -> KafkaFault:
        """Return the fault with its cause. For a batch with several records that a topic rejects,
        librdkafka says INVALID_RECORD, whatever the broker found wrong with them: their keys are
        missing, or their times are wrong."""
        if (
            fault.name not in _INVALID
            or fault.topic is None
            or self._options.limits.limit_by_now(fault.topic).needs_key
        ):
            return fault
        return KafkaFault("INVALID_TIMESTAMP", fault.text, topic=fault.topic, value=fault.value)

    def _smaller_batches(self, fault: KafkaFault, chunks: list[Chunk]) -> None:
        """Halve the batch, until it is so small that it always fits; then a record must be too
        large, and is looked for."""
        topics = (
            {fault.topic} if fault.topic else {chunk.topic for chunk in chunks if chunk.records}
        )
        # If librdkafka did not name the topic, the innocent topics' batches get smaller too, which
        # does no harm.
        if True not in [self._gets_smaller(topic) for topic in topics]:
            raise _too_large(fault, chunks) from fault

    def _gets_smaller(self, topic: str) -> bool:
        """True if the topic's next batches are smaller than those of the transaction that failed.
        False if a record was alone already."""
        if topic in self._isolating:
            limit = self._options.limits.limit_by_now(topic)
            if limit.uncompressed_bytes >= self._built_by.get(topic, math.inf):
                return False
        if not self._pool.lower_batch_bytes(topic):
            self._isolating |= {topic}
        return True

    def _after(self, fault: KafkaFault, left: list[Chunk]) -> list[list[Chunk]]:
        """Return the transactions to try next. A topic that is to blame alone is parked; if several
        may be, each goes alone. The ledger's is never parked: without it nothing can be sent."""
        if self._writes_ledger or policy_for(fault.name).action is not Action.PARK:
            return [left] if left else []
        topics = sorted({chunk.topic for chunk in left if chunk.topic})
        guilty = fault.topic if fault.topic in topics else topics[0] if len(topics) == 1 else None
        if guilty is None:
            return [
                group
                for topic in ["", *topics]
                if (group := [chunk for chunk in left if chunk.topic == topic])
            ]
        self._pool.block(
            guilty, f"{fault} ({policy_for(fault.name).reason})", forbidden=fault.name == FORBIDDEN
        )
        for chunk in left:
            if chunk.topic == guilty:
                self._pool.park(chunk)
        others = [chunk for chunk in left if chunk.topic != guilty]
        return [others] if others else []


def _too_large(fault: KafkaFault, chunks: list[Chunk]) -> RecordUnshippable:
    for chunk in chunks:
        if chunk.topic == fault.topic and fault.value in chunk.values:
            index = chunk.values.index(fault.value)
            number = index if chunk.ordinals is None else int(chunk.ordinals[index])
            return RecordUnshippable(
                f"{chunk.label}: record {number + 1} has "
                f"{plural(len(fault.value or b''), 'byte')} and does not fit topic "
                f"{chunk.topic} even in a batch of its own: after compression, the record is "
                "larger than the topic's max.message.bytes. Its chunk was not sent. Raise "
                "that limit (kafka-configs --alter --add-config max.message.bytes=…) and run "
                "again: only what is left is sent.",
                code="SHIP-603",
            )
    return RecordUnshippable(
        f"topic {fault.topic}: a record does not fit even in a batch of its own: {fault}. "
        "Raise the topic's max.message.bytes and run again.",
        code="SHIP-603",
    )


class BatchSlice(NamedTuple):
    """Records [first, end) of a chunk, as a part of one batch."""

    chunk: Chunk
    first: int
    end: int

    @property
    def bytes(self) -> int:
        """Bytes, by the chunk's average record."""
        return self.chunk.size_bytes * (self.end - self.first) // max(1, self.chunk.records)

    def cut(self, wire_bytes: float, wire: WireSize) -> Iterator[BatchSlice]:
        """Yield it in slices that take so many bytes on the wire at most, or are one record."""
        records = self.end - self.first
        parts = min(records, math.ceil(wire.estimate(*self) / wire_bytes))
        if parts <= 1:
            yield self
            return
        for first in range(self.first, self.end, math.ceil(records / parts)):
            part = BatchSlice(self.chunk, first, min(self.end, first + math.ceil(records / parts)))
            yield from part.cut(wire_bytes, wire)


class Round(NamedTuple):
    """Slices that are written and flushed together."""

    slices: Sequence[BatchSlice]
    size: SendSize


def batches(
    chunks: Sequence[Chunk], round_bytes: Callable[[Chunk], int]
) -> Iterator[list[BatchSlice]]:
    """Cut a transaction into rounds, each with about one batch for every partition that it writes
    to, in the order of the chunks.

    ``round_bytes``: size for records of such a chunk. A partition's batches are of equal size, and
    up to :data:`LARGEST_BATCH` times as large: each takes a round trip, so a small one at the end
    would cost as much as a full one. Sizes are judged by the chunk's average record; a batch that
    comes out larger than the producer's ``batch.size`` is cut by librdkafka, so a wrong guess costs
    a round trip and nothing else.
    """
    queues: dict[tuple[str, int | None], deque[BatchSlice]] = {}
    bytes_of: dict[tuple[str, int | None], float] = {}
    most: dict[tuple[str, int | None], int] = {}
    for chunk in chunks:
        if len(chunk.values):
            target = chunk.topic, chunk.partition
            queues.setdefault(target, deque()).append(BatchSlice(chunk, 0, len(chunk.values)))
            bytes_of[target] = bytes_of.get(target, 0.0) + _per_record(chunk) * chunk.records
            most[target] = round_bytes(chunk)
    rooms = {
        target: size / math.ceil(size / (LARGEST_BATCH * most[target]))
        for target, size in bytes_of.items()
    }
    while queues:
        batch: list[BatchSlice] = []
        for target, waiting in list(queues.items()):
            room = rooms[target]
            while waiting and room > 0:
                chunk, first, end = waiting.popleft()
                per_record = _per_record(chunk)
                stop = min(end, first + max(1, math.ceil(room / per_record)))
                batch.append(BatchSlice(chunk, first, stop))
                room -= (stop - first) * per_record
                if stop < end:
                    waiting.appendleft(BatchSlice(chunk, stop, end))
                    break
            if not waiting:
                del queues[target]
        yield batch


def _per_record(chunk: Chunk) -> float:
    return chunk.record_bytes + RECORD_OVERHEAD_BYTES


def isolating_batches(
    chunks: Sequence[Chunk], limits: Mapping[str, int]
) -> Iterator[list[BatchSlice]]:
    """Yield batches of one slice each, in which a record that could be too large for its topic is
    alone: if such a batch is rejected, the record itself is too large. ``limits``: topic → bytes
    that always fit. Looks at every record."""
    for chunk in chunks:
        limit = limits.get(chunk.topic, 0)
        first, room = 0, limit
        headers = chunk.headers[:] if chunk.headers else None
        for index, value in enumerate(chunk.values[:]):
            size = (
                len(value or b"")
                + RECORD_OVERHEAD_BYTES
                + (len(chunk.keys[index] or b"") if chunk.keys else 0)
                + (header_bytes(headers[index]) if headers else 0)
            )
            if size > room and index > first:
                yield [BatchSlice(chunk, first, index)]
                first, room = index, limit
            room -= size
        if first < len(chunk.values):
            yield [BatchSlice(chunk, first, len(chunk.values))]
