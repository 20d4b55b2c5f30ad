"""Which window a file belongs to where its time of modification decides."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

from shipper.config.pipeline import Pipeline
from shipper.driver.context import RunContext
from shipper.driver.files import ListedFile, NotTaken
from shipper.driver.lookback import LookBack, late_files
from shipper.driver.pending import Pending
from shipper.report.run_folder import RunFolder
from shipper.types import FileId
from shipper.windows.window import Window, to_ms
from spark_jobs.engine import SparkEngine

MIDNIGHT = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)
HOURS = [Window(MIDNIGHT + dt.timedelta(hours=n), MIDNIGHT + dt.timedelta(hours=n + 1)) for n in range(3)]


def modified(milliseconds: int, *, open: bool = False) -> ListedFile:
    return ListedFile(FileId(f"/logs/{milliseconds}", 1, to_ms(MIDNIGHT) + milliseconds), "", open=open)


def test_a_file_is_of_the_window_in_which_it_was_last_modified():
    back = LookBack(HOURS, {}, {hour: frozenset({str(hour)}) for hour in HOURS}, {"c": MIDNIGHT}, by_modified=True)
    hour = 3_600_000
    first, last, second, third = (modified(at) for at in (0, hour - 1, hour, 3 * hour - 1))
    own = modified(3 * hour)
    assert [back.holds(file) for file in (first, last, second, third, own)] == [True, True, True, True, False]
    assert [HOURS.index(back.window_of(file)) for file in (first, last, second, third)] == [0, 0, 1, 2]
    back.note([first, last, third, own])
    assert back.result().empty == [str(HOURS[1])]


def test_an_open_file_is_of_the_window_in_which_it_will_be_closed_if_that_decides_and_of_its_folders_if_they_do():
    file = modified(1, open=True)
    left = [NotTaken(file, "open for writing, says HDFS", "open")]
    by_modified = LookBack(HOURS, {}, {}, {"c": MIDNIGHT}, by_modified=True)
    by_modified.take([], left)
    assert by_modified.left_out == []
    by_path = LookBack(HOURS, {"": HOURS[0]}, {}, {"c": MIDNIGHT})
    by_path.take([], left)
    assert [(found.reason, found.window) for found in by_path.left_out] == [("open for writing, says HDFS", str(HOURS[0]))]


def test_a_late_file_beyond_a_limit_does_not_hold_up_the_files_behind_it(tmp_path: Path):
    spec = {
        "pipeline": "web",
        "schedule": {"cron": "@hourly"},
        "source": "logs",
        "topic": "t",
        "clusters": ["c"],
        "runs_uri": str(tmp_path),
    }
    pipeline = Pipeline.model_validate({**spec, "limits": {"max_files": 6, "max_bytes": "100B"}})
    folder = RunFolder(str(tmp_path), "web", HOURS[2].start, HOURS[2].end, "r")
    context = RunContext(pipeline, {}, tmp_path, HOURS[2], folder, SparkEngine(pipeline))
    late = [FileId("old and large", 20, 1), FileId("never", 101, 1), *(FileId(f"small{n}", 2, 2) for n in range(6))]
    back = LookBack(HOURS[:2], {"": HOURS[0]}, {}, {"c": MIDNIGHT}, files={file: ListedFile(file, "") for file in late})
    found = late_files(context, back, {"c": Pending(left=late)}, [ListedFile(FileId("own", 90, 3), "")])
    assert [file.path for file in found.files] == [f"small{n}" for n in range(5)]
    reasons = {left.path: left.reason for left in found.left_out}
    assert reasons.keys() == {"old and large", "never", "small5"}
    assert reasons["never"] != reasons["old and large"] == reasons["small5"], "it says that no run takes it"
    assert "limits.max_bytes" in reasons["never"]
