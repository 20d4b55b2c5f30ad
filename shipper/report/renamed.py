"""Search for the former name of a pipeline: a pipeline without a file, whose last run listed the
same source."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection
from typing import NamedTuple

import fsspec
from pydantic import BaseModel, ValidationError

from shipper.config.rules import original
from shipper.report.late import fresh_until, newest
from shipper.report.past_runs import window_names


class Earlier(NamedTuple):
    pipeline: str
    until: dict[str, dt.datetime]
    """Cluster → end of the latest window on it."""


class _Planned(BaseModel):
    source: str


def perhaps_formerly(
    runs_uri: str,
    source: str,
    clusters: Collection[str],
    present: Collection[str],
    now: dt.datetime,
) -> Earlier | None:
    """Return the pipeline that is not ``present`` and whose last run listed ``source``; None if
    there is none, or more than one. Raises OSError."""
    fs, root = fsspec.core.url_to_fs(runs_uri)
    try:
        names = [str(entry).rstrip("/").rpartition("/")[2] for entry in fs.ls(root, detail=False)]
    except (FileNotFoundError, NotADirectoryError):
        return None
    gone = [name for name in names if original(name) == name and name not in present]
    found = [name for name in gone if _source_of(runs_uri, name) == source]
    return (
        Earlier(found[0], fresh_until(runs_uri, found[0], clusters, now))
        if len(found) == 1
        else None
    )


def _source_of(runs_uri: str, pipeline: str) -> str | None:
    windows = window_names(runs_uri, pipeline)
    folder = (
        newest(runs_uri, pipeline, max(windows, key=lambda window: window.end)) if windows else None
    )
    fs, path = fsspec.core.url_to_fs(folder.path("plan.json")) if folder else (None, "")
    try:
        return (
            _Planned.model_validate_json(bytes(fs.cat_file(path)), extra="ignore").source
            if fs
            else None
        )
    except (FileNotFoundError, NotADirectoryError, ValidationError):
        return None
