"""The ledger's records, format 1. :mod:`shipper.ledger.codec` encodes and decodes them.

The ledger has two partitions. CONTROL holds what runs say of themselves: lease, generation,
attempt, invalidation, snapshot, identity. No record of CONTROL is transactional, so a reader can
read it to its end at any moment. CHUNKS holds one record per (split, first ordinal, topic), written
in the transaction of the chunk's records. So a read_committed reader sees a chunk's record exactly
when the chunk's records are in their topic. CHUNKS also holds at most one record that names the
archive, and says of files that were renamed, or have grown, which file they were.

Field names are those of the JSON in the topic. The format is final: a change of a field or a key is
another format.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, NamedTuple

import xxhash
from pydantic import AfterValidator, ConfigDict, Field

from shipper.ledger.intervals import ordered_runs
from shipper.types import FileId, SplitId

#: The first element of every key. A reader refuses a record of any other format.
FORMAT = 1
CONTROL, CHUNKS = 0, 1
PARTITIONS = 2
#: Of a generation. `runner.cores` and `delivery.lanes` allow no more.
MOST_TASKS, MOST_LANES = 4_096, 128
#: Longest lease that is believed. `delivery.lease` allows no more.
MOST_LEASE_SECONDS = 86_400.0
#: Seed of Spark's xxhash64, org.apache.spark.sql.catalyst.expressions.XxHash64; the hash of a null
#: is the seed itself.
_SPARK_SEED = 42


#: An ordinal, a number of bytes, an offset or a checksum.
Count = Annotated[int, Field(ge=0, le=(1 << 64) - 1)]
#: Milliseconds since the epoch; a file system may well report an earlier time.
MomentMs = Annotated[int, Field(ge=-(1 << 62), le=1 << 62)]
Text = Annotated[str, Field(max_length=4_096)]
#: A topic; a chunk that is in no topic has an empty one.
Topic = Annotated[str, Field(max_length=249)]
#: HDFS takes paths of 8,000 characters, S3 keys of 1,024 bytes.
LONGEST_PATH = 32_768
Path = Annotated[str, Field(min_length=1, max_length=LONGEST_PATH)]
#: Text of :class:`shipper.ledger.sums.ByteSum`.
Sum = Annotated[str, Field(pattern="^[0-9]{1,19}:[0-9a-f]{16}$")]
#: Runs of ordinals in order, see :func:`shipper.ledger.intervals.encode_ordinals`.
Ordinals = Annotated[str, AfterValidator(ordered_runs)]
TopicCounts = dict[Text, Count]


class Checked:
    """A value that pydantic decodes and checks."""

    __pydantic_config__ = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


def spark_hash(value: bytes | None, seed: int = _SPARK_SEED) -> int:
    """Return Spark's xxhash64 of a binary column, as an unsigned number. ``seed``: the hash of the
    column before it."""
    return seed if value is None else int(xxhash.xxh64_intdigest(value, seed))


@dataclass(frozen=True)
class ChunkKey:
    """Consecutive records of one split, of one topic."""

    split: SplitId
    first: int
    """Ordinal of the chunk's first record in its split."""
    topic: str
    """Topic of the records; empty for a record that only says where the split ends, or which lines
    were dropped."""


@dataclass(frozen=True)
class ChunkValue(Checked):
    """A committed chunk of a split."""

    last: Count
    """The exclusive end, as an ordinal: the chunk is [first, last)."""
    end: bool
    """True if the split ends at ``last``."""
    records: Count
    """Records of this topic in the interval, or lines that were dropped."""
    bytes: Count
    """Bytes of their keys and values, uncompressed."""
    checksum: Count
    """Sum over the records of :func:`spark_hash` of their values, modulo 2^64: independent of
    order, partition and batch."""
    digest: Text
    generation: Count
    run_id: Text
    window: Text
    partition: Count | None = None
    """Partition of all records, if they are in one."""
    wire_bytes: Count | None = None
    """Approximate bytes on the wire, by the compression that its task saw until then."""
    topic_id: Text | None = None
    """Id of the topic that took the records: a recreated topic gets another one. None: there is no
    topic, the brokers give topics no id (before Kafka 2.8), or the id is unknown."""
    parked: tuple[Topic, ...] | None = None
    """Topics for which other chunks of its task were waiting when it was sent; for progress."""
    reasons: TopicCounts | None = None
    """Reason → records, if the topic is a quarantine topic. Then ``ordinals`` are these records,
    and no others."""
    ordinals: Ordinals | None = None
    """Ordinals as text, see :func:`shipper.ledger.intervals.encode_ordinals`."""
    swallowed: Count | None = None
    """Number of further records that these may stand for, as rows of CSV that a stray quote joined;
    only with ``reasons``. `quarantine.max_rate` counts them."""
    without: Ordinals | None = None
    """Ordinals of the interval that would belong to this topic and are not in it, since they were
    taken for quarantine."""
    filtered: TopicCounts | None = None
    """Rule of `records.drop` → lines that it took; with no topic, and no record in any."""
    splits: Count = 1
    """Number of splits that its ship cut the file into."""
    spark: Text | None = None
    """Spark's minor version, such as ``4.2``: another version may make other records of the same
    lines. None: no Spark read the record."""
    etag: Text | None = None
    """ETag of the file in an object store, which changes even if an object is overwritten within a
    millisecond by as many bytes. None: the file system has no ETags."""
    read: Count | None = None
    """Bytes of the file that the split accounts for, as the task counted them; only with ``end``.
    See :func:`shipper.ledger.fold.bytes_fit`. None: uncountable (bzip2, a line that is longer than
    `max_line`, a file that is quarantined whole)."""
    head: Text | None = None
    """Head of the file's content, see :func:`shipper.ledger.heads.head_of`."""
    sum: Sum | None = None
    """Sum of the split's unpacked content (of tables: of its bytes as they are stored), see
    :mod:`shipper.ledger.sums`; only with ``end``. None: the file is quarantined whole."""


class Entry(NamedTuple):
    """One chunk record of a ledger."""

    key: ChunkKey
    value: ChunkValue
    offset: int
    """Offset of the record in the ledger."""
    timestamp_ms: int
    """The broker's time of the record, milliseconds since the epoch."""
    invalidated: bool = False
    """True if the chunk's file was shipped again since, so that the chunk does not count."""
    archived: bool = False


@dataclass(frozen=True)
class Alias(Checked):
    """A file holds, or begins with, the content of another one that was delivered whole: it is the
    same file under another name, or when it had grown. The rest is shipped as its own, in splits
    that begin behind that content."""

    path: Path
    size_bytes: Count
    modified_ms: MomentMs
    """With ``path`` and ``size_bytes`` the file as which the content was delivered."""
    whole: bool
    """True if the file holds nothing else."""
    sum: Sum
    """Sum of that content, see :mod:`shipper.ledger.sums`."""
    read: Count
    """Bytes of the file, as it is stored, that the content accounts for. None of a packed file of
    which a rest is left, since it is read from its beginning."""
    generation: Count
    run_id: Text
    window: Text
    records: TopicCounts
    """Topic → records of that content in it. They count as the other file's."""
    topic_ids: dict[Topic, Text]
    """Topic → id of the topic that took them, where it is known."""
    swallowed: Count | None = None
    head: Text | None = None
    etag: Text | None = None
    """As in :class:`ChunkValue`."""

    @property
    def original(self) -> FileId:
        return FileId(self.path, self.size_bytes, self.modified_ms)


@dataclass(frozen=True)
class Heir(Checked):
    """The content of a file counts for another one from now on, which an alias names. Of several
    files with the content of one, one alone is its heir."""

    path: Path
    size_bytes: Count
    modified_ms: MomentMs
    generation: Count
    run_id: Text


@dataclass(frozen=True)
class Generation(Checked):
    """Announcement of the run that may ship. Its offset is the generation's number: unique and
    growing."""

    run_id: Text
    tasks: Annotated[int, Field(ge=0, le=MOST_TASKS)]
    lanes: Annotated[int, Field(ge=0, le=MOST_LANES)]
    """Most tasks, and most lanes per task, of this run: the lanes that a later run must fence."""
    roots: tuple[Path, ...] = ()
    """Roots under which files lay when they were shipped, the present one last. See
    shipper.ledger.roots."""
    ack_ms: Count | None = None
    """Time until the ledger's records were acknowledged just before, in milliseconds; None: not
    known."""


class GenerationKey(NamedTuple):
    """Key of a generation. Each announcement has a key of its own, so compaction never hides a
    generation whose lanes are not fenced. The run that fences them writes the tombstone."""

    cluster: str
    """Name of the cluster in its file then; the transactional ids begin with it."""
    token: str
    """Random, in hexadecimal."""


@dataclass(frozen=True)
class Lease(Checked):
    """One run's claim to be the only one. ``held`` is false while it only asks."""

    run_id: Text
    host: Text
    pid: Count
    held: bool
    seconds: Annotated[float, Field(ge=0)]


class AttemptKey(NamedTuple):
    """Each attempt of each generation has keys of its own, so compaction never hides that, and
    when, an attempt began."""

    generation: int
    task: int
    number: int
    """Number of the attempt among all attempts of all tasks."""
    ended: bool = False
    """True for the record that says that the attempt sends nothing more, so its share of the rate
    limit is free."""


@dataclass(frozen=True)
class Attempt(Checked):
    """A Spark task attempt that opens its lanes now, or has ended. A later attempt of the same task
    supersedes it."""


class InvalidationKey(NamedTuple):
    """Each reship of a file has a key of its own, so a late record of an earlier run never replaces
    a later run's."""

    file: FileId
    generation: int
    """Chunks of the file below this generation no longer count."""


@dataclass(frozen=True)
class Invalidation(Checked):
    """Invalidation: chunks of a file below a generation no longer count, since the file is
    re-shipped. Of several, the highest generation counts."""

    run_id: Text
    """The run that asked for it, or the reship that several runs work at
    (:attr:`RunRequest.reship_id`). A second request with the same id does not ship the file a third
    time."""
    reason: Text | None = None
    """The reason that the user gave."""


@dataclass(frozen=True)
class Archive(Checked):
    """Note that chunk records were moved from the topic to files beside the runs, which are part of
    the ledger from then on. Lies among the chunks, since it commits together with the tombstones of
    what was moved."""

    manifest: Text
    """Name of the archive's manifest."""
    sha256: Text
    """SHA-256 of the manifest, which holds those of all other files: nothing else can be taken for
    the archive."""
    entries: Count
    """Records in it, those of earlier archives included."""
    before: Text
    """Time by which the moved windows had ended. ISO 8601, UTC."""
    generation: Count
    run_id: Text


@dataclass(frozen=True)
class NamedSnapshot(Checked):
    """A snapshot was written beside the runs, where others may write too: only the one that the
    ledger itself names is believed."""

    manifest: Text
    sha256: Text
    """SHA-256 of the manifest, which holds those of all other files."""


@dataclass(frozen=True)
class Identity(Checked):
    """A person gave an earlier ledger up, and began this one in its place."""

    run_id: Text
    at: Text
    """ISO 8601, UTC."""
    instead_of: Text
    """The earlier topic, with its id if that is known."""


Decoded = (
    tuple[ChunkKey, ChunkValue]
    | tuple[FileId, Alias | Heir]
    | tuple[GenerationKey, Generation | None]
    | tuple[None, Archive | Identity | NamedSnapshot]
    | tuple[str, Lease | None]
    | tuple[AttemptKey, Attempt]
    | tuple[InvalidationKey, Invalidation]
)
"""Decoded record: its key, if its kind has one of its own, and its value. An alias has the file
under its new name, an heir under its former one."""
