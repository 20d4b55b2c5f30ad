"""Data of the page's grid: for each pipeline its windows in a stretch of time, each with its state.

A grid of 500 pipelines and 30 days of hours has 360,000 cells. So windows that follow each other,
are as long, and have the same state go together, as one *segment*: ``[start, seconds of each, how
many, state]``.

Three states come from the clock. A window of the schedule that has ended, and that no run has left
a word of, is ``waiting`` until its deadline (`schedule.deliver_within`; without it, until its files
have settled and as long again as the window is), and ``missing`` after it; a run that is under way
then is ``overdue``. Before the first window that the schedule had, nothing is due, and the grid is
empty there: never scheduled.

One answer has a bound on its cost. Where a stretch holds more, the answer has the newest windows,
those that begin at ``start`` or later.
"""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from shipper.config.schedule import Schedule
from shipper.report.incomplete import stands_still
from shipper.report.window_state import (
    MISSING,
    STATES,
    TROUBLE,
    WAITING,
    state_at,
    state_under_way,
)
from shipper.shipments.index import (
    ALL,
    CODES,
    GOOD,
    UNDER_WAY,
    Index,
    Known,
    Span,
    spans_of,
    window_of,
)
from shipper.shipments.unreported import Scheduler, state_of, without_report
from shipper.windows.ticks import Ticks
from shipper.windows.window import Window

Cell = tuple[int, int, int]
"""Begin and end in seconds since the epoch, and the state's place in STATES."""
Segment = list[int]
DAY = 86_400
LONGEST_SECONDS = 400 * DAY
MOST_OF_AN_ANSWER = 600_000
"""Windows, where one whose place in the schedule has to be found counts as :data:`_FINDING`: about
a second and a half."""
_FINDING = 30


def grid(
    index: Index,
    shown: Sequence[Known],
    between: Span,
    now: int,
    *,
    cluster: str = ALL,
    scheduler: Scheduler | None = None,
) -> dict[str, Any]:
    """Return the windows of the pipelines ``shown`` that touch the stretch, or the newest of them.
    ``scheduler``: who knows of runs that left no report."""
    running: dict[str, dict[Span, int]] = {}
    by_name = {one.pipeline: one for one in shown}
    started = scheduler.unsuccessful(shown, between) if scheduler else ()
    for run in without_report(index, shown, started):
        if state := state_of(index, by_name[run.pipeline], run, now, cluster):
            running.setdefault(run.pipeline, {})[run.window] = CODES[state]
    start, end = between
    begin, days = start, (end - start) // DAY
    while days > 1 and _cost(index, shown, (begin, end), now, cluster) > MOST_OF_AN_ANSWER:
        days //= 2
        begin = end - days * DAY
    rows = [
        _row(index, one, (begin, end), now, cluster, running.get(one.pipeline, {})) for one in shown
    ]
    return {"start": begin, "end": end, "asked": start, "rows": rows}


def shortest(index: Index, shown: Collection[Known], cluster: str) -> int:
    """Return the seconds of the shortest windows of these pipelines: those of their schedules, and
    the newest of pipelines without one."""
    found = []
    for one in shown:
        if one.schedule:
            found.append(DAY // Ticks(one.schedule).most_a_day)
        elif latest := _latest(index, one.key, cluster):
            found.append(latest[1] - latest[0])
    return min(found, default=3600)


def _cost(index: Index, shown: Collection[Known], between: Span, now: int, cluster: str) -> int:
    """Return the largest possible number of windows."""
    windows, to_find = 0, dict[tuple[str, str], int]()
    for one in shown:
        (cells,) = index.db.execute(
            "SELECT count(*) FROM cells WHERE cluster = ? AND key = ? AND start >= ? AND start < ?",
            (cluster, one.key, *between),
        ).fetchone()
        due = 0
        if one.schedule and (first := one.first_on(cluster)) is not None:
            seconds = min(between[1], now) - max(between[0], first)
            due = max(0, Ticks(one.schedule).most_a_day * seconds // DAY - cells)
            schedule = one.schedule.cron, one.schedule.timezone
            to_find[schedule] = max(to_find.get(schedule, 0), due)
        windows += cells + due
    return windows + _FINDING * sum(to_find.values())


def _row(
    index: Index,
    known: Known,
    between: Span,
    now: int,
    cluster: str,
    running: dict[Span, int],
) -> dict[str, Any]:
    due = Due(known, cluster, now) if known.first_on(cluster) is not None else None
    rows = _cells(index, known, cluster, between, now)
    if running:
        rows = _with_running(rows, running, between)
    segments, counts = _segments(rows, between, due, now)
    newest = _newest(index, known.key, cluster)
    return {
        "known": known,
        "stands_still": bool(due) and not running and _stands_still(known, rows, now),
        "newest": newest and newest[0],
        "lag": newest and max(0, newest[1] - newest[0]),
        "counts": {STATES[state]: count for state, count in enumerate(counts) if count},
        "segments": segments,
        "latest": None if segments else _latest(index, known.key, cluster),
    }


def _stands_still(known: Known, cells: list[Cell], now: int) -> bool:
    def has_run(window: Window) -> bool:
        start, end = window.start.timestamp(), window.end.timestamp()
        return any(begin <= start and end <= over for begin, over, _ in cells)

    return known.schedule is not None and stands_still(
        known.schedule,
        known.settle,
        known.last_run,
        has_run,
        dt.datetime.fromtimestamp(now, dt.UTC),
    )


def _cells(index: Index, known: Known, cluster: str, between: Span, now: int) -> list[Cell]:
    start, end = between
    where = "FROM cells WHERE cluster = ? AND key = ? AND"
    what = 'start, "end", state, ended, complete'
    before = index.db.execute(
        f"SELECT {what} {where} start < ? ORDER BY start DESC LIMIT 1",
        (cluster, known.key, start),
    ).fetchone()
    rows = index.db.execute(
        f'SELECT {what} {where} start >= ? AND start < ? ORDER BY start, "end"',
        (cluster, known.key, start, end),
    ).fetchall()
    if before and before[1] > start:
        rows.insert(0, before)
    return [(row[0], row[1], state_now(known, row, now)) for row in rows]


def state_now(known: Known, cell: Sequence[int], now: int) -> int:
    """Return the state of a cell: begin, end, state, when its run began, complete."""
    start, end, state, began, complete = cell
    if state not in (*UNDER_WAY, CODES[MISSING]):
        return state
    due, at = known.due(window_of((start, end))), _at(now)
    if state == CODES[MISSING]:
        return CODES[WAITING] if due is not None and at < due else state
    late = due is not None and at >= due and not complete
    return CODES[state_under_way(_at(began), at, late=late, trouble=state == CODES[TROUBLE])]


def _at(seconds: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(seconds, dt.UTC)


def _segments(
    cells: list[Cell], between: Span, due: Due | None, now: int
) -> tuple[list[Segment], list[int]]:
    """Return segments, and the number of cells of each state. Where windows overlap, the page
    paints a shorter one above. This loop takes most of a request's time."""
    found: list[Segment] = []
    counts = [0] * len(STATES)
    covered, begin, step, many, was = between[0], 0, 0, 0, -1
    behind = -1
    for start, end, state in cells:
        if start == behind and state == was and end - start == step:
            many += 1
        else:
            if many:
                found.append([begin, step, many, was])
                counts[was] += many
            if start > covered and due:
                _add(found, counts, due.between(covered, start, start))
            begin, step, many, was = start, end - start, 1, state
        behind = end
        if end > covered:
            covered = end
    if many:
        found.append([begin, step, many, was])
        counts[was] += many
    if due:
        _add(found, counts, due.between(covered, between[1], now))
    return found, counts


def _add(found: list[Segment], counts: list[int], cells: Iterator[Cell]) -> None:
    for start, end, state in cells:
        last = found[-1] if found else None
        if (
            last
            and last[3] == state
            and last[1] == end - start
            and last[0] + last[1] * last[2] == start
        ):
            last[2] += 1
        else:
            found.append([start, end - start, 1, state])
        counts[state] += 1


def _with_running(cells: list[Cell], running: dict[Span, int], between: Span) -> list[Cell]:
    there = {(start, end): state for start, end, state in cells} | {
        span: state
        for span, state in running.items()
        if span[0] < between[1] and span[1] > between[0]
    }
    return sorted((*span, state) for span, state in there.items())


def _latest(index: Index, key: str, cluster: str) -> Cell | None:
    """Return the latest window, whatever became of it."""
    found: Cell | None = index.db.execute(
        'SELECT start, "end", state FROM cells WHERE cluster = ? AND key = ? ORDER BY start '
        "DESC LIMIT 1",
        (cluster, key),
    ).fetchone()
    return found


def _newest(index: Index, key: str, cluster: str) -> Span | None:
    """End of the latest window on the cluster, and when it was there."""
    states = ", ".join(map(str, GOOD))
    found: Span | None = index.db.execute(
        'SELECT "end", ended FROM cells WHERE cluster = ? AND key = ? AND state IN '
        f"({states}) ORDER BY start DESC LIMIT 1",
        (cluster, key),
    ).fetchone()
    return found


class Due:
    """The windows of a pipeline's schedule of which no run has left a word."""

    def __init__(self, known: Known, cluster: str, now: int) -> None:
        self._known, self._first, self._now = known, known.first_on(cluster) or 0, now

    def between(self, start: int, end: int, until: int) -> Iterator[Cell]:
        """Yield the windows that begin in [``start``, ``end``) and had ended by ``until``."""
        start, end = max(start, self._first), min(end, self._now)
        for day in range(start // DAY, end // DAY + 1) if start < end else ():
            for begin, over in _ticks(self._known.cron or "", self._known.timezone, day):
                if start <= begin < end and over <= min(until, self._now):
                    yield begin, over, CODES[self.state(begin, over)]

    def state(self, start: int, end: int) -> str:
        due = self._known.due(window_of((start, end)))
        return state_at(None, due, _at(self._now)) or ""


@functools.lru_cache(maxsize=50_000)
def _ticks(cron: str, timezone: str, day: int) -> tuple[Span, ...]:
    """Return the windows of a schedule that begin in a day of UTC. To find one tick takes 50 µs,
    and many pipelines have the same schedule."""
    ticks = Ticks(Schedule.model_construct(cron=cron, timezone=timezone))
    found = spans_of(ticks, day * DAY, (day + 1) * DAY)
    return tuple(span for span in found if span[0] >= day * DAY)
