"""Reading and writing logs, one partition at a time, outside any transaction."""

from __future__ import annotations

import contextlib
import itertools
import logging
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any

from confluent_kafka import (
    OFFSET_END,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from shipper import runtime
from shipper.config.cluster import Cluster
from shipper.errors import ClusterError, ClusterRefuses, OutcomeUnknown, TopicMissing
from shipper.kafka.admin import ClusterAdmin
from shipper.kafka.connection import KafkaFault, RefusedId, call, make_client, to_fault
from shipper.kafka.outcomes import TransactionOutcome, is_refusal, policy_for
from shipper.types import EncodedRecord, HeadedRecord, LogRecord

log = logging.getLogger("shipper.kafka")

#: Group of the reading clients. Nothing is ever committed to it, but the client asks for its
#: coordinator.
GROUP = "shipper-reads-without-a-group"
_POLL_SECONDS = 0.1
#: Time to ask whether a topic exists, after it did not answer.
_ABSENT_SECONDS = 2.0
_MOST_MESSAGES = 10_000
#: Faults of a write in the first moments of a topic, or during a leader election. The record is not
#: written.
_NOT_YET = ("_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION", "UNKNOWN_TOPIC_OR_PART", "LEADER_NOT_AVAILABLE")


def _offset(message: Message) -> int:
    return int(message.offset() or 0)


def _headers(message: Message) -> tuple[tuple[str, bytes | None], ...]:
    """Return the message's headers; a consumer gets them as pairs."""
    return tuple(message.headers() or ())  # type: ignore[arg-type]


class _Reader:
    """A consumer that stays connected from one read of its partition to the next: a new one takes
    six round trips to its first record."""

    def __init__(
        self, cluster: str, connection: Mapping[str, Any], callbacks: Mapping[str, Any]
    ) -> None:
        self.lock = runtime.Lock()
        self.consumer = make_client(
            Consumer,
            cluster,
            connection,
            {
                "group.id": GROUP,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "isolation.level": "read_committed",
                "client.rack": "",  # from the leader: only that knows the end
                "fetch.wait.max.ms": 10,
                # 1 MB by default, one round trip each: a long ledger far away would come at 7 MB/s.
                "fetch.message.max.bytes": 16_000_000,
                **callbacks,
            },
        )


class _Written:
    """Outcomes of the records of one attempt to write them."""

    def __init__(self, topic: str) -> None:
        self.queued = 0
        self.fault: KafkaFault | None = None
        """The first one."""
        self._topic = topic
        self._offsets: dict[int, int | None] = {}
        """Number of an acknowledged record → its offset; None if the broker told none, as for a
        batch that it had already."""
        self._refused: set[int] = set()
        """Numbers of records that are certainly not written."""

    def report(self, number: int) -> Callable[[KafkaError | None, Message], None]:
        """Return the delivery report of the record with that number."""

        def take(error: KafkaError | None, message: Message) -> None:
            offset = message.offset()
            if error is None:
                self._offsets[number] = offset if offset is not None and offset >= 0 else None
            else:
                fault = to_fault(error, message.topic())
                if policy_for(fault.name).outcome is TransactionOutcome.NOT_DELIVERED:
                    self._refused.add(number)
                self.fail(fault)

        return take

    def fail(self, fault: KafkaFault) -> None:
        self.fault = self.fault or fault

    @property
    def first(self) -> list[int]:
        """Offsets of the records that are written, up to the first one of which that is not
        certain."""
        numbers = itertools.takewhile(
            lambda number: self._offsets.get(number) is not None, itertools.count()
        )
        return [self._offsets[number] or 0 for number in numbers]

    @property
    def is_unplaced(self) -> bool:
        """True if a record is acknowledged, and nobody said where it is."""
        return None in self._offsets.values()

    @property
    def is_unknown(self) -> bool:
        """True if a record may be written, or not."""
        return len(self._offsets) + len(self._refused) < self.queued or self.is_unplaced

    @property
    def may_continue(self) -> bool:
        """True if the unwritten records are certainly not written, no later record is, and the
        cause is temporary."""
        if self.fault is None or self.is_unknown or len(self._offsets) > len(self.first):
            return False
        return self.fault.name in _NOT_YET or (self.fault.name == "_FATAL" and not self._refused)


class ClusterClient(ClusterAdmin):
    """Client of a cluster and its logs: metadata, and the records of partitions."""

    def __init__(self, cluster: Cluster, timeout_seconds: float = 15.0) -> None:
        super().__init__(cluster, timeout_seconds)
        self._heard = {"error_cb": self._client_errors.hear}
        self._is_idempotent = cluster.idempotence
        self._producer: Producer | None = None
        self._producer_lock, self._readers_lock = runtime.Lock(), runtime.Lock()
        self._readers: dict[tuple[str, int], _Reader] = {}

    def connect(self, topic: str, partitions: Sequence[int], *, writes: bool = True) -> None:
        """Bring up every connection that writing to ``topic`` and reading these partitions needs,
        all at once: each takes some eight round trips. Never raises: a later write or read raises
        the reason."""

        def read(partition: int) -> None:
            # Without metadata librdkafka would look for the end once, without success, and again
            # after half a second.
            known = self._reader(topic, partition).consumer.list_topics(topic, self._timeout).topics
            if topic in known and known[topic].error is None:
                self.read(topic, partition, OFFSET_END, wait_seconds=None)

        with runtime.ThreadPoolExecutor(
            1 + len(partitions), thread_name_prefix="connect"
        ) as together:
            begun: list[runtime.Future[Any]] = (
                [together.submit(self._log_producer, topic)] if writes else []
            )
            begun += [together.submit(read, number) for number in partitions]
        for error in filter(None, (future.exception() for future in begun)):
            log.info("not connected yet: %s", error)

    def read(
        self,
        topic: str,
        partition: int,
        start: int,
        *,
        wait_seconds: float | None,
        least_end: Callable[[], int] = lambda: 0,
    ) -> list[LogRecord]:
        """Return committed records from ``start`` on; see :meth:`batches`."""
        return list(
            itertools.chain.from_iterable(
                self.batches(
                    topic, partition, start, wait_seconds=wait_seconds, least_end=least_end
                )
            )
        )

    def batches(
        self,
        topic: str,
        partition: int,
        start: int,
        *,
        wait_seconds: float | None,
        least_end: Callable[[], int] = lambda: 0,
    ) -> Generator[list[LogRecord]]:
        """Yield committed records from ``start`` on, some thousands at a time. No group keeps the
        last-read position.

        With ``wait_seconds``, read up to the present READ_UNCOMMITTED end offset, and wait for open
        transactions before it. Raise OutcomeUnknown if nothing more could be read for so long. With
        None, read what is readable at once, which is enough for a plan.

        A stale leader answers with old records and an old end. ``least_end`` returns a lower bound
        of the end, known from a write; asked with ``wait_seconds``, once something was read, and
        may wait until the write is acknowledged.
        """
        for messages in self._messages(
            topic, partition, start, wait_seconds=wait_seconds, least_end=least_end
        ):
            yield [
                LogRecord(_offset(m), m.timestamp()[1], m.key() or b"", m.value()) for m in messages
            ]

    def headed(self, topic: str) -> Iterator[list[HeadedRecord]]:
        """Yield every record of the topic that is committed now, with its headers; partition by
        partition, some thousands at a time. Raises ClusterError."""
        facts = self.log_facts(topic)
        for partition, start in enumerate(facts.starts):
            for messages in self._messages(topic, partition, start, wait_seconds=None):
                yield [
                    HeadedRecord(
                        partition, _offset(m), m.timestamp()[1], m.key(), m.value(), _headers(m)
                    )
                    for m in messages
                ]

    def _messages(
        self,
        topic: str,
        partition: int,
        start: int,
        *,
        wait_seconds: float | None,
        least_end: Callable[[], int] = lambda: 0,
    ) -> Iterator[list[Message]]:
        reader = self._reader(topic, partition)
        with reader.lock:
            reader.consumer.consume(
                _MOST_MESSAGES, 0
            )  # what happened to its connection since the last read
            reader.consumer.assign([TopicPartition(topic, partition, start)])
            try:
                yield from self._drain(reader.consumer, topic, partition, wait_seconds, least_end)
            finally:
                reader.consumer.unassign()

    def _reader(self, topic: str, partition: int) -> _Reader:
        with self._readers_lock:
            if (topic, partition) not in self._readers:
                self._readers[topic, partition] = _Reader(self._name, self._connection, self._heard)
            return self._readers[topic, partition]

    def _drain(
        self,
        consumer: Consumer,
        topic: str,
        partition: int,
        wait_seconds: float | None,
        least_end: Callable[[], int],
    ) -> Iterator[list[Message]]:
        """Yield messages up to the end. The first answer comes after this call, so its high
        watermark lies after all that was acknowledged before, if the answering broker is still the
        leader."""
        name, where = f"{topic}-{partition}", TopicPartition(topic, partition)
        patience = self._timeout if wait_seconds is None else wait_seconds
        position, target = -1, -1
        deadline = runtime.monotonic() + self._timeout
        while target < 0 or position < target:
            entries, at_lso = list[Message](), False
            for message in self._answer(consumer):
                error, offset = message.error(), _offset(message)
                if error is None:
                    entries.append(message)
                    position = offset + 1
                elif error.code() == KafkaError._PARTITION_EOF:
                    # At the LSO, which is the end or the first record of an open transaction.
                    position, at_lso = offset, True
                else:
                    raise self._failed(f"cannot read {name}", to_fault(error, topic))
            if target < 0 <= position:
                high = consumer.get_watermark_offsets(where, cached=True)[1]
                target = max(int(high), least_end() if wait_seconds is not None else 0)
                deadline = runtime.monotonic() + patience
            if entries:
                yield entries
                deadline = runtime.monotonic() + patience
            if at_lso and wait_seconds is None:
                return
            if runtime.monotonic() > deadline and target < 0:
                silence = KafkaFault(
                    "_TIMED_OUT", f"no answer from its leader within {self._timeout:g} s"
                )
                raise self._absent(topic) or self._failed(f"{name} cannot be read", silence)
            if runtime.monotonic() > deadline and position < target:
                raise OutcomeUnknown(
                    f"cluster {self._name}: {name} could be read only up to offset {position} "
                    f"of {target}. Either a transaction before the end is still open and ends "
                    "at its timeout, or a broker answers that is not the leader any more. "
                    "Nothing was decided on this reading. Run again after the transaction "
                    "timeout."
                )

    def _absent(self, topic: str) -> TopicMissing | None:
        """Return the error if a broker knows no such topic. Its leader is then not to blame."""
        try:
            if topic in self._client.list_topics(timeout=_ABSENT_SECONDS).topics:
                return None
        except KafkaException:
            return None
        return TopicMissing(
            f"cluster {self._name}: topic {topic} does not exist any more, or this user may not "
            "see it any more. Nothing more was sent."
        )

    @staticmethod
    def _answer(consumer: Consumer) -> list[Message]:
        """Return the messages that are available, as soon as there is one: `consume` alone waits
        for as many as it was asked for."""
        first = consumer.poll(_POLL_SECONDS)
        return [] if first is None else [first, *consumer.consume(_MOST_MESSAGES, 0)]

    def try_idempotence(self, topic: str, wait_seconds: float) -> None:
        """Open an idempotent producer, and wait so long for a refusal. ``topic``: any that exists.
        Raises KafkaFault."""
        heard = RefusedId()
        producer = make_client(
            Producer, self._name, self._connection, {"enable.idempotence": True}, heard
        )
        call(producer.list_topics, topic, self._timeout)
        deadline = runtime.monotonic() + wait_seconds
        while runtime.monotonic() < deadline:
            call(producer.poll, _POLL_SECONDS)
            if heard.why:
                raise KafkaFault("_UNSUPPORTED_FEATURE", heard.why)

    def append(
        self,
        topic: str,
        partition: int,
        records: Iterable[EncodedRecord],
        sent: Callable[[], object] = lambda: None,
    ) -> list[int]:
        """Write records outside any transaction, acknowledged by all in-sync replicas; return their
        offsets. ``sent`` is called before each wait for acknowledgements.

        Waits for a topic or leader that brokers do not know yet. Raises ClusterError if a record
        was rejected (ClusterRefuses if waiting does not change that), and OutcomeUnknown if it is
        unknown whether all records are written; then some may be.
        """
        left, offsets = list(records), list[int]()
        give_up_at = runtime.monotonic() + self._timeout
        while True:
            written = self._write(topic, partition, left, sent)
            first = written.first
            offsets, left = offsets + first, left[len(first) :]
            if not left:
                return offsets
            if not (written.may_continue and runtime.monotonic() < give_up_at):
                raise self._not_written(
                    topic, written, f"{len(left)} of {len(left) + len(offsets)}"
                )
            log.info("%s: %s; writing again", topic, written.fault)
            runtime.sleep(_POLL_SECONDS)
            self._look_up(topic)

    def _write(
        self,
        topic: str,
        partition: int,
        records: Sequence[EncodedRecord],
        sent: Callable[[], object],
    ) -> _Written:
        """Try once. After a fatal error the producer is thrown away, and the next try has another
        one."""
        producer = self._log_producer(topic)
        written = _Written(topic)
        try:
            for key, value in records:
                self._queue(producer, written, topic, partition, key, value)
                if written.fault:
                    break
            sent()
            # A record without acknowledgement fails after the timeout. librdkafka looks for such
            # records once a second, and later where processors are short.
            call(producer.flush, self._timeout + 30)
        except KafkaFault as fault:  # the producer is beyond repair
            self._drop_log_producer(producer)
            written.fail(fault)
        return written

    @staticmethod
    def _queue(
        producer: Producer,
        written: _Written,
        topic: str,
        partition: int,
        key: bytes,
        value: bytes | None,
    ) -> None:
        """Queue a record. Raises KafkaFault if the producer is beyond repair."""
        while True:
            try:
                producer.produce(
                    topic, value, key, partition, on_delivery=written.report(written.queued)
                )
                written.queued += 1
                return
            except BufferError:  # its queue takes 100,000; each record leaves it acknowledged, or failed after the timeout  # noqa: E501
                call(producer.poll, _POLL_SECONDS)
            except KafkaException as error:  # refused before it was queued
                fault = to_fault(error.args[0], topic)
                if fault.name == "_FATAL":
                    raise fault from error
                written.fail(fault)
                return

    def _not_written(
        self, topic: str, written: _Written, left: str
    ) -> ClusterError | OutcomeUnknown:
        fault = written.fault and self._client_errors.explained(written.fault)
        if fault and is_refusal(fault.name):
            return ClusterRefuses(
                f"cluster {self._name}: {topic} cannot be written to: {fault} "
                f"({policy_for(fault.name).reason})."
            )
        if why := self._refused(f"cannot write to {topic}: ") or self._absent(topic):
            return why
        if fault and not written.is_unknown:
            return ClusterError(f"cluster {self._name}: cannot write to {topic}: {fault}")
        heard = f" ({fault})" if fault else ""
        lacks = "with their place" if written.is_unplaced else f"within {self._timeout:g} s"
        return OutcomeUnknown(
            f"cluster {self._name}: {left} records for {topic} were not acknowledged "
            f"{lacks}{heard}, so their outcome is unknown. Run again when the cluster is well."
        )

    def _look_up(self, topic: str) -> None:
        """Fetch the topic's metadata: librdkafka would look again only after a while."""
        with contextlib.suppress(KafkaFault):
            call(self._log_producer(topic).list_topics, topic, self._timeout)

    def _log_producer(self, topic: str) -> Producer:
        """Return the producer. It is made on first use and kept, so that only the first record
        waits for a connection and a producer id. Idempotent, if the brokers take that: a copy that
        a stalled connection delivers late would come after newer records, and count in their
        place. Without, one request is in flight at a time."""
        with self._producer_lock:
            if self._producer is None:
                timeout_ms = int(self._timeout * 1000)
                settings = {
                    **(
                        {"enable.idempotence": True}
                        if self._is_idempotent
                        else {"max.in.flight": 1}
                    ),
                    "linger.ms": 0,
                    "message.timeout.ms": timeout_ms,
                }
                self._producer = make_client(
                    Producer, self._name, self._connection, {**settings, **self._heard}
                )
                try:
                    for _ in range(2):  # brings a connection up: see LaneProducer.connect
                        self._producer.list_topics(topic, self._timeout)
                except KafkaException as error:
                    self._producer = None
                    raise self._failed(
                        f"cannot write to {topic}", to_fault(error.args[0])
                    ) from error
            return self._producer

    def _drop_log_producer(self, producer: Producer) -> None:
        """Forget a producer after a fatal error. Another thread may have replaced the producer
        already."""
        with self._producer_lock:
            if self._producer is producer:
                self._producer = None
        with contextlib.suppress(KafkaFault):
            call(producer.purge)
            call(producer.flush, 0)
