"""Which window a run ships: the one it was asked for, or else its data interval."""

from __future__ import annotations

import datetime as dt

from shipper.errors import WindowError
from shipper.plan.window import Window, parse_moment

_REMEDY = 'trigger it with {"window_start": "2026-11-01T06:00:00Z", "window_end": "2026-11-01T07:00:00Z"}'


def resolve_window(start: str | None, end: str | None, interval: tuple[dt.datetime, dt.datetime] | None) -> Window:
    """Params before interval. Raises WindowError when there is neither, or half of the one, or when it is empty."""
    if bool(start) != bool(end):
        given, missing = ("window_start", "window_end") if start else ("window_end", "window_start")
        raise WindowError(f"{given} is given and {missing} is not: a window needs both, or none to take the data interval")
    if start and end:
        return Window(parse_moment(start), parse_moment(end))
    if interval is None:
        raise WindowError(f"this run has no window: a run without a logical date has no data interval; {_REMEDY}")
    first, last = (moment.astimezone(dt.UTC) for moment in interval)
    if first == last:
        raise WindowError(f"this run has no window: the pipeline has no schedule to take a data interval from; {_REMEDY}")
    return Window(first, last)
