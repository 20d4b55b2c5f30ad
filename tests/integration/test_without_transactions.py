"""Clusters whose data topics take no transactions, whose brokers take no idempotent producer, or
make no compacted topics: a proxy answers as they do, and the ledger is a classic topic beside."""

import json
import os
import signal
import struct
import subprocess
import time
from collections import Counter

import pytest
from confluent_kafka import Consumer, TopicPartition
from shipper_tools.dev.kafka import KafkaServer
from shipper_tools.dev.ports import free_port

from tests.doubles.broker_double import BrokerDouble

from .world import WINDOW, World, lines_of

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

_CREATE_TOPICS, _INIT_PRODUCER_ID, _ADD_PARTITIONS = 19, 22, 24
_UNSUPPORTED_VERSION, _INVALID_CONFIG, _INVALID_REQUEST = 35, 40, 42
#: Classic topics, which can do everything.
CLASSIC = b"_shipper."


class Vendor:
    """Answers of a broker of a vendor's, to what it cannot do."""

    def __init__(self):
        self.idempotence = True
        self.refused = Counter()
        """API key → requests that were refused."""

    def __call__(self, request):
        found = None
        if request.api_key == _INIT_PRODUCER_ID and not self.idempotence:
            found = struct.pack(">ihqh", 0, _UNSUPPORTED_VERSION, -1, -1)
            found = b"\0" + found + b"\0" if request.version >= 2 else found
        elif request.api_key == _ADD_PARTITIONS:
            found = self._add_partitions(request)
        elif request.api_key == _CREATE_TOPICS and b"\0\x07compact" in request.body:
            name = _string(request.body, _after_string(request.body, 0) + 4)
            error = struct.pack(">hh", _INVALID_CONFIG, -1)
            found = struct.pack(">ii", 0, 1) + _packed(name) + error
        self.refused[request.api_key] += found is not None
        return found

    def _add_partitions(self, request):
        assert request.version < 3
        body = request.body
        at = _after_string(body, _after_string(body, 0)) + 10
        (count,) = struct.unpack_from(">i", body, at)
        at, answers, refuses = at + 4, b"", False
        for _ in range(count):
            name = _string(body, at)
            at = _after_string(body, at)
            (partitions,) = struct.unpack_from(">i", body, at)
            numbers = struct.unpack_from(f">{partitions}i", body, at + 4)
            at += 4 + 4 * partitions
            refuses |= not name.startswith(CLASSIC)
            error = 0 if name.startswith(CLASSIC) else _INVALID_REQUEST
            rows = b"".join(struct.pack(">ih", number, error) for number in numbers)
            answers += _packed(name) + struct.pack(">i", partitions) + rows
        return struct.pack(">ii", 0, count) + answers if refuses else None


def _string(body, at):
    (size,) = struct.unpack_from(">h", body, at)
    return body[at + 2 : at + 2 + size]


def _after_string(body, at):
    (size,) = struct.unpack_from(">h", body, at)
    return at + 2 + max(0, size)


def _packed(text):
    return struct.pack(">h", len(text)) + text


@pytest.fixture(scope="module")
def double(tmp_path_factory):
    vendor = Vendor()
    with (
        KafkaServer(tmp_path_factory.mktemp("vendor"), far_port=free_port()) as kafka,
        BrokerDouble(kafka.far_listener, kafka.far_port or 0, vendor),
    ):
        yield kafka, vendor


@pytest.fixture
def world(tmp_path, double):
    """Its pipeline ships at least once to the double; the ledger is there already."""
    kafka, vendor = double
    vendor.idempotence, vendor.refused = True, Counter()
    found = World(tmp_path / "world", kafka.bootstrap)
    found.client.create_topics(
        {f"_shipper.{found.name}": 2},
        {"cleanup.policy": "compact", "message.timestamp.type": "LogAppendTime"},
        1,
    )
    write_cluster(found, kafka)
    write_pipeline(found)
    return found


def write_cluster(world, kafka, **changes):
    spec = {
        "cluster": "local",
        "bootstrap": kafka.far_bootstrap,
        "ledger": {"replication_factor": 1, "create": False},
        **changes,
    }
    (world.root / "config" / "clusters" / "local.yaml").write_text(json.dumps(spec))


def write_pipeline(world, guarantee="at_least_once", **delivery):
    gates = {"delivery": [{"check": "sum_closes"}, {"check": "read_back", "mode": "full"}]}
    own = {"guarantee": guarantee, "lease": "2s", "metadata_wait": "20s", **delivery}
    world.write_pipeline(gates=gates, delivery={"transaction_timeout": "20s", **own})


def headed(world, kafka):
    """(value, headers) of every record of the topic."""
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "x"})
    found = []
    for number in range(3):
        consumer.assign([TopicPartition(world.topic(), number, 0)])
        end = consumer.get_watermark_offsets(TopicPartition(world.topic(), number))[1]
        for _ in range(end):
            message = consumer.poll(20)
            found.append((message.value() or b"", dict(message.headers() or ())))
    consumer.close()
    return found


LINES = b"".join(b"line %d\n" % number for number in range(60_000))


def test_a_cluster_without_idempotence_gets_each_line_and_a_rerun_sends_nothing(world, double):
    kafka, vendor = double
    vendor.idempotence = False
    write_cluster(world, kafka, idempotence=False)
    # Of several batches that wait for a partition, none may outgrow what the topic takes.
    world.client.create_topics({world.topic(): 3}, {"max.message.bytes": "40000"}, 1)
    write_pipeline(world, compression="none")
    world.write_log("a.log", LINES)
    found = world.run()
    assert (found["guarantee"], found["delivered"]) == ("at_least_once", 60_000)
    assert found["possible_duplicates"] == 0
    records = headed(world, kafka)
    assert Counter(value for value, _ in records) == lines_of(LINES)
    names = {(h["shipper-chunk"], h["shipper-number"]): value for value, h in records}
    assert len(names) == 60_000
    assert all(value == b"line %d" % (int(n) - 1) for (_, n), value in names.items())
    assert world.run()["delivered"] == 0
    assert vendor.refused[_INIT_PRODUCER_ID] == 0, "nobody asked"


@pytest.mark.long
def test_what_a_killed_run_may_have_doubled_is_counted_and_named(world, double):
    kafka, _ = double
    content = kill_a_run(world)
    write_pipeline(world, chunk_size="300kB")
    report = world.report()
    (ship,) = report.ships
    records = headed(world, kafka)
    lines = Counter(value for value, _ in records)
    doubled = sum(lines.values()) - sum(lines_of(content).values())
    assert lines.keys() == lines_of(content).keys()
    assert doubled <= ship.possible_duplicates
    assert ship.possible_duplicates > 0
    assert any("a.log (split at byte 0, records " in note.text for note in ship.findings)
    by_name = {(h["shipper-chunk"], h["shipper-number"]): value for value, h in records}
    assert Counter(by_name.values()) == lines_of(content), "headers tell which came twice"
    assert "xactly once" not in report.model_dump_json()


@pytest.mark.long
def test_a_run_with_transactions_counts_what_a_killed_one_without_may_have_doubled(world, double):
    kafka, _ = double
    content = kill_a_run(world)
    write_cluster(world, kafka, bootstrap=kafka.bootstrap)
    write_pipeline(world, "exactly_once", chunk_size="300kB")
    (ship,) = world.report().ships
    assert ship.guarantee == "exactly_once"
    assert ship.possible_duplicates == ship.delivered > 0
    assert [note.code for note in ship.findings].count("duplicates") == 1
    twice = world.read().total() - sum(lines_of(content).values())
    assert twice <= ship.possible_duplicates


def kill_a_run(world):
    """Kill a run when it has committed something; return what it shipped."""
    content = os.urandom(2_000_000).hex(" ", -60).replace(" ", "\n").encode()
    world.write_log("a.log", content)
    write_pipeline(world, rate_limit="100kB/s", chunk_size="200kB", batch_size="20kB", lanes=2)
    run = subprocess.Popen(
        world.command("run", world.name, "--window", WINDOW),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    while world.ledger_count() == 0:
        assert run.poll() is None
        time.sleep(0.1)
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    return content


@pytest.mark.long
def test_topics_that_take_no_transactions_are_named_by_doctor_and_no_run_promises_more(
    world, double
):
    world.write_log("a.log", LINES)
    write_pipeline(world, "exactly_once")
    world.fails(code=1, says="the topic takes no transactions")
    found = doctor(world)["transactions"]
    assert (found["severity"], world.topic() in found["text"]) == ("fail", True)
    assert "at_least_once" in found["remedy"]
    write_pipeline(world, "prefer_exactly_once")
    assert doctor(world)["transactions"]["severity"] == "warn"
    assert world.run()["guarantee"] == "at_least_once"
    assert world.read() == lines_of(LINES)


def test_doctor_finds_out_what_brokers_cannot_do_and_names_the_settings(world, double):
    kafka, vendor = double
    vendor.idempotence = False
    found = doctor(world)["transactions"]
    assert (found["severity"], "`idempotence: false`" in found["remedy"]) == ("fail", True)
    world.delete_topic(f"_shipper.{world.name}")
    write_cluster(world, kafka, idempotence=False, ledger={"replication_factor": 1})
    found = doctor(world)
    assert found["transactions"]["severity"] == "ok"
    assert (found["ledger"]["severity"], "ledger.create: false" in found["ledger"]["remedy"]) == (
        "fail",
        True,
    )


def doctor(world):
    """Check → its finding, of the cluster."""
    done = world.shipper("doctor", world.name, "--json")
    print(done.stdout, done.stderr)
    return {
        one["subject"]: one
        for one in json.loads(done.stdout)["findings"]
        if one["cluster"] == "local"
    }
