"""A run of the schedule ships what the windows before it have left behind: late files, unsettled
ones, those of a cluster that was away."""

from __future__ import annotations

import datetime as dt
import json
import os
import time
from collections import Counter
from typing import Any

import pytest

from shipper.ledger.log import LedgerLog, ask_committed
from shipper.report.results import RunReport
from shipper.report.run_view import run_view
from tests.integration.world import World

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

FIVE, SIX, SEVEN = (f"2026-11-01T0{hour}:00/2026-11-01T0{hour + 1}:00" for hour in (5, 6, 7))


@pytest.fixture
def world(tmp_path, kafka):
    made = World(tmp_path, kafka.bootstrap)
    made.write_pipeline(
        schedule="0 * * * *",
        source={"path": "logs/{window_start:%Y-%m-%d}/hour={window_start:%-H}/", "settle": "10m"},
        clusters=["local", "away"],
        gates={"source": [{"check": "files", "max": 1}, {"check": "rows", "on": "full"}]},
    )
    return made


def write_away(world: World, bootstrap: str) -> None:
    """A second cluster: the same broker, with a ledger of its own; so each line is there twice in
    the end."""
    text = (
        f"cluster: away\nbootstrap: {bootstrap}\nledger: {{topic: '_away.{{pipeline}}', "
        "replication_factor: 1}\n"
    )
    (world.root / "config" / "clusters" / "away.yaml").write_text(text)


def scheduled(world: World, window: str) -> tuple[int, RunReport]:
    done = world.shipper("run", world.name, "--window", window, "--scheduled", "--json")
    assert "Traceback" not in done.stderr, done.stderr[-4000:]
    assert done.stdout, done.stderr[-4000:]
    return done.returncode, RunReport.model_validate_json(done.stdout)


def names(files: list[Any]) -> list[str]:
    return [file.path.rsplit("/", 1)[-1] for file in files]


def windows_in_the_ledger(world: World) -> dict[str, str]:
    log = LedgerLog(world.client, world.cluster, world.name)
    return {
        each.key.split.file.path.rsplit("/", 1)[-1]: each.value.window
        for each in log.look(ask_committed(0), 30)
    }


@pytest.mark.long
def test_what_came_late_or_a_cluster_missed_is_shipped_by_the_next_run_once_and_by_its_own_window(
    world: World,
) -> None:
    write_away(world, "127.0.0.1:1")
    world.write_log("2026-11-01/hour=4/long ago.log", b"before the schedule began\n")
    world.write_log("2026-11-01/hour=5/a.log", b"a\n")
    young = world.write_log("2026-11-01/hour=5/young.log", b"young\n")
    os.utime(young)
    code, report = scheduled(world, FIVE)
    assert code == 1, "a cluster was away"
    assert report.plan is not None
    assert [(file.path.rsplit("/", 1)[-1], file.warns) for file in report.plan.left_out] == [
        ("young.log", True)
    ]
    assert world.read() == Counter([b"a"])

    # One run ships its own file, and to each cluster what it lacks of the windows before; its gate
    # counts its own files only.
    write_away(world, world.bootstrap)
    an_hour_ago = time.time() - 3600
    os.utime(young, (an_hour_ago, an_hour_ago))
    world.write_log("2026-11-01/hour=5/late.log", b"late\n")
    world.write_log("2026-11-01/hour=6/b.log", b"b\n")
    code, report = scheduled(world, SIX)
    assert (code, report.error) == (0, None)
    assert report.plan is not None
    assert names(report.plan.own_files) == ["b.log"]
    lacking = {
        name: file.late_for
        for name, file in zip(names(report.plan.late_files), report.plan.late_files, strict=True)
    }
    assert lacking == {
        "a.log": ("away",),
        "late.log": ("local", "away"),
        "young.log": ("local", "away"),
    }
    counts = {
        ship.cluster: (ship.delivered, ship.late_files, ship.late_windows, ship.late_records)
        for ship in report.ships
    }
    assert counts == {"local": (3, 2, 1, 2), "away": (4, 3, 1, 3)}
    assert world.read() == Counter(dict.fromkeys([b"a", b"b", b"late", b"young"], 2))
    five, six = (f"2026-11-01T0{hour}:00:00Z/2026-11-01T0{hour + 1}:00:00Z" for hour in (5, 6))
    assert windows_in_the_ledger(world) == {
        "a.log": five,
        "late.log": five,
        "young.log": five,
        "b.log": six,
    }
    assert run_view(report).event == "success"
    assert [gate.coverage.start.hour for gate in report.delivery_gates if gate.coverage] == [5, 5]
    told: dict[str, dict[str, dt.datetime]] = {}
    # When the last record of each window was committed, by the broker: also of one that the run did
    # not ship to.
    for ship, gate in zip(report.ships, report.delivery_gates, strict=True):
        assert gate.coverage is not None
        assert gate.coverage.committed is not None
        assert gate.coverage.committed.keys() == {five, six}
        assert all(
            ship.started_at < at < gate.finished_at for at in gate.coverage.committed.values()
        )
        told[gate.cluster] = gate.coverage.committed

    # All is there: the plan names none of it, nothing of it is read or sent. A change of the routes
    # changes nothing about that.
    world.write_log("2026-11-01/hour=7/c.log", b"c\n")
    world.write_pipeline(
        **(
            json.loads((world.root / "config/pipelines" / f"{world.name}.yaml").read_text())
            | {"records": {"key": "value"}}
        )
    )
    code, report = scheduled(world, SEVEN)
    assert (code, report.error) == (0, None)
    assert report.plan is not None
    assert names(report.plan.files) == ["c.log"]
    assert report.plan.looked_back is not None
    assert (report.plan.looked_back.windows, report.plan.looked_back.files) == (2, 4)
    assert [ship.delivered for ship in report.ships] == [1, 1]
    for gate in report.delivery_gates:
        assert gate.coverage is not None
        assert gate.coverage.committed is not None
        assert {
            tick: at for tick, at in gate.coverage.committed.items() if tick in (five, six)
        } == told[gate.cluster]
    assert world.read() == Counter(dict.fromkeys([b"a", b"b", b"c", b"late", b"young"], 2))


@pytest.mark.long
def test_a_run_by_hand_looks_at_its_own_window_only(world: World) -> None:
    write_away(world, world.bootstrap)
    world.write_log("2026-11-01/hour=5/a.log", b"a\n")
    world.write_log("2026-11-01/hour=6/b.log", b"b\n")
    plan = world.plan(window=SIX)
    assert (names(plan.files), plan.looked_back) == (["b.log"], None)
    first = world.plan("--scheduled", window=SIX)
    assert (names(first.files), first.looked_back) == (["b.log"], None), (
        "nothing before the schedule's first run is asked for"
    )
    assert not (world.root / "runs" / world.name / "schedule.json").exists(), (
        "a plan alone is nothing to remember"
    )
