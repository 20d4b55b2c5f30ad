"""A real single-node Kafka: broker and KRaft controller in one Java process, on loopback."""

from __future__ import annotations

import contextlib
import secrets
import socket
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Unpack

from shipper.java import find_java
from shipper.whole_files import write_whole
from shipper_tools.dev.class_data import ClassData
from shipper_tools.dev.jars import resolve_jars
from shipper_tools.dev.java import java_command, properties_text
from shipper_tools.dev.kafka_tools import JARS, run_kafka_tool
from shipper_tools.dev.ports import LOOPBACK, free_port
from shipper_tools.dev.process import new_log
from shipper_tools.dev.server import Server, ServerOptions

#: What differs from a broker's defaults, and why.
_PROPERTIES = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "inter.broker.listener.name": "BROKER",
    "controller.listener.names": "CONTROLLER",
    # Relative to the server's folder, its working directory: a path with a comma would be two log
    # folders.
    "log.dirs": "data",
    # A missing topic is something that shipper must notice, not something that springs up with
    # default settings.
    "auto.create.topics.enable": "false",
    # One broker holds the only replica; few partitions start, load and compact faster.
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "4",
    # A lone consumer need not wait for others to join its group.
    "group.initial.rebalance.delay.ms": "0",
    # Log lines carry the timestamps of their day: with the default of a week, a backfill's records
    # would be gone at once.
    "log.retention.ms": "-1",
    # 128 MB by default, a quarter of the heap.
    "log.cleaner.dedupe.buffer.size": "8388608",
}

_LOG_SETTINGS = Path(__file__).with_suffix(".xml")


class KafkaServer(Server):
    """A broker, up within 2 to 5 seconds.

    Args:
        properties: broker properties (server.properties) on top of the dev-friendly ones.
        heap_mb: Java's maximum heap, in MiB. The process takes some 350 MB in all.
        far_port: a second listener, FAR, is advertised as this port of loopback, where a proxy must
            listen that leads to :attr:`far_listener`. Clients that begin at :attr:`far_bootstrap`
            reach the broker through the proxy only.
        also: further listeners by name, with their port and protocol (``"SECURE": (9093,
            "SASL_SSL")``); ``properties`` say with which certificates and mechanisms.
        scram: SCRAM users (SHA-256 and SHA-512) and their passwords, made before the first start.
        java_options: further options of its JVM.
        cluster_id: of a cluster of several; None makes one.
    """

    title = "Kafka"

    def __init__(
        self,
        directory: Path,
        port: int | None = None,
        properties: Mapping[str, str] | None = None,
        heap_mb: int = 512,
        *,
        far_port: int | None = None,
        also: Mapping[str, tuple[int, str]] | None = None,
        scram: Mapping[str, str] | None = None,
        java_options: Sequence[str] = (),
        cluster_id: str | None = None,
        **options: Unpack[ServerOptions],
    ) -> None:
        super().__init__(directory, port, **options)
        self.far_port = far_port
        self._also = dict(also or {})
        self._scram = dict(scram or {})
        self._java_options = tuple(java_options)
        self._cluster_id = cluster_id or new_cluster_id()
        self._far_bound = free_port() if far_port else 0
        self._controller_port = free_port()
        self._properties = dict(properties or {})
        self._heap_mb = heap_mb
        self._class_data: ClassData | None = None

    @property
    def bootstrap(self) -> str:
        """``127.0.0.1:PORT``"""
        return self.address

    @property
    def far_bootstrap(self) -> str:
        """Where clients find the proxy: ``127.0.0.1:PORT``."""
        return f"{LOOPBACK}:{self.far_port}"

    @property
    def far_listener(self) -> str:
        """Where the proxy finds the broker: ``127.0.0.1:PORT``. Known before the start."""
        return f"{LOOPBACK}:{self._far_bound}"

    @property
    def addresses(self) -> Mapping[str, str]:
        return {"bootstrap": self.bootstrap}

    def stop(self) -> None:
        super().stop()
        if self._class_data is not None:
            self._class_data.keep()

    def _launch(self) -> None:
        for port, _ in self._also.values():
            self._check_port(port)
        java, jars = find_java(), resolve_jars(JARS, self._say)
        self._write_settings()
        if not (self.directory / "data" / "meta.properties").exists():
            self._format()
        # Warnings and worse, and its start and stop.
        new_log(self.directory / "logs" / "server.log").close()
        # Made by one that whoever started it will stop, which takes seconds more that once.
        self._class_data = ClassData(jars, java, "Kafka")
        options = [
            *self._class_data.options(make=self._die_with_parent),
            f"-Dlog4j2.configurationFile={_LOG_SETTINGS}",
            "-Djava.awt.headless=true",
            "-XX:-UsePerfData",
            *self._java_options,
        ]
        main = ["kafka.Kafka", "server.properties"]
        self._spawn("console", java_command(main, f"{jars}/*", self._heap_mb, options))

    def _answers(self) -> bool:
        return answers(LOOPBACK, self.port)

    def _write_settings(self) -> None:
        self._folders()
        # Name, bound port, advertised port (nobody is told the controller's), protocol
        rows = [("BROKER", self.port, self.port, "PLAINTEXT")]
        rows += [("FAR", self._far_bound, self.far_port, "PLAINTEXT")] if self.far_port else []
        rows += [(name, port, port, protocol) for name, (port, protocol) in self._also.items()]
        rows += [("CONTROLLER", self._controller_port, 0, "PLAINTEXT")]
        listeners = {
            "listeners": ",".join(f"{name}://{LOOPBACK}:{bound}" for name, bound, _, _ in rows),
            "advertised.listeners": ",".join(
                f"{name}://{LOOPBACK}:{port}" for name, _, port, _ in rows if port
            ),
            "listener.security.protocol.map": ",".join(
                f"{name}:{protocol}" for name, _, _, protocol in rows
            ),
            "controller.quorum.voters": f"1@{LOOPBACK}:{self._controller_port}",
        }
        text = properties_text(_PROPERTIES | listeners | self._properties)
        write_whole(str(self.directory / "server.properties"), text)

    def _format(self) -> None:
        # Ignoring what is formatted already: a format that was killed half-way is simply done
        # again.
        words = ["format", "--ignore-formatted", "--config", "server.properties"]
        words += ["--cluster-id", self._cluster_id]
        for user, password in self._scram.items():
            for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
                words += ["--add-scram", f"{mechanism}=[name={user},password={password}]"]
        run_kafka_tool("kafka.tools.StorageTool", words, cwd=self.directory, timeout_seconds=300)


_API_VERSIONS_KEY = 18


def answers(host: str, port: int, timeout_seconds: float = 2.0) -> bool:
    """Return True if a Kafka broker or controller answers there: one ApiVersions request, version
    0, over a raw socket, since librdkafka cannot ask a controller.

    A broker opens its port for clients only after its controller let it into the cluster, so one
    that answers can be asked to make topics. (Protocol: https://kafka.apache.org/protocol, request
    header version 1.)
    """
    client, correlation = b"shipper-dev", 7
    body = struct.pack(
        f">hhih{len(client)}s", _API_VERSIONS_KEY, 0, correlation, len(client), client
    )
    with (
        contextlib.suppress(OSError),
        socket.create_connection((host, port), timeout_seconds) as connection,
    ):
        connection.settimeout(timeout_seconds)
        connection.sendall(struct.pack(">i", len(body)) + body)
        head = b""
        while len(head) < 10 and (received := connection.recv(10 - len(head))):
            head += received
        # length, correlation id, error code
        return len(head) == 10 and struct.unpack(">iih", head)[1:] == (correlation, 0)
    return False


def new_cluster_id() -> str:
    """Return a random cluster id as Kafka writes it: 22 characters of base64. Tools take a leading
    dash for an option."""
    return f"s{secrets.token_urlsafe(16)[1:]}"
