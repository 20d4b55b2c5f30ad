"""Faults planted from outside, behind the back of the code under test: with a client of their own
in the topics and in the ledger, or in the step's result. Each must close the delivery gate, and the
message must name the place that disagrees."""

import json
import os
import re
import sys

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from shipper.config.load import load_cluster
from shipper.driver.context import RunContext
from shipper.driver.run import run_steps
from shipper.report.plan_result import PlanResult
from shipper.report.results import DeliveryGateResult
from shipper.report.run_folder import RunFolder
from shipper.windows.window import parse_window
from spark_jobs.spark_engine import SparkEngine

from .committed import read_messages
from .world import WINDOW, World

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

GATE = "gate_delivery:local"
#: Begin of a line → suffix of the topic that it goes to; other lines go to the one without. Topics
#: cannot be mended: a test each.
KINDS = {"500": "-errors", "gone": "-gone", "twice": "-twice", "changed": "-changed"}


class Shipped:
    """A window that was shipped once for all tests. A test sees what it broke itself: what an
    earlier one broke is known, and the ledger and the step's result are mended after each."""

    def __init__(self, root, bootstrap):
        self.world = World(root, bootstrap, topics={"": 3} | dict.fromkeys(KINDS.values(), 2))
        self.write_pipeline()
        # Some chunks each, a byte order mark, and a file that goes to several topics.
        self.world.write_log(
            "a.log", b"".join(b"200 line %05d of the first file\n" % n for n in range(4_000))
        )
        self.world.write_log(
            "b.log", b"\xef\xbb\xbf500 marked\n" + b"500 an error\n200 fine\n" * 500
        )
        self.world.write_log(
            "c.log",
            b"".join(
                b"%s %d\n" % (kind.encode(), n) for n in range(100) for kind in list(KINDS)[1:]
            ),
        )
        self.world.write_log("empty.log", b"")
        self.mend = []
        self.known = set()

    def write_pipeline(self):
        routes = [
            {"when": f"value LIKE '{begin} %'", "topic": self.world.topic(to)}
            for begin, to in KINDS.items()
        ]
        read_back = {"check": "read_back", "mode": "full", "timeout": "30s"}
        self.world.write_pipeline(
            topic=None,
            routes=[*routes, {"topic": self.world.topic()}],
            gates={"delivery": [{"check": "sum_closes"}, {"check": "checksum"}, read_back]},
            delivery={
                "chunk_size": "64kB",
                "batch_size": "64kB",
                "tuning": "off",
                "lease": "2s",
                "lease_wait": "30s",
            },
        )

    def context(self, run_id="r1"):
        world, window = self.world, parse_window(WINDOW)
        config = world.root / "config"
        folder = RunFolder(str(world.root / "runs"), world.name, window, run_id)
        engine = SparkEngine(world.pipeline)
        return RunContext(
            world.pipeline, {"local": load_cluster(config, "local")}, config, window, folder, engine
        )

    def steps(self, *steps, run_id="r1"):
        context = self.context(run_id)
        try:
            return run_steps(context, steps)
        finally:
            context.engine.stop()

    def gate(self, run_id="r1"):
        found = self.context(run_id).folder.find("gate_delivery.local", DeliveryGateResult)
        assert found is not None
        return found

    def open_checks(self):
        """Runs the gate once more; check → what it expected and observed, for those that do not
        hold because of this test, without the summaries. The gate must be closed."""
        assert self.steps(GATE) == 1
        gate = self.gate()
        assert gate.status == "failed"
        found = self._open()
        assert any(name in str(gate.error) for name in found) or re.search(
            r"and \d+ more", str(gate.error)
        )
        return found

    def _open(self):
        checks = [
            check
            for check in self.gate().checks
            if not check.passed and check.check not in self.known
        ]
        return {
            check.check: f"{check.expected} | {check.observed}"
            for check in checks
            if not check.expected.startswith("all of")
        }

    def count(self, name):
        count = next(count for count in self.gate().account if count.name == name)
        return count.spark, count.receipts, count.ledger, count.read_back

    @property
    def client(self):
        return {"bootstrap.servers": self.world.bootstrap}

    def read(self, topic, partition):
        """Messages of one partition, by a client of the test's own."""
        return list(read_messages(self.world.bootstrap, topic, partition))

    def delete_up_to(self, topic, partition, offset):
        admin = AdminClient(self.client)  # it must outlive its futures
        for future in admin.delete_records([TopicPartition(topic, partition, offset)]).values():
            future.result(20)

    def produce(self, topic, partition, key, value):
        producer = Producer(self.client)
        producer.produce(topic, value, key, partition)
        assert producer.flush(20) == 0

    def chunk_records(self, topic=None):
        """(key, value) of the ledger's chunks with records, as they lie in the topic."""
        ledger = self.world.cluster.ledger_topic(self.world.name)
        pairs = [
            (json.loads(m.key()), json.loads(m.value())) for m in self.read(ledger, 1) if m.value()
        ]
        return [
            (key, value)
            for key, value in pairs
            if key[1] == "chunk" and value["records"] and topic in (None, key[-1])
        ]

    def write_ledger(self, key, value):
        before = [found for other, found in self.chunk_records() if other == key]
        self._write_ledger(key, value)
        self.mend.append(lambda: self._write_ledger(key, before[-1] if before else None))

    def _write_ledger(self, key, value):
        text = None if value is None else json.dumps(value).encode()
        ledger = self.world.cluster.ledger_topic(self.world.name)
        self.produce(ledger, 1, json.dumps(key, separators=(",", ":")).encode(), text)


@pytest.fixture(scope="module")
def window(tmp_path_factory, kafka):
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    made = Shipped(tmp_path_factory.mktemp("planted"), kafka.bootstrap)
    assert made.steps("plan", "gate_source", "ship:local", GATE) == 0, made.gate().error
    return made


@pytest.fixture
def shipped(window):
    yield window
    if not window.mend:  # what it broke stays broken
        window.known |= set(window._open())
    while window.mend:
        window.mend.pop()()


def test_without_a_fault_every_place_counts_the_same(shipped):
    gate, topic = shipped.gate(), shipped.world.topic()
    assert gate.status == "succeeded"
    assert shipped.count("read") == (5_301, 5_301, 5_301, None)
    assert shipped.count(topic) == (None, 4_500, 4_500, 4_500)
    assert shipped.count(f"{topic}-errors") == (None, 501, 501, 501)
    assert all(count.agrees for count in gate.account)
    assert {found.topic: found.read_back for found in gate.topics}[topic] == 4_500
    assert all(begin == 0 <= end for begin, end in gate.offsets[topic])
    assert sum(end - begin for begin, end in gate.offsets[topic]) > 4_500, "with ends of commits"
    assert "5,301 records read back from 11 of 11 partitions" in gate.scope
    by_name = {check.check: check for check in gate.checks}
    assert all(check.passed for check in gate.checks)
    assert by_name["sum_closes(lines)"].expected == "5,301 by the tasks' receipts (5,301 delivered)"
    assert by_name["sum_closes(files)"].observed == "they do"
    assert by_name["checksum(values)"].passed
    # A second run sends nothing, and has nothing to read back.
    assert shipped.steps("plan", "gate_source", "ship:local", GATE, run_id="r2") == 0
    assert "nothing was sent" in shipped.gate("r2").scope


@pytest.mark.long
def test_a_chunk_that_has_expired_from_the_topic(shipped):
    """delete-records, and retention likewise: a warning with its own name, and no failed sum."""
    topic = shipped.world.topic("-gone")
    _, value = shipped.chunk_records(topic)[0]
    behind = shipped.read(topic, value["partition"])[value["records"] - 1].offset() + 1
    shipped.delete_up_to(topic, value["partition"], behind)
    assert shipped.steps(GATE) == 0, shipped.gate().error
    [expired] = [check for check in shipped.gate().checks if not check.passed]
    assert (expired.check, expired.severity) == (f"expired({topic})", "warn")
    assert (
        f"{value['records']:,} of them expired: partition {value['partition']} begins at offset "
        f"{behind}" in expired.observed
    )
    assert shipped.count(topic)[1:] == (100, 100, None)


def test_a_ledger_record_that_is_gone(shipped):
    topic = f"{shipped.world.topic()}-errors"
    key, value = shipped.chunk_records(topic)[0]
    shipped.write_ledger(key, None)
    found = shipped.open_checks()
    assert "in the ledger, read anew" in found[f"sum_closes({topic})"].split(" | ")[1]
    assert f"({-value['records']:+,})" in found[f"sum_closes({topic})"]
    [of_file] = [text for name, text in found.items() if name.endswith(".log: records)")]
    assert "in the ledger" in of_file.split(" | ")[1]
    assert any(key[3] in name for name in found)
    # The read-back stands by the receipts: the ledger is alone.
    assert (
        "by the tasks' receipts and in the topic, read back"
        in found[f"read_back({topic})"].split(" | ")[0]
    )
    assert f"checksum(file {key[3]} to {topic})" in found


@pytest.mark.long
def test_a_chunk_that_is_in_the_topic_twice(shipped):
    topic = shipped.world.topic("-twice")
    _, value = shipped.chunk_records(topic)[0]
    for message in shipped.read(topic, value["partition"])[: value["records"]]:
        shipped.produce(topic, value["partition"], message.key(), message.value())
    found = shipped.open_checks()
    assert set(found) == {
        f"read_back({topic})",
        f"read_back({topic}, partition {value['partition']})",
    }
    assert f"in the topic, read back ({value['records']:+,})" in found[f"read_back({topic})"]


def test_a_record_that_was_changed_on_the_way_keeps_every_count_and_not_the_checksum(shipped):
    """One line of the topic replaced by another of the same length: nothing that only counts can
    see it."""
    topic = shipped.world.topic("-changed")
    partition = next(number for number in range(2) if shipped.read(topic, number))
    [first, *_] = shipped.read(topic, partition)
    behind = shipped.read(topic, partition)[1].offset()
    shipped.delete_up_to(topic, partition, behind)
    shipped.produce(topic, partition, None, first.value()[:-1] + b"!")
    found = shipped.open_checks()
    assert set(found) == {
        f"read_back({topic}: checksum)",
        f"read_back({topic}, partition {partition}: checksum)",
    }


def test_a_topic_that_was_deleted_and_created_anew(shipped):
    """Last, since what it breaks stays broken: the gate, and each later plan, name the topic."""
    topic = shipped.world.topic("-gone")
    admin = AdminClient(shipped.client)
    partitions = len(admin.list_topics(topic).topics[topic].partitions)
    shipped.world.delete_topic(topic)
    shipped.world.client.create_topics({topic: partitions}, replication_factor=1)
    found = shipped.open_checks()
    assert f"{100:,} records of" in found[f"recreated({topic})"]
    assert "created again" in found[f"recreated({topic})"]
    [lost] = shipped.gate().recreated
    assert (lost.topic, lost.records, lost.resent) == (topic, 100, False)
    assert shipped.steps("plan", run_id="r3") == 1
    plan = shipped.context("r3").folder.find("plan", PlanResult)
    assert f"topic {topic} was deleted and created again" in str(plan.error)
    assert [one.topic for one in plan.clusters[0].recreated] == [topic]
