"""Which window a file belongs to where its time of modification decides."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

from shipper.config.pipeline import Pipeline
from shipper.driver.context import RunContext
from shipper.driver.files import ListedFile
from shipper.driver.lookback import LookBack, late_files
from shipper.driver.pending import Pending
from shipper.report.run_folder import RunFolder
from shipper.types import FileId
from shipper.windows.folders import TickFolders
from shipper.windows.window import Window, to_ms
from spark_jobs.engine import SparkEngine

MIDNIGHT = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)
HOURS = [Window(MIDNIGHT + dt.timedelta(hours=n), MIDNIGHT + dt.timedelta(hours=n + 1)) for n in range(3)]


def modified(milliseconds: int) -> ListedFile:
    return ListedFile(FileId(f"/logs/{milliseconds}", 1, to_ms(MIDNIGHT) + milliseconds), "")


def test_a_file_is_of_the_window_in_which_it_was_last_modified():
    ticks = TickFolders({hour: ["logs"] for hour in HOURS}, by_modified=True)
    back = LookBack(ticks, HOURS[2].end, (), {"c": MIDNIGHT})
    hour = 3_600_000
    first, last, second, third = (modified(at) for at in (0, hour - 1, hour, 3 * hour - 1))
    own = modified(3 * hour)
    assert [back.holds(file) for file in (first, last, second, third, own)] == [True, True, True, True, False]
    assert [HOURS.index(back.window_of(file)) for file in (first, last, second, third)] == [0, 0, 1, 2]
    assert [ticks.tick_of(modified(at)) for at in (-1, 3 * hour)] == [None, None]
    assert ticks.with_a_file([first, last, third]) == {HOURS[0], HOURS[2]}


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
    back = LookBack(
        TickFolders({HOURS[0]: [""]}), HOURS[2].start, [""], {"c": MIDNIGHT}, files={file: ListedFile(file, "") for file in late}
    )
    found = late_files(context, back, {"c": Pending(left=late)}, [ListedFile(FileId("own", 90, 3), "")])
    assert [file.path for file in found.files] == [f"small{n}" for n in range(5)]
    reasons = {left.path: left.reason for left in found.left_out}
    assert reasons.keys() == {"old and large", "never", "small5"}
    assert reasons["never"] != reasons["old and large"] == reasons["small5"], "it says that no run takes it"
    assert "limits.max_bytes" in reasons["never"]
