"""Which window a run ships."""

import datetime as dt

import pytest

from shipper.config.schedule import Schedule
from shipper.errors import WindowError
from shipper.windows.window import Window
from shipper_airflow.run_window import opens_at, window_of_run

HOURLY = Schedule(cron="0 * * * *")
NONE = None, None
SIX, SEVEN = (dt.datetime(2026, 11, 1, hour, tzinfo=dt.UTC) for hour in (6, 7))


def of_run(start, end, interval):
    return window_of_run(None, 600, run(interval, window_start=start, window_end=end))


def run(interval=NONE, asked_at=SEVEN, *, at=None, key=None, **conf):
    return {
        "data_interval_start": interval[0],
        "data_interval_end": interval[1],
        "run_after": asked_at,
        "logical_date": at,
        "partition_key": key,
        "conf": conf,
    }


def test_params_come_before_the_data_interval():
    window = of_run("2026-10-01T00:00:00Z", "2026-10-02T00:00:00Z", (SIX, SEVEN))
    assert str(window) == "2026-10-01T00:00:00Z/2026-10-02T00:00:00Z"


def test_without_params_it_is_the_data_interval():
    window = of_run(None, None, (SIX, SEVEN))
    assert (window.start, window.end) == (SIX, SEVEN)


def test_an_offset_is_turned_into_utc():
    window = of_run("2026-11-01T07:00:00+01:00", "2026-11-01T08:00:00+01:00", NONE)
    assert (window.start, window.end) == (SIX, SEVEN)
    assert window.start.tzinfo is dt.UTC


@pytest.mark.parametrize(
    ("start", "end", "interval", "says"),
    [
        (None, None, NONE, "no data interval"),
        (None, None, (SIX, SIX), "SHIP-224"),
        ("2026-11-01", None, (SIX, SEVEN), "window_end is missing"),
        (None, "2026-11-01", (SIX, SEVEN), "window_start is missing"),
        ("2026-11-01", "2026-11-01", NONE, "empty"),
        ("2026-11-02", "2026-11-01", NONE, "ends"),
        ("yesterday", "2026-11-01", NONE, "yesterday"),
    ],
)
def test_no_window_is_a_clear_error(start, end, interval, says):
    with pytest.raises(WindowError, match=says):
        of_run(start, end, interval)


def test_a_partition_key_names_its_window_and_nothing_else():
    assert window_of_run(HOURLY, 600, run(key="2026-11-01T06:00:00")).start == SIX
    for key in ("2026-11-01T06:30:00", "2026-11-01", "six"):
        with pytest.raises(WindowError, match=r"key|date"):
            window_of_run(HOURLY, 600, run(key=key))


@pytest.mark.parametrize(
    ("interval", "asked_at"), [((SEVEN, SEVEN), None), (NONE, SEVEN + dt.timedelta(minutes=10))]
)
def test_without_both_it_is_the_schedules_window_that_had_settled_last(interval, asked_at):
    assert window_of_run(HOURLY, 600, run(interval, asked_at)) == Window(SIX, SEVEN)
    if asked_at:
        before = asked_at - dt.timedelta(seconds=1)
        assert window_of_run(HOURLY, 600, run(interval, before)).end == SIX


def test_a_window_opens_when_its_last_files_have_settled():
    window = of_run(None, None, (SIX, SEVEN))
    assert opens_at(window, 600) == SEVEN + dt.timedelta(minutes=10)


@pytest.mark.parametrize(
    ("logical_date", "start"), [(SIX, SIX), (SEVEN, SEVEN), (SIX + dt.timedelta(minutes=1), SEVEN)]
)
def test_a_logical_date_on_a_tick_holds_where_airflow_goes_by_the_moment_of_the_call(
    logical_date, start
):
    """`airflow dags trigger --logical-date`, at eight minutes past eight."""
    hour = dt.timedelta(hours=1)
    now = SEVEN + hour + dt.timedelta(minutes=8)
    found = window_of_run(HOURLY, 600, run((SEVEN, SEVEN + hour), now, at=logical_date))
    assert found == Window(start, start + hour)
