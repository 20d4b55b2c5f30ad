"""The ledger's records: keys and values as they lie in the topic, and back.

The ledger has two partitions. CONTROL holds what runs say of themselves (lease, generation, attempt, void); nothing in it is ever
transactional, so it can be read to its end at any moment. CHUNKS holds one record per (split, first ordinal, topic),
written in the transaction of the chunk's records, so a read_committed reader sees it exactly when those are there; and at most
one that names the archive.

Keys and values are JSON, so that ``kcat -C -t _shipper.web`` is all that a person needs to look.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from shipper.terms import FileId, LogRecord, SplitId

CONTROL, CHUNKS = 0, 1
PARTITIONS = 2


@dataclass(frozen=True)
class ChunkKey:
    split: SplitId
    first: int
    """Ordinal of the chunk's first record in its split."""
    topic: str
    """Empty for a record that only says where the split ends, or which lines were dropped."""


@dataclass(frozen=True)
class ChunkValue:
    """What was committed."""

    last: int
    """Ordinal behind the last record: the chunk is [first, last)."""
    end: bool
    """Whether the split ends at ``last``."""
    records: int
    """Records of this topic in the interval: lines, also where many share a bundle; or lines that were dropped."""
    bytes: int
    """Bytes of their keys and values, uncompressed, without what joins the lines of a bundle."""
    checksum: int
    """Sum over the records of Spark's xxhash64(value), modulo 2^64: independent of order, partition and batch."""
    digest: str
    generation: int
    run_id: str
    window: str
    partition: int | None = None
    """Where all of them lie, if in one partition."""
    bundles: int | None = None
    """Kafka records that they were bundled into; None: each is a Kafka record of its own."""
    wire_bytes: int | None = None
    """About what it took on the wire, by the compression that its task saw until then."""
    parked: tuple[str, ...] | None = None
    """Topics for which other chunks of its task were waiting when it was sent; for who watches the run."""
    reasons: dict[str, int] | None = None
    """Reason → records, if the topic is a quarantine topic. Then ``ordinals`` are these records, and no others."""
    ordinals: str | None = None
    """See shipper.ledger.ordinals."""
    without: str | None = None
    """Ordinals of the interval that would belong to this topic and are not in it, since they were taken for quarantine."""
    filtered: dict[str, int] | None = None
    """Rule of `records.drop` → lines that it took; with no topic, and no record in any."""


@dataclass(frozen=True)
class ReplayKey:
    """One record that was in quarantine. There is one replay of it at most."""

    split: SplitId
    ordinal: int


@dataclass(frozen=True)
class Replay:
    """A record that left quarantine: a person repaired it and sent it to its topic."""

    topic: str
    bytes: int
    """Of key and value."""
    checksum: int
    """Spark's xxhash64 of the value that was sent."""
    generation: int
    """Of the replay: it is a run like any other that sends."""
    run_id: str
    window: str
    """Of the chunk that the record was quarantined with."""


@dataclass(frozen=True)
class Generation:
    """Says which run may ship. Its offset is the generation's number: unique and growing."""

    run_id: str
    tasks: int
    lanes: int
    """Most tasks, and most lanes per task, of this and all earlier runs: what a later run has to fence."""


@dataclass(frozen=True)
class Lease:
    """One run's claim to be the only one. ``held`` is false while it only asks."""

    run_id: str
    host: str
    pid: int
    held: bool
    seconds: float


@dataclass(frozen=True)
class Attempt:
    """A Spark task attempt that opens its lanes now. A later one of the same task supersedes it. Each has a key of its own, so
    that compaction never hides that there was an earlier one."""

    generation: int
    attempt: int
    ended: bool = False
    """It sends nothing more, so its share of the rate limit is free."""


@dataclass(frozen=True)
class Void:
    """Chunks of a file below this generation no longer count: it is shipped anew."""

    generation: int
    run_id: str
    """The run that declared it: tried again, it does not ship the file a third time."""


@dataclass(frozen=True)
class Archive:
    """Says that chunk records were moved from the topic to files beside the runs, which are part of the ledger from then on. Lies
    among the chunks, since it commits together with the tombstones of what was moved."""

    manifest: str
    """Name of the archive's manifest."""
    sha256: str
    """Of the manifest, which holds those of all other files: nothing else can be taken for the archive."""
    entries: int
    """Records in it, those of earlier archives included."""
    before: str
    """Windows that ended by then were moved. ISO 8601, UTC."""
    generation: int
    run_id: str


def _pack(*parts: Any) -> bytes:
    return json.dumps(parts, separators=(",", ":"), ensure_ascii=False).encode()


def _value(record: object) -> bytes:
    """Fields without a value are left out: a decoder knows their defaults."""
    fields = {name: value for name, value in asdict(record).items() if value is not None}  # type: ignore[call-overload]
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()


def encode_chunk_key(pipeline: str, key: ChunkKey) -> bytes:
    return _pack("chunk", pipeline, *key.split.file, key.split.start, key.first, key.topic)


def encode_chunk_value(value: ChunkValue) -> bytes:
    return _value(value)


def encode_chunk(pipeline: str, key: ChunkKey, value: ChunkValue) -> tuple[bytes, bytes]:
    return encode_chunk_key(pipeline, key), encode_chunk_value(value)


def encode_generation(pipeline: str, value: Generation) -> tuple[bytes, bytes]:
    return _pack("generation", pipeline), _value(value)


def encode_lease(pipeline: str, value: Lease) -> tuple[bytes, bytes]:
    """One key per run, so that compaction never lets one run's claim hide another's."""
    return _pack("lease", pipeline, value.run_id), _value(value)


def encode_attempt(pipeline: str, task: int, value: Attempt) -> tuple[bytes, bytes]:
    return _pack("attempt", pipeline, task, value.attempt), _value(value)


def encode_void(pipeline: str, file: FileId, value: Void) -> tuple[bytes, bytes]:
    return _pack("void", pipeline, *file), _value(value)


def encode_replay(pipeline: str, key: ReplayKey, value: Replay) -> tuple[bytes, bytes]:
    return _pack("replay", pipeline, *key.split.file, key.split.start, key.ordinal), _value(value)


def encode_archive(pipeline: str, value: Archive) -> tuple[bytes, bytes]:
    return _pack("archive", pipeline), _value(value)


Entry = (
    tuple[ChunkKey, ChunkValue]
    | tuple[None, Generation | Archive]
    | tuple[str, Lease | None]
    | tuple[int, Attempt]
    | tuple[FileId, Void]
    | tuple[ReplayKey, Replay]
)

_OF_A_FILE = ("chunk", "void", "replay")
_OF_THE_PIPELINE = ("generation", "lease", "attempt", "archive")


class Subject(NamedTuple):
    """What a record is about, by its key alone."""

    kind: str
    path: str
    """Of the file; empty for what is about the pipeline."""


def subject(pipeline: str, record: LogRecord) -> Subject | None:
    """None for a record of another pipeline. Much cheaper than :func:`decode`. Raises ValueError as that does."""
    try:
        kind, owner, *rest = json.loads(record.key)
        if owner != pipeline:
            return None
        if kind in _OF_A_FILE:
            return Subject(kind, rest[0])
    except (ValueError, TypeError, IndexError) as error:
        raise _foreign(record) from error
    if kind in _OF_THE_PIPELINE:
        return Subject(kind, "")
    raise _unknown_kind(record, kind)


def _foreign(record: LogRecord) -> ValueError:
    return ValueError(f"the ledger's record at offset {record.offset} is not shipper's: key {record.key[:200]!r}")


def _unknown_kind(record: LogRecord, kind: object) -> ValueError:
    return ValueError(f"the ledger's record at offset {record.offset} has an unknown kind: {kind!r}; is it of a newer shipper?")


def decode(pipeline: str, record: LogRecord) -> Entry | None:
    """The record, if it is of this pipeline. None for others' (a ledger may be shared) and for tombstones but a lease's.

    Raises ValueError for a record that shipper did not write.
    """
    try:
        kind, owner, *rest = json.loads(record.key)
        if owner != pipeline:
            return None
        fields = None if record.value is None else json.loads(record.value)
        if kind == "lease":
            return rest[0], None if fields is None else Lease(**fields)
        if fields is None:
            return None
        if kind == "chunk":
            path, size, modified, start, first, topic = rest
            return ChunkKey(SplitId(FileId(path, size, modified), start), first, topic), ChunkValue(**fields)
        if kind == "generation":
            return None, Generation(**fields)
        if kind == "attempt":
            return rest[0], Attempt(**fields)
        if kind == "void":
            return FileId(*rest), Void(**fields)
        if kind == "replay":
            path, size, modified, start, ordinal = rest
            return ReplayKey(SplitId(FileId(path, size, modified), start), ordinal), Replay(**fields)
        if kind == "archive":
            return None, Archive(**fields)
    except (ValueError, TypeError, IndexError) as error:
        raise _foreign(record) from error
    raise _unknown_kind(record, kind)
