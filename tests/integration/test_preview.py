"""`shipper preview` says what a run then does, and nothing leaves."""

import gzip
import json
import os

import pytest
from shipper_tools.dev.console_consumer import read_records

from .world import WINDOW, World

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

LINES = [
    b"2026-11-01T06:00:00Z 10.0.0.1 GET /a 200",
    b"2026-11-01T06:00:01Z 10.0.0.2 GET /healthz 200",
    b"2026-11-01T06:00:02Z 10.0.0.3 GET /b 500 \xff\x1b[31mred",
    b"nonsense \xe2\x80\xaejoe@example.com",
    b"2026-11-01T06:00:04Z 10.0.0.4 GET /" + b"c" * 3_000 + b" 200",
    b"2026-11-01T06:00:05Z 10.0.0.5 GET /d 404",
]


@pytest.fixture
def world(tmp_path, kafka):
    found = World(tmp_path, kafka.bootstrap, topics={"": 2, "-errors": 1, "-broken": 1})
    found.write_pipeline(
        topic=None,
        routes=[
            {"when": "status >= 500", "topic": found.topic("-errors")},
            {"topic": found.topic()},
        ],
        records={
            "parse": {"regex": r"^(?<at>\S+) (?<client>\S+) \S+ (?<url>\S+) (?<code>\d{3})"},
            "columns": {"status": "cast(code as int)"},
            "drop": {"health": "url = '/healthz'"},
            "max_line": "1kB",
            "redact": ["ipv4", "email"],
            "key": "client",
            "headers": {"url": "url", "none": "cast(null as string)"},
            "timestamp": "to_timestamp(at)",
        },
        quarantine={"topic": found.topic("-broken"), "max_rate": 1.0},
    )
    found.write_log("a.log", b"\n".join(LINES) + b"\n")
    return found


def test_it_shows_the_records_that_a_run_then_sends(world):
    done = world.shipper("preview", world.name, "--window", WINDOW, "--json")
    assert done.returncode == 0, done.stderr[-4000:]
    lines = json.loads(done.stdout)["lines"]
    assert [(line["record"], line["outcome"], line["why"]) for line in lines] == [
        (1, "shipped", None),
        (2, "dropped", "health"),
        (3, "shipped", None),
        (4, "quarantined", "unparseable"),
        (5, "quarantined", "too_large"),
        (6, "shipped", None),
    ]
    assert lines[0]["line"] == LINES[0].decode()
    assert world.nothing_was_sent()

    world.run()
    for suffix in ("", "-errors"):
        shown = [
            line
            for line in lines
            if line["outcome"] == "shipped" and line["topic"] == world.topic(suffix)
        ]
        found = read_records(world.bootstrap, world.topic(suffix))
        assert sorted(
            (
                record.value.decode("utf-8", "backslashreplace"),
                record.key.decode(),
                dict(record.headers)["url"].decode(),
                record.timestamp_ms,
            )
            for record in found
        ) == sorted(
            (line["value"], line["key"], line["headers"]["url"], line["timestamp_ms"])
            for line in shown
        )
        assert all(len(record.headers) == 1 for record in found)
    broken = {
        record.value.decode("utf-8", "backslashreplace")
        for record in read_records(world.bootstrap, world.topic("-broken"))
    }
    assert (
        broken
        == {line["value"] for line in lines if line["outcome"] == "quarantined"}
        == {"nonsense \u202e[email]", ""}
    )


OF_FORMATS = {
    "text": ({}, {}, [b"a 1", b"b 2"]),
    "starts_with": ({}, {"starts_with": "[a-z]"}, [b"a 1\n at x", b"b 2"]),
    "redact": ({}, {"redact": ["ipv4"]}, [b"10.0.0.1 a", b"10.0.0.2 b"]),
    "upper": ({}, {"value": "upper(value)"}, [b"a 1", b"b 2"]),
    "regex": ({}, {"parse": {"regex": "^(?<s>a)"}, "key": "s"}, [b"a 1", b"none"]),
    "json": ({}, {"parse": {"json": "s STRING"}, "key": "s"}, [b'{"s":"x"}', b'{"s":"y"}']),
    "jsonl": ({"format": "jsonl"}, {}, [b'{"s":"x"}', b"none"]),
    "any": ({"format": "jsonl"}, {"parse": None}, [b"none", b"{}"]),
    "csv": ({"format": "csv"}, {}, [b"s,n", b"x,1", b"y,2,3"]),
    "named": ({"format": "csv", "csv": {"columns": ["s"]}}, {}, [b"x", b"y"]),
    "quarantine": ({"format": "jsonl"}, {}, [b"none", b"{}"]),
}


@pytest.mark.parametrize("kind", OF_FORMATS)
@pytest.mark.long
def test_it_shows_the_bytes_that_arrive_also_behind_a_byte_order_mark(tmp_path, kafka, kind):
    source, records, lines = OF_FORMATS[kind]
    world = World(tmp_path, kafka.bootstrap, topics={"": 1, "-broken": 1})
    world.write_pipeline(
        source={"path": "logs", "settle": "0s", **source},
        records=records,
        quarantine={"topic": world.topic("-broken"), "max_rate": 1.0},
    )
    content = b"\xef\xbb\xbf" + b"\n".join(lines) + b"\n"
    world.write_log("a.log", content)
    world.write_log("b.log.gz", gzip.compress(content))
    done = world.shipper("preview", world.name, "--window", WINDOW, "--json")
    assert done.returncode == 0, done.stderr[-4000:]
    shown = json.loads(done.stdout)["lines"]
    world.run()
    for outcome, suffix in (("shipped", ""), ("quarantined", "-broken")):
        arrived = [one.value for one in read_records(world.bootstrap, world.topic(suffix))]
        values = [line["value"].encode() for line in shown if line["outcome"] == outcome]
        assert sorted(arrived) == sorted(values)
        marked = [value for value in arrived if b"\xef\xbb\xbf" in value]
        is_text = kind in ("text", "starts_with", "redact", "regex")
        assert len(marked) == (2 if is_text and outcome == "shipped" else 0)


@pytest.mark.long
def test_a_file_by_name_wherever_it_lies_and_however_young(world, tmp_path):
    path = tmp_path / "elsewhere" / "young.log.gz"
    path.parent.mkdir()
    path.write_bytes(gzip.compress(b"\n".join(LINES * 50)))
    world.write_pipeline(source={"path": "logs"}, records={"value": "upper(value)"})
    done = world.shipper("preview", world.name, "--file", str(path), "-n", "7", "--json")
    assert done.returncode == 0, done.stderr[-4000:]
    lines = json.loads(done.stdout)["lines"]
    assert [line["record"] for line in lines] == [1, 2, 3, 4, 5, 6, 7]
    assert lines[0]["value"] == LINES[0].decode().upper()
    world.write_pipeline(source={"path": "logs", "window_by": "modified"})
    odd = path.with_name("[y]*{o},u.log")
    for name in (odd.name, "yo.log", "[y]x{o},u.log"):
        odd.with_name(name).write_text(f"{name}\n")
        os.utime(odd.with_name(name), (10**9, 10**9))
    done = world.shipper("preview", world.name, "--file", str(odd), "--json")
    assert done.returncode == 0, done.stderr[-4000:]
    assert [line["value"] for line in json.loads(done.stdout)["lines"]] == [odd.name]
    missing = world.shipper("preview", world.name, "--file", str(path) + ".not")
    assert missing.returncode != 0
    assert "SHIP-302" in missing.stderr


@pytest.mark.long
def test_what_no_run_would_take_is_refused(world):
    world.write_pipeline(records={"value": "concat(value, rand())"})
    done = world.shipper("preview", world.name, "--window", WINDOW)
    assert done.returncode != 0
    assert "records.value" in done.stderr
    world.write_pipeline(topic=world.topic())
    assert "has no `schedule`" in " ".join(
        world.shipper("preview", world.name, "--last").stderr.split()
    )


@pytest.mark.long
def test_people_see_each_part_on_a_row_that_fits_and_no_character_that_acts(world, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    done = world.shipper("preview", world.name, "--window", WINDOW, "-n", "5")
    assert done.returncode == 0, done.stderr[-4000:]
    rows = done.stdout.splitlines()
    assert f"a.log:1  → {world.topic()}" in rows
    assert "  value  2026-11-01T06:00:00Z [ipv4] GET /a 200" in rows
    assert "  key    [ipv4]" in rows
    assert "  header url=/a" in rows
    assert "a.log:2  dropped: health" in rows
    assert f"a.log:4  quarantined: unparseable → {world.topic('-broken')}" in rows
    assert "\x1b[31m" not in done.stdout
    assert "\u202e" not in done.stdout
    assert (
        "5 lines of 1 file: 1 dropped (health), 1 quarantined (too_large), 1 quarantined "
        "(unparseable)" in rows[-1]
    )
    assert len(rows) > 15
