"""A server's process: known by more than its number, stopped within a deadline, never left behind by a test.

Standard library only: the file also runs by itself, as the watchdog of :func:`spawn`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class ProcessId:
    """A process number with the moment at which its process started, so that a recycled number is not mistaken.

    ``started`` is opaque and compares within one machine: clock ticks since boot and the boot's id on Linux, what
    ``ps`` says elsewhere.
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
        """Whether that very process still runs. A zombie, which only waits to be reaped, does not."""
        seen = _look_up(self.pid)
        return seen is not None and seen[1] == self.started and seen[0] not in ("Z", "X")

    def stop(self, grace_seconds: float) -> None:
        """Ask with TERM, insist with KILL after ``grace_seconds``, return when it is gone. Does nothing if it is."""
        self._signal(signal.SIGTERM)
        self._signal(signal.SIGCONT)  # a paused process would not hear the TERM
        if not self._gone_within(grace_seconds):
            self.kill()
            self._gone_within(10.0)

    def kill(self) -> None:
        """KILL at once, without waiting. Does nothing if it is gone."""
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        if self.alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def _gone_within(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while self.alive():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True


class ServerProcess:
    """A server that :func:`spawn` started. With a watchdog it lives no longer than this object and this process."""

    def __init__(self, child: subprocess.Popen[bytes], watchdog: subprocess.Popen[bytes] | None) -> None:
        self.id = ProcessId.of(child.pid)
        self._child = child
        self._watchdog = watchdog

    def exit_code(self) -> int | None:
        """None while it runs, negative if a signal ended it."""
        return self._child.poll()

    def stop(self, grace_seconds: float) -> None:
        """See :meth:`ProcessId.stop`."""
        self.id.stop(grace_seconds)
        self._child.wait()
        if self._watchdog is not None:
            self._watchdog.communicate()  # closes the pipe; the watchdog finds nothing left to kill and ends


def spawn(argv: list[str], *, cwd: Path, output: Path, die_with_parent: bool) -> ServerProcess:
    """Start a server apart from the terminal: in a session of its own (Ctrl-C does not reach it), output to a file.

    With ``die_with_parent`` a second, tiny process watches this one through a pipe and kills the server when this
    process is gone, however it went. Linux's PR_SET_PDEATHSIG would do without the second process, but it fires when
    the *thread* that started the server ends, needs a hook between fork and exec, and exists on Linux only.
    Limit: a child that was forked from this process without exec holds the pipe too, and the server lives as long.

    Raises:
        OSError: the program cannot be started.
    """
    with output.open("wb") as log:
        child = subprocess.Popen(
            argv, cwd=cwd, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        return ServerProcess(child, _watch(ProcessId.of(child.pid)) if die_with_parent else None)
    except BaseException:
        child.kill()
        raise


def _watch(server: ProcessId) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-I", "-S", __file__, str(server.pid), server.started],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _look_up(pid: int) -> tuple[str, str] | None:
    """State letter and start token of a process; None if there is none."""
    if not sys.platform.startswith("linux"):
        answer = subprocess.run(["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True)
        state, _, started = answer.stdout.strip().partition(" ")
        return (state[:1], started.strip()) if started else None
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The command in parentheses may hold spaces and parentheses: count from the last one (proc(5), fields 3 and 22).
    fields = text.rpartition(")")[2].split()
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return fields[0], f"{boot}:{fields[19]}"


def _watchdog(server: ProcessId) -> None:
    """Wait until nobody holds the other end of stdin any more; then see that the server has ended."""
    sys.stdin.buffer.read()
    server.kill()


if __name__ == "__main__":
    _watchdog(ProcessId(int(sys.argv[1]), sys.argv[2]))
