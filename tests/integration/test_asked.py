"""What is asked of one run alone, with `shipper run`, on a real broker."""

import base64
import json
import random
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


@pytest.mark.long
def test_a_cap_of_the_run_slows_it_down(world):
    noise = base64.b64encode(random.Random(7).randbytes(1_500_000))
    world.write_log(
        "b.log",
        b"\n".join(noise[start : start + 100] for start in range(0, len(noise), 100)) + b"\n",
    )
    world.write_pipeline(delivery={"compression": "auto", "lease": "2s"})
    found = world.run("--rate-limit", "100kB/s")
    assert found["delivered"] == 20200
    assert (found["rate_limit_bytes"], found["limited_by"]) == (100_000, "rate_limit")
    assert "zstd at level 9" in found["tuning"]
    assert 0 < found["cpu_seconds"] < 60
    assert found["wire_bytes"] <= 1.05 * 100_000 * found["ship_seconds"]
    world.write_log("c.log", b"another line\n" + (world.logs / "b.log").read_bytes())
    world.write_pipeline(delivery={"compression": "auto", "lease": "2s", "rate_limit": "100kB/s"})
    foretold = world.plan().clusters[0].forecast
    assert (foretold.limited_by, foretold.measured_by) == ("rate_limit", found["run_id"])
    assert foretold.seconds is not None
    assert 0.7 < foretold.seconds / found["ship_seconds"] < 1.4
    assert 0.8 < foretold.wire_bytes / found["wire_bytes"] < 1.3
