"""What the ledger says of files: its records as they lie in the log, the latest of each key, and what those add up to. Pure.

Only the latest record of a key counts, whether compaction has removed the earlier ones yet or not. So it makes no difference
whether records come from the topic, from a snapshot that holds the latest of each key, or in part from either.

A split of n lines is complete when its end is known and the counts of its chunks add up to n. Which topic a record
goes to is decided by the transform, so an ordinal counts for the one topic that has it and is never missed by another. Dropped lines count
in chunks that have no topic.

What goes to quarantine is not decided by the transform alone: a topic's limit may be raised between two runs, a check made stricter. So
there the ledger has every ordinal: a chunk of a quarantine topic says which ones it has, and a chunk of the topic that they would have
gone to, that it does not have them (ADR 9).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from shipper.errors import LedgerDamaged
from shipper.ledger.codec import decode, peek_key
from shipper.ledger.control import Control
from shipper.ledger.intervals import Interval, decode_ordinals
from shipper.ledger.records import Archive, ChunkKey, ChunkValue, Decoded, Doubt, Void
from shipper.ledger.roots import Roots, moved
from shipper.types import FileId, LogRecord, PartitionOffset, SplitId


def covered(first: int, value: ChunkValue) -> list[Interval]:
    """Intervals in which every record of the chunk's topic is in that topic."""
    if value.ordinals is not None:
        return decode_ordinals(value.ordinals)
    found = []
    for gap in decode_ordinals(value.without or ""):
        found.append(Interval(first, gap.first))
        first = gap.end
    return [part for part in [*found, Interval(first, value.last)] if part.first < part.end]


class ChunkOfSplit(NamedTuple):
    """Which chunk of a split: what is left of :class:`ChunkKey` where the split is known."""

    first: int
    topic: str


@dataclass
class SplitState:
    """What the ledger holds of one split."""

    chunks: dict[ChunkOfSplit, ChunkValue] = field(default_factory=dict)
    end: int | None = None
    """Number of lines in the split, once known."""

    @property
    def lines(self) -> int:
        """Accounted for: on the cluster, or dropped."""
        return sum(chunk.records for chunk in self.chunks.values())

    @property
    def records(self) -> int:
        """On the cluster, in quarantine topics too."""
        return sum(chunk.records for of, chunk in self.chunks.items() if of.topic)

    @property
    def complete(self) -> bool:
        return self.end is not None and self.lines == self.end

    def intervals(self, topic: str) -> list[Interval]:
        """In which every record of ``topic`` is there."""
        return [part for of, chunk in self.chunks.items() if of.topic == topic for part in covered(of.first, chunk)]

    def partition(self, topic: str) -> int | None:
        """Where the latest of its records lie that all went to one partition of ``topic``."""
        known = {
            of.first: chunk.partition for of, chunk in self.chunks.items() if of.topic == topic and chunk.partition is not None
        }
        return known[max(known)] if known else None

    @property
    def quarantines(self) -> frozenset[str]:
        """Topics in which records of the split are in quarantine."""
        return frozenset(of.topic for of, chunk in self.chunks.items() if chunk.reasons is not None)


def complete_as_cut(states: Collection[SplitState], otherwise: int | None) -> bool:
    """Whether all of a file is there, by the splits that its ship cut it into: a pipeline's `split_size` and `ordering` may be others by now.
    ``otherwise``: into how many it was cut, if its chunks do not say so, as older ones do not; None: then nobody knows."""
    counts = {chunk.splits for state in states for chunk in state.chunks.values()} - {None} or {otherwise}
    return counts == {len(states)} and all(state.complete for state in states)


@dataclass
class Chunks:
    """What is on the cluster of some files. Feed records in offset order. ``voids`` hides chunks of files that are shipped anew."""

    pipeline: str
    voids: Mapping[FileId, Void] = field(default_factory=dict)
    splits: dict[SplitId, SplitState] = field(default_factory=dict)
    digests: dict[FileId, set[str]] = field(default_factory=dict)
    """File → transform digests under which any of its chunks was shipped."""
    sparks: dict[FileId, set[str]] = field(default_factory=dict)
    """File → Spark's minor versions under which any of its chunks was shipped; older chunks do not say."""
    etags: dict[FileId, set[str]] = field(default_factory=dict)
    """File → ETags that it had when any of its chunks was shipped; only an object store has one."""
    files_of_path: dict[str, set[FileId]] = field(default_factory=dict)
    doubts: dict[FileId, Doubt] = field(default_factory=dict)
    """Files of which other bytes were read than they have."""

    def feed(self, records: Iterable[LogRecord]) -> Chunks:
        for record in records:
            match decode(self.pipeline, record):
                case (ChunkKey() as key, ChunkValue() as value):
                    self.add(key, value)
        return self

    def add(self, key: ChunkKey, value: ChunkValue) -> None:
        file = key.split.file
        void = self.voids.get(file)
        if void is not None and value.generation < void.generation:
            return
        state = self.splits.setdefault(key.split, SplitState())
        state.chunks[ChunkOfSplit(key.first, key.topic)] = value
        if value.end:
            state.end = value.last
        self.digests.setdefault(file, set()).add(value.digest)
        if value.spark is not None:
            self.sparks.setdefault(file, set()).add(value.spark)
        if value.etag is not None:
            self.etags.setdefault(file, set()).add(value.etag)
        self.files_of_path.setdefault(file.path, set()).add(file)

    def void(self, voids: Mapping[FileId, Void]) -> None:
        """Forgets all that is known of these files: their chunks no longer count, but for those that later generations write."""
        self.voids = {**self.voids, **voids}
        for split in [split for split in self.splits if split.file in voids]:
            del self.splits[split]
        for file in voids:
            self.digests.pop(file, None)
            self.sparks.pop(file, None)
            self.etags.pop(file, None)
            self.doubts.pop(file, None)
            self.files_of_path.get(file.path, set()).discard(file)

    def overwritten(self, etags: Mapping[FileId, str]) -> set[FileId]:
        """Those that have another ETag than when a chunk of them was shipped: other bytes, as many of them and within the same moment."""
        return {file for file, etag in etags.items() if etag and self.etags.get(file, {etag}) - {etag}}

    def splits_of(self, files: Collection[FileId]) -> dict[FileId, list[SplitId]]:
        """The splits of each of them that are known, as they were cut then. One pass over all; ``files``: a set, or the keys of a dict."""
        found: dict[FileId, list[SplitId]] = {file: [] for file in files}
        for split in self.splits:
            if split.file in files:
                found[split.file].append(split)
        return found

    def records_by_topic(self, splits: Iterable[SplitId]) -> Counter[str]:
        """Records of these splits that are on the cluster, per topic."""
        found: Counter[str] = Counter()
        for split in splits:
            if state := self.splits.get(split):
                for of, chunk in state.chunks.items():
                    if chunk.records and of.topic:
                        found[of.topic] += chunk.records
        return found

    def records_of_run(self, run_id: str) -> int:
        """Records on the cluster that this run sent, in any of its attempts."""
        chunks = (chunk for state in self.splits.values() for of, chunk in state.chunks.items() if of.topic)
        return sum(chunk.records for chunk in chunks if chunk.run_id == run_id)


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
    passed_over: Container[PartitionOffset] = ()
    """Damaged records that are passed over."""
    other: str | None = None
    """Some path that was met and not asked for."""

    def feed(self, records: Iterable[LogRecord], partition: int | None = None) -> FileRecords:
        """``partition``: where they were read; None: records that were read before. Raises LedgerDamaged."""
        for record in records:
            self.count += 1
            try:
                about = peek_key(self.pipeline, record)
                if about is None:
                    continue
                if partition is not None and about.partition != partition:
                    if record.value is None:
                        continue
                    raise LedgerDamaged.at(
                        self.pipeline, partition, record.offset, f"a {about.kind} record does not belong there"
                    )
            except LedgerDamaged as damage:
                if partition is not None and PartitionOffset(partition, record.offset) in self.passed_over:
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


class DecodedRecord(NamedTuple):
    """A record that counts, and what it says."""

    record: LogRecord
    entry: Decoded


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

    def by_path(self) -> Iterator[list[DecodedRecord]]:
        """What counts of each file, by where it lies now, in the order of the log. A record that is in the archive and in the topic as well,
        because it was shipped anew or because its tombstone is not written yet, counts as the topic has it."""
        archived: dict[str, list[LogRecord]] = {}
        for record in self.archived:
            if about := peek_key(self.files.pipeline, record):
                archived.setdefault(about.path, []).append(record)
        known_as: dict[str, list[str]] = {}
        for path in sorted(self.files.by_path.keys() | archived.keys()):
            known_as.setdefault(self.names.get(path) or self.roots.now(path), []).append(path)
        for now, paths in known_as.items():
            found: list[DecodedRecord] = []
            for path in paths:
                latest = {record.key: record for record in archived.get(path, ())}
                latest.update((key, r) for key, r in self.files.by_path.get(path, {}).items() if r.value is not None)
                entries = ((record, decode(self.files.pipeline, record)) for record in latest.values())
                found += [
                    DecodedRecord(record, entry if path == now else moved(entry, now)) for record, entry in entries if entry
                ]
            yield sorted(found, key=lambda each: each.record.offset)


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
    for found in read.by_path():
        voids.update(voids_in(found))
        chunks.doubts.update(doubts_in(found))
        for _, entry in found:
            match entry:
                case (ChunkKey() as key, ChunkValue() as value):
                    chunks.add(key, value)
    return LedgerState(read.control, voids, chunks, read.chunks_end, read.files.other)


def voids_in(found: Iterable[DecodedRecord]) -> dict[FileId, Void]:
    """``found``: all that counts of one path."""
    voids: dict[FileId, Void] = {}
    for _, entry in found:
        match entry:
            case (FileId() as file, Void() as void):
                voids[file] = void
    return voids


def doubts_in(found: Iterable[DecodedRecord]) -> dict[FileId, Doubt]:
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
    return {file: doubt for found in read.by_path() for file, doubt in doubts_in(found).items()}
