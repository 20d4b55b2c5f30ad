"""A real single-node Kafka: broker and KRaft controller in one Java process, on loopback."""

from __future__ import annotations

import base64
import contextlib
import socket
import struct
import subprocess
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from shipper.processes import ProcessId
from shipper_tools.dev.class_data import ClassData
from shipper_tools.dev.errors import PortTaken, ServerDied
from shipper_tools.dev.jars import Say, resolve_jars
from shipper_tools.dev.java import Java, find_java
from shipper_tools.dev.ports import LOOPBACK, free_port, why_unusable
from shipper_tools.dev.process import ServerProcess, new_log, spawn

#: The lock that names Kafka's jars. 4.4.0's tools are not on the registry.
JARS = "kafka-4.3.1"

READY_WITHIN_SECONDS = 90.0
STOP_WITHIN_SECONDS = 20.0

#: What differs from a broker's defaults, and why.
_PROPERTIES = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "inter.broker.listener.name": "BROKER",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT",
    # Relative to the server's folder, its working directory: a path with a comma would be two log folders.
    "log.dirs": "data",
    # A missing topic is something that shipper must notice, not something that springs up with default settings.
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
    # Log lines carry the timestamps of their day: with the default of a week, a backfill's records would be gone at once.
    "log.retention.ms": "-1",
    # 128 MB by default, a quarter of the heap.
    "log.cleaner.dedupe.buffer.size": "8388608",
}

_LOG4J = """<Configuration status="ERROR">
  <Appenders>
    <RollingFile name="file" fileName="{file}" filePattern="{file}.%i">
      <PatternLayout pattern="%d{{ISO8601}} %p %c{{1}}: %m%n"/>
      <Policies><SizeBasedTriggeringPolicy size="10MB"/></Policies>
      <DefaultRolloverStrategy max="1"/>
    </RollingFile>
  </Appenders>
  <Loggers>
    <Root level="WARN"><AppenderRef ref="file"/></Root>
    <Logger name="kafka.server.KafkaRaftServer" level="INFO"/>
  </Loggers>
</Configuration>
"""


class KafkaServer:
    """A broker whose topics live in ``directory`` and are there again after the next start.

    ::

        with KafkaServer(tmp_path, die_with_parent=True) as kafka:
            Producer({"bootstrap.servers": kafka.bootstrap})

    Args:
        directory: made if it is not there. One server at a time may use it.
        port: where clients connect. None takes a free one at the first start and keeps it for the later ones.
        properties: broker properties (server.properties) on top of the dev-friendly ones.
        heap_mb: Java's maximum heap, in MiB. The process takes some 350 MB in all.
        far_port: a second listener, FAR, is advertised as this port of loopback, where a proxy must listen that leads to
            :attr:`far_listener`. Clients that begin at :attr:`far_bootstrap` reach the broker through the proxy only.
        also: further listeners by name, with their port and protocol (``"SECURE": (9093, "SASL_SSL")``); ``properties`` say with which
            certificates and mechanisms.
        scram: SCRAM users (SHA-256 and SHA-512) and their passwords, made before the first start.
        java_options: further options of its JVM.
        cluster_id: of a cluster of several; None makes one.
        die_with_parent: the server ends when this process does, even by kill -9. For tests. Without it the server
            goes on until somebody stops it.
        say: gets a line for people when jars have to be fetched.
    """

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
        die_with_parent: bool = False,
        say: Say = lambda line: None,
    ) -> None:
        self.directory = directory.absolute()
        self.port = port
        self.far_port = far_port
        self._also = dict(also or {})
        self._scram = dict(scram or {})
        self._java_options = tuple(java_options)
        self._cluster_id = cluster_id or new_cluster_id()
        self._far_bound = free_port() if far_port else None
        self._controller_port: int | None = None
        self._properties = dict(properties or {})
        self._heap_mb = heap_mb
        self._die_with_parent = die_with_parent
        self._say = say
        self._process: ServerProcess | None = None
        self._class_data: ClassData | None = None

    @property
    def bootstrap(self) -> str:
        """``127.0.0.1:PORT``.

        Raises:
            ServerDied: the server was never started and has no port yet.
        """
        if self.port is None:
            raise ServerDied(f"The Kafka server in {self.directory} has no port before its first start.")
        return f"{LOOPBACK}:{self.port}"

    @property
    def far_bootstrap(self) -> str:
        """Where clients find the proxy: ``127.0.0.1:PORT``."""
        return f"{LOOPBACK}:{self.far_port}"

    @property
    def far_listener(self) -> str:
        """Where the proxy finds the broker: ``127.0.0.1:PORT``. Known before the start."""
        return f"{LOOPBACK}:{self._far_bound}"

    @property
    def pid(self) -> int:
        """The number of the Java process.

        Raises:
            ServerDied: there is none.
        """
        if self._process is None:
            raise ServerDied(f"The Kafka server in {self.directory} is not running.")
        return self._process.id.pid

    @property
    def addresses(self) -> Mapping[str, str]:
        """:attr:`bootstrap`, as the dev commands remember it."""
        return {"bootstrap": self.bootstrap}

    @property
    def processes(self) -> tuple[ProcessId, ...]:
        """The Java process, known by number and start; none if it was not started."""
        return (self._process.id,) if self._process is not None else ()

    @property
    def log(self) -> Path:
        """The server's own log: warnings and worse, and its start and stop. 10 MB and one older file at most."""
        return self.directory / "logs" / "server.log"

    @property
    def running(self) -> bool:
        """Whether the process is there (it may be paused, or still starting)."""
        return self._process is not None and self._process.id.alive()

    def start(self) -> None:
        """Start and wait until the broker answers: 2 to 5 seconds. Does nothing if it runs.

        Raises:
            PortTaken: somebody else listens on the port; nothing was started.
            ServerDied: the broker stopped or did not answer in time; the message ends with its log's last lines.
            JavaMissing, JarsUnavailable: what it needs is not there.
        """
        self.launch()
        self.wait_ready()

    def launch(self) -> None:
        """The first half of :meth:`start`: the process is there, the broker does not answer yet."""
        if self.running:
            return
        self.stop()
        if self.port is None:
            self.port = free_port()
        if reason := why_unusable(self.port):
            raise PortTaken(f"Kafka cannot listen: port {self.port} on {LOOPBACK} {reason}.")
        java = find_java()
        jars = resolve_jars(JARS, self._say)
        self._write_settings()
        if not (self.directory / "data" / "meta.properties").exists():
            self._format(java, jars)
        new_log(self.log).close()
        # Made by one that whoever started it will stop, which takes seconds more that once.
        self._class_data = ClassData(jars, java, "Kafka")
        options = [*self._class_data.options(make=self._die_with_parent), *_JAVA_OPTIONS, *self._java_options]
        command = [str(java.path), f"-Xmx{self._heap_mb}m", *options, "-cp", f"{jars}/*"]
        self._process = spawn(
            [*command, "kafka.Kafka", "server.properties"],
            cwd=self.directory,
            output=self._console,
            die_with_parent=self._die_with_parent,
        )

    def wait_ready(self, within_seconds: float = READY_WITHIN_SECONDS) -> None:
        """The second half of :meth:`start`. Stops the process if it does not answer in time, or on Ctrl-C."""
        if self._process is None or self.port is None:
            raise ServerDied(f"The Kafka server in {self.directory} was not launched.")
        deadline = time.monotonic() + within_seconds
        try:
            while not answers(LOOPBACK, self.port):
                code = self._process.exit_code()
                if code is not None:
                    raise ServerDied(f"Kafka stopped while starting (exit code {code}).{self._last_words()}")
                if time.monotonic() > deadline:
                    raise ServerDied(f"Kafka did not answer within {within_seconds:.0f} seconds.{self._last_words()}")
                time.sleep(0.05)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """TERM, and KILL if that takes longer than :data:`STOP_WITHIN_SECONDS`. Does nothing if it does not run."""
        if self._process is not None:
            self._process.stop(STOP_WITHIN_SECONDS)
            self._process = None
        if self._class_data is not None:
            self._class_data.keep()

    def __enter__(self) -> KafkaServer:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.stop()

    @property
    def _console(self) -> Path:
        """What Java itself says: wrong options, running out of memory."""
        return self.directory / "logs" / "console.log"

    def _write_settings(self) -> None:
        (self.directory / "logs").mkdir(parents=True, exist_ok=True)
        if self._controller_port is None or why_unusable(self._controller_port):
            self._controller_port = free_port()
        listeners = {
            "listeners": f"BROKER://{LOOPBACK}:{self.port},CONTROLLER://{LOOPBACK}:{self._controller_port}",
            "advertised.listeners": f"BROKER://{LOOPBACK}:{self.port}",
            "controller.quorum.voters": f"1@{LOOPBACK}:{self._controller_port}",
        }
        if self.far_port:
            listeners["listeners"] += f",FAR://{self.far_listener}"
            listeners["advertised.listeners"] += f",FAR://{self.far_bootstrap}"
            listeners["listener.security.protocol.map"] = f"{_PROPERTIES['listener.security.protocol.map']},FAR:PLAINTEXT"
        for name, (port, protocol) in self._also.items():
            address = f",{name}://{LOOPBACK}:{port}"
            listeners["listeners"] += address
            listeners["advertised.listeners"] += address
            protocols = listeners.get("listener.security.protocol.map", _PROPERTIES["listener.security.protocol.map"])
            listeners["listener.security.protocol.map"] = f"{protocols},{name}:{protocol}"
        properties = _PROPERTIES | listeners | self._properties
        text = "".join(f"{name}={escaped(value)}\n" for name, value in properties.items())
        (self.directory / "server.properties").write_text(text, encoding="ascii")
        (self.directory / "log4j2.xml").write_text(_LOG4J.format(file="logs/server.log"), encoding="utf-8")

    def _format(self, java: Java, jars: Path) -> None:
        class_data = ClassData(jars, java, "StorageTool")
        options = [*QUICK_JVM, *class_data.options(), *_JAVA_OPTIONS, "-cp", f"{jars}/*"]
        # Ignoring what is formatted already: a format that was killed half-way is simply done again.
        what = ["format", "--ignore-formatted", "--cluster-id", self._cluster_id, "--config", "server.properties"]
        command = [str(java.path), *options, "kafka.tools.StorageTool", *what]
        for user, password in self._scram.items():
            for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
                command += ["--add-scram", f"{mechanism}=[name={user},password={password}]"]
        done = subprocess.run(command, cwd=self.directory, capture_output=True, text=True, errors="replace", check=False)
        class_data.keep()
        if done.returncode != 0:
            said = (done.stdout + done.stderr).strip()
            raise ServerDied(f"Kafka's storage in {self.directory} cannot be formatted. It said:\n{said[-3000:]}")

    def _last_words(self) -> str:
        words = [line for path in (self._console, self.log) for line in _tail(path, 25)]
        return "\n".join([" Its last words:", *words, f"(all of them: {self.log.parent})"])


#: For a broker that lives for a test: without the compiler that makes fast code after minutes (1.6 CPU s for its start in place of 2.6).
SHORT_LIVED = ("-XX:TieredStopAtLevel=1",)

#: For short-lived JVMs: the compilers and the collector that start fastest.
QUICK_JVM = (*SHORT_LIVED, "-XX:+UseSerialGC", "-Xmx512m")

_JAVA_OPTIONS = ("-Dlog4j2.configurationFile=log4j2.xml", "-Djava.awt.headless=true", "-XX:-UsePerfData")

_API_VERSIONS_KEY = 18


def answers(host: str, port: int, timeout_seconds: float = 2.0) -> bool:
    """Whether a Kafka broker answers there: one ApiVersions request, version 0, over a raw socket.

    A broker opens its port for clients only after its controller let it into the cluster, so one that answers can be
    asked to make topics. (Protocol: https://kafka.apache.org/protocol, request header version 1.)
    """
    client, correlation = b"shipper-dev", 7
    body = struct.pack(f">hhih{len(client)}s", _API_VERSIONS_KEY, 0, correlation, len(client), client)
    with contextlib.suppress(OSError), socket.create_connection((host, port), timeout_seconds) as connection:
        connection.settimeout(timeout_seconds)
        connection.sendall(struct.pack(">i", len(body)) + body)
        head = b""
        while len(head) < 10 and (received := connection.recv(10 - len(head))):
            head += received
        # length, correlation id, error code
        return len(head) == 10 and struct.unpack(">iih", head)[1:] == (correlation, 0)
    return False


def new_cluster_id() -> str:
    """A random cluster id as Kafka writes it: 22 characters of base64. Never a leading dash, which tools take for an option."""
    while (name := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return name


def escaped(value: str) -> str:
    r"""A value as Java reads it from a properties file: backslashes doubled, what is not ASCII as \uXXXX."""
    units = struct.iter_unpack(">H", value.replace("\\", "\\\\").encode("utf-16-be"))
    return "".join(chr(unit) if 32 <= unit < 127 else f"\\u{unit:04x}" for (unit,) in units)


def _tail(path: Path, lines: int) -> list[str]:
    try:
        return path.read_text(errors="replace").splitlines()[-lines:]
    except FileNotFoundError:
        return []
