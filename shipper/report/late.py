"""Windows that are not delivered in time, notices sent about them, and how fresh a cluster is: from
the results of runs.

A late window is told once, by the first that notices it: Airflow while its run is at it, the report
of a later run, which looks back, or `shipper gaps --alert`. To let the others know, the sender
writes a file, ``{runs_uri}/{pipeline}/told/{start}--{end}.{event}``, after the notice. So a failed
notifier is tried again, and a process that dies in between leads to a second notice rather than to
none.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import Literal

from shipper.config.pipeline import Pipeline
from shipper.config.schedule import Schedule
from shipper.config.units import format_duration, plural
from shipper.report.coverage import committed_at
from shipper.report.incomplete import merged, on_cluster
from shipper.report.markup import window as in_words
from shipper.report.message import one_sentence
from shipper.report.past_runs import run_ids, window_names
from shipper.report.results import Gap, RunReport
from shipper.report.run_folder import RunFolder, names_in
from shipper.report.window_records import WindowRecord, read_records
from shipper.report.window_state import window_state
from shipper.runner import REPORT
from shipper.whole_files import file_system, read_text, remove, write_whole
from shipper.windows.ticks import Ticks
from shipper.windows.window import Window, parse_window

Event = Literal["late", "failure", "trouble", "standstill", "gap"]
#: Number of the newest windows that are checked, step by step, for a complete one. Beyond the last
#: nothing is known.
_LOOKED_AT = (0, 3, 20, 200)
_MOST_LINES = 20
"""Lines of one notice, at most."""


class Told:
    """Record of the late windows of a pipeline for which a notice was sent. Raises OSError where
    the files cannot be reached."""

    def __init__(self, runs_uri: str, pipeline: str) -> None:
        self._uri = f"{runs_uri.rstrip('/')}/{pipeline}/told"

    def of(self, event: Event) -> set[Window]:
        fs, path = file_system(self._uri)
        fs.invalidate_cache()
        found = (
            RunFolder.window_of(name.removesuffix(f".{event}"))
            for name in names_in(fs, path)
            if name.endswith(f".{event}")
        )
        return {window for window in found if window}

    def why(self, event: Event, window: Window) -> str | None:
        """Return the reason that was told with the event; None if the event was not told, or
        without a reason."""
        lines = (read_text(self._file(event, window)) or "").splitlines()
        return "\n".join(lines[1:]) or None

    def add(
        self, event: Event, windows: Collection[Window], at: dt.datetime, why: str = ""
    ) -> None:
        for window in windows:
            write_whole(self._file(event, window), f"{at.isoformat()}\n{why}")

    def forget(self, event: Event, window: Window) -> None:
        """Tell the event again if it happens again."""
        remove(self._file(event, window))

    def _file(self, event: Event, window: Window) -> str:
        return f"{self._uri}/{RunFolder.name_of(window)}.{event}"


def due(
    schedule: Schedule, settle_seconds: float, window: Window, since: dt.datetime | None
) -> dt.datetime:
    """Return the deadline of the window: by `deliver_within`; without it, when its files have
    settled and the window's length has passed again. It counts from the window's end; of a window
    that ended before the schedule's first run began (``since``), from that moment."""
    within = schedule.deliver_within_seconds
    patience = (
        settle_seconds + (window.end - window.start).total_seconds() if within is None else within
    )
    return max(window.end, since or window.end) + dt.timedelta(seconds=patience)


def late_after(schedule: Schedule, window: Window, since: dt.datetime | None) -> dt.datetime | None:
    """Return the moment after which a record of the window is late; None: none ever is. Nobody
    waited for a window that ended before the schedule's first run began (``since``)."""
    within = schedule.deliver_within_seconds
    if within is None or (since and window.end <= since):
        return None
    return window.end + dt.timedelta(seconds=within)


def overdue(
    pipeline: Pipeline, gaps: Collection[Gap], since: dt.datetime | None, now: dt.datetime
) -> list[Gap]:
    """Return the gaps that are overdue. None without a schedule. ``since``: see :func:`due`."""
    schedule, settle = pipeline.schedule, pipeline.source.settle_seconds
    return [
        gap
        for gap in gaps
        if schedule and due(schedule, settle, parse_window(gap.window), since) <= now
    ]


def windows_of(gaps: Collection[Gap]) -> list[Window]:
    """Return the windows of gaps, each once, oldest first."""
    return sorted({parse_window(gap.window) for gap in gaps}, key=lambda window: window.start)


def missing_in_words(gaps: Sequence[Gap]) -> str:
    """Return ``Late: 3 windows of the schedule are not complete``."""
    count = len(windows_of(gaps))
    return (
        f"Late: {plural(count, 'window')} of the schedule {'is' if count == 1 else 'are'} not "
        "complete"
    )


def causes(runs_uri: str, pipeline: str, gaps: Sequence[Gap]) -> list[str]:
    """Return a line for each stretch of windows with one reason: cluster, windows, reason. Of the
    first window whose run failed, what its report says."""
    lines, asked = [], False
    for gap in merged(gaps):
        window, why = parse_window(gap.window), gap.why
        if not asked and gap.windows == 1 and (cause := _first_cause(runs_uri, pipeline, window)):
            why, asked = f"{why}: {cause}", True
        many = f" ({plural(gap.windows, 'window')})" if gap.windows > 1 else ""
        lines.append(f"{gap.cluster}: {in_words(window.start, window.end)}{many}: {why}")
    return [
        *lines[:_MOST_LINES],
        *([f"… and {len(lines) - _MOST_LINES:,} more"] if lines[_MOST_LINES:] else []),
    ]


def _first_cause(runs_uri: str, pipeline: str, window: Window) -> str | None:
    folder = newest(runs_uri, pipeline, window)
    report = folder.glance(REPORT, RunReport) if folder else None
    return one_sentence(report.error) if report and report.error else None


def newest(runs_uri: str, pipeline: str, window: Window) -> RunFolder | None:
    """Return the folder of the window's last run; None if none has begun. Raises OSError."""
    ids = run_ids(runs_uri, pipeline, window)
    return RunFolder(runs_uri, pipeline, window, ids[-1]) if ids else None


def delivered_late(
    pipeline: Pipeline, window: Window, report: RunReport, since: dt.datetime | None
) -> str | None:
    """Return the notice of a window of the schedule that this run delivered late, by the commit
    time of its last record; None if it was in time, or there is no record. ``since``: see
    :func:`late_after`."""
    moments = [committed_at(gate.coverage, window) for gate in report.delivery_gates]
    at = max(filter(None, moments), default=None)
    limit = late_after(pipeline.schedule, window, since) if pipeline.schedule else None
    if at is None or limit is None or at <= limit:
        return None
    took, within = (format_duration((one - window.end).total_seconds()) for one in (at, limit))
    return f"Late: delivered {took} after its window closed, not within {within}"


def window_before(pipeline: Pipeline, window: Window) -> Window | None:
    """Return the schedule's window before this one."""
    return Ticks(pipeline.schedule).last_closed(window.start) if pipeline.schedule else None


def fresh_until(
    runs_uri: str, pipeline: str, clusters: Collection[str], now: dt.datetime
) -> dict[str, dt.datetime]:
    """Return cluster → end of the latest window that is over and complete, as far as runs know; of
    one with left-out files, of the part before them. A cluster that has none of the newest 200
    windows is left out. Raises OSError."""
    windows = sorted(
        (found for found in window_names(runs_uri, pipeline) if found.end <= now),
        key=lambda found: found.end,
    )
    found: dict[str, dt.datetime] = {}
    for skipped, most in pairwise(_LOOKED_AT):
        some = windows[-most : max(0, len(windows) - skipped)]
        lacking = [name for name in clusters if name not in found]
        if not some or not lacking:
            break
        start = min(window.start for window in some)
        records = [
            record for record in read_records(runs_uri, pipeline, start, now) if record.until <= now
        ]
        for name in lacking:
            seen = on_cluster(records, name)
            windows_there = {
                Window(record.window_start, record.until)
                for record in seen
                if record.passed and record.start and record.until > record.window_start
            }
            ends = [_there_until(window, seen) for window in windows_there if window.end > start]
            if latest := max((end for end in ends if end), default=None):
                found[name] = latest
    return found


def _there_until(window: Window, seen: Sequence[WindowRecord]) -> dt.datetime | None:
    """Return the end of the last part of ``window`` that is there; None if there is none."""
    state = window_state(window, seen)
    if state is None or not (state.complete or state.left):
        return None
    end = window.end
    for tick in sorted(
        (parse_window(note.window) for note in state.left),
        key=lambda tick: tick.end,
        reverse=True,
    ):
        if tick.end < end:
            break
        end = min(end, tick.start)
    return end if end > window.start else None
