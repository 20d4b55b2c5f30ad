"""What a step leaves behind when it fails, is stopped, or wakes up when another attempt has done
its work."""

import contextlib
import datetime as dt
import signal
from dataclasses import replace
from functools import partialmethod
from pathlib import Path

import pytest

from shipper.driver import plan as plan_step
from shipper.driver import run as steps
from shipper.driver.context import RunContext
from shipper.errors import ClusterError, ClusterRefuses, Superseded
from shipper.finding import fail
from shipper.report.plan_result import ClusterPlan, PlanResult
from shipper.report.results import GateResult, RunReport, ShipResult
from shipper.report.run_folder import RunFolder
from shipper.request import RunRequest
from shipper.runner import GATE_DELIVERY, PLAN, REPORT, SHIP
from shipper.stopping import Stopped
from shipper.windows.window import Window
from spark_jobs.spark_engine import SparkEngine
from tests.samples.config import cluster_of, pipeline_of

START = dt.datetime(2026, 11, 1, 6, tzinfo=dt.UTC)
WINDOW = Window(START, START + dt.timedelta(hours=1))


@pytest.fixture
def context(tmp_path):
    pipeline = pipeline_of(clusters=["near"])
    cluster = cluster_of("near")
    return RunContext(
        pipeline,
        {"near": cluster},
        tmp_path,
        WINDOW,
        RunFolder(str(tmp_path), "web", WINDOW, "r"),
        SparkEngine(pipeline),
    )


def shipped(context, started_at, status, error=None):
    return ShipResult(
        **context.common("ship"),
        cluster="near",
        started_at=started_at,
        finished_at=started_at,
        status=status,
        error=error,
    )


def superseded_within(context, cluster, started_at):
    """As a ship ends whose tasks have found out: it keeps its account, and its error is in the
    result."""
    return shipped(context, started_at, "failed", "a later run took over")


def woke_up_to_succeed(context, cluster, started_at):
    """Its commits had made it before it was paused."""
    return shipped(context, started_at, "succeeded")


def superseded_before(context, cluster, started_at):
    raise Superseded("a later run took over")


@pytest.mark.parametrize("earlier", ["succeeded", "failed"])
@pytest.mark.parametrize("point", range(1, 8))
@pytest.mark.parametrize("pauses", ["the earlier", "the earlier, and is killed", "the later"])
def test_the_later_attempts_result_holds_wherever_either_was_paused(
    context, monkeypatch, earlier, point, pauses
):
    """One attempt is paused before each of its accesses to the folder in turn, while the other one
    writes its result."""
    folder, calls = context.folder, 0
    later = "failed" if earlier == "succeeded" else "succeeded"
    results = [
        shipped(context, START, earlier),
        shipped(context, START + dt.timedelta(minutes=5), later),
    ]
    slow, quick = reversed(results) if pauses == "the later" else results
    accesses = {
        name: getattr(RunFolder, name)
        for name in ("read_text", "write_text", "_latest")
        if hasattr(RunFolder, name)
    }

    def paused(name, *arguments):
        nonlocal calls
        calls += 1
        if calls == point:
            folder.write("ship.near", quick)
            if "killed" in pauses:
                raise KeyboardInterrupt
        return accesses[name](*arguments)

    with monkeypatch.context() as patched, contextlib.suppress(KeyboardInterrupt):
        for name in accesses:
            patched.setattr(
                RunFolder,
                name,
                partialmethod(lambda self, name, *rest: paused(name, self, *rest), name),
            )
        folder.write("ship.near", slow)
    if calls < point:  # the slow one had ended
        folder.write("ship.near", quick)
    found = folder.find("ship.near", ShipResult)
    assert found.status == later
    if "killed" not in pauses:
        assert f'"status": "{later}"' in (folder.read_text("ship.near.json") or ""), (
            "what people and programs read"
        )


def test_an_attempt_whose_clock_is_behind_is_the_later_one_all_the_same(context, monkeypatch):
    tomorrow = dt.datetime.now(dt.UTC) + dt.timedelta(days=1)
    context.folder.write("ship.near", shipped(context, tomorrow, "failed", "no broker answers"))
    monkeypatch.setattr("shipper.driver.ship.ship", woke_up_to_succeed)
    assert steps.run_step(context, SHIP, "near") == 0
    assert context.folder.need("ship.near", ShipResult).status == "succeeded"


@pytest.mark.parametrize("ship", [superseded_within, superseded_before])
def test_without_a_later_one_its_own_failure_is_the_result(context, monkeypatch, ship):
    monkeypatch.setattr("shipper.driver.ship.ship", ship)
    assert steps.run_step(context, SHIP, "near") == 1
    found = context.folder.find("ship.near", ShipResult)
    assert (found.error or "").startswith("a later run took over")


@pytest.mark.parametrize(
    ("step", "cluster", "says"),
    [
        (PLAN, None, "Nothing was sent"),
        (SHIP, "near", "What was sent until then, if anything"),
        (GATE_DELIVERY, "near", "What was sent until then, if anything"),
    ],
)
def test_a_step_that_was_stopped_claims_no_more_than_it_knows(
    context, monkeypatch, step, cluster, says
):
    def stop(*_):
        raise Stopped(signal.SIGTERM)

    monkeypatch.setattr(f"shipper.driver.{step}.{step}", stop)
    with pytest.raises(Stopped):
        steps.run_step(context, step, cluster)
    [left] = Path(context.folder.uri).glob("*.json")
    assert f"stopped by SIGTERM. {says}" in left.read_text()
    ship = context.folder.find("ship.near", ShipResult)
    assert ship is None or ship.are_receipts_lost


def test_a_report_that_was_stopped_says_what_became_of_the_run(context, monkeypatch):
    context.folder.write("ship.near", shipped(context, START, "succeeded"))
    report, begun = steps.report, iter((True, False))

    def stop_once(context, started_at):
        if next(begun):
            raise Stopped(signal.SIGINT)
        return report(context, started_at)

    monkeypatch.setattr(steps, "report", stop_once)
    with pytest.raises(Stopped):
        steps.run_steps(context, [REPORT])
    found = context.folder.find(REPORT, RunReport)
    assert [ship.status for ship in found.ships] == ["succeeded"]
    assert Path(found.page or "").exists()


def test_a_report_that_fails_leaves_no_result_that_tells_something_else(context, capsys):
    context.folder.write("ship.near", shipped(context, START, "succeeded"))
    Path(context.folder.path("report.html")).mkdir()
    assert steps.run_steps(context, [REPORT]) != 0
    assert "[SHIP-005]" in capsys.readouterr().err
    assert context.folder.find(REPORT, RunReport) is None


def test_a_cluster_that_did_not_answer_the_plan_is_tried_when_the_others_have_theirs(
    context, monkeypatch, capsys
):
    tried = []

    def planned(context, started_at):
        clusters = [
            ClusterPlan(cluster="gone", findings=[fail("no broker answers")]),
            ClusterPlan(cluster="near"),
        ]
        return PlanResult(
            **context.common("plan"),
            started_at=started_at,
            finished_at=started_at,
            source="logs",
            clusters=clusters,
        )

    def ship(context, cluster, started_at):
        tried.append(cluster)
        raise Superseded("a later run took over")

    both = replace(
        context, clusters={"gone": context.clusters["near"], "near": context.clusters["near"]}
    )
    monkeypatch.setattr("shipper.driver.plan.plan", planned)
    monkeypatch.setattr("shipper.driver.ship.ship", ship)
    assert (
        steps.run_steps(
            both, ["plan", "ship:gone", "gate_delivery:gone", "ship:near", "gate_delivery:near"]
        )
        == 1
    )
    assert tried == ["near", "gone"]
    told = capsys.readouterr().err.splitlines()
    assert [line for line in told if "gone" in line and "--cluster" in line], "who waits"


@pytest.mark.parametrize(
    ("errors", "final"),
    [
        ([ClusterRefuses("wrong password")], True),
        ([ClusterError("no broker answers")], False),
        ([ClusterRefuses("wrong password"), ClusterError("no broker answers")], False),
    ],
)
def test_a_plan_is_retried_if_a_cluster_may_be_well_later(context, monkeypatch, errors, final):
    told = dict(zip(("near", "far"), errors, strict=False))

    def refuse(cluster):
        raise told[cluster.name]

    monkeypatch.setattr(plan_step.AskedCluster, "_ask", refuse)
    monkeypatch.setattr(SparkEngine, "look_at", lambda *_: {})
    context = replace(
        context,
        pipeline=pipeline_of(clusters=list(told)),
        clusters=dict.fromkeys(told, context.clusters["near"]),
    )
    planned = PlanResult(
        **context.common("plan"), started_at=START, finished_at=START, source="logs"
    )
    plan_step._ask_clusters(context, planned, [], None)
    assert (planned.status, planned.final) == ("failed", final)


def test_a_storage_of_runs_that_fails_in_the_middle_of_a_step_is_named(context, tmp_path):
    """And tried again: it is no fault of shipper's own."""
    context.pipeline = pipeline_of(clusters=["near"], schedule="@hourly", runs_uri=str(tmp_path))
    context.request = RunRequest(scheduled=True)
    (tmp_path / "web").mkdir()
    (tmp_path / "web" / "schedule").touch()
    assert steps.run_step(context, PLAN, None)
    planned = context.folder.find(PLAN, PlanResult)
    assert (planned.code, planned.final) == ("SHIP-005", False)


def test_the_status_of_a_report_is_the_runs_and_not_that_of_having_written_it(context):
    """Whoever reads report.json would take a failed run for a good one."""
    times = {"started_at": START, "finished_at": START}
    context.folder.write("plan", PlanResult(**context.common("plan"), **times, source="logs"))
    context.folder.write("gate_source", GateResult(**context.common("gate_source"), **times))
    context.folder.write("ship.near", shipped(context, START, "failed", "the cluster went away"))
    assert steps.run_step(context, REPORT, None) == 0, "the step itself has done its work"
    found = context.folder.find("report", RunReport)
    assert (found.status, found.error) == ("failed", "ship:near: the cluster went away")
