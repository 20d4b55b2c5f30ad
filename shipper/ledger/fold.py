"""The fold of the ledger's chunks: the latest record of each key, and what these add up to for each
file. Pure.

Only the latest record of a key counts, whether compaction has removed the earlier ones yet or not.
So it makes no difference whether records come from the topic, from a snapshot that holds the latest
of each key, or in part from either.

A split of n lines is complete if its end is known and the counts of its chunks add up to n. A file
is complete if all its splits are, and if the bytes that they account for are the file's:
:func:`standing_of` is the only place that says so. Which topic a record goes to is decided by the
transform, so an ordinal counts for the one topic that has it and is never missed by another.
Dropped lines count in chunks that have no topic.

What goes to quarantine is not decided by the transform alone: a topic's limit may be raised between
two runs, a check made stricter. So there the ledger has every ordinal: a chunk of a quarantine
topic says which ones it has, and a chunk of the topic that they would have gone to, that it does
not have them (ADR 9).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Literal, NamedTuple

from shipper.errors import LedgerDamaged
from shipper.ledger.codec import Damage, DecodedRecord, decode, peek_key
from shipper.ledger.control import Control
from shipper.ledger.intervals import Interval, decode_ordinals
from shipper.ledger.records import (
    Archive,
    ChunkKey,
    ChunkValue,
    Invalidation,
    InvalidationKey,
    MovedKey,
    MovedValue,
)
from shipper.ledger.roots import Roots, moved
from shipper.types import FileId, LogRecord, PartitionOffset, SplitId


def covered(first: int, value: ChunkValue) -> list[Interval]:
    """Return the intervals in which every record of the chunk's topic is in that topic."""
    if value.ordinals is not None:
        return decode_ordinals(value.ordinals)
    found = []
    for gap in decode_ordinals(value.without or ""):
        found.append(Interval(first, gap.first))
        first = gap.end
    return [part for part in [*found, Interval(first, value.last)] if part.first < part.end]


class ChunkOfSplit(NamedTuple):
    """Chunk of a split: what is left of :class:`ChunkKey` when the split is known."""

    first: int
    topic: str


class PartOfSplit(NamedTuple):
    """Chunk of a split, or its delivered records under a former name of the file."""

    of: ChunkOfSplit
    value: ChunkValue


@dataclass
class SplitState:
    """Ledger's state of one split."""

    chunks: dict[ChunkOfSplit, ChunkValue] = field(default_factory=dict)
    moved: dict[ChunkOfSplit, MovedValue] = field(default_factory=dict)
    """Records that were delivered under a former name of the file. Sums over topics leave it out:
    there it counts as the former file's."""
    end: int | None = None
    """Number of lines in the split, once known."""
    read: int | None = None
    """Bytes of the file that the split accounts for; None: not known yet, or uncountable."""

    def parts(self) -> Iterator[PartOfSplit]:
        """Yield all that was delivered of the split, under whatever name of the file."""
        return map(PartOfSplit._make, chain(self.chunks.items(), self.moved.items()))

    @property
    def lines(self) -> int:
        """Accounted for: on the cluster, or dropped."""
        return sum(part.records for part in chain(self.chunks.values(), self.moved.values()))

    @property
    def topics(self) -> set[str]:
        """Topics that have records of the split; the empty one if lines were dropped, or the
        split's end is known."""
        return {of.topic for of, _ in self.parts()}

    @property
    def records(self) -> int:
        """Records on the cluster, in quarantine topics too."""
        return sum(part.records for of, part in self.parts() if of.topic)

    @property
    def complete(self) -> bool:
        return self.end is not None and self.lines == self.end

    def intervals(self, topic: str) -> list[Interval]:
        """Return the intervals in which every record of ``topic`` is on the cluster."""
        return [
            run for of, part in self.parts() if of.topic == topic for run in covered(of.first, part)
        ]

    def partition(self, topic: str) -> int | None:
        """Return the partition of the split's latest records in ``topic``, of those that went to
        one partition."""
        known = {
            of.first: part.partition
            for of, part in self.parts()
            if of.topic == topic and part.partition is not None
        }
        return known[max(known)] if known else None

    @property
    def quarantines(self) -> frozenset[str]:
        """Topics in which records of the split are in quarantine."""
        return frozenset(of.topic for of, part in self.parts() if part.reasons is not None)

    @property
    def reasons(self) -> frozenset[str]:
        """Reasons why records of the split are in quarantine."""
        return frozenset(reason for chunk in self.chunks.values() for reason in chunk.reasons or ())

    @property
    def swallowed(self) -> int:
        """Return how many more records its records in quarantine may be."""
        return sum(part.swallowed or 0 for _, part in self.parts())


FileStanding = Literal["complete", "misread", "partial"]
"""Standing of a file. ``misread``: every record that the tasks saw is delivered, but they saw other
bytes than the file has."""


def standing_of(file: FileId, states: Sequence[SplitState | None], splits: int) -> FileStanding:
    """Return how much of a file is delivered. ``states``: of its splits, in any order; ``splits``:
    the number of splits into which its ship cut it."""
    if len(states) != splits or not all(state is not None and state.complete for state in states):
        return "partial"
    return (
        "complete"
        if bytes_fit(file.size_bytes, [state.read for state in states if state])
        else "misread"
    )


def bytes_fit(size_bytes: int, reads: Sequence[int | None]) -> bool:
    """Return True if the bytes that a file's splits account for are the file's, or if the bytes of
    one split are unknown.

    A line is counted with its end, and the end of the last line may be missing: so the sum may be
    one more than the size.
    """
    known = [read for read in reads if read is not None]
    return len(known) < len(reads) or sum(known) in (size_bytes, size_bytes + 1)


def standing_as_cut(file: FileId, states: Sequence[SplitState]) -> FileStanding:
    """Return what :func:`standing_of` returns, by the splits into which the file's ship cut it: a
    pipeline's `split_size` and `ordering` may have changed since."""
    counts = {part.splits for state in states for _, part in state.parts()}
    return standing_of(file, states, counts.pop()) if len(counts) == 1 else "partial"


class SentToTopic(NamedTuple):
    """Figures of what a run sent to a topic, by the ledger."""

    records: int
    bytes: int
    """Bytes of values and keys, uncompressed."""


class Invalidated(NamedTuple):
    """Chunks of a file below ``generation`` do not count."""

    generation: int
    asked_by: frozenset[str]
    """Ids of all reships of the file."""


def is_invalidated(
    key: ChunkKey | MovedKey, value: ChunkValue, invalidated: Mapping[FileId, Invalidated]
) -> bool:
    """Return True if the chunk does not count any more, since its file was re-shipped."""
    over = invalidated.get(key.split.file)
    return over is not None and value.generation < over.generation


@dataclass
class Chunks:
    """Chunks of some files on the cluster. Feed records in offset order. ``invalidated`` hides
    chunks of files that are re-shipped."""

    pipeline: str
    invalidated: Mapping[FileId, Invalidated] = field(default_factory=dict)
    splits: dict[SplitId, SplitState] = field(default_factory=dict)
    digests: dict[FileId, set[str]] = field(default_factory=dict)
    """File → transform digests under which any of its chunks was shipped."""
    sparks: dict[FileId, set[str]] = field(default_factory=dict)
    """File → Spark's minor versions under which any of its chunks was shipped."""
    etags: dict[FileId, set[str]] = field(default_factory=dict)
    """File → ETags that it had when any of its chunks was shipped; only an object store has one."""
    files_of_path: dict[str, set[FileId]] = field(default_factory=dict)
    committed_ms: dict[FileId, int] = field(default_factory=dict)
    """File → time of its last commit, by the broker's clock, in milliseconds since the epoch.
    Records that were delivered under a former name of the file count there."""

    def feed(self, records: Iterable[LogRecord]) -> Chunks:
        """Fold records in. Raises LedgerDamaged."""
        for record in records:
            match decode(self.pipeline, record):
                case (ChunkKey() | MovedKey() as key, ChunkValue() as value):
                    self.add(key, value, record.timestamp_ms)
        return self

    def add(self, key: ChunkKey | MovedKey, value: ChunkValue, at_ms: int | None = None) -> None:
        """Add one record. ``at_ms``: the broker's time of the record; None: not known."""
        file = key.split.file
        if is_invalidated(key, value, self.invalidated):
            return
        state = self.splits.setdefault(key.split, SplitState())
        if isinstance(value, MovedValue):
            state.moved[ChunkOfSplit(key.first, key.topic)] = value
        else:
            state.chunks[ChunkOfSplit(key.first, key.topic)] = value
            if at_ms is not None:
                self.committed_ms[file] = max(at_ms, self.committed_ms.get(file, at_ms))
        if value.end:
            state.end, state.read = value.last, value.read
        self.digests.setdefault(file, set()).add(value.digest)
        if value.spark is not None:
            self.sparks.setdefault(file, set()).add(value.spark)
        if value.etag is not None:
            self.etags.setdefault(file, set()).add(value.etag)
        self.files_of_path.setdefault(file.path, set()).add(file)

    def invalidate(self, files: Mapping[FileId, Invalidated]) -> None:
        """Forget all that is known of these files: their chunks no longer count, except those that
        later generations write."""
        self.invalidated = {**self.invalidated, **files}
        for split in [split for split in self.splits if split.file in files]:
            del self.splits[split]
        known: tuple[dict[FileId, Any], ...] = (self.digests, self.sparks, self.etags)
        for file in files:
            for each in (*known, self.committed_ms):
                each.pop(file, None)
            self.files_of_path.get(file.path, set()).discard(file)

    def run_of(self, file: FileId) -> str:
        """Return the run that shipped the end of the file's first split."""
        chunks = [
            part
            for split, state in self.splits.items()
            if split.file == file
            for _, part in state.parts()
        ]
        return max(chunks, key=lambda chunk: (chunk.end, chunk.generation)).run_id

    def overwritten(self, etags: Mapping[FileId, str]) -> set[FileId]:
        """Return the files that have another ETag than when a chunk of them was shipped: other
        bytes, of the same size and within the same moment."""
        return {
            file for file, etag in etags.items() if etag and self.etags.get(file, {etag}) - {etag}
        }

    def splits_of(self, files: Collection[FileId]) -> dict[FileId, list[SplitId]]:
        """Return the known splits of each file, as they were cut when they were shipped. One pass
        over all; ``files``: a set, or the keys of a dict."""
        found: dict[FileId, list[SplitId]] = {file: [] for file in files}
        for split in self.splits:
            if split.file in files:
                found[split.file].append(split)
        return found

    def records_by_topic(self, splits: Iterable[SplitId]) -> Counter[str]:
        """Return topic → number of records of these splits on the cluster."""
        found: Counter[str] = Counter()
        for split in splits:
            if state := self.splits.get(split):
                for of, part in state.parts():
                    if part.records and of.topic:
                        found[of.topic] += part.records
        return found

    def sent_by(self, run_id: str) -> dict[str, SentToTopic]:
        """Return topic → records that this run sent there, in any of its attempts."""
        found: dict[str, SentToTopic] = {}
        for state in self.splits.values():
            for of, chunk in state.chunks.items():
                if of.topic and chunk.run_id == run_id and chunk.records:
                    before = found.get(of.topic, SentToTopic(0, 0))
                    found[of.topic] = SentToTopic(
                        before.records + chunk.records, before.bytes + chunk.bytes
                    )
        return found


@dataclass
class FileRecords:
    """The latest chunk and invalidation records. Feed each partition's in offset order; how the two
    are interleaved does not matter."""

    pipeline: str
    paths: Collection[str] | None = None
    """Paths of the wanted records; None: all. Give a set: it is asked once for every record."""
    by_path: dict[str, dict[bytes, LogRecord]] = field(default_factory=dict)
    """Path → key → latest record, tombstones included."""
    archive: LogRecord | None = None
    """The latest record that names the archive."""
    count: int = 0
    """Records fed, those of other files and pipelines included."""
    damaged: dict[bytes, Damage] = field(default_factory=dict)
    """Key → damaged record behind which no sound record of the key came."""
    other: str | None = None
    """Some path that was met and not asked for."""
    ignored: Container[PartitionOffset] = ()
    """Damaged records to skip: a repair looks for what lies under them."""

    def feed(self, records: Iterable[LogRecord], partition: int | None = None) -> FileRecords:
        """Add records. ``partition``: the one that they were read from; None: records that were
        read before. A damaged record stands in ``damaged``."""
        for record in records:
            self.count += 1
            try:
                about = peek_key(self.pipeline, record)
            except LedgerDamaged as damage:
                self._note_damage(record, partition, damage.why)
                continue
            if self.damaged:
                self.damaged.pop(record.key, None)
            if about is None or (
                self.ignored
                and PartitionOffset(partition or about.partition, record.offset) in self.ignored
            ):
                continue
            if partition is not None and about.partition != partition:
                if record.value is not None:
                    self._note_damage(
                        record,
                        partition,
                        f"a record of kind {about.kind} does not belong into this partition",
                    )
            elif about.kind == "archive":
                self.archive = None if record.value is None else record
            elif about.path and (self.paths is None or about.path in self.paths):
                self.by_path.setdefault(about.path, {})[record.key] = record
            else:
                self.other = about.path or self.other
        return self

    def _note_damage(self, record: LogRecord, partition: int | None, why: str) -> None:
        self.damaged[record.key] = Damage(-1 if partition is None else partition, record, why)

    def archived(self) -> Archive | None:
        entry = decode(self.pipeline, self.archive) if self.archive else None
        return entry[1] if entry and isinstance(entry[1], Archive) else None


@dataclass
class LedgerRecords:
    """Records that were read from the ledger, not yet added up."""

    files: FileRecords
    """Records of files, as the topic has them."""
    archived: list[LogRecord]
    """Records that were moved out of the topic: of the same files, and of others in the same
    shards."""
    control: Control
    control_end: int
    """Offset up to which the control partition was read."""
    chunks_end: int
    entries_end: int = 0
    """See :class:`LedgerState`."""
    roots: Roots = field(default_factory=Roots)
    names: Mapping[str, str] = field(default_factory=dict)
    """Path in a record → present path of the file; for other paths, ``roots`` decide."""

    def by_path(self) -> Iterator[list[DecodedRecord]]:
        """Yield the records of each file that count, in the order of the log. A record may be both
        in the archive and in the topic, because it was re-shipped or because its tombstone is not
        written yet. Then the later one counts: a snapshot may still have the archived one under the
        same key."""
        archived: dict[str, list[LogRecord]] = {}
        for record in self.archived:
            about, wanted = peek_key(self.files.pipeline, record), self.files.paths
            if about and (wanted is None or about.path in wanted):
                archived.setdefault(about.path, []).append(record)
        known_as: dict[str, list[str]] = {}
        for path in sorted(self.files.by_path.keys() | archived.keys()):
            known_as.setdefault(self.names.get(path) or self.roots.now(path), []).append(path)
        for now, paths in known_as.items():
            found: list[DecodedRecord] = []
            for path in paths:
                latest = {record.key: record for record in archived.get(path, ())}
                latest |= {
                    key: record
                    for key, record in self.files.by_path.get(path, {}).items()
                    if record.value is not None
                    and (key not in latest or record.offset > latest[key].offset)
                }
                entries = (
                    (record, decode(self.files.pipeline, record)) for record in latest.values()
                )
                found += [
                    DecodedRecord(record, entry if path == now else moved(entry, now))
                    for record, entry in entries
                    if entry
                ]
            yield sorted(found, key=lambda each: each.record.offset)


@dataclass(frozen=True)
class LedgerState:
    """State of some files, and of the right to ship."""

    control: Control
    invalidated: dict[FileId, Invalidated]
    """File → since when its earlier chunks do not count."""
    chunks: Chunks
    chunks_end: int
    """Offset up to which the chunk partition was read."""
    entries_end: int
    """Offset up to which that partition has entries, of whatever file; behind it are tombstones and
    barriers alone."""
    other: str | None = None
    """Some file's path that was met, and is not known to be one of these."""


def add_up(read: LedgerRecords) -> LedgerState:
    """Add up the records. Raises LedgerDamaged."""
    invalidated: dict[FileId, Invalidated] = {}
    chunks = Chunks(read.files.pipeline, invalidated)
    for found in read.by_path():
        invalidated.update(invalidations_in(found))
        for record, entry in found:
            match entry:
                case (ChunkKey() | MovedKey() as key, ChunkValue() as value):
                    chunks.add(key, value, record.timestamp_ms)
    return LedgerState(
        read.control, invalidated, chunks, read.chunks_end, read.entries_end, read.files.other
    )


def invalidations_in(found: Iterable[DecodedRecord]) -> dict[FileId, Invalidated]:
    """Return file → its highest invalidation. ``found``: all that counts of one path."""
    highest: dict[FileId, Invalidated] = {}
    for _, entry in found:
        match entry:
            case (InvalidationKey(file, generation), Invalidation(run_id=run_id)):
                known = highest.get(file, Invalidated(0, frozenset()))
                highest[file] = Invalidated(
                    max(known.generation, generation), known.asked_by | {run_id}
                )
    return highest
