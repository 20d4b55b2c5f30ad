"""Search for the former name of a pipeline: a pipeline without a file, whose last run listed the
same source."""

from __future__ import annotations

from collections.abc import Collection

import fsspec

from shipper.config.rules import original
from shipper.report.late import newest
from shipper.report.past_runs import window_names
from shipper.report.plan_result import PlanResult
from shipper.report.run_folder import names_in
from shipper.runner import PLAN


def perhaps_formerly(runs_uri: str, source: str, present: Collection[str]) -> str | None:
    """Return the pipeline that is not ``present`` and whose last run listed ``source``; None if
    there is none, or more than one. Raises OSError."""
    names = names_in(*fsspec.core.url_to_fs(runs_uri))
    gone = [name for name in names if original(name) == name and name not in present]
    found = [name for name in gone if _source_of(runs_uri, name) == source]
    return found[0] if len(found) == 1 else None


def _source_of(runs_uri: str, pipeline: str) -> str | None:
    windows = window_names(runs_uri, pipeline)
    last = max(windows, key=lambda window: window.end, default=None)
    folder = newest(runs_uri, pipeline, last) if last else None
    plan = folder.glance(PLAN, PlanResult) if folder else None
    return plan.source if plan else None
