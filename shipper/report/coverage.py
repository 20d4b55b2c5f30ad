"""What of the schedule is complete on a cluster after a run. Pure."""

from __future__ import annotations

from shipper.report.results import Coverage, LeftFile, PlanResult, Uncovered
from shipper.windows.window import Window


def coverage(plan: PlanResult, cluster: str, *, when_empty_fails: bool) -> Coverage:
    """When all that the plan had for the cluster is there. A run that looked back covers the windows that it looked at as well: what was
    there is on the cluster, shipped by this run or before it."""
    own = str(Window(plan.window_start, plan.window_end))
    planned = next((found for found in plan.clusters if found.cluster == cluster), None)
    start = (planned and planned.looks_back_to) or plan.window_start
    by_window: dict[str, Uncovered] = {}
    for file in plan.left_out:
        if file.warns and (not file.clusters or cluster in file.clusters):
            window = file.window or own
            found = by_window.setdefault(window, Uncovered(window=window, why=file.reason))
            found.files.append(LeftFile(path=file.path, size_bytes=file.size_bytes, modified_ms=file.modified_ms))
    if plan.looked_back and when_empty_fails:
        for window in plan.looked_back.empty:
            by_window.setdefault(window, Uncovered(window=window, why="no file was there"))
    return Coverage(start=start, end=plan.window_end, uncovered=list(by_window.values()))
