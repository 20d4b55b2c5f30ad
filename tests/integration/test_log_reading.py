"""Reading a partition to its end, again and again, with a consumer that stays connected."""

import itertools
import threading

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from shipper.config.cluster import Cluster
from shipper.errors import ClusterError, OutcomeUnknown
from shipper.kafka.client import ClusterClient
from shipper.kafka.connection import connection
from shipper.kafka.producer import LaneSettings
from tests.integration.open_lane import OpenLane

pytestmark = [pytest.mark.kafka]

_names = (f"log-{number}" for number in itertools.count())


class Log:
    """A topic of one partition, and two clients of it: what one has written the other must read."""

    def __init__(self, kafka):
        self.cluster = Cluster(name="c", bootstrap=kafka.bootstrap)
        self.reader, self.writer = ClusterClient(self.cluster), ClusterClient(self.cluster)
        self.topic = next(_names)
        self.writer.create_topics({self.topic: 1}, replication_factor=1)

    def write(self, *values):
        self.writer.append(self.topic, 0, [(b"key", value) for value in values])

    def read(self, start=0, wait_seconds=5.0, least_end=0):
        return [
            record.value
            for record in self.reader.read(
                self.topic, 0, start, wait_seconds=wait_seconds, least_end=lambda: least_end
            )
        ]

    def begin(self):
        """A transaction with one record, not committed yet."""
        lane = OpenLane(
            LaneSettings(connection(self.cluster), 100_000, "none", 30_000), self.topic, self.topic
        )
        lane.produce(self.topic, b"in a transaction", b"key", 0)
        return lane


@pytest.fixture
def log(kafka):
    return Log(kafka)


def test_each_read_sees_all_that_was_acknowledged_before_it(log):
    assert log.read() == []
    expected = []
    for number in range(200):
        log.write(b"%d" % number)
        expected.append(b"%d" % number)
        assert log.read(start=number) == [b"%d" % number]
    assert log.read() == expected
    assert log.read(start=200) == []


def test_a_read_waits_for_an_open_transaction_and_a_plan_does_not(log):
    log.write(b"before")
    lane = log.begin()
    log.write(b"behind")
    assert log.read(wait_seconds=None) == [b"before"]
    with pytest.raises(OutcomeUnknown, match="up to offset 1 of 3"):
        log.read(wait_seconds=1.0)
    threading.Timer(1.0, lane.commit).start()
    assert log.read(wait_seconds=20) == [b"before", b"in a transaction", b"behind"]
    lane.leave()


def test_a_read_that_must_reach_a_record_does_not_end_before_it(log):
    """As if the broker that answers did not lead the partition any more: its end is one that others
    have passed."""
    log.write(b"one")
    with pytest.raises(OutcomeUnknown, match=r"up to offset 1 of 3.*SHIP-606"):
        log.read(wait_seconds=1.0, least_end=3)
    late = threading.Timer(1.0, lambda: (log.write(b"two"), log.write(b"three")))
    late.start()
    assert log.read(wait_seconds=20, least_end=3) == [b"one", b"two", b"three"]
    late.join()


def test_what_was_aborted_is_not_read(log):
    lane = log.begin()
    lane.leave()
    assert log.read() == []
    log.write(b"behind")
    assert log.read() == [b"behind"]


def test_a_read_from_behind_the_end_says_so_and_the_next_one_works(log):
    log.write(b"one")
    with pytest.raises(ClusterError, match=f"cannot read {log.topic}-0"):
        log.read(start=99)
    assert log.read() == [b"one"]


def test_connecting_beforehand_changes_nothing_and_a_missing_topic_is_no_error(log):
    log.write(b"one")
    log.reader.connect(log.topic, [0])
    assert log.read() == [b"one"]
    log.reader.connect(f"{log.topic}-is-not-there", [0, 1])


def test_more_records_than_the_producers_queue_takes_are_all_written(log):
    offsets = log.writer.append(
        log.topic, 0, ((b"key", b"%d" % number) for number in range(150_000))
    )
    assert sorted(offsets) == list(range(150_000))


def test_a_record_that_is_refused_before_it_is_sent_is_named_and_a_partition_that_comes_is_waited_for(  # noqa: E501
    log,
):
    with pytest.raises(ClusterError, match=f"cannot write to {log.topic}: MSG_SIZE_TOO_LARGE"):
        log.write(b"v" * 3_000_000)
    log.write(b"small")  # brings the topic's metadata, with one partition
    admin = AdminClient({"bootstrap.servers": log.cluster.bootstrap})
    grown = threading.Timer(
        1.0,
        lambda: [
            one.result() for one in admin.create_partitions([NewPartitions(log.topic, 2)]).values()
        ],
    )
    grown.start()
    assert log.writer.append(log.topic, 1, [(b"key", b"of the second")]) == [0]
    grown.join()
