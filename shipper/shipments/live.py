"""Runs that are not over: which steps they have behind them, and how far their ships have come.
From the files in their folders."""

from __future__ import annotations

from typing import Any

import fsspec

from shipper.errors import ShipperError
from shipper.report.progress import ShipProgress, progress_of
from shipper.report.run_folder import RunFolder
from shipper.shipments.index import Known
from shipper.windows.window import Window

_MOST_RUNS = 5
"""Runs of one window, at once, at most."""


def live(known: Known, window: Window, begun: list[tuple[str, int]]) -> list[dict[str, Any]]:
    """Return the window's runs under way. ``begun``: id and beginning of the window's runs that
    have left no report, the latest last. The latest comes first. A folder that cannot be read
    has no figures: the page shows them when it can."""
    return [
        {
            "run_id": run_id,
            "at": at,
            **_figures(RunFolder(known.runs_uri, known.key, window.start, window.end, run_id)),
        }
        for run_id, at in reversed(begun[-_MOST_RUNS:])
    ]


def _figures(folder: RunFolder) -> dict[str, Any]:
    try:
        fs, path = fsspec.core.url_to_fs(folder.uri)
        names = {str(name).rsplit("/", 1)[-1] for name in fs.ls(path, detail=False)}
        ships = [
            found
            for name in sorted(names)
            if name.startswith("progress.") and name.endswith(".json")
            if (found := progress_of(folder, name.removeprefix("progress.").removesuffix(".json")))
        ]
    except (OSError, ValueError, ImportError, ShipperError):
        return {"done": [], "ships": []}
    done = sorted(
        name.removesuffix(".json")
        for name in names
        if name.endswith(".json") and not name.startswith("progress.")
    )
    return {"done": done, "ships": [_of(ship) for ship in ships]}


def _of(ship: ShipProgress) -> dict[str, Any]:
    return {
        "cluster": ship.cluster,
        "at": int(ship.at.timestamp()),
        "seconds": round((ship.at - ship.began).total_seconds()),
        "records": ship.records,
        "bytes": ship.bytes,
        "records_per_second": round(ship.records_per_second),
        "done": ship.splits_done,
        "splits": ship.splits,
        "seconds_left": None if ship.seconds_left is None else round(ship.seconds_left),
        "parked": list(ship.parked),
    }
