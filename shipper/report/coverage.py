"""Record of the files that a run looked at and left out, tick by tick of the schedule: completeness
is computed from it. Pure.

A run notes each file that it left out under the file's own tick, and each tick whose folders are
empty. To decide whether a tick is complete, go through these notes by time (:func:`outstanding`).
"""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from shipper.report.plan_result import PlannedFile, PlanResult
from shipper.report.results import Coverage, LeftFile, Uncovered
from shipper.windows.window import Window, parse_window


class Look(NamedTuple):
    """Ticks that one run looked at on one cluster."""

    at: Coverage
    passed: bool
    """True if the cluster's delivery gate has passed, so that everything except the noted files is
    on the cluster."""


def coverage(
    plan: PlanResult,
    cluster: str,
    *,
    when_empty_fails: bool,
    committed: Mapping[str, dt.datetime] = MappingProxyType({}),
    earlier: Coverage | None = None,
) -> Coverage:
    """Return the look of a run all of whose planned files are on the cluster. A run that looked
    back covers those ticks as well: their files are on the cluster, shipped by this run or before
    it. ``committed``: tick → commit time of the last record of the run's files, by the ledger.
    ``earlier``: the look of an earlier attempt whose delivery gate passed."""
    left = [
        _Note(
            file.window,
            file.code,
            file.reason,
            LeftFile(path=path, size_bytes=file.size_bytes, modified_ms=file.modified_ms),
        )
        for file in plan.left_out
        if file.warns and (not file.clusters or cluster in file.clusters)
        for path in (file.path, *file.more)
    ]
    found = _coverage(plan, cluster, left, plan.empty if when_empty_fails else ())
    before = next(
        (planned.committed for planned in plan.clusters if planned.cluster == cluster), {}
    )
    found.committed = {
        tick: max(at for at in (before.get(tick), committed.get(tick)) if at)
        for tick in {*before, *committed}
    }
    if earlier and earlier.looked_at and earlier.looked_at < plan.started_at:
        found.first_looked_at = earlier.first_looked_at or earlier.looked_at
    return found


def committed_at(found: Coverage | None, window: Window) -> dt.datetime | None:
    """Return when the last record of ``window`` was committed; None if this is unknown, or there
    was no record."""
    ticks = found.committed if found else {}
    return max((at for tick, at in ticks.items() if _touches(tick, window)), default=None)


def tick_of(file: PlannedFile, plan: PlanResult) -> str:
    """Return START/END of the tick of the schedule that a file of the plan belongs to, or of the
    run's window."""
    return file.late_window or file.tick or str(Window(plan.window_start, plan.window_end))


def lacking(plan: PlanResult, cluster: str) -> Coverage:
    """Return the look of a run of which no delivery gate has passed on the cluster: any file of its
    plan may be missing there."""
    found = coverage(plan, cluster, when_empty_fails=False)
    if plan.looked_back:
        found.start = min(found.start, plan.looked_back.start)
    left = [
        _Note(
            tick_of(file, plan),
            "",
            "the run that should have shipped it failed, or has not ended",
            LeftFile(path=file.path, size_bytes=file.size_bytes, modified_ms=file.modified_ms),
        )
        for file in plan.files
        if cluster in file.missing_on
    ]
    found.uncovered += _coverage(plan, cluster, left).uncovered
    return found


class _Note(NamedTuple):
    tick: str | None
    """Tick of the file; None: the run's window."""
    code: str
    why: str
    file: LeftFile


def _coverage(
    plan: PlanResult, cluster: str, left: Iterable[_Note], empty: Iterable[str] = ()
) -> Coverage:
    own = str(Window(plan.window_start, plan.window_end))
    planned = next((found for found in plan.clusters if found.cluster == cluster), None)
    notes: dict[tuple[str, str], Uncovered] = {}
    for tick, code, why, file in left:
        window = tick or own
        notes.setdefault((window, code or why), Uncovered(window=window, why=why)).files.append(
            file
        )
    for window in set(empty) - {window for window, _ in notes}:
        notes[window, ""] = Uncovered(window=window, why="it had no file")
    start = (planned and planned.looks_back_to) or plan.window_start
    return Coverage(
        start=start,
        end=plan.window_end,
        looked_at=plan.started_at,
        asked=planned is not None and planned.asked,
        uncovered=list(notes.values()),
    )


def covers(looks: Iterable[Look], window: Window) -> bool:
    """True if runs that have passed looked at all of ``window``, one of them or several
    together."""
    reached = window.start
    for at in sorted((look.at for look in looks if look.passed), key=lambda at: at.start):
        if at.start <= reached:
            reached = max(reached, at.end)
    return reached >= window.end


def outstanding(window: Window, looks: Iterable[Look]) -> list[Uncovered]:
    """Return the files of ``window`` that are not on the cluster, as far as runs know. ``looks``:
    by time.

    A passed run replaces the notes within its range with its own. A failed run whose plan asked the
    cluster replaces the notes of files. A note that a folder is empty counts only if the folder
    held no shipped files before: they may be gone by now.
    """
    found: list[Uncovered] = []
    held_files: list[Coverage] = []
    for look in looks:
        if look.passed:
            found = [one for one in found if not _within(one, look.at)]
        elif look.at.asked:
            found = [one for one in found if not (one.files and _within(one, look.at))]
        notes = [one for one in look.at.uncovered if _touches(one.window, window)]
        found += [
            one for one in notes if one.files or not any(_within(one, at) for at in held_files)
        ]
        if look.passed and not notes:
            held_files.append(look.at)
    return found


def _touches(tick: str, window: Window) -> bool:
    at = _window(tick)
    return at.start < window.end and window.start < at.end


def _within(note: Uncovered, looked_at: Coverage) -> bool:
    at = _window(note.window)
    return looked_at.start <= at.start and at.end <= looked_at.end


@functools.lru_cache(maxsize=100_000)
def _window(text: str) -> Window:
    return parse_window(text)
