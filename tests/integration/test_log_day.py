"""Some hours of a real log directory; ``make log-day`` is a whole day, on HDFS and S3 as well. And
what days have found, each by itself."""

from __future__ import annotations

import gzip
import os

import pytest

from tests.chaos.log_day import OPERATIONS, Options, run_day
from tests.integration.world import lines_of

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


@pytest.mark.long
def test_every_line_of_a_directory_that_changes_arrives_once_and_gaps_say_what_is_missing(
    tmp_path, kafka
):
    options = Options(
        seed=1, steps=2, operations=frozenset(OPERATIONS) - {"kill"}
    )  # a killed run is a cold one: half a minute
    assert run_day(options, tmp_path, kafka.bootstrap) == []


def lines(name: str, count: int) -> bytes:
    return b"".join(b"%s %05d\n" % (name.encode(), n) for n in range(count))


@pytest.mark.parametrize(
    "counts",
    [(40, 55, 60, 75, 90), pytest.param((8_000, 9_000), marks=pytest.mark.long)],
    ids=["several times", "beyond its first split"],
)
@pytest.mark.long
def test_a_file_that_grew_and_was_packed_later_is_not_sent_again(world, counts):
    """An archiving job gives the packed file a time of its own."""
    world.write_pipeline(
        source={"path": "logs", "settle": "0s", "split_size": "64KiB", "on_replaced": "continue"}
    )
    for at, count in enumerate(counts):
        log = world.write_log("app.log", lines("first", count))
        os.utime(log, (1_790_000_000 + at, 1_790_000_000 + at))
        world.run()
    log.unlink()
    world.write_log("app.log.gz", gzip.compress(lines("first", counts[-1])))
    assert world.run()["delivered"] == 0
    assert world.read() == lines_of(lines("first", counts[-1]))
