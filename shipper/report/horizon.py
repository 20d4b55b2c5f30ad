"""Retention of run results: `keep` in config/shipper.yaml.

Older windows go at the end of a run of their pipeline, some hundred at a time. What runs learned of
windows stays (:mod:`shipper.report.window_records`), packed into a file for each day; so do the
newest windows, whatever their age: history and freshness are read from them.
"""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Collection

from shipper.config.pipeline import Pipeline
from shipper.report.past_runs import run_ids, window_names
from shipper.report.run_folder import RunFolder
from shipper.report.window_records import pack_days
from shipper.request import DRY_RUNS
from shipper.whole_files import file_system
from shipper.windows.window import Window

_NEWEST_KEPT = 200
_MOST_AT_ONCE = 500
"""Windows that one call lets go; more wait for the next."""
_MOST_DAYS = 30
"""Days that one call packs."""
_DAY = dt.timedelta(days=1)
_RUN_STAMP = "%Y%m%dT%H%M%S"


def horizon(pipeline: Pipeline, keep_seconds: float, now: dt.datetime) -> dt.datetime:
    """Return before when results are too old. What a run looks back at never is."""
    return now - max(
        dt.timedelta(seconds=keep_seconds),
        dt.timedelta(seconds=pipeline.source.lookback_seconds) + 30 * _DAY,
    )


def prune(runs_uri: str, pipeline: Pipeline, keep_seconds: float, now: dt.datetime) -> int:
    """Remove old windows; return the number of removed windows. Asks no cluster. Raises OSError."""
    oldest, gone = horizon(pipeline, keep_seconds, now), 0
    for uri in (f"{runs_uri.rstrip('/')}/{DRY_RUNS}", runs_uri):
        old = _too_old(uri, pipeline.key, oldest)[:_MOST_AT_ONCE]
        gone += _remove(uri, pipeline.key, old, oldest)
    pack_days(runs_uri, pipeline.key, oldest, _MOST_DAYS)
    return gone


def _too_old(runs_uri: str, pipeline: str, oldest: dt.datetime) -> list[Window]:
    """Return the windows that are too old, the oldest first."""
    windows = sorted(
        window_names(runs_uri, pipeline), key=lambda window: (window.end, window.start)
    )
    return [window for window in windows[:-_NEWEST_KEPT] if window.end <= oldest]


def _remove(runs_uri: str, pipeline: str, windows: Collection[Window], oldest: dt.datetime) -> int:
    """Remove old windows. A window that was run again later keeps those runs: a backfill of an old
    window is no older than its run."""
    fs, root = file_system(f"{runs_uri.rstrip('/')}/{pipeline}")
    gone = 0
    for window in windows:
        folder = f"{root}/{RunFolder.name_of(window)}"
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
