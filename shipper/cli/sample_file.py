"""Recognition of a log file by its beginning: its packing, its records, and the place of their
time."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import re
from codecs import BOM_UTF8
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from shipper.config.formats import Format
from shipper.driver.recognition import (
    BZIP2,
    GZIP,
    HEAD_BYTES,
    LZ4,
    PLAIN,
    SNAPPY,
    ZSTD,
    recognise,
    wide_encoding,
)
from shipper.errors import UsageError, why_system

_LOOKED_AT_BYTES, _LOOKED_AT_LINES = 512_000, 200
_MOST = 0.9
"""Share of the records that must be alike; others are a stack's lines, say."""
_CLOCK = "[0-9]{2}:[0-9]{2}:[0-9]{2}"
_DATE = "[0-9]{4}-[0-9]{2}-[0-9]{2}[T ]"
#: Pattern of a time → Spark SQL that makes a TIMESTAMP of it, and its unit. No backslash, which
#: both SQL's strings and YAML's would need doubled.
_TIMES = {
    f"{_DATE}{_CLOCK}(?:[.,][0-9]+)?(?:Z|[+-][0-9]{{2}}:?[0-9]{{2}})?": (
        "try_to_timestamp({})",
        "",
    ),
    f"[0-9]{{4}}/[0-9]{{2}}/[0-9]{{2}} {_CLOCK}": (
        "try_to_timestamp({}, 'yyyy/MM/dd HH:mm:ss')",
        "",
    ),  # nginx's error log
    f"[0-9]{{2}}/[A-Z][a-z]{{2}}/[0-9]{{4}}:{_CLOCK} [+-][0-9]{{4}}": (
        "try_to_timestamp({}, 'dd/MMM/yyyy:HH:mm:ss Z')",
        "",
    ),
}
#: A field that is only a number of seconds or milliseconds; between 2001 and 2096.
_NUMBERS = {
    "[1-3][0-9]{12}": ("timestamp_millis(try_cast({} AS BIGINT))", ", in milliseconds"),
    "[1-3][0-9]{9}([.][0-9]+)?": ("timestamp_seconds(try_cast({} AS DOUBLE))", ", in seconds"),
}
_TABLES: dict[bytes, Format] = {b"PAR1": "parquet", b"Obj\x01": "avro", b"ORC": "orc"}
_OPENERS: dict[str, Callable[[IO[bytes]], Any]] = {
    PLAIN: lambda file: file,
    GZIP: lambda file: gzip.GzipFile(fileobj=file),
    BZIP2: bz2.BZ2File,
    ZSTD: lambda file: _unpacked(file, "zstd"),
    LZ4: lambda file: _unpacked(file, "lz4"),
}


@dataclass(frozen=True)
class Time:
    """Place of the time in a line."""

    shown: str
    """Example of the time, for a comment."""
    sql: str
    """Expression of type TIMESTAMP; null if a line has no time."""


@dataclass(frozen=True)
class SampleFile:
    packed: str
    """``plain``, ``gzip``, …"""
    json: bool = False
    """True if its records are JSON objects, or become some."""
    lines: int = 0
    """Number of lines that were looked at; of CSV and of tables, rows."""
    time: Time | None = None
    format: Format = "text"
    """Format as `source.format` has it; ``text`` also for JSON lines among which are others."""
    delimiter: str = ","
    """Delimiter of CSV."""
    encoding: str = ""
    """Encoding of its text as `source.encoding` has it; empty: UTF-8."""
    starts_with: str = ""
    """Beginning of records of several lines, such as those with a stack trace."""


def look_at(path: Path) -> SampleFile:
    """Look at a file. Raises UsageError for a file that cannot be read, or that shipper would
    refuse."""
    try:
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
            format = next(
                (format for magic, format in _TABLES.items() if head.startswith(magic)), None
            )
            if format and (
                format != "orc" or path.suffix == ".orc"
            ):  # ORC: a text may begin with these three letters
                return _look_at_table(path, format)
            found = recognise(path.name, head)
            if found.problem:
                raise UsageError(f"{path}: {found.problem}", code="SHIP-301")
            if found.format == SNAPPY:
                return SampleFile(SNAPPY)  # Python cannot unpack these frames
            file.seek(0)
            beginning = _beginning(_OPENERS[found.format](file))
    except (OSError, EOFError, ValueError, RuntimeError) as error:  # pyarrow's are of these
        why = why_system(error) if isinstance(error, OSError) else f"{path}: {error}"
        raise UsageError(f"The sample cannot be read: {why}.", code="SHIP-104") from error
    encoding = wide_encoding(beginning[:HEAD_BYTES])
    text = beginning.removeprefix(BOM_UTF8).decode(encoding or "utf-8", errors="replace")
    whole = len(beginning) < _LOOKED_AT_BYTES
    return replace(_look_at_text(path.name, found.format, text, whole=whole), encoding=encoding)


def _unpacked(file: IO[bytes], codec: str) -> Any:
    arrow = _arrow("pyarrow")
    return arrow.CompressedInputStream(arrow.PythonFile(file, mode="r"), codec)


def _arrow(module: str) -> Any:
    """Import pyarrow, which comes with the extra `spark` alone. Raises UsageError."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise UsageError(
            "a sample of this format needs pyarrow, which is not installed. Nothing was written. "
            "Install the wheel with its extra `spark`, or give an unpacked sample of text.",
            code="SHIP-110",
        ) from error


def _beginning(opened: Any) -> bytes:
    parts, left = [], _LOOKED_AT_BYTES
    while left and (part := bytes(opened.read(left))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _look_at_table(path: Path, format: Format) -> SampleFile:
    """Look at its rows as the JSON objects that they become. Of Avro, which nothing here reads,
    only the format is known."""
    rows: list[dict[str, Any]] = []
    if format != "avro":
        tables = _arrow("pyarrow.dataset").dataset(path, format=format)
        rows = tables.head(_LOOKED_AT_LINES).to_pylist()
    objects = [{name: value for name, value in row.items() if value is not None} for row in rows]
    return SampleFile(PLAIN, True, len(rows), _time_of_objects(objects), format)


def _look_at_text(name: str, packed: str, text: str, *, whole: bool) -> SampleFile:
    for delimiter in (",", "\t", ";", "|"):
        if rows := _rows(name, text, delimiter, whole=whole):
            return SampleFile(packed, True, len(rows), _time_of_objects(rows), "csv", delimiter)
    lines = text.split("\n")[: None if whole else -1]  # the last one is cut off
    lines = [line.rstrip("\r") for line in lines if line.strip()][:_LOOKED_AT_LINES]
    objects = [each for line in lines if (each := _object(line)) is not None]
    if objects and len(objects) >= _MOST * len(lines):
        format: Format = "jsonl" if len(objects) == len(lines) else "text"
        return SampleFile(packed, True, len(lines), _time_of_objects(objects), format)
    starts_with, first = _records(lines)
    return SampleFile(packed, False, len(lines), _time_of_text(first), starts_with=starts_with)


def _rows(name: str, text: str, delimiter: str, *, whole: bool) -> list[dict[str, str]]:
    """Return the rows of CSV with a header; none for anything else. By a file's name, two fields
    are enough; without it, three whose names are words, and each row as many."""
    if delimiter not in text.partition("\n")[0]:
        return []
    try:
        found = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=whole))
    except csv.Error:
        return []
    head, *rows = [row for row in found[: None if whole else -1] if row][
        : _LOOKED_AT_LINES + 1
    ] or [[]]
    right = [row for row in rows if len(row) == len(head)]
    words = len(head) > 2 and all(re.fullmatch(r"[A-Za-z_][\w .-]*", field) for field in head)
    is_csv = re.search(r"\.(csv|tsv)(\.\w+)?$", name.lower()) or (words and len(right) == len(rows))
    return [dict(zip(head, row, strict=True)) for row in right] if is_csv else []


def _object(line: str) -> dict[str, Any] | None:
    """Return the object; empty if it is deeper than Python reads."""
    with suppress(ValueError):
        try:
            found = json.loads(line, parse_constant=_no_number, parse_int=str, parse_float=str)
        except RecursionError:
            return {} if line.lstrip().startswith("{") else None
        return found if isinstance(found, dict) else None
    return None


def _no_number(name: str) -> None:
    raise ValueError(f"JSON has no {name}")


def _records(lines: Sequence[str]) -> tuple[str, list[str]]:
    """Return the pattern with which records of several lines begin, and their first lines; ``""``
    and all lines where each line is a record: nearly all begin with a date, or the others do not
    look like continuations of the lines before them."""
    first = [line for line in lines if re.match(_DATE, line)]
    others = [line for line in lines if not re.match(_DATE, line)]
    belong = [
        line
        for line in others
        if re.match(r"\s|Caused by|Traceback|[\w.$]+(Error|Exception)\b", line)
    ]
    if not first or first[0] != lines[0] or len(belong) < max(1, len(others) / 2):
        return "", list(lines)
    return _DATE, first


def _time_of_objects(objects: Sequence[Mapping[str, Any]]) -> Time | None:
    """Return the first field that holds a time in nearly all of them."""
    for name in objects[0] if objects else ():
        if re.fullmatch(r"[\w@-]+", name):
            path = f"$.{name}" if re.fullmatch(r"\w+", name) else f"$[\\'{name}\\']"
            values = [str(found[name]) for found in objects if name in found]
            for pattern, (sql, unit) in (_TIMES | _NUMBERS).items():
                if found := _most(
                    [value for value in values if re.fullmatch(pattern, value)], objects
                ):
                    return _time(
                        f"{name}: {found[0]}{unit}", sql, f"get_json_object(value, '{path}')", found
                    )
    return None


def _time_of_text(lines: Sequence[str]) -> Time | None:
    for pattern, (sql, _) in _TIMES.items():
        if found := _most(
            [match[0] for line in lines if (match := re.search(pattern, line[:500]))], lines
        ):
            return _time(found[0], sql, f"regexp_extract(value, '({pattern})', 1)", found)
    return None


def _most(found: list[str], of: Sequence[Any]) -> list[str]:
    return found if len(found) >= _MOST * len(of) else []


def _time(shown: str, sql: str, column: str, found: Sequence[str]) -> Time:
    """Return the place of the time. Python's logging writes ``12:00:00,123``."""
    return Time(
        shown,
        sql.format(
            f"replace({column}, ',', '.')" if any("," in value for value in found) else column
        ),
    )
