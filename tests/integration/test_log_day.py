"""Some hours of a real log directory; ``make log-day`` is a whole day, on HDFS and S3 as well. And
what days have found, each by itself."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest
from shipper_tools.dev.kafka import KafkaServer

from tests.chaos.log_day import OPERATIONS, Options, run_day
from tests.integration.world import World, lines_of

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


def test_every_line_of_a_directory_that_changes_arrives_once_and_gaps_say_what_is_missing(
    tmp_path: Path, kafka: KafkaServer
):
    options = Options(
        seed=1, steps=3, operations=frozenset(OPERATIONS) - {"kill"}
    )  # a killed run is a cold one: half a minute
    assert run_day(options, tmp_path, kafka.bootstrap) == []


@pytest.fixture
def world(tmp_path: Path, kafka: KafkaServer) -> World:
    made = World(tmp_path, kafka.bootstrap)
    made.write_pipeline(
        source={"path": "logs", "settle": "0s", "split_size": "64KiB", "on_replaced": "continue"}
    )
    return made


def lines(name: str, count: int) -> bytes:
    return b"".join(b"%s %05d\n" % (name.encode(), n) for n in range(count))


def test_a_file_that_was_never_shipped_may_lie_where_a_renamed_file_lay(world: World):
    first, second = lines("first", 40), lines("second", 30)
    log = world.write_log("app.log", first)
    world.run()
    rotated = log.rename(world.logs / "app.log.1")
    world.run()
    packed = world.write_log("app.log.2.gz", gzip.compress(first))
    os.utime(packed, (rotated.stat().st_mtime,) * 2)
    world.write_log("app.log.1", second)  # logrotate ran before anybody shipped it as app.log
    assert world.run()["delivered"] == 30
    assert world.read() == lines_of(first, second)


def test_an_empty_file_at_the_path_of_a_renamed_file_is_a_new_file(world: World):
    log = world.write_log("app.log", lines("first", 40))
    world.run()
    log.rename(world.logs / "app.log.1")
    world.write_log("app.log", b"")
    assert world.run()["delivered"] == 0
    world.write_log("app.log", lines("second", 5))
    assert world.run()["delivered"] == 5


def test_a_file_that_grew_several_times_and_was_packed_later_is_not_sent_again(world: World):
    """An archiving job gives the packed file a time of its own."""
    for at, count in enumerate((40, 55, 60, 75, 90)):
        log = world.write_log("app.log", lines("first", count))
        os.utime(log, (1_790_000_000 + at, 1_790_000_000 + at))
        world.run()
    log.unlink()
    world.write_log("app.log.gz", gzip.compress(lines("first", 90)))
    assert world.run()["delivered"] == 0
    assert world.read() == lines_of(lines("first", 90))


def test_a_file_that_grew_beyond_its_first_split_and_was_packed_is_not_sent_again(world: World):
    for at, count in enumerate(
        (8_000, 9_000)
    ):  # 96 and 108 kB: what is new lies in the second split
        log = world.write_log("app.log", lines("first", count))
        os.utime(log, (1_790_000_000 + at, 1_790_000_000 + at))
        world.run()
    packed = world.write_log("app.log.gz", gzip.compress(log.read_bytes()))
    os.utime(packed, (log.stat().st_mtime,) * 2)
    log.unlink()
    assert world.run()["delivered"] == 0
