"""Execution of a step by a task: it gets its secrets, runs in a process (its log line by line, gone
when the task is gone), and its outcome is judged by exit code and result. Then its figures, as
metrics of Airflow.

Imported when a task runs, not when a DAG is parsed.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import logging
import os
import select
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from shipper import runtime
from shipper.config.environment import connection_field
from shipper.config.load import references
from shipper.config.units import format_duration
from shipper.error_codes import with_code
from shipper.errors import StepResultError, UsageError
from shipper.report.metrics import metrics_of
from shipper.report.plan_result import PlanResult
from shipper.report.results import DeliveryGateResult, GateResult, RunReport, ShipResult
from shipper.report.run_folder import RunFolder, StepResult
from shipper.runner import (
    GATE_DELIVERY,
    GATE_SOURCE,
    GRACE_SECONDS,
    PLAN,
    REPORT,
    SHIP,
    Job,
    ask_to_stop,
    stop_job,
    why_killed,
)
from shipper_airflow.dags.faults import StepFailed

if TYPE_CHECKING:
    from airflow.sdk import Context

log = logging.getLogger(__name__)

_POLL_SECONDS = 0.5


class Child:
    """Runs a job once. Everything happens in the caller's thread, since :meth:`ask_to_stop` is
    called by a signal handler that interrupts it: the handler only sends TERM and leaves the
    waiting, and KILL after the grace, to the loop."""

    def __init__(self, job: Job, given: Mapping[str, str] | None = None) -> None:
        """Make the child. ``given``: what the references to Airflow's connections stand for."""
        self.gave_up = False
        """True if the process was stopped because its time was over."""
        self.last_line = ""
        """Last line that the process wrote."""
        self._stop_at: float | None = None
        self._job, self._runner = job, job.pipeline.runner
        self._kill_at: float | None = None
        # Airflow's supervisor. If it is killed, nothing hears or heartbeats this task any more, and
        # Airflow retries the task: its process must be gone by then. (If this process is killed,
        # its child notices that itself.)
        self._supervisor = os.getppid()
        # An Airflow task's stdin is its line to the supervisor, and its stderr is logged as errors:
        # pass on neither.
        self._process = job.start(stdout=subprocess.PIPE, stderr=subprocess.STDOUT, given=given)

    def run(self, on_line: Callable[[str], None], within_seconds: float | None = None) -> int:
        """Run the child and return its exit code; below zero it is the signal that ended the
        process. A child that takes longer than ``within_seconds`` is stopped, and
        :attr:`gave_up` says so. Any exception here, such as a task's timeout, stops the whole
        process group first."""
        if within_seconds is not None:
            self._stop_at = runtime.monotonic() + within_seconds
        try:
            for line in self._lines():
                text = line.decode(errors="replace").rstrip()
                self.last_line = text or self.last_line
                on_line(text)
            return self._process.wait()
        finally:
            self._end()

    def ask_to_stop(self) -> None:
        self._kill_at = runtime.monotonic() + GRACE_SECONDS
        ask_to_stop(self._process.pid, self._runner)

    def _lines(self) -> Iterator[bytes]:
        """Yield lines until the pipe is closed, or until the process is gone and its leftovers (a
        JVM that has not noticed yet) are silent."""
        assert self._process.stdout is not None
        pipe, pending = self._process.stdout.fileno(), b""
        while True:
            ready = bool(select.select([pipe], [], [], _POLL_SECONDS)[0])
            chunk = os.read(pipe, 65536) if ready else b""
            *lines, pending = (pending + chunk).split(b"\n")
            yield from lines
            gone = self._process.poll() is not None
            if not chunk and (ready or gone):
                break
            if os.getppid() != self._supervisor and self._kill_at is None:
                self.ask_to_stop()
            if (
                self._stop_at is not None
                and runtime.monotonic() > self._stop_at
                and self._kill_at is None
            ):
                self.gave_up = True
                self.ask_to_stop()
            if self._kill_at is not None and runtime.monotonic() > self._kill_at:
                self._kill_group()
        if pending:
            yield pending

    def _end(self) -> None:
        if self._process.poll() is None:
            stop_job(self._process, self._runner, grace_seconds=GRACE_SECONDS)
        self._kill_group()
        self._job.clean_up()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _kill_group(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)


def given(config_dir: Path, pipeline: str) -> dict[str, str]:
    """Return reference (``airflow:CONNECTION.password``) → value, for all that the pipeline's
    clusters refer to, asked of Airflow by the task that needs it. Holds secrets. One that Airflow
    does not have is left out: the step says so, for that cluster alone."""
    asked = sorted(
        reference.name
        for reference in references(config_dir, pipeline)
        if reference.kind == "airflow"
    )
    found = {name: _look_up(name) for name in asked}
    return {f"airflow:{name}": value for name, value in found.items() if value is not None}


def _look_up(name: str) -> str | None:
    from airflow.sdk import Connection

    conn_id, field = connection_field(name)
    try:
        connection = Connection.get(conn_id)
    except Exception as error:  # not defined, not permitted, or the secrets' backend is down: the cluster's fault, not the task's  # noqa: E501
        log.warning("connection %s cannot be looked up: %s", conn_id, type(error).__name__)
        return None
    key = field.removeprefix("extra.")
    value = getattr(connection, field) if key == field else connection.extra_dejson.get(key)
    return None if value is None else str(value)


_KINDS: dict[str, type[StepResult]] = {
    PLAN: PlanResult,
    GATE_SOURCE: GateResult,
    SHIP: ShipResult,
    GATE_DELIVERY: DeliveryGateResult,
    REPORT: RunReport,
}


def result_of(folder: RunFolder, step: str, since: dt.datetime) -> StepResult | None:
    """Return the step's result, or None. A result of an earlier attempt (``since`` is this one's
    start) does not count. Raises StepResultError."""
    result = folder.find(step.replace(":", "."), _KINDS[step.partition(":")[0]])
    return result if result is not None and result.finished_at >= since else None


def gave_up(step: str, after_seconds: float) -> StepFailed:
    return StepFailed(
        f"{step} was stopped: the run had not ended {format_duration(after_seconds)} after it "
        "began (`schedule.give_up_after`). What is in the ledger stays. The next run of this "
        "window, or a later run that looks back, ships the rest. The log shows what the run "
        "waited for. [SHIP-903]"
    )


def failure_of(
    step: str, exit_code: int, result: StepResult | None, folder: RunFolder, last_line: str = ""
) -> StepFailed | None:
    """Return the failure. None: the step did its work and says so. A missing result is a failure
    whatever the exit code; ``last_line`` of its log then says why, as of a configuration that was
    broken when it began."""
    final = exit_code == UsageError.exit_code
    if isinstance(result, RunReport):
        return None  # it was written; what it says of the run is not said of the step
    if result is not None and result.status == "failed":
        final = final or result.final
        return StepFailed(
            result.error or f"{step} failed without a reason. Its log is above. [SHIP-001]",
            final=final,
            said=bool(result.error),
        )
    if exit_code == 0 and result is not None:
        return None
    again = "What was committed stays. The next attempt ships only the rest. [SHIP-002]"
    if exit_code == -signal.SIGKILL:
        return StepFailed(f"{step} was killed (SIGKILL) {why_killed()}. {again}", final=final)
    if exit_code in (-signal.SIGTERM, 128 + signal.SIGTERM):
        return StepFailed(f"{step} was stopped from outside. {again}", final=final)
    if exit_code != 0:
        why = f": {last_line}" if last_line else " without a reason."
        message = f"{step} ended with exit code {exit_code}{why}"
    else:
        message = (
            f"{step} left no result in {folder.uri}, so its outcome is unknown. Clear the task."
        )
    return StepFailed(with_code(message, StepResultError.code), final=final)


def failed_tasks(context: Context, prefix: str = "") -> list[str]:
    """Return the run's tasks that failed by Airflow, or, if there is none, those that could not
    run. Airflow knows of failures that no result has: a task may die after it wrote its result.
    ``prefix``: of the tasks in question, in a DAG that has others too."""
    ti, run_id = context["ti"], context["run_id"]
    from shipper_airflow.dags.task_operators import map_index_of  # which imports Airflow

    mapped = map_index_of(ti)
    found = ti.get_task_states(dag_id=ti.dag_id, map_index=mapped, run_ids=[run_id])
    suffix = "" if mapped is None else f"_{mapped}"
    states = {task.removesuffix(suffix): state for task, state in found.get(run_id, {}).items()}
    others = [
        (task, state)
        for task, state in states.items()
        if task != ti.task_id and task.startswith(prefix)
    ]
    return sorted(task for task, state in others if state == "failed") or sorted(
        task for task, state in others if state == "upstream_failed"
    )


def emit(result: StepResult) -> None:
    """Send the metrics of a step that has left a result, whether it succeeded or failed."""
    from airflow.sdk.observability import stats

    for metric in metrics_of(result, runtime.now()):
        if metric.kind == "counter":
            stats.incr(metric.name, int(metric.value), tags=metric.tags)
        else:
            stats.gauge(metric.name, metric.value, tags=metric.tags)
