"""Everything of Kafka but producing records: metadata, topics, and reading and writing logs one partition at a time."""

from __future__ import annotations

import itertools
import logging
import math
import statistics
import threading
import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

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
    ClusterMetadata,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from shipper.config.cluster import Cluster
from shipper.errors import ClusterError, ClusterRefuses, OutcomeUnknown
from shipper.kafka.connection import Complaints, KafkaFault, connection, fault_of, made
from shipper.kafka.limits import DEFAULT_LIMIT_BYTES
from shipper.kafka.producer import LaneSettings
from shipper.kafka.transaction import fence
from shipper.types import HeadedRecord, LogRecord

log = logging.getLogger("shipper.kafka")

#: For a moment after a topic was created, or while a leader moves.
_NO_LEADER_YET = ("NOT_LEADER_FOR_PARTITION", "LEADER_NOT_AVAILABLE")
#: What brokers before 2.8 and unknown topics have in place of an id: a UUID of zeros.
_NO_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAA"
#: What a broker says that has none. Anything else, as a coordinator that is slow to answer, says nothing about it.
_NO_TRANSACTIONS = ("_UNSUPPORTED_FEATURE", "UNSUPPORTED_VERSION")
_POLL_SECONDS = 0.1
_RTT_HOLDS_SECONDS = 600.0
_SLICE_SECONDS = 3.0
_MOST_MESSAGES = 10_000


def _offset(message: Message) -> int:
    return int(message.offset() or 0)


def _headers(message: Message) -> tuple[tuple[str, bytes | None], ...]:
    """A consumer gets them as pairs."""
    return tuple(message.headers() or ())  # type: ignore[arg-type]


@dataclass(frozen=True)
class TopicFacts:
    """What the cluster says of a topic. Byte counts are of compressed batches."""

    partitions: int
    max_message_bytes: int
    settings: Mapping[str, str]
    replication: int = 0
    """Replicas of the partition that has the fewest."""
    brokers: int = 0
    """Of its cluster."""

    @property
    def min_insync(self) -> int:
        return int(self.settings.get("min.insync.replicas") or 1)


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


class _Reader:
    """A consumer that stays connected from one read of its partition to the next: a new one takes six round trips to its first record."""

    def __init__(self, cluster: str, connection: Mapping[str, Any], callbacks: Mapping[str, Any]) -> None:
        self.lock = threading.Lock()
        self.consumer = made(
            Consumer,
            cluster,
            connection,
            {
                "group.id": "shipper-reads-without-a-group",
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
            log,
        )


class ClusterClient:
    """Everything but producing records: metadata, settings, topics, and reading and writing logs one partition at a time."""

    def __init__(self, cluster: Cluster, timeout_seconds: float = 15.0) -> None:
        self._name = cluster.name
        self._bootstrap = cluster.bootstrap
        self._connection = connection(cluster)
        self._timeout = timeout_seconds
        self._complaints = Complaints()
        self._ours = {"error_cb": self._complaints.hear}
        self._admin = made(AdminClient, cluster.name, self._connection, self._ours, log)
        self._rtt = -math.inf, 0.0
        """When it was measured, and what it was."""
        self._producer: Producer | None = None
        self._producer_lock, self._readers_lock = threading.Lock(), threading.Lock()
        self._readers: dict[tuple[str, int], _Reader] = {}

    def topics(self) -> dict[str, int]:
        """Topic → number of partitions. Raises ClusterRefuses for wrong credentials, ClusterError when no broker answers."""
        return {name: len(topic.partitions) for name, topic in self._metadata().topics.items()}

    def brokers(self) -> int:
        """How many there are. Raises ClusterError."""
        return len(self._metadata().brokers)

    def _metadata(self) -> ClusterMetadata:
        """In slices, since a wrong password is told to the error callback alone, which is served in between."""
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                found = self._admin.list_topics(timeout=max(0.1, min(_SLICE_SECONDS, deadline - time.monotonic())))
            except KafkaException as error:
                fault = self._explained(error)
                if self._complaints.refusal:
                    raise ClusterRefuses(
                        f"cluster {self._name}: {self._bootstrap} refuses the connection: {self._complaints.refusal.text}. Correct the "
                        f"credentials and the security settings in clusters/{self._name}.yaml."
                    ) from error
                if time.monotonic() >= deadline:
                    raise ClusterError(
                        f"cluster {self._name}: no broker at {self._bootstrap} answers within {self._timeout:g} s "
                        f"({fault.text}). Check `bootstrap` and the security settings in clusters/{self._name}.yaml, "
                        "and that this machine can reach the brokers."
                    ) from error
            else:
                self._complaints.forget()
                return found

    def _explained(self, error: KafkaException) -> KafkaFault:
        """With what was heard of the connections, if it says only that nothing came."""
        self._admin.poll(0)
        return self._complaints.explained(fault_of(error.args[0]))

    def facts(self, topics: Sequence[str]) -> dict[str, TopicFacts]:
        """Facts on those of ``topics`` that are there. Raises ClusterError."""
        asked = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
        futures = self._admin.describe_configs(asked, request_timeout=self._timeout) if asked else {}
        metadata = self._metadata()  # asked at the same time
        known = metadata.topics
        found = {}
        for resource, future in futures.items():
            if resource.name in known:
                partitions = known[resource.name].partitions.values()
                settings = {name: entry.value for name, entry in self._result(future).items()}
                limit = int(settings.get("max.message.bytes") or DEFAULT_LIMIT_BYTES)
                replication = min((len(partition.replicas) for partition in partitions), default=0)
                found[resource.name] = TopicFacts(len(partitions), limit, settings, replication, len(metadata.brokers))
        return found

    def rtt_seconds(self, topic: str) -> float:
        """Median of three round trips on a connection that is up: requests for one topic's metadata, which a broker answers from memory.
        Measured once in ten minutes."""
        measured_at, before = self._rtt
        if time.monotonic() < measured_at + _RTT_HOLDS_SECONDS:
            return before
        found = []
        for _ in range(3):
            began = time.monotonic()
            try:
                self._admin.list_topics(topic, timeout=self._timeout)
            except KafkaException as error:
                raise ClusterError(
                    f"cluster {self._name}: no answer from {self._bootstrap}: {self._explained(error).text}"
                ) from error
            found.append(time.monotonic() - began)
        self._rtt = time.monotonic(), statistics.median(found)
        return self._rtt[1]

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
                        f"cluster {self._name}: cannot create {', '.join(topics)}: {self._explained(error).text}"
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
                    raise ClusterError(f"cluster {self._name}: {self._explained(error).text}") from error
                time.sleep(0.05)

    def log_facts(self, topic: str) -> LogFacts:
        """Which topic of which cluster it is, and where its partitions begin and end now. Raises ClusterError."""
        known = self._metadata()
        partitions = [TopicPartition(topic, number) for number in known.topics[topic].partitions]
        described = self._admin.describe_topics(TopicCollection([topic]), request_timeout=self._timeout)
        with ThreadPoolExecutor(1, thread_name_prefix="offsets") as meanwhile:
            asked = meanwhile.submit(self._offsets, partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]
            ends = self._offsets(partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]
            starts = asked.result()
        topic_id = str(self._result(described[topic]).topic_id)
        return LogFacts(str(known.cluster_id), "" if topic_id == _NO_TOPIC_ID else topic_id, starts, ends)

    def topic_ids(self, topic: str) -> tuple[str, str]:
        """(id of the cluster, id of the topic; empty where the broker knows none). Raises ClusterError."""
        described = self._admin.describe_topics(TopicCollection([topic]), request_timeout=self._timeout)
        cluster_id = str(self._metadata().cluster_id)  # asked at the same time
        topic_id = str(self._result(described[topic]).topic_id)
        return cluster_id, "" if topic_id == _NO_TOPIC_ID else topic_id

    def connect(self, topic: str, partitions: Sequence[int], *, writes: bool = True) -> None:
        """Brings up what writing to ``topic`` and reading these partitions of it needs, all at once: each takes some eight round
        trips. Never raises: whoever then writes or reads hears why it cannot."""

        def read(partition: int) -> None:
            # Without metadata librdkafka would look for the end once, in vain, and again after half a second.
            known = self._reader(topic, partition).consumer.list_topics(topic, self._timeout).topics
            if topic in known and known[topic].error is None:
                self.read(topic, partition, OFFSET_END, wait_seconds=None)

        with ThreadPoolExecutor(1 + len(partitions), thread_name_prefix="connect") as together:
            begun: list[Future[Any]] = [together.submit(self._log_producer, topic)] if writes else []
            begun += [together.submit(read, number) for number in partitions]
        for error in filter(None, (future.exception() for future in begun)):
            log.info("not connected yet: %s", error)

    def read(self, topic: str, partition: int, start: int, *, wait_seconds: float | None) -> list[LogRecord]:
        """Committed records from ``start`` on; see :meth:`batches`."""
        return list(itertools.chain.from_iterable(self.batches(topic, partition, start, wait_seconds=wait_seconds)))

    def batches(self, topic: str, partition: int, start: int, *, wait_seconds: float | None) -> Generator[list[LogRecord]]:
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
                self._readers[topic, partition] = _Reader(self._name, self._connection, self._ours)
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
                heard = f" ({self._complaints.last})" if self._complaints.last else ""
                raise ClusterError(
                    f"cluster {self._name}: {name} cannot be read: no answer from its leader within {self._timeout:g} s{heard}"
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
        """Writes records outside any transaction, acknowledged by all in-sync replicas; returns their offsets. Raises ClusterError if one
        was refused, OutcomeUnknown if nobody knows whether all are written; then some may be."""
        offsets: list[int] = []
        faults: list[KafkaFault] = []

        def report(error: KafkaError | None, message: Message) -> None:
            if error is None:
                offsets.append(int(message.offset() or 0))
            else:
                faults.append(fault_of(error, message.topic()))

        producer = self._log_producer(topic)
        sent = 0
        for key, value in records:
            while True:
                try:
                    producer.produce(topic, value, key, partition, on_delivery=report)
                    break
                except BufferError:  # its queue takes 100,000; each record leaves it acknowledged, or failed after the timeout
                    producer.poll(_POLL_SECONDS)
            sent += 1
            if faults:
                break
        # A record that is not acknowledged fails after the timeout; librdkafka looks for those once a second.
        producer.flush(self._timeout + 5)
        if faults:
            why = self._complaints.explained(faults[0])
            raise ClusterError(f"cluster {self._name}: cannot write to {topic}: {why}") from faults[0]
        if len(offsets) < sent:
            raise OutcomeUnknown(
                f"cluster {self._name}: {sent - len(offsets)} of {sent} records for {topic} were not acknowledged within "
                f"{self._timeout:g} s, and nobody knows whether they are there. Run again when the cluster is well."
            )
        return offsets

    def _log_producer(self, topic: str) -> Producer:
        """Made on first use and kept, so that only the first record waits for a connection and a producer id. Idempotent: a
        copy that a stalled connection delivers late would come after newer records, and count in their place."""
        with self._producer_lock:
            if self._producer is None:
                timeout_ms = int(self._timeout * 1000)
                settings = {"enable.idempotence": True, "linger.ms": 0, "message.timeout.ms": timeout_ms}
                self._producer = made(Producer, self._name, self._connection, {**settings, **self._ours}, log)
                try:
                    for _ in range(2):  # brings a connection up: see LaneProducer.connect
                        self._producer.list_topics(topic, self._timeout)
                except KafkaException as error:
                    self._producer = None
                    raise ClusterError(f"cluster {self._name}: cannot write to {topic}: {self._explained(error).text}") from error
            return self._producer

    def has_transactions(self, topic: str, transactional_id: str) -> bool:
        """Whether a transactional producer can be initialised. ``topic``: any that is there; ``transactional_id``: one that nobody else has.
        Raises ClusterError when nobody can tell right now, as while the coordinator does not answer."""
        probe = LaneSettings(self._connection, 1000, "none", 10_000, cluster=self._name)
        until = time.monotonic() + self._timeout
        try:
            fence(probe, transactional_id, topic, lambda: until)
        except KafkaFault as fault:
            if fault.name in _NO_TRANSACTIONS:
                log.info("no transactions: %s", fault)
                return False
            raise ClusterError(f"cluster {self._name}: cannot tell whether it has transactions: {fault}") from fault
        return True

    def _result(self, future: Any) -> Any:
        try:
            return future.result()
        except KafkaException as error:
            raise ClusterError(f"cluster {self._name}: {self._explained(error).text}") from error
