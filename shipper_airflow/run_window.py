"""The window that a DAG run ships: for its first task, for notices and for the page, by what
Airflow knows of the run. Imports no Airflow."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

from shipper.config.schedule import Schedule
from shipper.errors import WindowError
from shipper.windows.ticks import Ticks
from shipper.windows.window import Window, parse_moment, partition_key


def opens_at(window: Window, settle_seconds: float) -> dt.datetime:
    """Return when the last file that belongs to a window has settled: a run that plans earlier
    would leave it out, and the next window's run, which looks into other folders, would not find
    it."""
    return window.end + dt.timedelta(seconds=settle_seconds)


def window_of_run(
    schedule: Schedule | None,
    settle_seconds: float,
    run: object,
    params: Mapping[str, Any] | None = None,
) -> Window:
    """Return the window that a DAG run ships: the one that it was asked for, by its moments or its
    partition key, else its data interval, else the schedule's window that had settled last when it
    was asked for.

    ``run``: Airflow's DAG run, of the database, of a task or as a mapping; ``params``: what the
    task was asked for, if that is not the run's conf. The answer is the same however often the run
    is cleared. Raises WindowError if the run has no window, half of one, or an empty one."""
    asked = params if params is not None else _fact(run, "conf") or {}
    start, end = asked.get("window_start"), asked.get("window_end")
    if bool(start) != bool(end):
        given, missing = ("window_start", "window_end") if start else ("window_end", "window_start")
        raise WindowError(
            f"{given} is given and {missing} is missing. A window needs both, or neither to "
            "use the data interval.",
            code="SHIP-224",
        )
    if start and end:
        return Window(parse_moment(start), parse_moment(end))
    if key := _fact(run, "partition_key"):
        return _window_of_key(schedule, key)
    opens, closes, asked_at, logical_date = (
        _moment(run, name)
        for name in ("data_interval_start", "data_interval_end", "run_after", "logical_date")
    )
    if opens and closes and opens < closes:
        found = Window(opens, closes)
        # `airflow dags trigger --logical-date` gives the interval of the moment of the call.
        if schedule and logical_date and asked_at:
            ticks = Ticks(schedule)
            named = ticks.window_of(logical_date)
            if found == ticks.named_by(asked_at) and named.start == logical_date:
                return named
        return found
    # Airflow's plain cron schedules, and its others on the day on which clocks skip their hour,
    # give a run by hand an interval that ends where it begins; meant is the window that ends there.
    settled = closes if opens else asked_at and asked_at - dt.timedelta(seconds=settle_seconds)
    if schedule and settled:
        return Ticks(schedule).last_closed(settled)
    raise WindowError(
        "this run has no window: it has no data interval, or an empty one as with Airflow's plain "
        "cron schedules, and the pipeline has no `schedule`. Give the DAG a "
        "CronDataIntervalTimetable, give `window_start` and `window_end` (both may be "
        'templates), or trigger it with {"window_start": "2026-11-01T06:00:00Z", "window_end": '
        '"2026-11-01T07:00:00Z"}.',
        code="SHIP-224",
    )


def _window_of_key(schedule: Schedule | None, key: str) -> Window:
    window = Ticks(schedule).window_of(parse_moment(key)) if schedule else None
    if window is None or partition_key(window.start) != key:
        begins = f"A window begins at {partition_key(window.start)}. " if window else ""
        raise WindowError(
            f"the run's partition key {key!r} names no window of the pipeline's schedule. {begins}"
            "Trigger the DAG with the begin of a window in UTC, or with `window_start` and "
            "`window_end`.",
            code="SHIP-224",
        )
    return window


def _fact(run: object, name: str) -> Any:
    return run.get(name) if isinstance(run, Mapping) else getattr(run, name, None)


def _moment(run: object, name: str) -> dt.datetime | None:
    """Return a moment of the run, which is a text in a mapping."""
    at = _fact(run, name)
    return in_utc(dt.datetime.fromisoformat(at) if isinstance(at, str) else at) if at else None


def in_utc(moment: dt.datetime) -> dt.datetime:
    """Convert a moment to UTC. Airflow's moments are pendulum's, which lose their zone when a
    timedelta is added to a converted one."""
    return dt.datetime.fromtimestamp(moment.timestamp(), dt.UTC)
