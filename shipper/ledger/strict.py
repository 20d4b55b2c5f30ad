"""Whether what lies in the ledger can be shipper's: types and bounds of every field. Pure.

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
from dataclasses import fields
from typing import Any

from shipper.ledger.ordinals import decode_ordinals

#: Also the largest checksum.
MOST = (1 << 64) - 1
#: HDFS takes paths of 8,000 characters, S3 keys of 1,024 bytes.
LONGEST_PATH = 32_768
_LONGEST_TEXT = 4_096
_LONGEST_NAME = 249
_MOST_MOMENT_MS = 1 << 62

Check = Callable[[Any], bool]


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
    """In order, and none twice."""
    try:
        behind = 0
        for first, end in decode_ordinals(value) if type(value) is str else [(1, 0)]:
            if not behind <= first < end <= MOST:
                return False
            behind = end
    except ValueError:
        return False
    return True


def _is_counts(value: Any) -> bool:
    return type(value) is dict and all(is_text(name) and is_count(count) for name, count in value.items())


def _is_names(value: Any) -> bool:
    return type(value) is list and all(is_topic(name) for name in value)


_OF_TYPE: dict[Any, Check] = {
    int: is_count,
    float: _is_number,
    bool: lambda value: type(value) is bool,
    str: is_text,
    dict[str, int]: _is_counts,
    tuple[str, ...]: _is_names,
}
_OF_NAME: dict[str, Check] = {"ordinals": _is_ordinals, "without": _is_ordinals, "topic": is_topic}


class Shape:
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


def _check(name: str, hint: Any) -> Check:
    options = _options(hint)
    [check] = [_OF_NAME.get(name) or _OF_TYPE[option] for option in options if option is not type(None)]
    return (lambda value: value is None or check(value)) if type(None) in options else check
