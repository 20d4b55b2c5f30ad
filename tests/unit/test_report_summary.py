"""What a step says in the last line of its log."""

from __future__ import annotations

import datetime as dt
from typing import Any

from shipper.report.message import details, summary
from shipper.report.plan_result import ClusterPlan, PlannedFile, PlanResult
from shipper.report.results import CheckResult, GateResult

NOON = dt.datetime(2026, 11, 1, 12, tzinfo=dt.UTC)
COMMON: dict[str, Any] = {
    "pipeline": "web",
    "window_start": NOON,
    "window_end": NOON,
    "run_id": "r",
    "started_at": NOON,
    "finished_at": NOON,
}


def test_each_check_that_does_not_hold_has_a_line_with_its_figures_and_many_are_not_all_shown() -> (
    None
):
    checks = [
        CheckResult(
            check=f"c{n}",
            severity="warn" if n else "block",
            passed=n == 1,
            expected="≥ 5 rows",
            observed=f"{n} rows",
        )
        for n in range(30)
    ]
    lines = details(GateResult(step="gate_source", checks=checks, **COMMON))
    assert lines[:2] == [
        "FAILED check c0: expected ≥ 5 rows, observed 0 rows",
        "WARN check c2: expected ≥ 5 rows, observed 2 rows",
    ]
    assert (len(lines), lines[-1]) == (21, "… and 9 more checks")


def test_a_plan_says_what_is_left_for_each_cluster() -> None:
    files = [PlannedFile(path="a", uri="a", size_bytes=1000, modified_ms=1, splits=1)]
    near, far, gone = (
        ClusterPlan(cluster="near", left_files=1, left_bytes=1000),
        ClusterPlan(cluster="far"),
        ClusterPlan(cluster="gone", problem="x"),
    )
    said = summary(PlanResult(files=files, clusters=[near, far, gone], **COMMON))
    assert said.startswith("1 file, ")
    assert "near: 1 file left" in said
    assert "far: nothing left to ship" in said
    assert "gone: cannot be shipped to" in said
