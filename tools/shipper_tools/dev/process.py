"""A server's process: stopped within a deadline, never left behind by a test."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

import psutil

from shipper.processes import ProcessId, session_members

#: Waits until nobody holds the other end of its stdin any more, then sees that the server has
#: ended. psutil's kill spares a stranger who has got the number since.
_WATCHDOG = (
    "import sys, psutil; server = psutil.Process(int(sys.argv[1])); sys.stdin.buffer.read(); "
    "server.kill()"
)


def stop(process: ProcessId, grace_seconds: float) -> None:
    """Ask with TERM, insist with KILL after ``grace_seconds``, return when it is gone. Does nothing
    if it is."""
    _end(_itself(process), grace_seconds)


def stop_family(process: ProcessId, grace_seconds: float) -> None:
    """Ends a process that leads a session, all of that session, and all that these have started in
    sessions of their own, as :func:`stop` does. What a process that died left behind is found by
    the session alone."""
    family = _family(process)
    stop(process, grace_seconds)
    _end(family | _family(process), grace_seconds)  # with what it started meanwhile


def _end(members: set[psutil.Process], grace_seconds: float) -> None:
    for member in members:
        with contextlib.suppress(psutil.NoSuchProcess):
            member.terminate()
            member.resume()  # a paused process would not hear the TERM
    for member in _left_after(grace_seconds, members):
        with contextlib.suppress(psutil.NoSuchProcess):
            member.kill()
    _left_after(10.0, members)


def _left_after(seconds: float, members: set[psutil.Process]) -> list[psutil.Process]:
    """Wait until they have ended. psutil's own wait fails where a process is reaped by another one
    while it opens a handle for it."""
    deadline = time.monotonic() + seconds
    while (left := [each for each in members if _runs(each)]) and time.monotonic() < deadline:
        time.sleep(0.02)
    return left


def _runs(member: psutil.Process) -> bool:
    """Return False for a process that waits to be reaped. If only its first thread has ended, it
    looks like one; until the others have, its ports are taken."""
    try:
        return bool(member.is_running()) and (
            member.status() != psutil.STATUS_ZOMBIE
            or len(list(Path(f"/proc/{member.pid}/task").iterdir())) > 1
        )
    except (psutil.NoSuchProcess, OSError):
        return False


def _itself(process: ProcessId) -> set[psutil.Process]:
    """Return nobody if it is gone, or its number is another's by now."""
    with contextlib.suppress(psutil.NoSuchProcess):
        found = psutil.Process(process.pid)
        if process.alive() or found.status() == psutil.STATUS_ZOMBIE:
            return {found}
    return set()


def _family(process: ProcessId) -> set[psutil.Process]:
    """Return all but itself; nobody, if its number is another's by now."""
    itself, found = _itself(process), set[psutil.Process]()
    if not itself and psutil.pid_exists(process.pid):
        return found
    for pid in (process.pid, *session_members(process.pid)):
        with contextlib.suppress(psutil.NoSuchProcess):
            member = psutil.Process(pid)
            found |= {member, *member.children(recursive=True)}
    return found - itself


def send(process: ProcessId, number: signal.Signals) -> None:
    """A signal, without waiting. Does nothing if it is gone."""
    if process.alive():
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, number)


class ServerProcess:
    """A server that :func:`spawn` started. With a watchdog it lives no longer than this object and
    this process."""

    def __init__(
        self, child: subprocess.Popen[bytes], watchdog: subprocess.Popen[bytes] | None
    ) -> None:
        self.id = ProcessId.of(child.pid)
        self._child = child
        self._watchdog = watchdog

    def exit_code(self) -> int | None:
        """None while it runs, negative if a signal ended it."""
        return self._child.poll()

    def stop(self, grace_seconds: float) -> None:
        """See :func:`stop`."""
        stop(self.id, grace_seconds)
        self._child.wait()
        if self._watchdog is not None:
            # closes the pipe; the watchdog finds nothing left to kill and ends
            self._watchdog.communicate()


def new_log(path: Path) -> BinaryIO:
    """Open the log of a process that starts. The log of the process before it is kept as
    ``NAME.1``: it may say why that one died."""
    with contextlib.suppress(FileNotFoundError):
        path.replace(path.with_name(f"{path.name}.1"))
    return path.open("wb")


def write_for_us_alone(file: Path, text: str) -> None:
    """Write a file that nobody else may read. A reader sees the old file or the new one, never half
    of one."""
    partial = file.with_name(f"{file.name}.{os.getpid()}")
    partial.unlink(missing_ok=True)
    partial.touch(mode=0o600)
    partial.write_text(text)
    partial.replace(file)


def spawn(
    argv: list[str],
    *,
    cwd: Path,
    output: Path,
    die_with_parent: bool,
    environment: Mapping[str, str] | None = None,
) -> ServerProcess:
    """Start a server apart from the terminal: in a session of its own (Ctrl-C does not reach it),
    output to a file. ``environment``: in place of this process's.

    With ``die_with_parent`` a second, tiny process watches this one through a pipe and kills the
    server when this process is gone, however it went. Linux's PR_SET_PDEATHSIG would do without the
    second process, but it fires when the *thread* that started the server ends, needs a hook
    between fork and exec, and exists on Linux only. Limit: a child that was forked from this
    process without exec holds the pipe too, and the server lives as long.

    Raises:
        OSError: the program cannot be started.
    """
    with new_log(output) as log:
        child = subprocess.Popen(
            argv,
            cwd=cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        return ServerProcess(child, _watch(child.pid) if die_with_parent else None)
    except BaseException:
        child.kill()
        raise


def _watch(pid: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-I", "-c", _WATCHDOG, str(pid)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
