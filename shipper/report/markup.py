"""Figures, times and lists in words, the same on pages, in messages and in the terminal."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from shipper.config.units import format_duration, utc


def words(names: Sequence[str]) -> str:
    """Return ``["a", "b", "c"]`` as ``"a, b and c"``."""
    return " and ".join([*([", ".join(names[:-1])] if names[1:] else []), *names[-1:]])


def clock(at: dt.datetime) -> str:
    """Return ``"11:00"``, or ``"11:00:07"`` if the seconds are not zero."""
    at = utc(at)
    return f"{at:%H:%M:%S}" if at.second else f"{at:%H:%M}"


def moment(at: dt.datetime) -> str:
    """Return ``"2026-11-21 11:00:07 UTC"``."""
    return f"{utc(at):%Y-%m-%d %H:%M:%S} UTC"


def duration(start: dt.datetime, end: dt.datetime) -> str:
    """Return ``"1m5s"``; 0 if the clocks of two machines disagree."""
    return format_duration(max(0.0, (utc(end) - utc(start)).total_seconds()))


def window(start: dt.datetime, end: dt.datetime) -> str:
    """Return ``"2026-11-21 11:00–12:00 UTC"``; with both dates if they differ."""
    start, end = utc(start), utc(end)
    if start.date() == end.date():
        return f"{start:%Y-%m-%d} {clock(start)}–{clock(end)} UTC"
    return f"{start:%Y-%m-%d} {clock(start)} – {end:%Y-%m-%d} {clock(end)} UTC"
