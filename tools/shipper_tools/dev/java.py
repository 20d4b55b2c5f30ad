"""The Java that runs the dev servers."""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from shipper_tools.dev.errors import JavaMissing

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
    major: int


def find_java(environ: Mapping[str, str] = os.environ) -> Java:
    """The Java of ``JAVA_HOME`` if that is set, else the one on the ``PATH``.

    ``JAVA_HOME`` is not skipped when it is broken or too old: Spark goes by it too, so a server
    that quietly ran on another Java would only move the error to a place where it is harder to
    read.

    Raises:
        JavaMissing: there is none, it does not run, or it is older than :data:`MINIMUM_MAJOR`.
    """
    home = environ.get("JAVA_HOME")
    if home:
        launcher, origin = Path(home) / "bin" / "java", f"JAVA_HOME={home}"
        if not launcher.is_file():
            raise JavaMissing(f"{origin} has no bin/java. {_REMEDY}")
    else:
        found = shutil.which("java", path=environ.get("PATH", ""))
        if found is None:
            raise JavaMissing(
                "No Java was found: JAVA_HOME is not set and there is no `java` on the PATH. "
                f"{_REMEDY}"
            )
        launcher, origin = Path(found), "the PATH"
    java = _ask_version(launcher, origin)
    if java.major < MINIMUM_MAJOR:
        raise JavaMissing(
            f"Java {java.version} is too old: {launcher} (from {origin}), but {MINIMUM_MAJOR} is "
            f"needed. {_REMEDY}"
        )
    return java


def _ask_version(launcher: Path, origin: str) -> Java:
    try:
        # Text on stderr, so that a "Picked up JAVA_TOOL_OPTIONS: …" line before it does no harm.
        answer = subprocess.run(
            [launcher, "-version"], capture_output=True, text=True, timeout=60, check=False
        )
        said = answer.stderr + answer.stdout
    except (OSError, subprocess.TimeoutExpired) as problem:
        said = str(problem)
    parsed = parse_version(said)
    if parsed is None:
        first_line = next(iter(said.strip().splitlines()), "nothing")
        raise JavaMissing(
            f"{launcher} (from {origin}) is no working Java: it said {first_line!r}. {_REMEDY}"
        )
    return Java(launcher, *parsed)


def parse_version(said: str) -> tuple[str, int] | None:
    """The version and its major number in what ``java -version`` prints, e.g. ``("1.8.0_392", 8)``;
    None if neither."""
    match = _VERSION.search(said)
    return (match["version"], int(match["major"])) if match else None


def properties_text(properties: Mapping[str, str]) -> str:
    r"""Return a properties file as Java reads it: backslashes doubled, what is not ASCII as
    \uXXXX."""
    return "".join(f"{name}={_escaped(value)}\n" for name, value in properties.items())


def _escaped(value: str) -> str:
    units = struct.iter_unpack(">H", value.replace("\\", "\\\\").encode("utf-16-be"))
    return "".join(chr(unit) if 32 <= unit < 127 else f"\\u{unit:04x}" for (unit,) in units)
