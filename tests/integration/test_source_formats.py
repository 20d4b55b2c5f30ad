"""Files of every format through the commands that users have, from the file to what an independent
reader finds in the topic."""

import bz2
import gzip
import io
import json
import os
import shutil
import tarfile
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

from tests.data import packed_log
from tests.samples.json_lines import OBJECTS, OTHERS

from .world import WINDOW, World, lines_of

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

DATA = Path(__file__).parents[1] / "data"


@pytest.fixture
def world(tmp_path, kafka):
    return World(tmp_path, kafka.bootstrap, topics={"": 3, ".q": 1, ".odd": 1})


def source(format, **more):
    return {"path": "logs", "settle": "0s", "format": format, **more}


def numbered(first, end):
    """Of about 500 bytes a row that do not compress, so that a few thousand are many splits."""
    return pa.table(
        {"n": list(range(first, end)), "text": [os.urandom(250).hex() for _ in range(first, end)]}
    )


def objects(table):
    return Counter(json.dumps(row, separators=(",", ":")).encode() for row in table.to_pylist())


def write_parquet(world, name, table, **more):
    path = world.write_log(name, b"")
    pq.write_table(table, path, **more)
    world.write_log(name, path.read_bytes())  # with its age
    return path


def flip(path, at):
    """Another byte, the same size and time: for shipper the same file."""
    status, content = path.stat(), bytearray(path.read_bytes())
    content[at] ^= 0xFF
    path.write_bytes(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.mark.long
def test_a_parquet_file_of_which_one_row_group_is_damaged_is_finished_when_it_is_mended(world):
    """Its other splits are shipped, and no row of them again."""
    table = numbered(0, 1200)
    path = write_parquet(
        world,
        "a.parquet",
        table,
        row_group_size=200,
        write_page_checksum=True,
        use_dictionary=False,
    )
    write_parquet(world, "none.parquet", table.slice(0, 0))
    groups = pq.ParquetFile(path).metadata
    assert groups.num_row_groups == 6
    world.write_pipeline(source=source("parquet", split_size="128KiB"))
    at = groups.row_group(3).column(1).data_page_offset + 50_000  # behind the page's header
    flip(path, at)
    world.fails(code=1, says=r"1 file cannot be read: \S*a\.parquet: .*Everything else was sent")
    there = world.read()
    assert 600 <= there.total() < 1200
    assert there <= objects(table)
    flip(path, at)
    # One that is cut off is seen by the plan already, and holds up no other.
    world.write_log("cut.parquet", path.read_bytes()[:-5])
    world.fails(code=1, says=r"cut\.parquet: it does not end as Parquet files do")
    (world.logs / "cut.parquet").unlink()
    assert world.run()["delivered"] == 0
    assert world.ledger_count() == 1200
    assert world.read() == objects(table)


def test_columns_of_tables_choose_topic_key_and_value(world):
    """ORC and Avro; the schema of each file is its own."""
    rows = [
        {"n": n, "level": "odd" if n % 2 else "even", "text": None if n == 4 else f"line {n}"}
        for n in range(50)
    ]
    for name, content in (
        ("a.orc", pa.Table.from_pylist(rows)),
        ("b.orc", pa.table({"n": [100], "more": ["x"]})),
    ):
        path = world.write_log(name, b"")
        orc.write_table(content, path)
        world.write_log(name, path.read_bytes())
    world.write_pipeline(
        source=source("orc"),
        records={
            "parse": {"json": "n INT, level STRING, text STRING"},
            "value": "coalesce(text, 'none')",
            "drop": {"first": "n < 2"},
        },
        topic=None,
        routes=[{"when": "level = 'odd'", "topic": world.topic(".odd")}, {"topic": world.topic()}],
        gates={
            "source": [
                {"check": "not_null", "column": "n"},
                {"check": "rows", "min": 49, "on": "full"},
            ]
        },
    )
    run = world.run()
    assert run["filtered"] == {"first": 2}
    assert world.read(".odd") == Counter(f"line {n}".encode() for n in range(3, 50, 2))
    assert world.read() == Counter(
        [*(f"line {n}".encode() for n in range(2, 50, 2) if n != 4), b"none", b"none"]
    )


def test_csv_and_json_lines_that_are_not_what_they_should_be_go_to_quarantine(world):
    world.write_log("a.csv", b'time,text\r\n1,"two\nlines, ""quoted"""\r\n2\r\n3,\xc3\xa9\r\n')
    world.write_log("b.csv.gz", gzip.compress(b"text,more,time\nx,y,4\n"))
    world.write_log("head.csv", b"time,text\n")
    quarantine = {"topic": world.topic(".q"), "max_rate": 1.0, "keep": "100B"}
    world.write_pipeline(source=source("csv"), quarantine=quarantine)
    assert world.run()["quarantined"] == {"unparseable": 1}
    shutil.rmtree(world.logs)
    world.write_log("c.jsonl", b'{"a": 1}\n[1]\nno object\n{"a":\n{"b":{"c":[2]}}')
    world.write_pipeline(source=source("jsonl"), quarantine=quarantine)
    assert world.run()["quarantined"] == {"unparseable": 3}
    assert world.read() == Counter(
        [
            *(
                b'{"time":"1","text":"two\\nlines, \\"quoted\\""}',
                b'{"time":"3","text":"\xc3\xa9"}',
            ),
            *(b'{"text":"x","more":"y","time":"4"}', b'{"a": 1}', b'{"b":{"c":[2]}}'),
        ]
    )
    assert world.read(".q") == Counter([b'["2"]', b"[1]", b"no object", b'{"a":'])


@pytest.mark.long
def test_every_way_of_asking_for_objects_takes_the_same_lines_for_some(world):
    """By format, by a schema, and by the gate, which says how many there are."""
    others = {line: why for line, why in OTHERS.values() if line}
    content = b"\n".join([*OBJECTS.values(), *others]) + b"\n"
    world.write_log("a.log", content)
    quarantine = {"topic": world.topic(".q"), "max_rate": 1.0, "keep": "100B"}
    gates = {"source": [{"check": "json", "on": "full", "severity": "warn"}]}
    world.write_pipeline(source=source("jsonl"), quarantine=quarantine, gates=gates)
    report = world.report()
    assert report.ships[0].quarantined == {"unparseable": len(others)}
    assert world.read() == Counter(OBJECTS.values())
    assert world.read(".q") == Counter(line[:100] for line in others)
    [check] = report.gate_source.checks
    assert check.observed.startswith(f"{len(others)} of {len(OBJECTS) + len(others)} rows")

    # Jackson reads no name of more than 50,000 characters.
    world.write_pipeline(
        source=source("text"),
        topic=world.topic(".odd"),
        records={"parse": {"json": "t STRING"}, "drop": {"long": "length(value) > 50000"}},
        quarantine=quarantine,
    )
    assert world.run("--reship", "--reason", "x")["quarantined"] == {"unparseable": len(others)}
    assert world.read(".odd") == Counter(OBJECTS.values()) - Counter([OBJECTS["long name"]])


@pytest.mark.parametrize("name", ["cut", "two objects"])
@pytest.mark.long
def test_a_line_that_fails_a_ship_is_told_with_what_is_wrong_in_it(world, name):
    line, why = OTHERS[name]
    world.write_log("a.log", b"{}\n" + line + b"\n")
    world.write_pipeline(source=source("jsonl"))
    report = world.report(code=1)
    assert report.ships[0].code == "SHIP-604"
    assert why in report.error
    assert "records.parse.json" not in report.error
    done = world.shipper("preview", world.name, "--window", WINDOW, "--json")
    shown = json.loads(done.stdout)["lines"][1]
    assert (shown["why"], shown["fault"]) == ("unparseable", why)
    world.write_pipeline(source=source("jsonl"), records={"parse": None})  # as the message advises
    assert world.run()["delivered"] == 2


@pytest.mark.long
def test_what_is_packed_in_a_way_that_cannot_be_read_is_named_before_anything_is_sent(world):
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w") as archive:
        archive.add(DATA / "formats" / "gzip.log.gz", "gzip.log.gz")
    packings = {
        "a.tgz": gzip.compress,
        "a.log.bz2": bz2.compress,
        "a.zst": lambda data: pa.compress(data, "zstd", asbytes=True),
        "a.tar": bytes,
    }
    for name, pack in packings.items():
        world.write_log(name, pack(tar.getvalue()))
    plan = json.loads(world.shipper("plan", world.name, "--window", WINDOW, "--json").stdout)
    assert {
        Path(file["path"]).name: "tar archive" in file["problem"] for file in plan["files"]
    } == dict.fromkeys(packings, True)


@pytest.mark.long
def test_a_table_whose_codec_is_not_there_is_named_before_anything_is_sent(world):
    write_parquet(world, "a.parquet", numbered(0, 10), compression="brotli")
    world.write_pipeline(source=source("parquet"))
    world.fails(code=1, says=r"a\.parquet: \S* ?it is packed with brotli")
    assert world.nothing_was_sent()


@pytest.mark.long
def test_the_codec_that_a_pipeline_says_is_the_one_that_is_read(world):
    world.write_log("part-0.snappy", (DATA / "tables" / "hadoop.snappy").read_bytes())
    world.fails(code=1, says=r"part-0\.snappy: its name says snappy.*source\.codec: hadoop_snappy")
    world.write_pipeline(source=source("text", codec="hadoop_snappy"))
    world.run()
    assert world.read() == lines_of(packed_log())
