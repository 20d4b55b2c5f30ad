"""Kafka's own command-line tools, from the same jars as the dev server: an independent view of a
cluster."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from shipper.java import find_java
from shipper_tools.dev.class_data import ClassData
from shipper_tools.dev.errors import DevServerError
from shipper_tools.dev.jars import resolve_jars
from shipper_tools.dev.java import QUICK_JVM, java_command

#: The lock that names Kafka's jars. 4.4.0's tools are not on the registry.
JARS = "kafka-4.3.1"
LOG_SETTINGS = Path(__file__).with_suffix(".xml")


def run_kafka_tool(
    main_class: str,
    args: Sequence[str],
    *,
    timeout_seconds: float = 60.0,
    cwd: Path | None = None,
) -> bytes:
    """Run a class of Kafka's jars, e.g. ``org.apache.kafka.tools.TopicCommand``, to its end (a
    second at least), and return what it printed.

    Raises:
        DevServerError: it failed, or did not end within ``timeout_seconds``; says what it wrote. Or
            there is no Java.
        JarsUnavailable: its jars are not there.
    """
    java = find_java()
    jars = resolve_jars(JARS)
    name = main_class.rpartition(".")[2]
    class_data = ClassData(jars, java, name)
    called = f"Kafka's {name} {' '.join(word for word in args if 'password=' not in word)}"
    options = [*QUICK_JVM, *class_data.options(), f"-Dlog4j2.configurationFile={LOG_SETTINGS}"]
    try:
        done = subprocess.run(
            java_command([main_class, *args], f"{jars}/*", 512, options),
            stdin=subprocess.DEVNULL,
            cwd=cwd,
            capture_output=True,
            timeout=timeout_seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        raise DevServerError(f"{called} did not end within {timeout_seconds:.0f} s.") from late
    finally:
        class_data.keep()
    if done.returncode != 0:
        said = (done.stdout + done.stderr).decode(errors="replace").strip()
        raise DevServerError(f"{called} failed (exit code {done.returncode}): {said[-2000:]}")
    return done.stdout
