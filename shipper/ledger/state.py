"""What the ledger says of files: its records as they lie in the log, the latest of each key, and what those add up to. Pure.

Only the latest record of a key counts, whether compaction has removed the earlier ones yet or not. So it makes no difference
whether records come from the topic, from a snapshot that holds the latest of each key, or in part from either.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from shipper.ledger.chunks import Chunks
from shipper.ledger.control import Control
from shipper.ledger.records import Archive, Void, decode, subject
from shipper.terms import FileId, LogRecord


@dataclass
class FileRecords:
    """The latest chunk and void records. Feed each partition's in offset order; how the two are interleaved does not matter."""

    pipeline: str
    paths: Collection[str] | None = None
    """Only what is about these files; None: all. Give a set: it is asked once for every record."""
    by_path: dict[str, dict[bytes, LogRecord]] = field(default_factory=dict)
    """Path → key → latest record, tombstones included."""
    archive: LogRecord | None = None
    """The latest record that names the archive."""
    count: int = 0
    """Records fed, those of other files and pipelines included."""

    def feed(self, records: Iterable[LogRecord]) -> FileRecords:
        for record in records:
            self.count += 1
            about = subject(self.pipeline, record)
            if about is None:
                continue
            if about.kind == "archive":
                self.archive = None if record.value is None else record
            elif about.path and (self.paths is None or about.path in self.paths):
                self.by_path.setdefault(about.path, {})[record.key] = record
        return self

    def archived(self) -> Archive | None:
        entry = decode(self.pipeline, self.archive) if self.archive else None
        return entry[1] if entry and isinstance(entry[1], Archive) else None


@dataclass
class LedgerRecords:
    """All that was read of the ledger, not yet added up."""

    files: FileRecords
    """As the topic has them."""
    archived: list[LogRecord]
    """Of the same files, what was moved out of the topic."""
    control: Control
    control_end: int
    """Offset up to which the control partition was read."""
    chunks_end: int

    def by_path(self) -> Iterator[tuple[str, list[LogRecord]]]:
        """What counts of each file, in the order of the log. A record that is in the archive and in the topic as well, because it was
        shipped anew or because its tombstone is not written yet, counts as the topic has it."""
        archived: dict[str, list[LogRecord]] = {}
        for record in self.archived:
            if about := subject(self.files.pipeline, record):
                archived.setdefault(about.path, []).append(record)
        for path in sorted(self.files.by_path.keys() | archived.keys()):
            latest = {record.key: record for record in archived.get(path, ())}
            latest.update((key, r) for key, r in self.files.by_path.get(path, {}).items() if r.value is not None)
            yield path, sorted(latest.values(), key=lambda record: record.offset)


@dataclass
class LedgerState:
    """What is known of some files, and who may ship."""

    control: Control
    voids: dict[FileId, Void]
    """File → since when its earlier chunks do not count."""
    chunks: Chunks
    chunks_end: int
    """Offset up to which the chunk partition was read."""


def add_up(read: LedgerRecords) -> LedgerState:
    records = [record for _, of_path in read.by_path() for record in of_path]
    pipeline = read.files.pipeline
    voids = voids_in(pipeline, records)
    return LedgerState(read.control, voids, Chunks(pipeline, voids).feed(records), read.chunks_end)


def voids_in(pipeline: str, records: Iterable[LogRecord]) -> dict[FileId, Void]:
    found: dict[FileId, Void] = {}
    for record in records:
        about = subject(pipeline, record)
        match decode(pipeline, record) if about and about.kind == "void" else None:
            case (FileId() as file, Void() as void):
                found[file] = void
    return found
