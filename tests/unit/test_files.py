import datetime as dt
import re
from pathlib import Path

import pytest

from shipper.driver.files import REASONS, ListedFile, select, split_hash, split_starts
from shipper.types import FileId

NOW = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)


def listed(name, age_seconds=3600.0, **more):
    return ListedFile(
        FileId(f"/logs/{name}", 1, int((NOW.timestamp() - age_seconds) * 1000)),
        f"file:/logs/{name}",
        **more,
    )


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
    # What Spark 4.2's xxhash64(file_path, file_size, file_modification_time, file_block_start) gave
    # for this very file.
    file = FileId("file:/tmp/exp/files/bom.log", 17, 1795260137427)
    assert split_hash("file:/tmp/exp/files/bom.log", file, 0) == -1905928673698259363


def test_young_unfinished_and_open_files_are_left_out_with_the_reason():
    files = [
        listed("b.log"),
        listed("a.log"),
        listed("new.log", 10),
        listed("x.log._COPYING_"),
        listed("pipe", left="special"),
    ]
    files += [
        listed("old.log", open=True),
        listed("new open.log", 10, open=True),
        listed("open.log.tmp", open=True),
    ]
    files += [listed("ahead.log", -1), listed("far ahead.log", -1e14)]
    taken, left_out = select(files, settle_seconds=60, now=NOW)
    assert [file.name for file in taken] == ["a.log", "b.log"]
    codes = {found.file.name: found.code for found in left_out}
    assert codes == {
        "new.log": "unsettled",
        "x.log._COPYING_": "unfinished",
        "pipe": "special",
        "old.log": "open",
        "new open.log": "open",
        "open.log.tmp": "unfinished",
        "ahead.log": "future",
        "far ahead.log": "future",
    }, "of what is open age says nothing"
    assert all(found.reason for found in left_out)


def test_the_table_of_reasons_in_the_docs_is_the_one_in_the_code():
    text = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "left-out.md").read_text()
    rows = dict(re.findall(r"^\| `([a-z-]+)` \|.*\| (yes|no) \|$", text, re.MULTILINE))
    assert rows == {code: "yes" if reason.warns else "no" for code, reason in REASONS.items()}


def test_the_lister_has_no_reason_of_its_own():
    java = (
        Path(__file__).resolve().parents[2] / "jvm" / "shipper" / "lines" / "Entries.java"
    ).read_text()
    codes = set(re.findall(r'"([a-z]+(?:-[a-z]+)*)"', java)) - {"file", "s3a"}
    assert codes == REASONS.keys() - {"open", "unsettled", "future", "doubtful"}
