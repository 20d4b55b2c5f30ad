"""Metadata, settings and rights of a cluster and its topics, and the creation of topics: everything
of Kafka but records."""

from __future__ import annotations

import logging
import math
import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

from confluent_kafka import IsolationLevel, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ClusterMetadata,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from shipper import runtime
from shipper.config.cluster import Cluster
from shipper.errors import ClusterError, ClusterRefuses
from shipper.kafka import tls
from shipper.kafka.connection import ClientOwner, KafkaFault, connection, make_client, to_fault
from shipper.kafka.limits import TopicLimit
from shipper.kafka.outcomes import is_refusal
from shipper.kafka.producer import LaneSettings
from shipper.kafka.topic_ids import NO_TOPIC_ID, read_answers
from shipper.kafka.transaction import try_transaction

log = logging.getLogger("shipper.kafka")

#: For a moment after a topic was created, or while a leader moves.
_NO_LEADER_YET = ("NOT_LEADER_FOR_PARTITION", "LEADER_NOT_AVAILABLE")
#: Answers of a broker without transactions, or with a topic that takes none. Any other error, such
#: as a slow coordinator's, does not decide that.
NO_TRANSACTIONS = (
    "_UNSUPPORTED_FEATURE",
    "UNSUPPORTED_VERSION",
    "UNSUPPORTED_FOR_MESSAGE_FORMAT",
    "INVALID_REQUEST",
    "TOPIC_EXCEPTION",
    "POLICY_VIOLATION",
)
_REFUSED_SECONDS = 0.5
_RTT_HOLDS_SECONDS = 600.0
_AGAIN_SECONDS = 5.0
_FIRST_SLICE_SECONDS, _SLICE_SECONDS = 0.5, 3.0
_NO_COORDINATOR_YET = (
    "COORDINATOR_NOT_AVAILABLE",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "NOT_COORDINATOR",
    "_WAIT_COORD",
)
_PAUSE_SECONDS = 0.25
_NEWS_SECONDS = 0.1
#: Brokers at a time.
_MOST_ASKED = 16


@dataclass(frozen=True)
class TopicFacts:
    """Settings and size of a topic, as the cluster reports them. Byte counts are of compressed
    batches."""

    partitions: int
    settings: Mapping[str, str]
    replication: int = 0
    """Replicas of the partition that has the fewest."""
    brokers: int = 0
    """Number of the cluster's brokers."""

    @cached_property
    def limit(self) -> TopicLimit:
        return TopicLimit.by(self.settings)

    @property
    def min_insync(self) -> int:
        return int(self.settings.get("min.insync.replicas") or 1)


class TopicIds(NamedTuple):
    """Ids of a topic and its cluster, which a name alone does not tell. Empty where the broker
    knows no id."""

    cluster_id: str
    topic_id: str


@dataclass(frozen=True)
class LogFacts:
    """Identity of a topic, beyond its name, and its present offsets. Both lists are by
    partition."""

    cluster_id: str
    topic_id: str
    """Id of the topic; empty if the broker knows none (before Kafka 2.8)."""
    starts: list[int]
    """First offsets."""
    ends: list[int]
    """Offsets behind the last record, committed or not (READ_UNCOMMITTED)."""


class ClusterAdmin(ClientOwner):
    """One cluster: its brokers, its topics, their settings and offsets. Raises ClusterError where
    it cannot answer within the timeout."""

    def __init__(self, cluster: Cluster, timeout_seconds: float = 15.0) -> None:
        self._name = cluster.name
        self._bootstrap = cluster.bootstrap
        self._connection = connection(cluster)
        self._timeout = timeout_seconds
        super().__init__(AdminClient, cluster.name, self._connection)
        self.cluster_id = ""
        """Kafka's own; empty while no broker has told it."""
        self._is_silent = False
        """True if no broker answered the last time. librdkafka tries to connect every two seconds
        at least, so the next answer comes soon or not."""
        self._rtt_lock = runtime.Lock()
        self._rtt = -math.inf, 0.0
        """Time of the measurement, and the round trip in seconds."""
        self._addresses: list[str] = []
        """Addresses of the brokers, as the last answer had them."""

    def topics(self) -> dict[str, int]:
        """Return topic → number of partitions. Raises ClusterRefuses for wrong credentials,
        ClusterError when no broker answers."""
        return {name: len(topic.partitions) for name, topic in self._metadata().topics.items()}

    def brokers(self) -> int:
        """Return the number of brokers. Raises ClusterError."""
        return len(self._metadata().brokers)

    def _metadata(self) -> ClusterMetadata:
        """Ask for the metadata in short slices: librdkafka reports a wrong password only to the
        error callback, which is served between the slices. Waiting does not repair a certificate
        that cannot be verified, so Python's ssl looks at it once and says why."""
        patience = min(self._timeout, _AGAIN_SECONDS) if self._is_silent else self._timeout
        deadline, slice_seconds = runtime.monotonic() + patience, _FIRST_SLICE_SECONDS
        while True:
            try:
                found: ClusterMetadata = self._client.list_topics(
                    timeout=max(0.1, min(slice_seconds, deadline - runtime.monotonic()))
                )
            except KafkaException as error:
                slice_seconds = min(2 * slice_seconds, _SLICE_SECONDS)
                fault = self._explained(error)
                if refused := self._refused():
                    raise refused from error
                if fault_text := self._certificate_fault():
                    raise ClusterRefuses(
                        f"cluster {self._name}: the TLS connection failed: {fault_text}. "
                        f"Nothing was sent. Correct the settings in clusters/{self._name}.yaml.",
                        code="SHIP-407",
                    ) from error
                if runtime.monotonic() >= deadline:
                    self._is_silent = True
                    raise ClusterError(
                        f"cluster {self._name}: no broker at {self._bootstrap} answered within "
                        f"{patience:g} s ({fault.text}). Check `bootstrap` and "
                        f"`security.protocol` in clusters/{self._name}.yaml, and that this "
                        "machine can reach the brokers."
                    ) from error
            else:
                self._client_errors.forget()
                self._is_silent = False
                self.cluster_id = str(found.cluster_id or "")
                self._addresses = [f"{one.host}:{one.port}" for one in found.brokers.values()]
                return found

    def _certificate_fault(self) -> str | None:
        """Return why no TLS connection comes up, if librdkafka has complained of that."""
        heard = self._client_errors.last
        # A broker that requires a certificate says so when the connection is up, and librdkafka
        # then only reports that the connection broke.
        if (
            heard is None
            or heard.name not in ("_SSL", "_TRANSPORT")
            or not tls.is_tls(self._connection)
        ):
            return None
        return tls.why_refused(self._connection, self._bootstrap, _SLICE_SECONDS)

    def _explained(self, error: KafkaException) -> KafkaFault:
        """Return the fault; if it says only that no answer came, add the connections' complaint."""
        return self._client_errors.explained(to_fault(error.args[0]))

    def _refused(self, what: str = "") -> ClusterRefuses | None:
        """Return the error if brokers refuse this client's login; ``what`` failed of it."""
        if (refusal := self._client_errors.refusal) is None:
            return None
        return ClusterRefuses(
            f"cluster {self._name}: {what}{self._bootstrap} refuses the connection: "
            f"{refusal.text}. {tls.login_remedy(self._connection, refusal.text)} The settings "
            f"are in clusters/{self._name}.yaml."
        )

    def _failed(self, what: str, fault: KafkaFault) -> ClusterError:
        """Return the error for ``fault``, with its cause: to a caller that waits for an answer,
        wrong credentials look like silence."""
        return self._refused(f"{what}: ") or ClusterError(
            f"cluster {self._name}: {what}: {self._client_errors.explained(fault).text}"
        )

    def facts(self, topics: Sequence[str]) -> dict[str, TopicFacts]:
        """Return facts of those of ``topics`` that exist. Raises ClusterError."""
        asked = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
        futures = (
            self._client.describe_configs(asked, request_timeout=self._timeout) if asked else {}
        )
        metadata = self._metadata()  # asked at the same time
        known = metadata.topics
        found = {}
        for resource, future in futures.items():
            if resource.name in known:
                partitions = known[resource.name].partitions.values()
                entries = self._result(
                    future,
                    f"the settings of topic {resource.name} cannot be read",
                    "Grant DescribeConfigs on the topic to the user in `properties`. `shipper "
                    "doctor` shows what else is missing.",
                )
                settings = {name: entry.value for name, entry in entries.items()}
                replication = min((len(partition.replicas) for partition in partitions), default=0)
                found[resource.name] = TopicFacts(
                    len(partitions), settings, replication, len(metadata.brokers)
                )
        return found

    def limits(self, topics: Collection[str]) -> dict[str, TopicLimit]:
        """Return topic → its limit, for those of ``topics`` that exist. Raises ClusterError."""
        return {topic: facts.limit for topic, facts in self.facts(list(topics)).items()}

    def rtt_seconds(self, topic: str) -> float:
        """Return the median of three round trips on a connection that is up: requests for one
        topic's metadata, which a broker answers from memory. Measured once in ten minutes; a second
        caller waits for the first one's measurement. Raises ClusterError."""
        with self._rtt_lock:
            measured_at, before = self._rtt
            if runtime.monotonic() < measured_at + _RTT_HOLDS_SECONDS:
                return before
            found = []
            for _ in range(3):
                began = runtime.monotonic()
                try:
                    self._client.list_topics(topic, timeout=self._timeout)
                except KafkaException as error:
                    raise self._failed(
                        f"no answer from {self._bootstrap}", to_fault(error.args[0])
                    ) from error
                found.append(runtime.monotonic() - began)
            self._rtt = runtime.monotonic(), statistics.median(found)
            return self._rtt[1]

    def create_topics(
        self,
        topics: Mapping[str, int],
        settings: Mapping[str, str] | None = None,
        replication_factor: int | None = None,
    ) -> None:
        """Create topics (name → partitions), and return when each broker knows them, so that
        they can be written to and read at once. An existing topic stays as it is. Raises
        ClusterError."""
        new = [
            _new_topic(name, count, settings or {}, replication_factor)
            for name, count in topics.items()
        ]
        if not self._addresses:
            self._metadata()
        asked = self._client.create_topics(new, request_timeout=self._timeout)
        self._wait_until_known(topics, asked.values())

    def _wait_until_known(
        self, topics: Mapping[str, int], asked: Iterable[runtime.Future[None]]
    ) -> None:
        """Wait until the new topics are created, and every broker knows them. A broker learns of a
        new topic when it reads the controller's log, some moments after the topic was created. A
        client asks any broker: one that is behind says that the topic does not exist, and
        librdkafka then fails its records with ``_UNKNOWN_TOPIC``.

        Raises ClusterError. ``asked``: the requests to create them; to connect to the brokers takes
        longer than these."""
        deadline, refused = runtime.monotonic() + self._timeout, runtime.Event()
        with runtime.ThreadPoolExecutor(
            max(1, min(len(self._addresses), _MOST_ASKED)), thread_name_prefix="created"
        ) as together:
            behind = together.map(
                lambda one: self._ignorance(one, topics, deadline, refused), self._addresses
            )
            try:
                for future in asked:
                    self._result(
                        future,
                        f"{', '.join(topics)} cannot be created",
                        "Grant Create on it to the user in `properties`, or create it.",
                        but="TOPIC_ALREADY_EXISTS",
                    )
            except ClusterError:
                refused.set()
                raise
        if faults := [fault for fault in behind if fault]:
            raise ClusterError(
                f"cluster {self._name}: {', '.join(topics)} was created, but not every broker "
                f"shows it yet: {'; '.join(faults)}. Nothing was sent. Run again. If the error "
                "stays, grant the user Describe on it.",
                code="SHIP-507",
            )

    def _ignorance(
        self, address: str, topics: Mapping[str, int], deadline: float, refused: runtime.Event
    ) -> str | None:
        """Wait until the broker at ``address`` knows the topics and the leaders of all their
        partitions. Return what it does not know at the deadline, or when creating them was
        ``refused``. Return None if it knows all, or did not answer: then no client gets a wrong
        answer from it either."""
        while True:
            # A new client asks its bootstrap broker; once it knows the others, any of them. Without
            # others, the client that is connected already asks the same broker.
            client = self._client
            if len(self._addresses) > 1:
                asked = {**self._connection, "bootstrap.servers": address}
                client = make_client(AdminClient, self._name, asked, {})
            try:
                metadata = client.list_topics(timeout=max(0.1, deadline - runtime.monotonic()))
            except KafkaException as error:
                log.info(
                    "broker %s cannot be asked what it knows of %s: %s",
                    address,
                    ", ".join(topics),
                    error,
                )
                return None
            missing = [topic for topic in topics if not _has_leaders(metadata, topic)]
            if not missing:
                return None
            if refused.is_set() or runtime.monotonic() > deadline:
                return (
                    f"broker {address} does not know {', '.join(missing)} within "
                    f"{self._timeout:g} s"
                )
            runtime.sleep(_NEWS_SECONDS)

    def end_offset(self, topic: str, partition: int) -> int:
        """Return the offset after the last record, committed or not (READ_UNCOMMITTED)."""
        return self._offsets([TopicPartition(topic, partition)], OffsetSpec.latest())[0]  # type: ignore[no-untyped-call]

    def _offsets(self, partitions: Sequence[TopicPartition], spec: OffsetSpec) -> list[int]:
        """Ask for offsets, again while a partition has no leader that knows it, as in the first
        moments of a new topic."""
        deadline = runtime.monotonic() + self._timeout
        while True:
            futures = self._client.list_offsets(
                dict.fromkeys(partitions, spec),
                isolation_level=IsolationLevel.READ_UNCOMMITTED,
                request_timeout=self._timeout,
            )
            try:
                return [int(futures[where].result().offset) for where in partitions]
            except KafkaException as error:
                if error.args[0].name() not in _NO_LEADER_YET or runtime.monotonic() > deadline:
                    raise self._failed(
                        "offsets cannot be asked for", to_fault(error.args[0])
                    ) from error
                runtime.sleep(0.05)

    def log_facts(self, topic: str) -> LogFacts:
        """Return the identity of the topic, and where its partitions begin and end now. Raises
        ClusterError."""
        known = self._metadata()
        partitions = [TopicPartition(topic, number) for number in known.topics[topic].partitions]
        described = self._client.describe_topics(
            TopicCollection([topic]), request_timeout=self._timeout
        )
        with runtime.ThreadPoolExecutor(1, thread_name_prefix="offsets") as meanwhile:
            asked = meanwhile.submit(self._offsets, partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]
            ends = self._offsets(partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]
            starts = asked.result()
        return LogFacts(*self._ids(known, described[topic]), starts, ends)

    def topic_ids(self, topic: str) -> TopicIds:
        """Return the ids of the topic and its cluster. Raises ClusterError."""
        described = self._client.describe_topics(
            TopicCollection([topic]), request_timeout=self._timeout
        )
        return self._ids(self._metadata(), described[topic])  # asked at the same time

    def _ids(self, known: ClusterMetadata, described: Any) -> TopicIds:
        topic_id = str(self._result(described).topic_id)
        return TopicIds(str(known.cluster_id), "" if topic_id == NO_TOPIC_ID else topic_id)

    def present_ids(self, topics: Collection[str]) -> dict[str, str | None]:
        """Return topic → its present id, as :data:`shipper.types.PresentIds` has it; without topics
        that this user may not see. Raises ClusterError."""
        if not topics:
            return {}
        asked = self._client.describe_topics(
            TopicCollection(sorted(topics)), request_timeout=self._timeout
        )
        found = read_answers(asked, self._client_errors.explained)
        if found.faults:
            topic, why = next(iter(found.faults.items()))
            what = f"the id of topic {topic} cannot be asked for"
            raise self._refused(f"{what}: ") or ClusterError(f"cluster {self._name}: {what}: {why}")
        return found.ids

    def try_transactions(
        self, topic: str, transactional_id: str, topics: Sequence[str] = ()
    ) -> None:
        """Initialise a transactional producer, and add ``topics`` to a transaction that is aborted.
        ``topic``: any that exists; ``transactional_id``: one that nobody else has. Raises
        KafkaFault, of :data:`NO_TRANSACTIONS` if they are not to be had."""
        probe = LaneSettings(self._connection, 1000, "none", 10_000, cluster=self._name)
        ends = runtime.monotonic() + self._timeout
        waits = partial(self.answer_seconds, topic)
        try_transaction(probe, transactional_id, topic, topics, waits, lambda: ends)

    def answer_seconds(self, topic: str) -> float:
        """Return a time in which a broker surely refuses what it cannot do. Raises ClusterError."""
        return _REFUSED_SECONDS + 4 * self.rtt_seconds(topic)

    # What the user may do.

    def addresses(self) -> list[tls.HostPort]:
        """Return each broker's address, as the broker advertises it. Raises ClusterError."""
        return sorted(
            tls.HostPort(str(broker.host), int(broker.port))
            for broker in self._metadata().brokers.values()
        )

    def allowed(self, topics: Sequence[str]) -> dict[str, set[str] | KafkaFault]:
        """Return topic → operations that this user may do on it, in the words of ``kafka-acls``; or
        the fault if the topic does not exist or may not be seen."""
        if not topics:
            return {}
        asked = self._client.describe_topics(
            TopicCollection(list(topics)),
            include_authorized_operations=True,
            request_timeout=self._timeout,
        )
        return {topic: self._operations(future) for topic, future in asked.items()}

    def group_allowed(self, group: str) -> set[str] | KafkaFault:
        """Return what :meth:`allowed` returns, for a consumer group. Asks again while the group's
        coordinator is missing, as on a cluster that never had a group."""
        deadline = runtime.monotonic() + self._timeout
        while True:
            asked = self._client.describe_consumer_groups(
                [group],
                include_authorized_operations=True,
                request_timeout=max(0.1, deadline - runtime.monotonic()),
            )
            found = self._operations(asked[group])
            over = runtime.monotonic() > deadline - _PAUSE_SECONDS
            if over or isinstance(found, set) or found.name not in _NO_COORDINATOR_YET:
                return found
            runtime.sleep(_PAUSE_SECONDS)

    def _operations(self, future: Any) -> set[str] | KafkaFault:
        try:
            found = future.result().authorized_operations
        except KafkaException as error:
            return self._explained(error)
        return {
            "".join(word.capitalize() for word in operation.name.split("_"))
            for operation in found or ()
        }

    def try_to_create(
        self, topic: str, settings: Mapping[str, str], replication_factor: int | None
    ) -> None:
        """Ask whether a topic could be created, and create none. Raises KafkaFault."""
        new = [_new_topic(topic, 1, settings, replication_factor)]
        try:
            self._client.create_topics(new, request_timeout=self._timeout, validate_only=True)[
                topic
            ].result()
        except KafkaException as error:
            raise self._explained(error) from error

    def _result(
        self, future: Any, what: str = "it cannot be asked", remedy: str = "", *, but: str = ""
    ) -> Any:
        """Return the answer; None for the fault ``but``. Raises ClusterError, with the ``remedy``
        for a missing right."""
        try:
            return future.result()
        except KafkaException as error:
            fault = to_fault(error.args[0])
            if fault.name == but:
                return None
            if remedy and is_refusal(fault.name):
                remedy = f" {remedy}" if "AUTHORIZATION" in fault.name else ""
                raise ClusterRefuses(
                    f"cluster {self._name}: {what}: {fault.text}{remedy}"
                ) from error
            raise self._failed(what, fault) from error


def _new_topic(
    name: str, partitions: int, settings: Mapping[str, str], replication_factor: int | None
) -> NewTopic:
    return NewTopic(
        name,
        num_partitions=partitions,
        replication_factor=replication_factor or -1,
        config=dict(settings),
    )


def _has_leaders(metadata: ClusterMetadata, topic: str) -> bool:
    """True if the topic exists, and each of its partitions has a leader."""
    known = metadata.topics.get(topic)
    return bool(known and known.error is None and known.partitions) and all(
        partition.leader >= 0 for partition in metadata.topics[topic].partitions.values()
    )
