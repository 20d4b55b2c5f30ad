"""What a step says in the last line of its log."""

from __future__ import annotations

import datetime as dt
from typing import Any

from shipper.report.message import summary
from shipper.report.plan_result import ClusterPlan, PlannedFile, PlanResult
from shipper.report.results import CheckResult, GateResult, ShipResult, TopicAccount

NOON = dt.datetime(2026, 11, 1, 12, tzinfo=dt.UTC)
COMMON: dict[str, Any] = {
    "pipeline": "web",
    "window_start": NOON,
    "window_end": NOON,
    "run_id": "r",
    "started_at": NOON,
    "finished_at": NOON,
}


def test_a_ship_says_what_it_sent_and_what_was_there() -> None:
    topics = [TopicAccount(topic="t", delivered=4000, before=120)]
    assert summary(ShipResult(cluster="near", topics=topics, unread=100, **COMMON)) == "4,000 records sent; 120 were there before"
    assert summary(ShipResult(cluster="near", **COMMON)) == "0 records sent"


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


def test_a_gate_says_which_checks_did_not_hold() -> None:
    checks = [
        CheckResult(check=name, severity="warn", passed=name == "files", expected="", observed="") for name in ("files", "rows")
    ]
    assert summary(GateResult(step="gate_source", checks=checks, **COMMON)) == "1 of 2 checks passed; not: rows"
    assert summary(GateResult(step="gate_source", scope="nothing is left to ship", **COMMON)) == "nothing is left to ship"
