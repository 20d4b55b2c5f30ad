"""Runs with nothing wrong, on a machine that is busy: minutely pipelines catch up while Airflow is
restarted, and processes of tasks die at random. No run may fail, and every record is once in its
topic.

`SHIPPER_HEALTHY_RUNS` (200), `SHIPPER_HEALTHY_SEED` (1).
"""

from __future__ import annotations

import datetime as dt
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numbered_spark
import psutil
import pytest
from dag_world import Config, FakeSpark
from drills import airflow_on_postgres, wait_for
from shipper_tools.dev.airflow import Airflow
from shipper_tools.dev.console_consumer import read_topic
from shipper_tools.dev.kafka import KafkaServer

from shipper.config.cluster import Cluster
from shipper.kafka.client import ClusterClient
from tests.chaos.numbered import value_of

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.scheduler,
    pytest.mark.kafka,
    pytest.mark.long,
    pytest.mark.timeout(7200),
]

RUNS = int(os.environ.get("SHIPPER_HEALTHY_RUNS", "200"))
SEED = int(os.environ.get("SHIPPER_HEALTHY_SEED", "1"))
PIPELINES = [f"p{number}" for number in range(10)]
RESTARTS = 3
MINUTE = dt.timedelta(minutes=1)
_TASK, _EXECUTOR = "airflow worker -- ", "airflow worker -- LocalExecutor"


@pytest.fixture
def kafka(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[KafkaServer]:
    with KafkaServer(tmp_path / "kafka", die_with_parent=True) as server:
        monkeypatch.setenv("SPARK_FAKE_BOOTSTRAP", server.bootstrap)
        yield server


@pytest.fixture
def spark(tmp_path: Path) -> FakeSpark:
    folder = tmp_path / "spark"
    folder.mkdir()
    found = FakeSpark(folder)
    script = Path(__file__).with_name("numbered_spark.py")
    found.python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{script}" "$@"\n')
    return found


@pytest.fixture
def airflow(tmp_path: Path, spark: FakeSpark, kafka: KafkaServer) -> Iterator[Airflow]:
    config = Config(tmp_path / "config", spark.python)
    start = (
        dt.datetime.now(dt.UTC).replace(second=0, microsecond=0) - RUNS // len(PIPELINES) * MINUTE
    )
    client = ClusterClient(
        Cluster.model_validate({"cluster": "near", "bootstrap": kafka.bootstrap})
    )
    client.create_topics(dict.fromkeys(PIPELINES, 1), replication_factor=1)
    for name in PIPELINES:
        schedule = f'{{cron: "* * * * *", start: "{start.isoformat()}"}}'
        text = f"""\
pipeline: {name}
owner: edge-team
schedule: {schedule}
source: {{path: "logs/{{window_start:%Y/%m/%d/%H/%M}}/", settle: 5s}}
topic: {name}
clusters: [near]
runner: {{python: {spark.python}}}
"""
        config.write(f"pipelines/{name}.yaml", text)
    environment = {
        "SHIPPER_CONFIG": str(config.folder),
        "SPARK_FAKE": str(spark.folder),
        "SPARK_FAKE_BOOTSTRAP": kafka.bootstrap,
        # After how long a task that nobody speaks for any more is tried again; five minutes by
        # default.
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "40",
    }
    with airflow_on_postgres(tmp_path, environment) as server:
        yield server


def everything(airflow: Airflow, path: str, key: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while page := airflow.call("GET", f"{path}?limit=100&offset={len(found)}")[key]:
        found += page
    return found


def runs(airflow: Airflow) -> list[dict[str, Any]]:
    return everything(airflow, "dags/~/dagRuns", "dag_runs")


def pause(airflow: Airflow, *, paused: bool) -> None:
    for name in PIPELINES:
        airflow.call("PATCH", f"dags/{name}", {"is_paused": paused})


class Killer:
    """Kills -9 a process of a running task: Airflow's supervisor of it, its own, or the
    Spark side."""

    def __init__(self, airflow: Airflow, rng: random.Random) -> None:
        self._airflow, self._rng = airflow, rng
        self.fired: Counter[str] = Counter()

    def strike(self) -> None:
        kind = self._rng.choice(("supervisor", "task", "task", "Spark side", "Spark side"))
        with suppress(psutil.Error, IndexError, ProcessLookupError):
            victim = self._rng.choice(self._victims(kind))
            os.kill(victim.pid, signal.SIGKILL)
            self.fired[kind] += 1

    def _victims(self, kind: str) -> list[psutil.Process]:
        (leader,) = self._airflow.processes
        found = [
            each
            for each in psutil.Process(leader.pid).children(recursive=True)
            if _command(each).startswith(_TASK)
        ]
        tasks = [each for each in found if not _command(each).startswith(_EXECUTOR)]
        if kind == "task":
            return tasks
        if kind == "supervisor":
            return [
                parent
                for task in tasks
                if (parent := task.parent()) and _command(parent).startswith(_EXECUTOR)
            ]
        return [child for task in tasks for child in task.children()]


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def test_no_run_fails_that_has_nothing_wrong(airflow: Airflow, kafka: KafkaServer) -> None:
    rng, began = random.Random(SEED), time.monotonic()
    killer, restarts = Killer(airflow, rng), 0
    wait_for(
        lambda: airflow.call("GET", "dags")["total_entries"] == len(PIPELINES), within_seconds=240
    )
    pause(airflow, paused=False)
    while (done := len(of_state(runs(airflow), "success"))) < RUNS:
        assert not (failed := of_state(runs(airflow), "failed")), failed
        assert time.monotonic() - began < 60 + 20 * RUNS, done
        time.sleep(rng.uniform(5, 35))  # about a kill for every other run
        killer.strike()
        if restarts < RESTARTS and done > (restarts + 1) * RUNS / (RESTARTS + 1):
            restarts += 1
            print(f"{time.monotonic() - began:.0f} s: Airflow is restarted after {done} runs")
            airflow.stop()
            airflow.launch()
            airflow.wait_ready()
    pause(airflow, paused=True)  # then nothing new begins, and no run changes its state
    found, minutes = runs(airflow), (time.monotonic() - began) / 60
    tasks = everything(airflow, "dags/~/dagRuns/~/taskInstances", "task_instances")
    airflow.stop()

    retries = [task["try_number"] - 1 for task in tasks if task["try_number"]]
    print(
        f"{Counter(run['state'] for run in found)} in {minutes:.1f} minutes; seed {SEED}; killed "
        f"{dict(killer.fired)}"
    )
    print(
        f"{restarts} restarts; {sum(retries)} retries of {len(tasks)} tasks, {max(retries)} of one "
        "at most"
    )
    assert restarts == RESTARTS
    assert of_state(found, "failed") == []
    assert sum(killer.fired.values()) > RUNS / 20
    assert max(retries) <= 4, "half an hour of retries is left for an outage"
    for name in PIPELINES:
        mine = [run for run in found if run["dag_id"] == name]
        windows = sorted(window_of(run) for run in mine)
        assert windows == [windows[0] + n * MINUTE for n in range(len(windows))], "none is left out"
        there = Counter(read_topic(kafka.bootstrap, name))
        ended = lines_of(name, [window_of(run) for run in mine if run["state"] == "success"])
        begun = lines_of(name, [window_of(run) for run in mine if run["state"] != "success"])
        assert ended <= there <= ended + begun, name


def of_state(found: list[dict[str, Any]], state: str) -> list[str]:
    return [f"{run['dag_id']} {run['dag_run_id']}" for run in found if run["state"] == state]


def window_of(run: dict[str, Any]) -> dt.datetime:
    return dt.datetime.fromisoformat(run["data_interval_start"])


def lines_of(pipeline: str, windows: list[dt.datetime]) -> Counter[bytes]:
    numbered = [numbered_spark.of_window(pipeline, start, Path(), "") for start in windows]
    return Counter(
        value_of(each.file_paths[0], 0, n) for each in numbered for n in range(each.records)
    )
