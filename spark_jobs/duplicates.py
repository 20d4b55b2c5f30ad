"""Files of a window with the same content."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import closing
from typing import Any

from shipper import runtime
from shipper.errors import SourceError
from shipper.report.plan_result import PlannedFile
from spark_jobs.hadoop import Hadoop
from spark_jobs.listing import open_file
from spark_jobs.reason import first_line

_END_BYTES = 4096
_OPEN_AT_ONCE = 16


def duplicates(hadoop: Hadoop, files: Sequence[PlannedFile]) -> list[list[str]]:
    """Return groups of paths with the same bytes, as stored; the paths of a group, and the groups,
    in order. Raises SourceError.

    Costs nothing where all sizes differ. Files of equal size cost one open each; those whose first
    and last 4 kB agree as well (a gzip file's last bytes are its checksum and its length) are read
    whole, in the JVM.
    """
    sizes = {file.path: file.size_bytes for file in files if file.size_bytes}
    with runtime.ThreadPoolExecutor(_OPEN_AT_ONCE) as pool:
        same = _split([list(sizes)], lambda paths: [sizes[path] for path in paths])
        same = _split(
            same, lambda paths: list(pool.map(lambda path: _ends(hadoop, path, sizes[path]), paths))
        )
        same = _split(same, lambda paths: list(pool.map(lambda path: _md5(hadoop, path), paths)))
    return sorted(sorted(group) for group in same)


def _split(
    groups: Iterable[list[str]], keys: Callable[[list[str]], Sequence[Hashable]]
) -> list[list[str]]:
    """Split each group into those with the same key, and leave out groups of one."""
    found = []
    for group in groups:
        by_key: dict[Hashable, list[str]] = defaultdict(list)
        for path, key in zip(group, keys(group), strict=True):
            by_key[key].append(path)
        found += [paths for paths in by_key.values() if len(paths) > 1]
    return found


def _ends(hadoop: Hadoop, path: str, size: int) -> bytes:
    def read(stream: Any) -> bytes:
        digest = hashlib.md5(bytes(stream.readNBytes(_END_BYTES)), usedforsecurity=False)
        stream.seek(max(0, size - _END_BYTES))
        digest.update(bytes(stream.readNBytes(_END_BYTES)))
        return digest.digest()

    return bytes(_opened(hadoop, path, read))


def _md5(hadoop: Hadoop, path: str) -> str:
    md5 = hadoop.jvm.org.apache.hadoop.io.MD5Hash
    return str(_opened(hadoop, path, lambda stream: md5.digest(stream).toString()))


def _opened(hadoop: Hadoop, path: str, read: Callable[[Any], Any]) -> Any:
    try:
        with closing(open_file(hadoop, path)) as stream:
            return read(stream)
    except Exception as error:
        raise SourceError(
            f"{path} cannot be compared with the other files: it is gone or not readable "
            f"({first_line(error)}). Nothing was sent. Run the window again.",
            code="SHIP-302",
        ) from error
