"""`shipper bench` on real Kafka and, end to end, real Spark: tiny, but all the way to the JSON."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer
from shipper_tools.bench.results import Case
from shipper_tools.bench.world import World

pytestmark = [pytest.mark.kafka]


def bench(out, *arguments):
    """Run it, and return the document that it keeps."""
    command = [sys.executable, "-m", "shipper", "bench", *arguments, "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    [kept] = out.iterdir()
    return json.loads(kept.read_text())


@pytest.mark.long
def test_bare_producers_are_measured_over_distance(tmp_path):
    options = ("--rtt", "20ms", "--seconds", "0.5", "--rounds", "1")
    found = bench(tmp_path, "slow-broker", *options)
    summaries = {summary["contender"]["name"]: summary for summary in found["summaries"]}
    assert {"shipper, 1 lane × 1MB", "shipper, 4 lanes × 1MB", "Java producer"} <= set(summaries)
    ours = summaries["shipper, 1 lane × 1MB"]
    rate = ours["records_per_second"]
    assert 0 < rate["lowest"] <= rate["median"] <= rate["highest"]
    # A lane has one batch of 1,000 records in flight, so the distance is really there: without it,
    # a lane is faster.
    assert rate["highest"] < 1000 / 0.02
    assert ours["rounds"] == 1
    assert ours["times_best_peer"] > 0
    assert ours["cpu_seconds_per_million"].keys() == {"client", "broker", "proxy"}
    assert not [m for m in found["measurements"] if m.get("error")]
    assert [m["round"] for m in found["measurements"]].count(0) == len(summaries)
    # Nothing that names the machine, its user or its folders.
    text = json.dumps(found)
    assert str(tmp_path) not in text
    assert str(Path.home()) not in text


@pytest.mark.spark
@pytest.mark.long
def test_whole_processes_are_measured_near_and_far(tmp_path):
    found = bench(
        tmp_path,
        "end-to-end",
        "--rtt",
        "0ms,20ms",
        "--partitions",
        "2",
        "--lines",
        "4000",
        "--rounds",
        "1",
    )
    assert len(found["summaries"]) == 2
    for summary in found["summaries"]:
        assert summary["records_per_second"]["median"] > 0
        assert summary["cpu_seconds_per_million"]["client"] > 0
        assert summary["peak_bytes"] > 100_000_000
    assert {m["records"] for m in found["measurements"]} == {4000}


@pytest.mark.long
def test_what_a_peer_delivered_is_counted_without_markers_and_what_was_aborted(tmp_path):
    case = Case(partitions=2)
    with World(tmp_path / "kafka") as world:
        topic, empty = world.create_topic(case), world.create_topic(case)
        producer = Producer(
            {"bootstrap.servers": world.bootstrap(case), "transactional.id": "peer"}
        )
        producer.init_transactions(30)
        for records, end in (
            (3, producer.commit_transaction),
            (5, producer.abort_transaction),
            (4, producer.commit_transaction),
        ):
            producer.begin_transaction()
            for number in range(records):
                producer.produce(topic, b"value", partition=number % 2)
            producer.flush(30)
            end(30)
        assert (
            world.records_in(topic, 2) == 3 + 5 + 4 + 3 * 2
        )  # a marker per partition and transaction
        assert world.committed_in(topic) == 3 + 4
        assert world.committed_in(empty) == 0


@pytest.mark.spark
@pytest.mark.long
def test_scale_is_measured_beside_what_the_machine_can_do(tmp_path):
    found = bench(tmp_path, "scale", "--lines", "8000", "--rounds", "1")
    assert not [m for m in found["measurements"] if m.get("error")]
    delivered = {m["contender"]["name"]: m["records"] for m in found["measurements"]}
    assert delivered["4 tasks, 0.008M lines"] == 8000
    assert delivered["200 files, 0.002M lines"] == 2000
    assert delivered["ledger of 2,000 chunks, 0.002M lines"] == 2000
    assert "reading, 0.008M lines" in delivered
