"""Kafka, as shipper uses it. The only module that imports ``confluent_kafka``.

Everything that goes wrong leaves here as a KafkaFault that carries librdkafka's name of the error; what a fault means is
decided in one table, :mod:`shipper.producer.outcomes`.
"""

from __future__ import annotations

import itertools
import json
import logging
import statistics
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka
from confluent_kafka import (
    OFFSET_END,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from shipper.config.models import Cluster
from shipper.errors import ClusterError, OutcomeUnknown
from shipper.producer.packed import PackedProduce, library
from shipper.terms import HeadedRecord, LogRecord

log = logging.getLogger("shipper.kafka")

_PURGED = ("_PURGE_QUEUE", "_PURGE_INFLIGHT")
_QUEUE_KILOBYTES = 524_288
#: For a moment after a topic was created, or while a leader moves.
_NO_LEADER_YET = ("NOT_LEADER_FOR_PARTITION", "LEADER_NOT_AVAILABLE")
#: What brokers before 2.8 and unknown topics have in place of an id: a UUID of zeros.
_NO_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAA"
_POLL_SECONDS = 0.1
_MOST_MESSAGES = 10_000
_SLICE_SECONDS = 1.0
_STATISTICS_INTERVAL_MS = 1000

#: Until when a call may take (monotonic seconds); asked again and again, since somebody may want to stop meanwhile.
Until = Callable[[], float]


def _offset(message: Message) -> int:
    return int(message.offset() or 0)


def _headers(message: Message) -> tuple[tuple[str, bytes | None], ...]:
    """A consumer gets them as pairs."""
    return tuple(message.headers() or ())  # type: ignore[arg-type]


def _slice(until: Until) -> float:
    return max(0.05, min(_SLICE_SECONDS, until() - time.monotonic()))


class KafkaFault(Exception):
    """An error of librdkafka or of the broker, by its name in librdkafka (``_TIMED_OUT``, ``UNKNOWN_TOPIC_OR_PART``)."""

    def __init__(
        self, name: str, text: str, *, retriable: bool = False, topic: str | None = None, value: bytes | None = None
    ) -> None:
        super().__init__(f"{name}: {text}")
        self.name = name
        self.text = text
        self.retriable = retriable
        self.topic = topic
        self.value = value
        """The value of the record that failed, if one did."""


def _fault(error: KafkaError, topic: str | None = None, value: bytes | None = None) -> KafkaFault:
    return KafkaFault(error.name(), error.str(), retriable=error.retriable(), topic=topic, value=value)


def _call(operation: Any, *arguments: Any) -> Any:
    try:
        return operation(*arguments)
    except KafkaException as error:
        raise _fault(error.args[0]) from error
    except SystemError as error:
        # What confluent-kafka makes of a fatal error that comes together with a delivery report; now and then it loses which.
        fatal = error.__cause__
        raise (_fault(fatal.args[0]) if isinstance(fatal, KafkaException) else KafkaFault("_FATAL", str(error))) from error


@dataclass(frozen=True)
class TopicFacts:
    """What the cluster says of a topic. Byte counts are of compressed batches."""

    partitions: int
    max_message_bytes: int
    settings: Mapping[str, str]


@dataclass(frozen=True)
class LogFacts:
    """Which topic it is, beyond its name, and what it holds now. Both lists are by partition."""

    cluster_id: str
    topic_id: str
    """Empty if the broker knows none (before Kafka 2.8)."""
    starts: list[int]
    """First offsets."""
    ends: list[int]
    """Offsets behind the last record, committed or not (READ_UNCOMMITTED)."""


@dataclass(frozen=True)
class LaneSettings:
    """What a lane's producer is made of; picklable, since it travels to Spark's workers."""

    connection: Mapping[str, Any]
    batch_size_bytes: int
    compression: str
    transaction_timeout_ms: int
    transactional: bool = True
    """False: at least once. Several batches of a partition may then be in flight, and an old producer cannot be fenced."""


class Sent(NamedTuple):
    """What a producer sent until a moment, a second ago at most, retries included."""

    record_bytes: int = 0
    """Of keys and values, uncompressed."""
    wire_bytes: int = 0
    """Compressed, with all of the protocol."""

    def plus(self, other: Sent) -> Sent:
        return Sent(self.record_bytes + other.record_bytes, self.wire_bytes + other.wire_bytes)


@dataclass(frozen=True)
class TopicState:
    """What the cluster says of a topic."""

    partitions: tuple[int, ...] = ()
    """Those that have a leader."""
    reason: str = ""
    """Why there are none."""


def connection(cluster: Cluster) -> dict[str, Any]:
    """Settings shared by every client of the cluster. Holds secrets: never log it."""
    return {
        "bootstrap.servers": cluster.bootstrap,
        "client.id": "shipper",
        "socket.keepalive.enable": True,
        # The default of 100 ms also delays a client's very first connection to a broker that it has just heard of.
        "reconnect.backoff.ms": 20,
        "reconnect.backoff.max.ms": 2000,
        **cluster.properties,
    }


class _Listener:
    """Passes librdkafka's log on, and hears in it what no callback tells: that a connection broke or a request got no answer."""

    _LOST = ("FAIL", "REQTMOUT")

    def __init__(self) -> None:
        self.lost = False

    def log(self, level: int, text: str, *arguments: Any) -> None:
        self.lost |= bool(arguments) and arguments[0] in self._LOST
        log.log(level, text, *arguments)


class LaneProducer:
    """One producer with its own connections, transactional or not. Thrown away after any fault, never repaired.

    ``produce`` is librdkafka's own bound method, since it is called once per record; see :meth:`produce_patiently` for a full queue.
    """

    def __init__(self, settings: LaneSettings, producer_id: str) -> None:
        self._failed: KafkaFault | None = None
        self._transactional = settings.transactional
        self._listener = _Listener()
        self.sent = Sent()
        # What is not acknowledged before the transaction times out cannot become part of it.
        timeout_ms = settings.transaction_timeout_ms
        transactional = {"transactional.id": producer_id, "transaction.timeout.ms": timeout_ms}
        self._producer = Producer(
            {
                **settings.connection,
                **(transactional if settings.transactional else {"acks": "all", "max.in.flight": 20}),
                "message.timeout.ms": timeout_ms,
                "batch.size": settings.batch_size_bytes,
                "batch.num.messages": 1_000_000,
                # Only a full batch or flush() sends: see rounds. Less than the shortest transaction timeout, as librdkafka wants.
                "linger.ms": 5_000,
                "message.max.bytes": 1_000_000_000,
                "queue.buffering.max.messages": 2_000_000,
                "queue.buffering.max.kbytes": _QUEUE_KILOBYTES,
                "compression.type": settings.compression,
                "partitioner": "murmur2_random",
                "delivery.report.only.error": True,
                "on_delivery": self._report,
                "statistics.interval.ms": _STATISTICS_INTERVAL_MS,
                "stats_cb": self._keep_statistics,
            },
            logger=self._listener,
        )
        self.produce = self._producer.produce
        # Without a transaction only a report per record tells that a part of a batch was refused, and packed records have none.
        packed = (
            library(Path(confluent_kafka.__file__).parents[1], confluent_kafka.libversion()[1])
            if settings.transactional
            else None
        )
        self._packed = PackedProduce(self._producer, packed) if packed else None

    def _report(self, error: KafkaError | None, message: Message) -> None:
        if error is not None and (self._failed is None or self._failed.name in _PURGED):
            self._failed = _fault(error, message.topic(), message.value())

    def _keep_statistics(self, text: str) -> None:
        """Once a second. Both figures are of one moment, so that they can be divided (librdkafka's STATISTICS.md: `txbytes` of a
        partition, `tx_bytes` of the producer)."""
        found = json.loads(text)
        partitions = (one for topic in found["topics"].values() for one in topic["partitions"].values())
        self.sent = Sent(sum(one["txbytes"] for one in partitions), found["tx_bytes"])

    def connect(self, until: Until, topic: str) -> None:
        """Brings a connection up, by asking for ``topic``'s metadata. Raises KafkaFault.

        librdkafka looks for a coordinator once, and if it has no connection at that moment, again only after half a second. Asked
        twice, because the first answer names the brokers, whereupon librdkafka drops the bootstrap connection for theirs
        (stalled: 7 of 24 without, 3 with one, 0 with two).
        """
        for _ in range(2 if self._transactional else 1):
            self._ask_for(topic, until)

    def init(self, until: Until) -> None:
        """Fences every earlier producer with this transactional.id and ends its open transaction. Raises KafkaFault."""
        if self._transactional:
            self._resume(self._producer.init_transactions, until)
        self._producer.poll(0)
        self._listener.lost = False

    def lost_connection(self) -> bool:
        """Whether a copy of an earlier commit may still be under way, since its connection broke or its answer was late. The next
        transaction then needs a new epoch, thus a new producer: docs/adr/0006."""
        self._producer.poll(0)  # serves the log
        return self._transactional and self._listener.lost

    def _ask_for(self, topic: str, until: Until) -> None:
        while True:
            try:
                _call(self._producer.list_topics, topic, _slice(until))
                return
            except KafkaFault as fault:
                if fault.name not in ("_TIMED_OUT", "_TRANSPORT", "_ALL_BROKERS_DOWN") or time.monotonic() >= until():
                    raise

    def _resume(self, operation: Any, until: Until) -> None:
        """Calls an operation of the transaction in short slices: called again after a timeout, it goes on where it was."""
        while True:
            try:
                _call(operation, _slice(until))
                return
            except KafkaFault as fault:
                # After a fatal error every call is answered with _CONFLICT, and called retriable.
                if not fault.retriable or fault.name == "_CONFLICT" or time.monotonic() >= until():
                    raise
                log.debug("resumed after %s", fault)

    @contextmanager
    def faults(self) -> Iterator[None]:
        """Around calls of ``produce``: what it raises (but BufferError) becomes a KafkaFault."""
        try:
            yield
        except KafkaException as error:
            raise self._cause(_fault(error.args[0])) from error

    @property
    def takes_packed(self) -> bool:
        return self._packed is not None

    def produce_packed(self, topic: str, partition: int, offsets: Any, address: int) -> int:
        """Queues values as :class:`PackedValues` gives them, without key. Returns how many: all, or fewer when the queue is full. Raises
        KafkaFault.

        Produce a record of the same partition with :meth:`produce` before: that says whether there is a transaction to write to, and its
        delivery report, what became of the batch."""
        assert self._packed is not None
        taken, code = self._packed.produce(topic, partition, offsets, address)
        if code not in (0, KafkaError._QUEUE_FULL):
            raise self._cause(_fault(KafkaError(code), topic))
        return taken

    def begin(self) -> None:
        self._failed = None
        if self._transactional:
            _call(self._producer.begin_transaction)

    def produce_patiently(self, until: Until, *record: Any, **extras: Any) -> None:
        """``produce``, and while the queue is full, waits for some record to leave it."""
        while True:
            try:
                return self.produce(*record, **extras)
            except BufferError:
                self.wait_for_room(until)

    def wait_for_room(self, until: Until) -> None:
        """Serves delivery reports for a moment, whereby records leave the full queue. Raises KafkaFault when the time is over."""
        if time.monotonic() > until():
            raise KafkaFault("_QUEUE_FULL", "the producer's queue stayed full until the deadline", retriable=True) from None
        _call(self._producer.poll, 0.05)

    def flush(self, until: Until) -> None:
        """Returns when every record is acknowledged. Raises the first record's fault, or _TIMED_OUT when the time is over."""
        left = 1
        while left and self._failed is None and (slice_seconds := until() - time.monotonic()) > 0:
            left = _call(self._producer.flush, min(_SLICE_SECONDS, slice_seconds))
        if self._failed is not None:
            raise self._cause(self._failed)
        if left:
            raise KafkaFault("_TIMED_OUT", f"{left} records were not acknowledged in time", retriable=True)

    def _cause(self, fault: KafkaFault) -> KafkaFault:
        """When a transaction becomes abortable librdkafka purges its records; why, only the next call to the transaction says.
        It is safe to ask by committing, since a transaction in that state cannot commit."""
        if not self._transactional or fault.name not in (*_PURGED, "_STATE"):
            return fault
        try:
            _call(self._producer.commit_transaction, 0.1)
        except KafkaFault as cause:
            return KafkaFault(cause.name, cause.text, retriable=cause.retriable)
        return fault

    def commit(self, until: Until) -> None:
        """Commits. A commit that timed out is resumed until the end, since nobody knows whether the first one arrived."""
        if self._transactional:
            self._resume(self._producer.commit_transaction, until)

    def abort(self, until: Until) -> None:
        """Ends an open transaction, if the broker answers in time: left open it would hold up read_committed readers until its
        timeout. Never raises; there is nothing that could be done about it."""
        if not self._transactional:
            return
        try:
            self._producer.purge(True, True, True)
            self._resume(self._producer.abort_transaction, until)
        except (KafkaFault, KafkaException) as error:
            log.debug("abort before leaving: %s", error)

    def discard(self) -> None:
        """Drops what is queued and leaves; an open transaction ends when its id is fenced or its timeout is over."""
        try:
            self._producer.purge(True, True, True)
            self._producer.flush(0)
        except KafkaException as error:
            log.debug("purge of a discarded producer: %s", error)
        self.close()

    def close(self) -> None:
        if self._packed is not None:
            self._packed.close()
        self.produce = None  # type: ignore[assignment]
        del self._producer


class TopicLookup:
    """Asks the cluster about topics, with a connection of its own."""

    def __init__(self, settings: LaneSettings) -> None:
        self._client = AdminClient(dict(settings.connection), logger=log)

    def __call__(self, topics: Collection[str], timeout_seconds: float) -> dict[str, TopicState]:
        """One request for all. Never raises: what goes wrong is the reason why a topic has no partitions right now."""
        named = [topic for topic in topics if topic]
        unnamed = dict.fromkeys(set(topics) - set(named), TopicState(reason="a topic's name cannot be empty"))
        if not named:
            return unnamed
        asked = self._client.describe_topics(TopicCollection(named), request_timeout=timeout_seconds)
        return unnamed | {topic: self._state(answer) for topic, answer in asked.items()}

    @staticmethod
    def _state(answer: Future[Any]) -> TopicState:
        try:
            partitions = answer.result().partitions
        except KafkaException as error:
            return TopicState(reason=error.args[0].str())
        led = tuple(sorted(partition.id for partition in partitions if partition.leader is not None and partition.leader.id >= 0))
        return TopicState(led, "" if led else "none of its partitions has a leader")


class _Reader:
    """A consumer that stays connected from one read of its partition to the next: a new one takes six round trips to its first record."""

    def __init__(self, connection: Mapping[str, Any]) -> None:
        self.lock = threading.Lock()
        self.consumer = Consumer(
            {
                **connection,
                "group.id": "shipper-reads-without-a-group",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "isolation.level": "read_committed",
                "client.rack": "",  # from the leader: only that knows the end
                "fetch.wait.max.ms": 10,
                # 1 MB by default, one round trip each: a long ledger far away would come at 7 MB/s.
                "fetch.message.max.bytes": 16_000_000,
            },
            logger=log,
        )


class ClusterClient:
    """Everything but producing records: metadata, settings, topics, and reading and writing logs one partition at a time."""

    def __init__(self, cluster: Cluster, timeout_seconds: float = 15.0) -> None:
        self._name = cluster.name
        self._bootstrap = cluster.bootstrap
        self._connection = connection(cluster)
        self._timeout = timeout_seconds
        self._admin = AdminClient(self._connection, logger=log)
        self._producer: Producer | None = None
        self._producer_lock, self._readers_lock = threading.Lock(), threading.Lock()
        self._readers: dict[tuple[str, int], _Reader] = {}

    def topics(self) -> dict[str, int]:
        """Topic → number of partitions. Raises ClusterError when no broker answers."""
        try:
            found = self._admin.list_topics(timeout=self._timeout).topics
        except KafkaException as error:
            raise ClusterError(
                f"cluster {self._name}: no broker at {self._bootstrap} answers within {self._timeout:g} s "
                f"({error.args[0].str()}). Check `bootstrap` and the security settings in config/clusters/{self._name}.yaml, "
                "and that this machine can reach the brokers."
            ) from error
        return {name: len(topic.partitions) for name, topic in found.items()}

    def facts(self, topics: Sequence[str]) -> dict[str, TopicFacts]:
        """Facts on those of ``topics`` that are there. Raises ClusterError."""
        asked = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
        futures = self._admin.describe_configs(asked, request_timeout=self._timeout) if asked else {}
        known = self.topics()  # asked at the same time
        found = {}
        for resource, future in futures.items():
            if resource.name in known:
                settings = {name: entry.value for name, entry in self._result(future).items()}
                limit = int(settings.get("max.message.bytes") or 1_048_588)
                found[resource.name] = TopicFacts(known[resource.name], limit, settings)
        return found

    def rtt_seconds(self, topic: str) -> float:
        """Median of five round trips on a connection that is up: requests for one topic's metadata, which a broker answers from memory."""
        found = []
        for _ in range(5):
            began = time.monotonic()
            try:
                self._admin.list_topics(topic, timeout=self._timeout)
            except KafkaException as error:
                raise ClusterError(f"cluster {self._name}: no answer from {self._bootstrap}: {error.args[0].str()}") from error
            found.append(time.monotonic() - began)
        return statistics.median(found)

    def create_topics(
        self,
        topics: Mapping[str, int],
        settings: Mapping[str, str] | None = None,
        replication_factor: int | None = None,
    ) -> None:
        """Creates topics (name → partitions). One that is there already stays as it is. Raises ClusterError."""
        new = [
            NewTopic(name, num_partitions=count, replication_factor=replication_factor or -1, config=dict(settings or {}))
            for name, count in topics.items()
        ]
        for future in self._admin.create_topics(new, request_timeout=self._timeout).values():
            try:
                future.result()
            except KafkaException as error:
                if error.args[0].name() != "TOPIC_ALREADY_EXISTS":
                    raise ClusterError(
                        f"cluster {self._name}: cannot create {', '.join(topics)}: {error.args[0].str()}"
                    ) from error
        deadline = time.monotonic() + self._timeout
        while not set(topics) <= set(self.topics()):
            if time.monotonic() > deadline:
                raise ClusterError(f"cluster {self._name}: {', '.join(topics)} created, but no broker shows them yet; try again")
            time.sleep(0.1)

    def end_offset(self, topic: str, partition: int) -> int:
        """The offset behind the last record, committed or not (READ_UNCOMMITTED)."""
        return self._offsets([TopicPartition(topic, partition)], OffsetSpec.latest())[0]  # type: ignore[no-untyped-call]

    def _offsets(self, partitions: Sequence[TopicPartition], spec: OffsetSpec) -> list[int]:
        """Asks again while a partition has no leader that knows of it, as in the first moments of a new topic."""
        deadline = time.monotonic() + self._timeout
        while True:
            futures = self._admin.list_offsets(
                dict.fromkeys(partitions, spec),
                isolation_level=IsolationLevel.READ_UNCOMMITTED,
                request_timeout=self._timeout,
            )
            try:
                return [int(futures[where].result().offset) for where in partitions]
            except KafkaException as error:
                if error.args[0].name() not in _NO_LEADER_YET or time.monotonic() > deadline:
                    raise ClusterError(f"cluster {self._name}: {error.args[0].str()}") from error
                time.sleep(0.05)

    def log_facts(self, topic: str) -> LogFacts:
        """Which topic of which cluster it is, and where its partitions begin and end now. Raises ClusterError."""
        known = self._admin.list_topics(timeout=self._timeout)
        partitions = [TopicPartition(topic, number) for number in known.topics[topic].partitions]
        described = self._admin.describe_topics(TopicCollection([topic]), request_timeout=self._timeout)
        starts = self._offsets(partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]
        ends = self._offsets(partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]
        topic_id = str(self._result(described[topic]).topic_id)
        return LogFacts(str(known.cluster_id), "" if topic_id == _NO_TOPIC_ID else topic_id, starts, ends)

    def connect(self, topic: str, partitions: Sequence[int]) -> None:
        """Brings up what writing to ``topic`` and reading these partitions of it needs, all at once: each takes some eight round
        trips. Never raises: whoever then writes or reads hears why it cannot."""

        def read(partition: int) -> None:
            # Without metadata librdkafka would look for the end once, in vain, and again after half a second.
            known = self._reader(topic, partition).consumer.list_topics(topic, self._timeout).topics
            if topic in known and known[topic].error is None:
                self.read(topic, partition, OFFSET_END, wait_seconds=None)

        with ThreadPoolExecutor(1 + len(partitions), thread_name_prefix="connect") as together:
            begun: list[Future[Any]] = [together.submit(self._log_producer, topic)]
            begun += [together.submit(read, number) for number in partitions]
        for error in filter(None, (future.exception() for future in begun)):
            log.info("not connected yet: %s", error)

    def read(self, topic: str, partition: int, start: int, *, wait_seconds: float | None) -> list[LogRecord]:
        """Committed records from ``start`` on; see :meth:`batches`."""
        return list(itertools.chain.from_iterable(self.batches(topic, partition, start, wait_seconds=wait_seconds)))

    def batches(self, topic: str, partition: int, start: int, *, wait_seconds: float | None) -> Iterator[list[LogRecord]]:
        """Committed records from ``start`` on, some thousands at a time. The last-read position is not kept anywhere.

        With ``wait_seconds`` it reads up to the READ_UNCOMMITTED end offset as of now, waiting for open transactions in
        front of it, and raises OutcomeUnknown if nothing more could be read for so long. With None it takes what is
        readable at once, which is what a plan wants.
        """
        for messages in self._messages(topic, partition, start, wait_seconds=wait_seconds):
            yield [LogRecord(_offset(m), m.timestamp()[1], m.key() or b"", m.value()) for m in messages]

    def headed(self, topic: str) -> Iterator[list[HeadedRecord]]:
        """Every record of the topic that is committed now, with its headers; partition by partition, some thousands at a time.
        Raises ClusterError."""
        facts = self.log_facts(topic)
        for partition, start in enumerate(facts.starts):
            for messages in self._messages(topic, partition, start, wait_seconds=None):
                yield [HeadedRecord(partition, _offset(m), m.timestamp()[1], m.key(), m.value(), _headers(m)) for m in messages]

    def _messages(self, topic: str, partition: int, start: int, *, wait_seconds: float | None) -> Iterator[list[Message]]:
        reader = self._reader(topic, partition)
        patience = self._timeout if wait_seconds is None else wait_seconds
        with reader.lock:
            reader.consumer.consume(_MOST_MESSAGES, 0)  # what happened to its connection since the last read
            reader.consumer.assign([TopicPartition(topic, partition, start)])
            try:
                yield from self._drain(reader.consumer, topic, partition, patience, stop_at_lso=wait_seconds is None)
            finally:
                reader.consumer.unassign()

    def _reader(self, topic: str, partition: int) -> _Reader:
        with self._readers_lock:
            if (topic, partition) not in self._readers:
                self._readers[topic, partition] = _Reader(self._connection)
            return self._readers[topic, partition]

    def _drain(
        self, consumer: Consumer, topic: str, partition: int, patience: float, *, stop_at_lso: bool
    ) -> Iterator[list[Message]]:
        """The first answer is one to a question asked now, so its high watermark lies behind all that was acknowledged before."""
        name, where = f"{topic}-{partition}", TopicPartition(topic, partition)
        position, target = -1, -1
        deadline = time.monotonic() + self._timeout
        while target < 0 or position < target:
            entries: list[Message] = []
            at_lso = False
            for message in self._answer(consumer):
                error, offset = message.error(), _offset(message)
                if error is None:
                    entries.append(message)
                    position = offset + 1
                elif error.code() == KafkaError._PARTITION_EOF:
                    # At the LSO: the end, or the first record of a transaction that is still open.
                    position, at_lso = offset, True
                else:
                    raise ClusterError(f"cluster {self._name}: cannot read {name}: {error.str()}")
            if target < 0 <= position:
                target = int(consumer.get_watermark_offsets(where, cached=True)[1])
                deadline = time.monotonic() + patience
            if entries:
                yield entries
                deadline = time.monotonic() + patience
            if at_lso and stop_at_lso:
                return
            if time.monotonic() > deadline and target < 0:
                raise ClusterError(
                    f"cluster {self._name}: {name} cannot be read: no answer from its leader within {self._timeout:g} s"
                )
            if time.monotonic() > deadline and position < target:
                raise OutcomeUnknown(
                    f"cluster {self._name}: {name} could be read up to offset {position} of {target} only: a transaction is "
                    "still open in front of it. It ends at its timeout at the latest; run again then."
                )

    @staticmethod
    def _answer(consumer: Consumer) -> list[Message]:
        """What is there, as soon as something is: `consume` alone waits for as many as it was asked for."""
        first = consumer.poll(_POLL_SECONDS)
        return [] if first is None else [first, *consumer.consume(_MOST_MESSAGES, 0)]

    def append(self, topic: str, partition: int, records: Iterable[tuple[bytes, bytes | None]]) -> list[int]:
        """Writes records outside any transaction, acknowledged by all in-sync replicas; returns their offsets."""
        offsets: list[int] = []
        faults: list[KafkaFault] = []

        def report(error: KafkaError | None, message: Message) -> None:
            if error is None:
                offsets.append(int(message.offset() or 0))
            else:
                faults.append(_fault(error, message.topic()))

        producer = self._log_producer(topic)
        for key, value in records:
            producer.produce(topic, value, key, partition, on_delivery=report)
        producer.flush(self._timeout + 1)
        if faults:
            raise ClusterError(f"cluster {self._name}: cannot write to {topic}: {faults[0]}") from faults[0]
        return offsets

    def _log_producer(self, topic: str) -> Producer:
        """Made on first use and kept, so that only the first record waits for a connection and a producer id. Idempotent: a
        copy that a stalled connection delivers late would come after newer records, and count in their place."""
        with self._producer_lock:
            if self._producer is None:
                timeout_ms = int(self._timeout * 1000)
                settings = {"enable.idempotence": True, "linger.ms": 0, "message.timeout.ms": timeout_ms}
                self._producer = Producer({**self._connection, **settings}, logger=log)
                try:
                    for _ in range(2):  # brings a connection up: see LaneProducer.connect
                        self._producer.list_topics(topic, self._timeout)
                except KafkaException as error:
                    raise ClusterError(f"cluster {self._name}: cannot write to {topic}: {error.args[0].str()}") from error
            return self._producer

    def has_transactions(self, topic: str) -> bool:
        """Whether a transactional producer can be initialised. ``topic``: any that is there."""
        probe = LaneSettings(self._connection, 1000, "none", 10_000)
        producer = LaneProducer(probe, "shipper-preflight")
        until = time.monotonic() + self._timeout
        try:
            producer.connect(lambda: until, topic)
            producer.init(lambda: until)
        except KafkaFault as fault:
            if fault.name in ("_UNSUPPORTED_FEATURE", "UNSUPPORTED_VERSION", "_TIMED_OUT", "COORDINATOR_NOT_AVAILABLE"):
                log.info("no transactions: %s", fault)
                return False
            raise ClusterError(f"cluster {self._name}: cannot tell whether it has transactions: {fault}") from fault
        finally:
            producer.discard()
        return True

    def _result(self, future: Any) -> Any:
        try:
            return future.result()
        except KafkaException as error:
            raise ClusterError(f"cluster {self._name}: {error.args[0].str()}") from error
