"""Earlier runs, from their results: the figures of the last good ones (:func:`past_runs`, by their
reports); and, of the runs over some windows, whether the source gate was closed, and the files that
each delivery gate found complete (:func:`window_runs`). For the latter, plans and reports, which
name every file, are read only if a ship has failed for good (:func:`find_retry_exclusions`)."""

from __future__ import annotations

import contextlib
import datetime as dt
import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import fsspec
from pydantic import BaseModel, ValidationError

from shipper import runtime
from shipper.report.plan_result import PlanResult, RecreatedTopic
from shipper.report.results import DeliveryGateResult, GateResult, PastRun
from shipper.report.run_folder import RunFolder, StepResult, names_in
from shipper.report.standing import RunSeen, attempts, contains, source_closed, was_repeated
from shipper.types import FileId
from shipper.windows.window import Window, parse_window

_AT_ONCE = 16
"""Parallel requests: on an object store each takes a round trip."""
_LOOKED_AT_PER_RUN = 5
"""Windows without a run to show that are skipped for each wanted window; a pipeline that has failed
for weeks should not have all of its reports read by each run."""

S = TypeVar("S", bound="_LeftResult | StepResult")
T = TypeVar("T")

log = logging.getLogger("shipper.history")


class _LeftResult(BaseModel):
    """Fields of a result that may be large. Everything else in it is passed over."""

    run_id: str
    status: str


class _LeftShip(_LeftResult):
    recreated: list[RecreatedTopic] = []
    final: bool = False
    read: int = 0
    unread: int = 0


class _LeftPlannedFile(BaseModel):
    path: str
    size_bytes: int
    late_window: str | None = None
    late_for: tuple[str, ...] = ()


class _LeftPlan(_LeftResult):
    started_at: dt.datetime
    files: list[_LeftPlannedFile] = []


class _LeftReport(_LeftResult):
    pipeline: str
    window_start: dt.datetime
    window_end: dt.datetime
    first_cause: str | None = None
    finished_at: dt.datetime
    plan: _LeftPlan | None = None
    ships: list[_LeftShip] = []


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
    fs, path = fsspec.core.url_to_fs(f"{runs_uri.rstrip('/')}/{pipeline}")
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
    for run_id in sorted(_names(fs, folder), reverse=True):
        report = _find(fs, f"{folder}/{run_id}/report.json", run_id, _LeftReport)
        if (
            report is None
            or report.plan is None
            or report.status != "succeeded"
            or report.first_cause is not None
        ):
            continue
        if report.pipeline in names and (report.window_start, report.window_end) == (
            window.start,
            window.end,
        ):
            yield _past(report, report.plan)


def _past(report: _LeftReport, plan: _LeftPlan) -> PastRun:
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


@dataclass(frozen=True)
class WindowRun:
    """One run over one window."""

    window: Window
    run_id: str
    source_closed: bool | None
    """True if a check of the source gate failed; None: the gate left no result, or could not be
    evaluated."""
    seen: Mapping[str, Sequence[RunSeen]]
    """Cluster → what the run came to on it. Clusters that it was asked to leave alone are not in
    it."""

    def passed(self, cluster: str) -> bool:
        """Return True if the cluster's delivery gate has passed, in whichever attempt."""
        return any(attempt.passed for attempt in self.seen.get(cluster, ()))

    @property
    def folder(self) -> str:
        """Folder of its results, below that of the pipeline."""
        return f"{RunFolder.name_of(self.window.start, self.window.end)}/{self.run_id}"


def window_runs(
    runs_uri: str, pipeline: str, clusters: Collection[str], start: dt.datetime, end: dt.datetime
) -> list[WindowRun]:
    """Return the runs over windows that touch [start, end), by run id, and so by time. Empty if
    there are none; raises OSError if they cannot be listed."""
    fs, path = fsspec.core.url_to_fs(f"{runs_uri.rstrip('/')}/{pipeline}")
    windows = [
        (window, name)
        for window, name in _windows(fs, path)
        if window.start < end and window.end > start
    ]
    with runtime.ThreadPoolExecutor(_AT_ONCE) as pool:
        ids = pool.map(lambda found: _names(fs, f"{path}/{found[1]}"), windows)
        runs = [
            (window, name, run_id)
            for (window, name), found in zip(windows, ids, strict=True)
            for run_id in found
        ]
        read = pool.map(
            lambda run: _read(fs, f"{path}/{run[1]}/{run[2]}", run[0], run[2], clusters), runs
        )
        return sorted(read, key=lambda run: run.run_id)


def delivered_files(
    runs_uri: str, pipeline: str, clusters: Collection[str], plan: PlanResult
) -> dict[str, set[FileId]]:
    """Return for each of ``clusters`` the files that earlier runs delivered, as their results say,
    the run's own earlier attempt among them. Runs over windows before what ``plan`` looked at are
    not read. Raises OSError if the runs cannot be listed."""
    start = plan.looked_back.start if plan.looked_back else plan.window_start
    runs = window_runs(runs_uri, pipeline, clusters, start, dt.datetime.max.replace(tzinfo=dt.UTC))
    fs, path = fsspec.core.url_to_fs(f"{runs_uri.rstrip('/')}/{pipeline}")

    def plan_of(run: WindowRun) -> PlanResult | None:
        plan = f"{path}/{run.folder}/plan.json"
        return _find(fs, plan, run.run_id, PlanResult) if any(map(run.passed, run.seen)) else None

    delivered: dict[str, set[FileId]] = {cluster: set() for cluster in clusters}
    with runtime.ThreadPoolExecutor(_AT_ONCE) as pool:
        for run, planned in zip(runs, pool.map(plan_of, runs), strict=True):
            for cluster, files in delivered.items():
                if planned and run.passed(cluster):
                    files |= {file.id for file in planned.files_for(cluster)}
                for attempt in run.seen.get(cluster, ()):
                    files -= {
                        FileId(file.path, file.size_bytes or 0, file.modified_ms)
                        for one in (attempt.at.uncovered if attempt.at else ())
                        for file in one.files
                    }
                    if attempt.recreated:
                        files.clear()
    return delivered


def window_names(runs_uri: str, pipeline: str) -> list[Window]:
    """Return the windows that have a folder of results. Raises OSError."""
    fs, path = fsspec.core.url_to_fs(f"{runs_uri.rstrip('/')}/{pipeline}")
    return [window for window, _ in _windows(fs, path)]


def run_ids(runs_uri: str, pipeline: str, window: Window) -> list[str]:
    """Return the ids of the runs over exactly this window, the last one last. Raises OSError."""
    fs, path = fsspec.core.url_to_fs(
        f"{runs_uri.rstrip('/')}/{pipeline}/{RunFolder.name_of(window.start, window.end)}"
    )
    return sorted(_names(fs, path))


def run_folders(
    runs_uri: str, pipeline: str, wanted: Callable[[Window], bool]
) -> list[tuple[Window, str, str]]:
    """Return the runs of a pipeline over the wanted windows: window, run id, and folder as a URL,
    by run id, and so by time. Empty if there are none; raises OSError."""
    root = f"{runs_uri.rstrip('/')}/{pipeline}"
    fs, path = fsspec.core.url_to_fs(root)
    windows = [(window, name) for window, name in _windows(fs, path) if wanted(window)]
    with runtime.ThreadPoolExecutor(_AT_ONCE) as pool:
        ids = pool.map(lambda found: _names(fs, f"{path}/{found[1]}"), windows)
        runs = [
            (window, run, f"{root}/{name}/{run}")
            for (window, name), found in zip(windows, ids, strict=True)
            for run in found
        ]
    return sorted(runs, key=lambda run: run[1])


def _windows(fs: Any, path: str) -> list[tuple[Window, str]]:
    return [(window, name) for name in _names(fs, path) if (window := RunFolder.window_of(name))]


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
    that are asked about, which is why the larger results, too, of the runs from the first of them
    to ``end`` are read."""
    if not windows:
        return RetryExclusions(frozenset(), {}, {})
    runs = window_runs(runs_uri, pipeline, clusters, min(window.start for window in windows), end)
    fs, path = fsspec.core.url_to_fs(f"{runs_uri.rstrip('/')}/{pipeline}")
    failed: dict[str, set[Window]] = {}
    tried: dict[str, set[str]] = {}
    done: dict[str, list[WindowRun]] = {cluster: [] for cluster in clusters}
    for run in reversed(runs):
        folder = f"{path}/{run.folder}"
        for cluster in clusters:
            if run.passed(cluster):
                done[cluster].append(run)
                continue
            ship = _find(fs, f"{folder}/ship.{cluster}.json", run.run_id, _LeftShip)
            if ship is None or ship.status != "failed" or not ship.final:
                continue
            failed.setdefault(cluster, set()).update(
                window
                for window in windows
                if contains(run.window, window) and not _since(done[cluster], window)
            )
            plan = _find(fs, f"{folder}/plan.json", run.run_id, _LeftPlan)
            tried.setdefault(cluster, set()).update(
                file.path
                for file in (plan.files if plan else ())
                if file.late_window
                and cluster in file.late_for
                and not _since(done[cluster], parse_window(file.late_window))
            )
    closed = frozenset(window for window in windows if _is_closed(window, runs))
    return RetryExclusions(closed, _frozen(failed), _frozen(tried))


def _since(later: Sequence[WindowRun], window: Window) -> bool:
    """Return True if one of the runs, all of which passed, covered the whole window."""
    return any(contains(run.window, window) for run in later)


def _frozen(found: Mapping[str, set[T]]) -> dict[str, frozenset[T]]:
    return {cluster: frozenset(some) for cluster, some in found.items()}


def _is_closed(window: Window, runs: Sequence[WindowRun]) -> bool:
    over = [run for run in runs if run.source_closed is not None and contains(run.window, window)]
    return bool(over and over[-1].source_closed)


_known: dict[tuple[str, type], Any] | None = None


@contextlib.contextmanager
def looked_at_once() -> Iterator[None]:
    """List no folder twice, and read no gate's result twice, within the block. For one thread's
    block, in which nothing of it changes."""
    global _known
    _known = {}
    try:
        yield
    finally:
        _known = None


def _once(path: str, kind: type, look: Callable[[], T]) -> T:
    if _known is None:
        return look()
    if (path, kind) not in _known:
        _known[path, kind] = look()
    return cast("T", _known[path, kind])


def _names(fs: Any, path: str) -> Sequence[str]:
    """Return the names in a folder; none if there is no such folder."""
    return _once(path, list, lambda: names_in(fs, path))


def _read(
    fs: Any, folder: str, window: Window, run_id: str, clusters: Collection[str]
) -> WindowRun:
    source = _find(fs, f"{folder}/gate_source.json", run_id, GateResult)
    gates = {
        name: _find(fs, f"{folder}/gate_delivery.{name}.json", run_id, DeliveryGateResult)
        for name in clusters
    }
    passed = {
        name
        for name, gate in gates.items()
        if gate and gate.coverage and gate.status != "failed" and not was_repeated(gate, source)
    }
    others = {*(source.asked.other_clusters if source and source.asked else ())}
    # The plan names every file, so it is read only where it tells more than the gates.
    plan = None
    if not passed.union(others).issuperset(clusters):
        plan = _find(fs, f"{folder}/plan.json", run_id, PlanResult)
    if plan and plan.asked:
        others = {*plan.asked.other_clusters}
    run, seen = RunSeen(window, run_id), dict[str, Sequence[RunSeen]]()
    for name in clusters:
        if name not in others:
            ship = None
            if name not in passed:
                ship = _find(fs, f"{folder}/ship.{name}.json", run_id, _LeftShip)
            lost = ship.recreated if ship else ()
            seen[name] = attempts(run, name, plan, source, gates[name], lost)
    return WindowRun(window, run_id, source_closed(source), seen)


def _find(fs: Any, path: str, run_id: str, kind: type[S]) -> S | None:
    if issubclass(kind, GateResult):
        return _once(path, kind, lambda: _parsed(fs, path, run_id, kind))
    return _parsed(fs, path, run_id, kind)


def _parsed(fs: Any, path: str, run_id: str, kind: type[S]) -> S | None:
    try:
        found = cast("S", kind.model_validate_json(bytes(fs.cat_file(path)), extra="ignore"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValidationError) as error:
        log.warning("%s is skipped: it is not a readable result (%s)", path, type(error).__name__)
        return None
    return found if found.run_id == run_id else None
