"""The outage drill: a real scheduler, a real Spark side and a real broker. Files come late and out
of order, Airflow is down for some windows, one cluster for others; nobody repairs anything by hand.
In the end no window is missing and every line is there once.

The windows are hours of the past, from `schedule.start` on, so that the drill takes minutes: for
the scheduler they are windows that it missed.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from drills import wait_for
from shipper_tools.dev.airflow import Airflow
from shipper_tools.dev.console_consumer import read_topic
from shipper_tools.dev.kafka import KafkaServer

from tests.integration.world import World

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.scheduler,
    pytest.mark.kafka,
    pytest.mark.spark,
    pytest.mark.long,
    pytest.mark.timeout(3600),
]

HOUR = dt.timedelta(hours=1)
NOWHERE = "127.0.0.1:1"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with KafkaServer(tmp_path / "kafka", die_with_parent=True) as kafka:
        yield World(tmp_path / "world", kafka.bootstrap, name="drill")


class Drill:
    """A pipeline on a schedule whose first windows are over, and an Airflow that comes and goes."""

    def __init__(self, world: World, windows: int) -> None:
        self.world = world
        # The last of them ended two minutes ago, so that no other ends before the drill does.
        self.start = (
            dt.datetime.now(dt.UTC).replace(second=0, microsecond=0)
            - dt.timedelta(minutes=2)
            - windows * HOUR
        )
        self.lines: Counter[bytes] = Counter()
        environment = {
            "SHIPPER_CONFIG": str(world.root / "config"),
            # After how long a task whose process is gone is tried again; five minutes by default.
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "40",
        }
        self.airflow = Airflow(world.root / "airflow", environment)
        world.write_pipeline(
            schedule={"cron": f"{self.start.minute} * * * *", "start": self.start.isoformat()},
            source={"path": "logs/{window_start:%Y-%m-%d}/{window_start:%-H}/", "settle": "30s"},
            clusters=["near", "far"],
            runner={"driver_memory": "1g", "python": sys.executable},
        )
        self.cluster("near", world.bootstrap)

    def cluster(self, name: str, bootstrap: str) -> None:
        """Both are the one broker, each with a ledger of its own: so every line is there twice when
        both have it."""
        text = (
            f"cluster: {name}\nbootstrap: {bootstrap}\nledger: {{topic: '_{name}.{{pipeline}}', "
            "replication_factor: 1}\n"
        )
        (self.world.root / "config" / "clusters" / f"{name}.yaml").write_text(text)

    def write(self, window: int, name: str, count: int = 100, *, young: bool = False) -> None:
        folder = self.start + window * HOUR
        lines = [f"{folder:%d-%H} {name} {n}".encode() for n in range(count)]
        path = self.world.write_log(
            f"{folder:%Y-%m-%d}/{folder.hour}/{name}", b"\n".join([*lines, b""])
        )
        if young:
            os.utime(path)
        self.lines.update(lines)

    def runs(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.airflow.call(
            "GET", "dags/drill/dagRuns?order_by=logical_date"
        )["dag_runs"]
        return found

    def ended(self, count: int) -> list[str]:
        """States of the first runs, once so many have ended."""

        def states() -> list[str] | None:
            found = [run["state"] for run in self.runs() if run["state"] in ("success", "failed")]
            return found if len(found) >= count else None

        found: list[str] = wait_for(states, within_seconds=1500)
        return found

    def give_up_on(self, task: str, run: int) -> None:
        """Marks a task failed that waits to be tried again: half an hour is too long for a test."""

        def waiting() -> str | None:
            runs = self.runs()
            if len(runs) <= run:
                return None
            run_id = runs[run]["dag_run_id"]
            state = self.airflow.call("GET", f"dags/drill/dagRuns/{run_id}/taskInstances/{task}")[
                "state"
            ]
            return run_id if state == "up_for_retry" else None

        run_id = wait_for(waiting, within_seconds=900)
        self.airflow.call(
            "PATCH", f"dags/drill/dagRuns/{run_id}/taskInstances/{task}", {"new_state": "failed"}
        )

    def gaps(self) -> tuple[int, list[tuple[str, str]]]:
        done = self.world.shipper("gaps", "drill", "--json")
        assert done.stdout, done.stderr
        return done.returncode, [
            (gap["cluster"], gap["why"]) for gap in json.loads(done.stdout)["gaps"]
        ]

    def late_files(self, cluster: str) -> int:
        results = (self.world.root / "runs" / "drill").glob(f"*--*/*/ship.{cluster}.json")
        return sum(json.loads(result.read_text())["late_files"] for result in results)


def test_after_an_outage_nothing_is_missing_and_nothing_is_doubled(world: World) -> None:
    drill = Drill(world, windows=4)
    drill.cluster("far", NOWHERE)
    drill.write(0, "a.log")
    for window in (1, 2, 3):
        drill.write(window, "b.log")
    with drill.airflow:
        wait_for(lambda: drill.airflow.call("GET", "dags")["total_entries"], within_seconds=180)
        drill.airflow.cli("dags", "unpause", "drill", "--yes")
        # One cluster is away while the first window is shipped; Airflow goes down when that run is
        # over.
        drill.give_up_on("to_far.ship", run=0)
        assert drill.ended(1)[0] == "failed"
    code, gaps = drill.gaps()
    assert code == 1
    assert ("far", "its run failed, or has not ended") in gaps
    assert ("near", "no run") in gaps

    # Meanwhile: the cluster is back, and files of windows past and to come arrive in no order; one
    # is not done.
    drill.cluster("far", world.bootstrap)
    drill.write(2, "c.log")
    drill.write(0, "late.log")
    drill.write(1, "young.log", young=True)
    with drill.airflow:
        states, runs = drill.ended(4), drill.runs()
    # What Airflow's end cut off in the second window, if it had begun, the third one does.
    assert (states[0], states[-1]) == ("failed", "success")
    begun = sorted(runs, key=lambda run: run["start_date"])
    windows = [dt.datetime.fromisoformat(run["data_interval_start"]) for run in begun]
    assert windows == [drill.start + n * HOUR for n in range(4)], (
        "one after the other, none left out"
    )
    assert drill.late_files("far") >= 2

    assert drill.gaps() == (0, [])
    found = Counter(read_topic(world.bootstrap, world.topic()))
    assert found == Counter(dict.fromkeys(drill.lines, 2)), (sum(found.values()), len(drill.lines))
    for cluster in ("near", "far"):
        verified = subprocess.run(
            world.command("ledger", "verify", "drill", "--cluster", cluster),
            capture_output=True,
            text=True,
            check=False,
        )
        assert verified.returncode == 0, verified.stdout + verified.stderr
