"""What the ledger says of files: its records as they lie in the log, the latest of each key, and what those add up to. Pure.

Only the latest record of a key counts, whether compaction has removed the earlier ones yet or not. So it makes no difference
whether records come from the topic, from a snapshot that holds the latest of each key, or in part from either.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from shipper.errors import LedgerDamaged
from shipper.ledger.chunks import Chunks
from shipper.ledger.control import Control
from shipper.ledger.records import Archive, ChunkKey, ChunkValue, Doubt, Entry, Void, decode, subject
from shipper.ledger.roots import Roots, moved
from shipper.types import FileId, LogRecord


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
    dropped: Container[tuple[int, int]] = ()
    """(partition, offset) of damaged records that are passed over."""
    other: str | None = None
    """Some path that was met and not asked for."""

    def feed(self, records: Iterable[LogRecord], partition: int | None = None) -> FileRecords:
        """``partition``: where they were read; None: records that were read before. Raises LedgerDamaged."""
        for record in records:
            self.count += 1
            try:
                about = subject(self.pipeline, record)
                if about is None:
                    continue
                if partition is not None and about.partition != partition:
                    if record.value is None:
                        continue
                    raise LedgerDamaged.at(
                        self.pipeline, partition, record.offset, f"a {about.kind} record does not belong there"
                    )
            except LedgerDamaged as damage:
                if (partition, record.offset) in self.dropped:
                    continue
                raise LedgerDamaged.at(self.pipeline, partition, record.offset, damage.why) from damage
            if about.kind == "archive":
                self.archive = None if record.value is None else record
            elif about.path and (self.paths is None or about.path in self.paths):
                self.by_path.setdefault(about.path, {})[record.key] = record
            else:
                self.other = about.path or self.other
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
    roots: Roots = field(default_factory=Roots)
    names: Mapping[str, str] = field(default_factory=dict)
    """Path in a record → where the file lies now; what is not in it, ``roots`` say."""

    def by_path(self) -> Iterator[tuple[str, list[tuple[LogRecord, Entry]]]]:
        """What counts of each file, by where it lies now, in the order of the log. A record that is in the archive and in the topic as well,
        because it was shipped anew or because its tombstone is not written yet, counts as the topic has it."""
        archived: dict[str, list[LogRecord]] = {}
        for record in self.archived:
            if about := subject(self.files.pipeline, record):
                archived.setdefault(about.path, []).append(record)
        known_as: dict[str, list[str]] = {}
        for path in sorted(self.files.by_path.keys() | archived.keys()):
            known_as.setdefault(self.names.get(path) or self.roots.now(path), []).append(path)
        for now, paths in known_as.items():
            found: list[tuple[LogRecord, Entry]] = []
            for path in paths:
                latest = {record.key: record for record in archived.get(path, ())}
                latest.update((key, r) for key, r in self.files.by_path.get(path, {}).items() if r.value is not None)
                entries = ((record, decode(self.files.pipeline, record)) for record in latest.values())
                found += [(record, entry if path == now else moved(entry, now)) for record, entry in entries if entry]
            yield now, sorted(found, key=_offset)


def _offset(found: tuple[LogRecord, Entry]) -> int:
    return found[0].offset


@dataclass
class LedgerState:
    """What is known of some files, and who may ship."""

    control: Control
    voids: dict[FileId, Void]
    """File → since when its earlier chunks do not count."""
    chunks: Chunks
    chunks_end: int
    """Offset up to which the chunk partition was read."""
    other: str | None = None
    """Some file's path that was met, and is not known to be one of these."""


def add_up(read: LedgerRecords) -> LedgerState:
    voids: dict[FileId, Void] = {}
    chunks = Chunks(read.files.pipeline, voids)
    for _, found in read.by_path():
        voids.update(voids_in(found))
        chunks.doubts.update(doubts_in(found))
        for _, entry in found:
            match entry:
                case (ChunkKey() as key, ChunkValue() as value):
                    chunks.add(key, value)
    return LedgerState(read.control, voids, chunks, read.chunks_end, read.files.other)


def voids_in(found: Iterable[tuple[LogRecord, Entry]]) -> dict[FileId, Void]:
    """``found``: all that counts of one path."""
    voids: dict[FileId, Void] = {}
    for _, entry in found:
        match entry:
            case (FileId() as file, Void() as void):
                voids[file] = void
    return voids


def doubts_in(found: Iterable[tuple[LogRecord, Entry]]) -> dict[FileId, Doubt]:
    """``found``: all that counts of one path. Those that still stand."""
    found = list(found)
    voids = voids_in(found)
    doubts: dict[FileId, Doubt] = {}
    for _, entry in found:
        match entry:
            case (FileId() as file, Doubt() as doubt):
                void = voids.get(file)
                if doubt.trusted:  # maybe under the path of before the file was moved
                    doubts.pop(file, None)
                elif void is None or void.generation <= doubt.generation:
                    doubts[file] = doubt
    return doubts


def all_doubts(read: LedgerRecords) -> dict[FileId, Doubt]:
    """Those that stand, of all files that were read."""
    return {file: doubt for _, found in read.by_path() for file, doubt in doubts_in(found).items()}
