"""View of the Shipments page that an address asks for, and the words and pictures that it is drawn
with. Pure."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import groupby
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from markupsafe import Markup, escape

from shipper.config.units import number, plural
from shipper.report.window_state import (
    BLOCKED,
    DOUBT,
    FAILED,
    LATE,
    MISSING,
    OVERDUE,
    SHIPPED,
    SHIPPING,
    STATES,
    TROUBLE,
    WAITING,
)
from shipper.shipments.grid import DAY, LONGEST_SECONDS, Cell, Segment
from shipper.terminal import visible

HOUR = 3600
_CODE = re.compile(r"\[SHIP-\d+\]")
ORDERS = {
    "bad": "worst first",
    "name": "name",
    "old": "oldest data first",
    "lag": "longest lag first",
}
RANGES = {
    "50w": "last 50 windows",
    "1h": "1 hour",
    "6h": "6 hours",
    "24h": "24 hours",
    "3d": "3 days",
    "7d": "7 days",
    "30d": "30 days",
    "90d": "90 days",
}
NEVER = "never scheduled"


class Look(NamedTuple):
    """Appearance of a state; its colour is in page.css. States differ by height, too."""

    words: str
    mark: str
    tall: int


LOOKS: Mapping[str, Look] = {
    FAILED: Look("failed", "✗", 18),
    BLOCKED: Look("blocked by gate", "–", 16),
    MISSING: Look("missing", "?", 14),
    OVERDUE: Look("overdue", "»", 13),
    TROUBLE: Look("in trouble", "↻", 12),
    DOUBT: Look("needs a look", "!", 12),
    LATE: Look("shipped late", "+", 10),
    SHIPPING: Look("shipping now", "›", 7),
    WAITING: Look("waiting", "…", 4),
    SHIPPED: Look("shipped", "✓", 7),
}
ATTENTION = (FAILED, BLOCKED, MISSING, OVERDUE, TROUBLE, DOUBT, LATE)
_PANEL = {"window": "", "run": "", "on": "", "list": ""}


@dataclass(frozen=True)
class View:
    """All that an address says. What it does not say is as usual."""

    q: str = ""
    """Part of a pipeline's name or owner."""
    pipeline: str = ""
    """The one pipeline that is shown, with its replays."""
    show: str = ""
    """State: pipelines that have a window in it."""
    cluster: str = ""
    sort: str = "bad"
    range: str = "7d"
    start: int = 0
    """Begin in seconds, of a stretch that was zoomed into."""
    end: int = 0
    """End in seconds; 0: now."""
    window: str = ""
    """PIPELINE START/END of the window that is open."""
    run: str = ""
    """Run whose report the open window shows."""
    on: str = ""
    """Cluster that is open."""
    list: str = ""
    """Pipeline whose windows are listed."""

    @classmethod
    def of(cls, query: Mapping[str, str]) -> View:
        """Read an address. A word that makes no sense counts as not said. ``dag_id`` is Airflow's
        name of the pipeline."""
        said = {"pipeline": query.get("dag_id", ""), **query}
        given = {name: said[name] for name in _TEXTS if said.get(name)}
        found = cls(**given, start=_whole(said.get("start")), end=_whole(said.get("end")))
        if found.start >= found.end or found.end - found.start > LONGEST_SECONDS:
            found = replace(found, start=0)
        return replace(
            found,
            show=found.show if found.show in LOOKS else "",
            sort=found.sort if found.sort in ORDERS else cls.sort,
            range=found.range if found.range in RANGES else cls.range,
        )

    def to(self, path: str = "shipments", **changes: Any) -> str:
        """Return the address of this view with the changes; nothing is open there unless they say
        so."""
        return address(path, {**vars(self), **_PANEL, **changes})

    def stretch(self, now: int, shortest: int) -> tuple[int, int]:
        """Return begin and end of what is shown. ``shortest``: seconds of the shortest windows."""
        if self.start:
            return self.start, self.end
        unit = {"h": HOUR, "d": DAY, "w": shortest}[self.range[-1]]
        seconds = min(int(self.range[:-1]) * unit, LONGEST_SECONDS)
        grain = 60 if seconds < DAY else HOUR
        end = self.end or math.ceil(now / grain) * grain
        return end - seconds, end

    def turned(self, between: tuple[int, int], pages: int, now: int) -> str:
        """Return the address of the stretch so many pages later."""
        start, end = between
        first, last = start + pages * (end - start), end + pages * (end - start)
        if self.start:
            return self.to(start=first, end=last)
        return self.to(end=0 if last >= now else last)


_TEXTS = tuple(one.name for one in fields(View) if one.name not in ("start", "end"))
_USUAL = vars(View())


def _whole(text: str | None) -> int:
    """Return seconds within the years that dates have; 0 for what is no such number."""
    return int(text) if text and text.isdecimal() and len(text) < 12 else 0


def address(path: str, said: Mapping[str, Any]) -> str:
    """Return the address; what is as usual is left out of it."""
    query = {key: value for key, value in said.items() if value != _USUAL.get(key, "")}
    return f"{path}?{urlencode(query, quote_via=quote, safe='/:')}" if query else path


def moment(at: int) -> str:
    """Return ``"2026-11-01 10:00"``, with seconds if they are not zero."""
    found = dt.datetime.fromtimestamp(at, dt.UTC)
    return f"{found:%Y-%m-%d %H:%M:%S}" if found.second else f"{found:%Y-%m-%d %H:%M}"


def iso(at: int) -> str:
    return f"{dt.datetime.fromtimestamp(at, dt.UTC):%Y-%m-%dT%H:%M:%SZ}"


def span(start: int, end: int) -> str:
    """Return ``"2026-11-01 10:00 – 11:00 UTC"``; with both dates if they differ."""
    first, last = moment(start), moment(end)
    return f"{first} – {last[11:] if first[:10] == last[:10] else last} UTC"


def duration(seconds: float | None) -> str:
    """Return ``"1h 5m"``: the two largest units. ``"–"`` for None."""
    if seconds is None:
        return "–"
    units = [(DAY, "d"), (HOUR, "h"), (60, "m"), (1, "s")]
    for (size, unit), smaller in zip(units, [*units[1:], None], strict=True):
        if seconds >= size:
            rest = int(seconds % size // smaller[0]) if smaller else 0
            return f"{int(seconds // size)}{unit}" + (
                f" {rest}{smaller[1]}" if smaller and rest else ""
            )
    return "0s"


def figure(count: int | None) -> str:
    return "–" if count is None else number(count)


def compact(count: int) -> str:
    """Return ``1234`` as ``"1.2K"``: a count for which there is little room."""
    return str(count) if count < 1000 else f"{count / 1000:.1f}K".replace(".0K", "K")


def waits(end: int, settle: float, now: int) -> str:
    """Return until when a window waits. ``settle``: seconds from its end until its run is due."""
    due = int(end + settle)
    if due <= now:
        return "for its run"
    said = moment(due)
    return f"until {said[11:] if said[:10] == moment(now)[:10] else said} UTC"


def words(state: str | None, end: int, settle: float, now: int) -> str:
    """Return the state of a window in words."""
    said = LOOKS[state].words if state else NEVER
    return f"{said} {waits(end, settle, now)}" if state == WAITING else said


def worst(states: Iterable[str | None]) -> str | None:
    """Return the worst of the states; None if there is none."""
    return max(filter(None, states), key=STATES.index, default=None)


def coded(text: str) -> Markup:
    """Return the text, in which no code such as [SHIP-303] is broken by the end of a line."""
    legible = str(escape(visible(text, keep="\n")))
    return Markup(_CODE.sub(r'<span class="code">\g<0></span>', legible))


def pace(per_second: float) -> str:
    """Return a rate of records by the unit in which it is at least one."""
    for seconds, unit in ((1, "s"), (60, "min"), (HOUR, "h")):
        if per_second * seconds >= 1:
            return f"{number(per_second * seconds)} records/{unit}"
    return f"{number(per_second * DAY)} records/day"


# ---- the picture of a row

WIDTH = 720
"""Units of a picture, whatever its width on the screen."""
_TALL = 20
_WITH_A_GAP = 6
"""Units of a cell from which on it stands apart from the next."""
_WITH_A_MARK = 12
_WITH_A_MARK_ON_A_PHONE = 24
_NARROWEST = 2


class Mark(NamedTuple):
    """Sign on a cell that is wide enough for it."""

    at: str
    """Middle, in percent."""
    y: float
    sign: str
    wide: bool
    """True if there is room for it on a phone, too."""


def picture(
    segments: Sequence[Segment], start: int, end: int
) -> tuple[list[tuple[str, str]], list[Mark]]:
    """Return a row's windows as (state, lines to draw), and the signs on them. Where one column of
    the picture has several windows, it shows the worst of them, so that no failure is too small to
    be seen; where windows overlap, a shorter one lies above."""
    ratio = WIDTH / (end - start)
    narrow = bool(segments) and min(one[1] for one in segments) * ratio < _NARROWEST
    each = _NARROWEST if narrow else 1
    columns = [-1] * (WIDTH // each)
    marks = []
    above = (lambda one: one[3]) if narrow else (lambda one: -one[1])
    for begin, step, many, state in sorted(segments, key=above):
        wide = step * ratio
        parts = (
            [(begin, step * many)] if narrow or wide < _WITH_A_GAP else cells_of(begin, step, many)
        )
        for at, seconds in parts:
            left, right = (at - start) * ratio / each, (at + seconds - start) * ratio / each
            first = max(0, math.floor(left) if narrow else round(left))
            last = min(len(columns), math.ceil(right) if narrow else round(right))
            if last <= 0 or first >= len(columns):
                continue
            gap = 1 if wide >= _WITH_A_GAP and last - first > 1 else 0
            last = max(first + 1, last)
            columns[first:last] = [state] * (last - first - gap) + [-1] * gap
            look = LOOKS[STATES[state]]
            if not narrow and wide >= _WITH_A_MARK and look.tall >= 10:
                middle = f"{100 * (first + last - gap) / 2 / WIDTH:.2f}%"
                marks.append(
                    Mark(middle, _TALL - look.tall / 2, look.mark, wide >= _WITH_A_MARK_ON_A_PHONE)
                )
    return _lines(columns, each), marks


def cells_of(begin: int, step: int, many: int) -> list[tuple[int, int]]:
    return [(begin + i * step, step) for i in range(many)]


def _lines(columns: Sequence[int], each: int) -> list[tuple[str, str]]:
    """Return for each state one path of horizontal lines, as thick as the state is tall."""
    found: dict[int, list[str]] = {}
    at = 0
    for state, run in groupby(columns):
        many = sum(1 for _ in run)
        if state >= 0:
            tall = LOOKS[STATES[state]].tall
            found.setdefault(state, []).append(f"M{at * each} {_TALL - tall / 2:g}h{many * each}")
        at += many
    return [(STATES[state], "".join(lines)) for state, lines in sorted(found.items())]


def cells(segments: Iterable[Segment]) -> list[Cell]:
    """Return the windows of a row by their begin, a longer one first."""
    found = [
        (at, at + step, state)
        for begin, step, many, state in segments
        for at, _ in cells_of(begin, step, many)
    ]
    return sorted(found, key=lambda cell: (cell[0], -cell[1]))


_STEPS = [60, 120, 300, 600, 900, 1800, 3600, 7200]
_STEPS += [3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 5 * DAY, 10 * DAY, 30 * DAY, 90 * DAY]
_LABEL = 84
"""Units that a label of the axis takes."""


def axis(start: int, end: int) -> list[tuple[str, str]]:
    """Return labels of the axis: (place in percent, words)."""
    room = _LABEL * (end - start) / WIDTH
    step = next((one for one in _STEPS if one >= room), _STEPS[-1])
    found, day = [], ""
    for at in range(math.ceil(start / step) * step, int(end - room) + 1, step):
        said = moment(at)
        today = said[5:10]
        label = said[11:16] if today == day else said[5:16] if step < DAY else today
        day = today if step < DAY else ""
        found.append((f"{100 * (at - start) / (end - start):.2f}%", label))
    return found


def chart(rates: Sequence[Sequence[int]], start: int, end: int, step: int) -> dict[str, Any]:
    """Return the bars of a cluster's records over time, and their sum in words; exact figures are
    in the tables."""
    busiest = max(rates, key=lambda one: one[1])
    most, first = max(1, busiest[1]), start // step
    width = 960 / max(1, math.ceil(end / step) - first)
    bars = []
    for at, records, _ in rates:
        tall = max(1.5 if records else 0, 118 * records / most)
        x = (at / step - first) * width + width * 0.08
        bars.append((f"{x:.2f}", f"{120 - tall:.2f}", f"{width * 0.84:.2f}", f"{tall:.2f}"))
    says = (
        f"Most at {moment(busiest[0])} UTC: {plural(busiest[1], 'record')} in {duration(step)}, "
        f"{pace(busiest[1] / step)}."
    )
    return {"bars": bars, "says": says}
