"""The runs before this one, as far as their reports are still there."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Callable, Iterator
from typing import Any

import fsspec
from pydantic import BaseModel, ValidationError

from shipper.report.results import PastRun, RunFolder
from shipper.report.window_runs import names

#: Of windows that have no run to show, this many are passed over for each that is wanted; a pipeline that has failed for weeks
#: should not have all of its reports read by each run.
_LOOKED_AT_PER_RUN = 5

log = logging.getLogger("shipper.history")
WindowSpan = tuple[dt.datetime, dt.datetime]


class _File(BaseModel):
    size_bytes: int
    late_window: str | None = None


class _Plan(BaseModel):
    started_at: dt.datetime
    files: list[_File]


class _Ship(BaseModel):
    read: int = 0
    unread: int = 0


class _Report(BaseModel):
    """What is needed of a RunReport. Everything else is ignored, so that reports of other versions of shipper count too."""

    pipeline: str
    window_start: dt.datetime
    window_end: dt.datetime
    run_id: str
    status: str
    first_cause: str | None = None
    finished_at: dt.datetime
    plan: _Plan | None = None
    ships: list[_Ship] = []


def past_runs(
    runs_uri: str, pipeline: str, before: dt.datetime, *, most: int, wanted: Callable[[WindowSpan], bool] = lambda window: True
) -> list[PastRun]:
    """The latest ``most`` windows that begin before ``before`` and have a run that succeeded, oldest first; of each its last such run.

    ``wanted`` is asked before anything of a window is read. What is no report, or is broken, is passed over. Empty if there is no
    such folder; raises OSError if it cannot be listed.
    """
    root = f"{runs_uri.rstrip('/')}/{pipeline}"
    fs, path = fsspec.core.url_to_fs(root)
    windows = [
        (window, name)
        for name in names(fs, path)
        if (window := RunFolder.window_of(name)) and window[0] < before and wanted(window)
    ]
    found: list[PastRun] = []
    for window, name in sorted(windows, reverse=True)[: most * _LOOKED_AT_PER_RUN]:
        if len(found) == most:
            break
        if run := next(_succeeded(fs, f"{path}/{name}", pipeline, window), None):
            found.append(run)
    return found[::-1]


def _succeeded(fs: Any, folder: str, pipeline: str, window: WindowSpan) -> Iterator[PastRun]:
    """The window's runs that succeeded, the last one first; run ids sort by time."""
    for run_id in sorted(names(fs, folder), reverse=True):
        path = f"{folder}/{run_id}/report.json"
        try:
            report = _Report.model_validate_json(bytes(fs.cat_file(path)))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, ValidationError) as error:
            log.warning("%s is passed over in the history: it is no report that can be read (%s)", path, type(error).__name__)
            continue
        ours = (report.pipeline, report.window_start, report.window_end, report.run_id) == (pipeline, *window, run_id)
        if ours and report.plan is not None and report.status == "succeeded" and report.first_cause is None:
            yield _past(report, report.plan)


def _past(report: _Report, plan: _Plan) -> PastRun:
    own = [file for file in plan.files if file.late_window is None]
    return PastRun(
        window_start=report.window_start,
        window_end=report.window_end,
        run_id=report.run_id,
        files=len(own),
        bytes=sum(file.size_bytes for file in own),
        records=max((ship.read + ship.unread for ship in report.ships), default=0),
        seconds=(report.finished_at - plan.started_at).total_seconds(),
    )
