"""Which windows Airflow makes runs for: none is left out; and that shipper counts the same ones without Airflow."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pendulum
import pytest
from dag_world import Config
from test_dag_bag import bag, serialized

from shipper.config.schedule import Schedule
from shipper.windows.schedule import Ticks
from shipper.windows.window import Window

pytestmark = [pytest.mark.airflow, pytest.mark.usefixtures("airflow")]

HOUR = dt.timedelta(hours=1)
NOW = dt.datetime(2026, 11, 22, 6, 46, tzinfo=dt.UTC)
THIS_HOUR = NOW.replace(minute=0)


@pytest.fixture(autouse=True)
def at_a_quarter_to_seven(monkeypatch: pytest.MonkeyPatch, airflow: Path) -> None:
    from airflow.timetables import interval

    monkeypatch.setattr(interval, "utcnow", lambda: pendulum.instance(NOW))


def runs_due(config: Config, schedule: str, last_end: dt.datetime | None) -> list[tuple[dt.datetime, dt.datetime]]:
    """The runs that a scheduler makes now, one after the other, after one whose window ended at ``last_end``; by the DAG as it is stored."""
    from airflow.serialization.serialized_objects import DagSerialization
    from airflow.timetables.base import DataInterval

    config.pipeline("web", schedule=schedule)
    dag = DagSerialization.deserialize_dag(serialized(bag().dags["web"]))
    last = last_end and DataInterval(pendulum.instance(last_end - HOUR), pendulum.instance(last_end))
    found: list[Any] = []
    while True:
        info = dag.timetable.next_dagrun_info(last_automated_data_interval=last, restriction=dag._time_restriction)
        if info is None or info.run_after > NOW or len(found) > 100:
            return [(interval.start, interval.end) for interval in found]
        last = info.data_interval
        found.append(last)


@pytest.mark.parametrize("schedule", ['"0 * * * *"', '{cron: "0 * * * *", start: 2026-01-01}'])
def test_after_an_outage_of_six_hours_six_windows_are_run_in_order(config: Config, schedule: str) -> None:
    due = runs_due(config, schedule, last_end=THIS_HOUR - 6 * HOUR)
    assert due == [(THIS_HOUR - n * HOUR, THIS_HOUR - (n - 1) * HOUR) for n in range(6, 0, -1)]


def test_without_a_start_the_first_window_is_the_latest_that_has_closed(config: Config) -> None:
    assert runs_due(config, '"0 * * * *"', last_end=None) == [(THIS_HOUR - HOUR, THIS_HOUR)]


def test_with_a_start_the_first_window_is_that(config: Config) -> None:
    start = THIS_HOUR - 3 * HOUR
    due = runs_due(config, f'{{cron: "0 * * * *", start: "{start.isoformat()}"}}', last_end=None)
    assert [begin for begin, _ in due] == [start, start + HOUR, start + 2 * HOUR]


def test_who_does_not_want_to_catch_up_gets_the_latest_window_only(config: Config) -> None:
    due = runs_due(config, '{cron: "0 * * * *", catchup: false}', last_end=THIS_HOUR - 6 * HOUR)
    assert due == [(THIS_HOUR - HOUR, THIS_HOUR)]


def test_a_schedule_that_needs_the_plugin_says_so_where_it_is_not(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shipper_factory.build.entry_points", lambda **_: ())
    config.pipeline("web", schedule='"0 * * * *"')
    config.pipeline("app")
    dags = bag().dags
    assert "install shipper" in dags["web"].doc_md
    assert "broken-config" not in dags["app"].tags


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata"])
@pytest.mark.parametrize(
    "cron",
    ["0 * * * *", "*/15 * * * *", "30 2 * * *", "0 0 * * *", "0 3,15 * * *", "0 */2 * * *", "@weekly", "0 0 1 * *", "@quarterly"],
)
def test_shipper_counts_the_windows_that_airflow_makes(cron: str, zone: str) -> None:
    """Over both nights of the year on which clocks are changed."""
    from airflow.timetables.interval import CronDataIntervalTimetable

    theirs, ours = CronDataIntervalTimetable(cron, timezone=zone), Ticks(Schedule(cron=cron, timezone=zone))
    for month, day in ((3, 6), (3, 28), (4, 3), (9, 26), (10, 2), (10, 24), (10, 31)):
        start = dt.datetime(2026, month, day, 5, 7, tzinfo=dt.UTC)
        end = start + dt.timedelta(days=3)
        found, tick = [], theirs._align_to_prev(pendulum.instance(start))
        while tick < end:
            found.append(Window(tick, theirs._get_next(tick)))
            tick = theirs._get_next(tick)
        assert list(ours.windows(start, end)) == found
