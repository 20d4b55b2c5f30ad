"""Files full of realistic log lines, the same for the same seed."""

from __future__ import annotations

import gzip
import itertools
import math
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

from shipper_tools.samples.services import SERVICES, LineMaker, Service

#: Fast rather than small: a demo should not spend its time on compression.
_GZIP_LEVEL = 3


@dataclass(frozen=True)
class LogFile:
    """A file that was written. ``size_bytes`` is its length before compression."""

    path: Path
    service: str
    host: str
    hour: datetime
    lines: int
    size_bytes: int


@dataclass(frozen=True)
class LogSummary:
    """What was written, file by file."""

    files: tuple[LogFile, ...]

    @property
    def lines(self) -> int:
        return sum(file.lines for file in self.files)

    @property
    def size_bytes(self) -> int:
        """Before compression."""
        return sum(file.size_bytes for file in self.files)

    @property
    def lines_by_service(self) -> Mapping[str, int]:
        counted: Counter[str] = Counter()
        for file in self.files:
            counted[file.service] += file.lines
        return counted


def write_logs(root: Path, *, start: datetime, hours: int, lines: int, seed: int) -> LogSummary:
    """Write ``lines`` lines over ``hours`` hours from ``start`` on.

    The files are ``root/{%Y-%m-%d}/{%H}/{service}-{host}.log``, every other host's gzipped
    (``.log.gz``). A line's time lies in the hour of its folder, and a file was last changed at the
    end of that hour, so it has settled. Every line ends with a newline; a stack trace is several
    lines. The same arguments give the same bytes (gzipped ones: with the same zlib). Files of the
    same name are overwritten, others are left alone.

    Raises:
        ValueError: ``start`` is not a whole hour in UTC, or there are no hours, or fewer than no
        lines.
    """
    if start.utcoffset() != timedelta(0) or start != start.replace(
        minute=0, second=0, microsecond=0
    ):
        raise ValueError(f"start must be a whole hour in UTC, not {start.isoformat()}")
    if hours < 1 or lines < 0:
        raise ValueError(f"cannot write {lines} lines over {hours} hours")
    makers = {
        service.name: service.prepare(Random(f"{seed} {service.name}")) for service in SERVICES
    }
    return LogSummary(
        tuple(
            _write(root, hour, service, host, count, makers[service.name], seed)
            for hour, service, host, count in _shares(start.astimezone(UTC), hours, lines, seed)
        )
    )


def _shares(
    start: datetime, hours: int, lines: int, seed: int
) -> Iterator[tuple[datetime, Service, str, int]]:
    """Who writes how much in which hour: more by day than by night, no two hosts quite the same."""
    rng = Random(f"{seed} shares")
    slots, weights = [], []
    for hour in (start + timedelta(hours=number) for number in range(hours)):
        daylight = 1 - 0.7 * math.cos(math.tau * (hour.hour - 3) / 24)
        for service in SERVICES:
            for host in service.hosts:
                slots.append((hour, service, host))
                weights.append(
                    daylight * service.share / len(service.hosts) * rng.uniform(0.8, 1.2)
                )
    for slot, count in zip(slots, _apportion(lines, weights), strict=True):
        if count:
            yield (*slot, count)


def _apportion(total: int, weights: Sequence[float]) -> list[int]:
    """Whole numbers that are as the weights are and that add up to ``total``."""
    passed = list(itertools.accumulate(weights))
    edges = [0, *(round(total * weight / passed[-1]) for weight in passed)]
    return [after - before for before, after in itertools.pairwise(edges)]


def _write(
    root: Path, hour: datetime, service: Service, host: str, lines: int, maker: LineMaker, seed: int
) -> LogFile:
    rng = Random(f"{seed} {service.name} {host} {hour.isoformat()}")
    content = "".join(f"{line}\n" for line in maker(rng, host, hour, lines)).encode()
    gzipped = service.hosts.index(host) % 2 == 0
    folder = root / f"{hour:%Y-%m-%d}" / f"{hour:%H}"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{service.name}-{host}.log{'.gz' if gzipped else ''}"
    # No name and no time in gzip's header: they would differ from run to run.
    path.write_bytes(gzip.compress(content, _GZIP_LEVEL, mtime=0) if gzipped else content)
    settled = (hour + timedelta(hours=1)).timestamp()
    os.utime(path, (settled, settled))
    return LogFile(path, service.name, host, hour, lines, len(content))
