"""A real HDFS on loopback: one NameNode and one DataNode, each a Java process of its own."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from xml.sax.saxutils import escape

from shipper.errors import JarsUnavailable
from shipper.processes import ProcessId
from shipper_tools.dev.errors import PortTaken, ServerDied
from shipper_tools.dev.jars import Say, resolve_jars
from shipper_tools.dev.java import find_java
from shipper_tools.dev.ports import LOOPBACK, free_port, why_unusable
from shipper_tools.dev.process import ServerProcess, spawn

#: The lock that names the jars of the servers; the client's classes, on which they stand, come with pyspark and are of the same Hadoop.
JARS = "hdfs-3.5.0"
_OF_PYSPARK = (
    *("hadoop-client-api-3.5.0", "hadoop-client-runtime-3.5.0", "slf4j-api-*", "jcl-over-slf4j-*", "log4j-slf4j2-impl-*"),
    *("log4j-api-*", "log4j-core-*", "log4j-1.2-api-*"),
)

READY_WITHIN_SECONDS = 90.0
STOP_WITHIN_SECONDS = 20.0

#: What differs from Hadoop's defaults, and why.
_SETTINGS = {
    "dfs.replication": "1",
    "dfs.datanode.hostname": LOOPBACK,
    "dfs.namenode.datanode.registration.ip-hostname-check": "false",
    # Out of safe mode as soon as the only DataNode has said what it has, and a DataNode that is gone counts as dead after 13 s, not 10 min.
    "dfs.namenode.safemode.extension": "0",
    "dfs.namenode.safemode.min.datanodes": "1",
    "dfs.heartbeat.interval": "1",
    "dfs.namenode.heartbeat.recheck-interval": "1500",
    # So that a small file can have many blocks.
    "dfs.namenode.fs-limits.min-block-size": "4096",
}

_LOG4J = """<Configuration status="ERROR">
  <Appenders><Console name="console"><PatternLayout pattern="%d{ISO8601} %p %c{1}: %m%n"/></Console></Appenders>
  <Loggers><Root level="WARN"><AppenderRef ref="console"/></Root></Loggers>
</Configuration>
"""

_JAVA_OPTIONS = (
    *("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Djava.net.preferIPv4Stack=true"),
    *("-Djava.awt.headless=true", "-Dlog4j2.configurationFile=log4j2.xml"),
)
_NAME_NODE = "org.apache.hadoop.hdfs.server.namenode.NameNode"
_DATA_NODE = "org.apache.hadoop.hdfs.server.datanode.DataNode"


class HdfsServer:
    """A file system whose files live in ``directory`` and are there again after the next start.

    ::

        with HdfsServer(tmp_path, die_with_parent=True) as hdfs:
            source = f"{hdfs.uri}/logs/"

    Args:
        directory: made if it is not there. One server at a time may use it.
        port: of the NameNode, where clients connect. None takes a free one at the first start and keeps it for the later ones.
        settings: of hdfs-site.xml, on top of the dev-friendly ones.
        heap_mb: Java's maximum heap of each process, in MiB. Both take some 600 MB in all.
        die_with_parent: the server ends when this process does, even by kill -9. For tests.
        say: gets a line for people when jars have to be fetched.
    """

    def __init__(
        self,
        directory: Path,
        port: int | None = None,
        settings: Mapping[str, str] | None = None,
        heap_mb: int = 256,
        *,
        die_with_parent: bool = False,
        say: Say = lambda line: None,
    ) -> None:
        self.directory = directory.absolute()
        self.port = port
        self._settings = dict(settings or {})
        self._heap_mb = heap_mb
        self._die_with_parent = die_with_parent
        self._say = say
        self._web_port = self._data_web_port = 0
        self._class_path = ""
        self._name_node: ServerProcess | None = None
        self._data_node: ServerProcess | None = None

    @property
    def uri(self) -> str:
        """``hdfs://127.0.0.1:PORT``. Raises ServerDied if it was never started and has no port yet."""
        if self.port is None:
            raise ServerDied(f"HDFS in {self.directory} has no port before its first start.")
        return f"hdfs://{LOOPBACK}:{self.port}"

    @property
    def web(self) -> str:
        """The NameNode's pages, and WebHDFS: ``http://127.0.0.1:PORT``."""
        return f"http://{LOOPBACK}:{self._web_port}"

    @property
    def conf_dir(self) -> Path:
        """For HADOOP_CONF_DIR: core-site.xml and hdfs-site.xml."""
        return self.directory / "conf"

    @property
    def addresses(self) -> Mapping[str, str]:
        """As the dev commands remember them."""
        return {"uri": self.uri, "web": self.web}

    @property
    def processes(self) -> tuple[ProcessId, ...]:
        """The NameNode, then the DataNode, as far as they were started."""
        return tuple(node.id for node in (self._name_node, self._data_node) if node is not None)

    @property
    def running(self) -> bool:
        """Whether both processes are there."""
        return len(self.processes) == 2 and all(process.alive() for process in self.processes)

    def start(self) -> None:
        """Start both and wait until files can be read and written: some 8 seconds. Does nothing if they run.

        Raises:
            PortTaken: somebody else listens on the port; nothing was started.
            ServerDied: one of them stopped or did not answer in time; the message ends with its last words.
            JavaMissing, JarsUnavailable: what it needs is not there.
        """
        self.launch()
        self.wait_ready()

    def launch(self) -> None:
        """The first half of :meth:`start`: the processes are there, and do not answer yet."""
        if self.running:
            return
        self.stop()
        self.port = self.port or free_port()
        if reason := why_unusable(self.port):
            raise PortTaken(f"HDFS cannot listen: port {self.port} on {LOOPBACK} {reason}.")
        self._class_path = ":".join(map(str, [self.conf_dir, *_jars_of_pyspark(), resolve_jars(JARS, self._say) / "*"]))
        self._write_settings()
        self._format_once()
        self._name_node = self._spawn(_NAME_NODE)
        self.launch_datanode()

    def launch_datanode(self) -> None:
        """By itself, after :meth:`stop_datanode`. With :meth:`wait_ready` it can be read from again."""
        self._data_node = self._spawn(_DATA_NODE)

    def stop_datanode(self, *, grace_seconds: float = 0) -> None:
        """Like kill -9, unless it is given time. The NameNode stays, and knows files whose bytes nobody has."""
        if self._data_node is not None:
            self._data_node.stop(grace_seconds)

    def wait_ready(self, within_seconds: float = READY_WITHIN_SECONDS) -> None:
        """The second half of :meth:`start`. Stops both processes if they do not answer in time, or on Ctrl-C."""
        deadline = time.monotonic() + within_seconds
        try:
            while not (_is_operational(self.web) and _has_registered(f"http://{LOOPBACK}:{self._data_web_port}")):
                for node, what in ((self._name_node, "NameNode"), (self._data_node, "DataNode")):
                    if node is None:
                        raise ServerDied(f"The {what} of HDFS in {self.directory} was not launched.")
                    if (code := node.exit_code()) is not None:
                        raise ServerDied(f"HDFS's {what} stopped while starting (exit code {code}).{self._last_words()}")
                if time.monotonic() > deadline:
                    raise ServerDied(f"HDFS did not answer within {within_seconds:.0f} seconds.{self._last_words()}")
                time.sleep(0.1)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """TERM, and KILL if that takes longer than :data:`STOP_WITHIN_SECONDS`. Does nothing if it does not run."""
        for node in (self._data_node, self._name_node):
            if node is not None:
                node.stop(STOP_WITHIN_SECONDS)
        self._name_node = self._data_node = None

    def __enter__(self) -> HdfsServer:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.stop()

    def _command(self, main_class: str) -> list[str]:
        java = [str(find_java().path), f"-Xmx{self._heap_mb}m", *_JAVA_OPTIONS]
        return [*java, "-cp", self._class_path, main_class]

    def _console(self, main_class: str) -> Path:
        return self.directory / "logs" / f"{main_class.rpartition('.')[2].lower()}.log"

    def _spawn(self, main_class: str) -> ServerProcess:
        output = self._console(main_class)
        return spawn(self._command(main_class), cwd=self.directory, output=output, die_with_parent=self._die_with_parent)

    def _write_settings(self) -> None:
        for folder in ("logs", "conf", "data"):
            (self.directory / folder).mkdir(parents=True, exist_ok=True)
        self._web_port, self._data_web_port, data = free_port(), free_port(), self.directory / "data"
        core = {"fs.defaultFS": self.uri, "hadoop.tmp.dir": str(data / "tmp")}
        places = {
            "dfs.namenode.http-address": f"{LOOPBACK}:{self._web_port}",
            "dfs.namenode.name.dir": (data / "name").as_uri(),
            "dfs.datanode.data.dir": (data / "blocks").as_uri(),
            "dfs.datanode.http.address": f"{LOOPBACK}:{self._data_web_port}",
            "dfs.datanode.address": f"{LOOPBACK}:{free_port()}",
            "dfs.datanode.ipc.address": f"{LOOPBACK}:{free_port()}",
        }
        (self.conf_dir / "core-site.xml").write_text(_xml(core), encoding="utf-8")
        (self.conf_dir / "hdfs-site.xml").write_text(_xml(_SETTINGS | places | self._settings), encoding="utf-8")
        (self.directory / "log4j2.xml").write_text(_LOG4J, encoding="utf-8")

    def _format_once(self) -> None:
        """The mark is made when it is done: a format that was killed half-way is done again."""
        mark = self.directory / "data" / "formatted"
        if mark.exists():
            return
        command = [*self._command(_NAME_NODE), "-format", "-nonInteractive", "-force"]
        done = subprocess.run(command, cwd=self.directory, capture_output=True, text=True, errors="replace", check=False)
        if done.returncode != 0:
            said = (done.stdout + done.stderr).strip()
            raise ServerDied(f"HDFS's storage in {self.directory} cannot be formatted. It said:\n{said[-3000:]}")
        mark.touch()

    def _last_words(self) -> str:
        words = [" Last words:"]
        for path in map(self._console, (_NAME_NODE, _DATA_NODE)):
            if path.exists():
                words += [f"{path.name}: {line}" for line in path.read_text(errors="replace").splitlines()[-15:]]
        return "\n".join([*words, f"(all of them: {self.directory / 'logs'})"])


def _jars_of_pyspark() -> list[Path]:
    """Raises JarsUnavailable."""
    spec = importlib.util.find_spec("pyspark")  # looked up, not imported
    folder = Path(next(iter(spec.submodule_search_locations))) / "jars" if spec and spec.submodule_search_locations else None
    found = [jar for name in _OF_PYSPARK for jar in sorted(folder.glob(f"{name}.jar"))[-1:]] if folder else []
    if len(found) < len(_OF_PYSPARK):
        raise JarsUnavailable(
            "HDFS runs on jars of pyspark 4.2, with Hadoop 3.5.0, and this environment does not have them all. Install shipper with its "
            "Spark part: `pip install 'shipper[spark]'` (or `uv sync --all-extras`)."
        )
    return found


def _xml(settings: Mapping[str, str]) -> str:
    """As Hadoop's configuration files are written."""
    properties = (
        f"  <property><name>{escape(name)}</name><value>{escape(value)}</value></property>\n" for name, value in settings.items()
    )
    return f"<configuration>\n{''.join(properties)}</configuration>\n"


def _is_operational(web: str) -> bool:
    """Whether the NameNode answers, is out of safe mode and knows a live DataNode. One that has just died counts as alive for a while."""
    state = _asked(web, "NameNode", "FSNamesystemState")
    return state.get("FSState") == "Operational" and state.get("NumLiveDataNodes") == 1


def _has_registered(web: str) -> bool:
    """Whether the DataNode answers, and serves the NameNode."""
    services = json.loads(str(_asked(web, "DataNode", "DataNodeInfo").get("BPServiceActorInfo", "[]")))
    return bool(services) and all(service.get("ActorState") == "RUNNING" for service in services)


def _asked(web: str, service: str, name: str, timeout_seconds: float = 2.0) -> dict[str, object]:
    """What a node says of itself; nothing, if it does not answer."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"{web}/jmx?qry=Hadoop:service={service},name={name}", timeout=timeout_seconds) as answer:
            (found,) = json.load(answer)["beans"]
    except (OSError, ValueError, KeyError):
        return {}
    return dict(found)
