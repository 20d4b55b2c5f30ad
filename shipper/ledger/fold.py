"""The fold of the ledger's chunks: the latest record of each key, and what these add up to for each
file. Pure.

Only the latest record of a key counts, whether compaction has removed the earlier ones yet or not.
So it makes no difference whether records come from the topic, from a snapshot that holds the latest
of each key, or in part from either.

A split of n lines is complete if its end is known and the counts of its chunks, no two of which
share an ordinal and a topic, add up to n. A file is complete if all its splits are, and if the
bytes that they account for are the file's: :meth:`Chunks.standing` is the only place that says so.
Which topic a record goes to is decided by the transform, so an ordinal counts for the one topic
that has it and is never missed by another. Dropped lines count in chunks that have no topic.

What goes to quarantine is not decided by the transform alone: a topic's limit may be raised between
two runs, a check made stricter. So there the ledger has every ordinal: a chunk of a quarantine
topic says which ones it has, and a chunk of the topic that they would have gone to, that it does
not have them (ADR 9).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol

from shipper.errors import LedgerDamaged
from shipper.ledger.codec import Damage, DecodedRecord, decode, peek_key
from shipper.ledger.control import Control
from shipper.ledger.heads import Heads
from shipper.ledger.intervals import Interval, IntervalSet, decode_ordinals
from shipper.ledger.records import (
    Alias,
    Archive,
    ChunkKey,
    ChunkValue,
    Decoded,
    Heir,
    Invalidation,
    InvalidationKey,
)
from shipper.ledger.roots import Roots, moved
from shipper.ledger.sums import ByteSum, sum_of
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


@dataclass
class SplitState:
    """Ledger's state of one split."""

    chunks: dict[ChunkOfSplit, ChunkValue] = field(default_factory=dict)
    """Chunks in the order of the log."""
    end: int | None = None
    """Number of lines in the split, once known."""
    read: int | None = None
    """Bytes of the file that the split accounts for; None: not known yet, or uncountable."""

    sum: str | None = None
    """Sum of the split's content, as :class:`ChunkValue` has it; None: not known."""

    @property
    def counted(self) -> dict[ChunkOfSplit, ChunkValue]:
        """Chunks without those that share ordinals with an earlier one of their topic. At least
        once, an earlier run that nobody could fence may commit such a chunk: its records are on the
        cluster twice, and how many of them no other chunk has, nobody knows."""
        reached: dict[str, int] = {}
        for of in sorted(self.chunks) if len(self.chunks) > 1 else ():
            if of.first < reached.get(of.topic, 0):
                return self._without_overlaps()
            reached[of.topic] = self.chunks[of].last
        return self.chunks

    def _without_overlaps(self) -> dict[ChunkOfSplit, ChunkValue]:
        known, found = dict[str, IntervalSet](), dict[ChunkOfSplit, ChunkValue]()
        for of, chunk in self.chunks.items():
            there, parts = known.setdefault(of.topic, IntervalSet()), covered(of.first, chunk)
            if all(there.gaps(*part) == [part] for part in parts):
                found[of] = chunk
                for part in parts:
                    there.add(*part)
        return found

    @property
    def lines(self) -> int:
        """Accounted for: on the cluster, or dropped."""
        return sum(chunk.records for chunk in self.counted.values())

    @property
    def topics(self) -> set[str]:
        """Topics that have records of the split; the empty one if lines were dropped, or the
        split's end is known."""
        return {of.topic for of in self.chunks}

    @property
    def records(self) -> int:
        """Records on the cluster, in quarantine topics too."""
        return sum(chunk.records for of, chunk in self.counted.items() if of.topic)

    @property
    def complete(self) -> bool:
        return self.end is not None and self.lines == self.end

    def intervals(self, topic: str) -> list[Interval]:
        """Return the intervals in which every record of ``topic`` is on the cluster."""
        return [
            run
            for of, chunk in self.counted.items()
            if of.topic == topic
            for run in covered(of.first, chunk)
        ]

    def partition(self, topic: str) -> int | None:
        """Return the partition of the split's latest records in ``topic``, of those that went to
        one partition."""
        known = {
            of.first: chunk.partition
            for of, chunk in self.chunks.items()
            if of.topic == topic and chunk.partition is not None
        }
        return known[max(known)] if known else None

    @property
    def quarantines(self) -> frozenset[str]:
        """Topics in which records of the split are in quarantine."""
        return frozenset(of.topic for of, chunk in self.chunks.items() if chunk.reasons is not None)

    @property
    def reasons(self) -> frozenset[str]:
        """Reasons why records of the split are in quarantine."""
        return frozenset(reason for chunk in self.chunks.values() for reason in chunk.reasons or ())

    @property
    def swallowed(self) -> int:
        """Return how many more records its records in quarantine may be."""
        return sum(chunk.swallowed or 0 for chunk in self.chunks.values())


FileStanding = Literal["complete", "misread", "partial"]
"""Standing of a file. ``misread``: every record that the tasks saw is delivered, but they saw other
bytes than the file has."""


def bytes_fit(size_bytes: int, reads: Sequence[int | None]) -> bool:
    """Return True if the bytes that a file's splits account for are the file's, or if the bytes of
    one split are unknown.

    A line is counted with its end, and the end of the last line may be missing: so the sum may be
    one more than the size.
    """
    known = [read for read in reads if read is not None]
    return len(known) < len(reads) or sum(known) in (size_bytes, size_bytes + 1)


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
    file: FileId, value: ChunkValue | Alias, invalidated: Mapping[FileId, Invalidated]
) -> bool:
    """Return True if the record does not count any more, since its file was re-shipped."""
    over = invalidated.get(file)
    return over is not None and value.generation < over.generation


class TaggedFile(Protocol):
    """File with its ETag; empty if it has none."""

    @property
    def id(self) -> FileId: ...
    @property
    def etag(self) -> str: ...


#: Fields of :class:`Chunks` that say something of each file.
_OF_FILES = ("aliases", "digests", "sparks", "etags", "heads", "committed_ms")


@dataclass
class Chunks:
    """Chunks of some files on the cluster. Feed records in offset order. ``invalidated`` hides
    chunks of files that are re-shipped."""

    pipeline: str
    invalidated: Mapping[FileId, Invalidated] = field(default_factory=dict)
    splits: dict[SplitId, SplitState] = field(default_factory=dict)
    starts: dict[FileId, list[int]] = field(default_factory=dict)
    """File → first byte of each of its splits that has chunks."""
    aliases: dict[FileId, Alias] = field(default_factory=dict)
    """File → the one that it was, if its content was delivered under another name or when it was
    shorter."""
    succeeded: set[FileId] = field(default_factory=set)
    """Files whose content counts for another one by now."""
    digests: dict[FileId, set[str]] = field(default_factory=dict)
    """File → transform digests under which any of its chunks was shipped."""
    sparks: dict[FileId, set[str]] = field(default_factory=dict)
    """File → Spark's minor versions under which any of its chunks was shipped."""
    etags: dict[FileId, set[str]] = field(default_factory=dict)
    """File → ETags that it had when any of its chunks was shipped; only an object store has one."""
    heads: dict[FileId, str] = field(default_factory=dict)
    """File → how it begins, see :mod:`shipper.ledger.heads`."""
    files_of_path: dict[str, set[FileId]] = field(default_factory=dict)
    committed_ms: dict[FileId, int] = field(default_factory=dict)
    """File → time of its last commit, by the broker's clock, in milliseconds since the epoch.
    Records that were delivered under a former name of the file count there."""

    def feed(self, records: Iterable[LogRecord]) -> Chunks:
        """Fold records in. Raises LedgerDamaged."""
        for record in records:
            self.take(decode(self.pipeline, record), record.timestamp_ms)
        return self

    def take(self, entry: Decoded | None, at_ms: int | None = None) -> None:
        """Add a decoded record, of whatever kind; those that say nothing of delivered files are
        passed over. ``at_ms``: the broker's time of the record; None: not known."""
        match entry:
            case (ChunkKey() as key, ChunkValue() as value):
                self.add(key, value, at_ms)
            case (FileId() as file, Alias() as value):
                self.add_alias(file, value)
            case (FileId() as file, Heir()):
                self.succeeded.add(file)

    def add_alias(self, file: FileId, value: Alias) -> None:
        if is_invalidated(file, value, self.invalidated):
            return
        self.aliases[file] = value
        self._note(file, value)

    def _note(self, file: FileId, value: ChunkValue | Alias) -> None:
        if value.etag is not None:
            self.etags.setdefault(file, set()).add(value.etag)
        if value.head is not None:
            self.heads[file] = value.head
        self.files_of_path.setdefault(file.path, set()).add(file)

    def add(self, key: ChunkKey, value: ChunkValue, at_ms: int | None = None) -> None:
        """Add one chunk. ``at_ms`` as in :meth:`take`."""
        file = key.split.file
        if is_invalidated(file, value, self.invalidated):
            return
        if (state := self.splits.get(key.split)) is None:
            state = self.splits[key.split] = SplitState()
            self.starts.setdefault(file, []).append(key.split.start)
        of = ChunkOfSplit(key.first, key.topic)
        state.chunks.pop(of, None)  # the order is that of the log
        state.chunks[of] = value
        if at_ms is not None:
            self.committed_ms[file] = max(at_ms, self.committed_ms.get(file, at_ms))
        if value.end:
            state.end, state.read, state.sum = value.last, value.read, value.sum
        self.digests.setdefault(file, set()).add(value.digest)
        if value.spark is not None:
            self.sparks.setdefault(file, set()).add(value.spark)
        self._note(file, value)

    def include(self, other: Chunks) -> None:
        """Add what is known of files at other paths."""
        self.invalidated = {**self.invalidated, **other.invalidated}
        for name in ("splits", "starts", "files_of_path", *_OF_FILES):
            getattr(self, name).update(getattr(other, name))
        self.succeeded |= other.succeeded

    def invalidate(self, files: Mapping[FileId, Invalidated]) -> None:
        """Forget all that is known of these files: their chunks no longer count, except those that
        later generations write."""
        self.invalidated = {**self.invalidated, **files}
        for file in files:
            for start in self.starts.pop(file, ()):
                del self.splits[SplitId(file, start)]
            for name in _OF_FILES:
                getattr(self, name).pop(file, None)
            self.files_of_path.get(file.path, set()).discard(file)

    def run_of(self, file: FileId) -> str:
        """Return the run that shipped the end of the file's first split."""
        chunks = [chunk for state in self.states(file) for chunk in state.chunks.values()]
        return max(chunks, key=lambda chunk: (chunk.end, chunk.generation)).run_id

    def overwritten(self, files: Iterable[TaggedFile]) -> set[FileId]:
        """Return the files that have another ETag than when a chunk of them was shipped: other
        bytes, of the same size and within the same moment."""
        return {
            file.id
            for file in files
            if file.etag and self.etags.get(file.id, {file.etag}) - {file.etag}
        }

    def knows(self, file: FileId) -> bool:
        """Return True if anything of the file was delivered, under whatever name."""
        return file in self.starts or file in self.aliases

    def oldest(self, file: FileId) -> int:
        """Return the first generation that shipped a part of a known file."""
        found = [c.generation for state in self.states(file) for c in state.chunks.values()]
        alias = self.aliases.get(file)
        return min([*found, *([alias.generation] if alias is not None else [])])

    def splits_of(self, file: FileId) -> list[SplitId]:
        """Return the known splits of a file, as they were cut when they were shipped."""
        return [SplitId(file, start) for start in sorted(self.starts.get(file, ()))]

    def states(self, file: FileId) -> list[SplitState]:
        """Return the states of these splits."""
        return [self.splits[SplitId(file, start)] for start in sorted(self.starts.get(file, ()))]

    def standing(self, file: FileId) -> FileStanding:
        """Return how much of a known file is delivered, by the splits into which its ship cut it: a
        pipeline's `split_size` and `ordering` may have changed since."""
        alias, states = self.aliases.get(file), self.states(file)
        if alias is not None and alias.whole:
            return "complete"
        cut = {chunk.splits for state in states for chunk in state.chunks.values()}
        if cut != {len(states)} or not all(state.complete for state in states):
            return "partial"
        reads = [alias.read] if alias is not None else []
        fit = bytes_fit(file.size_bytes, [*reads, *(state.read for state in states)])
        return "complete" if fit else "misread"

    def records(self, file: FileId) -> int:
        """Return the file's records on the cluster, in quarantine topics too; those that are its
        own, as :meth:`records_by_topic` has them."""
        alias = self.aliases.get(file)
        before = sum(alias.records.values()) if alias is not None and alias.whole else 0
        return before + sum(state.records for state in self.states(file))

    def delivered_as(self, file: FileId) -> Counter[str]:
        """Return topic → number of records of a file's content, under whatever name."""
        found = self.records_by_topic([file])
        if (alias := self.aliases.get(file)) is not None and not alias.whole:
            found.update(alias.records)
        return found

    def swallowed(self, file: FileId) -> int:
        """Return the number of further records that quarantined ones of its own may stand for."""
        alias = self.aliases.get(file)
        before = alias.swallowed or 0 if alias is not None and alias.whole else 0
        return before + sum(state.swallowed for state in self.states(file))

    def topic_ids(self, file: FileId) -> dict[str, str]:
        """Return topic → id of the topic that took records of the file's content, where it is
        known."""
        alias = self.aliases.get(file)
        found = dict(alias.topic_ids) if alias is not None else {}
        for state in self.states(file):
            for of, chunk in state.chunks.items():
                if of.topic and chunk.records and chunk.topic_id:
                    found[of.topic] = chunk.topic_id
        return found

    def content(self, file: FileId) -> ByteSum | None:
        """Return the sum of a complete file's content; None: not known."""
        alias = self.aliases.get(file)
        sums = [ByteSum.parse(alias.sum)] if alias is not None else []
        for state in self.states(file):
            if state.sum is None:
                return None
            sums.append(ByteSum.parse(state.sum))
        return sum_of(sums)

    def records_by_topic(self, files: Iterable[FileId]) -> Counter[str]:
        """Return topic → number of records of these files on the cluster. Those of a file that has
        grown are its own: the others count as the shorter file's."""
        found: Counter[str] = Counter()
        for file in files:
            if (alias := self.aliases.get(file)) is not None and alias.whole:
                found.update(alias.records)
            for state in self.states(file):
                for of, chunk in state.counted.items():
                    if chunk.records and of.topic:
                        found[of.topic] += chunk.records
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
    alike: Heads
    control: Control
    control_end: int
    """Offset up to which the control partition was read."""
    chunks_end: int
    roots: Roots = field(default_factory=Roots)
    names: Mapping[str, str] = field(default_factory=dict)
    """Path in a record → present path of the file; for other paths, ``roots`` decide."""
    cluster: str = ""
    topic: str = ""

    def by_path(self) -> Iterator[list[DecodedRecord]]:
        """Yield the records of each file that count, in the order of the log. A record may be both
        in the archive and in the topic, because it was re-shipped or because its tombstone is not
        written yet. Then the later one counts: a snapshot may still have the archived one under the
        same key. Raises LedgerDamaged."""
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
                entries = ((record, self._decode(record)) for record in latest.values())
                found += [
                    (record, entry if path == now else moved(entry, now))
                    for record, entry in entries
                    if entry
                ]
            yield sorted(found, key=lambda each: each[0].offset)

    def _decode(self, record: LogRecord) -> Decoded | None:
        try:
            return decode(self.files.pipeline, record)
        except LedgerDamaged as found:
            raise found.in_ledger(self.cluster, self.topic) from found


@dataclass(frozen=True)
class LedgerState:
    """State of some files, and of the right to ship."""

    control: Control
    invalidated: dict[FileId, Invalidated]
    """File → since when its earlier chunks do not count."""
    chunks: Chunks
    alike: Heads
    """Files of the whole ledger with the heads that were asked for."""
    chunks_end: int
    """Offset up to which the chunk partition was read."""
    other: str | None = None
    """Some file's path that was met, and is not known to be one of these."""


def add_up(read: LedgerRecords) -> LedgerState:
    """Add up the records. Raises LedgerDamaged."""
    invalidated: dict[FileId, Invalidated] = {}
    chunks = Chunks(read.files.pipeline, invalidated)
    for found in read.by_path():
        invalidated.update(invalidations_in(found))
        for record, entry in found:
            chunks.take(entry, record.timestamp_ms)
    return LedgerState(
        read.control, invalidated, chunks, read.alike, read.chunks_end, read.files.other
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
