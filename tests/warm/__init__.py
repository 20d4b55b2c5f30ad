"""A Python and a JVM that are warm, for the commands that tests start.

What a command costs is for the most part its start: Python imports, Java loads and compiles, Spark starts. A test of what a command does
need not pay that. :class:`Warm` runs ``python -m shipper …`` in a fork of a process that has imported everything (server.py), and the
steps of a run in another (python.py stands in for ``sys.executable``), with a SparkContext of their own in a JVM that stays: what
PYSPARK_GATEWAY_PORT names is used by pyspark as it is. Commands, their arguments, environments, processes and exit codes are otherwise as
always. One command at a time: a JVM has one SparkContext.

Not for a test of the start itself, of killing, stopping or memory, of Java's own settings, or of secrets in the environment: those are
marked `cold`.
"""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from py4j.java_gateway import GatewayParameters, JavaGateway
from py4j.protocol import Py4JError
from pyspark.find_spark_home import _find_spark_home
from pyspark.serializers import UTF8Deserializer, read_int

from shipper.jars import resolve_jars
from shipper.runner import READER_JAR
from shipper.s3a import LOCK
from spark_jobs import java

_ROOT = Path(__file__).parents[2]
#: A JVM keeps something of each SparkContext.
_MOST_COMMANDS = 60
_JAVA_OPTIONS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-Dlog4j2.configurationFile={java.log_settings().as_uri()}")


_shared: Warm | None = None
_cold = False


def run(
    arguments: Sequence[str], environment: Mapping[str, str] | None = None, timeout: float = 300
) -> subprocess.CompletedProcess[str]:
    """What ``python -m …`` does, to its end; warm unless the test is marked `cold`."""
    global _shared
    if _cold:
        command = [sys.executable, "-m", *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout, check=False)
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


def end() -> None:
    global _shared
    if _shared is not None:
        _shared.end()
        _shared = None


class WarmJava:
    """A JVM of Spark's without a SparkContext. Ends with this process, since that holds its standard input."""

    def __init__(self, folder: Path, python: Path) -> None:
        self.commands = 0
        self.log = folder / "java.log"
        where = folder / "gateway"
        conf = {
            "spark.driver.memory": "1g",
            "spark.driver.extraJavaOptions": " ".join(_JAVA_OPTIONS),
            # S3A's are looked into by who reads S3 alone.
            "spark.jars": ",".join(map(str, [READER_JAR, *sorted(resolve_jars(LOCK).glob("*.jar"))])),
            "spark.ui.showConsoleProgress": "false",
        }
        options = [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
        environment = {
            **os.environ,
            "_PYSPARK_DRIVER_CONN_INFO_PATH": str(where),
            "SPARK_CONNECT_MODE": "0",
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": str(python),
            "PYSPARK_DRIVER_PYTHON": str(python),
            "PYTHONPATH": str(_ROOT),
        }
        command = [str(Path(_find_spark_home()) / "bin" / "spark-submit"), *options, "pyspark-shell"]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=log, stderr=log, cwd=folder)
        while not where.exists():
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.05)
        with where.open("rb") as info:
            self.port, self.secret = read_int(info), UTF8Deserializer().loads(info)
        where.unlink()
        # Without memory management: it speaks to a JVM that may be gone, at any moment at which Python collects garbage.
        parameters = GatewayParameters(port=self.port, auth_token=self.secret, enable_memory_management=False)
        self._gateway = JavaGateway(gateway_parameters=parameters)

    def is_clean(self) -> bool:
        """Whether it lives and the last command has left no SparkContext in it."""
        try:
            contexts = getattr(getattr(self._gateway.jvm.org.apache.spark, "SparkContext$"), "MODULE$")
            return not contexts.getActive().isDefined()
        except (Py4JError, OSError):
            return False

    def said_since(self, offset: int) -> str:
        """What it wrote from there on, as shipper passes on what its JVM writes."""
        reading = os.open(self.log, os.O_RDONLY)
        os.lseek(reading, offset, os.SEEK_SET)
        with contextlib.redirect_stderr(io.StringIO()) as said:
            java._pass_on(reading)
        return said.getvalue()

    def end(self) -> None:
        self._gateway.close()
        self.process.kill()
        self.process.wait()


class Warm:
    """Both; started when they are first needed."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="warm-", ignore_cleanup_errors=True)
        self.folder = Path(self._folder.name)
        self.python = self.folder / "python"
        socket, real = self.folder / "socket", sys.executable
        standin = Path(__file__).with_name("python.py")
        self.python.write_text(f'#!/bin/sh\nexec {real} -I -S {standin} {socket} {real} "$@"\n')
        self.python.chmod(0o755)
        command = [real, "-m", "tests.warm.server", str(socket), str(self.python)]
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
        self._server = subprocess.Popen(command, cwd=_ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._ready = False
        self._java: WarmJava | None = None

    def run(
        self, arguments: Sequence[str], environment: Mapping[str, str] | None = None, timeout: float = 300
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
            done = subprocess.run(command, env=given, capture_output=True, text=True, timeout=timeout, check=False)
            clean = java.is_clean()
        finally:
            if not clean:
                self._end_java()
        done.stderr += java.said_since(before)
        return done

    def _wait_for_server(self) -> None:
        if not self._ready:
            assert self._server.stdout is not None
            assert self._server.stdout.readline() == b"ready\n"
            self._ready = True

    def _fresh_java(self) -> WarmJava:
        if self._java is not None and self._java.commands >= _MOST_COMMANDS:
            self._end_java()
        if self._java is None:
            self._java = WarmJava(self.folder, self.python)
        self._java.commands += 1
        return self._java

    def _end_java(self) -> None:
        if self._java is not None:
            self._java.end()
            self._java = None

    def end(self) -> None:
        self._end_java()
        assert self._server.stdin is not None
        self._server.stdin.close()
        self._server.wait(20)
        self._folder.cleanup()
