import datetime as dt
import json
from pathlib import Path

import pytest

from shipper.config.checks import SizeVsHistoryCheck
from shipper.report.past_runs import find_retry_exclusions, last_ship, past_runs
from shipper.report.phases import Phases
from shipper.report.plan_result import PlannedFile, PlanResult
from shipper.report.results import (
    Coverage,
    DeliveryGateResult,
    GateResult,
    RunReport,
    ShipResult,
    TopicAccount,
)
from shipper.report.run_folder import RunFolder
from shipper.report.window_records import read_records
from shipper.windows.window import Window
from spark_jobs.gates.source_view import SourceView
from tests.samples.config import pipeline_of
from tests.samples.results import checked, common

START = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)
HOUR = dt.timedelta(hours=1)


def leave(uri, hour, run_id="r1", *, sizes=(10, 20), read=5, unread=2, hours=1, **report):
    """The report of a run of the window that begins at ``hour``."""
    start = START + hour * HOUR
    window = Window(start, start + hours * HOUR)
    of_run = common(window, run_id, start)
    files = [
        PlannedFile(path=f"/l/{i}", size_bytes=size, modified_ms=0, splits=1)
        for i, size in enumerate(sizes)
    ]
    found = RunReport(
        **(of_run | {"finished_at": start + dt.timedelta(seconds=90)} | report),
        plan=PlanResult(**of_run, files=files),
        ships=[ShipResult(**of_run, cluster=name, read=read, unread=unread) for name in ("a", "b")],
    )
    folder = RunFolder(str(uri), "web", window, run_id)
    return Path(folder.write("report", found))


def hours(runs):
    return [(run.window_start - START) // HOUR for run in runs]


def test_the_latest_windows_before_this_one_oldest_first(tmp_path):
    for hour in (7, 1, 5, 3, 4):
        leave(tmp_path, hour)
    assert hours(past_runs(str(tmp_path), "web", START + 5 * HOUR, most=2)) == [3, 4]
    assert hours(past_runs(str(tmp_path), "web", START + 8 * HOUR, most=9)) == [1, 3, 4, 5, 7]
    assert past_runs(str(tmp_path), "web", START + HOUR, most=9) == []


def test_of_a_window_its_last_run_that_succeeded(tmp_path):
    leave(tmp_path, 1, "20261101T010000-a", sizes=[1])
    leave(tmp_path, 1, "20261101T020000-b", sizes=[2])
    leave(tmp_path, 1, "20261101T030000-c", sizes=[4], status="failed", error="ship:a: no broker")
    leave(tmp_path, 1, "20261101T040000-d", sizes=[8], status="failed", error="the disk is full")
    assert [run.bytes for run in past_runs(str(tmp_path), "web", START + 9 * HOUR, most=9)] == [2]


@pytest.mark.parametrize(
    "text",
    [b"", b"{", b"\xff\xfe", b"[]", b"{}", b'{"pipeline": "web"}'],
    ids=["empty", "cut", "binary", "list", "bare", "other"],
)
def test_a_broken_report_is_passed_over(tmp_path, text):
    leave(tmp_path, 1)
    leave(tmp_path, 2).write_bytes(text)
    assert hours(past_runs(str(tmp_path), "web", START + 9 * HOUR, most=9)) == [1]


def test_what_is_no_run_of_this_pipeline_is_passed_over(tmp_path):
    leave(tmp_path, 1)
    other = leave(tmp_path, 2)
    text = json.loads(other.read_text())
    for name, value in {
        "pipeline": "other",
        "window_start": "2020-01-01T00:00:00Z",
        "run_id": "r9",
    }.items():
        other.write_text(json.dumps(text | {name: value}))
        assert hours(past_runs(str(tmp_path), "web", START + 9 * HOUR, most=9)) == [1]
    for name in (
        "ledger",
        "20261101T000000Z--nonsense",
        "20261101T050000Z--20261101T040000Z",
        ".tmp",
    ):
        (tmp_path / "web" / name / "r1").mkdir(parents=True)
    (tmp_path / "web" / "20261101T030000Z--20261101T040000Z").write_text(
        "a file where a folder should be"
    )
    (tmp_path / "web" / "20261101T040000Z--20261101T050000Z" / "r1").mkdir(
        parents=True
    )  # a run that was killed
    assert hours(past_runs(str(tmp_path), "web", START + 9 * HOUR, most=9)) == [1]


def test_a_pipeline_that_has_failed_for_weeks_does_not_have_all_its_reports_read(tmp_path):
    leave(tmp_path, 0)
    for hour in range(1, 7):
        leave(tmp_path, hour, status="failed", error="plan: no files")
    assert hours(past_runs(str(tmp_path), "web", START + 9 * HOUR, most=2)) == [0]
    assert past_runs(str(tmp_path), "web", START + 9 * HOUR, most=1) == []


@pytest.mark.parametrize(
    ("alike", "found"),
    [
        ("any", [0, 24, 120, 144, 150, 168]),
        ("time_of_day", [0, 24, 120, 144, 168]),
        ("time_of_week", [0, 168]),
    ],
)
def test_a_window_is_compared_with_earlier_ones_that_are_as_long_and_alike(tmp_path, alike, found):
    for hour in (0, 24, 120, 144, 150, 168, 336):
        leave(tmp_path / "runs", hour)
    leave(tmp_path / "runs", 168, hours=24)
    check = SizeVsHistoryCheck(check="size_vs_history", alike=alike)
    start = START + 336 * HOUR
    plan = PlanResult(**common(Window(start, start + HOUR)))
    nothing = None  # of Spark is asked
    view = SourceView(nothing, nothing, pipeline_of(), plan, [], str(tmp_path / "runs"), Phases())
    assert hours(view.history(check)) == found


def leave_ship(uri, hour, run_id, **figures):
    at = START + hour * HOUR
    topics = [TopicAccount(topic="t", delivered=1, delivered_bytes=70)]
    of_run = common(Window(at, at + HOUR), run_id, at)
    found = ShipResult(**of_run, cluster="a", topics=topics)
    folder = RunFolder(str(uri), "web", found.window, run_id)
    folder.write("ship.a", found.model_copy(update=figures))


def test_the_last_ship_that_took_long_enough_tells_what_another_one_costs(tmp_path):
    uri = str(tmp_path)
    told = {"limited_by": "source", "cpu_seconds": 9.0, "ship_seconds": 7.0, "wire_bytes": 9}
    assert last_ship(uri, "web", "a") is None
    leave_ship(uri, 1, "r1", **told, tasks=3)
    leave_ship(uri, 2, "r1", **told, tasks=5)
    leave_ship(uri, 2, "r2", **told, tasks=4)
    leave_ship(uri, 3, "r1", **told, topics=[])
    killed = Window(START + 4 * HOUR, START + 5 * HOUR)
    (tmp_path / "web" / RunFolder.name_of(killed)).mkdir(parents=True)
    found = last_ship(uri, "web", "a")
    assert (found.tasks, found.bytes, found.cpu_seconds, found.ship_seconds) == (4, 70, 9.0, 7.0)
    assert last_ship(uri, "web", "b") is None
    leave_ship(uri, 5, "r1")
    assert last_ship(uri, "web", "a") is None, "each look is a question to an object store"


def test_a_closed_source_gate_holds_files_back_also_when_the_schedule_has_changed(tmp_path):
    def gate(first, last, status):
        window = Window(START + first * HOUR, START + last * HOUR)
        check = checked("c", status != "failed", "", "")
        found = GateResult(
            step="gate_source", status=status, checks=[check], **common(window, f"run-{last}")
        )
        RunFolder(str(tmp_path), "web", window, f"run-{last}").write("gate_source", found)

    both, end = Window(START, START + 2 * HOUR), START + 9 * HOUR
    gate(0, 1, "failed")
    gate(1, 2, "succeeded")
    assert find_retry_exclusions(str(tmp_path), "web", ["a"], [both], end).closed == {both}
    gate(0, 3, "succeeded")
    assert find_retry_exclusions(str(tmp_path), "web", ["a"], [both], end).closed == set()


def test_a_closed_delivery_gate_holds_no_file_back(tmp_path):
    window, end = Window(START, START + HOUR), START + 9 * HOUR
    of_run = common(window, "r1") | {"status": "failed"}
    found = Coverage(start=window.start, end=window.end)
    gate = DeliveryGateResult(
        cluster="a", checks=[checked("sum_closes", False, "", "")], coverage=found, **of_run
    )
    RunFolder(str(tmp_path), "web", window, "r1").write("gate_delivery.a", gate)
    (left,) = read_records(str(tmp_path), "web", START)
    assert (left.distrusted, left.closed) == (True, None)
    assert find_retry_exclusions(str(tmp_path), "web", ["a"], [window], end).closed == set()
