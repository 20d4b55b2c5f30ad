"""Sources of the index's rows: a run as it begins and as its report is written; and the reports in
`runs_uri`, which whoever shows the page looks for (:func:`look`)."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import fsspec
from pydantic import ValidationError

from shipper import runtime
from shipper.config import load_all, load_platform, resolve_uri
from shipper.config.environment import EVERYTHING
from shipper.config.pipeline import Pipeline
from shipper.errors import ConfigError, ShipperError
from shipper.report.gaps import LastRun, read_beginnings, read_last_run
from shipper.report.horizon import horizon
from shipper.report.past_runs import run_folders
from shipper.report.results import RunReport
from shipper.shipments.index import Index, IndexUnusable
from shipper.shipments.outcomes import outcomes
from shipper.windows.schedule import Ticks
from shipper.windows.window import Window

_AT_ONCE = 16
"""Parallel requests: on an object store each report takes a round trip."""
_READ_AT_ONCE = 100
"""Reports in memory, and in one transaction: others that write wait no longer than that."""
_PAUSE_SECONDS = 300
_WHOLE_SECONDS = 86_400
"""A window that is shipped gets a new report only if it is run again on another machine: once a day
suffices."""


def index_path(config_dir: Path) -> Path:
    """Return `index` in config/shipper.yaml; by default `shipments.sqlite` in the folder `runs`
    beside the configuration. Raises ConfigError."""
    return Path(resolve_uri(config_dir, load_platform(config_dir).index))


def begin(
    config_dir: Path,
    pipeline: Pipeline,
    runs_uri: str,
    window: Window,
    run_id: str,
    at: dt.datetime,
) -> None:
    """Note that a run has begun; called by its first step. Raises IndexUnusable, ConfigError."""
    start, end = _span(window)
    with _written(config_dir) as index:
        _know(index, config_dir, pipeline, runs_uri, at)
        index.begun(pipeline.name, start, end, run_id, pipeline.clusters, int(at.timestamp()))


def feed(config_dir: Path, pipeline: Pipeline, runs_uri: str, report: RunReport) -> None:
    """Note what became of the window; called by the report step. Raises IndexUnusable,
    ConfigError."""
    with _written(config_dir) as index:
        _know(index, config_dir, pipeline, runs_uri, report.finished_at)
        _add(index, report, pipeline)


@contextlib.contextmanager
def _written(config_dir: Path) -> Iterator[Index]:
    """Open the index for one transaction. What SQLite has against it is an IndexUnusable."""
    with Index(index_path(config_dir), make=True) as index:
        try:
            with index.writing():
                yield index
        except sqlite3.Error as error:
            raise unusable(index.path, error) from error


def _add(index: Index, report: RunReport, pipeline: Pipeline | None) -> None:
    clusters, schedule = (pipeline.clusters, pipeline.schedule) if pipeline else ((), None)
    index.add(outcomes(report, clusters), Ticks(schedule) if schedule else None)
    start, end = _span(Window(report.window_start, report.window_end))
    index.over(report.pipeline, start, end, report.run_id)


def _know(
    index: Index, config_dir: Path, pipeline: Pipeline, runs_uri: str, now: dt.datetime
) -> None:
    """Keep the pipeline's settings that the page needs, and drop windows that are too old to be
    due."""
    oldest = horizon(pipeline, load_platform(config_dir).keep_seconds, now)
    began, last_run = _beginnings(runs_uri, pipeline.key)
    first = {cluster: max(at, oldest) for cluster, at in began.items()}
    index.know(pipeline, runs_uri, first, last_run)
    index.forget(pipeline.name, int(oldest.timestamp()))


def _beginnings(runs_uri: str, pipeline: str) -> tuple[Mapping[str, dt.datetime], LastRun | None]:
    """Return when each cluster's first window began, without which no window is called missing; and
    the last run of the schedule."""
    try:
        return read_beginnings(runs_uri, pipeline), read_last_run(runs_uri, pipeline)
    except (OSError, ShipperError):
        return {}, None


@dataclass
class LookResult:
    """Result of :func:`look`."""

    pipelines: int = 0
    runs: int = 0
    """Reports that were read."""
    problems: list[str] = field(default_factory=list)
    """Files that could not be read, with the reason."""


def look_is_due(config_dir: Path, now: int) -> bool | None:
    """Claim a look for reports that the index lacks; makes the index if there is none. Return True
    if all windows are due for it, False if those that are not shipped are; None: it is too early.
    Raises IndexUnusable, ConfigError."""
    with Index(index_path(config_dir), make=True) as index:
        try:
            whole = index.begin_look(now, _PAUSE_SECONDS)
        except sqlite3.Error as error:
            raise unusable(index.path, error) from error
    return None if whole is None else now >= whole + _WHOLE_SECONDS


def look(config_dir: Path, *, whole: bool = True) -> LookResult:
    """Read the reports in every pipeline's `runs_uri` that the index lacks. ``whole``: over all
    windows; else over those of which the index does not know that they were shipped, which is a
    small part of the cost. Raises IndexUnusable, ConfigError."""
    path, done = index_path(config_dir), LookResult()
    loaded = load_all(config_dir, EVERYTHING)
    if not loaded.pipelines and loaded.faults and not loaded.broken:
        raise ConfigError("\n".join(map(str, loaded.faults)))
    keep_seconds = load_platform(config_dir).keep_seconds
    with Index(path, make=True, present={*loaded.pipelines, *loaded.broken}) as index:
        try:
            for pipeline in loaded.pipelines.values():
                _look_at(index, config_dir, pipeline, done, whole=whole)
                done.pipelines += 1
            now = runtime.now().timestamp()
            with index.writing():
                for known in index.pipelines():
                    if known.retired:
                        index.forget(known.pipeline, int(now - keep_seconds))
                if whole:
                    index.looked_at_all(int(now))
        except sqlite3.Error as error:
            raise unusable(path, error) from error
    return done


def _look_at(
    index: Index, config_dir: Path, pipeline: Pipeline, done: LookResult, *, whole: bool
) -> None:
    runs_uri = resolve_uri(config_dir, pipeline.runs_uri)
    now = runtime.now()
    oldest = horizon(pipeline, load_platform(config_dir).keep_seconds, now)
    with index.writing():
        _know(index, config_dir, pipeline, runs_uri, now)

    def is_due(window: Window) -> bool:
        return window.end >= oldest and (
            whole or not index.is_settled(pipeline.name, *_span(window))
        )

    try:
        runs = run_folders(runs_uri, pipeline.key, is_due)
    except (OSError, ValueError, ImportError, ShipperError) as error:
        done.problems.append(f"{pipeline.name}: its runs in {runs_uri} cannot be listed ({error})")
        return
    lacking = [run for run in runs if not index.has(pipeline.name, *_span(run[0]), run[1])]
    with runtime.ThreadPoolExecutor(_AT_ONCE) as pool:
        for first in range(0, len(lacking), _READ_AT_ONCE):
            part = lacking[first : first + _READ_AT_ONCE]
            found = list(pool.map(lambda run: _read(run[2]), part))
            with index.writing():
                for (_, run_id, _folder), report in zip(part, found, strict=True):
                    if isinstance(report, str):
                        done.problems.append(report)
                    elif report and report.run_id == run_id and report.pipeline in pipeline.names:
                        _add(index, report.model_copy(update={"pipeline": pipeline.name}), pipeline)
                        done.runs += 1


def _read(folder: str) -> RunReport | str | None:
    """Read a report, or return why it cannot be read. None: there is none, since the run was killed
    or is not over."""
    fs, path = fsspec.core.url_to_fs(f"{folder}/report.json")
    try:
        return RunReport.model_validate(json.loads(bytes(fs.cat_file(path))))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, ValidationError) as error:
        return f"{path} is skipped: it is not a readable report ({type(error).__name__})"


def _span(window: Window) -> tuple[int, int]:
    return int(window.start.timestamp()), int(window.end.timestamp())


def unusable(path: Path, error: sqlite3.Error) -> IndexUnusable:
    return IndexUnusable(
        f"the index {path} cannot be written: {error}. The index is a cache. "
        "Delete it: the Shipments page makes it again."
    )
