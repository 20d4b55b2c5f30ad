"""A real HDFS on loopback: one NameNode and one DataNode, each a Java process of its own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from shipper_tools.dev.hadoop import class_path, java_command, write_settings
from shipper_tools.dev.http import json_at
from shipper_tools.dev.ports import LOOPBACK, free_port
from shipper_tools.dev.server import Server

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

_NAME_NODE = "org.apache.hadoop.hdfs.server.namenode.NameNode"
_DATA_NODE = "org.apache.hadoop.hdfs.server.datanode.DataNode"


class HdfsServer(Server):
    """A file system, up after some 8 seconds. Both processes take some 600 MB in all."""

    title = "HDFS"

    _web_port = _data_web_port = 0
    _class_path = ""

    @property
    def uri(self) -> str:
        """``hdfs://127.0.0.1:PORT``, of the NameNode."""
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

    def launch_namenode(self) -> None:
        """Start the NameNode by itself, after :meth:`stop_namenode`."""
        self._spawn("namenode", self._command(_NAME_NODE))

    def stop_namenode(self) -> None:
        """Kill the NameNode, as by kill -9. The DataNode stays, and registers again."""
        self._parts["namenode"].stop(0)

    def stop_datanode(self) -> None:
        """Kill the DataNode, as by kill -9. The NameNode stays, and knows files whose bytes nobody
        has."""
        self._parts["datanode"].stop(0)

    def _launch(self) -> None:
        self._class_path = class_path(self.conf_dir, self._say)
        self._write_settings()
        formatted = self.directory / "data" / "formatted"
        if not formatted.exists():
            self._make_data([*self._command(_NAME_NODE), "-format", "-nonInteractive", "-force"])
            formatted.touch()  # last: a format that was killed half-way is done again
        self.launch_namenode()
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
        return java_command(main_class, self._class_path, 256)

    def _write_settings(self) -> None:
        self._folders("conf", "data")
        core, hdfs = self._settings()
        write_settings(self.conf_dir / "core-site.xml", core)
        write_settings(self.conf_dir / "hdfs-site.xml", hdfs)

    def _settings(self) -> tuple[dict[str, str], dict[str, str]]:
        """Return core-site.xml's and hdfs-site.xml's."""
        self._web_port, self._data_web_port = free_port(), free_port()
        data = self.directory / "data"
        core = {"fs.defaultFS": self.uri, "hadoop.tmp.dir": str(data / "tmp")}
        places = {
            "dfs.namenode.http-address": f"{LOOPBACK}:{self._web_port}",
            "dfs.namenode.name.dir": (data / "name").as_uri(),
            "dfs.datanode.data.dir": (data / "blocks").as_uri(),
            "dfs.datanode.http.address": f"{LOOPBACK}:{self._data_web_port}",
            "dfs.datanode.address": f"{LOOPBACK}:{free_port()}",
            "dfs.datanode.ipc.address": f"{LOOPBACK}:{free_port()}",
        }
        return core, _SETTINGS | places
