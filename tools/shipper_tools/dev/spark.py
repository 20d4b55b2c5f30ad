"""A real standalone Spark: a master and its workers, each a Java process of its own on loopback,
from pyspark's own jars."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Unpack

from shipper.java import find_java
from shipper_tools.dev.http import json_at
from shipper_tools.dev.jars import pyspark_home
from shipper_tools.dev.java import QUICK_JVM
from shipper_tools.dev.ports import LOOPBACK, free_port
from shipper_tools.dev.process import ServerProcess
from shipper_tools.dev.server import Server, ServerOptions


class SparkServer(Server):
    """Jobs run on it with ``runner: {kind: standalone, master: …}``, the master being
    :attr:`master`.

    Executors inherit ``environment``, and with it what their Python finds; a job brings its own by
    `runner.archive`. What they write is below ``work`` and ``local``. An executor ends with its
    worker.

    Args:
        workers: how many, each with one core and 2 GB for its executors.
        environment: of all processes, in place of this one's.
    """

    title = "Spark"

    def __init__(
        self,
        directory: Path,
        port: int | None = None,
        *,
        workers: int = 2,
        environment: Mapping[str, str] | None = None,
        **options: Unpack[ServerOptions],
    ) -> None:
        super().__init__(directory, port, **options)
        self._page = 0
        self._count, self._given = workers, environment

    @property
    def master(self) -> str:
        """``spark://127.0.0.1:PORT``."""
        return f"spark://{self.address}"

    @property
    def addresses(self) -> Mapping[str, str]:
        """``page`` is the master's, for people."""
        return {"master": self.master, "page": f"http://{LOOPBACK}:{self._page}"}

    def start_worker(self, number: int) -> None:
        """Start ``worker-NUMBER``. Does not wait for it."""
        words = f"--host {LOOPBACK} --webui-port {free_port()} --cores 1 --memory 2g"
        work = ["--work-dir", str(self.directory / "work" / str(number))]
        self._start(f"worker-{number}", "worker.Worker", *words.split(), *work, self.master)

    def worker(self, number: int) -> ServerProcess:
        """Return a worker's process."""
        return self._parts[f"worker-{number}"]

    def _launch(self) -> None:
        """Start the master and, when it listens, the workers: one that finds no master tries again
        only after seconds."""
        find_java()
        self._page = free_port()
        self._folders()
        here = f"--host {LOOPBACK} --port {self.port} --webui-port {self._page}"
        self._start("master", "master.Master", *here.split())
        self.wait("listen", self._state)
        for number in range(self._count):
            self.start_worker(number)

    def _answers(self) -> bool:
        return bool(self._state().get("aliveworkers") == len(self._parts) - 1)

    def _state(self) -> dict[str, Any]:
        """Return what the master's page says as JSON; nothing as long as it says nothing."""
        return json_at(f"{self.addresses['page']}/json/")

    def _start(self, name: str, main: str, *arguments: str) -> None:
        launcher = str(pyspark_home() / "bin" / "spark-class")
        command = [launcher, f"org.apache.spark.deploy.{main}", *arguments]
        self._spawn(name, command, self._environment())

    def _environment(self) -> dict[str, str]:
        """Return the environment without what this process may have been told of another Spark."""
        given = os.environ if self._given is None else self._given
        kept = {
            name: value
            for name, value in given.items()
            if not name.startswith(("SPARK_", "PYSPARK_"))
        }
        options = " ".join(QUICK_JVM)
        return {
            **kept,
            "SPARK_HOME": str(pyspark_home()),
            "SPARK_LOCAL_IP": LOOPBACK,  # pages are bound to it too
            "SPARK_PUBLIC_DNS": LOOPBACK,
            "SPARK_LOCAL_DIRS": str(self.directory / "local"),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": options,
            "SPARK_LAUNCHER_OPTS": options,
        }
