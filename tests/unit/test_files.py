import datetime as dt

import pytest

from shipper.driver.files import ListedFile, select, split_hash, split_starts
from shipper.types import FileId

NOW = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)


def listed(name, age_seconds=3600.0, **more):
    return ListedFile(FileId(f"/logs/{name}", 1, int((NOW.timestamp() - age_seconds) * 1000)), f"file:/logs/{name}", **more)


@pytest.mark.parametrize(
    ("path", "size", "starts"),
    [
        ("a.log", 0, []),
        ("a.log", 1, [0]),
        ("a.log", 64, [0]),
        ("a.log", 65, [0, 64]),
        ("a.log.gz", 65, [0]),
        ("a.log.zst", 0, []),
        ("a.log.bz2", 129, [0, 64, 128]),
    ],
)
def test_files_are_cut_as_spark_cuts_them(path, size, starts):
    assert list(split_starts(path, size, 64)) == starts


def test_the_hash_is_sparks():
    # What Spark 4.2's xxhash64(file_path, file_size, file_modification_time, file_block_start) gave for this very file.
    file = FileId("file:/tmp/exp/files/bom.log", 17, 1795260137427)
    assert split_hash("file:/tmp/exp/files/bom.log", file, 0) == -1905928673698259363


def test_young_unfinished_and_unwanted_files_are_left_out_with_the_reason():
    files = [listed("b.log"), listed("a.log"), listed("new.log", 10), listed("x.log._COPYING_"), listed("c.txt")]
    files += [listed("old.log", open=True), listed("new open.log", 10, open=True), listed("open.log.tmp", open=True)]
    taken, left_out = select(files, include="*.log*", settle_seconds=60, now=NOW)
    assert [file.name for file in taken] == ["a.log", "b.log"]
    reasons = {found.file.name: found.reason for found in left_out}
    assert "may still be written" in reasons["new.log"]
    assert "being written" in reasons["x.log._COPYING_"]
    assert "include" in reasons["c.txt"]
    assert reasons["old.log"] == reasons["new open.log"] == "open for writing, says HDFS", "of which age says nothing"
    assert "by its name" in reasons["open.log.tmp"]
