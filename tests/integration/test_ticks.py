"""Completeness is known for each tick of the schedule, whoever looked at it: a run of the hour, a
wide window, a look-back."""

from __future__ import annotations

import json
import os
import re

import pytest

from shipper.report.results import RunReport
from shipper.windows.window import parse_window
from tests.integration.world import World

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

FOUR_HOURS = "2026-11-01T00:00/2026-11-01T04:00"


@pytest.fixture
def world(tmp_path, kafka):
    made = World(tmp_path, kafka.bootstrap)
    hourly(made, "logs/{window_start:%Y-%m-%d}/{window_start:%H}/")
    return made


def hourly(world: World, path: str) -> None:
    world.write_pipeline(
        schedule={"cron": "0 * * * *", "start": "2026-11-01"},
        source={"path": path, "settle": "10m"},
    )


def hour(number: int) -> str:
    return f"2026-11-01T{number:02}:00/2026-11-01T{number + 1:02}:00"


def gaps(world: World, hours: int = 4) -> dict[int, list[str]]:
    """Of the first hours those that are not complete, with the names of the files that were
    left."""
    done = world.shipper("gaps", world.name, "--json")
    found = {}
    for gap in json.loads(done.stdout)["gaps"]:
        window = parse_window(gap["window"])
        found |= {
            number: [path.rsplit("/", 1)[-1] for path in gap["paths"]]
            for number in range(hours)
            if window.start <= parse_window(hour(number)).start < window.end
        }
    return found


@pytest.mark.long
def test_a_file_that_a_wide_run_leaves_out_is_a_gap_of_its_own_hour_and_of_no_other(
    world: World,
) -> None:
    for number in range(4):
        world.write_log(f"2026-11-01/{number:02}/a.log", b"a\n")
    os.utime(world.write_log("2026-11-01/02/young.log", b"young\n"))
    world.report(window=hour(2))
    assert gaps(world)[2] == ["young.log"]
    report = world.report(window=FOUR_HOURS)
    assert len(report.plan.files if report.plan else ()) == 4
    assert gaps(world) == {2: ["young.log"]}
    for window, exit_code in ((hour(2), 1), (hour(1), 0), ("2026-11-01T01:30/PT30M", 2)):
        asked = world.shipper("gaps", world.name, "--window", window)
        assert asked.returncode == exit_code, asked.stderr
    world.write_log("2026-11-01/02/young.log", b"young\n")
    world.report(window=hour(2))
    assert gaps(world) == {}


@pytest.mark.long
def test_a_run_that_reached_no_broker_takes_nothing_away_from_the_runs_before_it(
    world: World,
) -> None:
    for number in range(4):
        world.write_log(f"2026-11-01/{number:02}/a.log", b"a\n")
    for number in (0, 1, 2):
        world.report(window=hour(number))
    world.write_log("2026-11-01/01/new.log", b"new\n")
    world.write_cluster("127.0.0.1:1")
    world.report(window=FOUR_HOURS, code=1)
    assert gaps(world) == {1: ["new.log"], 3: []}
    world.write_cluster()
    world.report(window=FOUR_HOURS)
    assert gaps(world) == {}


@pytest.mark.long
def test_a_wide_window_names_each_hours_folder_by_its_own_end(world: World) -> None:
    hourly(world, "logs/{window_end:%Y-%m-%d}/{window_end:%H}/")
    for number in range(1, 5):
        world.write_log(f"2026-11-01/{number:02}/a.log", b"%d\n" % number)
    world.report(window=FOUR_HOURS)
    assert gaps(world) == {}
    assert sorted(world.read()) == [b"1", b"2", b"3", b"4"]
    done = world.shipper(
        "replay", world.name, "--window", FOUR_HOURS, "--reason", "lost", "--yes", "--json"
    )
    report = RunReport.model_validate_json(done.stdout)
    assert report.plan is not None
    assert sorted(
        re.findall(r"/(\d\d)/a.log", " ".join(file.path for file in report.plan.files))
    ) == ["01", "02", "03", "04"]


@pytest.mark.long
def test_a_file_in_progress_by_its_name_stays_a_gap_for_as_long_as_runs_see_it(
    world: World,
) -> None:
    for number in range(3):
        world.write_log(f"2026-11-01/{number:02}/a.log", b"a\n")
    part = world.write_log("2026-11-01/01/b.log.tmp", b"b\n")
    for number in range(3):
        world.report("--scheduled", window=hour(number))
        assert gaps(world, number + 1) == ({1: ["b.log.tmp"]} if number else {})
    part.rename(part.with_suffix(""))
    world.write_log("2026-11-01/03/a.log", b"a\n")
    world.report("--scheduled", window=hour(3))
    assert gaps(world) == {}
