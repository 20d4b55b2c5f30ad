"""One process of the Spark side, as an Airflow task runs it: its log line by line, and gone when the task is gone."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping

from shipper.runner import GRACE_SECONDS, Job, ask_to_stop, stop_job

_POLL_SECONDS = 0.5


class Child:
    """Runs a job once. Everything happens in the caller's thread, since :meth:`ask_to_stop` is called by a signal handler
    that interrupts it: the handler only sends TERM and leaves the waiting, and KILL after the grace, to the loop."""

    def __init__(self, job: Job, given: Mapping[str, str] | None = None) -> None:
        """``given``: what the references to Airflow's connections stand for."""
        self.gave_up = False
        """Whether the process was stopped because its time was over."""
        self._stop_at: float | None = None
        self._runner = job.pipeline.runner
        self._kill_at: float | None = None
        # An Airflow task's stdin is its line to the supervisor, and its stderr is logged as errors: pass on neither.
        self._process = subprocess.Popen(
            job.command(),
            env=job.environment(given),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def run(self, on_line: Callable[[str], None], within_seconds: float | None = None) -> int:
        """Returns the exit code; below zero it is the signal that ended the process. What is not done ``within_seconds`` is stopped, and
        :attr:`gave_up` says so. Whatever is raised here, such as a task's timeout, stops the whole process group first."""
        if within_seconds is not None:
            self._stop_at = time.monotonic() + within_seconds
        try:
            for line in self._lines():
                on_line(line.decode(errors="replace").rstrip())
            return self._process.wait()
        finally:
            self._end()

    def ask_to_stop(self) -> None:
        self._kill_at = time.monotonic() + GRACE_SECONDS
        ask_to_stop(self._process.pid, self._runner)

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
            if self._stop_at is not None and time.monotonic() > self._stop_at and self._kill_at is None:
                self.gave_up = True
                self.ask_to_stop()
            if self._kill_at is not None and time.monotonic() > self._kill_at:
                self._kill_group()
        if pending:
            yield pending

    def _end(self) -> None:
        if self._process.poll() is None:
            stop_job(self._process, self._runner)
        self._kill_group()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _kill_group(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
