"""What is sent: random bytes of a fixed size, or log lines."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from random import Random

from shipper_tools.samples.services import SERVICES

#: One service per file, as in life. With these the average line has 139 bytes; the demo's own mix has 190.
_SERVICES_OF_FILES = ("payments", "web", "payments", "system", "payments", "web", "payments", "search")
_HOUR = datetime(2026, 11, 1, 6, tzinfo=UTC)
_LINES_AT_A_TIME = 50_000
_SEED = 4


def random_records(count: int, size_bytes: int) -> list[bytes]:
    """Bytes that no codec makes smaller."""
    return [os.urandom(size_bytes) for _ in range(count)]


def log_lines(file: int, count: int) -> Iterator[bytes]:
    """Lines of one file, in the order of their times within each portion; the same for the same arguments."""
    name = _SERVICES_OF_FILES[file % len(_SERVICES_OF_FILES)]
    service = next(service for service in SERVICES if service.name == name)
    maker = service.prepare(Random(f"{_SEED} {name}"))
    rng = Random(f"{_SEED} {name} {file}")
    for begun in range(0, count, _LINES_AT_A_TIME):
        portion = maker(rng, service.hosts[file % len(service.hosts)], _HOUR, min(_LINES_AT_A_TIME, count - begun))
        yield from (line.encode() for line in portion)


def write_log_files(folder: Path, lines: int) -> int:
    """``lines`` lines in eight files that settled long ago; returns their bytes without line ends."""
    folder.mkdir(parents=True)
    files = len(_SERVICES_OF_FILES)
    size = 0
    for file in range(files):
        count = lines // files + (file < lines % files)
        path = folder / f"{file}-{_SERVICES_OF_FILES[file]}.log"
        with path.open("wb") as out:
            stream = log_lines(file, count)
            while portion := list(itertools.islice(stream, _LINES_AT_A_TIME)):
                text = b"\n".join(portion) + b"\n"
                out.write(text)
                size += len(text) - len(portion)
        os.utime(path, (time.time() - 3600, time.time() - 3600))
    return size
