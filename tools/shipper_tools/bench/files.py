"""Log files that measurements from files read, and the pipelines that ship them."""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

from shipper.whole_files import write_whole
from shipper_tools.bench.results import Case
from shipper_tools.samples.services import SERVICES

#: One service per file, as in life. With these the average line has 139 bytes; the demo's own mix
#: has 190.
_SERVICES_OF_FILES = (
    "payments",
    "web",
    "payments",
    "system",
    "payments",
    "web",
    "payments",
    "search",
)
FILES = len(_SERVICES_OF_FILES)
_HOUR = datetime(2026, 11, 1, 6, tzinfo=UTC)
_LINES_AT_A_TIME = 50_000
_SEED = 4


class Files:
    """Log files by their number of lines, and windows that hold them: each measurement is an hour
    of its own, with files of its own (hard links), as an hourly run would have."""

    def __init__(self, folder: Path) -> None:
        self.config = folder / "config"
        self.pipelines: list[str] = []
        self.size_bytes: dict[tuple[int, int], int] = {}
        """Numbers of lines and of files → bytes of the files without line ends."""
        self._folder = folder
        self._windows = 0

    def folder(self, lines: int, files: int = FILES) -> Path:
        """Return the folder with ``lines`` lines in so many files."""
        path = self._folder / f"lines-{lines}-{files}"
        if (lines, files) not in self.size_bytes:
            self.size_bytes[lines, files] = _write_log_files(path, lines, files)
        return path

    def some_lines(self, path: Path, lines: int) -> Path:
        """Write some of the lines into one file, and return it."""
        with path.open("wb") as out:
            for one in sorted(self.folder(lines).iterdir()):
                with one.open("rb") as file:
                    out.writelines(itertools.islice(file, _LINES_AT_A_TIME))
        return path

    def window(self, lines: int, files: int = FILES) -> str:
        """Return a new window, START/END, that holds them."""
        self._windows += 1
        day, hour = divmod(self._windows, 24)
        window = self._folder / "windows" / f"202601{day + 1:02d}{hour:02d}"
        window.mkdir(parents=True)
        for path in sorted(self.folder(lines, files).iterdir()):
            os.link(path, window / path.name)
        start = f"2026-01-{day + 1:02d}T{hour:02d}:00"
        return f"{start}/{start[:-2]}59"

    def write_pipeline(
        self,
        bootstrap: str,
        case: Case,
        topic: str,
        cores: int | None = None,
    ) -> str:
        """Write a pipeline with a cluster of its own, and return its name. ``cores``: its
        tasks at a time."""
        name = f"p{len(self.pipelines)}"
        self._write(
            "clusters",
            name,
            {"cluster": name, "bootstrap": bootstrap, "ledger": {"replication_factor": 1}},
        )
        given = {
            "pipeline": name,
            "source": {
                "path": str(self._folder / "windows" / "{window_start:%Y%m%d%H}"),
                "settle": "0s",
            },
            "topic": topic,
            "clusters": [name],
            "delivery": {"compression": case.compression},
            "runner": {"cores": cores} if cores else {},
            "runs_uri": str(self._folder / "runs"),
        }
        self._write("pipelines", name, given)
        self.pipelines.append(name)
        return name

    def _write(self, kind: str, name: str, document: dict[str, Any]) -> None:
        # JSON is YAML
        write_whole(f"{self.config}/{kind}/{name}.yaml", json.dumps(document, indent=1))


def _log_lines(file: int, count: int) -> Iterator[bytes]:
    """Yield the lines of one of the first :data:`FILES` files, and of those that go on with it, in
    the order of their times within each portion; the same for the same arguments."""
    name = _SERVICES_OF_FILES[file]
    service = next(service for service in SERVICES if service.name == name)
    maker = service.prepare(Random(f"{_SEED} {name}"))
    rng = Random(f"{_SEED} {name} {file}")
    for begun in range(0, count, _LINES_AT_A_TIME):
        portion = maker(
            rng,
            service.hosts[file % len(service.hosts)],
            _HOUR,
            min(_LINES_AT_A_TIME, count - begun),
        )
        yield from (line.encode() for line in portion)


def _write_log_files(folder: Path, lines: int, files: int) -> int:
    """Write ``lines`` lines into files that settled long ago; return their bytes without line
    ends."""
    folder.mkdir(parents=True)
    size, counts = 0, [lines // files + (file < lines % files) for file in range(files)]
    streams = [_log_lines(file, sum(counts[file::FILES])) for file in range(FILES)]
    for file, count in enumerate(counts):
        path = folder / f"{file}-{_SERVICES_OF_FILES[file % FILES]}.log"
        stream = itertools.islice(streams[file % FILES], count)
        with path.open("wb") as out:
            while portion := list(itertools.islice(stream, _LINES_AT_A_TIME)):
                text = b"\n".join(portion) + b"\n"
                out.write(text)
                size += len(text) - len(portion)
        os.utime(path, (time.time() - 3600, time.time() - 3600))
    return size
