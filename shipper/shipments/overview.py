"""Rows of the page: which pipelines are shown, in what order, over what stretch of time."""

from __future__ import annotations

import functools
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from shipper.config.units import number, plural
from shipper.report.markup import words
from shipper.shipments.grid import grid, shortest
from shipper.shipments.index import Index, Known
from shipper.shipments.unreported import Scheduler
from shipper.shipments.view import ATTENTION, HOUR, LOOKS, View, axis, picture

Row = dict[str, Any]


def overview(
    index: Index,
    view: View,
    now: int,
    only: Collection[str] | None,
    scheduler: Scheduler | None,
) -> dict[str, Any]:
    """Return what the page shows. ``only``: DAGs that may be seen; None: all."""
    every = index.pipelines(only)
    known = [one for one in every if not view.cluster or view.cluster in one.clusters]
    wanted = [one for one in known if _matches(one, view)]
    start, end = stretch(index, view, wanted, now)
    paused = scheduler.paused() if scheduler else ()
    found = grid(index, wanted, (start, end), now, cluster=view.cluster, scheduler=scheduler)
    rows = [row for row in found["rows"] if row["segments"] or not row["known"].replay_of]
    shown = _ordered([row for row in rows if not view.show or view.show in row["counts"]], view)
    first, last = (start, end) if view.start else _fit(shown, found["start"], end, now)
    for row in shown:
        row["lines"], row["marks"] = picture(row["segments"], first, last)
        row["bad"] = [state for state in ATTENTION if state in row["counts"]]
        row["many"] = sum(row["counts"].values())
        row["note"] = _note(row, paused)
    many = {state: sum(row["counts"].get(state, 0) for row in rows) for state in LOOKS}
    return {
        "view": view,
        "now": now,
        "start": first,
        "end": last,
        "asked": (start, end),
        "cut": found["start"] if found["start"] > start else None,
        "clusters": sorted({name for one in every for name in one.clusters}),
        "rows": shown,
        "counts": {state: many[state] for state in LOOKS if many[state] or state == view.show},
        "sum": _sum(sum(not one.replay_of for one in known), shown),
        "axis": axis(first, last),
        "none": _none(view) if known else "No pipeline is known yet.",
        "any": bool(known),
    }


def stretch(index: Index, view: View, shown: Collection[Known], now: int) -> tuple[int, int]:
    """Return begin and end of the time that the view asks for."""
    counts_windows = view.range.endswith("w") and not view.start
    return view.stretch(now, shortest(index, shown, view.cluster) if counts_windows else HOUR)


def row_of(
    index: Index, known: Known, view: View, between: tuple[int, int], now: int, by: Scheduler | None
) -> Row:
    """Return one pipeline's windows in a stretch of time."""
    rows: list[Row] = grid(index, [known], between, now, cluster=view.cluster, scheduler=by)["rows"]
    return rows[0]


def _matches(known: Known, view: View) -> bool:
    if view.pipeline and view.pipeline not in (known.pipeline, known.replay_of, *known.formerly):
        return False
    return view.q.strip().lower() in f"{known.pipeline} {known.owner}".lower()


def _badness(row: Row) -> int:
    broken = int(bool(row["known"].fault))
    return functools.reduce(
        lambda so_far, state: so_far * 1000 + min(999, row["counts"].get(state, 0)),
        ATTENTION,
        broken,
    )


def _ordered(rows: Sequence[Row], view: View) -> list[Row]:
    """Sort the rows; each replay follows its pipeline, and a pipeline counts as bad as the worst of
    its replays."""
    names = {row["known"].pipeline for row in rows}
    groups: dict[str, list[Row]] = {}
    for row in rows:
        of = row["known"].replay_of
        groups.setdefault(of if of in names else row["known"].pipeline, []).append(row)

    def place(group: tuple[str, list[Row]]) -> tuple[float, str]:
        name, members = group
        head = min(members, key=lambda row: bool(row["known"].replay_of))
        lag = head["lag"] if head["known"].schedule and head["lag"] is not None else -1
        orders: Mapping[str, float] = {
            "bad": -max(map(_badness, members)),
            "name": 0,
            "old": head["newest"] or 0,
            "lag": -lag,
        }
        return orders[view.sort], name

    return [
        row
        for _, members in sorted(groups.items(), key=place)
        for row in sorted(
            members, key=lambda row: (bool(row["known"].replay_of), row["known"].pipeline)
        )
    ]


def _fit(rows: Sequence[Row], start: int, end: int, now: int) -> tuple[int, int]:
    """Return the stretch that is drawn: that of the windows, if they fill less than three quarters
    of what was asked for."""
    segments = [row["segments"] for row in rows if row["segments"]]
    if not segments:
        return start, end
    first = max(start, min(found[0][0] for found in segments))
    last = max(now, *(begin + step * many for *_, (begin, step, many, _) in segments))
    if end - first > 0.75 * (end - start):
        return start, end
    return first, max(first + 60, min(end, math.ceil(last / 60) * 60))


def _note(row: Row, paused: Collection[str]) -> str:
    """Return what is to be known of the pipeline besides its windows."""
    known: Known = row["known"]
    return " · ".join(
        filter(
            None,
            [
                known.owner,
                f"its file is broken: {known.fault}" if known.fault else "",
                "no longer in the configuration" if known.retired and not known.replay_of else "",
                "the DAG is paused" if known.pipeline in paused else "",
                "the schedule stands still: no run for more than two ticks"
                if row["stands_still"]
                else "",
                "" if known.schedule or known.replay_of or not known.clusters else "no schedule",
            ],
        )
    )


def _sum(every: int, shown: Sequence[Row]) -> str:
    own = sum(not row["known"].replay_of for row in shown)
    all_of_them = plural(every, "pipeline")
    return all_of_them if own == every else f"{number(own)} of {all_of_them}"


def _none(view: View) -> str:
    about = [
        f"is called “{view.pipeline}”" if view.pipeline else "",
        f"has “{view.q}” in its name or owner" if view.q else "",
        f"has windows {LOOKS[view.show].words} in this range" if view.show else "",
    ]
    return f"No pipeline {words([one for one in about if one])}."
