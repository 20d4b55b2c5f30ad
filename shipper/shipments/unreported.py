"""Runs that left no report, by the knowledge of their scheduler: a run that died before its report,
or whose configuration was broken. Pure.

The index knows a run when its first step has begun. Airflow knows it earlier, and also if none of
its steps ever began.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Literal, NamedTuple

from shipper.report.standing import FAILED, SHIPPING, WAITING
from shipper.shipments.index import ALL, Index, Known, Span


class StartedRun(NamedTuple):
    """A run as the scheduler knows it. Times are seconds since the epoch, UTC."""

    pipeline: str
    window: Span
    run_id: str
    """The scheduler's own id of it."""
    state: Literal["queued", "running", "failed"]
    began: int
    ended: int | None
    """Time of the end; None: it has not ended."""
    failed_in: str = ""
    """The first of its tasks that failed; empty: not asked, or none did."""


Scheduler = Callable[[Collection[Known], int, int, bool], Sequence[StartedRun]]
"""Question to the program that starts runs, such as Airflow: (pipelines, start, end, with tasks) →
the runs over windows that touch [start, end) that have not succeeded, by time; with the first task
that failed, if asked for."""


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
    return {"queued": WAITING, "running": SHIPPING, "failed": FAILED}[run.state]


def as_json(run: StartedRun) -> dict[str, Any]:
    return {
        "run_id": run.run_id,
        "state": run.state,
        "began": run.began,
        "ended": run.ended,
        "failed_in": run.failed_in,
    }
