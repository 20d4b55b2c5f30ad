"""Window expressions: the forms in which a person may name a window.

Stored windows (ledger, results) have one form, which :func:`shipper.windows.window.parse_window`
reads. Pure, except for the clock if ``now`` is not given.
"""

from __future__ import annotations

import datetime as dt
import re
from zoneinfo import ZoneInfo

from shipper import runtime
from shipper.errors import WindowError
from shipper.windows.window import YEARS, Window, beyond_dates, parse_moment, parse_window

FORMS = (
    "START/END, START/PT1H, PT1H/END, a day (2026-11-01), an hour (2026-11-01T06), `yesterday`, "
    "`last hour`, `last 6 hours` or `last 7 days`"
)
"""Accepted forms, for help texts and errors."""

_DURATION = re.compile(
    r"P(?=.)(?:(\d+)W)?(?:(\d+)D)?(?:T(?=.)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?", re.IGNORECASE
)
_IN_SECONDS = (7 * 86_400, 86_400, 3600, 60, 1)
_HOUR = re.compile(r"[^T ]+[T ]\d\d(?:Z|[+-]\d\d(?::?\d\d)?)?", re.IGNORECASE)
_WEEK = re.compile(r"\d{4}-?W\d\d", re.IGNORECASE)
_LAST = re.compile(r"last (?:(\d{1,5}) )?(hour|day)s?")
_ONE_HOUR, _ONE_DAY = dt.timedelta(hours=1), dt.timedelta(days=1)


def parse_expression(text: str, zone: str = "UTC", now: dt.datetime | None = None) -> Window:
    """Return the window that ``text`` names, in one of :data:`FORMS`.

    Dates and times without an offset are UTC. Relative words (`yesterday`, `last 6 hours`) mean
    whole days and hours that have ended by ``now``, on the clock of ``zone``, an IANA name; ``now``
    is UTC, by default this moment. Raises WindowError.
    """
    words = " ".join(text.split())
    try:
        window = _relative(words, zone, now or runtime.now()) or _absolute(words)
    except OverflowError:
        raise beyond_dates(text) from None
    if window.start.year not in YEARS or window.end.year not in YEARS:
        raise beyond_dates(text)
    if window.start.microsecond or window.end.microsecond:
        # The names of windows, in results and in the ledger, have none.
        raise WindowError(f"{text!r} has a fraction of a second. Write whole seconds.")
    return window


def _absolute(text: str) -> Window:
    start, slash, end = (part.strip() for part in text.partition("/"))
    if not slash:
        return _whole_unit(text)
    from_start, from_end = _duration(start), _duration(end)
    if from_start is not None and from_end is not None:
        raise WindowError(f"{text!r} has two lengths and no moment. Write START/PT1H or PT1H/END.")
    if from_end is not None:
        return Window(moment := parse_moment(start), moment + from_end)
    if from_start is not None:
        return Window((moment := parse_moment(end)) - from_start, moment)
    return parse_window(text)


def is_relative(text: str) -> bool:
    """Return True if ``text`` depends on the present time and on a time zone."""
    return _last(text) is not None


def _last(text: str) -> re.Match[str] | None:
    words = " ".join(text.lower().split())
    return _LAST.fullmatch("last day" if words == "yesterday" else words)


def _relative(words: str, zone: str, now: dt.datetime) -> Window | None:
    """Return the relative window; None if ``words`` are not one."""
    found = _last(words)
    if found is None:
        return None
    count = int(found[1] or 1)
    if not count:
        raise WindowError(
            f"{words!r} is empty. Write `last hour`, `last 2 hours`, ….", code="SHIP-222"
        )
    local = now.astimezone(ZoneInfo(zone))
    hour = local.replace(minute=0, second=0, microsecond=0)  # keeps the fold
    if found[2] == "hour":
        end = hour.astimezone(dt.UTC)
        return Window(end - count * _ONE_HOUR, end)
    today = hour.replace(hour=0, fold=0)
    return Window((today - count * _ONE_DAY).astimezone(dt.UTC), today.astimezone(dt.UTC))


def _whole_unit(text: str) -> Window:
    """Return the day or the hour that ``text`` names."""
    try:
        day = dt.date.fromisoformat(text)
    except ValueError:
        pass
    else:
        if _WEEK.fullmatch(text):  # which Python takes for its Monday
            raise WindowError(f"{text!r} is a week. Write {day}/P1W.")
        start = parse_moment(text)
        return Window(start, start + _ONE_DAY)
    try:
        start = parse_moment(text)
    except WindowError:
        raise WindowError(f"{text!r} is not a window. Write {FORMS}.") from None
    if not _HOUR.fullmatch(text):
        raise WindowError(
            f"{text!r} is a moment, not a window. Write {text}/PT1H, or an hour as 2026-11-01T06."
        )
    return Window(start, start + _ONE_HOUR)


def _duration(text: str) -> dt.timedelta | None:
    """Return the length that ``text``, an ISO 8601 duration such as ``PT1H`` or ``P1DT6H``, names;
    None if ``text`` is not a duration. Raises WindowError for one whose length depends on the
    calendar."""
    if text[:1].upper() != "P":
        return None
    found = _DURATION.fullmatch(text)
    if found is None:
        raise WindowError(
            f"{text!r} is not a length of time. Write PT30M, PT1H, P1D or P1W. Months and "
            "years differ in length: for these write START/END."
        )
    counts = (int(count or 0) for count in found.groups())
    return dt.timedelta(
        seconds=sum(count * unit for count, unit in zip(counts, _IN_SECONDS, strict=True))
    )
