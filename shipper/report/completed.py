"""Windows of the schedule that a run has completed on a cluster: the partitions that its delivery
gate tells others. The fold of a window's state decides (:mod:`shipper.report.window_state`)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence

from shipper.config.pipeline import Pipeline
from shipper.report.coverage import tick_of, tick_window
from shipper.report.incomplete import REPORT_WINDOWS, RecordsByDay, on_cluster
from shipper.report.plan_result import PlanResult
from shipper.report.results import CompleteWindow, DeliveryGateResult, FileAccount, ShipResult
from shipper.report.window_records import read_records, records_of
from shipper.report.window_state import contains, window_state
from shipper.windows.ticks import Ticks
from shipper.windows.window import Window


def completed(
    runs_uri: str,
    pipeline: Pipeline,
    gate: DeliveryGateResult,
    files: Mapping[str, Sequence[FileAccount]],
) -> list[CompleteWindow]:
    """Return the windows that are complete with a gate that has passed: those of the run's own
    window, and those before it that were not complete without this run, or to which it sent late
    files. Of the ones before it the newest 200 are looked at, and each with late files. ``files``:
    see :func:`files_by_tick`. A pipeline without schedule has the run's own window alone. Raises
    OSError."""
    news = records_of(gate)
    if gate.coverage is None or not news:
        return []
    own = gate.window
    ticks = _ticks(pipeline, own, gate.coverage.start, map(tick_window, files))
    kept = read_records(
        runs_uri, pipeline.key, min((tick.start for tick in ticks), default=own.end)
    )
    # An earlier attempt of this run may have ended before anybody was told. And who accepts a
    # window tells nobody: the next run does.
    others = [one for one in kept if one.run_id != gate.run_id]
    passed = [one.finished for one in others if one.passed and one.is_about(gate.cluster)]
    told = max(passed, default=gate.started_at)
    before = RecordsByDay(one for one in others if not (one.accepted and one.at > told))
    after = RecordsByDay([*kept, *news])
    found = []
    for tick in ticks:
        of_tick = [each for at in files if contains(tick, tick_window(at)) for each in files[at]]
        sent = sum(each.delivered for each in of_tick)
        is_news = sent or contains(own, tick) or not _is_complete(tick, before, gate.cluster)
        if is_news and _is_complete(tick, after, gate.cluster):
            there = sent + sum(each.before for each in of_tick)
            found.append(CompleteWindow(start=tick.start, end=tick.end, records=there, sent=sent))
    return found


def files_by_tick(plan: PlanResult, shipped: ShipResult) -> dict[str, list[FileAccount]]:
    """Return START/END of a tick → its files that were in the run's plan."""
    ticks = {file.path: tick_of(file, plan) for file in plan.files}
    found: dict[str, list[FileAccount]] = {}
    for file in shipped.files:
        if tick := ticks.get(file.path):
            found.setdefault(tick, []).append(file)
    return found


def _ticks(
    pipeline: Pipeline, own: Window, looked: dt.datetime, late: Iterable[Window]
) -> Sequence[Window]:
    if pipeline.schedule is None:
        return [own]
    found = list(Ticks(pipeline.schedule).windows(min(looked, own.start), own.end))
    wanted = {*found[-REPORT_WINDOWS:], *late}
    return [tick for tick in found if tick in wanted or contains(own, tick)]


def _is_complete(tick: Window, records: RecordsByDay, cluster: str) -> bool:
    found = window_state(tick, on_cluster(records.over(tick), cluster))
    return found is not None and found.complete
