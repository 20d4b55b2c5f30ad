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


def logical(type_, kind, **more):
    return {"type": type_, "logicalType": kind, **more}


def row_of(name, **fields):
    """Return the schema of a record, by its fields' types."""
    fields = [{"name": field, "type": kind} for field, kind in fields.items()]
    return {"type": "record", "name": name, "fields": fields}


ALL = fastavro.parse_schema(
    row_of(
        "All",
        i=["null", "int"],
        l="long",
        f="float",
        d="double",
        b="boolean",
        s=["null", "string"],
        raw="bytes",
        kind={"type": "enum", "name": "Kind", "symbols": ["LOW", "HIGH"]},
        four={"type": "fixed", "name": "Four", "size": 4},
        list={"type": "array", "items": ["null", "int"]},
        map={"type": "map", "values": ["null", "long"]},
        **{"in": ["null", row_of("In", x=["null", "int"])]},
        any=["null", "string", "long", {"type": "array", "items": "string"}],
        day=logical("int", "date"),
        at=logical("long", "timestamp-micros"),
        at_ms=logical("long", "timestamp-millis"),
        local=logical("long", "local-timestamp-micros"),
        time=logical("long", "time-micros"),
        money=logical("bytes", "decimal", precision=30, scale=2),
        id=logical("string", "uuid"),
    )
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
NUMBERED = fastavro.parse_schema(row_of("Line", n="int", text="string"))


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
