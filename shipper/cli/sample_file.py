"""What the beginning of a log file says of the file: how it is packed, whether its lines are JSON, and where their time stands."""

from __future__ import annotations

import bz2
import gzip
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from shipper.driver.formats import BZIP2, GZIP, HEAD_BYTES, LZ4, PLAIN, ZSTD, recognise
from shipper.errors import UsageError

_LOOKED_AT_BYTES, _LOOKED_AT_LINES = 512_000, 200
_MOST_OTHERS = 0.1
"""Share of the lines that may be of another kind, such as a stack's."""
#: Without a backslash, which SQL's strings and YAML's would each want doubled.
_DIGIT = "[0-9]"
_CLOCK = f"{_DIGIT}{{2}}:{_DIGIT}{{2}}:{_DIGIT}{{2}}"
_ZONE = f"Z|[+-]{_DIGIT}{{2}}:?{_DIGIT}{{2}}"
_ISO = f"{_DIGIT}{{4}}-{_DIGIT}{{2}}-{_DIGIT}{{2}}[T ]{_CLOCK}(?:[.,]{_DIGIT}+)?(?:{_ZONE})?"


@dataclass(frozen=True)
class Time:
    """Where a line's time stands."""

    shown: str
    """For a comment: an example of it."""
    sql: str
    """Of type TIMESTAMP; null where a line has none."""


@dataclass(frozen=True)
class SampleFile:
    packed: str
    """``plain``, ``gzip``, …"""
    json: bool
    lines: int
    """Those that were looked at."""
    time: Time | None


def look_at(path: Path) -> SampleFile:
    """Raises UsageError for a file that cannot be read, or that shipper would refuse."""
    try:
        with path.open("rb") as file:
            found = recognise(path.name, file.read(HEAD_BYTES))
            if found.problem:
                raise UsageError(f"{path}: {found.problem}")
            file.seek(0)
            beginning = _unpacked(found.format, file)
    except (OSError, EOFError, pa.ArrowException) as error:
        raise UsageError(f"{path} cannot be read: {error}") from error
    lines = beginning.decode(errors="replace").split("\n")
    if len(beginning) == _LOOKED_AT_BYTES and len(lines) > 1:
        del lines[-1]  # cut off
    lines = [line.rstrip("\r") for line in lines if line.strip()][:_LOOKED_AT_LINES]
    objects = [each for line in lines if (each := _object(line)) is not None]
    is_json = bool(objects) and len(objects) >= (1 - _MOST_OTHERS) * len(lines)
    return SampleFile(found.format, is_json, len(lines), _time_of_objects(objects) if is_json else _time_of_text(lines))


_OPENERS: dict[str, Callable[[IO[bytes]], Any]] = {
    PLAIN: lambda file: file,
    GZIP: lambda file: gzip.GzipFile(fileobj=file),
    BZIP2: bz2.BZ2File,
    ZSTD: lambda file: pa.CompressedInputStream(pa.PythonFile(file, mode="r"), "zstd"),
    LZ4: lambda file: pa.CompressedInputStream(pa.PythonFile(file, mode="r"), "lz4"),
}


def _unpacked(packed: str, file: IO[bytes]) -> bytes:
    opened, parts, left = _OPENERS[packed](file), [], _LOOKED_AT_BYTES
    while left and (part := bytes(opened.read(left))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _object(line: str) -> dict[str, Any] | None:
    with suppress(ValueError, RecursionError):
        found = json.loads(line)
        return found if isinstance(found, dict) else None
    return None


def _time_of_objects(objects: Sequence[dict[str, Any]]) -> Time | None:
    """The first field that holds a time in nearly all of them."""
    for name in objects[0]:
        if not re.fullmatch(r"[\w@-]+", name):
            continue
        values = [found[name] for found in objects if name in found]
        field = (
            f"get_json_object(value, '$.{name}')" if re.fullmatch(r"\w+", name) else f"get_json_object(value, '$[\\'{name}\\']')"
        )
        if _most(values, objects, lambda value: isinstance(value, str) and re.fullmatch(_ISO, value)):
            return Time(f"{name}: {values[0]}", f"try_to_timestamp({_with_point(field, values)})")
        if _most(values, objects, lambda value: _is_epoch(value, 1_000)):
            return Time(f"{name}: {values[0]}, in milliseconds", f"timestamp_millis(try_cast({field} AS BIGINT))")
        if _most(values, objects, lambda value: _is_epoch(value, 1)):
            return Time(f"{name}: {values[0]}, in seconds", f"timestamp_seconds(try_cast({field} AS DOUBLE))")
    return None


def _with_point(sql: str, values: Sequence[Any]) -> str:
    """Python's logging writes ``12:00:00,123``."""
    return f"replace({sql}, ',', '.')" if any("," in str(value) for value in values) else sql


def _is_epoch(value: Any, per_second: int) -> bool:
    """Between 2001 and 2096."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 1e9 * per_second <= value < 4e9 * per_second


def _most(values: Sequence[Any], of: Sequence[Any], holds: Callable[[Any], Any]) -> bool:
    return sum(bool(holds(value)) for value in values) >= (1 - _MOST_OTHERS) * max(1, len(of))


def _time_of_text(lines: Sequence[str]) -> Time | None:
    for pattern, sql in _kinds():
        found = [match for line in lines if (match := re.search(pattern, line[:500]))]
        if found and len(found) >= (1 - _MOST_OTHERS) * len(lines):
            return Time(found[0][1], sql([match[1] for match in found]))
    return None


def _kinds() -> Iterator[tuple[str, Callable[[Sequence[str]], str]]]:
    """Python's pattern, whose group is the time, and what makes a TIMESTAMP of the same in Spark."""
    iso = f"regexp_extract(value, '({_ISO})', 1)"
    yield f"({_ISO})", lambda found: f"try_to_timestamp({_with_point(iso, found)})"
    common = f"({_DIGIT}{{2}}/[A-Z][a-z]{{2}}/{_DIGIT}{{4}}:{_CLOCK} [+-]{_DIGIT}{{4}})"  # of access logs
    yield common, lambda found: f"try_to_timestamp(regexp_extract(value, '{common}', 1), 'dd/MMM/yyyy:HH:mm:ss Z')"
