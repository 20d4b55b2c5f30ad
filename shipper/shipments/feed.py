"""Brings the index up to date: from the configuration, and from the records beside the runs, which
whoever shows the page looks for (:func:`look`)."""

from __future__ import annotations

import contextlib
import datetime as dt
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from shipper import runtime
from shipper.config.environment import EVERYTHING
from shipper.config.load import load_all, load_pipeline, load_platform
from shipper.config.pipeline import Pipeline
from shipper.config.rules import original, resolve_uri
from shipper.errors import ConfigError, ShipperError
from shipper.report.horizon import horizon
from shipper.report.incomplete import by_schedule, read_schedule
from shipper.report.run_folder import names_in
from shipper.report.window_records import read_files, record_files
from shipper.shipments.index import Index, Known, unusable
from shipper.whole_files import file_system

_READ_AT_ONCE = 500
"""Files in memory, and in one transaction: others that write wait no longer than that."""
_PAUSE_SECONDS = 15
_PIPELINES_A_SECOND = 5
"""A look lists two folders for each pipeline."""
_WHOLE_SECONDS = 86_400


def index_path(config_dir: Path) -> Path:
    """Return `index` in config/shipper.yaml; by default `shipments.sqlite` in the folder `runs`
    beside the configuration. Raises ConfigError."""
    return Path(resolve_uri(config_dir, load_platform(config_dir).index))


@contextlib.contextmanager
def _index(config_dir: Path) -> Iterator[Index]:
    """Open the index to write to it, and make it if there is none. Raises IndexUnusable,
    ConfigError."""
    with Index(index_path(config_dir), make=True) as index:
        try:
            yield index
        except sqlite3.Error as error:
            raise unusable(index.path, error) from error


@dataclass
class LookResult:
    """Result of :func:`look`."""

    pipelines: int = 0
    files: int = 0
    """Files of records that were read."""
    problems: list[str] = field(default_factory=list)
    """Names of what could not be read, with the reason."""


def look_is_due(config_dir: Path, now: int) -> bool | None:
    """Claim a look for records that the index lacks; makes the index if there is none. Return True
    if all days are due for it, False if the last two are; None: it is too early. Raises
    IndexUnusable, ConfigError."""
    with _index(config_dir) as index:
        many = len(index.pipelines())
        whole = index.begin_look(now, max(_PAUSE_SECONDS, many // _PIPELINES_A_SECOND))
    return None if whole is None else now >= whole + _WHOLE_SECONDS


def look(config_dir: Path, *, whole: bool = True) -> LookResult:
    """Read the configuration, and the records in every pipeline's `runs_uri` that the index lacks.
    ``whole``: of all days; else of the last two, unless the pipeline is new to the index. Raises
    IndexUnusable, ConfigError."""
    done, now = LookResult(), runtime.now()
    loaded = load_all(config_dir, EVERYTHING)
    if not loaded.pipelines and loaded.faults and not loaded.broken:
        raise ConfigError("\n".join(map(str, loaded.faults)))
    keep_seconds = load_platform(config_dir).keep_seconds
    with _index(config_dir) as index:
        before = {one.pipeline: one for one in index.pipelines()}
        for pipeline in loaded.pipelines.values():
            oldest = horizon(pipeline, keep_seconds, now)
            for known in _known(config_dir, pipeline, oldest, done):
                same = before.pop(known.pipeline, None)
                _look_at(index, known, oldest, done, whole=whole or same is None)
            done.pipelines += 1
        with index.writing():
            for name, faults in loaded.broken.items():
                known = before.pop(name, Known(pipeline=name, key=name))
                index.know(known.model_copy(update={"fault": str(faults[0])}))
            for known in before.values():
                index.forget(known.key, int(now.timestamp() - keep_seconds))
            if whole:
                index.looked_at_all(int(now.timestamp()))
    return done


def look_at(config_dir: Path, name: str) -> LookResult:
    """Read the records of the last two days that the index lacks of one pipeline, or of a replay,
    for somebody who opens a window of it: its page must not say less than the notice that led
    there. Of a file that is broken or gone it reads nothing. Raises IndexUnusable, ConfigError."""
    done, platform = LookResult(), load_platform(config_dir)
    try:
        pipeline = load_pipeline(config_dir, original(name), EVERYTHING)
    except ConfigError:
        return done
    oldest = horizon(pipeline, platform.keep_seconds, runtime.now())
    with _index(config_dir) as index:
        for known in _known(config_dir, pipeline, oldest, done):
            if known.pipeline == name:
                _look_at(index, known, oldest, done, whole=False)
    return done


def _known(
    config_dir: Path, pipeline: Pipeline, oldest: dt.datetime, done: LookResult
) -> Iterator[Known]:
    """Yield what the page needs of the pipeline, and of its replays."""
    schedule, runs_uri = pipeline.schedule, resolve_uri(config_dir, pipeline.runs_uri)
    try:
        ran = read_schedule(runs_uri, pipeline.key)
        began, last = ran.first_window, ran.last_run
        names = names_in(*file_system(runs_uri))
    except (OSError, ValueError, ShipperError) as error:
        done.problems.append(f"{pipeline.name}: {runs_uri} cannot be read ({error})")
        began, last, names = {}, None, []
    began = by_schedule(began, schedule) if schedule else began
    if not began and schedule and schedule.start:
        began = dict.fromkeys(pipeline.clusters, schedule.start)
    known = Known(
        pipeline=pipeline.name,
        key=pipeline.key,
        owner=pipeline.owner,
        description=pipeline.description,
        clusters=tuple(pipeline.clusters),
        formerly=pipeline.formerly,
        runs_uri=runs_uri,
        cron=schedule.cron if schedule else None,
        timezone=schedule.timezone if schedule else "UTC",
        deliver_within=schedule.deliver_within_seconds if schedule else None,
        settle=pipeline.source.settle_seconds,
        first={name: int(max(at, oldest).timestamp()) for name, at in began.items()},
        last_run=last,
    )
    yield known
    for name in names:
        if original(name) != name and original(name) in pipeline.names:
            of = {"pipeline": name, "key": name, "replay_of": pipeline.name, "first": {}}
            yield known.model_copy(update={**of, "formerly": (), "cron": None, "last_run": None})


def _look_at(
    index: Index, known: Known, oldest: dt.datetime, done: LookResult, *, whole: bool
) -> None:
    with index.writing():
        index.know(known)
        index.forget(known.key, int(oldest.timestamp()))
    try:
        files = record_files(known.runs_uri, known.key, oldest if whole else runtime.now())
    except (OSError, ValueError, ShipperError) as error:
        done.problems.append(
            f"{known.pipeline}: its records in {known.runs_uri} cannot be listed ({error})"
        )
        return
    have = index.names(known.key) if files else set()
    lacking = [
        (file, url)
        for file, url in files.items()
        if file.name not in have and file.window.end >= oldest
    ]
    for first in range(0, len(lacking), _READ_AT_ONCE):
        part = lacking[first : first + _READ_AT_ONCE]
        found = list(zip((file for file, _ in part), read_files(part), strict=True))
        with index.writing():
            index.add(known, found)
        done.files += len(found)
        done.problems += [f"{file.name} cannot be read" for file, records in found if not records]
