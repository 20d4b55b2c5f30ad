"""A locked list of jars: every jar by coordinate, size and hash, one per line."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from shipper.errors import JarsUnavailable

_LINE = re.compile(
    r"(?P<group>[\w.-]+):(?P<name>[\w.-]+):(?P<version>[\w.+-]+)\s+(?P<size>\d+)\s+sha256:(?P<sha256>[0-9a-f]{64})"
)


@dataclass(frozen=True)
class Pin:
    """One jar of a Maven repository, and what it must be when it arrives."""

    group: str
    name: str
    version: str
    size_bytes: int
    sha256: str

    @property
    def coordinate(self) -> str:
        return f"{self.group}:{self.name}:{self.version}"

    @property
    def file_name(self) -> str:
        return f"{self.name}-{self.version}.jar"

    def __str__(self) -> str:
        return f"{self.coordinate} {self.size_bytes} sha256:{self.sha256}"

    def has_arrived(self, folder: Path) -> bool:
        """Return True if the jar lies in ``folder`` with its full length. Cheap: asked at every
        start."""
        try:
            return (folder / self.file_name).stat().st_size == self.size_bytes
        except OSError:
            return False

    def verify(self, content: bytes) -> None:
        """Compare what arrived with the lock.

        Raises:
            JarsUnavailable: it is not the same bytes.
        """
        found = hashlib.sha256(content).hexdigest()
        if found != self.sha256:
            raise JarsUnavailable(
                f"{self.coordinate} is not the jar that was locked: its sha256 is {found}, "
                f"expected {self.sha256}. The repository, or a proxy in between, handed out "
                "something else. The jar was not used. Try again. If this stays so, do not "
                "use that repository.",
                code="SHIP-803",
            )


def read_lock(path: Path) -> tuple[Pin, ...]:
    """Read the pins of a lock file: ``group:name:version size_bytes sha256:hex`` per line, ``#``
    starts a comment.

    Raises:
        JarsUnavailable: the file is missing or broken; says where.
    """
    try:
        entries = [line.partition("#")[0].strip() for line in path.read_text().splitlines()]
    except OSError as problem:
        raise JarsUnavailable(
            f"The list of jars {path} cannot be read: {problem}.", code="SHIP-803"
        ) from problem
    found = [(number, _LINE.fullmatch(entry)) for number, entry in enumerate(entries, 1) if entry]
    if wrong := [number for number, match in found if match is None]:
        raise JarsUnavailable(
            f"{path}:{wrong[0]}: a line is written `group:name:version size_bytes sha256:hex`.",
            code="SHIP-803",
        )
    return tuple(
        Pin(match["group"], match["name"], match["version"], int(match["size"]), match["sha256"])
        for _, match in found
        if match
    )


def digest(pins: tuple[Pin, ...]) -> str:
    """Return eight hex digits that change with any pin."""
    return hashlib.sha256("\n".join(map(str, pins)).encode()).hexdigest()[:8]


def sha256_of(path: Path) -> str:
    """Return the hash of a file's bytes, in hex."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
