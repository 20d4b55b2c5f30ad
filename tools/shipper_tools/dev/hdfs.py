"""A real HDFS on loopback: one NameNode and one DataNode, each a Java process of its own."""

from __future__ import annotations

import json
from collections.abc import Mapping

from shipper_tools.dev.hadoop import HadoopServer
from shipper_tools.dev.http import json_at
from shipper_tools.dev.ports import LOOPBACK, free_port

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


class HdfsServer(HadoopServer):
    """A file system, up after some 8 seconds. Both processes take some 600 MB in all."""

    title = "HDFS"

    _data_web_port = 0

    @property
    def uri(self) -> str:
        """``hdfs://127.0.0.1:PORT``, of the NameNode."""
        return f"hdfs://{self.address}"

    @property
    def addresses(self) -> Mapping[str, str]:
        return {"uri": self.uri, "web": self.web}

    def _launch(self) -> None:
        super()._launch()
        self._folders("data")
        formatted = self.directory / "data" / "formatted"
        if not formatted.exists():
            self._make_data([*self._command(_NAME_NODE), "-format", "-nonInteractive", "-force"])
            formatted.touch()  # last: a format that was killed half-way is done again
        self._spawn("namenode", self._command(_NAME_NODE))
        self._spawn("datanode", self._command(_DATA_NODE))

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

    def _settings(self) -> dict[str, Mapping[str, str]]:
        self._data_web_port = free_port()
        data = self.directory / "data"
        places = {
            "dfs.namenode.http-address": f"{LOOPBACK}:{self._web_port}",
            "dfs.namenode.name.dir": (data / "name").as_uri(),
            "dfs.datanode.data.dir": (data / "blocks").as_uri(),
            "dfs.datanode.http.address": f"{LOOPBACK}:{self._data_web_port}",
            "dfs.datanode.address": f"{LOOPBACK}:{free_port()}",
            "dfs.datanode.ipc.address": f"{LOOPBACK}:{free_port()}",
        }
        core = {"fs.defaultFS": self.uri, "hadoop.tmp.dir": str(data / "tmp")}
        return {"core-site": core, "hdfs-site": _SETTINGS | places}
