"""The steps of a run, in their order, and what each leaves behind, whatever happens to it."""

from __future__ import annotations

import datetime as dt
import os
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from shipper import runtime
from shipper.config.load import load_platform
from shipper.driver.context import RunContext
from shipper.error_codes import UNEXPECTED, with_code
from shipper.errors import ShipperError, UsageError
from shipper.report.horizon import prune
from shipper.report.incomplete import gaps_before
from shipper.report.late import fresh_until
from shipper.report.markup import words
from shipper.report.message import details, summary
from shipper.report.past_runs import past_runs
from shipper.report.phases import Phases
from shipper.report.plan_result import PlanResult
from shipper.report.preview_result import PreviewResult
from shipper.report.results import (
    DeliveryGateResult,
    GateResult,
    RunReport,
    ShipResult,
    apply_gate,
)
from shipper.report.run_folder import SENT_UNTIL_THEN, StepResult, not_reached
from shipper.report.run_view import cause_of, steps
from shipper.runner import GATE_DELIVERY, GATE_SOURCE, PLAN, PREVIEW, REPORT, SHIP
from shipper.stopping import Stopped
from shipper.terminal import say
from shipper.whole_files import StorageError

_HISTORY_RUNS = 30
_WITH_SPARK = (PLAN, GATE_SOURCE, SHIP, PREVIEW)
_BEFORE_THE_FIRST_BYTE = (PLAN, GATE_SOURCE, PREVIEW)


def now() -> dt.datetime:
    return runtime.now()


def run_steps(context: RunContext, steps: Sequence[str]) -> int:
    """Run steps (``plan``, ``ship:CLUSTER``, …) in the given order; return the exit code of the
    first that failed, or 0.

    A step whose predecessor failed is not tried, except `report`; a failed cluster does not hold up
    another: one that did not answer the plan comes last, since each try of it takes its patience.
    Raises Stopped once the step that was under way has left its result.
    """
    exit_code = 0
    blocked: set[str] = set()
    steps = list(steps)
    for place, step in enumerate(steps):
        name, _, cluster = step.partition(":")
        if name != REPORT and ("*" in blocked or cluster in blocked):
            continue
        if not any(each.partition(":")[0] in _WITH_SPARK for each in steps[place:]):
            context.engine.begin_to_stop()
        if name == SHIP and not context.request.brief:
            _say_who_waits(cluster, steps[place + 1 :])
        try:
            code = run_step(context, name, cluster or None)
        except Stopped:
            if REPORT in steps:  # also if the report itself was stopped
                run_step(context, REPORT, None)
            raise
        if code:
            blocked.add(cluster or "*")
            exit_code = exit_code or code
        elif name == PLAN and len(context.clusters) > 1:
            steps[place + 1 :] = _doubtful_last(context, steps[place + 1 :])
    return exit_code


def _say_who_waits(cluster: str, later: Sequence[str]) -> None:
    """Say which clusters wait for the ship to this one: this process has memory for one ship."""
    found = [step.partition(":")[2] for step in later if step.startswith(f"{SHIP}:")]
    if found:
        verb = "wait" if found[1:] else "waits"
        say(
            f"{words(found)} {verb} until the ship to {cluster} has ended. A run for each cluster "
            "(--cluster) waits for no other"
        )


def _doubtful_last(context: RunContext, steps: Sequence[str]) -> list[str]:
    planned = context.folder.find(PLAN, PlanResult)
    doubtful = {each.cluster for each in planned.clusters if each.problem} if planned else set()
    return sorted(steps, key=lambda step: (step == REPORT, step.partition(":")[2] in doubtful))


def run_step(context: RunContext, name: str, cluster: str | None) -> int:
    """Run one step; its result is written whether it succeeds or fails. That of the report says
    what became of the run, so a report that fails leaves none. Returns an exit code."""
    result_name = f"{name}.{cluster}" if cluster else name
    started_at = context.folder.begin(result_name, now())
    code = 0
    try:
        result = _call(context, name, cluster, started_at)
        result.source_requests = dict(context.engine.source_requests())
    except Stopped as stopped:
        if name in _BEFORE_THE_FIRST_BYTE:
            stopped.there = "Nothing was sent"
        stopped.rest = context.request.how_to_finish(context.pipeline.name)
        if name != REPORT:
            result = _failed(context, name, cluster, started_at, stopped.message)
            if isinstance(result, ShipResult):
                result.are_receipts_lost, result.ledger_records = True, stopped.committed
            context.folder.write(result_name, _timed(context, result))
        why = "" if context.request.brief else f": {stopped.message}"
        say(f"{step_label(name, cluster)} STOPPED{why}")
        raise
    except Exception as error:
        if isinstance(error, StorageError):
            error = not_reached(error, "the storage of the runs", SENT_UNTIL_THEN)
        message = _message(context, name, error)
        code = error.exit_code if isinstance(error, ShipperError) else 1
        if name == REPORT:
            say(f"{name} FAILED: {message}")
            return code
        result = _failed(context, name, cluster, started_at, message)
        result.final = isinstance(error, ShipperError) and not error.retriable
        result.fails_again = isinstance(error, ShipperError) and error.fails_again
    _timed(context, result)
    context.folder.write(result_name, result)
    if later := context.folder.find_later(result_name, result):
        # This attempt was paused or cut off, and continues now: the later attempt's result is the
        # step's result.
        if isinstance(later, RunReport):
            from shipper.report.page import render  # no other step needs jinja2

            context.folder.write_text("report.html", render(later))
        say(
            f"{step_label(name, cluster)}: {result.error or result.status}; a later attempt has "
            "left its result"
        )
        return code or 1
    if isinstance(result, RunReport):
        _prune(context)
    for line in () if context.request.brief else details(result):
        say(line)
    is_report = name == REPORT  # one that is written has done its work
    if result.status == "failed" and not is_report:
        why = "" if context.request.brief else f": {result.error}"
        say(f"{step_label(name, cluster)} FAILED{why}")
        return code or 1
    seconds, did = (result.finished_at - started_at).total_seconds(), summary(result)
    status = "written" if is_report else result.status
    say(f"{step_label(name, cluster)}: {status} in {seconds:.1f} s{': ' if did else ''}{did}")
    return 0


def _message(context: RunContext, name: str, error: Exception) -> str:
    if isinstance(error, ShipperError):
        return error.message
    if os.environ.get("SHIPPER_LOG"):
        traceback.print_exception(error)
    cause = context.engine.cause(error)
    return with_code(f"{name}: {cause.text}", cause.code or UNEXPECTED)


def _timed(context: RunContext, result: StepResult) -> StepResult:
    """Add to the result when the step ended, and what its time was spent on; restart the clocks for
    the next step."""
    if not isinstance(result, RunReport):  # its page says when it ended
        result.finished_at = now()
    result.phases, context.phases = context.phases.seconds(), Phases()
    return result


def step_label(name: str, cluster: str | None) -> str:
    return (
        f"{name} to {cluster}"
        if cluster and name == SHIP
        else f"{name} of {cluster}"
        if cluster
        else name
    )


def _call(
    context: RunContext, name: str, cluster: str | None, started_at: dt.datetime
) -> StepResult:
    # Each step imports only what it needs.
    if name == PLAN:
        from shipper.driver.plan import plan

        if not context.is_trial:
            others = context.request.other_clusters
            context.folder.note_begin(context.window, started_at, others)
        return plan(context, started_at)
    if name == GATE_SOURCE:
        from shipper.driver.gate_source import gate_source

        return gate_source(context, started_at)
    if name == PREVIEW:
        from shipper.driver.preview_step import preview

        return preview(context, cluster, started_at)
    if name == REPORT:
        return report(context, started_at)
    if cluster is None or cluster not in context.clusters:
        known = ", ".join(context.clusters)
        raise UsageError(
            f"step {name!r} needs a cluster of the pipeline, for example "
            f"{name}:{next(iter(context.clusters))}. The pipeline has {known}."
        )
    if name == SHIP:
        from shipper.driver.ship import ship

        return ship(context.on(cluster), cluster, started_at)
    if name == GATE_DELIVERY:
        from shipper.driver.gate_delivery import gate_delivery

        return gate_delivery(context.on(cluster), cluster, started_at)
    raise UsageError(
        f"step {name!r} does not exist. The steps are {PLAN}, {GATE_SOURCE}, {SHIP}:CLUSTER, "
        f"{GATE_DELIVERY}:CLUSTER and {REPORT}."
    )


def _failed(
    context: RunContext, name: str, cluster: str | None, started_at: dt.datetime, message: str
) -> StepResult:
    common = context.common(name, started_at) | {"status": "failed", "error": message}
    if name == PLAN:
        return PlanResult(**common, source=context.pipeline.source.path)
    if name == SHIP and cluster:
        return ShipResult(**common, cluster=cluster)
    if name == GATE_DELIVERY and cluster:
        return DeliveryGateResult(**common, cluster=cluster)
    kinds: dict[str, type[StepResult]] = {
        PREVIEW: PreviewResult,
        GATE_SOURCE: GateResult,
    }
    return kinds.get(name, StepResult)(**common)


def report(context: RunContext, started_at: dt.datetime) -> RunReport:
    """Gather the steps' results into report.json and the page. Its status and error are the run's:
    the step itself succeeds when they are written."""
    folder, pipeline = context.folder, context.pipeline
    planned, gate = folder.find(PLAN, PlanResult), folder.find(GATE_SOURCE, GateResult)
    ships = (folder.find(f"{SHIP}.{cluster}", ShipResult) for cluster in pipeline.clusters)
    closed = (
        folder.find(f"{GATE_DELIVERY}.{cluster}", DeliveryGateResult)
        for cluster in pipeline.clusters
    )
    found = RunReport(
        **(context.common(REPORT, started_at) | {"finished_at": now()}),
        owner=pipeline.owner,
        plan=apply_gate(planned, gate) if planned and gate else planned,
        gate_source=gate,
        ships=list(filter(None, ships)),
        delivery_gates=list(filter(None, closed)),
        **_of_earlier_runs(context),
        page=folder.path("report.html"),
        config=None if str(context.config_dir) == "config" else str(context.config_dir),
    )
    if cause := cause_of(steps(found)):
        found.status, found.error = "failed", cause
    from shipper.report.page import render  # no other step needs jinja2

    folder.write_text("report.html", render(found))
    return found


def _of_earlier_runs(context: RunContext) -> dict[str, Any]:
    """Look at earlier runs. What cannot be had is said and left out: the report is worth more."""
    uri, pipeline, start = context.own_runs_uri, context.pipeline, context.window.start
    names, clusters = pipeline.names, pipeline.clusters
    return {
        "history": _unless_unknown(
            "earlier runs cannot be listed, so the page shows none",
            lambda: past_runs(uri, pipeline.key, start, most=_HISTORY_RUNS, names=names),
            [],
        ),
        "gaps": _unless_unknown(
            "missing windows are unknown, so the page shows none",
            lambda: gaps_before(uri, pipeline, start),
            None,
        ),
        "fresh_until": _unless_unknown(
            "the freshness of the clusters is unknown",
            lambda: fresh_until(uri, pipeline.key, clusters, now()),
            {},
        ),
    }


def _unless_unknown(problem: str, ask: Callable[[], Any], otherwise: object) -> Any:
    try:
        return ask()
    except (OSError, ShipperError) as error:
        say(f"report: {problem} ({error})")
        return otherwise


def _prune(context: RunContext) -> None:
    if context.is_trial:
        return
    try:
        prune(
            context.own_runs_uri,
            context.pipeline,
            load_platform(context.config_dir).keep_seconds,
            now(),
        )
    except (OSError, ShipperError) as error:
        say(f"report: old results could not be removed, and stay until the next run ({error})")
