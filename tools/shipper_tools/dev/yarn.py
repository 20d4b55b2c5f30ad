"""A real YARN on loopback: a ResourceManager and some NodeManagers, each a Java process of its own,
from the jars that HDFS has here too."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Unpack

from shipper.java import find_java
from shipper_tools.dev import hadoop
from shipper_tools.dev.http import json_at
from shipper_tools.dev.ports import LOOPBACK, free_port
from shipper_tools.dev.server import ServerOptions

_RESOURCE_MANAGER = "org.apache.hadoop.yarn.server.resourcemanager.ResourceManager"
_NODE_MANAGER = "org.apache.hadoop.yarn.server.nodemanager.NodeManager"
#: What differs from Hadoop's defaults, and why.
_SETTINGS = {
    "yarn.scheduler.minimum-allocation-mb": "256",
    "yarn.nodemanager.hostname": LOOPBACK,
    "yarn.nodemanager.bind-host": LOOPBACK,
    "yarn.nodemanager.resource.memory-mb": "4096",
    "yarn.nodemanager.resource.cpu-vcores": "4",  # counted, not measured
    "yarn.nodemanager.vmem-check-enabled": "false",
    "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "99",
    # A node that is gone is lost after 10 s, not 10 min.
    "yarn.nm.liveness-monitor.expiry-interval-ms": "10000",
    "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms": "500",
}
_NODES = 2
_SCHEDULER = {
    "yarn.scheduler.capacity.root.queues": "default",
    "yarn.scheduler.capacity.root.default.capacity": "100",
    "yarn.scheduler.capacity.maximum-am-resource-percent": "0.8",
}


class YarnServer(hadoop.HadoopServer):
    """Jobs run on it with ``runner: {kind: yarn}`` and :attr:`conf_dir` as `HADOOP_CONF_DIR`.

    Args:
        file_system: `fs.defaultFS`, where jobs put what their containers fetch.
    """

    title = "YARN"
    #: With what the shaded jar of Hadoop's servers leaves out: its ResourceManager makes
    #: certificates.
    jars = (hadoop.JARS, "yarn-3.5.0")

    def __init__(
        self,
        directory: Path,
        port: int | None = None,
        *,
        file_system: str = "file:///",
        **options: Unpack[ServerOptions],
    ) -> None:
        super().__init__(directory, port, **options)
        self._file_system = file_system

    @property
    def addresses(self) -> Mapping[str, str]:
        return {"yarn": self.address, "web": self.web, "HADOOP_CONF_DIR": str(self.conf_dir)}

    def _start_node(self, number: int) -> None:
        folder = self.directory / "nodes" / str(number)
        services = ("address", "localizer.address", "collector-service.address", "webapp.address")
        own = {
            **{f"yarn.nodemanager.{name}": f"{LOOPBACK}:{free_port()}" for name in services},
            "yarn.nodemanager.local-dirs": str(folder / "local"),
            "yarn.nodemanager.log-dirs": str(folder / "logs"),
        }
        settings = [word for name, value in own.items() for word in ("-D", f"{name}={value}")]
        # A container finds its Java by it.
        environment = {**os.environ, "JAVA_HOME": str(find_java().path.resolve().parents[1])}
        self._spawn(f"node-{number}", self._command(_NODE_MANAGER, *settings), environment)

    def _launch(self) -> None:
        super()._launch()
        self._folders("conf/webapps/cluster", "conf/webapps/node")  # pages that its jar lacks
        self._spawn("manager", self._command(_RESOURCE_MANAGER, heap_mb=384))
        for number in range(_NODES):
            self._start_node(number)

    def _answers(self) -> bool:
        """True if the ResourceManager counts all NodeManagers as alive."""
        metrics: dict[str, Any] = json_at(f"{self.web}/ws/v1/cluster/metrics")
        return bool(metrics.get("clusterMetrics", {}).get("activeNodes") == _NODES)

    def _settings(self) -> dict[str, Mapping[str, str]]:
        places = {
            "yarn.resourcemanager.hostname": LOOPBACK,
            "yarn.resourcemanager.address": self.address,
            "yarn.resourcemanager.webapp.address": f"{LOOPBACK}:{self._web_port}",
            **{
                f"yarn.resourcemanager.{name}.address": f"{LOOPBACK}:{free_port()}"
                for name in ("scheduler", "resource-tracker", "admin")
            },
        }
        core = {"fs.defaultFS": self._file_system, "hadoop.tmp.dir": str(self.directory / "tmp")}
        return {
            "core-site": core,
            "yarn-site": _SETTINGS | places,
            "capacity-scheduler": _SCHEDULER,
        }
