"""What is asked of one run alone, with `shipper run`, on a real broker."""

from __future__ import annotations

import base64
import json
import random
from pathlib import Path

import pytest

from .world import WINDOW, World, lines_of

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

LINES = b"".join(b"line %d\n" % number for number in range(200))
DAILY = {"cron": "0 0 * * *", "start": "2026-11-01"}


@pytest.fixture
def world(tmp_path: Path, kafka) -> World:
    world = World(tmp_path, kafka.bootstrap)
    world.write_log("a.log", LINES)
    return world


def report(world: World) -> dict:
    [path] = world.root.glob(f"runs/**/{world.name}/*/*/report.json")
    return json.loads(path.read_text())


def test_a_dry_run_sends_nothing_and_counts_for_nothing(world: World) -> None:
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
def test_a_run_for_one_cluster_asks_no_other_and_claims_nothing_of_it(world: World) -> None:
    (world.root / "config" / "clusters" / "gone.yaml").write_text(
        "cluster: gone\nbootstrap: 127.0.0.1:1\n"
    )
    world.write_pipeline(clusters=["local", "gone"], schedule=DAILY)
    assert world.run("--cluster", "local", "--scheduled")["delivered"] == 200
    assert world.read() == lines_of(LINES)
    said = report(world)
    assert said["asked"]["other_clusters"] == ["gone"]
    assert [cluster["cluster"] for cluster in said["plan"]["clusters"]] == ["local"]
    assert [gate["cluster"] for gate in said["delivery_gates"]] == ["local"]


@pytest.mark.long
def test_checks_can_be_left_out_of_the_source_gate_with_a_reason_and_no_others(
    world: World,
) -> None:
    world.write_pipeline(gates={"source": [{"check": "files"}, {"check": "rows", "min": 1000}]})
    world.fails(code=1, says="rows: expected ≥ 1,000 rows")
    world.fails("--skip-check", "rows", code=2, says="--skip-reason.*SHIP-101")
    world.fails(
        "--skip-check",
        "sum_closes",
        "--skip-reason",
        "x",
        code=2,
        says="allowed: files, rows",
    )
    assert world.nothing_was_sent()
    done = world.shipper(
        "run",
        world.name,
        "--window",
        WINDOW,
        "--json",
        "--skip-check",
        "rows",
        "--skip-reason",
        "a short day is right",
    )
    assert done.returncode == 0, done.stderr[-4000:]
    told = json.loads(done.stdout)
    assert [check["check"] for check in told["gate_source"]["checks"]] == ["files"]
    for result in (told, told["gate_source"], told["delivery_gates"][0]):
        assert (result["asked"]["skip_checks"], result["asked"]["skip_reason"]) == (
            ["rows"],
            "a short day is right",
        )
    assert world.read() == lines_of(LINES)


@pytest.mark.long
def test_a_cap_of_the_run_slows_it_down(world: World) -> None:
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
    assert foretold is not None
    assert (foretold.limited_by, foretold.measured_by) == ("rate_limit", found["run_id"])
    assert foretold.seconds is not None
    assert 0.7 < foretold.seconds / found["ship_seconds"] < 1.4
    assert 0.8 < foretold.wire_bytes / found["wire_bytes"] < 1.3
