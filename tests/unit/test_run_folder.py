"""A step's result, and that of an attempt which began later."""

import datetime as dt

import pytest

from shipper.report.plan_result import PlanResult
from shipper.report.run_folder import RunFolder

START = dt.datetime(2026, 11, 1, 6, tzinfo=dt.UTC)


@pytest.fixture
def folder(tmp_path):
    return RunFolder(str(tmp_path), "web", START, START + dt.timedelta(hours=1), "r1")


def result(seconds=0, **fields):
    began = START + dt.timedelta(seconds=seconds)
    window = {"window_start": START, "window_end": START + dt.timedelta(hours=1)}
    return PlanResult(
        pipeline="web", run_id="r1", started_at=began, finished_at=began, **window, **fields
    )


def test_the_result_of_an_attempt_that_began_later_is_found_by_the_earlier_one(folder):
    earlier, later = result(), result(seconds=5, source="later")
    folder.write("plan", later)
    folder.write("plan", earlier)
    assert folder.find_later("plan", earlier) == folder.find("plan", PlanResult) == later
    assert folder.find_later("plan", later) is None
