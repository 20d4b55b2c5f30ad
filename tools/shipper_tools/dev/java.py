"""The Java that runs the dev servers."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from shipper_tools.dev.errors import DevServerError

#: Kafka 4 and Spark 4 both refuse to run on anything older.
MINIMUM_MAJOR = 17

#: For a JVM that lives for a test: without the compiler that makes fast code after minutes (1.6 CPU
#: s for a broker's start in place of 2.6).
SHORT_LIVED = ("-XX:TieredStopAtLevel=1",)
#: The compiler and the collector that start fastest.
QUICK_JVM = (*SHORT_LIVED, "-XX:+UseSerialGC", "-XX:-UsePerfData", "-Djava.awt.headless=true")

_REMEDY = (
    f"Install a Java runtime of version {MINIMUM_MAJOR} or newer (Debian and Ubuntu: `apt-get "
    f"install openjdk-{MINIMUM_MAJOR}-jre-headless`; macOS: `brew install "
    f"openjdk@{MINIMUM_MAJOR}`) and put it on the PATH or point JAVA_HOME to it."
)
_VERSION = re.compile(r'version "(?P<version>(?:1\.)?(?P<major>\d+)[^"]*)"')


@dataclass(frozen=True)
class Java:
    """A Java launcher that was run once and said its version."""

    path: Path
    version: str


def find_java() -> Java:
    """Return the Java of ``JAVA_HOME`` if that is set, else the one on the ``PATH``.

    A ``JAVA_HOME`` that is broken or too old is not skipped: Spark goes by it too, so a server that
    quietly ran on another Java would only move the error to a place where it is harder to read.

    Raises:
        DevServerError: there is none, it does not run, or it is older than :data:`MINIMUM_MAJOR`.
    """
    home = os.environ.get("JAVA_HOME")
    launcher = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if launcher is None:
        raise DevServerError(
            f"No Java was found: JAVA_HOME is not set and there is no `java` on the PATH. {_REMEDY}"
        )
    try:
        # Text on stderr, so that a "Picked up JAVA_TOOL_OPTIONS: …" line before it does no harm.
        answer = subprocess.run(
            [launcher, "-version"], capture_output=True, text=True, timeout=60, check=False
        )
        said = answer.stderr + answer.stdout
    except (OSError, subprocess.TimeoutExpired) as problem:
        said = str(problem)
    match = _VERSION.search(said)
    if match is None:
        first_line = next(iter(said.strip().splitlines()), "nothing")
        raise DevServerError(f"{launcher} is no working Java: it said {first_line!r}. {_REMEDY}")
    if int(match["major"]) < MINIMUM_MAJOR:
        raise DevServerError(
            f"Java {match['version']} at {launcher} is too old: {MINIMUM_MAJOR} is needed. "
            f"{_REMEDY}"
        )
    return Java(Path(launcher), match["version"])


def properties_text(properties: Mapping[str, str]) -> str:
    r"""Return a properties file as Java reads it: backslashes doubled, what is not ASCII as
    \uXXXX, which JSON writes alike."""
    return "".join(f"{name}={json.dumps(value)[1:-1]}\n" for name, value in properties.items())
