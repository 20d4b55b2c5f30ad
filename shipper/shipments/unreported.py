"""Runs that left no report, by the knowledge of their scheduler: a run that died before its report,
or whose configuration was broken. Pure.

The index knows a run when its first step has begun. Airflow knows it earlier, and also if none of
its steps ever began.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Literal, NamedTuple, Protocol

from shipper.report.standing import FAILED, SHIPPING, WAITING
from shipper.shipments.index import ALL, Index, Known, Span


class StartedRun(NamedTuple):
    """A run as the scheduler knows it. Times are seconds since the epoch, UTC."""

    pipeline: str
    window: Span
    run_id: str
    """The scheduler's own id of it."""
    state: Literal["queued", "running", "failed", "success"]
    began: int
    ended: int | None
    """Time of the end; None: it has not ended."""
    failed_in: str = ""
    """The first of its tasks that failed; empty: not asked, or none did."""
    kind: str = ""
    """Airflow's type of the run: scheduled, manual, backfill."""


class Scheduler(Protocol):
    """Program that starts runs: Airflow, by its database."""

    def unsuccessful(
        self, pipelines: Collection[Known], between: Span, *, tasks: bool = False
    ) -> Sequence[StartedRun]:
        """Return the runs over windows that touch the stretch which have not succeeded, by time;
        ``tasks``: with the first task that failed."""

    def over(self, pipeline: Known, window: Span) -> Sequence[StartedRun]:
        """Return the latest runs over exactly this window, the last one first."""

    def waits_for(self, pipeline: str) -> str:
        """Return why a new run of the pipeline would not begin at once; empty if it would."""


def without_report(index: Index, found: Iterable[StartedRun]) -> list[StartedRun]:
    """Return those that have left no report: no run over their window ended after they began."""
    return [
        run
        for run in found
        if not index.db.execute(
            'SELECT 1 FROM runs WHERE pipeline = ? AND start = ? AND "end" = ? AND ended >= ? '
            "LIMIT 1",
            (run.pipeline, *run.window, run.began),
        ).fetchone()
    ]


def state_of(index: Index, run: StartedRun, cluster: str = ALL) -> str | None:
    """Return what the last run over its window makes of it; None: what the index knows says
    more."""
    begun = index.db.execute(
        'SELECT max(at) FROM begun WHERE pipeline = ? AND start = ? AND "end" = ? AND ? IN (?, '
        "cluster)",
        (run.pipeline, *run.window, cluster, ALL),
    ).fetchone()[0]
    if begun is not None:  # its steps have begun: it is dead if the run is over
        return FAILED if run.ended is not None and begun <= run.ended else None
    where = 'WHERE cluster = ? AND pipeline = ? AND start = ? AND "end" = ?'
    if index.db.execute(
        f"SELECT 1 FROM cells {where}", (cluster, run.pipeline, *run.window)
    ).fetchone():
        return None
    return {"queued": WAITING, "running": SHIPPING, "failed": FAILED, "success": None}[run.state]
