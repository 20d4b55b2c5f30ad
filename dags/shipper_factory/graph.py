"""The tasks of a pipeline and their order, and the window that a run ships: what can be said without Airflow.

::

    resolve_window ─▶ plan ─▶ gate_source ─▶ to_CLUSTER: ship ─▶ gate_delivery ─┐
                                        └──▶ to_OTHER:   ship ─▶ gate_delivery ─┴▶ delivered
                                                                                └▶ report

Clusters know nothing of each other: one that fails stops none of the others. ``delivered`` does nothing: its state says whether the
window is on every cluster that the run was for, and with it the run's. ``report`` runs always, and fails, the run too, only if there is no report.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shipper.config.pipeline import Pipeline
from shipper.config.schedule import Schedule
from shipper.errors import WindowError
from shipper.runner import GATE_DELIVERY, GATE_SOURCE, PLAN, REPORT, SHIP
from shipper.windows.schedule import Ticks
from shipper.windows.window import Window, parse_moment

RESOLVE_WINDOW, DELIVERED = "resolve_window", "delivered"
_REMEDY = 'trigger it with {"window_start": "2026-11-01T06:00:00Z", "window_end": "2026-11-01T07:00:00Z"}'


@dataclass(frozen=True)
class TaskSpec:
    """One task. ``step`` is the argument of ``python -m spark_jobs`` that it runs; None: it starts no process of ours."""

    name: str
    step: str | None
    after: tuple[str, ...]
    """Ids of the tasks that must be done before."""
    cluster: str | None = None
    """Tasks of one cluster are shown as one group."""
    one_at_a_time: bool = False
    """Whether it waits for the same task of other runs: backfills overlap scheduled runs."""
    always: bool = False
    """Whether it runs whatever became of the tasks before it."""
    some_suffice: bool = False
    """Whether it runs when some of the tasks before it were skipped, and the others went well."""

    @property
    def task_id(self) -> str:
        return self.name if self.cluster is None else f"{group_id(self.cluster)}.{self.name}"


def group_id(cluster: str) -> str:
    """``to_frankfurt``; the prefix keeps a cluster named ``plan`` from taking a task's id."""
    return f"to_{cluster}"


def pipeline_tasks(clusters: Sequence[str]) -> list[TaskSpec]:
    """All tasks, each after those that it depends on."""
    shipping = [task for cluster in clusters for task in _to_cluster(cluster)]
    gates = tuple(task.task_id for task in shipping if task.name == GATE_DELIVERY)
    return [
        TaskSpec(RESOLVE_WINDOW, None, after=()),
        TaskSpec(PLAN, PLAN, after=(RESOLVE_WINDOW,)),
        TaskSpec(GATE_SOURCE, GATE_SOURCE, after=(PLAN,)),
        *shipping,
        TaskSpec(DELIVERED, None, after=gates, some_suffice=True),
        TaskSpec(REPORT, REPORT, after=gates, always=True),
    ]


def _to_cluster(cluster: str) -> Iterator[TaskSpec]:
    ship = TaskSpec(SHIP, f"{SHIP}:{cluster}", after=(GATE_SOURCE,), cluster=cluster, one_at_a_time=True)
    yield ship
    yield TaskSpec(GATE_DELIVERY, f"{GATE_DELIVERY}:{cluster}", after=(ship.task_id,), cluster=cluster)


def last_closed(schedule: Schedule, moment: dt.datetime) -> Window:
    """The schedule's last window that had ended by ``moment``."""
    return Ticks(schedule).last_closed(moment)


def with_width(interval: tuple[dt.datetime, dt.datetime], schedule: Schedule | None) -> tuple[dt.datetime, dt.datetime]:
    """On the day on which clocks skip the schedule's hour, Airflow gives a run by hand an interval that ends where it begins; meant is the window
    that ends there."""
    if schedule is None or interval[0] < interval[1]:
        return interval
    closed = last_closed(schedule, dt.datetime.fromtimestamp(interval[1].timestamp(), dt.UTC))
    return closed.start, closed.end


def opens_at(window: Window, settle_seconds: float) -> dt.datetime:
    """When the last file that belongs to a window has settled: a run that plans earlier would leave it out, and the next
    window's run, which looks into other folders, would not find it."""
    return window.end + dt.timedelta(seconds=settle_seconds)


def window_of_run(
    pipeline: Pipeline,
    asked: Mapping[str, Any],
    interval: tuple[dt.datetime | None, dt.datetime | None],
    asked_at: dt.datetime | None,
) -> Window:
    """Return the window that a DAG run ships. ``asked``: its params or its conf; ``interval``: its data interval; ``asked_at``: its `run_after`. The
    answer is the same however often the run is cleared. Raises WindowError if the run has no window."""
    first, end = interval
    schedule, settle = pipeline.schedule, dt.timedelta(seconds=pipeline.source.settle_seconds)

    def closed() -> Window | None:
        # The last window whose files had settled.
        if schedule is None or asked_at is None:
            return None
        return last_closed(schedule, dt.datetime.fromtimestamp((asked_at - settle).timestamp(), dt.UTC))

    known = with_width((first, end), schedule) if first and end else None
    return resolve_window(asked.get("window_start"), asked.get("window_end"), known, closed)


def resolve_window(
    start: str | None,
    end: str | None,
    interval: tuple[dt.datetime, dt.datetime] | None,
    last_closed: Callable[[], Window | None] = lambda: None,
) -> Window:
    """Params before interval, that before the schedule's window that had closed last when the run was asked for. Raises WindowError when
    there is none of them, or half of the first, or when it is empty."""
    if bool(start) != bool(end):
        given, missing = ("window_start", "window_end") if start else ("window_end", "window_start")
        raise WindowError(f"{given} is given and {missing} is not: a window needs both, or none to take the data interval")
    if start and end:
        return Window(parse_moment(start), parse_moment(end))
    if interval is None and (closed := last_closed()):
        return closed
    if interval is None:
        raise WindowError(
            f"this run has no window: the pipeline has no schedule, and a run without a logical date has no data interval; {_REMEDY}"
        )
    # Airflow's moments are pendulum's, which lose their zone when a timedelta is added to a converted one.
    opens, closes = (dt.datetime.fromtimestamp(moment.timestamp(), dt.UTC) for moment in interval)
    if opens == closes:
        raise WindowError(f"this run has no window: the pipeline has no schedule to take a data interval from; {_REMEDY}")
    return Window(opens, closes)
