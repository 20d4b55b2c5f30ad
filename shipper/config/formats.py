"""Formats and packing of files: the parts of `source` and `records` that decide how a file is cut
into records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import Field, field_validator

from shipper.config.rules import Fault, Model, named_twice, refuse

Format = Literal["text", "jsonl", "csv", "parquet", "orc", "avro", "whole_file"]
Codec = Literal["auto", "none", "gzip", "bzip2", "zstd", "lz4", "snappy", "hadoop_snappy"]

#: Formats that define their own parts, and are packed inside.
TABLES = frozenset({"parquet", "orc", "avro"})
#: Formats whose records shipper makes; for all others they are the file's bytes.
MADE = TABLES | {"csv"}
#: Formats of text, which has an encoding.
TEXTS = frozenset({"text", "jsonl", "csv"})
UTF8 = "UTF-8"
#: Formats that cannot be read from the middle.
ONE_PIECE = frozenset({"csv", "whole_file"})
_OBJECTS = ("jsonl", "csv")


class Csv(Model):
    """Dialect of CSV files. RFC 4180: a quote inside of quotes is written twice, and a quoted field
    may hold line ends."""

    columns: tuple[str, ...] | None = Field(
        default=None, min_length=1, examples=[["time", "service", "status"]]
    )
    """Names of the fields, for files without a header: the first row is then a record. By default
    the first row of each file has the names."""
    delimiter: str = Field(default=",", min_length=1, max_length=1, examples=["\t"])
    """Between fields: one ASCII character."""
    quote: str | None = Field(
        default='"', min_length=1, max_length=1, json_schema_extra={"type": ["string", "null"]}
    )
    """Around fields that hold the delimiter, a quote or a line end: one ASCII character. `null`:
    nothing is quoted."""

    @field_validator("delimiter", "quote")
    @classmethod
    def _one_plain_character(cls, value: str | None) -> str | None:
        if value is not None and (not value.isascii() or value in "\r\n\0"):
            raise ValueError("one ASCII character, and no line end")
        return value

    @field_validator("quote")
    @classmethod
    def _quote_is_no_delimiter(cls, value: str | None, info: Any) -> str | None:
        if value is not None and value == info.data.get("delimiter"):
            raise ValueError(f"`quote` and `delimiter` contradict each other: both are {value!r}")
        return value

    @field_validator("columns")
    @classmethod
    def _columns_differ(cls, value: tuple[str, ...] | None) -> tuple[str, ...] | None:
        refuse(named_twice(value or ()))
        return value


def source_faults(format: Format, codec: Codec, csv: Csv | None, encoding: str) -> Iterator[Fault]:
    """Yield contradictions between the fields of `source`."""
    if encoding != UTF8 and format not in TEXTS:
        why = f"`encoding` and `format: {format}` contradict each other: it is for text"
        yield ("encoding",), why
    if csv is not None and format != "csv":
        yield ("csv",), f"`csv` and `format: {format}` contradict each other; remove one"
    if codec != "auto" and format in TABLES:
        why = f"`codec` and `format: {format}` contradict each other: such files say how"
        yield ("codec",), why


def starts_with_fault(format: Format) -> str:
    """Return why records cannot begin by a pattern; empty if they can."""
    if format == "text":
        return ""
    return f"`starts_with` and `source.format: {format}` contradict each other: it is for text"


def with_objects_asked_for(data: dict[str, Any]) -> dict[str, Any]:
    """Return a pipeline as it was written, with `records.parse` set to JSON objects by default for
    formats whose records are such objects."""
    source, records = data.get("source"), data.get("records", {})
    if (
        isinstance(source, dict)
        and source.get("format") in _OBJECTS
        and isinstance(records, dict)
        and "parse" not in records
    ):
        return {**data, "records": {"parse": {"json": True}, **records}}
    return data


def deciding(format: Format, codec: Codec, csv: Csv | None, encoding: str) -> dict[str, Any]:
    """Return what decides which records a file becomes, for the digest; a key that is newer than
    `format` is left out at its default."""
    found: dict[str, Any] = {"format": format}
    if codec != "auto":
        found["codec"] = codec
    if format == "csv":
        found["csv"] = (csv or Csv()).model_dump()
    if encoding != UTF8:
        found["encoding"] = encoding
    return found
