"""A run of which nothing is left but its note gets its report from the next command that looks."""

import datetime as dt
import json
import os
import socket
import subprocess

import pytest

from shipper.config.replay_request import Replay
from shipper.processes import ProcessId
from shipper.report.plan_result import PlanResult
from shipper.report.results import RunReport
from shipper.report.run_folder import RunFolder
from shipper.report.run_view import run_view
from shipper.request import RunRequest
from shipper.runner import REPORT
from shipper.windows.window import Window
from tests.samples.results import common
from tests.samples.shipments import World, at

RUN = "20261101T010000-abcdef"


@pytest.fixture
def world(tmp_path):
    world = World(tmp_path)
    world.pipeline()
    world.beginning()
    return world


def left_by(world, process, host=None, replay=None):
    """What a run to `near` alone leaves that is killed after its plan."""
    name = replay.name("web") if replay else "web"
    folder = RunFolder(str(world.runs), name, Window(at(0), at(1)), RUN)
    asked = RunRequest(
        clusters=["near"], other_clusters=["far"], replay=replay, rate_limit="20kB/s"
    )
    folder.write("plan", PlanResult(**common(Window(at(0), at(1)), RUN), asked=asked))
    note = {
        "host": host or socket.gethostname(),
        "pid": process.pid,
        "started": process.started,
        "request": asked.model_dump(mode="json"),
    }
    path = world.index.with_name("shipments.sqlite.running") / "web" / f"{RUN}.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(note | {"window": "2026-11-01T00:00:00Z/2026-11-01T01:00:00Z"}))
    return folder


@pytest.fixture
def gaps(world, shipper):
    """Ask for gaps, of no window, so that no cluster is asked; the answer is what is said to
    people."""
    day = (dt.datetime.now(dt.UTC) + dt.timedelta(days=2)).strftime("%Y-%m-%d")
    return lambda: shipper("gaps", "web", "--since", day, "--config", str(world.config)).stderr


def dead():
    with subprocess.Popen(["sleep", "60"]) as process:
        found = ProcessId.of(process.pid)
        process.kill()
    return found


def test_the_report_of_a_killed_run_is_written_by_the_next_command_that_can(world, gaps, tmp_path):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho no memory >&2; exit 3\n")
    python.chmod(0o755)
    spec = world.config / "pipelines" / "web.yaml"
    text = spec.read_text()
    spec.write_text(text + f"runner: {{python: {python}}}\n")
    folder = left_by(world, dead())
    for _ in range(2):
        said = " ".join(gaps().split())
        assert RUN in said
        assert "exit code 3: no memory" in said
    spec.write_text(text)
    assert RUN in gaps()
    report = folder.find(REPORT, RunReport)
    assert (report.status, report.ships) == ("failed", [])
    assert str(report.error).startswith("step gate_source left no result")
    assert report.code == "SHIP-003"
    assert (report.asked.clusters, report.asked.rate_limit) == (("near",), "20kB/s")
    assert RUN not in gaps(), "it is told once"


def test_the_report_of_a_killed_replay_is_the_replays(world, gaps):
    replay = Replay(id="again", reason="why", window_start=at(0), window_end=at(1))
    folder = left_by(world, dead(), replay=replay)
    assert RUN in gaps()
    report = folder.find(REPORT, RunReport)
    assert (report.pipeline, report.asked.replay) == ("web.replay.again", replay)
    advised = run_view(report)
    assert "--id again" in advised.command
    assert "window" not in advised.remedy, "a run of the window would send nothing of a replay"
    assert not list((world.runs / "web").rglob("report.json"))
    assert RUN not in gaps()


def test_the_note_of_an_earlier_release_is_read(world, gaps):
    folder = left_by(world, dead())
    (note,) = world.index.with_name("shipments.sqlite.running").rglob("*.json")
    kept = json.loads(note.read_text())
    del kept["request"]
    note.write_text(json.dumps(kept | {"clusters": ["near"], "replay": None}))
    assert RUN in gaps()
    assert folder.find(REPORT, RunReport).asked.clusters == ("near",)


@pytest.mark.parametrize("host", [None, "another.example"])
def test_a_run_that_is_at_work_or_on_another_machine_is_left_alone(world, gaps, host):
    folder = left_by(world, dead() if host else ProcessId.of(os.getpid()), host)
    assert RUN not in gaps()
    assert folder.find(REPORT, RunReport) is None
