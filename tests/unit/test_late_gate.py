"""A late file that is wrong does not close the source gate of the window whose run found it."""

import datetime as dt

from shipper.driver import gate_source
from shipper.driver.context import RunContext
from shipper.report.coverage import coverage
from shipper.report.plan_result import ClusterPlan, PlannedFile, PlanResult
from shipper.report.results import CheckResult, apply_gate
from shipper.report.run_folder import RunFolder
from shipper.windows.window import Window
from spark_jobs.spark_engine import SparkEngine
from tests.samples.config import pipeline_of

START = dt.datetime(2026, 11, 1, 6, tzinfo=dt.UTC)
WINDOW = Window(START, START + dt.timedelta(hours=1))
BEFORE = Window(START - dt.timedelta(hours=1), START)
CHECK = {"check": "matches(value)", "severity": "block", "expected": "all", "observed": "97 %"}


def run_gate(tmp_path, monkeypatch, wrong):
    """The gate over an own file and a late one, with a check that finds the files ``wrong``."""
    pipeline = pipeline_of(clusters=["near"])
    folder = RunFolder(str(tmp_path), "web", WINDOW, "r")
    context = RunContext(pipeline, {}, tmp_path, WINDOW, folder, SparkEngine(pipeline))
    plan = PlanResult(
        **context.common("plan"),
        started_at=START,
        finished_at=START,
        files=[
            PlannedFile(path="own", size_bytes=1, modified_ms=1, splits=1),
            PlannedFile(
                path="late",
                size_bytes=1,
                modified_ms=1,
                splits=1,
                late_window=str(BEFORE),
                late_for=("near",),
            ),
        ],
        clusters=[ClusterPlan(cluster="near", looks_back_to=BEFORE.start)],
    )
    folder.write("plan", plan)

    def judge(context, planned, result):
        found = bool(wrong & {file.path for file in planned.files})
        return result.model_copy(
            update={
                "status": "failed" if found else "succeeded",
                "checks": [CheckResult(**CHECK, passed=not found)],
            }
        )

    monkeypatch.setattr(gate_source, "_judge_source", judge)
    return plan, gate_source.gate_source(context, START)


def test_it_stays_out_with_a_warning_and_the_window_goes(tmp_path, monkeypatch):
    plan, gate = run_gate(tmp_path, monkeypatch, {"late"})
    assert gate.status == "succeeded"
    shipped = apply_gate(plan, gate)
    assert [file.path for file in shipped.files_for("near")] == ["own"]
    assert [(file.path, file.warns) for file in shipped.left_out] == [("late", True)]
    assert "matches(value): expected all, observed 97 %" in shipped.left_out[0].reason
    covered = coverage(shipped, "near", when_empty_fails=True)
    assert [(one.window, one.paths) for one in covered.uncovered] == [(str(BEFORE), ["late"])]


def test_the_windows_own_files_close_it_as_ever(tmp_path, monkeypatch):
    assert run_gate(tmp_path, monkeypatch, {"own", "late"})[1].status == "failed"
    assert run_gate(tmp_path, monkeypatch, {"own"})[1].status == "failed"


def test_right_late_files_are_shipped(tmp_path, monkeypatch):
    plan, gate = run_gate(tmp_path, monkeypatch, set())
    assert [file.path for file in apply_gate(plan, gate).files_for("near")] == ["own", "late"]
