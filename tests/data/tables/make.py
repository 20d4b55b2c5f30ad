"""Makes the Avro files of this folder anew, with fastavro, cramjam and backports.zstd: ``python
make.py``."""

import datetime as dt
import decimal
import uuid
from pathlib import Path

import fastavro

HERE = Path(__file__).parent
MARK = bytes(range(16))
#: Rows of each file that is named for its codec.
CODEC_ROWS = 60
MOMENT = dt.datetime(2026, 11, 1, 6, 0, 0, 123456, tzinfo=dt.UTC)


def logical(type_, name, **more):
    return {"type": type_, "logicalType": name, **more}


ALL = fastavro.parse_schema(
    {
        "type": "record",
        "name": "All",
        "fields": [
            {"name": "i", "type": ["null", "int"]},
            {"name": "l", "type": "long"},
            {"name": "f", "type": "float"},
            {"name": "d", "type": "double"},
            {"name": "b", "type": "boolean"},
            {"name": "s", "type": ["null", "string"]},
            {"name": "raw", "type": "bytes"},
            {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["LOW", "HIGH"]}},
            {"name": "four", "type": {"type": "fixed", "name": "Four", "size": 4}},
            {"name": "list", "type": {"type": "array", "items": ["null", "int"]}},
            {"name": "map", "type": {"type": "map", "values": ["null", "long"]}},
            {
                "name": "in",
                "type": [
                    "null",
                    {
                        "type": "record",
                        "name": "In",
                        "fields": [{"name": "x", "type": ["null", "int"]}],
                    },
                ],
            },
            {
                "name": "any",
                "type": ["null", "string", "long", {"type": "array", "items": "string"}],
            },
            {"name": "day", "type": logical("int", "date")},
            {"name": "at", "type": logical("long", "timestamp-micros")},
            {"name": "at_ms", "type": logical("long", "timestamp-millis")},
            {"name": "local", "type": logical("long", "local-timestamp-micros")},
            {"name": "time", "type": logical("long", "time-micros")},
            {"name": "money", "type": logical("bytes", "decimal", precision=30, scale=2)},
            {"name": "id", "type": logical("string", "uuid")},
        ],
    }
)
ROW = {
    "i": 1,
    "l": 2**62,
    "f": 1.5,
    "d": 0.1,
    "b": True,
    "s": 'a"\\\n\x01é',
    "raw": b"\x00\xff",
    "kind": "HIGH",
    "four": b"abcd",
    "list": [1, None, 3],
    "map": {"k": 1, "n": None},
    "in": {"x": 7},
    "any": ["p", "q"],
    "day": dt.date(2026, 11, 1),
    "at": MOMENT,
    "at_ms": MOMENT,
    "local": MOMENT.replace(tzinfo=None),
    "time": dt.time(1, 2, 3, 4),
    "money": decimal.Decimal("-12345678901234567890.10"),
    "id": uuid.UUID("00112233-4455-6677-8899-aabbccddeeff"),
}
BARE = {
    **ROW,
    "i": None,
    "s": None,
    "d": float("nan"),
    "list": [],
    "map": {},
    "in": {"x": None},
    "any": None,
    "day": dt.date(1969, 12, 31),
    "at": dt.datetime(1960, 1, 1, tzinfo=dt.UTC),
    "money": decimal.Decimal("0.00"),
}
NUMBERED = fastavro.parse_schema(
    {
        "type": "record",
        "name": "Line",
        "fields": [{"name": "n", "type": "int"}, {"name": "text", "type": "string"}],
    }
)


def write(path, schema, rows, **more):
    with (HERE / path).open("wb") as file:
        fastavro.writer(file, schema, rows, sync_marker=MARK, **more)


def numbered(count):
    return [{"n": n, "text": f"line {n}"} for n in range(count)]


def write_blocks(path):
    """Write a file of many small blocks."""
    write(path, NUMBERED, numbered(2000), codec="null", sync_interval=500)


if __name__ == "__main__":
    write("all.avro", ALL, [ROW, BARE])
    for codec in ("null", "deflate", "snappy", "zstandard", "bzip2", "xz"):
        write(f"codec-{codec}.avro", NUMBERED, numbered(CODEC_ROWS), codec=codec)
    write("empty.avro", NUMBERED, [])
    write("strings.avro", fastavro.parse_schema("string"), ["one", "two"])
