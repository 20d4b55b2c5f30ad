"""Runs that left no report, by the knowledge of their scheduler: a run that died before its report,
or whose configuration was broken. Pure.

The records know a run when its first step has begun. Airflow knows it earlier, and also if none of
its steps ever began; and it knows what a step waits for.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Literal, NamedTuple, Protocol

from shipper.report.window_state import FAILED, OVERDUE, SHIPPING, WAITING
from shipper.shipments.index import ALL, UNDER_WAY, Index, Known, Span, window_of


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
    waits: Sequence[str] = ()
    """Reasons why its tasks wait, in sentences; empty: not asked, or none."""


class Scheduler(Protocol):
    """Program that starts runs: Airflow, by its database."""

    root: str
    """Address below which its own pages are."""

    def unsuccessful(
        self, pipelines: Collection[Known], between: Span, *, tasks: bool = False
    ) -> Sequence[StartedRun]:
        """Return the runs over windows that touch the stretch which have not succeeded, by time;
        ``tasks``: with the first task that failed."""

    def over(self, pipeline: Known, window: Span) -> Sequence[StartedRun]:
        """Return the latest runs over exactly this window, the last one first."""

    def paused(self) -> Collection[str]:
        """Return the pipelines whose DAG is paused, so that no step of a run begins."""

    def waits_for(self, pipeline: str) -> str:
        """Return why a new run of the pipeline would not begin at once; empty if it would."""


def without_report(
    index: Index, pipelines: Iterable[Known], found: Iterable[StartedRun]
) -> list[StartedRun]:
    """Return those that have left no report: no run over their window ended after they began."""
    keys = {one.pipeline: one.key for one in pipelines}
    return [
        run
        for run in found
        if not index.db.execute(
            "SELECT 1 FROM records WHERE key = ? AND start = ? AND \"end\" = ? AND step = 'report' "
            "AND ended >= ? LIMIT 1",
            (keys[run.pipeline], *run.window, run.began),
        ).fetchone()
    ]


def state_of(
    index: Index, known: Known, run: StartedRun, now: int, cluster: str = ALL
) -> str | None:
    """Return what the last run over its window makes of it; None: what the index knows says
    more."""
    cell = index.db.execute(
        'SELECT state, ended FROM cells WHERE cluster = ? AND key = ? AND start = ? AND "end" = ?',
        (cluster, known.key, *run.window),
    ).fetchone()
    if cell and cell[0] not in UNDER_WAY:
        return None
    if cell:  # its steps have begun: it is dead if the run is over
        return FAILED if run.ended is not None and cell[1] <= run.ended else None
    due = known.due(window_of(run.window))
    late = due is not None and now >= due.timestamp()
    at_work = {"queued": WAITING, "running": SHIPPING}
    if run.state in at_work:
        return OVERDUE if late else at_work[run.state]
    return FAILED if run.state == "failed" else None
