"""Processes identified by more than their number, and a lock between them. Standard library only:
the library's own processes know each other by it."""

from __future__ import annotations

import contextlib
import fcntl
import gc
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from shipper import runtime


@dataclass(frozen=True)
class ProcessId:
    """A process number with the moment at which its process started, so that a recycled number is
    not mistaken.

    ``started`` is opaque and compares within one machine: clock ticks since boot and the boot's id
    on Linux, what ``ps`` says elsewhere.
    """

    pid: int
    started: str

    @classmethod
    def of(cls, pid: int) -> ProcessId:
        """Identify a process, running or not yet reaped.

        Raises:
            ProcessLookupError: there is none with that number.
        """
        seen = _look_up(pid)
        if seen is None:
            raise ProcessLookupError(f"no process {pid}")
        return cls(pid, seen[1])

    def alive(self) -> bool:
        """Return True if that very process still runs. A zombie, which only waits to be reaped,
        does not."""
        seen = _look_up(self.pid)
        return seen is not None and seen[1] == self.started and seen[0] not in ("Z", "X")


def group_members(group: int) -> list[int]:
    """Return the processes of a process group that still run; zombies, which only wait to be
    reaped, do not."""
    if sys.platform.startswith("linux"):
        return _running(_GROUP, group)
    listed = subprocess.run(
        ["ps", "-A", "-o", "pid=,pgid=,stat="], capture_output=True, text=True
    ).stdout
    rows = [(pid, of, state) for pid, of, state in (line.split() for line in listed.splitlines())]
    return [int(pid) for pid, of, state in rows if int(of) == group and state[0] not in _DEAD]


def session_members(session: int) -> list[int]:
    """Return the processes of a session that still run. PySpark's daemons lead groups of their own,
    but stay in the session that they were started in. Empty where there is no /proc."""
    return _running(_SESSION, session) if sys.platform.startswith("linux") else []


#: Places in what :func:`_stat` returns, and the letters of a process that only waits to be reaped.
_STATE, _, _GROUP, _SESSION = range(4)
_DEAD = "ZX"


@contextlib.contextmanager
def exclusive(path: Path, on_wait: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold the lock ``path`` for the length of the block. Another holder, in this process or
    another one, is waited for without limit, after one call of ``on_wait``. The kernel lets go of
    it when its holder dies. Raises OSError if the file cannot be made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def collect_garbage_less_often() -> None:
    """Tune a process that lives for one command: collect garbage less often.

    Imports make hundreds of thousands of objects that stay, and Python would look through them
    again and again: a fifth of the time that Great Expectations takes to import (2.0 instead of
    2.4 CPU s)."""
    gc.set_threshold(50_000, 20, 100)


def age_seconds() -> float:
    """Return for how long this process has been running; 0 if that is not known."""
    stat = _stat(os.getpid()) if sys.platform.startswith("linux") else None
    if stat is None:
        return 0.0
    return max(
        0.0,
        runtime.clock_gettime(runtime.CLOCK_BOOTTIME) - int(stat[19]) / os.sysconf("SC_CLK_TCK"),
    )


def _running(place: int, of: int) -> list[int]:
    """Return the processes that have ``of`` at ``place`` in /proc."""
    rows = [(pid, stat) for pid in _pids() if (stat := _stat(pid))]
    return [pid for pid, stat in rows if int(stat[place]) == of and stat[_STATE] not in _DEAD]


def _pids() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def _look_up(pid: int) -> tuple[str, str] | None:
    """State letter and start token of a process; None if it does not exist."""
    if not sys.platform.startswith("linux"):
        answer = subprocess.run(
            ["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True
        )
        state, _, started = answer.stdout.strip().partition(" ")
        return (state[:1], started.strip()) if started else None
    fields = _stat(pid)
    if fields is None:
        return None
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return fields[0], f"{boot}:{fields[19]}"


def _stat(pid: int) -> list[str] | None:
    """Return Linux's fields on a process from its state letter on (proc(5), field 3); None if it
    does not exist."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The command in parentheses may hold spaces and parentheses: count from the last one.
    return text.rpartition(")")[2].split()
