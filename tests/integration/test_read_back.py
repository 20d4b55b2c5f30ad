"""The reader of the delivery gate on a real broker: what a read_committed consumer sees, and
nothing else."""

import itertools

import pytest
import xxhash
from confluent_kafka import Producer

from shipper.kafka.client import ClusterClient
from shipper.verify.readback import OffsetRange, ReadBack, take_quarantined, take_records
from tests.samples.config import cluster_of
from tests.waiting import wait_until

pytestmark = pytest.mark.kafka
_unique = itertools.count(1)


def hashes(*values):
    return (
        sum(42 if value is None else xxhash.xxh64_intdigest(value, 42) for value in values) % 2**64
    )


class Topic:
    def __init__(self, kafka, partitions=1):
        self.name = f"read-back-{next(_unique)}"
        self.bootstrap = kafka.bootstrap
        self.cluster = cluster_of("local", bootstrap=kafka.bootstrap)
        ClusterClient(self.cluster).create_topics({self.name: partitions}, replication_factor=1)
        self.reader = ReadBack(self.cluster)

    def producer(self, transactional_id=None):
        transactional = (
            {"transactional.id": f"{self.name}-{transactional_id}"} if transactional_id else {}
        )
        made = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "queue.buffering.max.messages": 1_000_000,
                **transactional,
            }
        )
        if transactional_id:
            made.init_transactions(20)
            made.begin_transaction()
        return made

    def write(self, *values, partition=0, headers=None):
        producer = self.producer()
        for value in values:
            producer.produce(self.name, value, partition=partition, headers=headers)
        assert producer.flush(20) == 0

    def ends(self):
        return self.reader.ends(lambda name: name == self.name)[self.name]

    def read(self, taker=take_records, starts=None, patience_seconds=20):
        spans = {
            (self.name, n): OffsetRange(starts[n] if starts else 0, end)
            for n, end in enumerate(self.ends())
        }
        found = self.reader.read(spans, lambda _: taker, patience_seconds)
        return [found[self.name, number] for number in range(len(spans))]


@pytest.fixture
def topic(kafka):
    return Topic(kafka)


def test_aborted_records_and_control_records_take_offsets_and_are_not_seen(topic):
    committed, aborted = topic.producer("a"), topic.producer("b")
    aborted.produce(topic.name, b"aborted")
    aborted.flush(20)
    committed.produce(topic.name, b"committed")
    committed.commit_transaction(20)
    aborted.abort_transaction(20)
    wait_until(lambda: topic.ends() == [4])  # the markers are written a moment after the answer
    [seen] = topic.read()
    assert (seen.records, seen.checksum) == (1, hashes(b"committed"))


def test_of_a_quarantine_topic_only_records_of_the_run_count_by_reason(topic):
    def headers(run, reason):
        return [("shipper-run", run.encode()), ("shipper-reason", reason.encode())]

    topic.write(b"x", b"y", headers=headers("mine", "too_large"))
    topic.write(b"z", headers=headers("mine", "unparseable"))
    topic.write(b"z", headers=headers("other", "too_large"))
    topic.write(b"by hand")
    [seen] = topic.read(take_quarantined("mine"))
    assert (seen.records, seen.checksum, seen.reasons) == (
        3,
        hashes(b"x", b"y", b"z"),
        {"too_large": 2, "unparseable": 1},
    )
