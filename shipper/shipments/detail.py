"""Data of one window for the page: each cluster's state, the runs over it, and of one run what
its report says."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

from shipper.errors import ShipperError
from shipper.report.results import RunReport
from shipper.report.run_view import run_view
from shipper.report.window_state import STATES, THERE, WAITING
from shipper.shipments.grid import Due, state_now
from shipper.shipments.index import UNDER_WAY, Index, Known
from shipper.shipments.live import live
from shipper.shipments.unreported import Scheduler, StartedRun, state_of, without_report
from shipper.shipments.view import duration, words, worst
from shipper.whole_files import file_system
from shipper.windows.window import Window

_MOST_BYTES = 32 * 2**20
"""Size limit of a report that is read for a request."""


def detail(
    index: Index,
    known: Known,
    window: Window,
    now: int,
    run_id: str | None = None,
    scheduler: Scheduler | None = None,
) -> dict[str, Any]:
    """Return the window. ``run_id``: which run's report; by default that of the last one.
    ``scheduler``: who knows of runs that left no report."""
    start, end = int(window.start.timestamp()), int(window.end.timestamp())
    runs = _runs(index, known, start, end)
    looked_at = (
        run_id
        if any(run["run_id"] == run_id for run in runs)
        else (runs[0]["run_id"] if runs else None)
    )
    report, problem = _report(known, window, looked_at) if looked_at else (None, None)
    started = scheduler.unsuccessful([known], (start, end), tasks=True) if scheduler else ()
    unreported = without_report(
        index, [known], [run for run in started if run.window == (start, end)]
    )
    clusters = _clusters(index, known, start, end, now, unreported[-1] if unreported else None)
    begun = {one["run_id"]: one["began"] for one in clusters if one["began"]}
    return {
        "known": known,
        "start": start,
        "end": end,
        "window": str(window),
        "now": now,
        "clusters": clusters,
        "unreported": unreported[::-1],
        "begun": [live(known, window, run, began) for run, began in begun.items()],
        "runs": runs,
        "run": looked_at,
        "asked": run_id or "",
        "report": report and run_view(report),
        "problem": problem,
        "accepted": [
            said
            for (said,) in index.db.execute(
                "SELECT json_extract(body, '$.accepted') FROM records WHERE key = ? AND "
                "step = 'accepted' AND start <= ? AND \"end\" >= ?",
                (known.key, start, end),
            )
        ],
    }


def judged(found: dict[str, Any]) -> dict[str, Any]:
    """Return the worst state of the clusters, and a line about it. A report is of one run: it
    speaks for the window if the state is that run's."""
    state, report = worst(one["state"] for one in found["clusters"]), found["report"]
    of = [one for one in found["clusters"] if one["state"] == state]
    if report and found["asked"]:
        return {"state": None, "says": report.headline, "of_run": True}
    if report and any(one["run_id"] == found["run"] and not one["by"] for one in of):
        return {"state": state, "says": report.headline, "of_run": True}
    says = words(state, found["end"], found["known"].settle, found["now"])
    if state != WAITING and any(one["by"] for one in of):
        says += " by a run over another window"
    elif state != WAITING and len(found["clusters"]) > len(of):
        says += f" on {', '.join(one['cluster'] for one in of)}"
    return {"state": state, "says": says[0].upper() + says[1:], "of_run": False}


def delay(clusters: list[dict[str, Any]]) -> str:
    """Return how long after the window's end it was there, or was tried last."""
    ran = [one for one in clusters if one["lag"] is not None]
    if not ran or any(one["began"] for one in clusters):
        return ""
    there = len(ran) == len(clusters) and all(one["state"] in THERE for one in ran)
    longest = duration(max(one["lag"] for one in ran))
    return f"{'Delivered' if there else 'Last tried'} {longest} after the window ended."


def _clusters(
    index: Index, known: Known, start: int, end: int, now: int, unreported: StartedRun | None
) -> list[dict[str, Any]]:
    """Return each cluster's state, the run that decided it, and whether that was a run over another
    window."""
    cells, found = index.cells_of(known, (start, end)), []
    for cluster in known.clusters:
        state, run_id, ended, began = None, None, None, None
        if cluster in cells:
            code, ended, run_id, complete = cells[cluster]
            state = STATES[state_now(known, (start, end, code, ended, complete), now)]
            if code in UNDER_WAY:
                began, ended = ended, None
        if unreported:
            state = state_of(index, known, unreported, now, cluster) or state
        first = known.first_on(cluster)
        if state is None and first is not None and first <= start and end <= now:
            state = Due(known, cluster, now).state(start, end)
        found.append(
            {
                "cluster": cluster,
                "state": state,
                "run_id": run_id or None,
                "began": began,
                "lag": None if ended is None else max(0, ended - end),
                "by": run_id and _elsewhere(index, known.key, run_id, start, end),
            }
        )
    return found


def _elsewhere(index: Index, key: str, run_id: str, start: int, end: int) -> dict[str, int] | None:
    """Return the window of the run, if it is another: a later run that looked back, or one over a
    longer window."""
    windows = index.db.execute(
        'SELECT DISTINCT start, "end" FROM records WHERE key = ? AND run_id = ?', (key, run_id)
    ).fetchall()
    if not windows or (start, end) in windows:
        return None
    return {"start": windows[0][0], "end": windows[0][1]}


def _runs(index: Index, known: Known, start: int, end: int) -> list[dict[str, Any]]:
    """Return the runs that have ended, newest first, each with its clusters."""
    rows = index.db.execute(
        "SELECT run_id, cluster, ended, json_extract(body, '$.ended') FROM records WHERE key = ? "
        "AND start = ? AND \"end\" = ? AND step = 'report' ORDER BY ended DESC, run_id DESC, "
        "cluster",
        (known.key, start, end),
    )
    found: dict[str, dict[str, Any]] = {}
    for run_id, cluster, ended, text in rows:
        of = {"files": 0, "bytes": 0, "records": 0, "there": 0, "cause": "", **json.loads(text)}
        run = found.setdefault(
            run_id,
            {
                "run_id": run_id,
                "began": int(dt.datetime.fromisoformat(of["began"]).timestamp()),
                "ended": ended,
                "files": of["files"],
                "bytes": of["bytes"],
                "clusters": [],
            },
        )
        if ended == run["ended"]:  # not of an earlier attempt
            of = {name: of[name] for name in ("state", "records", "there", "cause")}
            run["clusters"] += [
                {"cluster": each, **of} for each in ([cluster] if cluster else known.clusters)
            ]
    return list(found.values())


def _report(known: Known, window: Window, run_id: str) -> tuple[RunReport | None, str | None]:
    """Return the report, or why it cannot be shown."""
    try:
        folder = known.folder(window, run_id)
        fs, path = file_system(folder.path("report.json"))
        if fs.size(path) > _MOST_BYTES:
            return None, "The report is too large to be shown here. Its own page has it."
        found = folder.find("report", RunReport)
    except FileNotFoundError:
        found = None
    except (OSError, ValueError, ShipperError) as error:
        return None, f"The run's report cannot be read: {error}"
    return (
        found,
        None
        if found
        else "The run's report is no longer in runs_uri. This is what the index holds.",
    )
