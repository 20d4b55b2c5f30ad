"""A delivery gate that closed stays closed until what was sent agrees, or a person opens it; and a
ledger that is gone is told by every command that looks at it."""

import pytest
from confluent_kafka import Producer

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


@pytest.fixture
def world(world):
    world.write_pipeline(
        gates={"delivery": [{"check": "sum_closes"}, {"check": "read_back", "mode": "full"}]},
        delivery={"lease": "2s", "lease_wait": "30s", "transaction_timeout": "20s"},
    )
    world.write_log("a.log", b"".join(b"line %d\n" % number for number in range(100)))
    return world


def test_a_closed_gate_is_not_opened_by_a_run_that_ships_nothing(world):
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
