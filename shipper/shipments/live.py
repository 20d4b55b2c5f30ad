"""A run that is not over: its steps, and how far its ships have come. From the files in its
folder."""

from __future__ import annotations

import datetime as dt
from typing import Any

from shipper.report.progress import progress_of
from shipper.report.steps_now import steps_now
from shipper.shipments.index import Known
from shipper.windows.window import Window


def live(known: Known, window: Window, run_id: str, began: int) -> dict[str, Any]:
    """Return the run. ``began``: seconds since the epoch. A folder that cannot be read has no
    figures: the page shows them when it can."""
    folder = known.folder(window, run_id)
    since = dt.datetime.fromtimestamp(began, dt.UTC)
    return {
        "run_id": run_id,
        "at": began,
        "steps": steps_now(folder, known.clusters, since),
        "ships": list(filter(None, (progress_of(folder, name) for name in known.clusters))),
    }
