"""Thirty days (or `SHIPPER_BACKFILL_DAYS`) sent by backfills, forwards by the command and backwards
by the REST API, while the schedule goes on: with real Airflow on PostgreSQL, real Spark and a real
broker. In the end no window is missing and every line is there once.

Two DAG runs a day, some 7 CPU seconds each.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from drills import wait_for
from shipper_tools.dev.airflow import Airflow
from shipper_tools.dev.console_consumer import read_topic
from shipper_tools.dev.kafka import KafkaServer
from shipper_tools.dev.postgres import PostgresServer, why_no_postgres

from tests.integration.world import World

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.scheduler,
    pytest.mark.kafka,
    pytest.mark.spark,
    pytest.mark.long,
    pytest.mark.timeout(7200),
    pytest.mark.skipif(why_no_postgres() is not None, reason=f"{why_no_postgres()}"),
]

DAY = dt.timedelta(days=1)
DAYS = int(os.environ.get("SHIPPER_BACKFILL_DAYS", "30"))
#: The last of them.
ON_SCHEDULE = min(4, DAYS // 2)
#: For the runs of one direction, on a machine that has other things to do.
WITHIN_SECONDS = 180.0 * DAYS
CAP = "3MB/s"
Span = tuple[dt.datetime, dt.datetime]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with KafkaServer(tmp_path / "kafka", die_with_parent=True) as kafka:
        yield World(tmp_path / "world", kafka.bootstrap, name="daily")


class Month:
    """A daily pipeline whose schedule begins a few days ago, with files of a month."""

    def __init__(self, world: World) -> None:
        today = dt.datetime.now(dt.UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        self.world = world
        self.start, self.end = today - DAYS * DAY, today
        self.on_schedule = [self.end - n * DAY for n in range(ON_SCHEDULE, 0, -1)]
        self.lines: Counter[bytes] = Counter()
        world.write_pipeline(
            schedule={"cron": "0 0 * * *", "start": self.on_schedule[0].isoformat()},
            source={"path": "logs/{window_start:%Y-%m-%d}/", "settle": "1s", "lookback": "0s"},
            runner={"driver_memory": "1g", "python": sys.executable},
        )
        self.write("first.log")

    def write(self, name: str) -> None:
        """A file for each day."""
        for n in range(DAYS):
            day = self.start + n * DAY
            lines = [f"{day:%m-%d} {name} {number}".encode() for number in range(50)]
            self.world.write_log(f"{day:%Y-%m-%d}/{name}", b"\n".join([*lines, b""]))
            self.lines.update(lines)


@pytest.fixture
def month(world: World) -> Month:
    """Before Airflow starts: that stores another version of a DAG half a minute after the first at
    the earliest."""
    return Month(world)


@pytest.fixture
def airflow(world: World, month: Month) -> Iterator[Airflow]:
    environment = {"SHIPPER_CONFIG": str(world.root / "config")}
    with (
        PostgresServer(world.root / "postgres", die_with_parent=True) as postgres,
        Airflow(world.root / "airflow", environment, database=postgres.url) as server,
    ):
        yield server


def runs_of(airflow: Airflow, kind: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = airflow.call(
        "GET", f"dags/daily/dagRuns?run_type={kind}&limit=100&order_by=start_date"
    )["dag_runs"]
    return found


def all_over(airflow: Airflow, kind: str, count: int) -> list[dict[str, Any]] | None:
    runs = runs_of(airflow, kind)
    failed = [run["dag_run_id"] for run in runs if run["state"] == "failed"]
    assert not failed, failed
    return runs if len(runs) >= count and all(run["state"] == "success" for run in runs) else None


def spans(entries: list[dict[str, Any]]) -> list[Span]:
    moments = [
        (dt.datetime.fromisoformat(each["start_date"]), dt.datetime.fromisoformat(each["end_date"]))
        for each in entries
    ]
    return sorted(moments)


def most_at_once(of: list[Span]) -> int:
    """At one moment. One that ends in the moment in which another begins is not beside it."""
    steps = sorted([(start, 1) for start, _ in of] + [(end, -1) for _, end in of])
    at_once, most = 0, 0
    for _, step in steps:
        at_once += step
        most = max(most, at_once)
    return most


def ships(airflow: Airflow) -> list[Span]:
    """Of all runs, the last attempt of each."""
    found: list[dict[str, Any]] = []
    while len(
        page := airflow.call(
            "GET", f"dags/daily/dagRuns/~/taskInstances?limit=100&offset={len(found)}"
        )["task_instances"]
    ):
        found += page
    return spans([task for task in found if task["task_id"] == "to_local.ship"])


def asked_of(world: World, days: list[dt.datetime]) -> Counter[str | None]:
    """The cap that each ship of these days' windows was given, by its result."""
    found: Counter[str | None] = Counter()
    for day in days:
        for result in (world.root / "runs" / "daily").glob(
            f"{day:%Y%m%dT%H%M%SZ}--*/*/ship.local.json"
        ):
            found[(json.loads(result.read_text()).get("asked") or {}).get("rate_limit")] += 1
    return found


def test_a_month_of_backfills_beside_the_schedule_leaves_every_line_once(
    world: World, month: Month, airflow: Airflow
) -> None:
    days = [month.start + n * DAY for n in range(DAYS)]
    wait_for(lambda: airflow.call("GET", "dags")["total_entries"], within_seconds=180)
    airflow.cli("dags", "unpause", "daily", "--yes")

    # Forwards, by the command, up to the day that the schedule is at; that one and what comes after
    # it is left to the schedule.
    wait_for(lambda: runs_of(airflow, "scheduled"), within_seconds=60)
    began = time.monotonic()
    conf = json.dumps({"rate_limit": CAP})
    span = (
        "--from-date",
        month.start.date().isoformat(),
        "--to-date",
        month.on_schedule[0].date().isoformat(),
    )
    airflow.cli(
        "backfill",
        "create",
        "--dag-id",
        "daily",
        *span,
        "--max-active-runs",
        "4",
        "--dag-run-conf",
        conf,
    )
    backfilled = wait_for(
        lambda: all_over(airflow, "backfill", DAYS - ON_SCHEDULE), within_seconds=WITHIN_SECONDS
    )
    scheduled = wait_for(lambda: all_over(airflow, "scheduled", ON_SCHEDULE), within_seconds=300)
    print(
        f"forwards: {len(backfilled)} runs beside {len(scheduled)} of the schedule in "
        f"{time.monotonic() - began:.0f} s"
    )
    assert len(backfilled) + len(scheduled) == DAYS
    named = {f"backfill__{day.isoformat()}" for day in days} | {
        f"scheduled__{day:%Y-%m-%dT%H:%MZ}--{day + DAY:%Y-%m-%dT%H:%MZ}" for day in days
    }
    assert {run["dag_run_id"] for run in (*backfilled, *scheduled)} <= named
    assert 2 <= most_at_once(spans(backfilled)) <= 4
    assert most_at_once(spans(scheduled)) == 1
    assert min(spans(backfilled)) < max(spans(scheduled)), "the schedule went on meanwhile"
    assert most_at_once(ships(airflow)) == 1, (
        "whatever runs are beside each other, ships of a pipeline are not"
    )

    # A second file for each day, and all days once more, the last one first, by the API.
    month.write("second.log")
    began, before = time.monotonic(), dt.datetime.now(dt.UTC)
    asked = {
        "dag_id": "daily",
        "from_date": month.start.isoformat(),
        "to_date": (month.end - DAY).isoformat(),
        "max_active_runs": 4,
        "run_backwards": True,
        "reprocess_behavior": "completed",
        "dag_run_conf": {"rate_limit": CAP},
    }
    airflow.call("POST", "backfills", asked)

    def again() -> list[dict[str, Any]] | None:
        runs = [
            run for kind in ("backfill", "scheduled") for run in all_over(airflow, kind, 1) or []
        ]
        anew = [
            run
            for run in runs
            if run["start_date"] and dt.datetime.fromisoformat(run["start_date"]) > before
        ]
        return anew if len(anew) == DAYS else None

    anew = sorted(
        wait_for(again, within_seconds=WITHIN_SECONDS), key=lambda run: str(run["start_date"])
    )
    print(f"backwards: {len(anew)} runs in {time.monotonic() - began:.0f} s")
    first, last = (
        dt.datetime.fromisoformat(anew[place]["data_interval_start"]) for place in (0, -1)
    )
    assert first > month.end - DAYS / 2 * DAY > last, "the newest came first"
    assert 2 <= most_at_once(spans(anew)) <= 4

    assert (len(ships(airflow)), most_at_once(ships(airflow))) == (DAYS, 1)
    assert asked_of(world, days) == Counter({CAP: len(backfilled) + DAYS, None: len(scheduled)})

    found = Counter(read_topic(world.bootstrap, world.topic()))
    assert found == month.lines, (sum(found.values()), sum(month.lines.values()))
    done = world.shipper("gaps", "daily", "--since", month.start.date().isoformat(), "--json")
    assert (done.returncode, json.loads(done.stdout)["gaps"]) == (0, []), done.stdout + done.stderr
    verified = world.shipper("ledger", "verify", "daily", "--cluster", "local")
    assert verified.returncode == 0, verified.stdout + verified.stderr
