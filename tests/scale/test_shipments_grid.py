"""What the Shipments page costs with 500 pipelines and a month of hours: `make scale` prints it."""

from __future__ import annotations

import json
import time
from pathlib import Path

from shipper.shipments.app import respond
from shipper.shipments.server import Everything
from tests.samples.shipments import World, large_index

PIPELINES = 500
#: Days that are shown, and how many days ago they end.
SHOWN = {
    "30 days": (30, 0),
    "the page of history before": (30, 30),
    "7 days": (7, 0),
    "the week before": (7, 7),
}


def iso(moment: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment))


def test_500_pipelines_and_30_days_of_hours_come_in_one_answer(tmp_path: Path) -> None:
    now = int(time.time())
    world = World(tmp_path)
    large_index(world.index, now)
    for name, (days, back) in SHOWN.items():
        end = now // 3600 * 3600 + 3600 - back * 86_400
        began = time.process_time()
        found = respond(
            world.index,
            "api/grid",
            {"start": iso(end - days * 86_400), "end": iso(end)},
            Everything(),
        )
        took = time.process_time() - began
        rows = json.loads(found.body)["pipelines"]
        assert len(rows) == PIPELINES
        assert abs(sum(sum(row["counts"].values()) for row in rows) - PIPELINES * 24 * days) <= 1000
        print(f"{name}: {took * 1000:.0f} ms of CPU, {len(found.body):,} bytes")
