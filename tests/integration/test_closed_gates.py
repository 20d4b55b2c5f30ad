"""A delivery gate that closed stays closed until what was sent agrees, or a person opens it; and a
ledger that is gone is told by every command that looks at it."""

from __future__ import annotations

import json

import pytest
from confluent_kafka import Producer

from shipper.report.closed_gates import ClosedGatesFolder
from shipper.windows.window import parse_window

from .world import WINDOW, World

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


@pytest.fixture
def world(world: World) -> World:
    world.write_pipeline(
        gates={"delivery": [{"check": "sum_closes"}, {"check": "read_back", "mode": "full"}]},
        delivery={"lease": "2s", "lease_wait": "30s", "transaction_timeout": "20s"},
    )
    world.write_log("a.log", b"".join(b"line %d\n" % number for number in range(100)))
    return world


def test_a_closed_gate_is_not_opened_by_a_run_that_ships_nothing(world: World) -> None:
    world.steps_done("r1", "plan", "gate_source", "ship:local")
    producer = Producer({"bootstrap.servers": world.bootstrap})
    for number in range(13):
        producer.produce(world.topic(), b"foreign %d" % number)
    producer.flush(30)
    assert "SHIP-702" in world.steps_fail("r1", "gate_delivery:local")

    for _ in range(2):
        again = world.report(code=1)
        [gate] = again.delivery_gates
        assert gate.code == "SHIP-702"
        assert again.ships[0].delivered == 0
        failed = [check.check for check in gate.checks if not check.passed]
        assert failed
        assert all(name.startswith("run r1: read_back") for name in failed)

    opened = world.report(
        "--skip-check", "closed_delivery_gate", "--skip-reason", "a test wrote 13 records"
    )
    assert opened.delivery_gates[0].status == "succeeded"
    assert opened.asked
    assert opened.asked.skip_reason == "a test wrote 13 records"
    assert world.report().delivery_gates[0].status == "succeeded", "opened once for all"


@pytest.mark.long
def test_a_gate_that_could_not_compare_is_made_up_for_by_a_run_that_ships_nothing(
    world: World,
) -> None:
    world.steps_done("r1", "plan", "gate_source", "ship:local")
    folder = world.root / "runs" / world.name
    [result] = folder.glob("*/r1/ship.local.json")
    whole = result.read_text()
    document = json.loads(whole)
    document["ends_before"] = {world.topic(): [-1, -1, -1]}  # no partition had a leader
    result.write_text(json.dumps(document))
    assert "SHIP-702" in world.steps_fail("r1", "gate_delivery:local")
    [kept] = folder.glob("closed/*.local.json")
    document = json.loads(kept.read_text())
    document["gates"][0]["ship"]["ends_before"] = json.loads(whole)["ends_before"]
    document["gates"][0]["ends"] = None
    kept.write_text(json.dumps(document))

    again = world.report()
    [gate] = again.delivery_gates
    assert [c.passed for c in gate.checks if c.check.startswith("run r1: read_back")]
    gates = ClosedGatesFolder(str(world.root / "runs"), world.name, "local")
    assert gates.find(parse_window(WINDOW)) == []


@pytest.mark.long
def test_a_ledger_that_is_gone_is_told_by_doctor_and_by_the_commands(world: World) -> None:
    world.run()
    world.delete_topic(f"_shipper.{world.name}")
    for arguments in (["doctor", world.name], ["ledger", "show", world.name]):
        done = world.shipper(*arguments)
        assert done.returncode != 0
        assert "SHIP-503" in " ".join((done.stdout + done.stderr).split()), arguments
