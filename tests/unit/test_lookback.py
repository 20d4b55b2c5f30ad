"""Which window a file belongs to where its time of modification decides."""

import datetime as dt
import json
from dataclasses import replace

import pytest

from shipper.driver.context import RunContext
from shipper.driver.decide import Decisions, FileDecision
from shipper.driver.engine import Listed
from shipper.driver.files import ListedFile
from shipper.driver.lookback import LookBack, late_files, look_back
from shipper.driver.plan import _list, _over_until
from shipper.errors import SourceError
from shipper.report.incomplete import beginnings_of
from shipper.report.run_folder import RunFolder
from shipper.request import RunRequest
from shipper.types import FileId
from shipper.windows.folders import TickFolders
from shipper.windows.window import Window, to_ms
from tests.samples.config import pipeline_of

MIDNIGHT, DAY = dt.datetime(2026, 11, 1, tzinfo=dt.UTC), dt.timedelta(days=1)
HOURS = [
    Window(MIDNIGHT + dt.timedelta(hours=n), MIDNIGHT + dt.timedelta(hours=n + 1)) for n in range(3)
]


def modified(milliseconds):
    return ListedFile(FileId(f"/logs/{milliseconds}", 1, to_ms(MIDNIGHT) + milliseconds), "")


def test_a_file_is_of_the_window_in_which_it_was_last_modified():
    ticks = TickFolders({hour: ["logs"] for hour in HOURS}, by_modified=True)
    back = LookBack(ticks, HOURS[2].end, (), {"c": MIDNIGHT})
    hour = 3_600_000
    first, last, second, third = (modified(at) for at in (0, hour - 1, hour, 3 * hour - 1))
    own = modified(3 * hour)
    assert [back.holds(file) for file in (first, last, second, third, own)] == [
        True,
        True,
        True,
        True,
        False,
    ]
    assert [HOURS.index(back.window_of(file)) for file in (first, last, second, third)] == [
        0,
        0,
        1,
        2,
    ]
    assert [ticks.tick_of(modified(at)) for at in (-1, 3 * hour)] == [None, None]
    assert ticks.with_a_file([first, last, third]) == {HOURS[0], HOURS[2]}


class Listing:
    """An engine that lists what it is told; ``broken``: folders that nobody may list."""

    def __init__(self, counts, broken=()):
        self.counts, self.broken, self.calls = counts, broken, 0

    def list_files(self, paths, *, most, modified):
        self.calls += 1
        files = [
            ListedFile(FileId(f"{path}{n}.log", 1, 1), "", path)
            for path in paths
            if path not in self.broken
            for n in range(self.counts.get(path, 0))
        ]
        return Listed(
            files[: most + 1],
            len(files) > most,
            {path: "permission denied" for path in paths if path in self.broken},
        )


def look(tmp_path, engine):
    """The folders of the files that the run over the last hour finds, and what it notes of the
    hours before it: path and tick."""
    context = run_of_the_last_hour(tmp_path, engine)
    own = TickFolders({HOURS[2]: ["/2/"]})
    back = LookBack(
        TickFolders({HOURS[0]: ["/0/"], HOURS[1]: ["/1/"]}),
        HOURS[2].start,
        ["/0/", "/1/"],
        {"c": MIDNIGHT},
    )
    files, *_ = _list(context, own.paths, own, back)
    folders = [file.under for file in (*files, *back.files.values())]
    return sorted(set(folders)), {left.path: left.window for left in back.left_out}


def test_an_old_folder_that_cannot_be_listed_is_left_out_of_its_own_hour(tmp_path):
    engine = Listing({"/0/": 1, "/1/": 1, "/2/": 1}, broken=["/0/"])
    assert look(tmp_path, engine) == (["/1/", "/2/"], {"/0/": str(HOURS[0])})
    with pytest.raises(SourceError, match="permission denied"):
        look(tmp_path, Listing({"/2/": 1}, broken=["/2/"]))


def test_too_many_files_in_an_old_folder_leave_out_its_own_hour_alone(tmp_path):
    assert look(tmp_path, Listing({"/0/": 1, "/1/": 50, "/2/": 6})) == (
        ["/0/", "/2/"],
        {"/1/": str(HOURS[1])},
    )
    assert look(tmp_path, engine := Listing({"/0/": 6, "/1/": 6, "/2/": 6})) == (
        ["/0/", "/1/", "/2/"],
        {},
    )
    assert engine.calls == 1, "unless there are too many of them, one question is enough"
    with pytest.raises(SourceError, match=r"limits\.max_files"):
        look(tmp_path, Listing({"/0/": 1, "/2/": 50}))


def run_of_the_last_hour(tmp_path, engine):
    limits = {"max_files": 6, "max_bytes": "100B"}
    pipeline = pipeline_of(schedule="@hourly", runs_uri=str(tmp_path), limits=limits)
    folder = RunFolder(str(tmp_path), "web", HOURS[2], "r")
    return RunContext(pipeline, {}, tmp_path, HOURS[2], folder, engine)


def test_a_run_by_hand_knows_which_of_its_windows_are_over(tmp_path):
    context = run_of_the_last_hour(tmp_path, None)
    own = TickFolders({hour: ["logs"] for hour in HOURS})
    now = HOURS[1].end + dt.timedelta(minutes=59)
    assert _over_until(context, own, now) == HOURS[2].start
    assert _over_until(context, own, HOURS[0].start) == HOURS[0].start
    assert _over_until(context, own, HOURS[2].end) is None
    of_schedule = replace(context, request=RunRequest(scheduled=True))
    assert _over_until(of_schedule, own, now) is None, "the scheduler goes by its own clock"


@pytest.mark.parametrize(("start", "since"), [(None, 0), ("2026-11-01T00:30", 2)])
def test_the_first_window_of_a_coarser_schedule_is_looked_at(tmp_path, start, since):
    """What was the rest of it belongs to no other window."""
    noted = {"c": HOURS[2].start.isoformat()}
    (tmp_path / "web" / "schedule").mkdir(parents=True)
    (tmp_path / "web" / "schedule" / "1.json").write_text(json.dumps({"first_window": noted}))
    daily = {"cron": "@daily"} | ({"start": start} if start else {})
    pipeline = pipeline_of(schedule=daily, runs_uri=str(tmp_path), clusters=["c"])
    window = Window(MIDNIGHT + DAY, MIDNIGHT + 2 * DAY)
    request = RunRequest(scheduled=True, plan_only=True)
    context = replace(
        run_of_the_last_hour(tmp_path, None), pipeline=pipeline, window=window, request=request
    )
    back = look_back(context, "logs/", TickFolders.named("logs/", window, context.ticks))
    assert (back.start if back else None) == (MIDNIGHT if since == 0 else None)
    assert beginnings_of(str(tmp_path), pipeline) == {"c": HOURS[since].start}


def test_a_late_file_beyond_a_limit_does_not_hold_up_the_files_behind_it(tmp_path):
    context = run_of_the_last_hour(tmp_path, None)
    late = [
        FileId("old and large", 20, 1),
        FileId("never", 101, 1),
        *(FileId(f"small{n}", 2, 2) for n in range(6)),
    ]
    back = LookBack(
        TickFolders({HOURS[0]: [""]}),
        HOURS[2].start,
        [""],
        {"c": MIDNIGHT},
        files={file: ListedFile(file, "") for file in late},
    )
    left = Decisions([FileDecision(file, "new", "ship") for file in late])
    found = late_files(context, back, {"c": left}, [ListedFile(FileId("own", 90, 3), "")])
    assert [file.path for file in found] == [f"small{n}" for n in range(5)]
    reasons = {left.path: left.reason for left in back.left_out}
    assert reasons.keys() == {"old and large", "never", "small5"}
    assert reasons["never"] != reasons["old and large"] == reasons["small5"], (
        "it says that no run takes it"
    )
    assert "limits.max_bytes" in reasons["never"]
