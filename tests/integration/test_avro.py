"""`records.avro`: what the JVM encodes, and what arrives, read by fastavro, which shares no code
with it. The Schema Registry is a double."""

import datetime as dt
import io
import json
import random
import struct
import uuid
from decimal import Decimal

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StructField, StructType
from shipper_tools.dev.console_consumer import read_records

from shipper.config.avro import Avro
from spark_jobs.avro_column import AvroValues, schema_fault
from tests.data.tables.make import logical, row_of
from tests.doubles.schema_registry import RegistryDouble

from .world import WINDOW, World

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

MOMENT = dt.datetime(2026, 11, 1, 6, 0, 0, 123456, tzinfo=dt.UTC)
DIGITS, CENTS = "-12345678901234567890.12", "1234567890123.00001"
UUID = "01020304-0506-0708-090a-0b0c0d0e0f10"
BOTH = row_of("In", x=["null", "int"])
TYPES = [
    ("b", "boolean", "true", True),
    ("i", "int", "-2147483648", -(2**31)),
    ("l", "long", "9223372036854775807", 2**63 - 1),
    ("f", "float", "1.5", 1.5),
    ("d", "double", "0.1", 0.1),
    ("zero", "double", "-0.0", -0.0),
    ("whole", "double", "7", 7.0),
    ("inf", "double", '"-Infinity"', float("-inf")),
    ("s", "string", r'"a\"\\\né📜\u0000"', 'a"\\\né📜\0'),
    ("raw", "bytes", '"AP8="', b"\x00\xff"),
    ("four", {"type": "fixed", "name": "Four", "size": 4}, '"YWJjZA=="', b"abcd"),
    ("kind", {"type": "enum", "name": "Kind", "symbols": ["LOW", "HIGH"]}, '"HIGH"', "HIGH"),
    ("money", logical("bytes", "decimal", precision=30, scale=2), DIGITS, Decimal(DIGITS)),
    ("round", logical("bytes", "decimal", precision=9, scale=2), "1.2e3", Decimal("1200.00")),
    (
        "small",
        logical("fixed", "decimal", name="Small", size=8, precision=9, scale=1),
        "-1.5",
        Decimal("-1.5"),
    ),
    ("day", logical("int", "date"), '"1969-12-31"', dt.date(1969, 12, 31)),
    (
        "ms",
        logical("long", "timestamp-millis"),
        '"2026-11-01T07:00:00.123+01:00"',
        MOMENT.replace(microsecond=123000),
    ),
    ("us", logical("long", "timestamp-micros"), '"2026-11-01T06:00:00.123456Z"', MOMENT),
    (
        "old",
        logical("long", "timestamp-micros"),
        '"1960-01-01T00:00:00.5Z"',
        dt.datetime(1960, 1, 1, 0, 0, 0, 500000, tzinfo=dt.UTC),
    ),
    (
        "number",
        logical("long", "timestamp-micros"),
        "1",
        dt.datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=dt.UTC),
    ),
    (
        "clock",
        logical("long", "local-timestamp-micros"),
        '"2026-11-01T06:00:00.123456"',
        MOMENT.replace(tzinfo=None),
    ),
    ("time", logical("int", "time-millis"), '"01:02:03.004"', dt.time(1, 2, 3, 4000)),
    ("id", logical("fixed", "uuid", name="Id", size=16), f'"{UUID}"', uuid.UUID(UUID).bytes),
    ("none", ["null", "string"], "null", None),
    ("list", {"type": "array", "items": ["null", "int"]}, "[1,null,3]", [1, None, 3]),
    ("map", {"type": "map", "values": "long"}, '{"z":1,"a":2}', {"z": 1, "a": 2}),
    ("in", ["null", BOTH], "{}", {"x": None}),
    (
        "any",
        ["null", "long", logical("bytes", "decimal", precision=20, scale=5), "string"],
        CENTS,
        Decimal(CENTS),
    ),
    ("other", ["null", "long", "string"], '"x"', "x"),
]


def record(*fields):
    return row_of("Row", **dict(fields)) | {"namespace": "com.example"}


def encoded(spark, schema, values):
    """Value → its bytes, and why there are none."""
    frame = spark.createDataFrame(
        [(value,) for value in values], StructType([StructField("v", BinaryType())])
    )
    made = AvroValues(spark, Avro.model_validate({"schema": schema}))
    rows = frame.select(made.encoded(frame["v"]), made.misfit(frame["v"])).collect()
    return [(None if one is None else bytes(one), why) for one, why in rows]


def decoded(schema, value):
    stream = io.BytesIO(value)
    found = fastavro.schemaless_reader(
        stream, fastavro.parse_schema(json.loads(json.dumps(schema)))
    )
    assert stream.read() == b""
    return found


@pytest.mark.long
def test_every_type_is_what_fastavro_reads(spark):
    schema = record(*((name, kind) for name, kind, _, _ in TYPES))
    text = "{" + ",".join(f'"{name}":{json_}' for name, _, json_, _ in reversed(TYPES)) + "}"
    (value, why), (again, _), (nothing, no_reason) = encoded(
        spark, schema, [text.encode(), text.encode(), None]
    )
    assert why is None
    assert value is not None
    found = decoded(schema, value)
    assert found == {name: expected for name, _, _, expected in TYPES}
    assert struct.pack("d", found["zero"]) == struct.pack("d", -0.0)
    assert list(found["map"]) == ["z", "a"]
    assert again == value
    assert (nothing, no_reason) == (None, None)


@pytest.mark.long
def test_any_numbers_and_texts_are_kept_exactly(spark):
    rng = random.Random(7)
    schema = record(
        ("d", "double"), ("l", ["null", "long"]), ("s", {"type": "array", "items": "string"})
    )
    rows = [
        {
            "d": struct.unpack(
                "d", struct.pack("q", rng.randrange(0x7FF0000000000000) * rng.choice((1, -1)))
            )[0],
            "l": rng.choice((None, rng.randrange(-(2**63), 2**63), rng.randrange(-100, 100))),
            "s": [
                "".join(
                    chr(rng.choice((rng.randrange(0xD800), rng.randrange(0xE000, 0x110000))))
                    for _ in range(5)
                )
            ],
        }
        for _ in range(1_000)
    ]
    rows = [
        {**row, "d": 0.0 if row["d"] != row["d"] or abs(row["d"]) == float("inf") else row["d"]}
        for row in rows
    ]
    values = [
        json.dumps(
            {k: v for k, v in row.items() if v is not None}, ensure_ascii=rng.random() < 0.5
        ).encode()
        for row in rows
    ]
    assert [decoded(schema, value) for value, _ in encoded(spark, schema, values) if value] == rows


MISFITS = [
    ("int", "2147483648", "f: too large for an int"),
    ("long", "9223372036854775808", "f: too large for a long"),
    ("long", "1.0", "f: expected a whole number"),
    ("long", '"1"', "f: expected a whole number"),
    ("long", "null", "f: expected a whole number"),
    ("float", "1e39", "f: too large for a float"),
    ("double", "1e400", "f: too large for a double"),
    ("double", '"1"', "f: expected a number"),
    ("string", "1", "f: expected text"),
    ("boolean", "1", "f: expected true or false"),
    ("bytes", '"!"', "f: expected Base64"),
    ({"type": "fixed", "name": "F", "size": 2}, '"YQ=="', "f: expected 2 bytes"),
    ({"type": "enum", "name": "E", "symbols": ["A"]}, '"secret"', "f: none of the symbols of E"),
    (
        logical("bytes", "decimal", precision=4, scale=2),
        "1.005",
        "f: more digits than decimal(4,2) has",
    ),
    (
        logical("bytes", "decimal", precision=4, scale=2),
        "100",
        "f: more digits than decimal(4,2) has",
    ),
    (
        logical("bytes", "decimal", precision=4, scale=2),
        "1e999999999",
        "f: more digits than decimal(4,2) has",
    ),
    (
        logical("bytes", "decimal", precision=4, scale=2),
        "1e-999999999",
        "f: more digits than decimal(4,2) has",
    ),
    (
        logical("long", "timestamp-millis"),
        '"2026-11-01T06:00:00.0001Z"',
        "f: finer than its unit: cut it in",
    ),
    (logical("long", "timestamp-millis"), '"2026-11-01T06:00:00"', "f: no timestamp-millis"),
    (logical("int", "date"), '"2026-13-01"', "f: no date"),
    ({"type": "array", "items": BOTH}, '[{},{"x":"secret"}]', "f[].x: expected a whole number"),
    ({"type": "map", "values": "int"}, '{"k":1,"k":2}', "f[]: a key is there twice"),
    (["string", "int"], "null", "f: may not be null"),
    (["null", "int", "string"], "1.5", "f: fits none of the types of its union"),
]


@pytest.mark.long
def test_what_does_not_fit_is_no_value_and_the_reason_quotes_nothing(spark):
    """All in one look of Spark's."""
    columns = []
    for kind, json_, _ in MISFITS:
        made, value = (
            AvroValues(spark, Avro.model_validate({"schema": record(("f", kind))})),
            F.lit(bytearray(f'{{"f":{json_}}}'.encode())),
        )
        columns += [made.encoded(value), made.misfit(value)]
    row = spark.range(1).select(*columns).collect()[0]
    assert [value for value in row[::2] if value is not None] == []
    wrong = [
        (case, found)
        for case, found in zip(MISFITS, row[1::2], strict=True)
        if not found.startswith(case[2]) or "secret" in found
    ]
    assert not wrong


@pytest.mark.long
def test_what_is_no_object_of_the_schema_is_no_value(spark):
    schema = record(("f", "string"), ("g", ["null", "int"]))
    schema["fields"][0]["default"] = "for readers, not for writers"
    cases = {
        b'{"f":"a"}': None,
        b'{"f":"a","g":null}': None,
        b'{"g":1}': "f: is not there, and may not be null",
        b'{"f":"a","secret":1}': "a field that the schema does not have",
        b'{"f":"a","f":"b"}': "f: is there twice",
        b'{"f":"a"} {"f":"b"}': "something follows the JSON object",
        b'[{"f":"a"}]': "expected a JSON object",
        b"": "expected a JSON object",
        b'{"f":"a"': "no JSON in UTF-8",
        b'{"f":"\xff"}': "no JSON in UTF-8",
        '{"f":"a"}'.encode("utf-16"): "no JSON in UTF-8",
        b'{"f":' + b"[" * 5_000 + b"}": "f: expected text",
        b'{"f":"' + b"x" * (21 << 20) + b'"}': None,  # longer than Jackson takes by default
    }
    found = encoded(spark, schema, list(cases))
    assert [why for _, why in found] == list(cases.values())
    assert [value is None for value, _ in found] == [why is not None for why in cases.values()]


@pytest.mark.long
def test_what_avro_does_not_take_as_a_schema_is_said(spark):
    assert "strnig" in schema_fault(spark, Avro.model_validate({"schema": record(("f", "strnig"))}))
    assert schema_fault(spark, Avro.model_validate({"schema": record(("f", "string"))})) == ""


ORDER = row_of(
    "Order",
    id="long",
    at=logical("long", "timestamp-micros"),
    price=["null", logical("bytes", "decimal", precision=12, scale=2)],
    tags=["null", {"type": "array", "items": ["null", "string"]}],
    raw=["null", "bytes"],
) | {"namespace": "com.example"}
USER, PASSWORD = "shipper", "the-registrys-own-password"


@pytest.fixture
def world(tmp_path, kafka):
    return World(tmp_path, kafka.bootstrap, topics={"": 3, "-dear": 1, "-bad": 1})


@pytest.fixture
def registry():
    with RegistryDouble(user=USER, password=PASSWORD, one_number_each=True) as found:
        yield found


def point_to(world, registry, password=PASSWORD):
    path = world.root / "config" / "clusters" / "local.yaml"
    world.write_cluster()
    section = {"url": registry.url, "username": USER, "password": password}
    path.write_text(f"{path.read_text()}schema_registry: {json.dumps(section)}\n")


def orders(count):
    """Times of no two are the same number of microseconds; every third has no price."""
    return [
        {
            "id": n,
            "at": MOMENT + dt.timedelta(microseconds=n),
            "price": None if n % 3 == 0 else Decimal(n).scaleb(-2),
            "tags": None if n % 5 == 0 else [None, f"tag {n}\n\0"],
            "raw": bytes([n % 256]) * (n % 7),
        }
        for n in range(count)
    ]


def write_table(world, rows):
    kinds = [("id", pa.int64()), ("at", pa.timestamp("us", "UTC")), ("price", pa.decimal128(12, 2))]
    kinds += [("tags", pa.list_(pa.string())), ("raw", pa.binary())]
    path = world.write_log("a.parquet", b"")
    pq.write_table(pa.Table.from_pylist(rows, pa.schema(kinds)), path, row_group_size=400)
    world.write_log("a.parquet", path.read_bytes())


def arrived(world, registry, suffix):
    """By the number in front of each value."""
    found, numbers = [], set()
    for one in read_records(world.bootstrap, world.topic(suffix)):
        magic, number = struct.unpack(">bi", one.value[:5])
        assert magic == 0
        numbers.add(number)
        found.append(decoded(json.loads(registry.schemas[number]), one.value[5:]))
    assert numbers <= set(registry.subjects[f"{world.topic(suffix)}-value"])
    return sorted(found, key=lambda row: row["id"])


@pytest.mark.long
@pytest.mark.parametrize("named", [False, True], ids=["topics by condition", "topics by column"])
def test_rows_arrive_as_avro_and_what_does_not_fit_is_in_quarantine_as_json(world, registry, named):
    """A table's rows to two topics, each with its subject; then one more file, with a row of which
    the schema lacks a field, and one without a topic where a column says it."""
    point_to(world, registry)
    plain, dear_ = world.topic(), world.topic("-dear")
    pipeline = {
        "source": {"path": "logs", "settle": "0s", "format": "parquet"},
        "topic": None,
        "routes": [{"topic": "{where}", "topics": [plain, dear_]}]
        if named
        else [{"topic": dear_, "when": "price >= 5"}, {"topic": plain}],
        "quarantine": {"topic": world.topic("-bad"), "max_rate": 1.0, "keep": "1kB"},
        "gates": {
            "source": [{"check": "files", "min": 1}],
            "delivery": [{"check": "sum_closes"}, {"check": "checksum"}, {"check": "read_back"}],
        },
    }
    records = {
        "parse": {"json": "id BIGINT, price DECIMAL(20,2)"},
        "key": "id",
        "avro": {"schema": ORDER},
    }
    where = f"CASE WHEN price < 0 THEN null WHEN price >= 5 THEN '{dear_}' ELSE '{plain}' END"
    records |= {"columns": {"where": where}} if named else {}
    world.write_pipeline(**pipeline, records=records)
    rows = orders(1_000)
    write_table(world, rows)
    assert world.run()["delivered"] == 1_000
    dear = [row for row in rows if row["price"] is not None and row["price"] >= 5]
    assert arrived(world, registry, "-dear") == dear
    assert arrived(world, registry, "") == [row for row in rows if row not in dear]
    assert world.run()["delivered"] == 0
    write_more = [{**row, "id": row["id"] + 1_000} for row in orders(3)]
    write_more[2]["price"] = Decimal("-1.00")
    path = world.write_log("b.parquet", b"")
    wide = pa.Table.from_pylist(write_more).append_column("more", pa.array([None, 7, None]))
    pq.write_table(wide, path)
    world.write_log("b.parquet", path.read_bytes())
    done = world.shipper("preview", world.name, "--window", WINDOW, "--json", "-n", "9")
    shown = [line for line in json.loads(done.stdout)["lines"] if "b.parquet" in line["file"]]
    assert [(line["why"], line["fault"]) for line in shown] == [
        (None, None),
        ("unencodable", "a field that the schema does not have"),
        ("unroutable" if named else None, None),
    ]
    assert world.run()["delivered"] == (1 if named else 2)
    bad = {
        dict(one.headers)["shipper-reason"]: json.loads(one.value or b"")
        for one in read_records(world.bootstrap, world.topic("-bad"))
    }
    assert bad[b"unencodable"]["more"] == 7
    assert set(bad) == {b"unencodable", *([b"unroutable"] if named else [])}
    assert not named or bad[b"unroutable"]["id"] == 1_002
    assert [row["id"] for row in arrived(world, registry, "") if row["id"] >= 1_000] == (
        [1_000] if named else [1_000, 1_002]
    )
    everything = "".join(
        path.read_text(errors="replace")
        for path in (world.root / "runs").rglob("*")
        if path.is_file()
    )
    assert PASSWORD not in everything


def test_lines_become_structs_become_avro_redacted_on_their_way(world, registry):
    point_to(world, registry)
    world.write_pipeline(
        records={
            "parse": {"regex": r"^(?<at>\S+) (?<who>\S+)"},
            "value": "named_struct('at', to_timestamp(at), 'who', who)",
            "redact": ["email"],
            "avro": {
                "schema": row_of("Seen", who="string", at=logical("long", "timestamp-micros")),
                "subject": "com.example.SpanSums",
            },
        }
    )
    world.write_log(
        "a.log",
        b"\xef\xbb\xbf2026-11-01T06:00:00.123456Z joe@example.com\n1960-01-01T00:00:00Z jane\n",
    )
    assert world.run()["delivered"] == 2
    assert registry.subjects == {"com.example.SpanSums": [1]}
    values = [one.value[5:] for one in read_records(world.bootstrap, world.topic()) if one.value]
    found = [decoded(json.loads(registry.schemas[1]), value) for value in values]
    assert sorted(found, key=str) == sorted(
        [
            {"who": "[email]", "at": MOMENT},
            {"who": "jane", "at": dt.datetime(1960, 1, 1, tzinfo=dt.UTC)},
        ],
        key=str,
    )


@pytest.mark.long
def test_a_registry_that_says_no_fails_the_run_before_anything_is_sent(world, registry):
    """Once each for the plan: a wrong password, a schema that earlier readers cannot follow, one
    that does not fit without a quarantine."""
    world.write_pipeline(
        source={"path": "logs", "settle": "0s", "format": "jsonl"},
        records={"avro": {"schema": ORDER}},
    )
    world.write_log("a.log", b'{"id":1,"at":"2026-11-01T06:00:00Z"}\n{"id":2}\n')
    point_to(world, registry, password="not-it-at-all")
    said = world.fails(
        code=1, says=r"the Schema Registry at \S+ refuses the request \(401\).*SHIP-408"
    )
    assert "not-it-at-all" not in said
    point_to(world, registry)
    earlier = {**ORDER, "fields": [{"name": "id", "type": "string"}]}
    registry.schemas[1], registry.subjects[f"{world.topic()}-value"] = json.dumps(earlier), [1]
    world.fails(
        code=1,
        says=rf"an earlier schema under the subject {world.topic()}-value.* is not compatible with "
        r"it: .*id",
    )
    assert world.nothing_was_sent()
    registry.subjects.clear()
    world.fails(
        code=1,
        says=r"a\.log \(split at byte 0\), record 2: its value does not fit `records.avro.schema`",
    )
    assert world.read().total() == 0
