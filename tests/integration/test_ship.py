"""The whole path on real servers: files in, an independent reader out."""

import gzip
import json
import random
from collections import Counter

import pytest
from shipper_tools.dev.console_consumer import read_records

from .world import lines_of

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


def test_every_byte_of_every_line_arrives_and_a_second_run_sends_nothing(make_world):
    world = make_world()
    world.write_pipeline(records={"max_line": "4MB"})
    rng = random.Random(7)
    contents = {
        "plain.log": b"first\nsecond\n",
        "crlf.log": b"windows\r\nlines\r\n\r\nlone\rreturn\r\n",
        "no newline at the end.log": b"one\n\n\ntwo without a newline",
        "latin1 \xe4.log": "Grüße aus Köln\n".encode("latin-1")
        + "日本語\n".encode("shift-jis")
        + "ключ\n".encode("utf-16"),
        "binary.log": bytes(rng.randrange(256) for _ in range(50_000)) + b"\n\0\n\xff\xfe\n",
        "bom.log": b"\xef\xbb\xbfwith a mark\nwithout\n",
        "long.log": b"short\n" + b"x" * 2_000_000 + b"\nshort again\n",
        "empty.log": b"",
        "blank.log": b"\n",
        "odd [name] {1}*%20.log": b"glob characters in the name\n",
        "zipped.log.gz": gzip.compress(b"\xef\xbb\xbfzipped\nlines\r\n" * 3),
        "many.log": b"".join(b"%d a line like many others\n" % n for n in range(30_000)),
    }
    for name, content in contents.items():
        world.write_log(name, content)
    plain = [
        gzip.decompress(content) if name.endswith(".gz") else content
        for name, content in contents.items()
    ]
    expected = lines_of(*plain)

    account = world.run()

    assert world.read() == expected
    assert account["delivered"] == expected.total() == account["read"]
    assert account["topics"][world.topic()]["ledger"] == expected.total()
    shipped = json.loads(next(world.root.glob("runs/**/ship.local.json")).read_text())
    seconds = {file["path"].rpartition("/")[2]: file["seconds"] for file in shipped["files"]}
    assert 0 < sum(seconds.values()) <= shipped["tasks"] * shipped["ship_seconds"]

    again = world.run()
    assert (again["delivered"], again["before"], again["read"]) == (0, expected.total(), 0)

    # A file that arrives late is all that a third run sends.
    world.write_log("late.log", b"late\n")
    assert world.run()["delivered"] == 1
    assert world.read() == expected + Counter([b"late"])


def test_routes_keys_headers_and_timestamps_are_what_the_yaml_says(make_world):
    world = make_world(topics={"-errors": 2, "-api": 1, "-web": 3})
    world.write_pipeline(
        topic=None,
        records={
            "columns": {
                "service": "split_part(value, ' ', 1)",
                "status": "cast(split_part(value, ' ', 2) as int)",
            },
            "value": "split_part(value, ' ', 3)",
            "key": "service",
            "headers": {"status": "status", "file": "file_name", "none": "cast(null as string)"},
            "timestamp": "timestamp'2026-11-01 06:00:00.125'",
        },
        routes=[
            {"when": "status >= 500", "topic": f"{world.name}-errors"},
            {"topic": f"{world.name}-{{service}}", "matching": ".+"},
        ],
    )
    world.write_log("a.log", b"api 200 one\nweb 200 two\nweb 503 three\napi 404 four\n")
    account = world.run()
    assert {
        name.removeprefix(world.name): counts["delivered"]
        for name, counts in account["topics"].items()
    } == {"-api": 2, "-errors": 1, "-web": 1}
    [error] = read_records(world.bootstrap, world.topic("-errors"))
    assert (error.key, error.value, error.timestamp_ms) == (b"web", b"three", 1_793_512_800_125)
    assert error.headers == (("status", b"503"), ("file", b"a.log"))
    assert world.read("-api") == Counter([b"one", b"four"])
    assert world.run()["delivered"] == 0


def test_a_closed_source_gate_means_that_not_one_byte_left(make_world):
    world = make_world()
    world.write_pipeline(
        records={"columns": {"user": "nullif(regexp_extract(value, 'user=(\\\\w+)', 1), '')"}},
        gates={
            "source": [{"check": "files"}, {"check": "not_null", "column": "user", "on": "full"}]
        },
    )
    world.write_log("a.log", b"user=secretname ok\nnobody here\n")
    stderr = world.fails(code=1, says=r"not_null\(user\)")
    assert world.nothing_was_sent()
    page = next(world.root.glob("runs/**/report.html")).read_text()
    assert "secretname" not in page + stderr


def test_a_record_that_no_topic_takes_names_its_file_and_line_and_the_rest_waits(make_world):
    world = make_world()
    one_chunk = {"chunk_size": "8MB"}  # a small window is divided among the lanes otherwise
    world.write_pipeline(records={"max_line": "8MB"}, delivery=one_chunk)
    rng = random.Random(3)
    world.write_log(
        "a.log", b"fine\n" + rng.randbytes(3_000_000).replace(b"\n", b"") + b"\nalso fine\n"
    )
    world.fails(code=1, says=r"a\.log.*record 2 .*max\.message\.bytes")
    assert world.read() == Counter()
    assert world.ledger_count() == 0
