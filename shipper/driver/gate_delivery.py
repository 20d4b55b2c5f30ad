"""Step `gate_delivery`: what a ship says it did, held against what the ledger and the
topics say."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from itertools import zip_longest

from shipper import runtime
from shipper.config.checks import ReadBackCheck
from shipper.config.units import plural
from shipper.driver.context import RunContext
from shipper.driver.earlier_gates import EarlierGates, read_back
from shipper.driver.gate import close_if_needed
from shipper.driver.judge_delivery import evaluate_delivery
from shipper.driver.recreated import judge
from shipper.driver.timelines import last_commits
from shipper.errors import ShipperError, StepResultError
from shipper.ledger.fold import Chunks
from shipper.ledger.incarnations import RecreatedTopic, without
from shipper.ledger.inventory import LedgerFigures, figures
from shipper.ledger.log import LedgerLog, ask_state
from shipper.report.completed import completed, files_by_tick
from shipper.report.coverage import coverage, tick_of
from shipper.report.plan_result import PlannedFile, PlanResult
from shipper.report.results import Coverage, DeliveryGateResult, GateResult, ShipResult, apply_gate
from shipper.runner import GATE_DELIVERY, GATE_SOURCE, PLAN, SHIP
from shipper.verify.reconcile import reconcile

_LEDGER_WAIT_SECONDS = 60.0


def gate_delivery(
    context: RunContext, cluster_name: str, started_at: dt.datetime
) -> DeliveryGateResult:
    """Judge the delivery after the last byte. Reads the ledger again, and the topics if the
    pipeline asks for it. The result has the checks, and whether they close the gate. Raises
    ShipperError if the ledger or a topic cannot be read at all."""
    planned = apply_gate(
        context.folder.need(PLAN, PlanResult), context.folder.need(GATE_SOURCE, GateResult)
    )
    shipped = context.folder.need(f"{SHIP}.{cluster_name}", ShipResult)
    if planned.started_at > shipped.started_at:
        raise StepResultError(
            f"run {context.folder.run_id} was planned again after this ship to {cluster_name} had "
            "begun, so the ship is not of that plan. Nothing was compared. Ship again, or leave it "
            "to the attempt that planned.",
            code="SHIP-008",
        )
    log = context.ledger(cluster_name, planned.source_root)
    log.reaches(shipped.ledger_end)
    earlier = EarlierGates(context, context.clusters[cluster_name], log, planned, shipped)
    try:
        return _judged(context, planned, shipped, log, earlier, started_at)
    except ShipperError as error:
        earlier.keep_uncompared(error.message)
        raise


def _judged(
    context: RunContext,
    planned: PlanResult,
    shipped: ShipResult,
    log: LedgerLog,
    earlier: EarlierGates,
    started_at: dt.datetime,
) -> DeliveryGateResult:
    cluster_name, pipeline = shipped.cluster, context.pipeline
    files = planned.files_for(cluster_name)
    with context.phases("reading the ledger"):
        chunks, ledger, lost = _read(context, files, shipped, log)
    table = reconcile(shipped, {file.path: file.id for file in files}, ledger)
    scope = f"the whole window, {plural(len(planned.own_files), 'file')}"
    if late := len(files) - len(planned.own_files):
        scope += f", and {late:,} late ones"
    check = next((c for c in pipeline.gates.delivery if isinstance(c, ReadBackCheck)), None)
    if check:
        with context.phases("reading back"):
            scope += "; " + read_back(context.clusters[cluster_name], log, check, table)
    with context.phases("comparing"):
        checks_found = evaluate_delivery(pipeline.gates.delivery, table, lost)
    with context.phases("reading back"):
        checks_found += earlier.count_again(check)
    result = DeliveryGateResult(
        **context.common(GATE_DELIVERY, started_at),
        cluster=cluster_name,
        scope=scope + earlier.scope,
        checks=checks_found,
        recreated=lost,
        topics=table.topics(),
        offsets={
            topic: list(zip_longest(begins, table.ends[topic], fillvalue=0))
            for topic, begins in (shipped.ends_before or {}).items()
            if table.ends and topic in table.ends
        },
        account=table.counts(),
        coverage=_coverage(context, planned, chunks, cluster_name, earlier),
    )
    meaning = (
        f"after shipping to {cluster_name}: do not trust this window before the difference is "
        "explained"
    )
    later = earlier.may_be_read_later or (table.unread is not None and table.unread.passing)
    result = close_if_needed(result, meaning, looked=not later)
    earlier.remember(result, table)
    if result.status != "failed" and not context.is_trial:
        with context.phases("comparing"):
            result.complete = completed(
                context.own_runs_uri, pipeline, result, files_by_tick(planned, shipped)
            )
    return result


def _coverage(
    context: RunContext, planned: PlanResult, chunks: Chunks, cluster: str, earlier: EarlierGates
) -> Coverage:
    if context.request.files and not context.request.replay:
        return Coverage(start=context.window.start, end=context.window.start)
    ticks = {file.id: tick_of(file, planned) for file in planned.files_for(cluster)}
    found = coverage(
        planned,
        cluster,
        when_empty_fails=context.pipeline.source.when_empty == "fail",
        committed=last_commits(chunks, ticks),
    )
    return earlier.without_closed(found)


def _read(
    context: RunContext, files: Sequence[PlannedFile], shipped: ShipResult, log: LedgerLog
) -> tuple[Chunks, LedgerFigures, list[RecreatedTopic]]:
    """Return what the ledger has of the files, its figures, and the topics made anew since."""
    client = context.connections(shipped.cluster).client
    with runtime.ThreadPoolExecutor(1, thread_name_prefix="topic ids") as meanwhile:
        present = meanwhile.submit(client.present_ids, shipped.topic_ids)
        paths = [file.path for file in files]
        state = log.look(ask_state(paths), wait_seconds=_LEDGER_WAIT_SECONDS)
    # Records that the ship has sent again count once. Records lost since are in the sums, and
    # named.
    gone = {topic: frozenset(ids) for topic, ids in shipped.gone_topic_ids.items()}
    chunks = without(state.chunks, gone)
    wanted = {file.id for file in files}
    lost = judge(client, chunks, wanted, present=present.result()).named()
    # An overwritten file that is left alone is not the file that the ledger knows by its name, size
    # and time.
    others = chunks.overwritten(files)
    counted = [id for file in files if (id := file.id) not in others]
    return chunks, figures(chunks, counted, shipped.generations), lost
