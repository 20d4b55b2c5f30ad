"""State of a window on one cluster: the one rule, which `shipper gaps`, the Shipments page, notices
and metrics use. Pure.

It follows from the files that runs looked at and left out (:mod:`shipper.report.coverage`), and
from the commit time of the window's last record. It does not include what only the clock knows (a
window is due and has no run) or what only the ledger knows.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from shipper.config.units import plural
from shipper.report.coverage import lacking, tick_window, touches
from shipper.report.plan_result import PlanResult, RecreatedTopic
from shipper.report.results import Coverage, DeliveryGateResult, GateResult, Uncovered
from shipper.windows.window import Window

SHIPPED, LATE, DOUBT, WAITING, SHIPPING, MISSING, BLOCKED, FAILED = (
    "shipped",
    "late",
    "doubt",
    "waiting",
    "shipping",
    "missing",
    "blocked",
    "failed",
)
#: From the best to the worst: of several clusters a window shows the worst.
STATES = (SHIPPED, LATE, DOUBT, WAITING, SHIPPING, MISSING, BLOCKED, FAILED)
#: Those in which all of the window is on the cluster.
THERE = (SHIPPED, LATE, DOUBT)


class RunSeen(NamedTuple):
    """Outcome of one run on one cluster, or of one attempt at it: a run whose tasks were repeated
    after its delivery gate had passed is seen twice, as what it delivered and as what became of the
    repetition."""

    window: Window
    run_id: str
    passed: bool = False
    """True if the cluster's delivery gate has passed."""
    at: Coverage | None = None
    """Coverage that the run noted; None: it did not come so far."""
    closed: bool | None = None
    """True if a check of the source gate did not hold; None: the gate left no result, or could not
    be evaluated."""
    recreated: str = ""
    """Finding of the run, if topics of the cluster have lost delivered records, since they were
    deleted."""
    doubt: str = ""
    """Reason why a person should look at the run, although it passed."""


class Standing(NamedTuple):
    state: str
    why: str = ""
    left: Sequence[Uncovered] = ()
    """Rest of the window that is known to be missing, if runs have looked at all of it."""

    @property
    def complete(self) -> bool:
        """True if all of the window is on the cluster, as far as runs know."""
        return self.state in THERE and not self.left


def source_closed(source: GateResult | None) -> bool | None:
    """Return True if the source gate is closed; None: it left no result, or could not be
    evaluated."""
    if source is None or (source.status == "failed" and not source.checks):
        return None
    return source.status == "failed" and any(
        check.severity == "block" and not check.passed for check in source.checks
    )


def was_repeated(gate: GateResult, source: GateResult | None) -> bool:
    """Return True if the run's tasks were repeated from the plan on after its delivery gate."""
    return source is not None and source.started_at > gate.finished_at


def attempts(
    run: RunSeen,
    cluster: str,
    plan: PlanResult | None,
    source: GateResult | None,
    gate: DeliveryGateResult | None,
    lost: Sequence[RecreatedTopic],
) -> tuple[RunSeen, ...]:
    """Return the attempts of a run that matter, by time, from the results of its steps. ``run``:
    its window, id and doubt. ``lost``: the ship's finding on recreated topics."""
    run = run._replace(closed=source_closed(source))
    if gate is None or gate.coverage is None or gate.status == "failed":
        planned = [
            one
            for each in (plan.clusters if plan else ())
            if each.cluster == cluster
            for one in each.recreated
        ]
        words = deleted_in_words((gate and gate.recreated) or lost or planned)
        return (run._replace(at=lacking(plan, cluster) if plan else None, recreated=words),)
    delivered = run._replace(passed=True, at=gate.coverage)
    found = []
    if first := gate.coverage.first_looked_at:
        # What it left, the later attempt has said anew.
        known = gate.coverage.model_copy(update={"looked_at": first, "uncovered": []})
        found.append(delivered._replace(at=known, closed=False, doubt=""))
    # Until a repetition comes to the delivery gate again, any file of its plan may be missing.
    if was_repeated(gate, source) and plan and plan.status != "failed":
        again = run._replace(at=lacking(plan, cluster), doubt="")
        return (*found, delivered._replace(closed=False), again)
    return (*found, delivered)


def deleted_in_words(lost: Sequence[RecreatedTopic]) -> str:
    """Return a run's finding on topics that have lost delivered records; empty if there is none."""
    if not lost:
        return ""
    again = " and created again" if lost[0].now else ""
    more = f", and {len(lost) - 1} more topics" if lost[1:] else ""
    return (
        f"topic {lost[0].topic} was deleted{again} after {plural(lost[0].records, 'record')} "
        f"{'was' if lost[0].records == 1 else 'were'} delivered to it{more}"
    )


def by_time(runs: Iterable[RunSeen]) -> list[RunSeen]:
    """Sort runs, which are sorted by their ids, by when their plans looked. A run without a plan
    stays behind the one in front of it."""
    found, at = list[tuple[dt.datetime, RunSeen]](), dt.datetime.min.replace(tzinfo=dt.UTC)
    for run in runs:
        at = (run.at and run.at.looked_at) or at
        found.append((at, run))
    return [run for _, run in sorted(found, key=lambda one: one[0])]


def standing(
    window: Window,
    runs: Sequence[RunSeen],
    committed: dt.datetime | None = None,
    due: dt.datetime | None = None,
) -> Standing | None:
    """Return the state of ``window``; None if no run has a say. ``runs``: by time. ``committed``:
    when its last record was committed on the cluster, if any was. ``due``: when it had to be there,
    if that was said."""
    runs = [run for run in runs if _touches(run, window)]
    own = [run for run in runs if contains(run.window, window)]
    exact = [run for run in own if run.window == window]
    if _is_closed(window, runs, own):
        return Standing(BLOCKED, "its source gate is closed")
    lost = [run for run in own if run.recreated]
    covering = [
        run
        for run in runs
        if run.passed and run.at and run.at.start <= window.start and window.end <= run.at.end
    ]
    if lost and (not covering or runs.index(covering[-1]) < runs.index(lost[-1])):
        return Standing(FAILED, lost[-1].recreated)
    if not _covers(runs, window):
        tried = own or any(
            run.at and run.at.start <= window.start and window.end <= run.at.end for run in runs
        )
        return Standing(FAILED, "its run failed, or has not ended") if tried else None
    if left := outstanding(window, runs):
        state = (
            FAILED
            if exact and not any(run.passed for run in exact if run.run_id == exact[-1].run_id)
            else DOUBT
            if any(one.files for one in left)
            else MISSING
        )
        return Standing(state, _reasons(left), left)
    if doubt := next((run.doubt for run in reversed(exact) if run.passed), ""):
        return Standing(DOUBT, doubt)
    if committed and due and committed > due:
        return Standing(
            LATE,
            f"its last record was committed at {committed:%Y-%m-%dT%H:%M:%SZ}, and due at "
            f"{due:%Y-%m-%dT%H:%M:%SZ}",
        )
    return Standing(SHIPPED)


def _touches(run: RunSeen, window: Window) -> bool:
    at = run.at or run.window
    return min(run.window.start, at.start) < window.end and window.start < max(
        run.window.end, at.end
    )


def _covers(runs: Iterable[RunSeen], window: Window) -> bool:
    """Return True if runs that have passed looked at all of ``window``, one of them or several
    together."""
    reached = window.start
    passed = (run.at for run in runs if run.passed and run.at)
    for at in sorted(passed, key=lambda at: at.start):
        if at.start <= reached:
            reached = max(reached, at.end)
    return reached >= window.end


def outstanding(window: Window, runs: Iterable[RunSeen]) -> list[Uncovered]:
    """Return the files of ``window`` that are not on the cluster, as far as runs know. ``runs``:
    by time.

    A passed run replaces the notes within its range with its own. A failed run whose plan asked the
    cluster replaces the notes of files. A note that a folder is empty counts only if the folder
    held no shipped files before: they may be gone by now.
    """
    found: list[Uncovered] = []
    held_files: list[Coverage] = []
    for run in runs:
        if run.at is None:
            continue
        if run.passed:
            found = [one for one in found if not _within(one, run.at)]
        elif run.at.asked:
            found = [one for one in found if not (one.files and _within(one, run.at))]
        notes = [one for one in run.at.uncovered if touches(one.window, window)]
        found += [
            one for one in notes if one.files or not any(_within(one, at) for at in held_files)
        ]
        if run.passed and not notes:
            held_files.append(run.at)
    return found


def _within(note: Uncovered, looked_at: Coverage) -> bool:
    at = tick_window(note.window)
    return looked_at.start <= at.start and at.end <= looked_at.end


def _is_closed(window: Window, runs: Sequence[RunSeen], own: Sequence[RunSeen]) -> bool:
    """Return True if the gate is closed. A closed gate stays closed until a run over the whole
    window passes it: a person has to look. But it takes nothing away that runs had delivered before
    it closed."""
    closed: list[RunSeen] = []
    for run in own:
        if run.closed is not None:
            closed = [*closed, run] if run.closed else []
    if not closed:
        return False
    before = runs[: runs.index(closed[0])]
    delivered = [*before, *(run for run in own if run not in before)]
    return not _covers(delivered, window) or bool(outstanding(window, runs))


def _reasons(left: Iterable[Uncovered]) -> str:
    """Return each reason once, with the number of entries where there are several."""
    paths: dict[str, set[str]] = {}
    for one in left:
        paths.setdefault(one.why, set()).update(one.paths)
    return (
        "; ".join(f"{why} ({len(of)})" for why, of in paths.items())
        if len(paths) > 1
        else next(iter(paths))
    )


def contains(window: Window, other: Window) -> bool:
    return window.start <= other.start and other.end <= window.end
