"""Delivery gates of the window that closed before: what their ships sent is counted again, and the
present gate is green only if it agrees now, or a person has opened them."""

from __future__ import annotations

import datetime as dt
from contextlib import AbstractContextManager

from shipper import runtime
from shipper.config.checks import ReadBackCheck
from shipper.config.cluster import Cluster
from shipper.driver.context import RunContext
from shipper.driver.gate import unevaluated
from shipper.driver.judge_delivery import evaluate_delivery
from shipper.errors import ShipperError
from shipper.finding import of_error
from shipper.ledger.inventory import figures
from shipper.ledger.log import CONTROL_NOW, LedgerLog, ask_committed, ask_state
from shipper.report.closed_gates import ClosedGate, ClosedGatesFolder, without_pictures
from shipper.report.plan_result import PlanResult
from shipper.report.results import (
    CheckResult,
    Coverage,
    DeliveryGateResult,
    ShipResult,
    Uncovered,
)
from shipper.report.run_folder import reached
from shipper.request import CLOSED_GATE
from shipper.verify.readback import ReadBack
from shipper.verify.reconcile import CountTable, reconcile
from shipper.verify.recount import look

_LEDGER_WAIT_SECONDS = 60.0


def read_back(
    cluster: Cluster,
    log: LedgerLog,
    check: ReadBackCheck,
    table: CountTable,
    ends: dict[str, list[int]] | None = None,
) -> str:
    """Read the topics back, as consumers see them, and add what was found, or why nothing was, to
    the table. Return a description of the records read. ``ends``: topic → where its partitions'
    records of this ship surely end; None: where they end now."""
    table.ends = ends
    ship = table.ship
    reader = ReadBack(cluster, committed=ship.guarantee == "exactly_once")
    try:
        return look(check, table, reader, lambda: _others(log, check, ship, since=ends is None))
    except ShipperError as error:
        table.unread = of_error(error)
        return "nothing read back"


def _others(log: LedgerLog, check: ReadBackCheck, ship: ShipResult, *, since: bool) -> str | None:
    """Return the other producers that may have written to what was read. ``since``: also those that
    began after the ship. That question comes after the topics were read: any producer that had
    written by then had announced a generation before."""
    if check.shared:
        return "other producers write to these topics (`shared: true`)"
    if ship.guarantee == "at_least_once":
        return "records may be there twice (at least once)"
    control = log.look(CONTROL_NOW)
    if (
        since
        and control.generation > ship.generations[-1]
        and (control.claims() or _sent_later(log, ship))
    ):
        return "a later run of the pipeline has shipped, or ships, to them"
    return None


def _sent_later(log: LedgerLog, ship: ShipResult) -> bool:
    return any(
        each.key.topic and each.value.records and each.value.generation > ship.generations[-1]
        for each in log.look(ask_committed(ship.chunks_end))
    )


class EarlierGates:
    """Closed delivery gates of the run's window on one cluster: ``count_again`` → ``remember``."""

    def __init__(
        self,
        context: RunContext,
        cluster: Cluster,
        log: LedgerLog,
        planned: PlanResult,
        shipped: ShipResult,
    ) -> None:
        self.scope = ""
        """Words for the gate's scope."""
        self.may_be_read_later = False
        """True if topics were out of reach, and may be back later."""
        self._kept: list[ClosedGate] = []
        self._again: list[CheckResult] = []
        """Checks of the earlier gates, made again."""
        self._context, self._cluster = context, cluster
        self._log, self._shipped = log, shipped
        self._client = context.connections(cluster.name).client
        self._files = [file.id for file in planned.files_for(cluster.name)]
        self._folder = ClosedGatesFolder(context.own_runs_uri, context.pipeline.key, cluster.name)

    def count_again(self, check: ReadBackCheck | None) -> list[CheckResult]:
        """Return the checks of the earlier gates, made again. Raises ShipperError."""
        with self._reached():
            self._kept = self._folder.find(self._context.window)
        gates = [gate for gate in self._kept if gate.ship.generations != self._shipped.generations]
        if not gates:
            return []
        if CLOSED_GATE in self._context.request.skip_checks:
            runs = ", ".join(gate.run_id for gate in gates)
            self.scope = f"; the closed gate of run {runs} was opened, as asked"
            return []
        for gate in gates:
            again = self._counted_again(gate, check)
            self._again += [
                each.model_copy(update={"check": f"run {gate.run_id}: {each.check}"})
                for each in again or ()
            ]
            self.scope += (
                f"; the closed gate of run {gate.run_id} is over: its files were sent again, or its"
                " ledger was given up"
                if again is None
                else f"; what run {gate.run_id} sent was counted again, since its gate was closed"
            )
        return self._again

    def _counted_again(
        self, gate: ClosedGate, check: ReadBackCheck | None
    ) -> list[CheckResult] | None:
        """Make the gate's checks again, by the ledger as it is now; None if nothing of what the
        gate's ship sent counts any more, since its files were re-shipped, or if another ledger was
        begun since. The gate's own result stands for topics that cannot be read back again."""
        begun = self._log.look(CONTROL_NOW).identity
        if begun and gate.ship.started_at < dt.datetime.fromisoformat(begun.at):
            return None
        self._log.reaches(gate.ship.ledger_end)
        state = self._log.look(
            ask_state([file.path for file in gate.files]), wait_seconds=_LEDGER_WAIT_SECONDS
        )
        ledger = figures(state.chunks, gate.files, gate.ship.generations)
        reshipped = [
            file
            for file in gate.files
            if file in state.invalidated
            and state.invalidated[file].generation > gate.ship.generations[-1]
        ]
        if reshipped and not ledger.sent:
            return None
        gone = self._recreated(gate.ship)
        ship = _without(gate.ship, gone)
        for topic in gone:
            ledger.sent.pop(topic, None)
            ledger.topics.pop(topic, None)
        table = reconcile(ship, {file.path: file for file in gate.files}, ledger)
        checks, kept = list(self._context.pipeline.gates.delivery), list[CheckResult]()
        if check is None or ship.ends_before is None:
            checks = [each for each in checks if not isinstance(each, ReadBackCheck)]
            kept = [each for each in gate.failed if each.kind == "read_back"]
        else:
            read_back(self._cluster, self._log, check, table, gate.ends)
            self.may_be_read_later |= table.unread is not None and table.unread.passing
        return [*kept, *evaluate_delivery(checks, table)]

    def _recreated(self, ship: ShipResult) -> set[str]:
        """Return the topics that were deleted since: a check of its own tells of records that are
        lost with them. Raises ClusterError."""
        present = self._client.present_ids(list(ship.topic_ids))
        return {
            topic
            for topic, topic_id in ship.topic_ids.items()
            if present.get(topic, topic_id) != topic_id
        }

    def remember(self, result: DeliveryGateResult, table: CountTable) -> None:
        """Keep the gate if it closed over what this run sent; forget the earlier ones if it is
        open. Raises StepResultError."""
        if result.status != "failed":
            if self._kept:
                with self._reached():
                    self._folder.forget(self._context.window, self._kept)
            return
        if failed := [check for check in result.closing if check not in self._again]:
            ends = {topic: list(found) for topic, found in (table.ends or {}).items()}
            self._keep(failed, ends or None)

    def keep_uncompared(self, why: str) -> None:
        """Keep a gate that could not compare anything. Never raises, since something else has
        failed."""
        try:
            self._keep([unevaluated("gate", "figures that agree", why)], None)
        except ShipperError:
            return

    def _keep(self, failed: list[CheckResult], ends: dict[str, list[int]] | None) -> None:
        sent = self._shipped.ends_before or any(topic.delivered for topic in self._shipped.topics)
        if not sent or self._context.is_trial:
            return
        gate = ClosedGate(
            at=runtime.now(),
            ship=without_pictures(self._shipped),
            files=self._files,
            ends=ends,
            failed=failed,
        )
        with self._reached():
            self._folder.add(self._context.window, gate)

    def without_closed(self, found: Coverage) -> Coverage:
        """Return the coverage without other windows whose delivery gate is closed. Raises
        StepResultError."""
        with self._reached():
            windows = self._folder.windows()
        for window in windows:
            overlaps = window.start < found.end and found.start < window.end
            if window != self._context.window and overlaps:
                why = "its delivery gate is closed, and nobody has opened it"
                found.uncovered.append(Uncovered(window=str(window), why=why))
        return found

    def _reached(self) -> AbstractContextManager[None]:
        gates = f"the closed delivery gates beside the results in {self._context.own_runs_uri}"
        return reached(gates, "Nothing was compared.")


def _without(ship: ShipResult, gone: set[str]) -> ShipResult:
    """Return the result without these topics."""
    before = {topic: ends for topic, ends in (ship.ends_before or {}).items() if topic not in gone}
    topics = [topic for topic in ship.topics if topic.topic not in gone]
    return ship.model_copy(update={"ends_before": before, "topics": topics})
