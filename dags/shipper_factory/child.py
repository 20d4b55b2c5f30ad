"""One process of the Spark side, as an Airflow task runs it: its log line by line, and gone when the task is gone."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator

from shipper.runner import Job, environment, stop_group

_POLL_SECONDS = 0.5
_GRACE_SECONDS = 10.0


class Child:
    """Runs a job once. Everything happens in the caller's thread, since :meth:`ask_to_stop` is called by a signal handler
    that interrupts it: the handler only sends TERM and leaves the waiting, and KILL after the grace, to the loop."""

    def __init__(self, job: Job) -> None:
        self._kill_at: float | None = None
        # An Airflow task's stdin is its line to the supervisor, and its stderr is logged as errors: pass on neither.
        self._process = subprocess.Popen(
            job.command(),
            env=environment(job.pipeline.runner),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def run(self, on_line: Callable[[str], None]) -> int:
        """Returns the exit code; below zero it is the signal that ended the process. Whatever is raised here, such as
        a task's timeout, stops the whole process group first."""
        try:
            for line in self._lines():
                on_line(line.decode(errors="replace").rstrip())
            return self._process.wait()
        finally:
            self._end()

    def ask_to_stop(self) -> None:
        self._kill_at = time.monotonic() + _GRACE_SECONDS
        self._signal(signal.SIGTERM)

    def _lines(self) -> Iterator[bytes]:
        """Ends when the pipe is closed, or when the process is gone and its leftovers (a JVM that has not noticed yet)
        are silent."""
        assert self._process.stdout is not None
        pipe, pending = self._process.stdout.fileno(), b""
        while True:
            ready = bool(select.select([pipe], [], [], _POLL_SECONDS)[0])
            chunk = os.read(pipe, 65536) if ready else b""
            *lines, pending = (pending + chunk).split(b"\n")
            yield from lines
            gone = self._process.poll() is not None
            if not chunk and (ready or gone):
                break
            if self._kill_at is not None and time.monotonic() > self._kill_at:
                self._signal(signal.SIGKILL)
        if pending:
            yield pending

    def _end(self) -> None:
        if self._process.poll() is None:
            stop_group(self._process, _GRACE_SECONDS)
        self._signal(signal.SIGKILL)
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _signal(self, signum: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signum)
