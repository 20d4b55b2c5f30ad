"""The broker that a benchmark sends to, and the way there."""

from __future__ import annotations

import itertools
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

import psutil
from confluent_kafka import Message

from shipper.config.cluster import Cluster
from shipper.kafka.client import ClusterClient
from shipper.verify.readback import OffsetRange, ReadBack, Seen
from shipper_tools.bench.machine import command_of, process_seconds
from shipper_tools.bench.results import Case
from shipper_tools.dev.kafka import KafkaServer
from shipper_tools.dev.kafka_tools import run_kafka_tool
from shipper_tools.dev.ports import free_port
from shipper_tools.faultproxy.proxy import FaultProxy

_HEAP_MB = 1024
_PATIENCE_SECONDS = 30.0
#: What a measurement has written goes at once, before the disk is busy with it.
_TOPIC_SETTINGS = {"file.delete.delay.ms": "1000"}


class World:
    """One broker behind a link whose shape changes from case to case. It is reached without the link when there is no distance."""

    def __init__(self, folder: Path) -> None:
        self._server = KafkaServer(folder, far_port=free_port(), heap_mb=_HEAP_MB, die_with_parent=True)
        self._stack = ExitStack()
        self._link = FaultProxy(self._server.far_listener, self._server.far_port or 0)
        self._numbers = itertools.count(1)

    def __enter__(self) -> World:
        with ExitStack() as stack:
            stack.enter_context(self._server)
            stack.enter_context(self._link)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stack.close()

    def bootstrap(self, case: Case) -> str:
        """Where clients begin in this case. :meth:`shape` makes the way there what the case wants."""
        return self._server.far_bootstrap if case.rtt_ms or case.request_delay_ms else self._server.bootstrap

    def shape(self, case: Case) -> None:
        self._link.shape(rtt_ms=case.rtt_ms, request_delay_ms=case.request_delay_ms)

    @property
    def _described(self) -> Cluster:
        return Cluster.model_validate({"cluster": "bench", "bootstrap": self._server.bootstrap})

    @property
    def client(self) -> ClusterClient:
        return ClusterClient(self._described)

    def create_topic(self, case: Case) -> str:
        """Create a new, empty topic with the partitions of the case, and return its name."""
        name = f"bench-{next(self._numbers)}"
        self.client.create_topics({name: case.partitions}, _TOPIC_SETTINGS, 1)
        return name

    def records_in(self, topic: str, partitions: int) -> int:
        """By the end offsets, which also count the markers of transactions."""
        client = self.client
        return sum(client.end_offset(topic, partition) for partition in range(partitions))

    def committed_in(self, topic: str) -> int:
        """Records that a ``read_committed`` consumer finds, read one by one: offsets also count markers and what was aborted.

        Raises OutcomeUnknown when a transaction is still open there.
        """
        reader = ReadBack(self._described)
        ends = reader.ends(lambda name: name == topic)[topic]
        spans = {(topic, partition): OffsetRange(0, end) for partition, end in enumerate(ends)}
        return sum(seen.records for seen in reader.read(spans, lambda _: _count, _PATIENCE_SECONDS).values())

    def delete_topic(self, name: str) -> None:
        told = ["--bootstrap-server", self._server.bootstrap, "--delete", "--if-exists", "--topic", name]
        run_kafka_tool("org.apache.kafka.tools.TopicCommand", told)

    def cpu_seconds(self) -> dict[str, float]:
        """Of broker and proxy, until now."""
        return {"broker": sum(map(process_seconds, _brokers())), "proxy": process_seconds(psutil.Process(self._link.pid))}


def _count(seen: Seen, messages: list[Message]) -> None:
    seen.records += len(messages)


def _brokers() -> list[psutil.Process]:
    """This process' brokers: those of its children whose main class is Kafka's."""
    return [child for child in psutil.Process().children() if "kafka.Kafka" in command_of(child)]
