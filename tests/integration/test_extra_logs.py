"""Whatever files lie in SHIPPER_EXTRA_LOGS, a folder of logs made by others: each is shipped line
by line, or refused by name."""

from __future__ import annotations

import bz2
import gzip
import os
import zlib
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from shipper_tools.dev.console_consumer import read_records

from shipper.report.results import RunReport

from .world import WINDOW, World, lines_of

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

FOLDER = os.environ.get("SHIPPER_EXTRA_LOGS")
MAX_LINE = 900_000
#: How a file begins → the suffix under which it is what it says. All else is text, unless another
#: suffix says that it is not.
PACKED = {
    b"\x1f\x8b": ".gz",
    b"BZh": ".bz2",
    b"\x28\xb5\x2f\xfd": ".zst",
    b"\x04\x22\x4d\x18": ".lz4",
}
PACKED[b"\x50\x2a\x4d\x18"] = ".zst"  # a frame to be skipped, with which pzstd begins
#: Read by shipper, and by no other library that is here.
ALONE = (".snappy", ".sz")
ELSE = (*ALONE, ".deflate", ".xz", ".lzma", ".br", ".lzo", ".z", ".zip", ".7z", ".lz")


def is_log(path: Path, root: Path) -> bool:
    """As the guide says: hidden files and folders, and what is being written, never count."""
    hidden = any(
        part.startswith((".", "_")) and not (part.startswith("_") and "=" in part)
        for part in path.relative_to(root).parts
    )
    return (
        path.is_file()
        and not hidden
        and not path.name.endswith(("._COPYING_", ".inprogress", ".tmp", ".part"))
    )


def content_of(path: Path) -> bytes | None:
    """Unpacked by other libraries than shipper's; None for what cannot be unpacked, or has a name
    that contradicts it."""
    stored = path.read_bytes()
    suffix = next((suffix for magic, suffix in PACKED.items() if stored.startswith(magic)), "")
    named = next((end for end in (*PACKED.values(), *ELSE) if path.name.lower().endswith(end)), "")
    if named in ELSE or (named and not suffix and stored):
        return None
    try:
        match suffix:
            case ".gz":
                return gzip.decompress(stored)
            case ".bz2":
                return bz2.decompress(stored)
            case ".zst" | ".lz4":
                codec = {".zst": "zstd", ".lz4": "lz4"}[suffix]
                with pa.CompressedInputStream(pa.BufferReader(stored), codec) as unpacked:
                    return bytes(unpacked.read())
    except (OSError, EOFError, zlib.error, pa.ArrowException):
        return None
    return stored


def is_exact(world: World, folder: Path) -> tuple[int, list[str]]:
    """Ships the folder and compares each file. Returns the number of lines that are there, and the
    names of files that were refused."""
    world.write_pipeline(
        source={"path": str(folder), "settle": "0s", "recursive": True},
        records={"max_line": f"{MAX_LINE}B", "headers": {"file": "file_path"}},
        quarantine={"topic": world.topic(".q"), "max_rate": 1.0},
    )
    done = world.shipper("run", world.name, "--window", WINDOW, "--json")
    report = RunReport.model_validate_json(done.stdout)
    (ship,) = report.ships
    shipped: dict[str, Counter[bytes]] = {}
    too_long: Counter[str] = Counter()
    for record in read_records(world.bootstrap, world.topic()):
        shipped.setdefault((dict(record.headers)["file"] or b"").decode(), Counter())[
            record.value or b""
        ] += 1
    for record in read_records(world.bootstrap, world.topic(".q")):
        too_long[(dict(record.headers)["shipper-file"] or b"").decode().removeprefix("file:")] += 1
    assert report.plan is not None
    problems = " ".join(
        [
            ship.error or "",
            *(f"{file.path}: {file.problem}" for file in report.plan.files if file.problem),
        ]
    )
    uris = {file.path.removeprefix("file:"): file.uri for file in report.plan.files}
    assert sorted(uris) == sorted(str(path) for path in folder.rglob("*") if is_log(path, folder))
    refused = []
    for path, uri in uris.items():
        content = content_of(Path(path))
        if content is None:
            if path in problems:
                refused.append(path)
            else:
                assert path.endswith(ALONE), f"{path} was neither shipped nor refused"
                assert shipped.get(uri), path
            continue
        lines = lines_of(content)
        long = Counter({line: count for line, count in lines.items() if len(line) > MAX_LINE})
        assert shipped.get(uri, Counter()) == lines - long, f"{path} was not shipped line by line"
        assert too_long[path] == sum(long.values()), path
    assert done.returncode == (1 if refused else 0), done.stderr[-4000:]
    return sum(sum(lines.values()) for lines in shipped.values()), refused


@pytest.fixture
def world(tmp_path, kafka):
    return World(tmp_path, kafka.bootstrap, topics={"": 3, ".q": 1})


@pytest.mark.timeout(7200)
@pytest.mark.skipif(not FOLDER, reason="SHIPPER_EXTRA_LOGS names no folder")
def test_files_made_by_others_are_shipped_line_by_line_or_refused_by_name(world):
    count, refused = is_exact(world, Path(FOLDER or "").absolute())
    print(f"{count:,} lines; refused: {', '.join(refused) or 'none'}")
