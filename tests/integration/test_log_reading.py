"""Reading a partition to its end, again and again, with a consumer that stays connected."""

from __future__ import annotations

import itertools
import threading
import time

import pytest

from shipper.config.models import Cluster
from shipper.dev.kafka import KafkaServer
from shipper.errors import ClusterError, OutcomeUnknown
from shipper.producer.client import ClusterClient, LaneProducer, LaneSettings, connection

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

_names = (f"log-{number}" for number in itertools.count())


class Log:
    """A topic of one partition, and two clients of it: what one has written the other must read."""

    def __init__(self, kafka: KafkaServer) -> None:
        self.cluster = Cluster(name="c", bootstrap=kafka.bootstrap)
        self.reader, self.writer = ClusterClient(self.cluster), ClusterClient(self.cluster)
        self.topic = next(_names)
        self.writer.create_topics({self.topic: 1}, replication_factor=1)

    def write(self, *values: bytes) -> None:
        self.writer.append(self.topic, 0, [(b"key", value) for value in values])

    def read(self, start: int = 0, wait_seconds: float | None = 5.0) -> list[bytes | None]:
        return [record.value for record in self.reader.read(self.topic, 0, start, wait_seconds=wait_seconds)]

    def begin(self) -> LaneProducer:
        """A transaction with one record, not committed yet."""
        settings = LaneSettings(connection(self.cluster), 100_000, "none", 30_000)
        lane, deadline = LaneProducer(settings, self.topic), time.monotonic() + 30
        lane.connect(lambda: deadline, self.topic)
        lane.init(lambda: deadline)
        lane.begin()
        lane.produce(self.topic, b"in a transaction", b"key", 0)
        lane.flush(lambda: deadline)
        return lane


@pytest.fixture
def log(kafka: KafkaServer) -> Log:
    return Log(kafka)


def test_each_read_sees_all_that_was_acknowledged_before_it(log: Log) -> None:
    assert log.read() == []
    expected: list[bytes] = []
    for number in range(200):
        log.write(b"%d" % number)
        expected.append(b"%d" % number)
        assert log.read(start=number) == [b"%d" % number]
    assert log.read() == expected
    assert log.read(start=200) == []


def test_a_read_waits_for_an_open_transaction_and_a_plan_does_not(log: Log) -> None:
    log.write(b"before")
    lane = log.begin()
    log.write(b"behind")
    assert log.read(wait_seconds=None) == [b"before"]
    with pytest.raises(OutcomeUnknown, match="up to offset 1 of 3"):
        log.read(wait_seconds=1.0)
    deadline = time.monotonic() + 30
    threading.Timer(1.0, lane.commit, [lambda: deadline]).start()
    assert log.read(wait_seconds=20) == [b"before", b"in a transaction", b"behind"]
    lane.discard()


def test_what_was_aborted_is_not_read(log: Log) -> None:
    lane = log.begin()
    deadline = time.monotonic() + 30
    lane.abort(lambda: deadline)
    lane.discard()
    assert log.read() == []
    log.write(b"behind")
    assert log.read() == [b"behind"]


def test_a_read_from_behind_the_end_says_so_and_the_next_one_works(log: Log) -> None:
    log.write(b"one")
    with pytest.raises(ClusterError, match=f"cannot read {log.topic}-0"):
        log.read(start=99)
    assert log.read() == [b"one"]


def test_connecting_beforehand_changes_nothing_and_a_missing_topic_is_no_error(log: Log) -> None:
    log.write(b"one")
    log.reader.connect(log.topic, [0])
    assert log.read() == [b"one"]
    log.reader.connect(f"{log.topic}-is-not-there", [0, 1])
