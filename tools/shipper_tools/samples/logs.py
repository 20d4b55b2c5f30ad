"""An hour of realistic log files, the same for the same seed."""

from __future__ import annotations

import gzip
import itertools
import os
from datetime import datetime, timedelta
from pathlib import Path
from random import Random

from shipper.whole_files import write_whole
from shipper_tools.samples.services import SERVICES

#: Fast rather than small: a demo should not spend its time on compression.
_GZIP_LEVEL = 3


def write_logs(root: Path, *, hour: datetime, lines: int, seed: int) -> list[Path]:
    """Write ``lines`` lines of an hour, a whole one in UTC, and return the files.

    The files are ``root/{%Y-%m-%d}/{%H}/{service}-{host}.log``, every other host's gzipped
    (``.log.gz``), no two of the same length. They were last changed at the end of the hour, so they
    have settled. A stack trace is several lines. The same arguments give the same bytes (gzipped
    ones: with the same zlib).
    """
    folder = root / f"{hour:%Y-%m-%d}" / f"{hour:%H}"
    folder.mkdir(parents=True, exist_ok=True)
    rng = Random(f"{seed} shares")
    writers = [(service, host) for service in SERVICES for host in service.hosts]
    weights = [service.share / len(service.hosts) * rng.uniform(0.8, 1.2) for service, _ in writers]
    passed = list(itertools.accumulate(weights))
    edges = [0, *(round(lines * weight / passed[-1]) for weight in passed)]
    makers = {
        service.name: service.prepare(Random(f"{seed} {service.name}")) for service in SERVICES
    }
    settled = (hour + timedelta(hours=1)).timestamp()
    files = []
    for (service, host), (before, after) in zip(writers, itertools.pairwise(edges), strict=True):
        own = Random(f"{seed} {service.name} {host}")
        written = makers[service.name](own, host, hour, after - before)
        content = "".join(f"{line}\n" for line in written).encode()
        gzipped = service.hosts.index(host) % 2 == 0
        path = folder / f"{service.name}-{host}.log{'.gz' if gzipped else ''}"
        # No name and no time in gzip's header: they would differ from run to run.
        packed = gzip.compress(content, _GZIP_LEVEL, mtime=0) if gzipped else content
        write_whole(str(path), packed)
        os.utime(path, (settled, settled))
        files.append(path)
    return files
