import datetime as dt
import string

import pytest
from croniter import croniter
from hypothesis import given
from hypothesis import strategies as st

from shipper.config.rules import CRON_PRESETS, check_source_placeholders
from shipper.config.schedule import Schedule
from shipper.errors import WindowError
from shipper.windows.ticks import Ticks
from shipper.windows.window import Window, parse_window, source_paths, to_ms

HOUR = dt.timedelta(hours=1)
hours = st.integers(0, 24 * 60).map(lambda n: dt.datetime(2026, 2, 20, tzinfo=dt.UTC) + n * HOUR)


@given(
    st.datetimes(dt.datetime(1960, 1, 1), dt.datetime(2100, 1, 1), timezones=st.just(dt.UTC)),
    st.integers(-2, 2),
)
def test_a_time_in_milliseconds_lies_in_the_window_that_holds_its_moment(border, more):
    ms = to_ms(border) + more
    moment = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=ms)
    assert (ms < to_ms(border)) == (moment < border)


accepted = (
    st.lists(
        st.sampled_from(
            [
                "%Y",
                "%m",
                "%d",
                "%j",
                "%H",
                "%M",
                "%-m",
                "%-d",
                "%-j",
                "%-H",
                "%-M",
                "-",
                "/",
                "hour=",
            ]
        ),
        min_size=1,
        max_size=8,
    )
    .map("".join)
    .filter(lambda pattern: "%" in pattern)
)


@given(accepted, hours, st.integers(0, 59), st.integers(1, 3000))
def test_the_folders_of_a_wide_window_are_the_union_over_its_minutes(
    pattern, hour, minute, minutes
):
    start = hour + dt.timedelta(minutes=minute)
    path = f"logs/{{window_start:{pattern}}}/"
    check_source_placeholders(path)
    window = Window(start, start + dt.timedelta(minutes=minutes))
    every_minute = [
        (start + dt.timedelta(minutes=n)).strftime(f"logs/{pattern}/") for n in range(minutes)
    ]
    assert source_paths(path, window) == list(dict.fromkeys(every_minute))


@given(
    st.sampled_from(["%S", "%-S", "%-M-%S", "%H/%-S"]),
    hours,
    st.integers(0, 3599),
    st.integers(1, 300),
)
def test_folders_by_the_second_are_the_union_over_the_seconds(pattern, hour, second, seconds):
    start = hour + dt.timedelta(seconds=second)
    path = f"logs/{{window_start:{pattern}}}/"
    check_source_placeholders(path)
    every_second = [
        (start + dt.timedelta(seconds=n)).strftime(f"logs/{pattern}/") for n in range(seconds)
    ]
    assert source_paths(path, Window(start, start + dt.timedelta(seconds=seconds))) == list(
        dict.fromkeys(every_second)
    )


@pytest.mark.parametrize(
    "directive",
    [*sorted(set(string.ascii_letters) - set("YmdjHMS")), "_H", "OH", "0d", "%", "-k", "^Y", ""],
)
def test_what_has_no_known_step_is_refused(directive):
    with pytest.raises(ValueError, match="is not known here"):
        check_source_placeholders(f"logs/{{window_start:%Y-%{directive}}}/")


def test_a_path_without_placeholders_is_one_folder():
    assert source_paths("/var/log", parse_window("2026-11-01/2026-11-02")) == ["/var/log"]


def test_window_end_is_filled_in_as_it_is():
    assert source_paths("{window_end:%Y%m%d}", parse_window("2026-11-01/2026-11-03")) == [
        "20261103"
    ]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("2026-11-01T06:00/2026-11-01T06:00", "empty"),
        ("2026-11-01T07:00/2026-11-01T06:00", "before it starts"),
        ("2026-11-01", "START/END"),
        ("yesterday/today", "not a date or time"),
    ],
)
def test_a_window_that_is_none_says_why(text, says):
    with pytest.raises(WindowError, match=says):
        parse_window(text)


def test_too_many_folders_are_refused():
    with pytest.raises(WindowError, match="more than"):
        source_paths("{window_start:%Y%m%d%H%M%S}", parse_window("2026-01-01/2026-12-01"))


#: A schedule that fires in every hour goes by elapsed time, as Airflow has it: where clocks are
#: changed by half an hour that is no order.
BY_THE_CLOCK = ["30 2 * * *", "0 0 * * *", "15,45 1-3 * * *", "0 */2 * * *", "10 2 * * 0"]
SCHEDULES = [
    (zone, cron)
    for zone in ("Europe/Berlin", "America/New_York")
    for cron in (*BY_THE_CLOCK, "0 * * * *", "*/20 * * * *")
]
SCHEDULES += [
    (zone, cron)
    for zone in ("Australia/Lord_Howe", "Africa/Casablanca", "America/St_Johns")
    for cron in BY_THE_CLOCK
]
moments = st.datetimes(
    dt.datetime(2026, 3, 1), dt.datetime(2026, 11, 10), timezones=st.just(dt.UTC)
)


@given(
    st.sampled_from(
        ["* * * * *", "*/7 1,23 * * *", "50-10 22-2 * * *", "0 0 13 * 5", "9 * l * *", "@weekly"]
    ),
    moments,
)
def test_without_changes_of_clocks_ticks_are_those_of_the_expression(cron, moment):
    ticks, times = Ticks(Schedule(cron=cron)), croniter(CRON_PRESETS.get(cron, cron))
    assert ticks.after(moment) == times.get_next(dt.datetime, start_time=moment)
    whole = moment.replace(microsecond=0)
    moment = whole if moment == whole else whole + dt.timedelta(seconds=1)
    assert ticks.before(moment) == times.get_prev(dt.datetime, start_time=moment)


def test_windows_of_a_day_ask_the_expression_a_few_times(monkeypatch):
    """It takes 80 µs to answer, and `gaps` may look at years of minutes."""
    asked, get_next = [], croniter.get_next
    monkeypatch.setattr(
        croniter, "get_next", lambda *of, **by: asked.append(of) or get_next(*of, **by)
    )
    start = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)
    ticks = Ticks(Schedule(cron="* * * * *"))
    assert len([*ticks.windows(start, start + 3 * 24 * HOUR)]) == 3 * 1440
    assert 0 < len(asked) < 20


@given(st.sampled_from(SCHEDULES), moments)
def test_a_tick_before_is_before_and_one_after_is_after(schedule, moment):
    ticks = Ticks(Schedule(timezone=schedule[0], cron=schedule[1]))
    assert ticks.before(moment) < moment < ticks.after(moment)
    assert ticks.window_of(moment).start <= moment < ticks.window_of(moment).end


NIGHTS = {
    "Europe/Berlin": ["2026-03-29", "2026-10-25"],
    "Australia/Lord_Howe": ["2026-10-03", "2026-04-04"],
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("zone", "cron"), [schedule for schedule in SCHEDULES if schedule[0] in NIGHTS]
)
def test_every_moment_of_the_nights_on_which_clocks_are_changed_is_in_one_window(zone, cron):
    ticks = Ticks(Schedule(cron=cron, timezone=zone))
    for night in NIGHTS[zone]:
        begin = dt.datetime.fromisoformat(f"{night}T00:00Z") - 12 * HOUR
        windows = list(ticks.windows(begin, begin + 36 * HOUR))
        for minutes in range(0, 36 * 60, 15):
            moment = begin + dt.timedelta(minutes=minutes)
            [holds] = [window for window in windows if window.start <= moment < window.end]
            assert ticks.window_of(moment) == holds
            within = moment + dt.timedelta(seconds=0.5)
            assert ticks.after(within) == ticks.after(moment)
            assert ticks.before(within) == ticks.before(moment + dt.timedelta(seconds=1))
