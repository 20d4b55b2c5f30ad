"""What a step says in the last line of its log."""

from __future__ import annotations

import datetime as dt
from typing import Any

from shipper.report.message import details, summary
from shipper.report.plan_result import ClusterPlan, PlannedFile, PlanResult
from shipper.report.results import CheckResult, FileAccount, GateResult, ShipResult, TopicAccount

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
    assert (
        summary(ShipResult(cluster="near", topics=topics, unread=100, **COMMON))
        == "4,000 records sent; 120 were there before"
    )
    assert summary(ShipResult(cluster="near", **COMMON)) == "0 records sent"


def test_a_ship_says_of_how_many_files_and_what_an_earlier_attempt_of_its_run_had_sent() -> None:
    files = [
        FileAccount(path=name, records=5, delivered=5, before=0, unread=name == "a")
        for name in "abc"
    ]
    topics = [
        TopicAccount(topic="t", delivered=10, before=4005, delivered_bytes=1000),
        TopicAccount(topic="u", parked=3),
    ]
    found = ShipResult(
        cluster="near",
        topics=topics,
        files=files,
        unread_files=1,
        by_earlier_attempts=4000,
        **COMMON,
    )
    assert summary(found) == (
        "10 records of 2 files sent; 4,005 were there before, 4,000 of them by an earlier "
        "attempt of this run"
    )
    assert details(found) == [
        "topic t: 10 records sent, 1.0 kB",
        "topic u: 0 records sent, 0 B, 3 parked and not sent",
    ]


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


def test_a_gate_says_which_checks_did_not_hold() -> None:
    checks = [
        CheckResult(check=name, severity="warn", passed=name == "files", expected="", observed="")
        for name in ("files", "rows")
    ]
    assert (
        summary(GateResult(step="gate_source", checks=checks, **COMMON))
        == "1 of 2 checks passed; not: rows"
    )
    assert (
        summary(GateResult(step="gate_source", scope="nothing is left to ship", **COMMON))
        == "nothing is left to ship"
    )
