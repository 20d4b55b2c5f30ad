"""A real HDFS on loopback: one NameNode and one DataNode, each a Java process of its own."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping
from pathlib import Path
from xml.sax.saxutils import escape

from shipper.errors import JarsUnavailable
from shipper_tools.dev.http import json_at
from shipper_tools.dev.jars import Say, resolve_jars
from shipper_tools.dev.java import QUICK_JVM, find_java
from shipper_tools.dev.ports import LOOPBACK, free_port
from shipper_tools.dev.server import Server

#: The lock that names the jars of the servers; the client's classes, on which they stand, come with
#: pyspark and are of the same Hadoop.
JARS = "hdfs-3.5.0"
_OF_PYSPARK = (
    *(
        "hadoop-client-api-3.5.0",
        "hadoop-client-runtime-3.5.0",
        "slf4j-api-*",
        "jcl-over-slf4j-*",
        "log4j-slf4j2-impl-*",
    ),
    *("log4j-api-*", "log4j-core-*", "log4j-1.2-api-*"),
)

#: What differs from Hadoop's defaults, and why.
_SETTINGS = {
    "dfs.replication": "1",
    "dfs.datanode.hostname": LOOPBACK,
    "dfs.namenode.datanode.registration.ip-hostname-check": "false",
    # Out of safe mode as soon as the only DataNode has said what it has, and a DataNode that is
    # gone counts as dead after 13 s, not 10 min.
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
"""  # noqa: E501

_NAME_NODE = "org.apache.hadoop.hdfs.server.namenode.NameNode"
_DATA_NODE = "org.apache.hadoop.hdfs.server.datanode.DataNode"


class HdfsServer(Server):
    """A file system, up after some 8 seconds.

    Args:
        settings: of hdfs-site.xml, on top of the dev-friendly ones.
        heap_mb: Java's maximum heap of each process, in MiB. Both take some 600 MB in all.
    """

    title = "HDFS"

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
        super().__init__(directory, port, die_with_parent=die_with_parent, say=say)
        self._settings = dict(settings or {})
        self._heap_mb = heap_mb
        self._web_port = self._data_web_port = 0
        self._class_path = ""

    @property
    def uri(self) -> str:
        """``hdfs://127.0.0.1:PORT``, of the NameNode. Raises ServerDied before the first start."""
        return f"hdfs://{self.address}"

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
        return {"uri": self.uri, "web": self.web}

    def launch_datanode(self) -> None:
        """Start the DataNode by itself, after :meth:`stop_datanode`. With :meth:`wait_ready` it can
        be read from again."""
        self._spawn("datanode", self._command(_DATA_NODE))

    def stop_datanode(self) -> None:
        """Kill the DataNode, as by kill -9. The NameNode stays, and knows files whose bytes nobody
        has."""
        self._parts["datanode"].stop(0)

    def _launch(self) -> None:
        self._class_path = ":".join(
            map(str, [self.conf_dir, *_jars_of_pyspark(), resolve_jars(JARS, self._say) / "*"])
        )
        self._write_settings()
        formatted = self.directory / "data" / "formatted"
        if not formatted.exists():
            self._make_data([*self._command(_NAME_NODE), "-format", "-nonInteractive", "-force"])
            formatted.touch()  # last: a format that was killed half-way is done again
        self._spawn("namenode", self._command(_NAME_NODE))
        self.launch_datanode()

    def _answers(self) -> bool:
        """True if the NameNode is out of safe mode and knows a live DataNode, and the DataNode
        serves it. A DataNode that has just died counts as alive for a while."""
        state = self._asked(self.web, "NameNode", "FSNamesystemState")
        if state.get("FSState") != "Operational" or state.get("NumLiveDataNodes") != 1:
            return False
        node = self._asked(f"http://{LOOPBACK}:{self._data_web_port}", "DataNode", "DataNodeInfo")
        services = json.loads(str(node.get("BPServiceActorInfo", "[]")))
        return bool(services) and all(
            service.get("ActorState") == "RUNNING" for service in services
        )

    @staticmethod
    def _asked(web: str, service: str, name: str) -> dict[str, object]:
        found = json_at(f"{web}/jmx?qry=Hadoop:service={service},name={name}").get("beans")
        return dict(found[0]) if found else {}

    def _command(self, main_class: str) -> list[str]:
        options = [
            f"-Xmx{self._heap_mb}m",
            *QUICK_JVM,
            "-Djava.net.preferIPv4Stack=true",
            "-Dlog4j2.configurationFile=log4j2.xml",
        ]
        return [str(find_java().path), *options, "-cp", self._class_path, main_class]

    def _write_settings(self) -> None:
        self._folders("conf", "data")
        self._web_port, self._data_web_port, data = (
            free_port(),
            free_port(),
            self.directory / "data",
        )
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
        (self.conf_dir / "hdfs-site.xml").write_text(
            _xml(_SETTINGS | places | self._settings), encoding="utf-8"
        )
        (self.directory / "log4j2.xml").write_text(_LOG4J, encoding="utf-8")


def _jars_of_pyspark() -> list[Path]:
    """Raises JarsUnavailable."""
    spec = importlib.util.find_spec("pyspark")  # looked up, not imported
    folder = (
        Path(next(iter(spec.submodule_search_locations))) / "jars"
        if spec and spec.submodule_search_locations
        else None
    )
    found = (
        [jar for name in _OF_PYSPARK for jar in sorted(folder.glob(f"{name}.jar"))[-1:]]
        if folder
        else []
    )
    if len(found) < len(_OF_PYSPARK):
        raise JarsUnavailable(
            "HDFS runs on jars of pyspark 4.2, with Hadoop 3.5.0, and this environment does not "
            "have them all. Install shipper with its Spark part: `pip install 'shipper[spark]'` "
            "(or `uv sync --all-extras`)."
        )
    return found


def _xml(settings: Mapping[str, str]) -> str:
    """As Hadoop's configuration files are written."""
    properties = (
        f"  <property><name>{escape(name)}</name><value>{escape(value)}</value></property>\n"
        for name, value in settings.items()
    )
    return f"<configuration>\n{''.join(properties)}</configuration>\n"
