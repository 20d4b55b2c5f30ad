"""What is asked of one run alone, with `shipper run`, on a real broker."""

import json
from pathlib import Path

import pytest

from .world import WINDOW, World

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

LINES = b"".join(b"line %d\n" % number for number in range(200))
DAILY = {"cron": "0 0 * * *", "start": "2026-11-01"}


@pytest.fixture
def world(tmp_path, kafka):
    world = World(tmp_path, kafka.bootstrap)
    world.write_log("a.log", LINES)
    return world


def test_a_dry_run_sends_nothing_and_counts_for_nothing(world):
    world.write_pipeline(schedule=DAILY)
    done = world.shipper("run", world.name, "--window", WINDOW, "--plan-only", "--json")
    assert done.returncode == 0, done.stderr[-4000:]
    told = json.loads(done.stdout)
    assert (told["error"], told["asked"]["plan_only"], told["ships"]) == (None, True, [])
    assert told["plan"]["clusters"][0]["left_files"] == 1
    assert told["plan"]["clusters"][0]["forecast"]["bytes"] == len(LINES)
    assert world.nothing_was_sent()
    assert "/_dry_runs/" in told["page"]
    assert (
        "Dry run: nothing was sent; local lacks 1 file"
        in Path(told["page"].removeprefix("file://")).read_text()
    )
    assert not (world.root / "runs" / world.name).exists()
    assert world.run()["delivered"] == 200
