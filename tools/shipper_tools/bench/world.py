"""The broker that a benchmark sends to, and the way there."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Self

import psutil
from confluent_kafka import Message
from confluent_kafka.admin import AdminClient

from shipper.config.cluster import Cluster
from shipper.kafka.client import ClusterClient
from shipper.verify.readback import OffsetRange, ReadBack, SpanSums
from shipper_tools.bench.machine import process_seconds
from shipper_tools.bench.results import Case, Measurement
from shipper_tools.dev.kafka import KafkaServer
from shipper_tools.dev.ports import free_port
from shipper_tools.faultproxy.proxy import FaultProxy

_HEAP_MB = 1024
_PATIENCE_SECONDS = 30.0
#: What a measurement has written goes at once, before the disk is busy with it.
_TOPIC_SETTINGS = {"file.delete.delay.ms": "1000"}


class World(ExitStack):
    """One broker behind a link whose shape changes from case to case. Clients pass the link only if
    a case has distance."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._server = KafkaServer(
            folder, far_port=free_port(), heap_mb=_HEAP_MB, die_with_parent=True
        )
        self._link = FaultProxy(self._server.far_listener, self._server.far_port or 0)
        self._numbers = itertools.count(1)

    def __enter__(self) -> Self:
        self.enter_context(self._server)
        self.enter_context(self._link)
        return self

    def bootstrap(self, case: Case) -> str:
        """Return where clients begin in this case. :meth:`measured` makes the way there what the
        case wants."""
        far = case.rtt_ms or case.request_delay_ms or case.ack_ms
        return self._server.far_bootstrap if far else self._server.bootstrap

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

    @contextmanager
    def topic(self, case: Case) -> Iterator[str]:
        """Create a topic for the ``with`` block, and delete it afterwards."""
        name = self.create_topic(case)
        yield name
        admin = AdminClient({"bootstrap.servers": self._server.bootstrap})
        admin.delete_topics([name])[name].result(_PATIENCE_SECONDS)

    @contextmanager
    def measured(self, measured: Measurement) -> Iterator[None]:
        """Shape the link as the case wants, and add the CPU seconds of broker and proxy in the
        ``with`` block to the measurement."""
        case = measured.case
        self._link.shape(
            rtt_ms=case.rtt_ms, request_delay_ms=case.request_delay_ms, ack_ms=case.ack_ms
        )
        processes = {"broker": self._server.pid, "proxy": self._link.pid}
        before = {kind: process_seconds(psutil.Process(pid)) for kind, pid in processes.items()}
        yield
        for kind, pid in processes.items():
            used = process_seconds(psutil.Process(pid)) - before[kind]
            measured.cpu_seconds[kind] = used
        measured.cpu_seconds = {
            kind: round(seconds, 2) for kind, seconds in measured.cpu_seconds.items()
        }

    def records_in(self, topic: str, partitions: int) -> int:
        """Return the sum of the end offsets, which also count the markers of transactions."""
        client = self.client
        return sum(client.end_offset(topic, partition) for partition in range(partitions))

    def committed_in(self, topic: str) -> int:
        """Count the records that a ``read_committed`` consumer reads: offsets also count markers
        and what was aborted.

        Raises OutcomeUnknown if a transaction is still open in the topic.
        """
        reader = ReadBack(self._described)
        ends = reader.ends(lambda name: name == topic)[topic]
        spans = {(topic, partition): OffsetRange(0, end) for partition, end in enumerate(ends)}
        return sum(
            seen.records
            for seen in reader.read(spans, lambda _: _count, _PATIENCE_SECONDS).values()
        )


def _count(seen: SpanSums, messages: list[Message]) -> None:
    seen.records += len(messages)
