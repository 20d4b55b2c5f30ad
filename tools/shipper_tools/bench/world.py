"""The broker that a benchmark sends to, and the way there."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

import psutil
from confluent_kafka import Message

from shipper.config.cluster import Cluster
from shipper.errors import UsageError
from shipper.kafka.client import ClusterClient
from shipper.verify.readback import OffsetRange, ReadBack, Seen
from shipper_tools.bench.machine import command_of, process_seconds
from shipper_tools.bench.results import Case
from shipper_tools.dev.kafka import KafkaServer
from shipper_tools.dev.kafka_tools import run_kafka_tool
from shipper_tools.dev.ports import free_port
from shipper_tools.faultproxy.proxy import FaultProxy
from shipper_tools.testing.kafka_cluster import KafkaCluster

_HEAP_MB = 1024
_PATIENCE_SECONDS = 30.0
#: What a measurement has written goes at once, before the disk is busy with it.
_TOPIC_SETTINGS = {"file.delete.delay.ms": "1000"}


class World:
    """One broker, or three of them if a case wants three replicas, or one for each of several clusters, behind links whose shape changes from case
    to case.

    A single broker is reached without a proxy when there is no distance. Three always have theirs, since what a broker
    advertises is fixed; then the proxies just pass on.
    """

    def __init__(self, folder: Path, replicas: int, clusters: int = 1) -> None:
        """``clusters``: the most that a case has."""
        if replicas not in (1, 3):
            raise UsageError("--replicas takes 1 (one broker) or 3 (three brokers)")
        if replicas == 3 and clusters > 1:
            raise UsageError("--replicas takes 1 (one broker) where there are several clusters")
        self._folder = folder
        self._replicas = replicas
        self._stack = ExitStack()
        self._count = clusters
        self._links: list[FaultProxy] = []
        self._servers: list[KafkaServer] = []
        """Of a cluster each."""
        self._cluster: KafkaCluster | None = None
        self._numbers = itertools.count(1)

    def __enter__(self) -> World:
        with ExitStack() as stack:
            if self._replicas == 1:
                for number in range(self._count):
                    server = KafkaServer(self._folder / str(number), far_port=free_port(), heap_mb=_HEAP_MB, die_with_parent=True)
                    self._servers.append(stack.enter_context(server))
                    self._links.append(stack.enter_context(FaultProxy(server.far_listener, server.far_port or 0)))
            else:
                self._cluster = stack.enter_context(KafkaCluster(self._folder, front=self._front, heap_mb=_HEAP_MB))
                for link in self._links:
                    stack.callback(link.stop)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stack.close()

    def _front(self, broker: int, port: int) -> int:
        link = FaultProxy(f"127.0.0.1:{port}").start()
        self._links.append(link)
        return link.port

    def bootstrap(self, case: Case) -> str:
        """Where clients begin in this case. :meth:`shape` makes the way there what the case wants."""
        return self.bootstraps(case)[0]

    def bootstraps(self, case: Case) -> list[str]:
        """The same for each cluster of the case."""
        if self._cluster is not None:
            return [self._cluster.bootstrap]
        far = bool(case.rtt_ms or case.request_delay_ms)
        return [server.far_bootstrap if far else server.bootstrap for server in self._servers[: case.clusters]]

    def shape(self, case: Case) -> None:
        for link in self._links:
            link.shape(rtt_ms=case.rtt_ms, request_delay_ms=case.request_delay_ms)

    @property
    def _near(self) -> list[str]:
        return [self._cluster.bootstrap] if self._cluster is not None else [server.bootstrap for server in self._servers]

    @property
    def _described(self) -> Cluster:
        return _described(self._near[0])

    @property
    def client(self) -> ClusterClient:
        """Of the first cluster."""
        return ClusterClient(self._described)

    def create_topics(self, case: Case, count: int, prefix: str = "bench") -> list[str]:
        """New, empty topics with the partitions and replicas of the case, on every cluster of it."""
        names = [f"{prefix}-{next(self._numbers)}" for _ in range(count)]
        for link in self._links:
            link.shape(rtt_ms=0, request_delay_ms=0)
        for bootstrap in self._near[: case.clusters]:
            client = ClusterClient(_described(bootstrap))
            client.create_topics(dict.fromkeys(names, case.partitions), _TOPIC_SETTINGS, self._replicas)
        return names

    def records_in(self, topics: Mapping[str, int]) -> int:
        """By the end offsets of topics (name → partitions), which also count the markers of transactions."""
        for link in self._links:
            link.shape(rtt_ms=0, request_delay_ms=0)
        client = self.client
        return sum(client.end_offset(topic, p) for topic, partitions in topics.items() for p in range(partitions))

    def committed_in(self, topic: str) -> int:
        """Records that a ``read_committed`` consumer finds, read one by one: offsets also count markers and what was aborted.

        Raises OutcomeUnknown when a transaction is still open there.
        """
        for link in self._links:
            link.shape(rtt_ms=0, request_delay_ms=0)
        reader = ReadBack(self._described)
        ends = reader.ends(lambda name: name == topic)[topic]
        spans = {(topic, partition): OffsetRange(0, end) for partition, end in enumerate(ends)}
        return sum(seen.records for seen in reader.read(spans, lambda _: _count, _PATIENCE_SECONDS).values())

    def delete_topics(self, names: list[str]) -> None:
        pattern = "|".join(names)
        for bootstrap in self._near:
            told = ["--bootstrap-server", bootstrap, "--delete", "--if-exists", "--topic", pattern]
            run_kafka_tool("org.apache.kafka.tools.TopicCommand", told)

    def cpu_seconds(self) -> dict[str, float]:
        """Of brokers and proxies, until now."""
        return {
            "broker": sum(map(process_seconds, _brokers())),
            "proxy": sum(process_seconds(psutil.Process(link.pid)) for link in self._links),
        }


def _described(bootstrap: str) -> Cluster:
    return Cluster.model_validate({"cluster": "bench", "bootstrap": bootstrap})


def _count(seen: Seen, messages: list[Message]) -> None:
    seen.records += len(messages)


def _brokers() -> list[psutil.Process]:
    """This process' brokers: those of its children whose main class is Kafka's."""
    return [child for child in psutil.Process().children() if "kafka.Kafka" in command_of(child)]
