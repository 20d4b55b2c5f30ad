"""Since when a pipeline is shipped on a schedule, cluster by cluster: `{runs_uri}/{pipeline}/schedule.json`.

The first run of the schedule writes it down. Nothing before that moment is looked at, or called a gap, unasked: a new pipeline, or a new
cluster of an old one, must not begin with a past that nobody wanted. The file is written anew by each run of the schedule, so that a bucket's
rule that deletes what is old never takes it. If it is lost all the same, the schedule begins anew with the next run.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection

import fsspec
from pydantic import BaseModel, ValidationError

from shipper.errors import StepResultError
from shipper.report.results import write_whole


class _Kept(BaseModel):
    version: int = 1
    first_window: dict[str, dt.datetime]
    """Cluster → begin of the first window that the schedule had for it, UTC."""


def read_beginnings(runs_uri: str, pipeline: str) -> dict[str, dt.datetime]:
    """Cluster → begin of the first window of the schedule. Empty if no run of the schedule has been. Raises StepResultError, OSError."""
    uri = _uri(runs_uri, pipeline)
    fs, path = fsspec.core.url_to_fs(uri)
    try:
        return _Kept.model_validate_json(bytes(fs.cat_file(path))).first_window
    except FileNotFoundError:
        return {}
    except ValidationError as error:
        raise StepResultError(
            f"{uri} cannot be read: it says since when pipeline {pipeline} is on a schedule. Put it back from a backup; or delete it, and the "
            "next run of the schedule is the first one, which looks at nothing before it."
        ) from error


def beginnings(
    runs_uri: str,
    pipeline: str,
    clusters: Collection[str],
    window_start: dt.datetime,
    schedule_start: dt.datetime | None,
    *,
    keep: bool,
) -> dict[str, dt.datetime]:
    """As ``read_beginnings``, with what a run over a window that begins at ``window_start`` adds: a cluster that no run had before begins
    here; and the first run of all, at `schedule.start` if there is one. ``keep``: writes it."""
    kept = read_beginnings(runs_uri, pipeline)
    first = min(schedule_start, window_start) if schedule_start and not kept else window_start
    found = {cluster: kept.get(cluster, first) for cluster in clusters}
    if keep:
        write_whole(_uri(runs_uri, pipeline), _Kept(first_window=kept | found).model_dump_json(indent=1) + "\n")
    return found


def _uri(runs_uri: str, pipeline: str) -> str:
    return f"{runs_uri.rstrip('/')}/{pipeline}/schedule.json"
