"""A file that was renamed or packed is known by its content, as the reader sums it up. What follows
from that is decided without servers (tests/sim/test_renamed.py)."""

import bz2
import gzip
import json
import os
import zlib
from pathlib import Path

import pytest

from shipper.config.pipeline import Source
from shipper.ledger.sums import ByteSum, sum_of
from spark_jobs.hadoop import Hadoop
from spark_jobs.listing import look_at
from tests.integration.source_world import Logs
from tests.integration.world import lines_of

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

_SMALL_SPLITS = {"path": "logs", "settle": "0s", "recursive": True, "split_size": "64KiB"}


@pytest.fixture
def world(make_world):
    made = make_world()
    made.write_pipeline(source=_SMALL_SPLITS)
    return made


def log_lines(name, count, first=0):
    return b"".join(
        b"%s line %06d of a log that is long enough to be told from others\n"
        % (name.encode(), first + i)
        for i in range(count)
    )


def pack(path):
    """As gzip does: the packed file has the time of the plain one."""
    packed, status = path.with_name(path.name + ".gz"), path.stat()
    packed.write_bytes(gzip.compress(path.read_bytes()))
    os.utime(packed, (status.st_atime, status.st_mtime))
    path.unlink()
    return packed


def renamed(path, name):
    new = path.parent / name
    new.parent.mkdir(exist_ok=True)
    return path.rename(new)


def recognised(report):
    """(former name, name, whether all of it was delivered before)"""
    return [
        (one.original.path.rpartition("/")[2], one.path.rpartition("/")[2], one.complete)
        for cluster in report.plan.clusters
        for one in cluster.recognised
    ]


def sent(report):
    return sum(ship.delivered for ship in report.ships)


def chunks_of(world):
    done = world.shipper("ledger", "show", world.name, "--json")
    assert done.returncode == 0, done.stderr[-2000:]
    (of_cluster,) = json.loads(done.stdout).values()
    found = of_cluster["chunks"]
    return found


def test_a_file_that_took_the_place_of_a_listed_one_is_not_taken_for_it(spark, tmp_path):
    """A rotation between the listing and the first look: what was delivered already lies where a
    file was listed that was not, and is as long."""
    logs = Logs(spark, tmp_path)
    logs.write("a.log", b"new\n", age_seconds=300)
    logs.write("b.log", b"new\n", age_seconds=300)
    files, source = logs.plan().files, Source(path="logs")
    logs.write("a.log", b"old\n", age_seconds=200)

    look_at(Hadoop.of(spark), files, source)

    summed = {Path(file.path).name for file in files if file.beginnings}
    assert summed == {"b.log"}


def verified(world):
    for command in (("ledger", "verify"), ("ledger", "show", "--files")):
        done = world.shipper(*command, world.name)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


def test_what_logrotate_does_sends_each_line_once(world):
    first, second = log_lines("first", 4000), log_lines("second", 100)
    path = world.write_log("app.log", first)
    assert sent(world.report()) == 4000
    chunks = chunks_of(world)
    assert len({chunk["split"] for chunk in chunks}) > 1
    assert len({chunk["head"] for chunk in chunks}) == 1, (
        "whichever of a file's chunks are committed, they find it"
    )

    # Two rotations between two runs: the older file is packed.
    pack(renamed(path, "app.log.2"))
    world.write_log("app.log.1", second)
    third = log_lines("third", 10)
    world.write_log("app.log", third)
    report = world.report()
    assert recognised(report) == [("app.log", "app.log.2.gz", True)]
    assert sent(report) == 110
    assert any("recognised by content" in note.text for note in report.ships[0].findings)

    renamed(world.logs / "app.log.2.gz", "done/app.log.2.gz")
    report = world.report()
    assert recognised(report) == [("app.log.2.gz", "app.log.2.gz", True)]
    assert sent(report) == 0
    assert world.read() == lines_of(first, second, third)
    verified(world)


@pytest.mark.long
def test_a_file_is_recognised_whatever_a_transform_makes_of_it(world):
    path = world.write_log("a.log", log_lines("a", 100))
    world.report()
    world.write_pipeline(source=_SMALL_SPLITS, records={"value": "upper(value)"})
    renamed(path, "b.log")
    world.write_log("other.log", b"another\n")
    report = world.report()
    assert (recognised(report), sent(report)) == ([("a.log", "b.log", True)], 1)


@pytest.mark.long
def test_records_that_hold_the_files_path_are_compared_under_the_former_one(world):
    world.client.create_topics({world.topic(".odd"): 2}, replication_factor=1)
    world.write_pipeline(
        source=_SMALL_SPLITS,
        topic=None,
        routes=[
            {"topic": world.topic(".odd"), "when": "value like '%1 of a log%'"},
            {"topic": world.topic()},
        ],
        records={
            "columns": {"name": "concat(file_name, ' ', value, ' from 10.1.2.3')"},
            "value": "name",
            "key": "file_path",
            "drop": {"fives": "value like '%5 of a log%'"},
            "redact": [{"rule": "ipv4"}],
        },
        gates={"delivery": [{"check": "sum_closes"}, {"check": "checksum"}]},
    )
    path = world.write_log("app.log", log_lines("a", 3000))
    assert sent(world.report()) == 2700
    pack(renamed(path, "old.log"))
    report = world.report()
    assert (recognised(report), sent(report)) == ([("app.log", "old.log.gz", True)], 0)
    assert sum(world.read().values()) + sum(world.read(".odd").values()) == 2700
    verified(world)


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({}, id="lines", marks=pytest.mark.long),
        pytest.param({"records": {"starts_with": "^first line 0000.0"}}, id="starts_with"),
        pytest.param(
            {"source": {**_SMALL_SPLITS, "format": "csv"}, "records": {"value": "value"}},
            id="csv",
            marks=pytest.mark.long,
        ),
        pytest.param(
            {"source": {**_SMALL_SPLITS, "encoding": "ISO-8859-1"}},
            id="encoding",
            marks=pytest.mark.long,
        ),
    ],
)
def test_the_ledger_has_the_sum_of_each_files_content_however_it_is_read(world, more):
    """In splits, packed or not, by an independent CRC-32. A record of several lines goes beyond its
    split's end."""
    world.write_pipeline(**{"source": _SMALL_SPLITS, **more})
    content = log_lines("first", 3000) + b"a last line without an end"
    world.write_log("plain.log", content)
    world.write_log("one.log.gz", gzip.compress(content))
    world.write_log("two.log.bz2", bz2.compress(content[:1000]) + bz2.compress(content[1000:]))
    world.report()
    sums = {}
    for chunk in chunks_of(world):
        if chunk["end"]:
            name = chunk["path"].rpartition("/")[2]
            sums.setdefault(name, []).append((chunk["split"], ByteSum.parse(chunk["sum"])))
    found = {name: sum_of(each for _, each in sorted(parts)) for name, parts in sums.items()}
    assert {(each.length, each.crc32) for each in found.values()} == {
        (len(content), zlib.crc32(content))
    }
    assert found.keys() == {"plain.log", "one.log.gz", "two.log.bz2"}
    assert len({each.crc32c for each in found.values()}) == 1
    cut = len(sums["plain.log"])
    assert cut > 1 if set(more) <= {"records"} else cut == 1
