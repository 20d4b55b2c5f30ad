"""Which window a run ships: the one it was asked for, or else its data interval."""

from __future__ import annotations

import datetime as dt

from shipper.errors import WindowError
from shipper.windows.window import Window, parse_moment

_REMEDY = 'trigger it with {"window_start": "2026-11-01T06:00:00Z", "window_end": "2026-11-01T07:00:00Z"}'


def opens_at(window: Window, settle_seconds: float) -> dt.datetime:
    """When the last file that belongs to a window has settled: a run that plans earlier would leave it out, and the next
    window's run, which looks into other folders, would not find it."""
    return window.end + dt.timedelta(seconds=settle_seconds)


def resolve_window(start: str | None, end: str | None, interval: tuple[dt.datetime, dt.datetime] | None) -> Window:
    """Params before interval. Raises WindowError when there is neither, or half of the one, or when it is empty."""
    if bool(start) != bool(end):
        given, missing = ("window_start", "window_end") if start else ("window_end", "window_start")
        raise WindowError(f"{given} is given and {missing} is not: a window needs both, or none to take the data interval")
    if start and end:
        return Window(parse_moment(start), parse_moment(end))
    if interval is None:
        raise WindowError(f"this run has no window: a run without a logical date has no data interval; {_REMEDY}")
    # Airflow's moments are pendulum's, which lose their zone when a timedelta is added to a converted one.
    first, last = (dt.datetime.fromtimestamp(moment.timestamp(), dt.UTC) for moment in interval)
    if first == last:
        raise WindowError(f"this run has no window: the pipeline has no schedule to take a data interval from; {_REMEDY}")
    return Window(first, last)
