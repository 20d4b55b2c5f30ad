"""kill -9 of a task, of the scheduler and of the DAG processor while a real Spark side ships: what
was killed leaves no Spark side behind, and in the end every line is there once."""

from __future__ import annotations

import datetime as dt
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from drills import part, spark_sides, wait_for
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

DAY = dt.timedelta(days=1)
FILES, LINES = 4, 60_000
ENDS_WITHIN_SECONDS = 30


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with KafkaServer(tmp_path / "kafka", die_with_parent=True) as kafka:
        yield World(tmp_path / "world", kafka.bootstrap, name="killed")


@pytest.fixture
def airflow(world: World) -> Iterator[Airflow]:
    environment = {
        "SHIPPER_CONFIG": str(world.root / "config"),
        # After how long a task that nobody speaks for any more is tried again; five minutes by
        # default.
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "40",
        "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "20",
        "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "20",
    }
    with Airflow(world.root / "airflow", environment) as server:
        yield server


def configure(world: World, rate: str) -> None:
    yesterday = dt.datetime.now(dt.UTC).replace(hour=0, minute=0, second=0, microsecond=0) - DAY
    world.write_pipeline(
        schedule={"cron": "0 0 * * *", "start": yesterday.isoformat()},
        source={"path": "logs", "settle": "1s", "lookback": "0s", "split_size": "1MiB"},
        runner={"driver_memory": "1g", "python": sys.executable},
        delivery={
            "chunk_size": "200kB",
            "lanes": 2,
            "lease": "20s",
            "lease_wait": "120s",
            "metadata_wait": "20s",
            "transaction_timeout": "20s",
            "rate_limit": rate,
        },
    )


def shipping(world: World, more_than: int) -> psutil.Process:
    """The one Spark side, when it has committed something."""
    wait_for(
        lambda: spark_sides(world.root / "config", "ship:") and world.ledger_count() > more_than,
        within_seconds=300,
    )
    (side,) = spark_sides(world.root / "config", "ship:")
    return side


def family(side: psutil.Process) -> list[psutil.Process]:
    return [side, *side.children(recursive=True)]


def gone_within(processes: list[psutil.Process], seconds: float) -> float:
    """How long they took."""
    began = time.monotonic()
    _, alive = psutil.wait_procs(processes, timeout=seconds)
    alive = [each for each in alive if each.is_running() and each.status() != psutil.STATUS_ZOMBIE]
    assert not alive, alive
    return time.monotonic() - began


def test_what_is_killed_leaves_no_orphan_and_every_line_is_there_once(
    world: World, airflow: Airflow
) -> None:
    configure(world, rate="100kB/s")
    lines: Counter[bytes] = Counter()
    for number in range(FILES):
        noise = random.Random(
            number
        )  # what compresses well would be gone before anybody could kill
        text = [b"%d %d %s" % (number, n, noise.randbytes(32).hex().encode()) for n in range(LINES)]
        world.write_log(f"{number}.log", b"\n".join([*text, b""]))
        lines.update(text)
    wait_for(lambda: airflow.call("GET", "dags")["total_entries"], within_seconds=180)
    airflow.cli("dags", "unpause", "killed", "--yes")

    # The DAG processor and the task's process.
    side = shipping(world, more_than=0)
    task, its = side.parent(), family(side)
    assert task is not None
    part(airflow, "dag-processor").kill()
    time.sleep(3)
    assert side.is_running(), "a dead DAG processor harms no run"
    airflow.start_part("dag-processor")
    os.kill(task.pid, signal.SIGKILL)
    print(
        f"task killed: its Spark side was gone after {gone_within(its, ENDS_WITHIN_SECONDS):.1f} s"
    )
    there = world.ledger_count()
    assert 0 < there < FILES * LINES

    # The scheduler, and with it the processes above the tasks: the next attempt goes with them, or
    # works on for whoever comes after.
    side = shipping(world, more_than=there)
    task, its = side.parent(), family(side)
    assert task is not None
    supervisor = task.parent()
    assert supervisor is not None
    scheduler = part(airflow, "scheduler")
    for each in (scheduler, supervisor):
        each.kill()
    print(
        "scheduler and supervisor killed: the Spark side was gone after "
        f"{gone_within(its, ENDS_WITHIN_SECONDS):.1f} s"
    )
    configure(world, rate="100MB/s")
    airflow.start_part("scheduler")

    def over() -> str | None:
        (run,) = airflow.call("GET", "dags/killed/dagRuns")["dag_runs"]
        return str(run["state"]) if run["state"] in ("success", "failed") else None

    assert wait_for(over, within_seconds=900) == "success"
    assert spark_sides(world.root / "config", "ship:") == []
    found = Counter(read_topic(world.bootstrap, world.topic()))
    assert found == lines, (sum(found.values()), sum(lines.values()))
    tries = airflow.call("GET", "dags/killed/dagRuns/~/taskInstances")["task_instances"]
    print({each["task_id"]: each["try_number"] for each in tries})
    gaps = world.shipper("gaps", "killed", "--json")
    assert gaps.returncode == 0, gaps.stdout + gaps.stderr
