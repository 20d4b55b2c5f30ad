"""Kafka's own tools in a JVM that stays, for the independent reader: it starts three of them for
each read, a second of CPU each.

What runs is what `shipper_tools.dev.kafka_tools` runs, class and arguments. A tool that fails is
run again as always, in a JVM of its own, and says what it has to say; but for the consumer, which
moves on in the topic.
"""

import contextlib
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JError
from pyspark.find_spark_home import _find_spark_home
from shipper_tools.dev import console_consumer
from shipper_tools.dev.errors import DevServerError
from shipper_tools.dev.jars import resolve_jars
from shipper_tools.dev.java import QUICK_JVM
from shipper_tools.dev.kafka_tools import JARS, LOG_SETTINGS, run_kafka_tool

from shipper.java import find_java

#: Those that end by returning when all is well, and only read.
_WARM = frozenset({"GetOffsetShell", "ConsoleConsumer", "ConsumerGroupCommand"})
#: Each leaves a little behind: the consumer a hook for the JVM's end.
_MOST_CALLS = 600


class _RefusedError(Exception):
    """A tool ended with an exit code that is not 0."""


class WarmTools:
    """A JVM with Kafka's tools; started when it is first needed."""

    def __init__(self):
        self._lock = threading.Lock()
        self._gateway: JavaGateway | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._calls = 0

    def run(self, main_class: str, args: Sequence[str], *, timeout_seconds: float = 60.0) -> bytes:
        """As :func:`run_kafka_tool`."""
        if main_class.rpartition(".")[2] in _WARM and self._lock.acquire(blocking=False):
            try:
                return self._run(main_class, args, timeout_seconds)
            except _RefusedError:
                pass
            except (Py4JError, OSError) as error:
                self.end()
                if main_class.endswith(
                    "ConsoleConsumer"
                ):  # it may have committed what it read, and nobody would read that again
                    raise DevServerError(f"the warm {main_class} failed: {error}") from error
            finally:
                self._lock.release()
        return run_kafka_tool(main_class, args, timeout_seconds=timeout_seconds)

    def _run(self, main_class, args, timeout_seconds):
        gateway = self._started(timeout_seconds)
        java = gateway.jvm
        words = gateway.new_array(java.java.lang.String, len(args))
        for place, word in enumerate(args):
            words[place] = word
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "out"
            # A topic may be larger than the JVM's memory.
            java.java.lang.System.setOut(
                java.java.io.PrintStream(
                    java.java.io.BufferedOutputStream(java.java.io.FileOutputStream(str(out)))
                )
            )
            java.java.lang.System.setErr(java.java.io.PrintStream(str(Path(folder) / "err")))
            self._call(gateway, main_class, words)
            java.java.lang.System.out.close()
            java.java.lang.System.err.close()
            self._calls += 1
            return out.read_bytes()

    def _call(self, gateway, main_class, words):
        java = gateway.jvm
        tool = java.java.lang.Class.forName(main_class)
        # Its `main` ends the JVM in any case.
        name = "mainNoExit" if main_class.endswith("GetOffsetShell") else "main"
        kinds, given = (
            gateway.new_array(java.java.lang.Class, 1),
            gateway.new_array(java.java.lang.Object, 1),
        )
        kinds[0], given[0] = words.getClass(), words
        method = tool.getDeclaredMethod(name, kinds)
        method.setAccessible(True)
        if method.invoke(None, given) not in (None, 0):
            raise _RefusedError

    def _started(self, timeout_seconds):
        if self._calls >= _MOST_CALLS:
            self.end()
        if self._gateway is None:
            py4j = next(Path(_find_spark_home()).glob("jars/py4j-*.jar"))
            port, secret, self._process = launch_gateway(
                classpath=f"{resolve_jars(JARS)}/*:{py4j}",
                javaopts=[*QUICK_JVM, "-Xmx512m", f"-Dlog4j2.configurationFile={LOG_SETTINGS}"],
                java_path=str(find_java().path),
                die_on_exit=True,
                enable_auth=True,
                return_proc=True,
            )
            found = GatewayParameters(
                port=port,
                auth_token=secret,
                enable_memory_management=False,
                read_timeout=timeout_seconds + 60,
            )
            self._gateway = JavaGateway(gateway_parameters=found)
            self._gateway.jvm.java.lang.System.setProperty("java.awt.headless", "true")  # it is up
            self._calls = 0
        return self._gateway

    def end(self):
        """Does nothing if there is none."""
        if self._gateway is not None and self._process is not None:
            self._gateway.close()
            self._process.kill()
            self._process.wait()
        self._gateway = self._process = None


@contextlib.contextmanager
def for_readers() -> Iterator[None]:
    """While the block runs, `read_topic` and `read_records` use one. They need not wait so long
    then for a consumer to get going."""
    tools, before = WarmTools(), (console_consumer.run_kafka_tool, console_consumer._IDLE_MS)
    console_consumer.run_kafka_tool, console_consumer._IDLE_MS = tools.run, 500
    try:
        yield
    finally:
        console_consumer.run_kafka_tool, console_consumer._IDLE_MS = before
        tools.end()
