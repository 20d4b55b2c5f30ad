"""The life of a dev server's processes, whatever the server is: started, asked until it answers,
stopped, its last words kept."""

from __future__ import annotations

import os
import re
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self, TypedDict, TypeVar

from shipper.jars import Say
from shipper.processes import ProcessId
from shipper_tools.dev.errors import PortTaken, ServerDied
from shipper_tools.dev.ports import LOOPBACK, free_port, why_unusable
from shipper_tools.dev.process import ServerProcess, spawn, stop_family

T = TypeVar("T")

STOP_WITHIN_SECONDS = 20.0
_LAST_LINES = 25
_LOOKS_EVERY_SECONDS, _TELLS_EVERY_SECONDS = 2.0, 30.0
_NUMBERS = re.compile(r"\d+")


class ServerOptions(TypedDict, total=False):
    """Options of every server; see :class:`Server`."""

    die_with_parent: bool
    say: Say


class Server(ABC):
    """A server whose data live in ``directory`` and are there again after the next start. One
    server at a time may use it.

    ::

        with KafkaServer(tmp_path, die_with_parent=True) as kafka:
            ...

    Args:
        directory: made if it is not there. Logs are in ``logs`` below it.
        port: where clients connect; None takes a free one.
        die_with_parent: the server ends when this process does, even by kill -9. For tests. Without
            it the server goes on until somebody stops it.
        say: gets a line for people when jars have to be fetched.
    """

    title: ClassVar[str]
    silent_seconds: ClassVar[float] = 90.0
    """Longest time without progress while something is waited for, where nobody else wants a
    core."""
    stop_within_seconds: ClassVar[float] = STOP_WITHIN_SECONDS
    poll_seconds: ClassVar[float] = 0.05

    def __init__(
        self,
        directory: Path,
        port: int | None = None,
        *,
        die_with_parent: bool = False,
        say: Say = lambda line: None,
    ) -> None:
        self.directory = directory.absolute()
        self.port = port or free_port()
        self._die_with_parent = die_with_parent
        self._say = say
        self._parts: dict[str, ServerProcess] = {}
        """Processes by the names of their logs, in the order of their start."""
        self._commands: dict[str, tuple[Sequence[str], Mapping[str, str] | None]] = {}

    @property
    def address(self) -> str:
        """``127.0.0.1:PORT``"""
        return f"{LOOPBACK}:{self.port}"

    @property
    @abstractmethod
    def addresses(self) -> Mapping[str, str]:
        """Addresses as the dev commands remember them; the first one is where clients connect."""

    @property
    def processes(self) -> tuple[ProcessId, ...]:
        """Processes that were started, known by number and start, in the order of their start."""
        return tuple(part.id for part in self._parts.values())

    @property
    def pid(self) -> int:
        """Number of the first process."""
        return self.processes[0].pid

    @property
    def running(self) -> bool:
        """True if all processes are there (they may be paused, or still starting)."""
        return bool(self._parts) and all(process.alive() for process in self.processes)

    def start(self) -> None:
        """Start and wait until the server answers. Do nothing if it runs.

        Raises:
            PortTaken: somebody else listens on the port; nothing was started. ServerDied: a process
            stopped, or neither answered nor made progress; the message ends with its last lines.
            DevServerError, JarsUnavailable: what the server needs is not there.
        """
        self.launch()
        self.wait_ready()

    def launch(self) -> None:
        """Carry out the first half of :meth:`start`: the processes are there, and do not answer
        yet."""
        if self.running:
            return
        self.stop()
        self._check_port(self.port)
        try:
            self._launch()
        except BaseException:
            self.stop()
            raise

    def wait_ready(self) -> None:
        """Carry out the second half of :meth:`start`. Stops the processes if they do not answer, or
        on Ctrl-C."""
        try:
            self.wait("answer", self._answers)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End the processes, the last one first, with what they started: TERM, and KILL if that
        takes longer than ``stop_within_seconds``. Do nothing if none runs."""
        while self._parts:
            _, part = self._parts.popitem()
            stop_family(part.id, self.stop_within_seconds)
            part.stop(0)

    def kill(self, name: str) -> None:
        """Kill the process called ``name``, as by kill -9. The others stay."""
        self._parts.pop(name).stop(0)

    def revive(self, name: str) -> None:
        """Start a process that was killed again. With :meth:`wait_ready` the server is whole."""
        self._spawn(name, *self._commands[name])

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @abstractmethod
    def _launch(self) -> None:
        """Write settings and start the processes, by :meth:`_spawn`."""

    @abstractmethod
    def _answers(self) -> bool:
        """True if the server does what it is for."""

    def _check_port(self, port: int) -> None:
        if reason := why_unusable(port):
            raise PortTaken(f"{self.title} cannot listen: port {port} on {LOOPBACK} {reason}.")

    def _folders(self, *names: str) -> None:
        for name in ("logs", *names):
            (self.directory / name).mkdir(parents=True, exist_ok=True)

    def _spawn(
        self, name: str, argv: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> None:
        """Start a process in the server's folder; its output goes to ``logs/NAME.log``."""
        self._commands[name] = argv, environment
        self._parts[name] = spawn(
            list(argv),
            cwd=self.directory,
            output=self.directory / "logs" / f"{name}.log",
            die_with_parent=self._die_with_parent,
            environment=environment,
        )

    def _make_data(self, argv: Sequence[str]) -> None:
        """Run the command that makes the folder of data. Raises ServerDied."""
        done = subprocess.run(
            argv, cwd=self.directory, capture_output=True, text=True, errors="replace", check=False
        )
        if done.returncode:
            said = (done.stdout + done.stderr).strip()[-3000:]
            raise ServerDied(
                f"The data of {self.title} in {self.directory} cannot be made. It said:\n{said}"
            )

    def wait(self, what: str, look: Callable[[], T | None]) -> T:
        """Return what ``look`` returns, once that is true, and say every 30 s that it takes longer.
        ``what``: what the server is to do.

        There is no limit of time while the logs show progress: lines of a new kind, since some
        lines come again and again from a server that does not get on. Raises ServerDied.
        """
        began = moved = looked = told = time.monotonic()
        kinds, since = 0, time.time()
        while not (found := look()):
            self._check_alive()
            now = time.monotonic()
            if now > looked + _LOOKS_EVERY_SECONDS:
                looked = now
                if (more := self.progress(since)) > kinds:
                    kinds, moved = more, now
            if now > moved + (patience := self.silent_seconds * slowness()):
                raise ServerDied(
                    f"{self.title} did not {what}, and its logs show no progress for "
                    f"{patience:.0f} s.{_busy()}{self._last_words()}"
                )
            if now > told + _TELLS_EVERY_SECONDS:
                told = now
                self._say(f"{self.title} is still to {what}, after {now - began:.0f} s.{_busy()}")
            time.sleep(self.poll_seconds)
        return found

    def _check_alive(self) -> None:
        if not self._parts:
            raise ServerDied(f"{self.title} in {self.directory} was not launched.")
        for name, part in self._parts.items():
            if (code := part.exit_code()) is not None:
                raise ServerDied(
                    f"{self.title} stopped ({name}: exit code {code}).{self._last_words()}"
                )

    def progress(self, since: float = 0) -> int:
        """Return the number of lines that differ in more than numbers, in all logs that were
        written to ``since`` then (seconds since the epoch). It grows while the server gets on."""
        logs = (self.directory / "logs").rglob("*.log")
        return len(
            {
                _NUMBERS.sub("", line)
                for log in logs
                if log.stat().st_mtime >= since
                for line in log.read_text(errors="replace").splitlines()
            }
        )

    def _last_words(self) -> str:
        logs = self.directory / "logs"
        words = [
            line
            for log in sorted(logs.glob("*.log"))
            for line in log.read_text(errors="replace").splitlines()[-_LAST_LINES:]
        ]
        return "\n".join([" Its last words:", *words, f"(all of them: {logs})"])


def slowness() -> float:
    """Return the number of processes that want a core, for each core; 1 at least."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def _busy() -> str:
    """Return a sentence on a machine whose processes wait for cores; empty if it has enough."""
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    return f" The machine is busy (load {load:.0f} on {cores} cores)." if load > 2 * cores else ""
