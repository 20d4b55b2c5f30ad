"""Stands in for the Python of the Spark side, as fake_spark.py does, but for the ship: that is the
real step, lanes and ledger with numbered records (tests/chaos/ship_numbered.py), one file for each
window. Every record of it is once in the topic, or something is wrong.

``$SPARK_FAKE_BOOTSTRAP`` names the broker. (A job is given no variable of another name:
shipper/job_environment.py.)
"""

from __future__ import annotations

import datetime as dt
import os
import sys
import threading
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import fake_spark

from shipper.config.cluster import Cluster
from shipper.errors import ShipperError
from shipper.report.results import ShipResult
from shipper.worker.order import ShipOrder
from shipper.worker.receipt import Receipt
from tests.chaos.numbered import Numbered

fake_result = fake_spark.result


def result(step: str, word: str, common: dict[str, Any]) -> Any:
    kind, _, cluster = step.partition(":")
    return shipped(cluster, common) if kind == "ship" else fake_result(step, word, common)


def shipped(cluster: str, common: dict[str, Any]) -> ShipResult:
    from tests.chaos import ship_numbered

    numbered = of_window(
        common["pipeline"],
        common["window_start"],
        Path(os.environ["SPARK_FAKE"]) / "ships",
        common["run_id"],
    )

    def run_tasks(
        numbered: Numbered, order: ShipOrder, cluster: Cluster, cancelled: threading.Event
    ) -> tuple[list[Receipt], Exception | None]:
        return [ship_numbered.write(numbered, order, cluster, task=0, attempt=0)], None

    try:
        found = ship_numbered.ship(numbered, run_tasks)
    except ShipperError as error:
        print(f"ERROR {error.message}", file=sys.stderr)
        return ShipResult(
            cluster=cluster,
            **common | {"status": "failed", "error": error.message, "final": not error.retriable},
        )
    end = {
        "status": found.status,
        "error": found.error,
        "final": found.final,
        "finished_at": dt.datetime.now(dt.UTC),
    }
    return ShipResult(cluster=cluster, read=found.read, topics=found.topics, **common | end)


def of_window(pipeline: str, start: dt.datetime, folder: Path, run_id: str) -> Numbered:
    number = int(start.timestamp()) // 60 % 100_000
    return Numbered(
        pipeline,
        os.environ["SPARK_FAKE_BOOTSTRAP"],
        (pipeline,),
        str(folder),
        run_id,
        files=(number, number + 1),
        splits=1,
        records=400,
        records_per_second=1000,
        tasks=1,
        lanes=1,
    )


if __name__ == "__main__":
    fake_spark.result = result
    sys.exit(fake_spark.main())
