"""The ledger's records: keys and values as they lie in the topic, and back.

The ledger has two partitions. CONTROL holds what runs say of themselves (lease, generation, attempt, void); nothing in it is ever
transactional, so it can be read to its end at any moment. CHUNKS holds one record per (split, first ordinal, topic),
written in the transaction of the chunk's records, so a read_committed reader sees it exactly when those are there; and at most
one that names the archive.

Keys and values are JSON, so that ``kcat -C -t _shipper.web`` is all that a person needs to look.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from shipper.errors import LedgerDamaged
from shipper.ledger.strict import Check, Shape, Unsound, is_count, is_moment, is_path, is_text, is_topic, parse
from shipper.types import FileId, LogRecord, SplitId

CONTROL, CHUNKS = 0, 1
PARTITIONS = 2
#: Of a generation. `runner.cores` and `delivery.lanes` allow no more.
MOST_TASKS, MOST_LANES = 4_096, 128
#: A lease is not believed to last longer, whatever it says. `delivery.lease` allows no more.
MOST_LEASE_SECONDS = 86_400.0


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
    splits: int | None = None
    """Into how many splits its ship cut the file; None: by a shipper that did not say."""
    spark: str | None = None
    """Spark's minor version, such as ``4.2``: another one may make other records of the same lines."""


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
    """Most tasks, and most lanes per task, of this run and of those before it that are not fenced for good: what a later run has to fence."""


class GenerationKey(NamedTuple):
    """All that comes with it is in the key, so that what read the ledger before there was more than a generation still can: it takes each
    of them for a generation, which is late to it but never wrong."""

    cluster: str | None = None
    """As the cluster's file called it, which the transactional ids begin with. None: written before this was noted."""
    fenced: int | None = None
    """Set: not a generation, but the word that every lane of the generations before this one is fenced for good; the value then says
    which lanes that generation itself has."""


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


_VOIDS_REMEMBERED = 50


@dataclass(frozen=True)
class Void:
    """Chunks of a file below this generation no longer count: it is shipped anew."""

    generation: int
    run_id: str
    """Who asked for it: the run, or the reship that several runs may work at (:attr:`PlanResult.reship_id`). Asked for once more by the
    same, the file is not shipped a third time."""
    reason: str | None = None
    """Why, in the words of whoever asked."""
    earlier: str | None = None
    """Ids of those who asked before, with spaces between them: they too have had what they asked for. Only the latest record of a
    key is kept, so it must know them."""

    @property
    def asked_by(self) -> frozenset[str]:
        """Ids of all who have had the file shipped anew."""
        return frozenset([self.run_id, *(self.earlier or "").split()])

    def after(self, before: Void | None) -> Void:
        """As the file's next void, which remembers who asked before: the latest :data:`_VOIDS_REMEMBERED`."""
        if before is None:
            return self
        ids = dict.fromkeys([*(before.earlier or "").split(), before.run_id])
        ids.pop(self.run_id, None)
        return replace(self, earlier=" ".join(list(ids)[-_VOIDS_REMEMBERED:]) or None)


@dataclass(frozen=True)
class Doubt:
    """What was shipped of a file is not all of it, or more than it: other bytes than it has were read. It is not done, whatever its chunks say,
    until it is shipped anew (:class:`Void`, of a later generation) or somebody has looked and vouches for it."""

    why: str
    generation: int
    """Of the ship that found out."""
    run_id: str
    trusted: str | None = None
    """Who vouches for it after all, when and why."""


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


@dataclass(frozen=True)
class Dropped:
    """A person has said of one record of the ledger, by partition and offset, that it is damaged and to be passed over. A record that
    can be read is never passed over, so this hides nothing that counts; and offsets are not used again, so when the
    broker has compacted the damaged record away, it says nothing any more."""

    by: str
    at: str
    """ISO 8601, UTC."""
    reason: str
    run_id: str


@dataclass(frozen=True)
class Kept:
    """A snapshot was written beside the runs, where others may write too: only the one that the ledger itself names is believed."""

    manifest: str
    sha256: str
    """Of the manifest, which holds those of all other files."""


@dataclass(frozen=True)
class Source:
    """From this run on files lie under the root that the key names. See shipper.ledger.roots."""

    run_id: str


@dataclass(frozen=True)
class Begun:
    """A person has given an earlier ledger up: this one was begun in its place."""

    run_id: str
    at: str
    """ISO 8601, UTC."""
    instead_of: str
    """The earlier topic, with its id if that is known."""


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


def encode_generation(pipeline: str, value: Generation, cluster: str | None = None) -> tuple[bytes, bytes]:
    """One key per name of the cluster: the lanes that it had under another one are not forgotten."""
    return _pack("generation", pipeline, *([] if cluster is None else [cluster])), _value(value)


def encode_fenced(pipeline: str, cluster: str, generation: int, value: Generation | None) -> tuple[bytes, bytes | None]:
    """None: a later one says more."""
    return _pack("generation", pipeline, cluster, generation), None if value is None else _value(value)


def encode_lease(pipeline: str, value: Lease) -> tuple[bytes, bytes]:
    """One key per run, so that compaction never lets one run's claim hide another's."""
    return _pack("lease", pipeline, value.run_id), _value(value)


def encode_attempt(pipeline: str, task: int, value: Attempt) -> tuple[bytes, bytes]:
    return _pack("attempt", pipeline, task, value.attempt), _value(value)


def encode_void(pipeline: str, file: FileId, value: Void) -> tuple[bytes, bytes]:
    return _pack("void", pipeline, *file), _value(value)


def encode_doubt(pipeline: str, file: FileId, value: Doubt) -> tuple[bytes, bytes]:
    return _pack("doubt", pipeline, *file), _value(value)


def encode_replay(pipeline: str, key: ReplayKey, value: Replay) -> tuple[bytes, bytes]:
    return _pack("replay", pipeline, *key.split.file, key.split.start, key.ordinal), _value(value)


def encode_archive(pipeline: str, value: Archive) -> tuple[bytes, bytes]:
    return _pack("archive", pipeline), _value(value)


def encode_kept(pipeline: str, value: Kept) -> tuple[bytes, bytes]:
    return _pack("kept", pipeline), _value(value)


def encode_source(pipeline: str, root: str, value: Source) -> tuple[bytes, bytes]:
    return _pack("source", pipeline, root), _value(value)


def encode_begun(pipeline: str, value: Begun) -> tuple[bytes, bytes]:
    return _pack("begun", pipeline), _value(value)


def encode_dropped(pipeline: str, partition: int, offset: int, value: Dropped) -> tuple[bytes, bytes]:
    return _pack("dropped", pipeline, partition, offset), _value(value)


Entry = (
    tuple[ChunkKey, ChunkValue]
    | tuple[GenerationKey, Generation | None]
    | tuple[None, Archive | Begun | Kept]
    | tuple[str, Lease | Source | None]
    | tuple[int, Attempt]
    | tuple[FileId, Void | Doubt]
    | tuple[ReplayKey, Replay]
    | tuple[tuple[int, int], Dropped]
)

_OF_A_FILE = ("chunk", "void", "doubt", "replay")
_OF_THE_PIPELINE = ("generation", "lease", "attempt", "archive", "dropped", "begun", "kept", "source")
#: What comes behind kind and pipeline in a key.
_FILE = (is_path, is_count, is_moment)
_KEYS: dict[str, tuple[Check, ...]] = {
    "chunk": (*_FILE, is_count, is_count, is_topic),
    "void": _FILE,
    "doubt": _FILE,
    "replay": (*_FILE, is_count, is_count),
    "generation": (),
    "lease": (is_text,),
    "attempt": (is_count, is_count),
    "archive": (),
    "dropped": (is_count, is_count),
    "begun": (),
    "kept": (),
    "source": (is_path,),
}
#: What a newer shipper adds to a key.
_MORE_KEYS: dict[str, tuple[Check, ...]] = {"generation": (is_text, is_count)}
_SHAPES = {
    "chunk": Shape(ChunkValue),
    "void": Shape(Void),
    "doubt": Shape(Doubt),
    "replay": Shape(Replay),
    "generation": Shape(Generation),
    "lease": Shape(Lease),
    "attempt": Shape(Attempt),
    "archive": Shape(Archive),
    "dropped": Shape(Dropped),
    "begun": Shape(Begun),
    "kept": Shape(Kept),
    "source": Shape(Source),
}


_IN_CHUNKS = frozenset(["chunk", "replay", "archive"])
_PARTS_OF_CHUNK = 2 + len(_KEYS["chunk"])


class Subject(NamedTuple):
    """What a record is about, by its key alone."""

    kind: str
    path: str
    """Of the file; empty for what is about the pipeline."""

    @property
    def partition(self) -> int:
        return partition_of(self.kind)


def partition_of(kind: str) -> int:
    return CHUNKS if kind in _IN_CHUNKS else CONTROL


def subject(pipeline: str, record: LogRecord) -> Subject | None:
    """None for a record of another pipeline, and for a tombstone of a key that is not shipper's, which says nothing. Much cheaper than
    :func:`decode`, which looks at the rest of a chunk's key too. Raises LedgerDamaged as that does."""
    try:
        parts = parse(record.key)
        # Nearly all records of a ledger are chunks, and of most of them nobody wants to know more than this.
        if (
            type(parts) is list
            and len(parts) == _PARTS_OF_CHUNK
            and parts[0] == "chunk"
            and parts[1] == pipeline
            and is_path(parts[2])
        ):
            return Subject("chunk", parts[2])
        found = _key(pipeline, parts)
    except Unsound as why:
        if record.value is None:
            return None
        raise LedgerDamaged.at(pipeline, None, record.offset, str(why)) from why
    if found is None:
        return None
    kind, rest = found
    return Subject(kind, rest[0] if kind in _OF_A_FILE else "")


def _key(pipeline: str, parts: Any) -> tuple[str, list[Any]] | None:
    """(kind, the rest); None for another pipeline's. Raises Unsound."""
    if type(parts) is not list or len(parts) < 2 or type(parts[0]) is not str or type(parts[1]) is not str:
        raise Unsound("its key is not one of shipper's")
    kind, owner, *rest = parts
    if owner != pipeline:
        return None
    checks = _KEYS.get(kind)
    if checks is None:
        raise Unsound(f"its kind {kind[:40]!r} is unknown: is it of a newer shipper?")
    if len(rest) > len(checks):
        checks += _MORE_KEYS.get(kind, ())[: len(rest) - len(checks)]
    if len(rest) != len(checks):
        raise Unsound(f"its key is none of a {kind} record")
    for check, part in zip(checks, rest, strict=True):  # asked of every record of the ledger
        if not check(part):
            raise Unsound(f"its key is none of a {kind} record")
    return kind, rest


def decode(pipeline: str, record: LogRecord) -> Entry | None:
    """The record, if it is of this pipeline. None for others' (a ledger may be shared) and for tombstones but those of leases and of what is fenced.

    Raises LedgerDamaged for a record that shipper did not write, or that cannot be right.
    """
    try:
        found = _key(pipeline, parse(record.key))
    except Unsound as why:
        if record.value is None:
            return None
        raise LedgerDamaged.at(pipeline, None, record.offset, str(why)) from why
    if found is None:
        return None
    kind, rest = found
    if record.value is None:
        if kind == "generation" and len(rest) == 2:
            return GenerationKey(*rest), None
        return (rest[0], None) if kind == "lease" else None
    try:
        value = _SHAPES[kind].read(record.value)
        return _entry(kind, rest, value)
    except Unsound as why:
        raise LedgerDamaged.at(pipeline, partition_of(kind), record.offset, str(why)) from why


def _entry(kind: str, rest: list[Any], value: Any) -> Entry:
    """Raises Unsound."""
    if kind == "chunk":
        path, size, modified, start, first, topic = rest
        if value.last < first:
            raise Unsound(f"it ends at record {value.last}, before its first one, {first}")
        return ChunkKey(SplitId(FileId(path, size, modified), start), first, topic), value
    if kind in ("void", "doubt"):
        return FileId(*rest), value
    if kind == "replay":
        path, size, modified, start, ordinal = rest
        return ReplayKey(SplitId(FileId(path, size, modified), start), ordinal), value
    if kind in ("lease", "attempt", "source"):
        return rest[0], value
    if kind == "dropped":
        return (rest[0], rest[1]), value
    if kind == "generation":
        if value.tasks > MOST_TASKS or value.lanes > MOST_LANES:
            raise Unsound(f"it claims {value.tasks} tasks with {value.lanes} lanes each")
        return GenerationKey(*rest), value
    return None, value
