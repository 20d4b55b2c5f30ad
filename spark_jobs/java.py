"""The JVM that this process starts: its own words on standard error, filtered; and whether it still lives."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway

from shipper.stopping import Stopped
from shipper.terminal import visible

_HERE = Path(__file__).parent
#: Every JVM of Spark's says it, and nobody can do anything about it.
_NOISE = ("WARNING: Using incubator modules: jdk.incubator.vector",)


def log_settings() -> Path:
    """For log4j: a line for each error; with ``-v`` (``SHIPPER_LOG``) everything, stacks too."""
    return _HERE / ("log4j2-verbose.properties" if os.environ.get("SHIPPER_LOG") else "log4j2.properties")


def start_java(conf: SparkConf) -> None:
    """Starts the JVM and a SparkContext in it, if there is none; under spark-submit both are somebody else's."""
    if SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ:
        return
    theirs, ours = os.pipe()
    threading.Thread(target=_pass_on, args=(theirs,), name="Java's words", daemon=True).start()
    try:
        gateway = launch_gateway(conf, {"stderr": ours})
    finally:
        os.close(ours)
    SparkContext(conf=conf, gateway=gateway)


@contextlib.contextmanager
def afterwards(clean_up: Callable[[], object]) -> Iterator[None]:
    """Calls Java when the ``with`` block ends, unless a signal ended it: a call that was interrupted leaves its connection in the middle of
    an answer, and the next one on it would wait for ever. Java itself ends then."""
    try:
        yield
    except Stopped:
        raise
    except BaseException:
        clean_up()
        raise
    clean_up()


def _pass_on(pipe: int) -> None:
    in_stack = False
    with os.fdopen(pipe, errors="replace") as lines:
        for line in lines:
            if in_stack:
                in_stack = line.startswith((" ", "\n"))
            elif line.startswith("Traceback ") and not os.environ.get("SHIPPER_LOG"):
                in_stack = True  # of a worker that lost its JVM, or was told to go; one that fails says so to Spark
            elif not line.startswith(_NOISE):
                # Whoever listened may be gone; a pipe that nobody empties would hold the JVM up.
                with contextlib.suppress(OSError, ValueError):
                    print(visible(line.rstrip("\n")), file=sys.stderr, flush=True)


def java_process() -> subprocess.Popen[bytes] | None:
    """None before there is one, and under spark-submit, whose child this process is."""
    return getattr(SparkContext._gateway, "proc", None)  # kept there "for use by the caller", says pyspark's java_gateway
