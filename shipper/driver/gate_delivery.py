"""Step `gate_delivery`: what a ship says it did, held against what the ledger and the
topics say."""

from __future__ import annotations

import datetime as dt

from shipper.config.checks import ReadBackCheck
from shipper.config.cluster import Cluster
from shipper.driver.context import RunContext
from shipper.driver.gate import close_if_needed
from shipper.driver.judge_delivery import evaluate_delivery
from shipper.driver.pieces import etags_of
from shipper.driver.recreated import judge
from shipper.driver.timelines import last_commits
from shipper.errors import ShipperError
from shipper.ledger.incarnations import without
from shipper.ledger.inventory import LedgerFigures, figures
from shipper.ledger.log import CONTROL_NOW, LedgerLog, ask_committed, ask_state
from shipper.report.coverage import coverage, tick_of
from shipper.report.markup import plural
from shipper.report.plan_result import PlanResult
from shipper.report.results import Coverage, DeliveryGateResult, GateResult, ShipResult, apply_gate
from shipper.runner import GATE_DELIVERY, GATE_SOURCE, PLAN, SHIP
from shipper.verify.readback import ReadBack
from shipper.verify.reconcile import Reconciliation, reconcile
from shipper.verify.recount import look

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
    cluster, pipeline = context.clusters[cluster_name], context.pipeline
    client = context.connections(cluster_name).client
    log = context.ledger(cluster_name, planned.source_root)
    files = planned.files_for(cluster_name)
    with context.phases("reading the ledger"):
        state = log.look(
            ask_state([file.path for file in files]), wait_seconds=_LEDGER_WAIT_SECONDS
        )
        # Records that the ship has sent again count once. Records lost since are in the sums, and
        # named.
        chunks = without(
            state.chunks, {topic: frozenset(ids) for topic, ids in shipped.gone_topic_ids.items()}
        )
        lost = judge(client, chunks, {file.id for file in files}).named()
    # An overwritten file that is left alone is not the file that the ledger knows by its name, size
    # and time.
    others = chunks.overwritten(etags_of(files))
    ledger = figures(
        chunks, [id for file in files if (id := file.id) not in others], shipped.generations
    )
    account = reconcile(shipped, {file.path: file.id for file in files}, ledger)
    scope = f"the whole window, {plural(len(planned.own_files), 'file')}"
    if late := len(files) - len(planned.own_files):
        scope += f", and {late:,} late ones"
    if checks := [check for check in pipeline.gates.delivery if isinstance(check, ReadBackCheck)]:
        with context.phases("reading back"):
            scope += "; " + _read_back(checks[0], context, cluster, shipped, log, ledger, account)
    with context.phases("comparing"):
        checks_found = evaluate_delivery(pipeline.gates.delivery, account, lost)
    result = DeliveryGateResult(
        **context.common(GATE_DELIVERY, started_at),
        cluster=cluster_name,
        scope=scope,
        checks=checks_found,
        recreated=lost,
        topics=account.topics,
        account=account.counts,
        coverage=Coverage(start=context.window.start, end=context.window.start)
        if context.named_files
        else coverage(
            planned,
            cluster_name,
            when_empty_fails=pipeline.source.when_empty == "fail",
            committed=last_commits(chunks, {file.id: tick_of(file, planned) for file in files}),
            earlier=_earlier(context, cluster_name),
        ),
    )
    meaning = (
        f"after shipping to {cluster_name}: do not trust this window before the difference is "
        "explained"
    )
    return close_if_needed(result, meaning, looked=not account.read_back_passing)


def _earlier(context: RunContext, cluster: str) -> Coverage | None:
    """Return what an earlier attempt of the run delivered."""
    found = context.folder.find(f"{GATE_DELIVERY}.{cluster}", DeliveryGateResult)
    return found.coverage if found and found.status != "failed" else None


def _read_back(
    check: ReadBackCheck,
    context: RunContext,
    cluster: Cluster,
    shipped: ShipResult,
    log: LedgerLog,
    ledger: LedgerFigures,
    account: Reconciliation,
) -> str:
    """Read the topics back, and add the findings, or why there are none, to the account. Return a
    description of the records read."""
    try:
        return look(
            check,
            context.pipeline,
            shipped,
            ledger,
            account,
            ReadBack(cluster),
            lambda: _others(check, shipped, log),
        )
    except ShipperError as error:
        account.read_back_fault, account.read_back_passing = error.message, error.retriable
        return "nothing read back"


def _others(check: ReadBackCheck, shipped: ShipResult, log: LedgerLog) -> str | None:
    """Return the other producers that may have written to the topics since the ship began. The
    question comes after the topics were read: any producer that had written by then had announced a
    generation before."""
    if check.shared:
        return "other producers write to these topics (`shared: true`)"
    if shipped.guarantee == "at_least_once":
        return "records may be there twice (at least once)"
    control = log.look(CONTROL_NOW)
    if control.generation > shipped.generations[-1] and (
        control.claims() or _sent_later(shipped, log)
    ):
        return "a later run of the pipeline has shipped, or ships, to them"
    return None


def _sent_later(shipped: ShipResult, log: LedgerLog) -> bool:
    later = log.look(ask_committed(shipped.chunks_end))
    return any(
        each.key.topic and each.value.records and each.value.generation > shipped.generations[-1]
        for each in later
    )
