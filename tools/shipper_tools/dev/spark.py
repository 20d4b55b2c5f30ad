"""A real standalone Spark: a master and its workers, each a Java process of its own on loopback, from pyspark's own jars."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
import urllib.request
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil

from shipper.processes import ProcessId
from shipper_tools.dev.errors import PortTaken, ServerDied
from shipper_tools.dev.java import find_java
from shipper_tools.dev.ports import LOOPBACK, free_port, why_unusable
from shipper_tools.dev.process import ServerProcess, send, spawn

READY_WITHIN_SECONDS = 90.0
STOP_WITHIN_SECONDS = 20.0
_DAEMON_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"
_EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
_ASK_SECONDS = 5.0


class SparkServer:
    """Jobs run on it with ``runner: {kind: standalone, master: …}``, the master being :attr:`master`.

    ::

        with SparkServer(tmp_path, die_with_parent=True) as spark:
            ...
            spark.kill_worker(0)

    Executors inherit ``environment``, and with it what their Python finds; a job brings its own by `runner.archive`.

    Args:
        directory: made if it is not there. What executors write is below ``work`` and ``local``.
        port: where drivers and workers find the master. None takes a free one.
        workers: how many.
        cores: of each worker.
        memory: of each worker, for its executors, as Spark writes sizes.
        environment: of all processes, in place of this one's.
        die_with_parent: as of :class:`~shipper_tools.dev.kafka.KafkaServer`. An executor ends with its worker.
    """

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
    ) -> None:
        self.directory = directory.absolute()
        self.port = port
        self._page = 0
        self._count, self._cores, self._memory = workers, cores, memory
        self._given = environment
        self._die_with_parent = die_with_parent
        self._master: ServerProcess | None = None
        self._workers: dict[int, ServerProcess] = {}

    @property
    def master(self) -> str:
        """``spark://127.0.0.1:PORT``.

        Raises:
            ServerDied: it was never started and has no port yet.
        """
        if self.port is None:
            raise ServerDied(f"The Spark in {self.directory} has no port before its first start.")
        return f"spark://{LOOPBACK}:{self.port}"

    @property
    def addresses(self) -> Mapping[str, str]:
        """As the dev commands remember it; ``page`` is the master's, for people."""
        return {"master": self.master, "page": f"http://{LOOPBACK}:{self._page}"}

    @property
    def processes(self) -> tuple[ProcessId, ...]:
        """The master's and the workers', in the order of their start."""
        return tuple(each.id for each in (self._master, *self._workers.values()) if each is not None)

    def start(self) -> None:
        """Raises what :meth:`launch` and :meth:`wait_ready` raise."""
        self.launch()
        self.wait_ready()

    def launch(self) -> None:
        """Starts the master and, when it listens, the workers: one that finds no master tries again only after seconds.

        Raises:
            JavaMissing: no usable Java.
            PortTaken: somebody else listens there.
            ServerDied: the master stopped, or did not listen in time.
        """
        find_java()
        self.port = self.port or free_port()
        if reason := why_unusable(self.port):
            raise PortTaken(f"Port {self.port} of {LOOPBACK} {reason}.")
        self._page = free_port()
        (self.directory / "logs").mkdir(parents=True, exist_ok=True)
        here = ["--host", LOOPBACK, "--port", str(self.port), "--webui-port", str(self._page)]
        self._master = self._spawn("master", "org.apache.spark.deploy.master.Master", *here)
        try:
            deadline = time.monotonic() + READY_WITHIN_SECONDS
            while not self._state():
                self._check(self._master, "master", deadline)
                time.sleep(0.05)
            for number in range(self._count):
                self.start_worker(number)
        except BaseException:
            self.stop()
            raise

    def start_worker(self, number: int) -> None:
        """One that was killed comes back as a new one. Does not wait for it."""
        size = ["--cores", str(self._cores), "--memory", self._memory, "--work-dir", str(self.directory / "work" / str(number))]
        ports = ["--host", LOOPBACK, "--webui-port", str(free_port())]
        name = f"worker-{number}"
        self._workers[number] = self._spawn(name, "org.apache.spark.deploy.worker.Worker", *ports, *size, self.master)

    def wait_ready(self, within_seconds: float = READY_WITHIN_SECONDS) -> None:
        """Until the master has all workers. Stops everything if that takes too long, or on Ctrl-C."""
        deadline = time.monotonic() + within_seconds
        try:
            while self._state().get("aliveworkers") != len(self._workers):
                for number, worker in self._workers.items():
                    self._check(worker, f"worker-{number}", deadline)
                time.sleep(0.05)
        except BaseException:
            self.stop()
            raise

    def executors(self, worker: int) -> list[ProcessId]:
        """The Java processes of jobs on a worker."""
        found = []
        for child in psutil.Process(self._workers[worker].id.pid).children():
            with contextlib.suppress(psutil.Error, ProcessLookupError):  # gone, or what `spark-class` has left unreaped
                if _EXECUTOR in child.cmdline():
                    found.append(ProcessId.of(child.pid))
        return found

    def kill_executor(self, worker: int) -> int:
        """KILL to a worker's executors; the master has it start others. Returns how many there were. Their Python processes see that they
        are gone."""
        found = self.executors(worker)
        for executor in found:
            send(executor, signal.SIGKILL)
        return len(found)

    def kill_worker(self, worker: int) -> None:
        """KILL. Its executors see that and end; the master notices by the closed connection."""
        send(self._workers[worker].id, signal.SIGKILL)
        self._workers.pop(worker).stop(0.0)

    @contextlib.contextmanager
    def executors_paused(self, worker: int) -> Any:
        """While the ``with`` block runs, a worker's executors and their Python processes do nothing and hold all their connections."""
        held: list[ProcessId] = []
        for executor in self.executors(worker):
            below = psutil.Process(executor.pid).children(recursive=True)
            held += [executor, *(ProcessId.of(child.pid) for child in below)]
        for process in held:
            send(process, signal.SIGSTOP)
        try:
            yield held
        finally:
            for process in held:
                send(process, signal.SIGCONT)

    def stop(self) -> None:
        """TERM, and KILL if that takes longer than :data:`STOP_WITHIN_SECONDS`. Does nothing if it does not run."""
        for worker in self._workers.values():
            worker.stop(STOP_WITHIN_SECONDS)  # a worker that is asked ends its executors
        self._workers.clear()
        if self._master is not None:
            self._master.stop(STOP_WITHIN_SECONDS)
            self._master = None

    def __enter__(self) -> SparkServer:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.stop()

    def _spawn(self, name: str, main: str, *arguments: str) -> ServerProcess:
        return spawn(
            [str(spark_home() / "bin" / "spark-class"), main, *arguments],
            cwd=self.directory,
            output=self._log(name),
            die_with_parent=self._die_with_parent,
            environment=self._environment(),
        )

    def _environment(self) -> dict[str, str]:
        """Without what this process may have been told of another Spark."""
        given = os.environ if self._given is None else self._given
        kept = {name: value for name, value in given.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
        return {
            **kept,
            "SPARK_HOME": str(spark_home()),
            "SPARK_LOCAL_IP": LOOPBACK,  # pages are bound to it too
            "SPARK_PUBLIC_DNS": LOOPBACK,
            "SPARK_LOCAL_DIRS": str(self.directory / "local"),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": _DAEMON_OPTIONS,
            "SPARK_LAUNCHER_OPTS": _DAEMON_OPTIONS,
        }

    def _state(self) -> dict[str, Any]:
        """What the master's page says as JSON; empty as long as it says nothing."""
        with (
            contextlib.suppress(OSError, ValueError),
            urllib.request.urlopen(f"{self.addresses['page']}/json/", timeout=_ASK_SECONDS) as page,
        ):
            found: dict[str, Any] = json.load(page)
            return found
        return {}

    def _check(self, process: ServerProcess, name: str, deadline: float) -> None:
        if (code := process.exit_code()) is not None:
            raise ServerDied(
                f"Spark's {name} stopped while starting (exit code {code}). Its last words: {self._last_words(name)}"
            )
        if time.monotonic() > deadline:
            raise ServerDied(f"Spark's {name} was not ready in time. Its last words: {self._last_words(name)}")

    def _log(self, name: str) -> Path:
        return self.directory / "logs" / f"{name}.log"

    def _last_words(self, name: str) -> str:
        return "\n".join(self._log(name).read_text(errors="replace").splitlines()[-15:])


def spark_home() -> Path:
    """pyspark's folder, which is a Spark without ``sbin``. It is not imported for that.

    Raises:
        ServerDied: there is none.
    """
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ServerDied("Spark is not installed here: install `shipper[spark]`.")
    return Path(spec.origin).parent
