"""What the index of the Shipments page says of a window, by the runs over it, in whatever order
their records come."""

import json
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from shipper.config.environment import EVERYTHING
from shipper.config.load import load_pipeline
from shipper.driver.context import RunContext
from shipper.driver.run import run_step
from shipper.errors import ConfigError
from shipper.report.run_folder import RunFolder
from shipper.report.window_state import STATES
from shipper.request import RunRequest
from shipper.runner import REPORT
from shipper.shipments.feed import index_path, look, look_is_due
from shipper.shipments.grid import _FINDING, DAY, grid
from shipper.shipments.index import Index, IndexUnusable
from shipper.shipments.view import cells
from shipper.windows.window import Window
from spark_jobs.spark_engine import SparkEngine
from tests.samples.shipments import START, World, at, run_report, seconds


@pytest.fixture
def world(tmp_path):
    world = World(tmp_path)
    world.pipeline()
    world.beginning()
    return world


def shown(index, start, end, now, cluster="", name="web"):
    """The row of a pipeline."""
    known = [one for one in index.pipelines() if one.pipeline == name]
    (row,) = grid(index, known, (start, end), now, cluster=cluster)["rows"]
    return row


def states(world, hours, now=None, cluster="", name="web"):
    """Of the first windows, hour by hour, as the page paints them: what comes later lies above."""
    at_now = seconds(now if now is not None else hours)
    with Index(world.index) as index:
        row = shown(index, seconds(0), seconds(hours), at_now, cluster, name)
    painted = ["never"] * int(hours)
    for start, end, state in sorted(cells(row["segments"]), key=lambda cell: cell[0] - cell[1]):
        for hour in range((start - seconds(0)) // 3600, (end - seconds(0)) // 3600):
            if 0 <= hour < hours:
                painted[hour] = STATES[state]
    return painted


def test_a_window_shows_the_worst_of_its_clusters_and_each_cluster_its_own(world):
    world.feed(run_report(0), run_report(1, failed=("far",)))
    assert states(world, 2) == ["shipped", "failed"]
    assert states(world, 2, cluster="near") == ["shipped", "shipped"]
    assert states(world, 2, cluster="far") == ["shipped", "failed"]


def test_a_pipeline_without_a_schedule_misses_nothing(world):
    world.write(
        "pipelines/hand.yaml", "pipeline: hand\nsource: logs/\ntopic: t\nclusters: [near]\n"
    )
    world.feed(run_report(2, name="hand", clusters=("near",)))
    assert states(world, 5, name="hand") == ["never", "never", "shipped", "never", "never"]


def test_a_cluster_that_no_run_was_for_misses_the_window(world):
    world.feed(run_report(0, clusters=("near",), others=("far",)))
    assert states(world, 1, now=9) == ["missing"]
    assert states(world, 1, now=9, cluster="near") == ["shipped"]


def test_a_dry_run_leaves_the_window_as_it_was(world):
    world.feed(run_report(0, failed=("near",)))
    dry = run_report(0, "dry", after=3)
    for part in (dry, dry.plan):
        part.asked = RunRequest(plan_only=True)
    dry.gate_source, dry.ships, dry.delivery_gates = None, [], []
    world.feed(dry)
    assert states(world, 1, now=4) == ["failed"]


def test_the_index_is_made_anew_from_the_records_alone(world):
    world.feed(
        run_report(0),
        run_report(1, failed=("far",)),
        run_report(2, "r3", looks_back=2),
        run_report(4, closed=True),
    )
    before = states(world, 6, now=9)
    world.index.unlink()
    done = look(world.config)
    # Of a run that shipped to all clusters its report has all that its other steps noted.
    assert (done.pipelines, done.files, done.problems) == (1, 1 + 5 + 1 + 3, [])
    assert (
        states(world, 6, now=9)
        == before
        == ["shipped", "shipped", "shipped", "missing", "blocked", "missing"]
    )


def test_the_platform_says_where_the_index_lies(world):
    assert index_path(world.config) == world.index
    world.write("shipper.yaml", "index: /var/lib/shipper/i.sqlite\n")
    assert index_path(world.config) == Path("/var/lib/shipper/i.sqlite")
    world.write("shipper.yaml", "index: s3a://bucket/i.sqlite\n")
    with pytest.raises(ConfigError, match=r"shipper.yaml:1.*is a file on a disk of this machine"):
        index_path(world.config)


def test_a_window_that_is_too_old_leaves_the_index_and_is_not_missing(world, monkeypatch):
    monkeypatch.setattr("shipper.shipments.feed.runtime.now", lambda: at(33 * 24))
    world.write("shipper.yaml", "keep: 30d\n")
    world.feed(run_report(0), run_report(1, failed=("far",)), run_report(32 * 24))
    with Index(world.index) as index:
        for table in ("records", "cells"):
            rows = index.db.execute(f"SELECT DISTINCT start FROM {table}").fetchall()
            assert rows == [(seconds(32 * 24),)], table
        row = shown(index, seconds(0), seconds(33 * 24), seconds(33 * 24))
    assert min(start for start, *_ in row["segments"]) >= seconds(24)


def test_a_file_that_is_no_index_is_named_with_the_remedy(world):
    world.index.parent.mkdir(exist_ok=True)
    world.index.write_text("this is a log file, and longer than SQLite's header is: " * 3)
    with pytest.raises(IndexUnusable, match=r"shipments.sqlite cannot be used: .*SHIP-901"):
        world.feed(run_report(0))


def test_an_index_of_another_version_is_made_again(world):
    world.feed(world.report(0))
    with sqlite3.connect(world.index) as db:
        db.execute("PRAGMA user_version = 1")
        db.execute("ALTER TABLE cells DROP COLUMN complete")
    with pytest.raises(IndexUnusable, match="SHIP-901"):
        Index(world.index)
    assert look(world.config).files == 1
    assert states(world, 1) == ["shipped"]


def test_the_database_of_another_program_stays_as_it_is(world):
    world.index.parent.mkdir(exist_ok=True)
    with sqlite3.connect(world.index) as db:
        db.execute("CREATE TABLE dag (dag_id TEXT)")
    with pytest.raises(IndexUnusable, match=r"another program.*SHIP-901"):
        world.feed(run_report(0))
    with sqlite3.connect(world.index) as db:
        assert db.execute("SELECT name FROM sqlite_schema").fetchall() == [("dag",)]


def test_a_look_finds_new_records_and_leaves_old_days_to_the_daily_one(world, monkeypatch):
    """Runs on other machines leave their records in runs_uri alone."""
    monkeypatch.setattr("shipper.shipments.feed.runtime.now", lambda: at(49))
    now = seconds(49)
    assert look_is_due(world.config, now) is True
    look(world.config)
    assert look_is_due(world.config, now + 10) is None
    assert look_is_due(world.config, now + 15) is False
    world.report(0, "r1", failed=("far",))
    world.report(47, "r1")
    assert look(world.config, whole=False).files == 1
    assert states(world, 48)[0::47] == ["missing", "shipped"]
    assert look(world.config, whole=True).files == 5
    assert states(world, 48)[0::47] == ["failed", "shipped"]
    with Index(world.index) as index:
        (whole,) = index.db.execute("SELECT whole FROM looked").fetchone()
    assert look_is_due(world.config, whole + 80_000) is False
    assert look_is_due(world.config, whole + 90_000) is True


def test_a_record_that_cannot_be_read_is_named_and_the_others_are_read(world):
    world.report(0)
    world.report(1)
    (file,) = world.runs.glob("web/windows/*/20261101T000000Z--*~whole~*")
    file.write_text("{}")
    done = look(world.config)
    assert (done.files, done.problems) == (2, [f"{file.name} cannot be read"])
    assert states(world, 2, now=9) == ["missing", "shipped"]


def test_a_pipeline_that_is_broken_or_has_not_run_yet_is_known(world):
    world.write("pipelines/broken.yaml", "pipeline: broken\nsource: [\n")
    world.pipeline("new")
    look(world.config)
    with Index(world.index, present={"web", "new", "broken", "newest"}) as index:
        found = {one.pipeline: (bool(one.fault), one.retired) for one in index.pipelines()}
    assert found == {
        "broken": (True, False),
        "new": (False, False),
        "newest": (False, False),
        "web": (False, False),
    }
    with Index(world.index, present={"web"}) as index:  # the broken file was removed
        [removed] = [one for one in index.pipelines() if one.pipeline == "broken"]
    assert (removed.fault, removed.retired) == ("", True)
    # Its windows are due since the schedule's start, as `gaps` says.
    assert states(world, 3, name="new") == ["missing", "waiting", "waiting"]
    world.write("pipelines/new.yaml", "pipeline: new\nsource:")
    look(world.config)
    with Index(world.index) as index:
        (new,) = [one for one in index.pipelines() if one.pipeline == "new"]
    assert (bool(new.fault), new.cron) == (True, "0 * * * *"), "it stays as it was read last"


def test_windows_are_found_by_time_and_neighbours_share_a_segment(world):
    world.feed(*(run_report(hour, failed=("near",) if hour == 5 else ()) for hour in range(8)))
    with Index(world.index) as index:
        row = shown(index, seconds(2), seconds(7), seconds(8))
    codes = {state: code for code, state in enumerate(STATES)}
    assert row["segments"] == [
        [seconds(2), 3600, 3, codes["shipped"]],
        [seconds(5), 3600, 1, codes["failed"]],
        [seconds(6), 3600, 1, codes["shipped"]],
    ]
    assert row["counts"] == {"shipped": 4, "failed": 1}
    assert (row["newest"], row["lag"]) == (seconds(8), 900)
    assert START.timestamp() == seconds(0)


def test_no_answer_holds_more_windows_than_its_bound(world, monkeypatch):
    """It has the newest of them; of what began before it, windows that reach into it."""
    monkeypatch.setattr("shipper.shipments.grid.MOST_OF_AN_ANSWER", most := 60_000)
    every_minute = (
        (world.config / "pipelines/web.yaml").read_text().replace("0 * * * *", "*/5 * * * *")
    )
    world.write("pipelines/web.yaml", every_minute)
    world.beginning()
    world.feed(run_report(0))
    days, end = 40, seconds(40 * 24)
    with Index(world.index) as index:
        found = grid(index, index.pipelines(), (end - days * DAY, end), end)
        many = sum(len(cells(row["segments"])) for row in found["rows"])
        assert found["start"] > end - days * DAY
        assert many == (end - found["start"]) // 300
        assert many * _FINDING <= most


def test_runs_that_end_at_the_same_time_are_all_in_it(world):
    """From the first moment on, in which all of them make the file."""
    for name in (names := [f"stream_{number}" for number in range(5)]):
        world.pipeline(name)
    with ThreadPoolExecutor(len(names)) as pool:
        list(
            pool.map(
                lambda name: world.feed(run_report(0, name=name), run_report(1, name=name)), names
            )
        )
    assert [states(world, 2, name=name) for name in names] == [["shipped", "shipped"]] * len(names)


def context_of(world):
    pipeline = load_pipeline(world.config, "web", EVERYTHING)
    folder = RunFolder(str(world.runs), "web", Window(at(0), at(1)), "r1")
    return RunContext(
        pipeline, {}, world.config, Window(at(0), at(1)), folder, SparkEngine(pipeline)
    )


def test_what_steps_leave_is_what_it_is_made_from(world):
    report = run_report(0, "r1", failed=("far",))
    context = context_of(world)
    for name, result in (("plan", report.plan), ("gate_source", report.gate_source)):
        assert result is not None
        context.folder.write(name, result)
    for ship in report.ships:
        context.folder.write(f"ship.{ship.cluster}", ship)
    assert run_step(context, REPORT, None) == 0
    look(world.config)
    assert states(world, 1, cluster="far") == ["failed"]


@pytest.mark.parametrize(
    ("hours", "under_way", "stands"), [(1.5, [], False), (2.9, [], True), (2.9, [1], False)]
)
def test_a_pipeline_whose_schedule_stands_still_is_marked(world, hours, under_way, stands):
    """Settled windows of an hour follow the one whose run was the last of the schedule."""
    world.beginning()
    file = world.runs / "web" / "schedule" / "1.json"
    last = {"window_start": START.isoformat(), "window_end": at(1).isoformat()}
    last |= {"began": at(1).isoformat(), "schedule_since": START.isoformat()}
    file.write_text(json.dumps(json.loads(file.read_text()) | {"last_run": last}))
    world.feed(run_report(0))
    for hour in under_way:
        world.begin(hour, "now", 1 + hours)
    with Index(world.index) as index:
        row = shown(index, seconds(0), seconds(9), seconds(1 + hours))
    assert row["stands_still"] is stands
