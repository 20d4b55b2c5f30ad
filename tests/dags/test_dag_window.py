"""Which window a run ships."""

from __future__ import annotations

import datetime as dt

import pytest
from shipper_factory.graph import opens_at, resolve_window

from shipper.errors import WindowError

SIX, SEVEN = (dt.datetime(2026, 11, 1, hour, tzinfo=dt.UTC) for hour in (6, 7))


def test_params_come_before_the_data_interval() -> None:
    window = resolve_window("2026-10-01T00:00:00Z", "2026-10-02T00:00:00Z", (SIX, SEVEN))
    assert str(window) == "2026-10-01T00:00:00Z/2026-10-02T00:00:00Z"


def test_without_params_it_is_the_data_interval() -> None:
    window = resolve_window(None, None, (SIX, SEVEN))
    assert (window.start, window.end) == (SIX, SEVEN)


def test_an_offset_is_turned_into_utc() -> None:
    window = resolve_window("2026-11-01T07:00:00+01:00", "2026-11-01T08:00:00+01:00", None)
    assert (window.start, window.end) == (SIX, SEVEN)
    assert window.start.tzinfo is dt.UTC


@pytest.mark.parametrize(
    ("start", "end", "interval", "says"),
    [
        (None, None, None, "no data interval"),
        (None, None, (SIX, SIX), "no schedule"),
        ("2026-11-01", None, (SIX, SEVEN), "window_end is not"),
        (None, "2026-11-01", (SIX, SEVEN), "window_start is not"),
        ("2026-11-01", "2026-11-01", None, "empty"),
        ("2026-11-02", "2026-11-01", None, "ends"),
        ("yesterday", "2026-11-01", None, "yesterday"),
    ],
)
def test_no_window_is_a_clear_error(
    start: str | None, end: str | None, interval: tuple[dt.datetime, dt.datetime] | None, says: str
) -> None:
    with pytest.raises(WindowError, match=says):
        resolve_window(start, end, interval)


def test_a_window_opens_when_its_last_files_have_settled():
    window = resolve_window(None, None, (SIX, SEVEN))
    assert opens_at(window, 600) == SEVEN + dt.timedelta(minutes=10)
