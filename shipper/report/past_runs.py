"""Earlier runs: the figures of the last good ones, from their reports (:func:`past_runs`); the
files that they delivered; and what a run that looks back leaves alone
(:func:`find_retry_exclusions`)."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import AliasPath, BaseModel, Field, ValidationError

from shipper import runtime
from shipper.report.plan_result import PlanResult
from shipper.report.results import PastRun, ShipResult
from shipper.report.run_folder import RunFolder, names_in
from shipper.report.window_records import WindowRecord, read_records
from shipper.report.window_state import contains
from shipper.types import FileId
from shipper.whole_files import file_system
from shipper.windows.window import Window, parse_window

_AT_ONCE = 16
"""Parallel requests: on an object store each takes a round trip."""
_LOOKED_AT_PER_RUN = 5
"""Windows without a run to show that are skipped for each wanted window; a pipeline that has failed
for weeks should not have all of its reports read by each run."""
_WINDOWS_WITH_A_SHIP = 3
"""Windows whose last run is asked for a ship by which to foretell another one. Each plan asks, one
after the other."""

S = TypeVar("S", "_Report", ShipResult, PlanResult)

log = logging.getLogger("shipper.history")


class _Shipped(BaseModel):
    read: int = 0
    unread: int = 0


class _File(BaseModel):
    size_bytes: int
    late_window: str | None = None


class _Report(BaseModel):
    """Figures of a report, which may be large. Everything else in it is passed over."""

    run_id: str
    status: str
    pipeline: str
    window_start: dt.datetime
    window_end: dt.datetime
    finished_at: dt.datetime
    planned_at: dt.datetime | None = Field(
        default=None, validation_alias=AliasPath("plan", "started_at")
    )
    files: list[_File] = Field(default=[], validation_alias=AliasPath("plan", "files"))
    ships: list[_Shipped] = []


def past_runs(
    runs_uri: str,
    pipeline: str,
    before: dt.datetime,
    *,
    most: int,
    wanted: Callable[[Window], bool] = lambda window: True,
    names: Collection[str] = (),
) -> list[PastRun]:
    """Return the latest ``most`` windows that begin before ``before`` and have a run that
    succeeded, oldest first; of each its last such run.

    ``wanted`` is asked before any result of a window is read. ``names``: other names that the
    pipeline has, or had. Files that are broken or no report are skipped. Empty if there is no such
    folder; raises OSError if it cannot be listed.
    """
    fs, path = file_system(f"{runs_uri.rstrip('/')}/{pipeline}")
    windows = [
        (window, name)
        for window, name in _windows(fs, path)
        if window.start < before and wanted(window)
    ]
    found: list[PastRun] = []
    for window, name in sorted(windows, key=lambda one: one[1], reverse=True)[
        : most * _LOOKED_AT_PER_RUN
    ]:
        if len(found) == most:
            break
        if run := next(_succeeded(fs, f"{path}/{name}", {pipeline, *names}, window), None):
            found.append(run)
    return found[::-1]


def _succeeded(fs: Any, folder: str, names: Collection[str], window: Window) -> Iterator[PastRun]:
    """Yield the window's runs that succeeded, the last one first; run ids sort by time."""
    for run_id in sorted(names_in(fs, folder), reverse=True):
        report = _find(fs, f"{folder}/{run_id}/report.json", run_id, _Report)
        if report is None or report.planned_at is None or report.status != "succeeded":
            continue
        at = report.window_start, report.window_end
        if report.pipeline in names and at == (window.start, window.end):
            own = [file for file in report.files if file.late_window is None]
            yield PastRun(
                window_start=window.start,
                window_end=window.end,
                run_id=run_id,
                files=len(own),
                bytes=sum(file.size_bytes for file in own),
                records=max((ship.read + ship.unread for ship in report.ships), default=0),
                seconds=(report.finished_at - report.planned_at).total_seconds(),
            )


def last_ship(runs_uri: str, pipeline: str, cluster: str) -> ShipResult | None:
    """Return the latest ship to the cluster that took long enough to tell what held it up; None if
    none of the last runs over the latest windows has one. Raises OSError."""
    fs, path = file_system(f"{runs_uri.rstrip('/')}/{pipeline}")
    names = sorted((name for _, name in _windows(fs, path)), reverse=True)
    for folder in (f"{path}/{name}" for name in names[:_WINDOWS_WITH_A_SHIP]):
        run_id = max(names_in(fs, folder), default="")
        found = _find(fs, f"{folder}/{run_id}/ship.{cluster}.json", run_id, ShipResult)
        if found and found.limited_by and found.bytes and found.wire_bytes and found.cpu_seconds:
            return found
    return None


def delivered_files(
    runs_uri: str, pipeline: str, clusters: Collection[str], plan: PlanResult
) -> dict[str, set[FileId]]:
    """Return for each of ``clusters`` the files that earlier runs delivered, as they noted, the
    run's own earlier attempt among them. Runs over windows before what ``plan`` looked at are not
    read. Raises OSError if the records cannot be listed."""
    start = plan.looked_back.start if plan.looked_back else plan.window_start
    records = read_records(runs_uri, pipeline, start)
    fs, path = file_system(f"{runs_uri.rstrip('/')}/{pipeline}")

    def plan_of(record: WindowRecord) -> PlanResult | None:
        folder = RunFolder.name_of(record.window)
        name = f"{path}/{folder}/{record.run_id}/plan.json"
        return _find(fs, name, record.run_id, PlanResult) if record.passed else None

    delivered: dict[str, set[FileId]] = {cluster: set() for cluster in clusters}
    with runtime.ThreadPoolExecutor(_AT_ONCE) as pool:
        for record, planned in zip(records, pool.map(plan_of, records), strict=True):
            for cluster in filter(record.is_about, clusters):
                files = delivered[cluster]
                files |= {file.id for file in planned.files_for(cluster)} if planned else set()
                files -= {
                    FileId(file.path, file.size_bytes or 0, file.modified_ms)
                    for one in record.uncovered
                    for file in one.files
                }
                if record.recreated:
                    files.clear()
    return delivered


def window_names(runs_uri: str, pipeline: str) -> list[Window]:
    """Return the windows that have a folder of results. Raises OSError."""
    fs, path = file_system(f"{runs_uri.rstrip('/')}/{pipeline}")
    return [window for window, _ in _windows(fs, path)]


def run_ids(runs_uri: str, pipeline: str, window: Window) -> list[str]:
    """Return the ids of the runs over exactly this window, the last one last. Raises OSError."""
    fs, path = file_system(f"{runs_uri.rstrip('/')}/{pipeline}/{RunFolder.name_of(window)}")
    return sorted(names_in(fs, path))


def _windows(fs: Any, path: str) -> list[tuple[Window, str]]:
    return [(window, name) for name in names_in(fs, path) if (window := RunFolder.window_of(name))]


@dataclass(frozen=True)
class RetryExclusions:
    """Windows and files that a run which looks back leaves alone, since a retry would fail
    again."""

    closed: frozenset[Window]
    """Windows whose source gate is closed."""
    failed: Mapping[str, frozenset[Window]]
    """Cluster → windows of which the last ship there failed for good: a record that no topic takes,
    say."""
    tried: Mapping[str, frozenset[str]]
    """Cluster → late files of such a ship."""

    def why(self, cluster: str, window: Window, path: str) -> str | None:
        if window in self.closed:
            return "the source gate of its window is closed"
        if window in self.failed.get(cluster, ()):
            return f"the ship of its window to {cluster} failed, and would fail again"
        if path in self.tried.get(cluster, ()):
            return f"a run that looked back tried to ship it to {cluster}, and failed for good"
        return None


def find_retry_exclusions(
    runs_uri: str,
    pipeline: str,
    clusters: Collection[str],
    windows: Collection[Window],
    end: dt.datetime,
) -> RetryExclusions:
    """Collect them, by the last run over the whole of a window that came to it. ``windows``: those
    that are asked about."""
    closed: dict[Window, bool] = {}
    failed: dict[str, set[Window]] = {cluster: set() for cluster in clusters}
    tried: dict[str, dict[str, Window]] = {cluster: {} for cluster in clusters}
    late: dict[tuple[str, str], Mapping[str, Sequence[str]]] = {}
    start = min((window.start for window in windows), default=None)
    for record in read_records(runs_uri, pipeline, start, end) if start else ():
        over = [window for window in windows if contains(record.window, window)]
        if record.closed:  # a part of a window, too: the schedule may have changed since
            touched = [one for one in windows if one.start < record.window_end]
            closed |= {one: True for one in touched if record.window_start < one.end}
        elif record.closed is not None:
            closed |= dict.fromkeys(over, False)
        for cluster in filter(record.is_about, clusters):
            if record.passed:
                failed[cluster].difference_update(over)
                tried[cluster] = {
                    path: window
                    for path, window in tried[cluster].items()
                    if not contains(record.window, window)
                }
            elif record.step == "plan":
                late[record.run_id, cluster] = record.late
            elif record.step == "ship" and record.fails_again:
                failed[cluster].update(over)
                for tick, paths in late.get((record.run_id, cluster), {}).items():
                    tried[cluster] |= dict.fromkeys(paths, parse_window(tick))
    return RetryExclusions(
        frozenset(window for window, is_closed in closed.items() if is_closed),
        {cluster: frozenset(some) for cluster, some in failed.items()},
        {cluster: frozenset(some) for cluster, some in tried.items()},
    )


def _find(fs: Any, path: str, run_id: str, kind: type[S]) -> S | None:
    try:
        found = kind.model_validate_json(bytes(fs.cat_file(path)), extra="ignore")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValidationError) as error:
        log.warning("%s is skipped: it is not a readable result (%s)", path, type(error).__name__)
        return None
    return found if found.run_id == run_id else None
