"""State of a window on one cluster: the one fold over the records of windows
(:mod:`shipper.report.window_records`), which `shipper gaps`, the Shipments page, notices and
metrics use. Pure.

A window is complete if runs that passed the cluster's delivery gate looked at all of it, and no
file that is known to be missing is left; or if a person has accepted it as it is. A run takes a
note on a file back only if it looked at the file's tick again and passed. What only the clock knows
comes last (:func:`state_at`); what only the ledger knows is not included.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import NamedTuple

from shipper.report.coverage import tick_window, touches
from shipper.report.results import Uncovered
from shipper.report.window_records import WindowRecord
from shipper.windows.window import Window

SHIPPED, LATE, DOUBT, WAITING, SHIPPING, TROUBLE, OVERDUE, MISSING, BLOCKED, FAILED = (
    "shipped",
    "late",
    "doubt",
    "waiting",
    "shipping",
    "trouble",
    "overdue",
    "missing",
    "blocked",
    "failed",
)
#: From the best to the worst: of several clusters a window shows the worst.
STATES = (
    SHIPPED, LATE, DOUBT, WAITING, SHIPPING, TROUBLE, OVERDUE, MISSING, BLOCKED, FAILED,
)  # fmt: skip
#: Those in which all of the window is on the cluster.
THERE = (SHIPPED, LATE, DOUBT)
_FAILED = "its run failed, or has not ended"
KILLED_AFTER = dt.timedelta(hours=26)
"""A run that began longer ago, or said longer ago that it ships, and left no report was killed."""


class UnderWay(NamedTuple):
    """A run over the window that has left no report yet."""

    run_id: str
    window: Window
    began: dt.datetime
    """Time when it began; of a ship that takes many hours, when it last said that it goes on."""
    error: str = ""
    """Error of the step that failed last; empty: none did."""


class WindowState(NamedTuple):
    state: str
    """State as ended runs have left it."""
    why: str = ""
    left: Sequence[Uncovered] = ()
    """Rest of the window that is known to be missing, if runs have looked at all of it."""
    distrusted: bool = False
    """True if its last delivery gate is closed, or its last ship failed as later ones would: then
    the ledger does not show that it is there."""
    run_id: str = ""
    """The run that decided."""
    at: dt.datetime | None = None
    """Commit time of the window's last record; if that is unknown, the end of the deciding step."""
    under_way: UnderWay | None = None

    @property
    def complete(self) -> bool:
        """True if all of the window is on the cluster, as far as runs know."""
        return self.state in THERE and not self.left


def state_at(found: WindowState | None, due: dt.datetime | None, now: dt.datetime) -> str | None:
    """Return the state that people see. ``found``: what runs have left; None: nothing. ``due``:
    the window's deadline; None: it has none."""
    late = due is not None and now >= due
    if found is None:
        return None if due is None else MISSING if late else WAITING
    if run := found.under_way:
        return state_under_way(
            run.began, now, late=late and not found.complete, trouble=bool(run.error)
        )
    return found.state


def state_under_way(began: dt.datetime, now: dt.datetime, *, late: bool, trouble: bool) -> str:
    if began <= now - KILLED_AFTER:
        return FAILED
    return OVERDUE if late else TROUBLE if trouble else SHIPPING


def window_state(
    window: Window, records: Iterable[WindowRecord], due: dt.datetime | None = None
) -> WindowState | None:
    """Return the state of ``window``; None if no run has a say. ``records``: of one cluster, in
    their order. ``due``: when the window had to be there, if that was said."""
    fold = _Fold(window)
    for record in records:
        if record.since < window.end and window.start < record.window_end:
            fold.add(record)
    return fold.result(due)


Stretch = tuple[dt.datetime, dt.datetime]


class _Note(NamedTuple):
    run_id: str
    of: Uncovered


class _Verdict(NamedTuple):
    """Verdict of a run on what it delivered of the window, or of a person. Of two, the later one
    counts."""

    at: dt.datetime
    is_there: bool
    why: str = ""


_NO_VERDICT = _Verdict(dt.datetime.min.replace(tzinfo=dt.UTC), True)


@dataclass
class _Fold:
    window: Window
    tried: bool = False
    covered: list[Stretch] = field(default_factory=list)
    """Stretches that runs which passed have looked at."""
    is_covered: bool = False
    """True if they hold all of the window."""
    is_early: bool = False
    """True if the window was not over when the last run over it looked and passed."""
    closed: str = ""
    """Run that closed the source gate, which no run over the whole window has passed since."""
    covered_before: list[Stretch] = field(default_factory=list)
    """Stretches covered before the gate closed, or since then by runs over the whole window."""
    verdict: _Verdict = _NO_VERDICT
    lost: str = ""
    """Finding on records that are lost, since the last run that looked and passed."""
    left: list[_Note] = field(default_factory=list)
    held: list[Stretch] = field(default_factory=list)
    """Stretches in which a run had found files, and left none: a folder that is empty later held
    shipped ones."""
    passed: set[str] = field(default_factory=set)
    """Runs over exactly this window that have passed."""
    last: str = ""
    """The last run over exactly this window."""
    in_force: list[str] = field(default_factory=list)
    """Runs that passed over exactly this window, from the last one that looked on: the others are
    of named files."""
    doubts: dict[str, str] = field(default_factory=dict)
    accepted: str = ""
    """What a person who accepted all of the window as it was has said."""
    committed: dt.datetime | None = None
    open: dict[str, UnderWay] = field(default_factory=dict)
    decided: tuple[str, dt.datetime | None] = "", None
    """Run, and when its step ended."""

    def add(self, record: WindowRecord) -> None:
        window, start, end = self.window, record.start, record.until
        own = contains(record.window, window)
        if start is None and not own:
            return  # a step of a run over another window, which did not look at this one
        spans = start is not None and start <= window.start and window.end <= end
        exact = record.window == window
        if record.step == "accepted":
            self._accept(record, (record.since, end), spans=spans)
            return
        whole = self.is_covered and not self.left
        if whole and spans and record.passed and not own and self._changes_nothing(record):
            return
        self.tried |= own or spans
        if own and (record.passed or record.step == "plan"):
            self.is_early = record.passed and end < window.end
        self._follow(record, own=own)
        if exact:
            self.last = record.run_id
            if record.step == "report":
                self.doubts[record.run_id] = record.doubt
        if own and record.closed is not None:
            if record.closed and not self.closed:
                self.covered_before = list(self.covered)
            self.closed = record.run_id if record.closed else ""
        if own and record.recreated:
            self.lost = record.recreated
        self._judge(record, own=own, spans=spans)
        if start is not None:
            self._look(record, (start, end), own=own)
        elif record.passed:  # it was about named files, so it says nothing of the others
            self.left = [note for note in self.left if note.run_id != record.run_id]
        if record.passed and exact:
            self.passed.add(record.run_id)
            self.in_force = [record.run_id] if start else [*self.in_force, record.run_id]
        if record.passed and spans:
            self.lost = ""
        if record.step != "begun" and (exact or own or spans) and (exact or not whole):
            self.decided = record.run_id, record.finished

    def _judge(self, record: WindowRecord, *, own: bool, spans: bool) -> None:
        """Take the verdict of a delivery gate, or of a ship that failed as later ones would, with
        what it was to send. One that another run has superseded says nothing. The order of looks is
        not that in which runs end."""
        if record.passed and (own or spans):
            self._hear(_Verdict(record.finished, True))
        elif own and record.distrusted:
            self._hear(_Verdict(record.finished, False, "its delivery gate is closed"))
        elif own and record.step == "ship" and record.fails_again and self._has_note_of(record):
            self._hear(_Verdict(record.finished, False))

    def _has_note_of(self, record: WindowRecord) -> bool:
        return any(note.run_id == record.run_id for note in self.left)

    def _hear(self, verdict: _Verdict) -> None:
        self.verdict = max(self.verdict, verdict)

    def _accept(self, record: WindowRecord, stretch: Stretch, *, spans: bool) -> None:
        """Take a person's word that nothing more will come: files that runs left out, and that a
        folder is empty, whoever notes it again."""
        for stretches in (self.covered, self.covered_before, self.held):
            stretches.append(stretch)
        self.is_covered = self.is_covered or _covers(self.covered, self.window)
        self.left = [note for note in self.left if not _within(note.of, stretch)]
        if spans:
            self.closed = self.lost = ""
            self._hear(_Verdict(record.finished, True))
            self.accepted = record.accepted
            self.decided = record.run_id, record.finished

    def _changes_nothing(self, record: WindowRecord) -> bool:
        """Return True for a run that looked back at a window which was complete before, as most
        do."""
        at = record.committed.get(str(self.window)) if record.committed else None
        is_news = at is not None and (self.committed is None or at > self.committed)
        aside = (
            self.closed or self.lost or self.open or record.uncovered or not self.verdict.is_there
        )
        return bool(self.held) and not (is_news or aside)

    def _look(self, record: WindowRecord, stretch: Stretch, *, own: bool) -> None:
        """Take the notes of a run that looked.

        A run that passed replaces the notes within its stretch. A run that failed replaces notes
        of files, if its plan could ask the cluster. A note that a folder is empty counts only if
        the folder held no shipped files before: they may be gone by now.
        """
        if record.passed:
            self.covered.append(stretch)
            self.is_covered = self.is_covered or _covers(self.covered, self.window)
            if self.closed and own:
                self.covered_before.append(stretch)
            self.left = [note for note in self.left if not _within(note.of, stretch)]
            at = record.committed.get(str(self.window))
            self.committed = max(filter(None, (at, self.committed)), default=None)
        elif record.asked:
            self.left = [
                note for note in self.left if not (note.of.files and _within(note.of, stretch))
            ]
        notes = [one for one in record.uncovered if touches(one.window, self.window)]
        self.left += [
            _Note(record.run_id, one)
            for one in notes
            if one.files or not any(_within(one, at) for at in self.held)
        ]
        if record.passed and not notes:
            self.held.append(stretch)

    def _follow(self, record: WindowRecord, *, own: bool) -> None:
        """Follow the runs that have left no report. One that ends, or delivers, shows that those
        which began before it are dead: a pipeline ships to a cluster once at a time."""
        run = self.open.get(record.run_id)
        if record.step == "begun" and own:
            self.open.pop(record.run_id, None)
            began = max(record.finished, run.began) if run else record.finished
            self.open[record.run_id] = UnderWay(record.run_id, record.window, began)
        elif record.passed:
            delivered = Window(record.since, record.window_end)
            self._bury(lambda one: contains(delivered, one.window))
        elif record.step == "report" and run:
            before = {*takewhile(lambda name: name != run.run_id, self.open), run.run_id}
            self._bury(lambda one: one.window == run.window and one.run_id in before)
        elif run:
            self.open[record.run_id] = run._replace(error=record.error)

    def _bury(self, is_dead: Callable[[UnderWay], bool]) -> None:
        self.open = {name: one for name, one in self.open.items() if not is_dead(one)}

    def result(self, due: dt.datetime | None) -> WindowState | None:
        found = self._settled(due)
        if found is None:
            return None
        run_id, ended = self.decided
        # A run over a longer window changes nothing of one that is complete.
        at_work = [
            run for run in self.open.values() if run.window == self.window or not found.complete
        ]
        open_ = max(at_work, key=lambda run: run.began, default=None)
        return found._replace(run_id=run_id, at=self.committed or ended, under_way=open_)

    def _settled(self, due: dt.datetime | None) -> WindowState | None:
        window = self.window
        # A closed gate takes nothing away that runs had delivered before it closed.
        if self.closed and (self.left or not _covers(self.covered_before, window)):
            return WindowState(BLOCKED, "its source gate is closed")
        if self.lost:
            return WindowState(FAILED, self.lost)
        left = [note.of for note in self.left]
        if not self.verdict.is_there:
            why = self.verdict.why or (_reasons(left) if left else _FAILED)
            return WindowState(FAILED, why, left, distrusted=True)
        if not self.is_covered and self.is_early:
            return WindowState(MISSING, "it was not over when its last run looked")
        if not self.is_covered:
            return WindowState(FAILED, _FAILED) if self.tried else None
        if left:
            files = any(one.files for one in left)
            has_failed = self.last and self.last not in self.passed
            state = FAILED if has_failed else DOUBT if files else MISSING
            return WindowState(state, _reasons(left), left)
        doubts = (self.doubts.get(run, "") for run in self.in_force)
        if doubt := " ".join(dict.fromkeys(filter(None, doubts))):
            return WindowState(DOUBT, doubt)
        if self.committed and due and self.committed > due:
            return WindowState(
                LATE,
                f"its last record was committed at {self.committed:%Y-%m-%dT%H:%M:%SZ}, and due "
                f"at {due:%Y-%m-%dT%H:%M:%SZ}",
            )
        return WindowState(SHIPPED, self.accepted)


def _covers(stretches: Iterable[Stretch], window: Window) -> bool:
    """Return True if the stretches, one of them or several together, hold all of ``window``."""
    reached = window.start
    for start, end in sorted(stretches):
        if start <= reached:
            reached = max(reached, end)
    return reached >= window.end


def _within(note: Uncovered, stretch: Stretch) -> bool:
    at = tick_window(note.window)
    return stretch[0] <= at.start and at.end <= stretch[1]


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
