"""Classes of Kafka's jars as an earlier JVM has left them in the cache: a start takes half the CPU
seconds, or less."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from shipper.java import Java

#: What a JVM that cannot use class data, or not write them, says about it must not get into a
#: tool's output.
_QUIET = ("-Xlog:disable", "-Xlog:all=error:stderr")


class ClassData:
    """Those of one program, for a JVM of one version.

    Args:
        jars: the folder of the program's jars, in the cache.
        name: of the program.
    """

    def __init__(self, jars: Path, java: Java, name: str) -> None:
        self._kept = (
            jars.parent.with_name("class-data") / f"{jars.name}-{name}-java-{java.version}.jsa"
        )
        self._made: Path | None = None

    def options(self, *, make: bool = True) -> list[str]:
        """Options for the program's JVM: to take what is there; else, if ``make``, to leave it when
        it ends (:meth:`keep`). None in a cache that can only be read."""
        if self._kept.exists():
            return [*_QUIET, f"-XX:SharedArchiveFile={self._kept}", "-Xshare:auto"]
        if not make:
            return []
        try:
            self._kept.parent.mkdir(exist_ok=True)
            self._made = Path(tempfile.mkdtemp(dir=self._kept.parent)) / self._kept.name
        except OSError:
            return []
        return [*_QUIET, f"-XX:ArchiveClassesAtExit={self._made}"]

    def keep(self) -> None:
        """The JVM has ended: what it left is there for later ones. Does nothing if it left
        nothing."""
        if self._made is None:
            return
        if self._made.exists():
            self._made.replace(self._kept)  # at once: somebody else may make it too
        shutil.rmtree(self._made.parent, ignore_errors=True)
        self._made = None
