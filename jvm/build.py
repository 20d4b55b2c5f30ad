"""Builds spark_jobs/jars/shipper-lines.jar from jvm/: ``python jvm/build.py``, which needs a JDK 17
or newer, pyspark, and the jars of S3A, which it fetches.

The jar is committed, so that who uses shipper needs no compiler. It names the sources that it was
made from (``sources()``), and tests/unit/test_jar.py holds it against them. The same compiler makes
the same bytes.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from importlib.util import find_spec
from pathlib import Path

from shipper.jars import resolve_jars
from shipper.runner import READER_JAR
from shipper.s3a import LOCK

ROOT = Path(__file__).resolve().parent
#: Beside these sources, also if another tree of shipper is installed.
JAR = ROOT.parent.joinpath(*READER_JAR.parts[-3:])
SOURCES_ENTRY = "META-INF/shipper-sources"
COMPILER_ENTRY = "META-INF/shipper-javac"
#: By which Spark finds the class.
_SERVICE = (
    "META-INF/services/org.apache.spark.scheduler.ExternalClusterManager",
    b"shipper.spark.KerberizedStandalone\n",
)
_EPOCH = (1980, 1, 1, 0, 0, 0)


def sources() -> str:
    """SHA-256 of all sources, with their names."""
    digest = hashlib.sha256()
    for path in sorted(ROOT.rglob("*.java")):
        digest.update(f"{path.relative_to(ROOT).as_posix()}\n".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


def build(target: Path) -> None:
    """Raises CalledProcessError if javac refuses the sources."""
    spark = find_spec("pyspark")
    if spark is None or spark.origin is None:
        raise SystemExit("no pyspark in this environment: run `make setup` first")
    jars = f"{Path(spark.origin).parent / 'jars' / '*'}{os.pathsep}{resolve_jars(LOCK) / '*'}"
    with tempfile.TemporaryDirectory() as folder:
        files = [str(path) for path in sorted(ROOT.rglob("*.java"))]
        subprocess.run(
            [
                "javac",
                "-J-XX:TieredStopAtLevel=1",  # half the time for so few sources
                "-J-XX:+UseSerialGC",
                "--release",
                "17",
                "-encoding",
                "UTF-8",
                "-Werror",
                "-nowarn",
                "-g:lines",
                "-cp",
                jars,
                "-d",
                folder,
                *files,
            ],
            check=True,
        )
        target.parent.mkdir(exist_ok=True)
        part = target.with_suffix(
            ".part"
        )  # a Java that has the jar open does not survive its bytes changing
        with zipfile.ZipFile(part, "w") as jar:
            _add(jar, "META-INF/MANIFEST.MF", b"Manifest-Version: 1.0\r\n\r\n")
            _add(jar, SOURCES_ENTRY, sources().encode())
            _add(jar, COMPILER_ENTRY, _compiler().encode())
            _add(jar, *_SERVICE)
            for path in sorted(Path(folder).rglob("*.class")):
                _add(jar, path.relative_to(folder).as_posix(), path.read_bytes())
        part.replace(target)


def _compiler() -> str:
    """Its major version."""
    said = subprocess.run(["javac", "-version"], capture_output=True, text=True, check=True).stdout
    return said.split()[1].split(".")[0]


def _add(jar: zipfile.ZipFile, name: str, content: bytes) -> None:
    jar.writestr(zipfile.ZipInfo(name, _EPOCH), content)  # stored: compressors differ


if __name__ == "__main__":
    build(Path(sys.argv[1]) if sys.argv[1:] else JAR)
