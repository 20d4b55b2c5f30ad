"""A JVM of Spark's that stays, and what stands in for Python in what it starts."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import time
from pathlib import Path

from py4j.java_gateway import GatewayParameters, JavaGateway
from py4j.protocol import Py4JError
from pyspark.find_spark_home import _find_spark_home
from pyspark.serializers import UTF8Deserializer, read_int

from shipper.jars import resolve_jars
from shipper.runner import READER_JAR
from shipper.s3a import LOCK
from spark_jobs import jvm

_ROOT = Path(__file__).parents[2]
_JAVA_OPTIONS = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    f"-Dlog4j2.configurationFile={jvm.log_settings().as_uri()}",
)


class WarmJava:
    """A JVM of Spark's without a SparkContext."""

    def __init__(self, port: int, secret: str, log: Path, process: subprocess.Popen[bytes]):
        self.port, self.secret, self.log, self._process = port, secret, log, process
        self.commands = 0
        # Without memory management: it speaks to a JVM that may be gone, at any moment at which
        # Python collects garbage.
        parameters = GatewayParameters(port=port, auth_token=secret, enable_memory_management=False)
        self._gateway = JavaGateway(gateway_parameters=parameters)

    @classmethod
    def start(cls, folder: Path, python: Path) -> WarmJava:
        """It ends with this process, since that holds its standard input."""
        log, where = folder / "java.log", folder / "gateway"
        conf = {
            "spark.driver.memory": "1g",
            "spark.driver.extraJavaOptions": " ".join(_JAVA_OPTIONS),
            # S3A's are looked into by who reads S3 alone.
            "spark.jars": ",".join(
                map(str, [READER_JAR, *sorted(resolve_jars(LOCK).glob("*.jar"))])
            ),
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
        command = [
            str(Path(_find_spark_home()) / "bin" / "spark-submit"),
            *options,
            "pyspark-shell",
        ]
        with log.open("wb") as file:
            process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=file,
                stderr=file,
                cwd=folder,
            )
        while not where.exists():
            assert process.poll() is None, log.read_text()
            time.sleep(0.05)
        with where.open("rb") as info:
            port, secret = read_int(info), UTF8Deserializer().loads(info)
        where.unlink()
        return cls(port, secret, log, process)

    def is_clean(self) -> bool:
        """Whether it lives and the last command has left no SparkContext in it."""
        try:
            contexts = getattr(
                getattr(self._gateway.jvm.org.apache.spark, "SparkContext$"), "MODULE$"
            )
            return not contexts.getActive().isDefined()
        except (Py4JError, OSError):
            return False

    def said_since(self, offset: int) -> str:
        """What it wrote from there on, as shipper passes on what its JVM writes."""
        reading = os.open(self.log, os.O_RDONLY)
        os.lseek(reading, offset, os.SEEK_SET)
        with contextlib.redirect_stderr(io.StringIO()) as said:
            for line in jvm._own_words(reading):
                jvm._show(line)
        return said.getvalue()

    def end(self):
        self._gateway.close()
        self._process.kill()
        self._process.wait()


def python_of(folder: Path) -> Path:
    """The program that stands in for Python; its warm process listens at ``folder/socket``."""
    python, real = folder / "python", sys.executable
    python.write_text(
        f"#!/bin/sh\nexec {real} -I -S {Path(__file__).with_name('python.py')} {folder / 'socket'} "
        f'{real} "$@"\n'
    )
    python.chmod(0o755)
    return python
