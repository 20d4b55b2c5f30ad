"""The Java of this machine that Spark would run, found and judged without a JVM where possible."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from shipper.errors import JavaUnavailable

_OLDEST = 17
"""Spark 4 and Kafka 4 refuse to run on anything older."""
INSTALL = (
    f"install Java {_OLDEST} or newer (Debian: openjdk-{_OLDEST}-jre-headless), on the PATH or "
    "named by JAVA_HOME"
)
_RELEASE = re.compile(r'^JAVA_VERSION="((?:1\.)?(\d+)[^"]*)"', re.MULTILINE)
_SAID = re.compile(r'version "((?:1\.)?(\d+)[^"]*)"')


class Java(NamedTuple):
    """A Java launcher."""

    path: Path
    where: str
    """Its path, for people, with what named it."""
    version: str


def find_java() -> Java:
    """Return `JAVA_HOME`'s Java, else the one on the PATH, as Spark's scripts choose it. A wrong
    JAVA_HOME is not passed over, since Spark goes by it too. Raises JavaUnavailable if there is
    none that Spark can run with."""
    home = os.environ.get("JAVA_HOME")
    path = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if path is None:
        why = "no Java was found: JAVA_HOME is not set, and no `java` is on the PATH"
        raise JavaUnavailable.because(why, INSTALL)
    where = f"{path} (JAVA_HOME)" if home else path
    if not os.access(path, os.X_OK):
        raise JavaUnavailable.because(f"there is no Java at {where}", INSTALL)
    found = _version(Path(path))
    if found is None:
        raise JavaUnavailable.because(f"{where} is not a working Java", INSTALL)
    if int(found[2]) < _OLDEST:
        raise JavaUnavailable.because(f"Java {found[1]} at {where} is too old", INSTALL)
    return Java(Path(path), where, found[1])


def _version(path: Path) -> re.Match[str] | None:
    with suppress(OSError, UnicodeDecodeError):
        # Each JDK has the file. To ask Java itself takes a twentieth of a second.
        release = (path.resolve().parents[1] / "release").read_text(encoding="utf-8")
        if found := _RELEASE.search(release):
            return found
    with suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(
            [path, "-version"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
            errors="replace", check=False, timeout=60,
        )  # fmt: skip
        return _SAID.search(done.stderr + done.stdout)
    return None
