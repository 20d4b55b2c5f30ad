"""Files and the splits that Spark cuts them into. The same bytes give the same splits on any number of cores, on any day."""

from __future__ import annotations

import datetime as dt
import fnmatch
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from shipper.ledger.records import spark_hash
from shipper.types import FileId

# Suffixes of Hadoop's compression codecs that cannot be read from the middle. bzip2 can, so it is cut like plain text.
_UNSPLITTABLE = (".gz", ".zst", ".lz4", ".snappy", ".deflate")
_UNFINISHED = ("._COPYING_", ".inprogress", ".tmp", ".part")


@dataclass(frozen=True)
class ListedFile:
    """One file as the listing found it. ``uri`` is the path as Spark's ``_metadata.file_path`` writes it (percent-encoded)."""

    id: FileId
    uri: str
    under: str = ""
    """The one of the folders or globs that were listed which it lies in."""
    open: bool = False
    """Whether somebody has it open for writing, as far as its file system knows such things: HDFS does."""
    etag: str = ""
    """Of an object store: changes with the bytes, also within the same millisecond. Empty where there is none."""

    @property
    def name(self) -> str:
        return self.id.path.rsplit("/", 1)[-1]


def split_starts(path: str, size_bytes: int, split_size_bytes: int) -> range:
    """Byte offsets at which Spark cuts the file; empty for an empty file, one for a compressed one."""
    if path.endswith(_UNSPLITTABLE):
        return range(min(size_bytes, 1))
    return range(0, size_bytes, split_size_bytes)


def split_hash(uri: str, file: FileId, start: int) -> int:
    """What Spark's ``xxhash64(file_path, file_size, file_modification_time, file_block_start)`` gives for a row of the split.

    Eight bytes per row tell the sink the split, where the path itself would double what is copied to Python. Timestamps are
    hashed as microseconds; each column's hash is the seed of the next.
    """
    value = spark_hash(uri.encode())
    for number in (file.size_bytes, file.modified_ms * 1000, start):
        value = spark_hash(struct.pack("<q", number), value)
    return value - (1 << 64) if value >= 1 << 63 else value


class NotTaken(NamedTuple):
    """A file that is left out, and why."""

    file: ListedFile
    reason: str
    state: Literal["unwanted", "unfinished", "open", "unsettled"]
    """Nobody wants it; it is being written, by its name; it is, by what the file system knows; it may be, by its age."""


class Selection(NamedTuple):
    """What is made of a listing."""

    taken: list[ListedFile]
    """To be shipped, by path."""
    left_out: list[NotTaken]


def select(files: Iterable[ListedFile], *, include: str, settle_seconds: float, now: dt.datetime) -> Selection:
    """Which files are to be shipped. Hidden files never get this far: Spark's listing skips them."""
    taken: list[ListedFile] = []
    left_out: list[NotTaken] = []
    youngest_ms = (now.timestamp() - settle_seconds) * 1000
    for file in sorted(files, key=lambda f: f.id):
        if file.name.endswith(_UNFINISHED):
            left_out.append(NotTaken(file, "still being written, by its name", state="unfinished"))
        elif not fnmatch.fnmatchcase(file.name, include):
            left_out.append(NotTaken(file, f"does not match include {include!r}", state="unwanted"))
        elif file.open:
            left_out.append(NotTaken(file, "open for writing, says HDFS", state="open"))
        elif file.id.modified_ms > youngest_ms:
            reason = f"modified less than {settle_seconds:g} s before the plan: may still be written"
            left_out.append(NotTaken(file, reason, state="unsettled"))
        else:
            taken.append(file)
    return Selection(taken, left_out)
