"""What became of a step: its exit code and its result, in the run's folder, put together."""

from __future__ import annotations

import datetime as dt
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shipper.config.units import format_duration
from shipper.errors import StepResultError, UsageError
from shipper.report.results import (
    DeliveryGateResult,
    GateResult,
    PlanResult,
    RunFolder,
    RunReport,
    ShipResult,
    StepResult,
)
from shipper.runner import GATE_DELIVERY, GATE_SOURCE, PLAN, REPORT, SHIP

if TYPE_CHECKING:
    from airflow.sdk import Context

_KINDS: dict[str, type[StepResult]] = {
    PLAN: PlanResult,
    GATE_SOURCE: GateResult,
    SHIP: ShipResult,
    GATE_DELIVERY: DeliveryGateResult,
    REPORT: RunReport,
}
_ONCE = {GATE_SOURCE, GATE_DELIVERY, REPORT}


@dataclass(frozen=True)
class Failure:
    message: str
    final: bool
    """Whether trying again, unchanged, cannot help."""


def result_of(folder: RunFolder, step: str, since: dt.datetime) -> StepResult | None:
    """What the step left, or None. One that an earlier attempt left (``since`` is this one's start) is none.
    Raises StepResultError."""
    result = folder.find(step.replace(":", "."), _KINDS[step.partition(":")[0]])
    return result if result is not None and result.finished_at >= since else None


def gave_up(step: str, after_seconds: float) -> Failure:
    return Failure(
        f"{step} was stopped: the run had not ended {format_duration(after_seconds)} after it began (`schedule.give_up_after`). What is in "
        "the ledger stays; the next run of this window, or the look back of a later one, ships the rest. See in the log what it waited for.",
        final=True,
    )


def failure_of(step: str, exit_code: int, result: StepResult | None, folder: RunFolder) -> Failure | None:
    """None: the step did its work and says so. A missing result is a failure whatever the exit code."""
    final = exit_code == UsageError.exit_code or step.partition(":")[0] in _ONCE
    if isinstance(result, RunReport):
        return None  # it was written; what it says of the run is not said of the step
    if result is not None and result.status == "failed":
        final = final or result.final
        return Failure(result.error or f"{step} failed and does not say why; its log is above", final)
    if exit_code == -signal.SIGKILL:
        return Failure(
            f"{step} was killed before it could say why, most likely by the kernel because memory ran out: lower "
            "`runner.cores` or `runner.driver_memory`. The next attempt ships exactly the rest.",
            final,
        )
    if exit_code in (-signal.SIGTERM, 128 + signal.SIGTERM):
        return Failure(f"{step} was stopped from outside. The next attempt ships exactly the rest.", final)
    if exit_code != 0:
        return Failure(f"{step} ended with exit code {exit_code}; its last lines above say why", final)
    if result is None:
        return Failure(str(StepResultError(f"{step} left no result in {folder.uri}, so nobody knows what it did")), final)
    return None


def failed_tasks(context: Context) -> list[str]:
    """Tasks of the run that Airflow holds for failed, or, if there is none, that could not run. It knows of some that no result tells
    of: one may die after it left its own."""
    ti, run_id = context["ti"], context["run_id"]
    states = ti.get_task_states(dag_id=ti.dag_id, run_ids=[run_id]).get(run_id, {})
    others = [(task, state) for task, state in states.items() if task != ti.task_id]
    return sorted(task for task, state in others if state == "failed") or sorted(
        task for task, state in others if state == "upstream_failed"
    )
