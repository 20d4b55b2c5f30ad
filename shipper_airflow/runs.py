"""Runs of DAGs as Airflow's database has them, for the Shipments page: it knows of those that left
no report.

Imported with the first request to the page, by the API server alone: that may ask the database.
"""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Collection, Sequence
from typing import Any

from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.models.pool import Pool
from airflow.models.taskinstance import TaskInstance
from airflow.utils.session import create_session
from airflow.utils.state import DagRunState, TaskInstanceState
from sqlalchemy import exists, or_, select

from shipper.errors import WindowError
from shipper.report.markup import moment
from shipper.shipments.index import Known, Span
from shipper.shipments.unreported import StartedRun
from shipper_airflow.dags.task_operators import RESOLVE_WINDOW
from shipper_airflow.run_window import window_of_run

_STATES = (DagRunState.QUEUED, DagRunState.RUNNING, DagRunState.FAILED)
_MOST = 5_000
"""Runs that are looked at for one request, the newest."""
_MOST_OVER = 4
"""Runs over one window that are named."""


class AirflowRuns:
    """See :class:`shipper.shipments.unreported.Scheduler`."""

    def __init__(self, root: str) -> None:
        self.root = root

    def unsuccessful(
        self, pipelines: Collection[Known], between: Span, *, tasks: bool = False
    ) -> Sequence[StartedRun]:
        known = {one.pipeline: one for one in pipelines}
        wanted = _over(between).where(DagRun.dag_id.in_(known), DagRun.state.in_(_STATES))
        with create_session() as session:
            runs = [(run, window_of(run, known[run.dag_id])) for run in session.scalars(wanted)]
            found = [
                (run, window)
                for run, window in runs
                if window and window[0] < between[1] and between[0] < window[1]
            ]
            return [
                _started(run, window, session if tasks else None) for run, window in reversed(found)
            ]

    def over(self, pipeline: Known, window: Span) -> Sequence[StartedRun]:
        wanted = _over(window).where(DagRun.dag_id == pipeline.dag_id)
        with create_session() as session:
            runs = session.scalars(wanted)
            same = (_started(run, window) for run in runs if window_of(run, pipeline) == window)
            return list(itertools.islice(same, _MOST_OVER))

    def paused(self) -> Collection[str]:
        with create_session() as session:
            return set(session.scalars(select(DagModel.dag_id).where(DagModel.is_paused)))

    def waits_for(self, pipeline: str) -> str:
        running = select(DagRun.run_id).where(
            DagRun.dag_id == pipeline, DagRun.state == DagRunState.RUNNING
        )
        with create_session() as session:
            dag = session.get(DagModel, pipeline)
            now = session.scalar(running.limit(1))
        said = []
        if dag and dag.is_paused:
            said.append("The DAG is paused: the run waits until somebody unpauses it.")
        if now:
            said.append(f"A run of this DAG is under way ({now}): this one begins after it.")
        return " ".join(said)


def _over(between: Span) -> Any:
    """Select runs that may be over windows that touch the stretch, the newest first. A run that was
    asked for a window by its conf may have any data interval, or none. One that a person asked for
    and that was refused is no run over a window."""
    first, last = (dt.datetime.fromtimestamp(at, dt.UTC) for at in between)
    at = or_(
        DagRun.run_type == "manual",
        (DagRun.data_interval_start < last) & (DagRun.data_interval_end > first),
    )
    refused = exists().where(
        TaskInstance.dag_id == DagRun.dag_id,
        TaskInstance.run_id == DagRun.run_id,
        TaskInstance.task_id == RESOLVE_WINDOW,
        TaskInstance.state == TaskInstanceState.FAILED,
    )
    at &= (DagRun.run_type != "manual") | ~refused
    return select(DagRun).where(at).order_by(DagRun.run_after.desc()).limit(_MOST)


def window_of(run: DagRun, known: Known) -> Span | None:
    """Return the window of the run, as its first task finds it; None if it cannot be found."""
    try:
        window = window_of_run(known.schedule, known.settle, run)
    except WindowError:
        return None
    return int(window.start.timestamp()), int(window.end.timestamp())


def _started(run: DagRun, window: Span, session: Any = None) -> StartedRun:
    """``session``: to ask for the run's tasks; None: nobody wants to know of them."""
    state = str(getattr(run.state, "value", run.state))
    began = run.start_date or run.queued_at or run.run_after
    return StartedRun(
        run.dag_id,
        window,
        run.run_id,
        state,  # type: ignore[arg-type]
        int(began.timestamp()),
        int(run.end_date.timestamp()) if run.end_date and state in ("failed", "success") else None,
        _first_failed(session, run) if session and state == "failed" else "",
        str(getattr(run.run_type, "value", run.run_type)),
        _waits(session, run) if session and state in ("queued", "running") else (),
    )


def _waits(session: Any, run: DagRun) -> list[str]:
    """Return what keeps the run's tasks from going on, by Airflow."""
    dag = session.get(DagModel, run.dag_id)
    said = ["The DAG is paused: no step begins until somebody unpauses it."]
    said = said if dag and dag.is_paused else []
    tasks = session.scalars(
        select(TaskInstance)
        .where(TaskInstance.dag_id == run.dag_id, TaskInstance.run_id == run.run_id)
        .order_by(TaskInstance.task_id)
    )
    for task in tasks:
        if task.state == TaskInstanceState.UP_FOR_RETRY:
            said.append(f"{task.task_id} is tried again at {moment(task.next_retry_datetime())}.")
        elif task.state == TaskInstanceState.AWAITING_INPUT:
            until = f" until {moment(task.trigger_timeout)}" if task.trigger_timeout else ""
            said.append(f"{task.task_id} waits for a person's answer{until}.")
        elif task.state in (TaskInstanceState.SCHEDULED, TaskInstanceState.QUEUED):
            pool = session.scalar(select(Pool).where(Pool.pool == task.pool))
            if pool is None:
                said.append(f"{task.task_id} waits for pool {task.pool}, which does not exist.")
            elif pool.open_slots(session=session) <= 0:
                said.append(f"{task.task_id} waits for pool {task.pool}, which is full.")
            else:
                said.append(f"{task.task_id} waits for a worker.")
    return said


def _first_failed(session: Any, run: DagRun) -> str:
    wanted = (
        select(TaskInstance.task_id)
        .where(
            TaskInstance.dag_id == run.dag_id,
            TaskInstance.run_id == run.run_id,
            TaskInstance.state == TaskInstanceState.FAILED,
        )
        .order_by(TaskInstance.end_date)
        .limit(1)
    )
    return session.scalar(wanted) or ""
