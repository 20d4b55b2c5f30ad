"""Retention of run results: `keep` in config/shipper.yaml.

Older windows go at the end of a run of their pipeline, some hundred at a time. Before they go,
``{runs_uri}/{pipeline}/pruned.json`` says up to when all windows of the schedule were complete, and
which were not. What such an open window's gap rests on stays: the results of the runs over it, and
of those that looked back at it. So do the newest windows, whatever their age: history and freshness
are read from them.
"""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Collection

import fsspec
from pydantic import BaseModel

from shipper.asked import DRY_RUNS
from shipper.config.pipeline import Pipeline
from shipper.report.gaps import beginnings_of, find_gaps
from shipper.report.past_runs import run_ids, window_names, window_runs
from shipper.report.run_folder import RunFolder, find_kept, names_in
from shipper.whole_files import write_whole
from shipper.windows.schedule import Ticks
from shipper.windows.window import Window, parse_window

_NEWEST_KEPT = 200
_MOST_AT_ONCE = 500
"""Windows that one call lets go; more wait for the next."""
_DAY = dt.timedelta(days=1)
_RUN_STAMP = "%Y%m%dT%H%M%S"


class Pruned(BaseModel):
    """`{runs_uri}/{pipeline}/pruned.json`. If it is lost, `gaps` asks the ledger for the windows
    that it spoke of."""

    version: int = 1
    before: dt.datetime | None = None
    open: list[str] = []
    """Windows that end by `before` and were not complete."""

    def holds(self, window: Window) -> bool:
        """True if results, or a ledger, have to tell whether the window is complete."""
        return self.before is None or window.end > self.before or str(window) in self.open


def horizon(pipeline: Pipeline, keep_seconds: float, now: dt.datetime) -> dt.datetime:
    """Return before when results are too old. What a run looks back at never is."""
    return now - max(
        dt.timedelta(seconds=keep_seconds),
        dt.timedelta(seconds=pipeline.source.lookback_seconds) + 30 * _DAY,
    )


def read_pruned(runs_uri: str, pipeline: str) -> Pruned:
    """Read pruned.json. Raises StepResultError, OSError."""
    about = (
        f"This file says up to when the results of pipeline {pipeline} were removed. No data are "
        "at risk. Delete the file: then only the ledger knows those windows."
    )
    return find_kept(_uri(runs_uri, pipeline), Pruned, about) or Pruned()


def _uri(runs_uri: str, pipeline: str) -> str:
    return f"{runs_uri.rstrip('/')}/{pipeline}/pruned.json"


def prune(runs_uri: str, pipeline: Pipeline, keep_seconds: float, now: dt.datetime) -> int:
    """Remove old windows; return the number of removed windows. Asks no cluster. Raises
    StepResultError, OSError."""
    oldest = horizon(pipeline, keep_seconds, now)
    dry = f"{runs_uri.rstrip('/')}/{DRY_RUNS}"
    gone = _remove(dry, pipeline.key, _too_old(dry, pipeline.key, oldest)[:_MOST_AT_ONCE], oldest)
    too_old = _too_old(runs_uri, pipeline.key, oldest)
    if not too_old:
        return gone
    before = read_pruned(runs_uri, pipeline.key)
    if before.before and oldest - before.before < _DAY:
        return gone
    new = [window for window in too_old if before.before is None or window.end > before.before]
    end = oldest if len(new) <= _MOST_AT_ONCE else new[_MOST_AT_ONCE - 1].end
    open_ = _open(runs_uri, pipeline, before, end)
    write_whole(
        _uri(runs_uri, pipeline.key),
        Pruned(before=end, open=[str(window) for window in open_]).model_dump_json(indent=1),
    )
    seen_within = dt.timedelta(seconds=pipeline.source.lookback_seconds) + _DAY
    needed = [Window(window.start, window.end + seen_within) for window in open_]
    old = [
        found
        for found in too_old
        if found.end <= end and not any(_touch(found, one) for one in needed)
    ]
    gone += _remove(runs_uri, pipeline.key, old, oldest)
    _forget_told(runs_uri, pipeline.key, {*old})
    return gone


def _too_old(runs_uri: str, pipeline: str, oldest: dt.datetime) -> list[Window]:
    """Return the windows that are too old, the oldest first."""
    windows = sorted(
        window_names(runs_uri, pipeline), key=lambda window: (window.end, window.start)
    )
    return [window for window in windows[:-_NEWEST_KEPT] if window.end <= oldest]


def _open(runs_uri: str, pipeline: Pipeline, before: Pruned, end: dt.datetime) -> list[Window]:
    """Return the windows of the schedule that end by ``end`` and are not complete by results."""
    known = [parse_window(text) for text in before.open]
    first = beginnings_of(runs_uri, pipeline)
    if not first or pipeline.schedule is None:
        return known
    start = max(min(first.values()), before.before or min(first.values()))
    windows = {
        *known,
        *(
            window
            for window in Ticks(pipeline.schedule).windows(start, end)
            if start < window.end <= end
        ),
    }
    if not windows:
        return []
    looked_back = end + dt.timedelta(seconds=pipeline.source.lookback_seconds) + _DAY
    runs = window_runs(
        runs_uri,
        pipeline.key,
        pipeline.clusters,
        min(window.start for window in windows),
        looked_back,
    )
    gaps = find_gaps(
        sorted(windows, key=lambda window: window.start), runs, first, lambda cluster: None
    )
    return sorted({parse_window(gap.window) for gap in gaps}, key=lambda window: window.start)


def _touch(one: Window, other: Window) -> bool:
    return one.start < other.end and other.start < one.end


def _remove(runs_uri: str, pipeline: str, windows: Collection[Window], oldest: dt.datetime) -> int:
    """Remove old windows. A window that was run again later keeps those runs: a backfill of an old
    window is no older than its run."""
    fs, root = fsspec.core.url_to_fs(f"{runs_uri.rstrip('/')}/{pipeline}")
    gone = 0
    for window in windows:
        folder = f"{root}/{RunFolder.name_of(window.start, window.end)}"
        ids = run_ids(runs_uri, pipeline, window)
        old = [run_id for run_id in ids if _began(run_id, window) <= oldest]
        for path in [folder] if len(old) == len(ids) else [f"{folder}/{run_id}" for run_id in old]:
            with contextlib.suppress(FileNotFoundError):  # another run was faster
                fs.rm(path, recursive=True)
        gone += len(old) == len(ids)
    return gone


def _began(run_id: str, window: Window) -> dt.datetime:
    """Return when the run began, by its id; for an id that a user chose, the window's end."""
    try:
        return dt.datetime.strptime(run_id[:15], _RUN_STAMP).replace(tzinfo=dt.UTC)
    except ValueError:
        return window.end


def _forget_told(runs_uri: str, pipeline: str, windows: Collection[Window]) -> None:
    fs, path = fsspec.core.url_to_fs(f"{runs_uri.rstrip('/')}/{pipeline}/told")
    for name in names_in(fs, path):
        if RunFolder.window_of(name.partition(".")[0]) in windows:
            fs.rm_file(f"{path}/{name}")
