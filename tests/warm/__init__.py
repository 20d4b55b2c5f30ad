"""A Python and a JVM that are warm, for the commands that tests start.

What a command costs is for the most part its start: Python imports, Java loads and compiles, Spark
starts. A test of what a command does need not pay that. :class:`Warm` runs ``python -m shipper …``
in a fork of a process that has imported everything (server.py), and the steps of a run in another
(python.py stands in for ``sys.executable``), with a SparkContext of their own in a JVM that stays:
what PYSPARK_GATEWAY_PORT names is used by pyspark as it is. Commands, their arguments,
environments, processes and exit codes are otherwise as always. One command at a time: a JVM has one
SparkContext.

Not for a test of the start itself, of killing, stopping or memory, of Java's own settings, or of
secrets in the environment: those are marked `cold`.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.warm.jvm import WarmJava, python_of

_ROOT = Path(__file__).parents[2]
#: A JVM keeps something of each SparkContext.
_MOST_COMMANDS = 60

_shared: Warm | None = None
_cold = False


def run(
    arguments: Sequence[str],
    environment: Mapping[str, str] | None = None,
    timeout: float | None = None,
) -> subprocess.CompletedProcess[str]:
    """What ``python -m …`` does, to its end; warm unless the test is marked `cold`."""
    global _shared
    if _cold:
        command = [sys.executable, "-m", *arguments]
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=timeout
        )
    _shared = _shared or Warm()
    return _shared.run(arguments, environment, timeout)


@contextlib.contextmanager
def cold(wanted: bool = True) -> Iterator[None]:
    """While the ``with`` block runs, commands start processes of their own."""
    global _cold
    before, _cold = _cold, wanted
    try:
        yield
    finally:
        _cold = before


def end():
    global _shared
    if _shared is not None:
        _shared.end()
        _shared = None


class Warm:
    """Both; started when they are first needed."""

    def __init__(self):
        self._folder = tempfile.TemporaryDirectory(prefix="warm-", ignore_cleanup_errors=True)
        self.folder = Path(self._folder.name)
        self.python = python_of(self.folder)
        command = [
            sys.executable,
            "-m",
            "tests.warm.server",
            str(self.folder / "socket"),
            str(self.python),
        ]
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
        self._server = subprocess.Popen(
            command, cwd=_ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._ready = False
        self._java: WarmJava | None = None

    def run(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """What ``python -m …`` with these arguments would run."""
        java = self._fresh_java()
        self._wait_for_server()  # it imports while Java starts
        given = {
            **(os.environ if environment is None else environment),
            "PYSPARK_GATEWAY_PORT": str(java.port),
            "PYSPARK_GATEWAY_SECRET": java.secret,
        }
        before = java.log.stat().st_size
        command = [str(self.python), "-m", *arguments]
        clean = False
        try:
            done = subprocess.run(
                command, env=given, capture_output=True, text=True, timeout=timeout
            )
            clean = java.is_clean()
        finally:
            if not clean:
                self._end_java()
        done.stderr += java.said_since(before)
        return done

    def _wait_for_server(self):
        if not self._ready:
            assert self._server.stdout.readline() == b"ready\n"
            self._ready = True

    def _fresh_java(self):
        if self._java is not None and self._java.commands >= _MOST_COMMANDS:
            self._end_java()
        if self._java is None:
            self._java = WarmJava.start(self.folder, self.python)
        self._java.commands += 1
        return self._java

    def _end_java(self):
        if self._java is not None:
            self._java.end()
            self._java = None

    def end(self):
        self._end_java()
        self._server.stdin.close()
        self._server.wait(20)
        self._folder.cleanup()
