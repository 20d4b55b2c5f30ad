"""Data of one window for the page: each cluster's state, the runs over it, and of one run what
its report says."""

from __future__ import annotations

from typing import Any

import fsspec

from shipper.errors import ShipperError
from shipper.report.account import accounts
from shipper.report.results import RunReport
from shipper.report.run_folder import RunFolder
from shipper.report.standing import MISSING, STATES, THERE, WAITING
from shipper.report.verdict import verdict
from shipper.shipments.grid import Due, running_state
from shipper.shipments.index import Index, Known
from shipper.shipments.live import live
from shipper.shipments.unreported import Scheduler, StartedRun, state_of, without_report
from shipper.shipments.view import duration, words, worst
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
    runs = _runs(index, known.pipeline, start, end)
    looked_at = (
        run_id
        if any(run["run_id"] == run_id for run in runs)
        else (runs[0]["run_id"] if runs else None)
    )
    report, problem = _report(known, window, looked_at) if looked_at else (None, None)
    started = scheduler.unsuccessful([known], (start, end), tasks=True) if scheduler else ()
    unreported = without_report(index, [run for run in started if run.window == (start, end)])
    return {
        "known": known,
        "start": start,
        "end": end,
        "window": str(window),
        "now": now,
        "clusters": _clusters(
            index, known, start, end, now, unreported[-1] if unreported else None
        ),
        "unreported": unreported[::-1],
        "begun": live(known, window, index.begun_over(known.pipeline, start, end)),
        "runs": runs,
        "run": looked_at,
        "asked": run_id or "",
        "report": report and _of_report(report),
        "problem": problem,
    }


def judged(found: dict[str, Any]) -> dict[str, Any]:
    """Return the worst state of the clusters, and a line about it. A report is of one run: it
    speaks for the window if the state is that run's."""
    state, report = worst(one["state"] for one in found["clusters"]), found["report"]
    of = [one for one in found["clusters"] if one["state"] == state]
    if report and found["asked"]:
        return {"state": None, "says": report["verdict"].headline, "of_run": True}
    if report and any(one["run_id"] == found["run"] and not one["by"] for one in of):
        return {"state": state, "says": report["verdict"].headline, "of_run": True}
    says = words(state, found["end"], found["known"].settle, found["now"])
    if state != WAITING and any(one["by"] for one in of):
        says += " by a run over another window"
    elif state != WAITING and len(found["clusters"]) > len(of):
        says += f" on {', '.join(one['cluster'] for one in of)}"
    return {"state": state, "says": says[0].upper() + says[1:], "of_run": False}


def delay(clusters: list[dict[str, Any]]) -> str:
    """Return how long after the window's end it was there, or was tried last."""
    ran = [one for one in clusters if one["lag"] is not None]
    if not ran:
        return ""
    there = len(ran) == len(clusters) and all(one["state"] in THERE for one in ran)
    longest = duration(max(one["lag"] for one in ran))
    return f"{'Delivered' if there else 'Last tried'} {longest} after the window ended."


def _clusters(
    index: Index, known: Known, start: int, end: int, now: int, unreported: StartedRun | None
) -> list[dict[str, Any]]:
    """Return each cluster's state, the run that decided it, and whether that was a run over another
    window."""
    cells = {
        cluster: (state, run_id, ended)
        for cluster in known.clusters
        for state, run_id, ended in index.db.execute(
            "SELECT state, run_id, ended FROM cells WHERE cluster = ? AND pipeline = ? AND start "
            '= ? AND "end" = ?',
            (cluster, known.pipeline, start, end),
        )
    }
    running, found = index.running(known.pipeline, start, end), []
    for cluster in known.clusters:
        state_now = None
        if cluster in running:
            state_now = running_state(running[cluster], now)
        if unreported:
            state_now = state_of(index, unreported, cluster) or state_now
        if cluster in cells:
            state, run_id, ended = cells[cluster]
            by = _elsewhere(index, known.pipeline, run_id, start, end)
            found.append(
                {
                    "cluster": cluster,
                    "state": state_now or STATES[state],
                    "run_id": run_id,
                    "lag": max(0, ended - end),
                    "by": by,
                }
            )
            continue
        first = index.beginnings(cluster).get(known.pipeline)
        if (
            state_now is None
            and known.schedule
            and first is not None
            and first <= start
            and end <= now
            and not known.retired
        ):
            state_now = (
                MISSING
                if cells
                else Due(known.schedule, known.settle, first, now).state(start, end)
            )
        found.append(
            {"cluster": cluster, "state": state_now, "run_id": None, "lag": None, "by": None}
        )
    return found


def _elsewhere(
    index: Index, pipeline: str, run_id: str, start: int, end: int
) -> dict[str, int] | None:
    """Return the window of the run, if it is another: a later run that looked back, or one over a
    longer window."""
    windows = index.db.execute(
        'SELECT start, "end" FROM runs WHERE pipeline = ? AND run_id = ?', (pipeline, run_id)
    ).fetchall()
    if not windows or (start, end) in windows:
        return None
    return {"start": windows[0][0], "end": windows[0][1]}


def _runs(index: Index, pipeline: str, start: int, end: int) -> list[dict[str, Any]]:
    """Return the runs, newest first, each with its clusters."""
    rows = index.db.execute(
        "SELECT run_id, cluster, state, began, ended, files, bytes, records, there, cause FROM "
        "runs "
        'WHERE pipeline = ? AND start = ? AND "end" = ? ORDER BY ended DESC, run_id DESC, cluster',
        (pipeline, start, end),
    )
    found: dict[str, dict[str, Any]] = {}
    for run_id, cluster, state, began, ended, files, size, records, there, cause in rows:
        run = found.setdefault(
            run_id,
            {
                "run_id": run_id,
                "began": began,
                "ended": ended,
                "files": files,
                "bytes": size,
                "clusters": [],
            },
        )
        run["clusters"].append(
            {
                "cluster": cluster,
                "state": STATES[state],
                "records": records,
                "there": there,
                "cause": cause,
            }
        )
    return list(found.values())


def _report(known: Known, window: Window, run_id: str) -> tuple[RunReport | None, str | None]:
    """Return the report, or why it cannot be shown."""
    try:
        folder = RunFolder(known.runs_uri, known.key, window.start, window.end, run_id)
        fs, path = fsspec.core.url_to_fs(folder.path("report.json"))
        if fs.size(path) > _MOST_BYTES:
            return None, "The report is too large to be shown here. Its own page has it."
        found = folder.find("report", RunReport)
    except FileNotFoundError:
        found = None
    except (OSError, ValueError, ImportError, ShipperError) as error:
        return None, f"The run's report cannot be read: {error}"
    return (
        found,
        None
        if found
        else "The run's report is no longer in runs_uri. This is what the index holds.",
    )


def _of_report(report: RunReport) -> dict[str, Any]:
    """Return what the panel shows of it. The report's own page has gates and files, too."""
    notes = [f"{ship.cluster}: {note}" for ship in report.ships for note in ship.notes]
    return {"verdict": verdict(report), "clusters": accounts(report), "notes": notes}
