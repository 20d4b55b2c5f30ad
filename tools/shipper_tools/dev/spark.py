"""A real standalone Spark: a master and its workers, each a Java process of its own on loopback,
from pyspark's own jars."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from shipper.jars import Say
from shipper_tools.dev.errors import ServerDied
from shipper_tools.dev.http import json_at
from shipper_tools.dev.java import QUICK_JVM, find_java
from shipper_tools.dev.ports import LOOPBACK, free_port
from shipper_tools.dev.process import ServerProcess
from shipper_tools.dev.server import Server


class SparkServer(Server):
    """Jobs run on it with ``runner: {kind: standalone, master: …}``, the master being
    :attr:`master`.

    Executors inherit ``environment``, and with it what their Python finds; a job brings its own by
    `runner.archive`. What they write is below ``work`` and ``local``. An executor ends with its
    worker.

    Args:
        workers: how many.
        cores: of each worker.
        memory: of each worker, for its executors, as Spark writes sizes.
        environment: of all processes, in place of this one's.
    """

    title = "Spark"

    def __init__(
        self,
        directory: Path,
        port: int | None = None,
        *,
        workers: int = 2,
        cores: int = 1,
        memory: str = "2g",
        environment: Mapping[str, str] | None = None,
        die_with_parent: bool = False,
        say: Say = lambda line: None,
    ) -> None:
        super().__init__(directory, port, die_with_parent=die_with_parent, say=say)
        self._page = 0
        self._count, self._cores, self._memory = workers, cores, memory
        self._given = environment

    @property
    def master(self) -> str:
        """``spark://127.0.0.1:PORT``. Raises ServerDied before the first start, if no port was
        given."""
        return f"spark://{self.address}"

    @property
    def addresses(self) -> Mapping[str, str]:
        """``page`` is the master's, for people."""
        return {"master": self.master, "page": f"http://{LOOPBACK}:{self._page}"}

    def start_worker(self, number: int) -> None:
        """Start a worker, also in place of one that was killed. Does not wait for it."""
        size = [
            "--cores",
            str(self._cores),
            "--memory",
            self._memory,
            "--work-dir",
            str(self.directory / "work" / str(number)),
        ]
        here = ["--host", LOOPBACK, "--webui-port", str(free_port())]
        self._start(
            f"worker-{number}", "org.apache.spark.deploy.worker.Worker", *here, *size, self.master
        )

    def worker(self, number: int) -> ServerProcess:
        """Return a worker's process."""
        return self._parts[f"worker-{number}"]

    def kill_worker(self, number: int) -> None:
        """Kill a worker, as by kill -9. Its executors see that and end; the master notices by the
        closed connection."""
        self._parts.pop(f"worker-{number}").stop(0)

    def _launch(self) -> None:
        """Start the master and, when it listens, the workers: one that finds no master tries again
        only after seconds."""
        find_java()
        self._page = free_port()
        self._folders()
        here = ["--host", LOOPBACK, "--port", str(self.port), "--webui-port", str(self._page)]
        self._start("master", "org.apache.spark.deploy.master.Master", *here)
        self._wait(self._state, self.ready_within_seconds)
        for number in range(self._count):
            self.start_worker(number)

    def _answers(self) -> bool:
        return bool(self._state().get("aliveworkers") == len(self._parts) - 1)

    def _state(self) -> dict[str, Any]:
        """Return what the master's page says as JSON; nothing as long as it says nothing."""
        return json_at(f"{self.addresses['page']}/json/")

    def _start(self, name: str, main: str, *arguments: str) -> None:
        self._spawn(
            name, [str(spark_home() / "bin" / "spark-class"), main, *arguments], self._environment()
        )

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
            "SPARK_HOME": str(spark_home()),
            "SPARK_LOCAL_IP": LOOPBACK,  # pages are bound to it too
            "SPARK_PUBLIC_DNS": LOOPBACK,
            "SPARK_LOCAL_DIRS": str(self.directory / "local"),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": options,
            "SPARK_LAUNCHER_OPTS": options,
        }


def spark_home() -> Path:
    """pyspark's folder, which is a Spark without ``sbin``. It is not imported for that.

    Raises:
        ServerDied: there is none.
    """
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ServerDied("Spark is not installed here: install `shipper[spark]`.")
    return Path(spec.origin).parent
