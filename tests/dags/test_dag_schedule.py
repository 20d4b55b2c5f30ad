"""Which windows Airflow makes runs for: none is left out; and that shipper counts the same ones
without Airflow."""

import datetime as dt
from copy import deepcopy
from itertools import pairwise
from zoneinfo import ZoneInfo

import pendulum
import pytest
from sqlalchemy import delete, select
from test_dag_bag import bag, serialized

from shipper.config.schedule import Schedule
from shipper.windows.ticks import Ticks
from shipper.windows.window import Window
from shipper_airflow.run_window import window_of_run

pytestmark = [pytest.mark.airflow, pytest.mark.usefixtures("airflow")]

DAY, HOUR, MINUTE = dt.timedelta(days=1), dt.timedelta(hours=1), dt.timedelta(minutes=1)
SETTLE = dt.timedelta(minutes=10)
NOW = dt.datetime(2026, 11, 22, 6, 46, tzinfo=dt.UTC)
THIS_HOUR = NOW.replace(minute=0)


@pytest.fixture(autouse=True)
def at_a_quarter_to_seven(monkeypatch, airflow):
    monkeypatch.setattr("shipper_airflow.timetable._now", lambda: pendulum.instance(NOW))


#: Name and schedule → the DAG as Airflow stores it: each is parsed once.
_STORED = {}


def stored_dag(config, schedule, name="web"):
    """The DAG as the scheduler has it."""
    from airflow.serialization.serialized_objects import DagSerialization

    if (name, schedule) not in _STORED:
        config.pipeline(name, schedule=schedule)
        _STORED[name, schedule] = serialized(bag().dags[name])
    return DagSerialization.deserialize_dag(deepcopy(_STORED[name, schedule]))


def runs_due(config, schedule, last_end):
    """Windows of the runs that a scheduler makes now, in order, after one whose window ended at
    ``last_end``; by the DAG as it is stored."""
    *due, _ = upcoming(config, schedule, last_end)
    return [(info.data_interval.start, info.data_interval.end) for info in due]


def upcoming(config, schedule, last_end, width=HOUR):
    """Those, and the one after them, for which it is too early."""
    from airflow.timetables.base import DataInterval

    dag = stored_dag(config, schedule)
    last = last_end and DataInterval(
        pendulum.instance(last_end - width), pendulum.instance(last_end)
    )
    found = []
    while True:
        info = dag.timetable.next_dagrun_info(
            last_automated_data_interval=last, restriction=dag._time_restriction
        )
        found.append(info)
        if info.run_after > NOW or len(found) > 101:
            return found
        last = info.data_interval


@pytest.mark.parametrize(
    "schedule",
    [
        '"0 * * * *"',
        '{cron: "0 * * * *", start: 2026-01-01}',
        '{cron: "0 * * * *", catchup: false}',
    ],
)
def test_a_run_begins_when_the_files_of_its_window_have_settled(config, schedule):
    """By the default of `source.settle`, ten minutes. So no task has to wait."""
    due, next_one = upcoming(config, schedule, last_end=THIS_HOUR - HOUR)
    assert (due.data_interval.end, due.run_after) == (THIS_HOUR, THIS_HOUR + SETTLE)
    assert (next_one.data_interval.end, next_one.run_after) == (
        THIS_HOUR + HOUR,
        THIS_HOUR + HOUR + SETTLE,
    )


@pytest.mark.parametrize("schedule", ['"0 * * * *"', '{cron: "0 * * * *", start: 2026-01-01}'])
def test_a_backfill_is_named_by_the_ends_of_its_windows_and_does_not_wait_for_them(
    config, schedule
):
    """Airflow names its runs by the moment after which they begin."""
    dag = stored_dag(config, schedule)
    found = list(dag.iter_dagrun_infos_between(THIS_HOUR - 3 * HOUR, THIS_HOUR - 2 * HOUR))
    assert (
        [info.run_after for info in found]
        == [info.data_interval.end for info in found]
        == [THIS_HOUR - 2 * HOUR, THIS_HOUR - HOUR]
    )


def keep_runs(session, first, runs, name="web"):
    """Keep runs over the hours that begin so many hours after ``first``."""
    from airflow.models.dagrun import DagRun
    from airflow.utils.types import DagRunTriggeredByType

    for at, kind in runs:
        start = pendulum.instance(first + at * HOUR)
        session.add(
            DagRun(
                dag_id=name,
                run_id=f"{kind}{at}",
                run_type=kind,
                logical_date=start,
                data_interval=(start, start + HOUR),
                run_after=start + HOUR,
                triggered_by=DagRunTriggeredByType.TIMETABLE,
            )
        )
    session.flush()


@pytest.mark.parametrize("schedule", ['"0 * * * *"', '{cron: "0 * * * *", start: 2026-01-01}'])
@pytest.mark.parametrize("kind", ["backfill", "manual"])
@pytest.mark.parametrize(
    ("others", "goes_on_at"),
    [([], 2), ([4, 5], 2), ([2, 3], 4), ([2, 4], 3), ([0], 2)],
    ids=["none", "ahead", "next to it", "with a hole", "behind"],
)
def test_other_runs_ahead_of_a_schedule_that_is_held_up_leave_no_window_out(
    config, schedule, kind, others, goes_on_at
):
    """Airflow goes on behind the latest run of a schedule or a backfill, and never passes a tick
    that a manual run has."""
    from airflow.dag_processing.collection import _RunInfo
    from airflow.models.dag import DagModel
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from airflow.utils.types import DagRunType

    dag = stored_dag(config, schedule)
    first = pendulum.instance(THIS_HOUR - 12 * HOUR)
    with create_session() as session:
        runs = [(1, DagRunType.SCHEDULED), *((at, DagRunType(kind)) for at in others)]
        keep_runs(session, first, runs)
        latest = _RunInfo.calculate(dag, session=session).latest_run
        # As the scheduler meets a run that is there already.
        for reference in (latest, *session.scalars(select(DagRun).where(DagRun.dag_id == "web"))):
            model = DagModel(dag_id="web")
            model.calculate_dagrun_date_fields(dag, reference_run=reference)
            assert model.next_dagrun == first + goes_on_at * HOUR
        session.rollback()


@pytest.mark.parametrize(
    ("schedule", "last", "taken", "goes_on_at"),
    [
        (f'{{cron: "0 * * * *", start: "{THIS_HOUR - 12 * HOUR}"}}', None, [0, 1], 2),
        ('"0 * * * *"', None, [11], 12),
        ('{cron: "0 * * * *", catchup: false}', 3, [11], 12),
        ('{cron: "0 * * * *", catchup: false}', 11, [12, 13], 14),
        ('"0 * * * *"', 11, [12, 13], 14),
    ],
    ids=["the first", "the latest", "after a skip", "the one under way", "of the future"],
)
def test_a_tick_whose_logical_date_is_taken_is_passed_over(
    config, schedule, last, taken, goes_on_at
):
    """The scheduler asks for the run after the one that it meets in its way. The timetable looks
    in the database by a session of its own, so what stands there has a name that no other test
    has, and is removed."""
    from airflow.models.dag import DagModel
    from airflow.models.dagbundle import DagBundleModel
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from airflow.utils.types import DagRunType

    dag, first = stored_dag(config, schedule, "taken"), THIS_HOUR - 12 * HOUR
    with create_session() as session:
        keep_runs(session, first, [(at, DagRunType.MANUAL) for at in taken], "taken")
        if last is not None:
            keep_runs(session, first, [(last, DagRunType.SCHEDULED)], "taken")
        session.merge(DagBundleModel(name="dags-folder"))
        session.flush()
        model = DagModel(dag_id="taken", bundle_name="dags-folder")
        model.next_dagrun = pendulum.instance(first + taken[0] * HOUR)
        session.add(model)
        session.flush()
        in_the_way = session.scalar(
            select(DagRun).where(DagRun.dag_id == "taken", DagRun.logical_date == model.next_dagrun)
        )
        model.calculate_dagrun_date_fields(dag, reference_run=in_the_way)
        next_one = model.next_dagrun
        session.rollback()
        session.execute(delete(DagRun).where(DagRun.dag_id == "taken"))
        session.execute(delete(DagModel).where(DagModel.dag_id == "taken"))
    assert next_one == first + goes_on_at * HOUR


@pytest.mark.parametrize("schedule", ['"* * * * *"', '{cron: "* * * * *", catchup: false}'])
def test_windows_that_are_shorter_than_settle_are_run_as_well(config, schedule):
    """Airflow computes the next run anew at each parse: each time, one must be due."""
    settled = NOW - SETTLE
    first, second = upcoming(config, schedule, last_end=None, width=MINUTE)
    assert (first.data_interval.end, first.run_after) == (settled, NOW)
    assert second.data_interval == (settled, settled + MINUTE)
    again, _ = upcoming(config, schedule, last_end=settled - MINUTE, width=MINUTE)
    assert again == first


@pytest.mark.parametrize("schedule", ['"0 * * * *"', '{cron: "0 * * * *", start: 2026-01-01}'])
def test_after_an_outage_of_six_hours_six_windows_are_run_in_order(config, schedule):
    due = runs_due(config, schedule, last_end=THIS_HOUR - 6 * HOUR)
    assert due == [(THIS_HOUR - n * HOUR, THIS_HOUR - (n - 1) * HOUR) for n in range(6, 0, -1)]


@pytest.mark.parametrize(
    ("schedule", "last_end", "windows"),
    [
        ('"0 * * * *"', None, 1),
        (f'{{cron: "0 * * * *", start: "{THIS_HOUR - 3 * HOUR}"}}', None, 3),
        ('{cron: "0 * * * *", catchup: false}', THIS_HOUR - 6 * HOUR, 1),
    ],
    ids=["no start", "from the start on", "without catchup"],
)
def test_which_closed_windows_are_due_at_first(config, schedule, last_end, windows):
    due = runs_due(config, schedule, last_end)
    assert due == [
        (THIS_HOUR - n * HOUR, THIS_HOUR - (n - 1) * HOUR) for n in range(windows, 0, -1)
    ]


@pytest.mark.parametrize(
    ("behind", "windows"), [(1, [1]), (6, [6]), (30, [24, 6])], ids=["no", "6 hours", "a day"]
)
def test_windows_that_are_behind_are_taken_together_up_to_a_day(config, behind, windows):
    together = '{cron: "0 * * * *", catchup: together}'
    due = runs_due(config, together, last_end=THIS_HOUR - behind * HOUR)
    assert [(end - start).total_seconds() / 3600 for start, end in due] == windows
    assert due[-1][1] == THIS_HOUR


def test_a_run_over_windows_together_is_followed_by_the_window_behind_them(config):
    """The scheduler asks with the run that it has just made, whose logical date is still the next
    one of the DAG."""
    from airflow.models.dag import DagModel
    from airflow.models.dagbundle import DagBundleModel
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from airflow.utils.types import DagRunType

    dag = stored_dag(config, '{cron: "0 * * * *", catchup: together}', "together")
    with create_session() as session:
        session.merge(DagBundleModel(name="dags-folder"))
        keep_runs(session, THIS_HOUR, [(-6, DagRunType.SCHEDULED)], "together")
        made = session.scalar(select(DagRun).where(DagRun.dag_id == "together"))
        made.data_interval_end, made.partition_key = THIS_HOUR, "2026-11-22T00:00:00"
        model = DagModel(dag_id="together", bundle_name="dags-folder")
        model.next_dagrun = made.logical_date
        session.add(model)
        session.flush()
        model.calculate_dagrun_date_fields(dag, reference_run=made)
        found = model.next_dagrun, model.next_dagrun_partition_key
        session.rollback()
    assert found == (THIS_HOUR, f"{THIS_HOUR:%Y-%m-%dT%H:%M:%S}")


MINUTES = ["0", "30", "*/15", "*/20", "*/7", "15,45"]
HOURS = ["*", "2", "1-3", "*/2", "1,2", "2,3", "0-5", "*/5"]
#: Each of the hours with two of the minutes.
CRONS = [f"{MINUTES[(n + m) % 6]} {hours} * * *" for n, hours in enumerate(HOURS) for m in (0, 2)]
BERLIN = "cron: '{cron}', timezone: Europe/Berlin"


@pytest.mark.parametrize(
    ("night", "hours"), [("2026-03-29", [24, 23, 24]), ("2026-10-25", [24, 25, 24])]
)
@pytest.mark.parametrize("at", [dt.time(0), dt.time(2, 30)])
def test_a_day_is_as_long_as_it_is_there(config, night, hours, at):
    """Also where it begins at half past two, which is not there in spring and there twice in
    autumn."""
    zone = ZoneInfo("Europe/Berlin")
    day = dt.datetime.combine(
        dt.date.fromisoformat(night) - dt.timedelta(days=1 if at == dt.time(0) else 2), at, zone
    )
    due = runs_due(
        config,
        f"{{{BERLIN.format(cron=f'{at.minute} {at.hour} * * *')}}}",
        last_end=day.astimezone(dt.UTC),
    )
    found = [(end - begin).total_seconds() / 3600 for begin, end in due[:4]]
    assert all(end == begin for (_, end), (begin, _) in pairwise(due)), (
        "each begins where the one before it ends"
    )
    assert sum(found) == sum(hours) + 24
    assert at != dt.time(0) or found[:3] == hours


@pytest.mark.parametrize("cron", ["0 * * * *", "0 0 * * *", "30 2 * * *"])
def test_a_run_by_hand_ships_the_same_window_with_a_logical_date_and_without_one(config, cron):
    """Every half hour of both days on which clocks are changed, and of those around them."""
    timetable = stored_dag(config, f"{{{BERLIN.format(cron=cron)}}}").timetable
    of = Schedule(cron=cron, timezone="Europe/Berlin")
    for night in ("2026-03-29", "2026-10-25"):
        for half_hours in range(120):
            moment = dt.datetime.fromisoformat(f"{night}T00:01Z") + (half_hours - 24) * HOUR / 2
            theirs = timetable.infer_manual_data_interval(run_after=pendulum.instance(moment))
            ours = Ticks(of).last_closed(moment)
            assert ours.end <= moment < Ticks(of).after(ours.end), moment
            run = {"data_interval_start": theirs.start, "data_interval_end": theirs.end}
            assert ours == window_of_run(of, 0, run), moment


def test_a_logical_date_on_a_tick_names_the_window_that_begins_there(config):
    """As it does in a scheduled run and in a backfill."""
    found = stored_dag(config, '"0 * * * *"').timetable.infer_manual_data_interval(
        run_after=pendulum.instance(THIS_HOUR)
    )
    assert (found.start, found.end) == (THIS_HOUR, THIS_HOUR + HOUR)


@pytest.mark.parametrize("cron", CRONS)
def test_away_from_changes_of_clocks_windows_are_those_of_airflows_own_cron(cron):
    from airflow.timetables.interval import CronDataIntervalTimetable

    for zone in ("UTC", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata"):
        theirs = CronDataIntervalTimetable(cron, timezone=zone)
        start = dt.datetime(2026, 5, 30, 5, 7, tzinfo=dt.UTC)
        tick, found = theirs._align_to_prev(pendulum.instance(start)), []
        while tick < start + 2 * DAY:
            found.append(Window(tick, theirs._get_next(tick)))
            tick = found[-1].end
        ticks = Ticks(Schedule(cron=cron, timezone=zone))
        assert list(ticks.windows(start, start + 2 * DAY)) == found


CHANGES = {
    "Europe/Berlin": ["2026-03-29", "2026-10-25"],
    "America/New_York": ["2026-03-08", "2026-11-01"],
    "America/Santiago": ["2026-04-05", "2026-09-06"],
    "Australia/Lord_Howe": ["2026-04-05", "2026-10-04"],
}


@pytest.mark.parametrize("night", [(zone, day) for zone in CHANGES for day in CHANGES[zone]])
def test_around_a_change_of_clocks_the_scheduler_makes_each_window_of_the_ticks(night):
    from airflow.timetables.base import DataInterval, TimeRestriction

    from shipper_airflow.timetable import Windows

    zone, day = night
    noon = dt.datetime.fromisoformat(f"{day}T12:00Z")
    for cron in CRONS:
        timetable = Windows(cron, zone, 600.0)
        ours = list(Ticks(Schedule(cron=cron, timezone=zone)).windows(noon - DAY, noon + DAY))
        last = DataInterval(pendulum.instance(ours[0].start), pendulum.instance(ours[0].end))
        found = ours[:1]
        while len(found) < len(ours):
            last = timetable.next_dagrun_info(
                last_automated_data_interval=last, restriction=TimeRestriction(None, None, True)
            ).data_interval
            found.append(Window(last.start, last.end))
        assert found == ours, cron


@pytest.mark.parametrize("cron", ["0 2 * * *", "30 2 * * *", "15 1-3 * * *", "0 0,2,3 * * *"])
@pytest.mark.parametrize("kind", ["without catchup", "no start, first run"])
def test_on_the_day_of_a_change_the_latest_settled_window_is_due(cron, kind, monkeypatch):
    from airflow.timetables.base import TimeRestriction

    from shipper_airflow.timetable import Windows

    for zone, days in CHANGES.items():
        ticks = Ticks(Schedule(cron=cron, timezone=zone))
        timetable = Windows(cron, zone, 600.0, every=kind != "without catchup")
        for hours in range(48):
            now = dt.datetime.fromisoformat(f"{days[0]}T00:13Z") + hours * HOUR
            monkeypatch.setattr(
                "shipper_airflow.timetable._now", lambda now=now: pendulum.instance(now)
            )
            due = timetable.next_dagrun_info(
                last_automated_data_interval=None, restriction=TimeRestriction(None, None, False)
            ).data_interval
            assert Window(due.start, due.end) == ticks.last_closed(now - SETTLE), (zone, now)
