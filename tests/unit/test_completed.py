"""Which windows a run says to have completed: the partition keys of the cluster's asset."""

import datetime as dt

import pytest

from shipper.report.completed import completed
from shipper.report.results import Coverage, DeliveryGateResult, FileAccount, Uncovered
from shipper.report.run_folder import RunFolder
from shipper.report.window_records import accept
from shipper.windows.window import Window, partition_key
from tests.samples.config import pipeline_of
from tests.samples.results import common

DAY = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)
CHECKED_FAILED = {"status": "failed", "error": "closed"}


def hours(first, last):
    return Window(DAY + dt.timedelta(hours=first), DAY + dt.timedelta(hours=last))


class Runs:
    """Delivery gates of runs one after the other, on the cluster `near`."""

    def __init__(self, uri, cron="@hourly"):
        self.uri, self.count = uri, 0
        self.pipeline = pipeline_of(clusters=["near"], **{"schedule": cron} if cron else {})

    def keys(
        self,
        first,
        last,
        *,
        back_to=None,
        left=None,
        late=None,
        until=None,
        passes=True,
        again=False,
    ):
        """Return the hours whose keys a run over hours ``first`` to ``last`` emits. ``left``: an
        hour of which it left a file out; ``late``: one of which it sent a late file; ``until``: the
        first one that was not over when it looked; ``again``: it is another attempt of the run
        before it."""
        self.count += not again
        own, run_id = hours(first, last), f"run-{self.count:02}"
        at = hours(99, 100).start + dt.timedelta(seconds=self.count)
        start = own.start if back_to is None else hours(back_to, back_to + 1).start
        end = own.end if until is None else hours(until, until + 1).start
        uncovered = [] if left is None else [_left(hours(left, left + 1))]
        gate = DeliveryGateResult(
            cluster="near",
            coverage=Coverage(start=start, end=end, looked_at=at, uncovered=uncovered),
            **common(own, run_id, at),
            **({} if passes else CHECKED_FAILED),
        )
        file = FileAccount(path="a.log", records=5, delivered=3, before=2)
        files = {} if late is None else {str(hours(late, late + 1)): [file]}
        found = completed(self.uri, self.pipeline, gate, files)
        RunFolder(self.uri, "web", own, run_id).write("gate_delivery.near", gate)
        assert all(one.records == 5 and one.sent == 3 for one in found if one.start.hour == late)
        return [int((one.start - DAY) / dt.timedelta(hours=1)) for one in found]


def _left(window):
    return Uncovered(window=str(window), why="young", files=[{"path": "b.log"}])


@pytest.fixture
def runs(tmp_path):
    return Runs(str(tmp_path))


def test_a_window_is_told_once_it_is_complete_and_never_before(runs):
    assert runs.keys(0, 1, passes=False) == []
    assert runs.keys(1, 2, back_to=1, left=1) == [], "a file was left out"
    assert runs.keys(2, 3, back_to=0) == [0, 1, 2], "it looked at all that was not complete"
    assert runs.keys(3, 4, back_to=0) == [3], "the others were complete before"


def test_a_window_that_is_run_again_is_told_again_and_others_are_not(runs):
    assert runs.keys(0, 1) == [0]
    assert runs.keys(1, 2, back_to=0) == [1]
    assert runs.keys(0, 1) == [0]


def test_late_files_are_told_by_the_key_of_their_own_window(runs):
    assert [runs.keys(n, n + 1) for n in (0, 1, 2)] == [[0], [1], [2]]
    assert runs.keys(3, 4, back_to=0, late=1) == [1, 3]


def test_a_wide_window_tells_each_of_its_windows_that_is_complete(runs):
    assert runs.keys(0, 6, left=4) == [0, 1, 2, 3, 5]


def test_a_window_that_was_not_over_is_told_by_a_run_that_came_later(runs):
    assert runs.keys(0, 6, until=2) == [0, 1]
    assert runs.keys(2, 3) == [2]
    assert runs.keys(3, 4, until=3) == []
    assert runs.keys(5, 6, back_to=3) == [3, 4, 5]


def test_two_runs_that_have_half_a_window_each_complete_it_together(runs):
    daily = Runs(runs.uri, "0 0 * * *")
    assert daily.keys(0, 12) == []
    assert daily.keys(12, 24) == [0]


def test_a_second_attempt_tells_what_the_first_may_not_have_told(runs):
    runs.keys(0, 1, passes=False)
    assert runs.keys(1, 2, back_to=0) == [0, 1]
    assert runs.keys(1, 2, back_to=0, again=True) == [0, 1]


def test_a_window_that_a_person_accepted_is_told_by_the_next_run(runs, monkeypatch):
    assert runs.keys(0, 1, left=0) == []
    later = hours(99, 100).start + dt.timedelta(seconds=1.5)
    monkeypatch.setattr("shipper.runtime.now", lambda: later)
    accept(runs.uri, "web", hours(0, 1), why="nothing comes", who="olga")
    assert runs.keys(1, 2, back_to=0) == [0, 1]
    assert runs.keys(2, 3, back_to=0) == [2]


def test_without_a_schedule_it_is_the_window_that_was_asked_for(tmp_path):
    assert Runs(str(tmp_path), None).keys(3, 7) == [3]


def test_each_of_the_two_hours_of_a_night_in_autumn_has_a_key_of_its_own():
    first = dt.datetime.fromisoformat("2026-10-25T02:00:00+02:00")
    second = dt.datetime.fromisoformat("2026-10-25T02:00:00+01:00")
    assert [partition_key(at) for at in (first, second)] == [
        "2026-10-25T00:00:00",
        "2026-10-25T01:00:00",
    ]
