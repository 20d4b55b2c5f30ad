"""A server's process: stopped within a deadline, never left behind by a test."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from shipper import processes
from shipper.processes import ProcessId


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
        [sys.executable, "-I", "-S", processes.__file__, str(server.pid), server.started],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
