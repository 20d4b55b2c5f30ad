"""One producer of records, as the lanes use it."""

from __future__ import annotations

import json
import logging
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, Message, Producer, ThrottleEvent

from shipper import runtime
from shipper.config.units import plural
from shipper.kafka.batch_call import PackedProduce, library, state_of
from shipper.kafka.connection import (
    HEARD_ALWAYS,
    SLICE_SECONDS,
    ClientOwner,
    KafkaFault,
    LogListener,
    Until,
    call,
    slice_of,
    to_fault,
)
from shipper.types import Header

log = logging.getLogger("shipper.kafka")

#: Faults with which the producer dropped the record itself: another error has the cause.
PURGED = ("_PURGE_QUEUE", "_PURGE_INFLIGHT")
_QUEUE_KILOBYTES = 524_288
_STATISTICS_INTERVAL_MS = 1000
#: Of each partition and each broker, in what `rd_kafka_dump` writes (librdkafka 2.16, rdkafka.c):
#: the counters of the statistics.
_RECORD_BYTES = re.compile(r" total: +\d+ messages, (\d+) bytes")
_WIRE_BYTES = re.compile(r" \d+ messages sent, (\d+) bytes")


@dataclass(frozen=True)
class LaneSettings:
    """Settings of a lane's producer; picklable, since it travels to Spark's workers."""

    connection: Mapping[str, Any]
    batch_size_bytes: int
    compression: str
    transaction_timeout_ms: int
    transactional: bool = True
    """False: at least once. Several batches of a partition may then be in flight, and an old
    producer cannot be fenced."""
    cluster: str = ""
    """Name of the cluster, for messages."""
    compression_level: int = -1
    """-1: the codec's own."""

    @property
    def codec(self) -> dict[str, Any]:
        level = {"compression.level": self.compression_level} if self.compression_level > 0 else {}
        return {"compression.type": self.compression, **level}

    def as_transactional(self) -> LaneSettings:
        return replace(self, transactional=True)


class SentBytes(NamedTuple):
    """Bytes that a producer sent until a moment, retries included."""

    record_bytes: int = 0
    """Bytes of keys and values, uncompressed."""
    wire_bytes: int = 0
    """Compressed, with all of the protocol."""

    def plus(self, other: SentBytes) -> SentBytes:
        return SentBytes(self.record_bytes + other.record_bytes, self.wire_bytes + other.wire_bytes)


class Throttled(NamedTuple):
    """Throttling that a broker with a quota announced: the broker reads nothing from the connection
    for so long."""

    seconds: float = 0.0
    until: float = 0.0
    """Monotonic seconds."""


class RecordColumns(Protocol):
    """Records of one topic, column by column. A column may make its objects when a slice of it is
    asked for; of one with a method ``packed``, records are taken as they lie in memory."""

    topic: str
    values: Sequence[bytes | None]
    keys: Sequence[bytes | None] | None
    headers: Sequence[list[Header]] | None
    timestamps_ms: Sequence[int] | None
    partition: int | None
    """Partition of records without a key; None if each record has a key, which then decides."""


class LaneProducer(ClientOwner):
    """One producer with its own connections, transactional or not. Thrown away after any fault,
    never repaired.

    ``produce`` is librdkafka's own bound method, since it is called once per record; :meth:`write`
    and :meth:`produce_patiently` know what to do when the queue is full.
    """

    def __init__(self, settings: LaneSettings, producer_id: str) -> None:
        """Make the producer. Raises KafkaException for settings that librdkafka rejects."""
        self._failed: KafkaFault | None = None
        self._transactional = settings.transactional
        self._log_listener = LogListener()
        self._throttled = Throttled()
        self._muted_until = 0.0
        """Time (monotonic) at which the last of the throttled connections is read again."""
        self._ends_at = math.inf
        """Deadline of the transaction under way, in monotonic seconds."""
        self.sent = SentBytes()
        """Bytes sent up to a second ago; exact after :meth:`count_sent`."""
        # A record that is not acknowledged before the transaction times out cannot become part of
        # it.
        timeout_ms = settings.transaction_timeout_ms
        self._timeout_seconds = timeout_ms / 1000
        transactional = {"transactional.id": producer_id, "transaction.timeout.ms": timeout_ms}
        super().__init__(
            Producer,
            settings.cluster,
            settings.connection,
            {
                **(transactional if settings.transactional else {"max.in.flight": 20}),
                "acks": "all",
                "message.timeout.ms": timeout_ms,
                "batch.size": settings.batch_size_bytes,
                "batch.num.messages": 1_000_000,
                # Only a full batch or flush() sends: see lane.batches. Less than the shortest
                # transaction timeout, as librdkafka wants.
                "linger.ms": 5_000,
                "message.max.bytes": 1_000_000_000,
                "queue.buffering.max.messages": 2_000_000,
                "queue.buffering.max.kbytes": _QUEUE_KILOBYTES,
                **settings.codec,
                "partitioner": "murmur2_random",
                "delivery.report.only.error": True,
                "on_delivery": self._report,
                "statistics.interval.ms": _STATISTICS_INTERVAL_MS,
                "stats_cb": self._keep_statistics,
                "throttle_cb": self._hear_throttling,
                **(HEARD_ALWAYS if settings.transactional else {}),
            },
            self._log_listener,
        )
        self.produce = self._client.produce
        # Without a transaction only a report per record shows that a part of a batch was rejected,
        # and packed records have none.
        self._library = library(
            Path(confluent_kafka.__file__).parents[1],
            confluent_kafka.libversion()[1],
            confluent_kafka.__version__,
        )
        self._packed = (
            PackedProduce(self._client, self._library)
            if self._library and settings.transactional
            else None
        )

    def _report(self, error: KafkaError | None, message: Message) -> None:
        if error is not None and (self._failed is None or self._failed.name in PURGED):
            self._failed = to_fault(error, message.topic(), message.value())

    def _keep_statistics(self, text: str) -> None:
        """Keep librdkafka's statistics, which come once a second. Both figures are of one moment,
        so that they can be divided (librdkafka's STATISTICS.md: `txbytes` of a partition,
        `tx_bytes` of the producer)."""
        found = json.loads(text)
        partitions = (
            one for topic in found["topics"].values() for one in topic["partitions"].values()
        )
        self.sent = SentBytes(sum(one["txbytes"] for one in partitions), found["tx_bytes"])

    def count_sent(self) -> SentBytes:
        """Bring :attr:`sent` up to date, and return it. The statistics come once a second, and most
        ships are over before. Where the library is another one than was tried, :attr:`sent` stays
        as the last statistics said."""
        state = state_of(self._client, self._library) if self._library else ""
        if found := _WIRE_BYTES.findall(state):
            self.sent = SentBytes(sum(map(int, _RECORD_BYTES.findall(state))), sum(map(int, found)))
        return self.sent

    def _hear_throttling(self, event: ThrottleEvent) -> None:
        """Note one throttled response. The statistics report throttling only once a second, and no
        more once the client closes."""
        until = runtime.monotonic() + event.throttle_time
        if until > self._throttled.until:
            self._throttled = Throttled(event.throttle_time, until)
        self._muted_until = max(self._muted_until, until)

    def take_throttled(self) -> Throttled:
        """Return the longest throttling that was reported since the last call."""
        self._serve()
        told, self._throttled = self._throttled, Throttled()
        return told

    def _check_throttling(self) -> None:
        """Raise KafkaFault if a broker reads nothing more before the transaction times out: waiting
        would hold up the topic's consumers, and everything would be resent anyway."""
        if self._muted_until > self._ends_at:
            left = self._muted_until - runtime.monotonic()
            text = (
                f"a broker throttles for {left:.1f} s more, longer than the transaction may "
                "last: a quota is used up"
            )
            raise KafkaFault("THROTTLING_QUOTA_EXCEEDED", text, retriable=True)

    def connect(self, until: Until, *topics: str) -> None:
        """Bring a connection up by asking for the topics' metadata, so that the first record does
        not wait for them. Raises KafkaFault.

        librdkafka looks for a coordinator once, and if it has no connection at that moment, again
        only after half a second. Asked twice, because the first answer names the brokers, and
        librdkafka then drops the bootstrap connection for theirs (stalled: 7 of 24 without, 3 with
        one, 0 with two).
        """
        for topic in (*topics, topics[0])[: max(len(topics), 2 if self._transactional else 1)]:
            self._ask_for(topic, until)

    def _ask_for(self, topic: str, until: Until) -> None:
        while True:
            try:
                call(self._client.list_topics, topic, slice_of(until))
                self._client_errors.forget()
                return
            except KafkaFault as fault:
                waiting = fault.name in ("_TIMED_OUT", "_TRANSPORT", "_ALL_BROKERS_DOWN")
                if not waiting or self._client_errors.refusal or runtime.monotonic() >= until():
                    raise self._client_errors.refusal or self._client_errors.explained(
                        fault
                    ) from fault

    def _serve(self) -> bool:
        """Serve librdkafka's log and complaints. Return False if the producer is beyond repair,
        which poll raises and each later call repeats."""
        try:
            self._client.poll(0)
        except (KafkaException, SystemError):
            return False
        return True

    def _cause(self, fault: KafkaFault) -> KafkaFault:
        """Return why a record failed, if the fault does not say."""
        return fault

    @contextmanager
    def faults(self) -> Iterator[None]:
        """Wrap calls of ``produce``: every exception but BufferError becomes a KafkaFault."""
        try:
            yield
        except KafkaException as error:
            raise self._cause(to_fault(error.args[0])) from error

    def write(self, records: RecordColumns, first: int, end: int, until: Until) -> float:
        """Queue records [first, end); to be called within :meth:`faults`. Returns the seconds that
        it waited for room in the queue, which is the only thing that ever blocks the reader. Raises
        KafkaFault."""
        topic, waited = records.topic, 0.0
        partition = -1 if records.partition is None else records.partition
        if records.keys is None and records.headers is None and records.timestamps_ms is None:
            return self._write_values(topic, partition, records.values, first, end, until)
        values, keys = records.values[first:end], records.keys[first:end] if records.keys else None
        headers = records.headers[first:end] if records.headers else None
        timestamps = records.timestamps_ms[first:end] if records.timestamps_ms else None
        for index, value in enumerate(values):
            key = keys[index] if keys else None
            extras: dict[str, Any] = {}
            if headers:
                extras["headers"] = headers[index]
            if timestamps:
                extras["timestamp"] = timestamps[index]
            record = (topic, value, key, partition if key is None else -1)
            try:
                self.produce(*record, **extras)
            except BufferError:
                waited += self.produce_patiently(until, *record, **extras)
        return waited

    def _write_values(
        self,
        topic: str,
        partition: int,
        values: Sequence[bytes | None],
        first: int,
        end: int,
        until: Until,
    ) -> float:
        """Write values packed, where that is possible. The first value is never packed: its
        ordinary call says whether there is a transaction to write to, and its delivery report says
        what became of the batch."""
        produce, waited, packed = self.produce, 0.0, None
        if self._packed is not None and partition >= 0 and hasattr(values, "packed"):
            packed = values.packed(first + 1, end)
        for value in values[first:end] if packed is None else values[first : first + 1]:
            try:
                produce(topic, value, None, partition)
            except BufferError:
                waited += self.produce_patiently(until, topic, value, None, partition)
        for offsets, address in packed or ():
            waited += self._produce_packed(topic, partition, offsets, address, until)
        return waited

    def _produce_packed(
        self, topic: str, partition: int, offsets: Any, address: int, until: Until
    ) -> float:
        """Queue values as a column's ``packed`` gives them, without key."""
        assert self._packed is not None
        waited = 0.0
        while True:
            taken, code = self._packed.produce(topic, partition, offsets, address)
            if code not in (0, KafkaError._QUEUE_FULL):
                raise self._cause(to_fault(KafkaError(code), topic))
            if taken == len(offsets) - 1:
                return waited
            offsets = offsets[taken:]
            began = runtime.monotonic()
            self.wait_for_room(until)
            waited += runtime.monotonic() - began

    def produce_patiently(self, until: Until, *record: Any, **extras: Any) -> float:
        """Call ``produce``; while the queue is full, wait for some record to leave it. Returns the
        seconds that it took."""
        began = runtime.monotonic()
        while True:
            try:
                self.produce(*record, **extras)
                return runtime.monotonic() - began
            except BufferError:
                self.wait_for_room(until)

    def wait_for_room(self, until: Until) -> None:
        """Serve delivery reports for a moment, so that records leave the full queue. Raises
        KafkaFault when the time is over."""
        if runtime.monotonic() > until():
            raise KafkaFault(
                "_QUEUE_FULL", "the producer's queue stayed full until the deadline", retriable=True
            ) from None
        call(self._client.poll, 0.05)

    def flush(self, until: Until) -> None:
        """Wait until every record is acknowledged. Raises the first record's fault, _TIMED_OUT when
        the time is over, or THROTTLING_QUOTA_EXCEEDED if a broker lets no more of the transaction
        through."""
        left = 1
        while (
            left and self._failed is None and (slice_seconds := until() - runtime.monotonic()) > 0
        ):
            left = call(self._client.flush, min(SLICE_SECONDS, slice_seconds))
            if left:
                self._check_throttling()
        if self._failed is not None:
            raise self._cause(self._failed)
        if left:
            fault = KafkaFault(
                "_TIMED_OUT",
                f"no acknowledgement in time for {plural(left, 'record')}",
                retriable=True,
            )
            raise self._client_errors.explained(fault)

    def discard(self) -> None:
        """Drop what is queued, and leave. Never raises. An open transaction ends when its id is
        fenced or its timeout is over.

        If the lane is fenced at this moment, confluent-kafka raises SystemError: see
        :func:`shipper.kafka.connection.call`.
        """
        try:
            self._client.purge(True, True, True)
            self._client.flush(0)
        except (KafkaException, SystemError) as error:
            log.debug("purge of a discarded producer: %s", error)
        finally:
            self.close()

    def close(self) -> None:
        """Leave at once: nothing is flushed."""
        if self._packed is not None:
            self._packed.close()
        self.produce = None
        del self._client
