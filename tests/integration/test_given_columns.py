"""The place of each line, as expressions have it: the same on every rerun, and what an independent
look at the file says."""

import gzip

import pytest

from .world import World

pytestmark = [pytest.mark.kafka, pytest.mark.spark]
SPLIT = 65_536
#: 2026-11-01 and two of its hours.
SOURCE = {
    "path": "logs/dt={window_start:%Y-%m-%d}/{window_start:%-H}/",
    "settle": "0s",
    "split_size": "64KiB",
}


def places(content, split):
    """(begin of its split, number in it, line): a line belongs to the split that it begins in; one
    that begins at a border to the one before."""
    found, at, counts = [], 0, dict[int, int]()
    for line in content.splitlines(keepends=True):
        start = 0 if at == 0 else (at - 1) // split * split
        counts[start] = counts.get(start, 0) + 1
        found.append((start, counts[start], line.rstrip(b"\n")))
        at += len(line)
    return found


def test_each_line_knows_its_place_and_the_time_in_its_path(tmp_path, kafka):
    world = World(tmp_path, kafka.bootstrap)
    contents = {
        "dt=2026-11-01/6/a.log": b"".join(b"line %d of a\n" % n for n in range(15_000)),
        "dt=2026-11-01/17/b.log.gz": b"one\ntwo\n\nfour",
    }
    for name, content in contents.items():
        world.write_log(name, gzip.compress(content) if name.endswith("gz") else content)
    place = (
        "concat_ws('|', date_format(window_start, 'HH:mm'), file_name, split_start, "
        "record_number, value)"
    )
    world.write_pipeline(source=SOURCE, records={"value": place})
    world.run()
    expected = set()
    for name, content in contents.items():
        _, hour, file = name.split("/")
        for start, number, line in places(content, 2**62 if name.endswith("gz") else SPLIT):
            expected.add(f"{int(hour):02}:00|{file}|{start}|{number}|".encode() + line)
    assert len({start for start, *_ in places(contents["dt=2026-11-01/6/a.log"], SPLIT)}) == 4
    assert set(world.read()) == expected
    assert world.run()["delivered"] == 0


@pytest.mark.long
def test_a_column_of_that_name_that_was_there_before_is_the_pipelines(tmp_path, kafka):
    world = World(tmp_path, kafka.bootstrap)
    world.write_log("a.log", b"one\n")
    world.write_pipeline(
        records={"columns": {"record_number": "'mine'"}, "value": "concat(record_number, value)"}
    )
    world.run()
    assert set(world.read()) == {b"mineone"}
