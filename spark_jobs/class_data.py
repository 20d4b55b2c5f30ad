"""A class-data archive: Spark's classes as the JVM has them in memory, so that the next one need
neither find, read nor verify them.

It is made once for a Java, a Spark and the reader's jar, by a process of its own, since the JVM
writes it when it ends: after the first run that missed it, in the background, or by ``python -m
spark_jobs.make_class_data``, as `make setup` and the image do. It halves the CPU that a start
costs, and nothing depends on it: a JVM that cannot use one starts without, and says nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import xxhash

from shipper import runtime
from shipper.cache import cache_folder
from shipper.java import find_java
from spark_jobs import java_command

_BLOCK_BYTES = 1 << 20
_ANEW_SECONDS = 86_400.0
#: Options of every JVM that is started here, whatever the window turns out to hold.
#:
#: * The serial collector. What a run allocates dies at once, and what lives is small. So one thread
#:   collects it in milliseconds, the heap does not grow, and no barrier costs CPU (docs/adr/0035:
#:   280 MB less than G1, and a tenth of Java's CPU).
#: * C2 compiles what has run a hundred times as often as Java's own choice asks for, and C1 what
#:   has run twice as often. Else starting alone takes 4 CPU s of compilers, for code that is hardly
#:   used again, while the loops over records pass these marks within a second (docs/adr/0014).
OPTIONS = (
    "-XX:+UseSerialGC",
    "-XX:Tier3InvocationThreshold=400",
    "-XX:Tier3MinInvocationThreshold=200",
    "-XX:Tier3CompileThreshold=4000",
    "-XX:Tier4InvocationThreshold=500000",
    "-XX:Tier4MinInvocationThreshold=60000",
    "-XX:Tier4CompileThreshold=1500000",
    "-XX:Tier4BackEdgeThreshold=4000000",
)
#: Without this, a JVM with an unusable archive would report it on standard output.
_SILENT = ("-Xshare:auto", "-Xlog:disable", "-Xlog:all=error:stderr")


def options(settings: Mapping[str, str], archive: Path | None) -> list[str]:
    """Return the options with which a JVM starts fast. A user's own setting of the garbage
    collector is kept."""
    theirs = (
        settings.get("spark.driver.extraJavaOptions", ""),
        *map(_of_java, ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")),
    )
    found: list[str] = []
    if not any("-XX" in words for words in theirs):
        found = [*OPTIONS]
    if archive is not None and not any(
        "-Xshare" in words or "SharedArchiveFile" in words for words in theirs
    ):
        found += [f"-XX:SharedArchiveFile={archive}", *_SILENT]
    return found


def _of_java(name: str) -> str:
    return os.environ.get(name, "")


_missed = False


def archive() -> Path | None:
    """Return the archive that fits this Java, this Spark and this reader, if it exists and is
    complete."""
    global _missed
    with contextlib.suppress(OSError):
        for path in folder().glob(f"{key()}-*.jsa"):
            if _is_ours(path) and path.stem.rpartition("-")[2] == checksum(path):
                return path
    _missed = True
    return None


def make_in_background() -> None:
    """Start a process that makes the archive and outlives this one, if this one has missed it. It
    takes some 20 s of an idle core; it is begun at most once a day."""
    if not _missed:
        return
    begun = folder() / f"{key()}.begun"
    with contextlib.suppress(OSError):
        folder().mkdir(parents=True, exist_ok=True)
        if begun.exists() and runtime.time() - begun.stat().st_mtime > _ANEW_SECONDS:
            begun.unlink()
        begun.touch(exist_ok=False)
        subprocess.Popen(
            [shutil.which("nice") or "env", sys.executable, "-m", "spark_jobs.make_class_data"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


def folder() -> Path:
    return cache_folder() / "classes"


def _is_ours(path: Path) -> bool:
    """Return True if no other user has written the archive: the JVM runs the code in it."""
    found = path.stat()
    return found.st_uid in (os.getuid(), 0) and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def checksum(path: Path) -> str:
    """Return a checksum, because the JVM compares only a few fields of its header. Costs 10 ms, and
    has the pages read that the JVM is about to map."""
    digest = xxhash.xxh3_64()
    with path.open("rb") as content:
        while block := content.read(_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()


def key() -> str:
    """Return a key of all that the JVM would compare: its own build, and the class path with the
    size and age of each jar."""
    digest = hashlib.sha256()
    home = java_command.spark_home()
    real = find_java().path.resolve()
    jars = map(Path, java_command.class_path(home).split(os.pathsep))
    for path in (real, real.parents[1] / "release", *jars):
        with contextlib.suppress(FileNotFoundError):
            found = path.stat()
            digest.update(f"{path}\0{found.st_size}\0{found.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:24]
