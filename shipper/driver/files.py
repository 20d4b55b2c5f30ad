"""Files and the splits that Spark cuts them into. The same bytes give the same splits on any number
of cores, on any day."""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from shipper.config.units import format_duration
from shipper.ledger.records import spark_hash
from shipper.report.plan_result import PlannedFile
from shipper.types import FileId

# Suffixes of Hadoop's compression codecs that cannot be read from the middle. bzip2 can, so it is
# cut like plain text.
_UNSPLITTABLE = (".gz", ".zst", ".lz4", ".snappy", ".deflate")
UNFINISHED = ("._COPYING_", ".inprogress", ".tmp", ".part")


@dataclass(frozen=True)
class ListedFile:
    """One file, or other entry, as the listing found it. ``uri`` is the path as Spark's
    ``_metadata.file_path`` writes it (percent-encoded)."""

    id: FileId
    uri: str
    under: str = ""
    """The one of the folders or globs that were listed which it lies in."""
    open: bool = False
    """True if a process has it open for writing, as far as the file system knows: HDFS does."""
    etag: str = ""
    """ETag in an object store. It changes with the bytes, also within the same millisecond. Empty
    where there is none."""
    left: str = ""
    """Code of :data:`REASONS`, of an entry that no run takes. Empty: a file that may be taken."""
    count: int = 1
    """Entries that this one stands for: those of one folder with one reason."""
    more: tuple[str, ...] = ()
    """Paths of some of the others."""

    @property
    def name(self) -> str:
        return self.id.path.rsplit("/", 1)[-1]

    def planned(self, splits: int = 1, tick: str | None = None) -> PlannedFile:
        """Return the file as a plan has it."""
        facts = {**self.id._asdict(), "uri": self.uri, "etag": self.etag}
        return PlannedFile(**facts, splits=splits, tick=tick)


def split_starts(path: str, size_bytes: int, split_size_bytes: int) -> range:
    """Return the byte offsets at which Spark cuts the file; empty for an empty file, one for a
    compressed one."""
    if path.endswith(_UNSPLITTABLE):
        return range(min(size_bytes, 1))
    return range(0, size_bytes, split_size_bytes)


def split_hash(uri: str, file: FileId, start: int) -> int:
    """Return what Spark's ``xxhash64(file_path, file_size, file_modification_time,
    file_block_start)`` returns for a row of the split.

    Eight bytes per row tell the sink the split, where the path itself would double what is copied
    to Python. Timestamps are hashed as microseconds; each column's hash is the seed of the next.
    """
    value = spark_hash(uri.encode())
    for number in (file.size_bytes, file.modified_ms * 1000, start):
        value = spark_hash(struct.pack("<q", number), value)
    return value - (1 << 64) if value >= 1 << 63 else value


class Reason(NamedTuple):
    """Reason why an entry of a listed folder is not taken, as in docs/reference/left-out.md."""

    says: str
    warns: bool
    """True if lines may remain unshipped that no rule leaves out on purpose."""
    remedy: str


_LATER = "A later run takes it"
#: By code, which plans publish. jvm/shipper/lines/Entries.java finds all but the last six.
REASONS = {
    "hidden": Reason("its name begins with `_` or `.`", False, "Rename what should be shipped"),
    "hidden-folder": Reason(
        "a folder whose name begins with `_` or `.`",
        False,
        "Name the folder in `source.path` to ship what is in it",
    ),
    "folder": Reason(
        "a folder, and `source.recursive` is false",
        False,
        "Set `source.recursive: true` to ship what is in folders below",
    ),
    "link": Reason(
        "a symbolic link to a file that is listed under its own name",
        False,
        "Nothing is lost: links are not followed",
    ),
    "link-outside": Reason(
        "a symbolic link to another place, and links are not followed",
        True,
        "Name the target in `source.path`, or remove the link",
    ),
    "dangling-link": Reason(
        "a symbolic link that leads nowhere", True, "Restore its target, or remove the link"
    ),
    "special": Reason(
        "a pipe, a socket or a device, not a file", False, "Let the writer write a file"
    ),
    "undecodable-name": Reason(
        ("its name cannot be decoded in the locale of shipper's process, so Java cannot open it"),
        True,
        "Rename it in UTF-8, and use a UTF-8 locale",
    ),
    "unaddressable-key": Reason(
        "a key to which no path leads: it has `//`, `/./` or `/../`, begins with `/`, or ends in "
        "`/` and has bytes",
        True,
        "Copy the object to a key without them, and correct the writer",
    ),
    "not-a-folder": Reason(
        "a file of a name that `source.path` writes with `/` at its end, and so takes for a folder",
        True,
        "Move it into the folder, or remove it; to ship it, write the path without the last `/`",
    ),
    "archived": Reason(
        "an object in an archive (S3 Glacier), which cannot be read before it is restored",
        True,
        "Restore it, or leave it out by `source.include`",
    ),
    "unreadable-folder": Reason(
        "a folder that this user may not list", True, "Let shipper's user read the folder"
    ),
    "negative-size": Reason(
        "its file system gives it a size below 0",
        True,
        "Copy it to a file system that knows its size",
    ),
    "other-window": Reason("modified in another window", False, "The run of that window takes it"),
    "unwanted": Reason(
        "does not match `source.include`", False, "Correct `source.include` if it should be shipped"
    ),
    "unfinished": Reason(
        "still being written, by its name", True, f"{_LATER} when it has its final name"
    ),
    "open": Reason("open for writing, says HDFS", True, f"{_LATER} when it is closed"),
    "unsettled": Reason(
        "modified too recently",
        True,
        f"{_LATER}; if nobody writes to it any more, a shorter `source.settle` takes it now",
    ),
    "future": Reason(
        "modified in the future",
        True,
        f"{_LATER}, after that moment. Correct the clocks (NTP), or its modification time "
        "(`touch`)",
    ),
    "doubtful": Reason(
        "it may be a file that was shipped before, under another name, and this cannot be decided",
        True,
        "The reason says what to do if it is another file",
    ),
}


class NotTaken(NamedTuple):
    """A file that is left out, and why."""

    file: ListedFile
    reason: str
    code: str
    """One of :data:`REASONS`."""

    @property
    def warns(self) -> bool:
        return REASONS[self.code].warns

    @property
    def waits(self) -> bool:
        """True if a later run may take the file as it is."""
        return self.code in ("unfinished", "open", "unsettled", "future")


class Selection(NamedTuple):
    """Selection from a listing."""

    taken: list[ListedFile]
    """Files to be shipped, by path."""
    left_out: list[NotTaken]


def select(files: Iterable[ListedFile], *, settle_seconds: float, now: dt.datetime) -> Selection:
    """Split the entries of a listing into the files to be shipped, and the rest."""
    taken: list[ListedFile] = []
    left_out: list[NotTaken] = []
    now_ms = now.timestamp() * 1000
    for file in sorted(files, key=lambda f: f.id):
        code, reason = file.left, ""
        if not code and file.name.endswith(UNFINISHED):
            code = "unfinished"
        elif not code and file.open:
            code = "open"
        elif not code and file.id.modified_ms > now_ms:
            ahead = format_duration((file.id.modified_ms - now_ms) / 1000)
            at, code = f"{now:%Y-%m-%dT%H:%M:%SZ}", "future"
            reason = f"modified in the future, {ahead} after this machine's now ({at})"
        elif not code and file.id.modified_ms > now_ms - settle_seconds * 1000:
            code, before = "unsettled", f"{settle_seconds:g} s before the plan"
            reason = f"modified less than {before}: may still be written"
        if code:
            left_out.append(NotTaken(file, reason or REASONS[code].says, code))
        else:
            taken.append(file)
    return Selection(taken, left_out)
