"""The ledger's records as they lie in the topic, and back. Pure.

Keys and values are JSON, so that ``kcat -C -t _shipper.web`` is all that a person needs to look.

A ledger is a topic, and others may be able to write to it. So nothing of it is used before it is checked: no text where a number is expected,
no number that is negative or beyond anything that shipper writes, no name that cannot be written back. What a record says may still be
untrue; it cannot be harmful.
"""

from __future__ import annotations

import json
import math
import types
import typing
from collections.abc import Callable
from dataclasses import asdict, fields
from typing import Any, NamedTuple

from shipper.errors import LedgerDamaged
from shipper.ledger.intervals import Interval, decode_ordinals
from shipper.ledger.records import (
    CHUNKS,
    CONTROL,
    MOST_LANES,
    MOST_TASKS,
    Archive,
    Attempt,
    Begun,
    ChunkKey,
    ChunkValue,
    Decoded,
    Doubt,
    Generation,
    GenerationKey,
    Lease,
    NamedSnapshot,
    PassedOver,
    QuarantineReplay,
    ReplayKey,
    SourceRoot,
    Void,
)
from shipper.types import EncodedRecord, FileId, LogRecord, PartitionOffset, SplitId

#: Also the largest checksum.
MOST = (1 << 64) - 1
#: HDFS takes paths of 8,000 characters, S3 keys of 1,024 bytes.
LONGEST_PATH = 32_768
_LONGEST_TEXT = 4_096
_LONGEST_NAME = 249
_MOST_MOMENT_MS = 1 << 62

FieldCheck = Callable[[Any], bool]


class Unsound(ValueError):
    """What is wrong with it, without its bytes."""


def parse(data: bytes) -> Any:
    """JSON. Raises Unsound for anything else, however it is nested."""
    try:
        return json.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise Unsound("it is no JSON") from error


def is_count(value: Any) -> bool:
    """An ordinal, a number of bytes, an offset, a checksum."""
    return type(value) is int and 0 <= value <= MOST


def is_moment(value: Any) -> bool:
    """Milliseconds since the epoch; a file system may well say that a file is older."""
    return type(value) is int and -_MOST_MOMENT_MS <= value <= _MOST_MOMENT_MS


def is_text(value: Any) -> bool:
    return type(value) is str and len(value) <= _LONGEST_TEXT and _encodes(value)


def is_topic(value: Any) -> bool:
    """Empty for a chunk that is in none."""
    return type(value) is str and len(value) <= _LONGEST_NAME and _encodes(value)


def is_path(value: Any) -> bool:
    return type(value) is str and 0 < len(value) <= LONGEST_PATH and _encodes(value)


def _encodes(text: str) -> bool:
    r"""JSON can hold half a surrogate pair (``"\ud800"``), which nothing can write back."""
    if text.isascii():
        return True
    try:
        return bool(text.encode())
    except UnicodeEncodeError:
        return False


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value) and 0 <= value <= MOST


def _is_ordinals(value: Any) -> bool:
    """Runs in order, and no ordinal twice."""
    try:
        previous_end = 0
        for run in decode_ordinals(value) if type(value) is str else [Interval(1, 0)]:
            if not previous_end <= run.first < run.end <= MOST:
                return False
            previous_end = run.end
    except ValueError:
        return False
    return True


def _is_counts(value: Any) -> bool:
    return type(value) is dict and all(is_text(name) and is_count(count) for name, count in value.items())


def _is_names(value: Any) -> bool:
    return type(value) is list and all(is_topic(name) for name in value)


_OF_TYPE: dict[Any, FieldCheck] = {
    int: is_count,
    float: _is_number,
    bool: lambda value: type(value) is bool,
    str: is_text,
    dict[str, int]: _is_counts,
    tuple[str, ...]: _is_names,
}
_OF_NAME: dict[str, FieldCheck] = {"ordinals": _is_ordinals, "without": _is_ordinals, "topic": is_topic}


class ValueShape:
    """Of one kind of record: which fields it has, and what each may be. Derived from the dataclass, so that a new field is checked too."""

    def __init__(self, record: type) -> None:
        hints = typing.get_type_hints(record)
        self._record = record
        self._checks = {field.name: _check(field.name, hints[field.name]) for field in fields(record)}
        self._lists = [name for name, hint in hints.items() if tuple[str, ...] in _options(hint)]

    def read(self, value: bytes) -> Any:
        """Raises Unsound."""
        found = parse(value)
        if type(found) is not dict:
            raise Unsound("its value is no JSON object")
        for name, content in found.items():
            check = self._checks.get(name)
            if check is None:
                raise Unsound(f"its value has a field {name[:40]!r} that this shipper does not know: is it of a newer shipper?")
            if not check(content):
                raise Unsound(f"its value's field {name!r} cannot be right")
        for name in self._lists:
            if name in found and found[name] is not None:
                found[name] = tuple(found[name])
        try:
            return self._record(**found)
        except TypeError as error:
            raise Unsound("its value lacks fields") from error


def _options(hint: Any) -> tuple[Any, ...]:
    return typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)


def _check(name: str, hint: Any) -> FieldCheck:
    options = _options(hint)
    [check] = [_OF_NAME.get(name) or _OF_TYPE[option] for option in options if option is not type(None)]
    return (lambda value: value is None or check(value)) if type(None) in options else check


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


def encode_chunk(pipeline: str, key: ChunkKey, value: ChunkValue) -> EncodedRecord:
    return EncodedRecord(encode_chunk_key(pipeline, key), encode_chunk_value(value))


def encode_generation(pipeline: str, value: Generation, cluster: str | None = None) -> EncodedRecord:
    """One key per name of the cluster: the lanes that it had under another one are not forgotten."""
    return EncodedRecord(_pack("generation", pipeline, *([] if cluster is None else [cluster])), _value(value))


def encode_fenced(pipeline: str, cluster: str, generation: int, value: Generation | None) -> EncodedRecord:
    """None: a later one says more."""
    return EncodedRecord(_pack("generation", pipeline, cluster, generation), None if value is None else _value(value))


def encode_lease(pipeline: str, value: Lease) -> EncodedRecord:
    """One key per run, so that compaction never lets one run's claim hide another's."""
    return EncodedRecord(_pack("lease", pipeline, value.run_id), _value(value))


def encode_attempt(pipeline: str, task: int, value: Attempt) -> EncodedRecord:
    return EncodedRecord(_pack("attempt", pipeline, task, value.attempt), _value(value))


def encode_void(pipeline: str, file: FileId, value: Void) -> EncodedRecord:
    return EncodedRecord(_pack("void", pipeline, *file), _value(value))


def encode_doubt(pipeline: str, file: FileId, value: Doubt) -> EncodedRecord:
    return EncodedRecord(_pack("doubt", pipeline, *file), _value(value))


def encode_replay(pipeline: str, key: ReplayKey, value: QuarantineReplay) -> EncodedRecord:
    return EncodedRecord(_pack("replay", pipeline, *key.split.file, key.split.start, key.ordinal), _value(value))


def encode_archive(pipeline: str, value: Archive) -> EncodedRecord:
    return EncodedRecord(_pack("archive", pipeline), _value(value))


def encode_named_snapshot(pipeline: str, value: NamedSnapshot) -> EncodedRecord:
    return EncodedRecord(_pack("kept", pipeline), _value(value))


def encode_source(pipeline: str, root: str, value: SourceRoot) -> EncodedRecord:
    return EncodedRecord(_pack("source", pipeline, root), _value(value))


def encode_begun(pipeline: str, value: Begun) -> EncodedRecord:
    return EncodedRecord(_pack("begun", pipeline), _value(value))


def encode_passed_over(pipeline: str, place: PartitionOffset, value: PassedOver) -> EncodedRecord:
    return EncodedRecord(_pack("dropped", pipeline, *place), _value(value))


class _Kind(NamedTuple):
    """What there is to know of one kind of record."""

    value: ValueShape
    key: tuple[FieldCheck, ...] = ()
    """What comes behind kind and pipeline."""
    more_key: tuple[FieldCheck, ...] = ()
    """What a newer shipper adds to it."""
    partition: int = CONTROL
    of_a_file: bool = False
    """Whether its key begins with a file."""


_FILE = (is_path, is_count, is_moment)
_KINDS = {
    "chunk": _Kind(ValueShape(ChunkValue), (*_FILE, is_count, is_count, is_topic), partition=CHUNKS, of_a_file=True),
    "replay": _Kind(ValueShape(QuarantineReplay), (*_FILE, is_count, is_count), partition=CHUNKS, of_a_file=True),
    "archive": _Kind(ValueShape(Archive), partition=CHUNKS),
    "void": _Kind(ValueShape(Void), _FILE, of_a_file=True),
    "doubt": _Kind(ValueShape(Doubt), _FILE, of_a_file=True),
    "generation": _Kind(ValueShape(Generation), more_key=(is_text, is_count)),
    "lease": _Kind(ValueShape(Lease), (is_text,)),
    "attempt": _Kind(ValueShape(Attempt), (is_count, is_count)),
    "dropped": _Kind(ValueShape(PassedOver), (is_count, is_count)),
    "begun": _Kind(ValueShape(Begun)),
    "kept": _Kind(ValueShape(NamedSnapshot)),
    "source": _Kind(ValueShape(SourceRoot), (is_path,)),
}
_PARTS_OF_CHUNK = 2 + len(_KINDS["chunk"].key)


class Subject(NamedTuple):
    """What a record is about, by its key alone."""

    kind: str
    path: str
    """Of the file; empty for what is about the pipeline."""

    @property
    def partition(self) -> int:
        """Where records of this kind lie."""
        return _KINDS[self.kind].partition


def peek_key(pipeline: str, record: LogRecord) -> Subject | None:
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
    return Subject(kind, rest[0] if _KINDS[kind].of_a_file else "")


def _key(pipeline: str, parts: Any) -> tuple[str, list[Any]] | None:
    """(kind, the rest); None for another pipeline's. Raises Unsound."""
    if type(parts) is not list or len(parts) < 2 or type(parts[0]) is not str or type(parts[1]) is not str:
        raise Unsound("its key is not one of shipper's")
    kind, owner, *rest = parts
    if owner != pipeline:
        return None
    known = _KINDS.get(kind)
    if known is None:
        raise Unsound(f"its kind {kind[:40]!r} is unknown: is it of a newer shipper?")
    checks = known.key
    if len(rest) > len(checks):
        checks += known.more_key[: len(rest) - len(checks)]
    if len(rest) != len(checks):
        raise Unsound(f"its key is none of a {kind} record")
    for check, part in zip(checks, rest, strict=True):  # asked of every record of the ledger
        if not check(part):
            raise Unsound(f"its key is none of a {kind} record")
    return kind, rest


def decode(pipeline: str, record: LogRecord) -> Decoded | None:
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
        value = _KINDS[kind].value.read(record.value)
        return _decoded(kind, rest, value)
    except Unsound as why:
        raise LedgerDamaged.at(pipeline, _KINDS[kind].partition, record.offset, str(why)) from why


def _decoded(kind: str, rest: list[Any], value: Any) -> Decoded:
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
        return PartitionOffset(*rest), value
    if kind == "generation":
        if value.tasks > MOST_TASKS or value.lanes > MOST_LANES:
            raise Unsound(f"it claims {value.tasks} tasks with {value.lanes} lanes each")
        return GenerationKey(*rest), value
    return None, value
