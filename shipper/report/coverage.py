"""Record of the files that a run looked at and left out, tick by tick of the schedule: completeness
is computed from it (:mod:`shipper.report.window_state`). Pure.

A run notes each file that it left out under the file's own tick, and each tick whose folders are
empty.
"""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from shipper.report.plan_result import LeftOut, PlannedFile, PlanResult
from shipper.report.results import Coverage, LeftFile, Uncovered
from shipper.windows.window import Window, parse_window


def coverage(
    plan: PlanResult,
    cluster: str,
    *,
    when_empty_fails: bool,
    committed: Mapping[str, dt.datetime] = MappingProxyType({}),
) -> Coverage:
    """Return the look of a run all of whose planned files are on the cluster. A run that looked
    back covers those ticks as well: their files are on the cluster, shipped by this run or before
    it. ``committed``: tick → commit time of the last record of the run's files, by the ledger."""
    left = [
        entry
        for entry in plan.left_out
        if entry.warns and (not entry.clusters or cluster in entry.clusters)
    ]
    found = _coverage(plan, cluster, left, plan.empty if when_empty_fails else ())
    before = plan.of_cluster(cluster).committed
    found.committed = {
        tick: max(at for at in (before.get(tick), committed.get(tick)) if at)
        for tick in {*before, *committed}
    }
    return found


def committed_at(found: Coverage | None, window: Window) -> dt.datetime | None:
    """Return when the last record of ``window`` was committed; None if this is unknown, or there
    was no record."""
    ticks = found.committed if found else {}
    return max((at for tick, at in ticks.items() if touches(tick, window)), default=None)


def tick_of(file: PlannedFile, plan: PlanResult) -> str:
    """Return START/END of the tick of the schedule that a file of the plan belongs to, or of the
    run's window."""
    return file.late_window or file.tick or str(plan.window)


def lacking(plan: PlanResult, cluster: str) -> Coverage:
    """Return the look of a run of which no delivery gate has passed on the cluster: any file of its
    plan may be missing there."""
    found = coverage(plan, cluster, when_empty_fails=False)
    if plan.looked_back:
        found.start = min(found.start, plan.looked_back.start)
    why = "the run that should have shipped it failed, or has not ended"
    left = [file.left_out(why) for file in plan.files if cluster in file.missing_on]
    found.uncovered += _coverage(plan, cluster, left).uncovered
    return found


def _coverage(
    plan: PlanResult, cluster: str, left: Iterable[LeftOut], empty: Iterable[str] = ()
) -> Coverage:
    own = str(plan.window)
    planned = plan.of_cluster(cluster)
    notes: dict[tuple[str, str], Uncovered] = {}
    for entry in left:
        window = entry.window or own
        note = notes.setdefault(
            (window, entry.code or entry.reason), Uncovered(window=window, why=entry.reason)
        )
        note.files += [
            LeftFile(path=path, size_bytes=entry.size_bytes, modified_ms=entry.modified_ms)
            for path in (entry.path, *entry.more)
        ]
    for window in set(empty) - {window for window, _ in notes}:
        notes[window, ""] = Uncovered(window=window, why="it had no file")
    return Coverage(
        start=planned.looks_back_to or plan.window_start,
        end=plan.over_until or plan.window_end,
        looked_at=plan.place,
        asked=planned.asked,
        uncovered=list(notes.values()),
    )


def touches(tick: str, window: Window) -> bool:
    at = tick_window(tick)
    return at.start < window.end and window.start < at.end


@functools.lru_cache(maxsize=100_000)
def tick_window(text: str) -> Window:
    return parse_window(text)
