"""Search for the former name of a pipeline: a pipeline without a file, whose last run listed the
same source."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection
from typing import NamedTuple

import fsspec
from pydantic import BaseModel, ValidationError

from shipper.config.rules import original
from shipper.errors import StepResultError
from shipper.report.late import fresh_until, newest
from shipper.report.past_runs import window_names
from shipper.report.run_folder import names_in


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
    names = names_in(*fsspec.core.url_to_fs(runs_uri))
    gone = [name for name in names if original(name) == name and name not in present]
    found = [name for name in gone if _source_of(runs_uri, name) == source]
    return (
        Earlier(found[0], fresh_until(runs_uri, found[0], clusters, now))
        if len(found) == 1
        else None
    )


def _source_of(runs_uri: str, pipeline: str) -> str | None:
    windows = window_names(runs_uri, pipeline)
    last = max(windows, key=lambda window: window.end, default=None)
    folder = newest(runs_uri, pipeline, last) if last else None
    try:
        text = folder.read_text("plan.json") if folder else None
        return _Planned.model_validate_json(text, extra="ignore").source if text else None
    except (StepResultError, ValidationError):
        return None
