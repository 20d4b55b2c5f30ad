"""Encode and decode the ledger's records. Pure.

Keys and values are JSON, so that a person can read them with ``kcat -C -t _shipper.web``. Every key
begins with the format, the kind and the pipeline: ``[1,"chunk","web",…]``.

A ledger is a topic, and others may be able to write to it. So every value is checked before it is
used: no text instead of a number, no number that is negative or beyond anything that shipper
writes, no name that cannot be written back. A checked record may still be untrue, but it cannot be
harmful.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any, NamedTuple, get_args

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic_core import from_json

from shipper.errors import LedgerDamaged
from shipper.ledger.records import (
    CHUNKS,
    CONTROL,
    FORMAT,
    LONGEST_PATH,
    Alias,
    Archive,
    Attempt,
    AttemptKey,
    ChunkKey,
    ChunkValue,
    Count,
    Decoded,
    Generation,
    GenerationKey,
    Heir,
    Identity,
    Invalidation,
    InvalidationKey,
    Lease,
    MomentMs,
    NamedSnapshot,
    Path,
    Text,
    Topic,
)
from shipper.types import EncodedRecord, FileId, LogRecord, PartitionOffset, SplitId


class Unsound(ValueError):
    """Fault of a record, described without its bytes."""


def parse(data: bytes) -> Any:
    """Parse JSON. Raises Unsound for anything else, however it is nested."""
    try:
        return from_json(data)
    except ValueError as error:
        raise Unsound("it is not JSON") from error


class _Kind:
    """One kind of record: the types of its key's parts, and of its value."""

    def __init__(
        self,
        record: type,
        key: Any = tuple[()],
        *,
        partition: int = CONTROL,
        of_a_file: bool = False,
    ) -> None:
        """Make the kind. ``key``: types of the parts of the key behind format, kind and pipeline.
        ``of_a_file``: True if these parts begin with a file."""
        self.partition, self.of_a_file = partition, of_a_file
        self._record, self._key = record, key

    @cached_property
    def _values(self) -> TypeAdapter[Any]:
        return TypeAdapter(self._record)

    @cached_property
    def _keys(self) -> TypeAdapter[tuple[Any, ...]]:
        return TypeAdapter(self._key, config=ConfigDict(strict=True))

    def key(self, parts: Iterable[Any]) -> tuple[Any, ...]:
        """Check the parts of a key. Raises ValueError."""
        return self._keys.validate_python(tuple(parts))

    def read(self, value: bytes) -> Any:
        """Parse and check a value. Raises Unsound."""
        try:
            return self._values.validate_json(value)
        except ValidationError as error:
            fault = error.errors(include_url=False, include_context=False, include_input=False)[0]
            raise Unsound(_why(fault["type"], str(next(iter(fault["loc"]), "")))) from error


def _why(fault: str, field: str) -> str:
    """Return what is wrong, by pydantic's type of error."""
    match fault:
        case "json_invalid":
            return "it is not JSON"
        case "dataclass_type":
            return "its value is not a JSON object"
        case "missing":
            return "its value lacks fields"
        case "unexpected_keyword_argument":
            return (
                f"its value has an unknown field {field[:40]!r}; a newer version of shipper may "
                "have written it"
            )
    return f"its value's field {field!r} cannot be right"


def _pack(*parts: Any) -> bytes:
    return json.dumps((FORMAT, *parts), separators=(",", ":"), ensure_ascii=False).encode()


def _value(record: object) -> bytes:
    """Leave out fields without a value: a decoder knows their defaults."""
    fields = {name: value for name, value in vars(record).items() if value is not None}
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()


def _record(*key: Any, value: object) -> EncodedRecord:
    return EncodedRecord(_pack(*key), None if value is None else _value(value))


def encode_chunk_key(pipeline: str, key: ChunkKey) -> bytes:
    return _pack("chunk", pipeline, *key.split.file, key.split.start, key.first, key.topic)


def encode_chunk_value(value: ChunkValue) -> bytes:
    return _value(value)


def encode_chunk(pipeline: str, key: ChunkKey, value: ChunkValue) -> EncodedRecord:
    return EncodedRecord(encode_chunk_key(pipeline, key), encode_chunk_value(value))


def encode_alias(pipeline: str, file: FileId, value: Alias) -> list[EncodedRecord]:
    """Encode that ``file`` is another one, and that this other one is it: who asks about either
    finds it."""
    heir = Heir(*file, value.generation, value.run_id)
    return [
        _record("alias", pipeline, *file, value=value),
        _record("heir", pipeline, *value.original, value=heir),
    ]


def encode_generation(pipeline: str, key: GenerationKey, value: Generation | None) -> EncodedRecord:
    """Encode the announcement; with None its tombstone, since all its lanes are fenced."""
    return _record("generation", pipeline, *key, value=value)


def encode_lease(pipeline: str, value: Lease) -> EncodedRecord:
    """Give each run a key of its own, so that compaction never lets one run's claim hide
    another's."""
    return _record("lease", pipeline, value.run_id, value=value)


def encode_attempt(pipeline: str, key: AttemptKey, value: Attempt | None) -> EncodedRecord:
    """Encode the attempt; with None its tombstone, since its generation is over."""
    return _record("attempt", pipeline, *key, value=value)


def encode_invalidation(
    pipeline: str, file: FileId, generation: int, value: Invalidation
) -> EncodedRecord:
    return _record("invalidation", pipeline, *file, generation, value=value)


def encode_archive_key(pipeline: str) -> bytes:
    return _pack("archive", pipeline)


def encode_archive(pipeline: str, value: Archive) -> EncodedRecord:
    return _record("archive", pipeline, value=value)


def encode_named_snapshot(pipeline: str, value: NamedSnapshot) -> EncodedRecord:
    return _record("snapshot", pipeline, value=value)


def encode_identity(pipeline: str, value: Identity) -> EncodedRecord:
    return _record("identity", pipeline, value=value)


_FILE = tuple[Path, Count, MomentMs]
_CHUNK = tuple[Path, Count, MomentMs, Count, Count, Topic]
_KINDS = {
    "chunk": _Kind(ChunkValue, _CHUNK, partition=CHUNKS, of_a_file=True),
    "alias": _Kind(Alias, _FILE, partition=CHUNKS, of_a_file=True),
    "heir": _Kind(Heir, _FILE, partition=CHUNKS, of_a_file=True),
    "archive": _Kind(Archive, partition=CHUNKS),
    "invalidation": _Kind(Invalidation, tuple[Path, Count, MomentMs, Count], of_a_file=True),
    "generation": _Kind(Generation, tuple[Text, Text]),
    "lease": _Kind(Lease, tuple[Text]),
    "attempt": _Kind(Attempt, tuple[Count, Count, Count, bool]),
    "snapshot": _Kind(NamedSnapshot),
    "identity": _Kind(Identity),
}
_BEFORE_THE_PARTS = 3
_PARTS_OF_CHUNK = _BEFORE_THE_PARTS + len(get_args(_CHUNK))
#: Kinds of the development versions before format 1, whose keys began with the kind.
FORMER_FORMAT = "a development version of shipper, before ledger format 1, wrote it"
_FORMER_KINDS = frozenset(
    [
        "chunk",
        "replay",
        "archive",
        "void",
        "doubt",
        "generation",
        "lease",
        "attempt",
        "dropped",
        "begun",
        "kept",
        "source",
    ]
)


class Subject(NamedTuple):
    """Kind of a record and the file that it is about, read from its key alone."""

    kind: str
    path: str
    """Path of the file; empty for a record about the pipeline."""

    @property
    def partition(self) -> int:
        """Partition where records of this kind lie."""
        return _KINDS[self.kind].partition


def peek_key(pipeline: str, record: LogRecord) -> Subject | None:
    """Return the subject of the record; None for a record of another pipeline, and for a tombstone
    of a key that is not shipper's.

    Much cheaper than :func:`decode`, which checks the rest of a chunk's key too. Raises
    LedgerDamaged.
    """
    try:
        parts = parse(record.key)
        # Nearly all records of a ledger are chunks, and of most of them no more than this is
        # needed.
        if (
            type(parts) is list
            and len(parts) == _PARTS_OF_CHUNK
            and parts[0] == FORMAT
            and parts[1] == "chunk"
            and parts[2] == pipeline
            and type(parts[3]) is str
            and 0 < len(parts[3]) <= LONGEST_PATH
        ):
            return Subject("chunk", parts[3])
        found = _key(pipeline, parts)
    except Unsound as why:
        if record.value is None:
            return None
        raise LedgerDamaged.at(pipeline, None, record.offset, str(why)) from why
    if found is None:
        return None
    kind, rest = found
    return Subject(kind, rest[0] if _KINDS[kind].of_a_file else "")


def _key(pipeline: str, parts: Any) -> tuple[str, tuple[Any, ...]] | None:
    """Return (kind, the rest); None for another pipeline's record. Raises Unsound."""
    if type(parts) is not list or len(parts) < 2:
        raise Unsound("its key is not one of shipper's")
    if type(parts[0]) is str and parts[0] in _FORMER_KINDS and type(parts[1]) is str:
        if parts[1] == pipeline:
            raise Unsound(FORMER_FORMAT)
        return None
    if (
        type(parts[0]) is not int
        or len(parts) < _BEFORE_THE_PARTS
        or type(parts[1]) is not str
        or type(parts[2]) is not str
    ):
        raise Unsound("its key is not one of shipper's")
    format, kind, owner, *rest = parts
    if owner != pipeline:
        return None
    if format != FORMAT:
        raise Unsound(
            f"its format is {format}, and this version reads {FORMAT}; a newer version of "
            "shipper may have written it"
        )
    known = _KINDS.get(kind)
    if known is None:
        raise Unsound(
            f"its kind {kind[:40]!r} is unknown; a newer version of shipper may have written it"
        )
    try:
        return kind, known.key(rest)
    except ValueError as error:
        raise Unsound(f"its key is not that of a {kind} record") from error


def file_of(pipeline: str, key: bytes) -> FileId | None:
    """Return the file that a record's key names; None for a key that names none. Raises Unsound."""
    found = _key(pipeline, parse(key))
    return FileId(*found[1][:3]) if found and _KINDS[found[0]].of_a_file else None


def decode(pipeline: str, record: LogRecord) -> Decoded | None:
    """Return the record, if it is this pipeline's. None for another's (a ledger may be shared), and
    for a tombstone of any kind but lease and generation.

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
        if kind == "generation":
            return GenerationKey(*rest), None
        return (rest[0], None) if kind == "lease" else None
    try:
        value = _KINDS[kind].read(record.value)
        return _decoded(kind, rest, value)
    except Unsound as why:
        raise LedgerDamaged.at(pipeline, _KINDS[kind].partition, record.offset, str(why)) from why


class Damage(NamedTuple):
    """A record that shipper did not write, or that cannot be right, and behind which no sound
    record of its key came."""

    partition: int
    record: LogRecord
    why: str

    @property
    def place(self) -> PartitionOffset:
        return PartitionOffset(self.partition, self.record.offset)


DecodedRecord = tuple[LogRecord, Decoded | None]
"""Record with its entry, as :func:`decode` returns it."""


def decode_sound(
    pipeline: str, partition: int, records: Iterable[LogRecord], damaged: dict[bytes, Damage]
) -> Iterator[DecodedRecord]:
    """Yield each sound record of ``partition``, decoded. Keep in ``damaged``, by key, those that
    are not, until a sound one of the key comes."""
    for record in records:
        try:
            entry = decode(pipeline, record)
        except LedgerDamaged as error:
            damaged[record.key] = Damage(partition, record, error.why)
            continue
        damaged.pop(record.key, None)
        yield record, entry


def _decoded(kind: str, rest: tuple[Any, ...], value: Any) -> Decoded:
    """Decode a record's value. Raises Unsound."""
    match kind:
        case "chunk":
            path, size, modified, start, first, topic = rest
            if value.last < first:
                raise Unsound(f"it ends at record {value.last}, before its first record, {first}")
            split = SplitId(FileId(path, size, modified), start)
            return ChunkKey(split, first, topic), value
        case "alias" | "heir":
            return FileId(*rest), value
        case "invalidation":
            return InvalidationKey(FileId(*rest[:3]), rest[3]), value
        case "attempt":
            return AttemptKey(*rest), value
        case "lease":
            return rest[0], value
        case "generation":
            return GenerationKey(*rest), value
    return None, value
