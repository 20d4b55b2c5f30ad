"""What the beginning of a log file says of the file: how it is packed, what its records are (lines, several lines each, JSON, CSV, rows of a table),
and where their time stands."""

from __future__ import annotations

import bz2
import csv
import datetime as dt
import gzip
import io
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from shipper.config.formats import Format
from shipper.driver.formats import (
    BZIP2,
    GZIP,
    HEAD_BYTES,
    LZ4,
    PLAIN,
    SNAPPY,
    ZSTD,
    recognise,
    recognise_table,
)
from shipper.errors import UsageError

_LOOKED_AT_BYTES, _LOOKED_AT_LINES = 512_000, 200
_MOST_OTHERS = 0.1
"""Share of the lines that may be of another kind, such as a stack's."""
#: Without a backslash, which SQL's strings and YAML's would each want doubled.
_DIGIT = "[0-9]"
_CLOCK = f"{_DIGIT}{{2}}:{_DIGIT}{{2}}:{_DIGIT}{{2}}"
_ZONE = f"Z|[+-]{_DIGIT}{{2}}:?{_DIGIT}{{2}}"
_DATE = f"{_DIGIT}{{4}}-{_DIGIT}{{2}}-{_DIGIT}{{2}}[T ]"
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
    """Whether its records are JSON objects, or become some."""
    lines: int
    """Those that were looked at; of CSV and of tables, rows."""
    time: Time | None
    format: Format = "text"
    """As `source.format` has it; ``text`` also for JSON lines of which some are none."""
    delimiter: str = ","
    """Of CSV."""
    starts_with: str = ""
    """What records begin with that have several lines, such as a stack trace's."""


def look_at(path: Path) -> SampleFile:
    """Raises UsageError for a file that cannot be read, or that shipper would refuse."""
    try:
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
            if format := _table_format(path, head, file):
                return _look_at_table(path, format)
            found = recognise(path.name, head)
            if found.problem:
                raise UsageError(f"{path}: {found.problem}")
            if found.format == SNAPPY:
                return SampleFile(SNAPPY, json=False, lines=0, time=None)  # Python has nothing here that unpacks its frames
            file.seek(0)
            beginning = _unpacked(found.format, file)
    except (OSError, EOFError, pa.ArrowException) as error:
        raise UsageError(f"{path} cannot be read: {error}") from error
    text, whole = beginning.decode(errors="replace"), len(beginning) < _LOOKED_AT_BYTES
    if rows := _rows(path.name, text, whole=whole):
        objects = [{name: _number(value) for name, value in row.items()} for row in rows.objects]
        return SampleFile(found.format, True, len(objects), _time_of_objects(objects), "csv", rows.delimiter)
    lines = text.split("\n")
    if not whole and len(lines) > 1:
        del lines[-1]  # cut off
    lines = [line.rstrip("\r") for line in lines if line.strip()][:_LOOKED_AT_LINES]
    objects = [each for line in lines if (each := _object(line)) is not None]
    if objects and len(objects) >= (1 - _MOST_OTHERS) * len(lines):
        format = "jsonl" if len(objects) == len(lines) else "text"
        return SampleFile(found.format, True, len(lines), _time_of_objects(objects), format)
    starts_with, first = _beginnings(lines)
    return SampleFile(found.format, False, len(lines), _time_of_text(first), starts_with=starts_with)


def _table_format(path: Path, head: bytes, file: IO[bytes]) -> Format | None:
    """None for anything else. Raises UsageError for one that is damaged."""
    formats: dict[bytes, Format] = {b"PAR1": "parquet", b"Obj\x01": "avro", b"ORC": "orc"}
    format = next((format for magic, format in formats.items() if head.startswith(magic)), None)
    if format == "orc" and not path.name.lower().endswith(".orc"):
        return None  # three letters with which a text may begin
    if format:
        file.seek(-min(HEAD_BYTES, path.stat().st_size), io.SEEK_END)
        if problem := recognise_table(format, head, file.read()).problem:
            raise UsageError(f"{path}: {problem}")
    return format


def _look_at_table(path: Path, format: Format) -> SampleFile:
    """Its rows as the JSON objects that they become. Of Avro, which nothing here reads, only that it is."""
    rows: list[dict[str, Any]] = []
    if format == "parquet":
        import pyarrow.parquet as pq

        rows = next(pq.ParquetFile(path).iter_batches(_LOOKED_AT_LINES), pa.record_batch([], [])).to_pylist()
    elif format == "orc":
        from pyarrow import orc

        file = orc.ORCFile(path)
        rows = file.read_stripe(0).slice(0, _LOOKED_AT_LINES).to_pylist() if file.nstripes else []
    objects = [{name: _as_json(value) for name, value in row.items() if value is not None} for row in rows]
    return SampleFile(PLAIN, True, len(objects), _time_of_objects(objects) if objects else None, format)


def _as_json(value: Any) -> Any:
    """Moments as shipper writes them."""
    if not isinstance(value, dt.datetime):
        return value
    return value.astimezone(dt.UTC).isoformat().replace("+00:00", "Z") if value.tzinfo else value.isoformat()


@dataclass(frozen=True)
class _Rows:
    delimiter: str
    objects: list[dict[str, str]]


def _rows(name: str, text: str, *, whole: bool) -> _Rows | None:
    """Of CSV with a header. By a file's name, two fields are enough; without it, three whose names are words, and each row as many."""
    named = re.search(r"\.(csv|tsv)(\.\w+)?$", name.lower())
    first = text.partition("\n")[0]
    for delimiter in (",", "\t", ";", "|"):
        if delimiter not in first:
            continue
        try:
            found = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=whole))
        except csv.Error:
            continue
        head, *rows = [row for row in (found if whole else found[:-1]) if row][: _LOOKED_AT_LINES + 1] or [[]]
        right = [row for row in rows if len(row) == len(head)]
        words = len(head) > 2 and all(re.fullmatch(r"[A-Za-z_][\w .-]*", field) for field in head)
        if right and (named or (words and len(right) == len(rows))):
            return _Rows(delimiter, [dict(zip(head, row, strict=True)) for row in right])
    return None


def _number(text: str) -> Any:
    """CSV knows no numbers; a moment may be one."""
    return float(text) if re.fullmatch(r"\d{10,13}(\.\d+)?", text) else text


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


def _beginnings(lines: Sequence[str]) -> tuple[str, list[str]]:
    """What records of several lines begin with, and their first lines; ``""`` and all lines where each line is a record: nearly all begin with
    a date, or the others do not look as if they belonged to what is before them."""
    first = [line for line in lines if re.match(_DATE, line)]
    others = [line for line in lines if not re.match(_DATE, line)]
    belong = [line for line in others if re.match(r"\s|Caused by|Traceback|[\w.$]+(Error|Exception)\b", line)]
    if not first or not re.match(_DATE, lines[0]) or len(belong) < max(1, len(others) / 2):
        return "", list(lines)
    return _DATE, first


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
    slashes = f"({_DIGIT}{{4}}/{_DIGIT}{{2}}/{_DIGIT}{{2}} {_CLOCK})"  # of nginx's error log
    yield slashes, lambda found: f"try_to_timestamp(regexp_extract(value, '{slashes}', 1), 'yyyy/MM/dd HH:mm:ss')"
    common = f"({_DIGIT}{{2}}/[A-Z][a-z]{{2}}/{_DIGIT}{{4}}:{_CLOCK} [+-]{_DIGIT}{{4}})"  # of access logs
    yield common, lambda found: f"try_to_timestamp(regexp_extract(value, '{common}', 1), 'dd/MMM/yyyy:HH:mm:ss Z')"
