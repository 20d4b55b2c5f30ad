"""Windows: half-open UTC intervals, and the folders that a source pattern names for one."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass

from shipper.config.rules import step_seconds
from shipper.config.units import utc
from shipper.errors import WindowError

_PLACEHOLDER = re.compile(r"\{(window_start|window_end):([^}]*)\}")
MAX_FOLDERS = 100_000
#: Python's dates and shipper's names of folders end somewhat before and after these.
YEARS = range(1900, 9900)
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@dataclass(frozen=True)
class Window:
    """[start, end), both in UTC. Never empty."""

    start: dt.datetime
    end: dt.datetime

    def __post_init__(self) -> None:
        if self.end == self.start:
            raise WindowError(
                f"the window is empty: it starts and ends at {self.start.isoformat()}. Write "
                "START/END with a start before the end.",
                code="SHIP-222",
            )
        if self.end < self.start:
            raise WindowError(
                f"the window ends ({self.end.isoformat()}) before it starts "
                f"({self.start.isoformat()}). Swap the two.",
                code="SHIP-222",
            )

    def __str__(self) -> str:
        return f"{self.start:%Y-%m-%dT%H:%M:%SZ}/{self.end:%Y-%m-%dT%H:%M:%SZ}"


def to_ms(moment: dt.datetime) -> int:
    """Return milliseconds since the epoch, rounded up: an event in a whole millisecond happened
    before ``moment`` exactly if its number is smaller."""
    return -((_EPOCH - moment) // dt.timedelta(milliseconds=1))


def parse_moment(text: str) -> dt.datetime:
    """Parse an ISO 8601 date or date-time; without an offset it is UTC. Raises WindowError."""
    try:
        moment = dt.datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise WindowError(
            f"{text!r} is not a date or time. Write 2026-11-01, 2026-11-01T06:00 or "
            "2026-11-01T06:00+01:00."
        ) from error
    if moment.year not in YEARS:
        raise beyond_dates(text)
    return utc(moment)


def beyond_dates(text: str) -> WindowError:
    return WindowError(f"{text!r} lies beyond the range of dates. Shorten it.")


def partition_key(start: dt.datetime) -> str:
    """Return the key of the window that begins at ``start``, in the form that Airflow's own
    timetables write and its mappers read; in UTC, in which every hour has a name of its own."""
    return f"{start.astimezone(dt.UTC):%Y-%m-%dT%H:%M:%S}"


def parse_window(text: str) -> Window:
    """Parse ``START/END``. Raises WindowError."""
    start, slash, end = text.partition("/")
    if not slash:
        raise WindowError(
            f"{text!r} is not a window. Write START/END, for example "
            "2026-11-01T06:00/2026-11-01T07:00."
        )
    return Window(parse_moment(start), parse_moment(end))


def literal(path: str) -> str:
    """Return the pattern that names ``path`` and nothing else."""
    return re.sub(r"[\\*?\[\]{}]", r"\\\g<0>", path)


def source_root(pattern: str) -> str:
    """Return the folder before the first placeholder or glob of a source's pattern; the pattern
    itself if it has none. With a slash; empty if not even the bucket's name is fixed."""
    fixed = re.match(r"[^{*?\[\\]*", pattern)
    root = fixed[0] if fixed else ""
    folder = pattern.rstrip("/") + "/" if root == pattern else root[: root.rfind("/") + 1]
    return "" if folder.endswith("://") else folder


def source_paths(pattern: str, window: Window, end: dt.datetime | None = None) -> list[str]:
    """Return the folders or globs that ``pattern`` names for ``window``, in time order, each once.

    ``{window_start:%Y/%m/%d/%H}`` is filled in for every hour that the window touches, since hours
    are the finest unit in it; so a backfill over one wide window reads every folder that the hourly
    runs would have read. ``{window_end:…}`` is ``end``, by default the window's: of a window of
    several ticks see :class:`shipper.windows.folders.TickFolders`. Raises WindowError beyond
    100,000 folders, and ValueError for a pattern that ``validate`` would have refused.
    """
    starts = [fmt for name, fmt in _PLACEHOLDER.findall(pattern) if name == "window_start"]
    moments = [window.start]
    if starts:
        step = dt.timedelta(seconds=min(step_seconds(fmt) for fmt in starts))
        if (window.end - window.start) / step > MAX_FOLDERS:
            raise WindowError(
                f"window {window} names more than {MAX_FOLDERS} folders of {pattern}. Use a "
                "shorter window.",
                code="SHIP-223",
            )
        first = _EPOCH + (window.start - _EPOCH) // step * step
        count = -((first - window.end) // step)
        moments = [first + i * step for i in range(count)]

    def fill(moment: dt.datetime) -> str:
        return _PLACEHOLDER.sub(
            lambda m: (moment if m[1] == "window_start" else end or window.end).strftime(m[2]),
            pattern,
        )

    return list(dict.fromkeys(fill(moment) for moment in moments))
