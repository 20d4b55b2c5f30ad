"""The tasks of a pipeline and their order: what can be said without Airflow.

::

    resolve_window ─▶ plan ─▶ gate_source ─▶ to_CLUSTER: ship ─▶ gate_delivery ─┐
                                        └──▶ to_OTHER:   ship ─▶ gate_delivery ─┴▶ delivered
                                                                                └▶ report

Clusters know nothing of each other: one that fails stops none of the others. ``delivered`` does
nothing: its state says whether the window is on every cluster that the run was for, and with it the
run's. ``report`` runs always, and fails, the run too, only if there is no report.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from shipper.runner import GATE_DELIVERY, GATE_SOURCE, PLAN, REPORT, SHIP

RESOLVE_WINDOW, DELIVERED = "resolve_window", "delivered"


@dataclass(frozen=True)
class TaskSpec:
    """One task. ``step`` is the argument of ``python -m spark_jobs`` that it runs; None: it starts
    no process of ours."""

    name: str
    step: str | None
    after: tuple[str, ...]
    """Ids of the tasks that must be done before."""
    cluster: str | None = None
    """Tasks of one cluster are shown as one group."""
    one_at_a_time: bool = False
    """True if it waits for the same task of other runs: backfills overlap scheduled runs."""
    always: bool = False
    """True if it runs whatever became of the tasks before it."""
    some_suffice: bool = False
    """True if it runs when some of the tasks before it were skipped, and the others succeeded."""

    @property
    def task_id(self) -> str:
        return self.name if self.cluster is None else f"{group_id(self.cluster)}.{self.name}"


def group_id(cluster: str) -> str:
    """Return ``to_frankfurt``; the prefix keeps a cluster named ``plan`` from taking a task's
    id."""
    return f"to_{cluster}"


def pipeline_tasks(clusters: Sequence[str]) -> list[TaskSpec]:
    """Return all tasks, each after those that it depends on."""
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
    ship = TaskSpec(
        SHIP, f"{SHIP}:{cluster}", after=(GATE_SOURCE,), cluster=cluster, one_at_a_time=True
    )
    yield ship
    yield TaskSpec(
        GATE_DELIVERY, f"{GATE_DELIVERY}:{cluster}", after=(ship.task_id,), cluster=cluster
    )
