"""Kafka's own command-line tools, from the same jars as the dev server: an independent view of a
cluster."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from shipper_tools.dev.class_data import ClassData
from shipper_tools.dev.errors import DevServerError
from shipper_tools.dev.jars import resolve_jars
from shipper_tools.dev.java import QUICK_JVM, find_java
from shipper_tools.dev.kafka import JARS

LOG_SETTINGS = Path(__file__).with_suffix(".xml")


@dataclass(frozen=True)
class ToolOutput:
    """What a tool that ended well wrote: ``out`` byte for byte, ``err`` as text."""

    out: bytes
    err: str


def run_kafka_tool(
    main_class: str, args: Sequence[str], *, timeout_seconds: float = 60.0, given: bytes = b""
) -> ToolOutput:
    """Run a class of Kafka's jars, e.g. ``org.apache.kafka.tools.TopicCommand``, to its end (a
    second at least). ``given``: what it reads from standard input.

    Raises:
        DevServerError: it failed, or did not end within ``timeout_seconds``; says what it wrote.
        JavaMissing, JarsUnavailable: what it needs is not there.
    """
    java = find_java()
    jars = resolve_jars(JARS)
    name = main_class.rpartition(".")[2]
    class_data = ClassData(jars, java, name)
    options = [*QUICK_JVM, "-Xmx512m", *class_data.options(), "-cp", f"{jars}/*"]
    options += [f"-Dlog4j2.configurationFile={LOG_SETTINGS}"]
    try:
        done = subprocess.run(
            [str(java.path), *options, main_class, *args],
            input=given,
            capture_output=True,
            timeout=timeout_seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        raise DevServerError(
            f"Kafka's {name} {' '.join(args)} did not end within {timeout_seconds:.0f} s."
        ) from late
    finally:
        class_data.keep()
    err = done.stderr.decode(errors="replace")
    if done.returncode != 0:
        said = (done.stdout.decode(errors="replace") + err).strip()
        raise DevServerError(
            f"Kafka's {name} {' '.join(args)} failed (exit code {done.returncode}): {said[-2000:]}"
        )
    return ToolOutput(done.stdout, err)
