"""The reader of the delivery gate on a real broker: what a read_committed consumer sees, and
nothing else."""

from __future__ import annotations

import itertools

import pytest
import xxhash
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from shipper_tools.dev.kafka import KafkaServer

from shipper.config.cluster import Cluster
from shipper.errors import OutcomeUnknown
from shipper.kafka.client import ClusterClient
from shipper.verify.readback import (
    OffsetRange,
    ReadBack,
    SpanSums,
    Taker,
    take_bundles,
    take_quarantined,
    take_records,
)
from tests.waiting import wait_until

pytestmark = pytest.mark.kafka
_unique = itertools.count(1)


def hashes(*values: bytes | None) -> int:
    return (
        sum(42 if value is None else xxhash.xxh64_intdigest(value, 42) for value in values) % 2**64
    )


class Topic:
    def __init__(self, kafka: KafkaServer, partitions: int = 1) -> None:
        self.name = f"read-back-{next(_unique)}"
        self.bootstrap = kafka.bootstrap
        self.cluster = Cluster.model_validate({"cluster": "local", "bootstrap": kafka.bootstrap})
        ClusterClient(self.cluster).create_topics({self.name: partitions}, replication_factor=1)
        self.reader = ReadBack(self.cluster)

    def producer(self, transactional_id: str | None = None) -> Producer:
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

    def write(
        self,
        *values: bytes | None,
        partition: int = 0,
        headers: list[tuple[str, bytes]] | None = None,
    ) -> None:
        producer = self.producer()
        for value in values:
            producer.produce(self.name, value, partition=partition, headers=headers)
        assert producer.flush(20) == 0

    def ends(self) -> list[int]:
        return self.reader.ends(lambda name: name == self.name)[self.name]

    def read(
        self,
        taker: Taker = take_records,
        starts: list[int] | None = None,
        patience_seconds: float = 20,
    ) -> list[SpanSums]:
        spans = {
            (self.name, n): OffsetRange(starts[n] if starts else 0, end)
            for n, end in enumerate(self.ends())
        }
        found = self.reader.read(spans, lambda _: taker, patience_seconds)
        return [found[self.name, number] for number in range(len(spans))]


@pytest.fixture
def topic(kafka: KafkaServer) -> Topic:
    return Topic(kafka)


def test_every_partition_is_counted_and_hashed_by_itself(kafka: KafkaServer) -> None:
    topic = Topic(kafka, partitions=3)
    topic.write(b"one", b"two", None, b"", partition=0)
    topic.write(b"three", partition=2)
    assert [(seen.records, seen.checksum) for seen in topic.read()] == [
        (4, hashes(b"one", b"two", None, b"")),
        (0, 0),
        (1, hashes(b"three")),
    ]


def test_it_begins_at_the_offsets_that_it_is_given_and_ends_at_the_end_as_it_was(
    topic: Topic,
) -> None:
    topic.write(b"before", b"before")
    starts = topic.ends()
    topic.write(b"ours", b"ours too")
    spans = {(topic.name, 0): OffsetRange(starts[0], topic.ends()[0])}
    topic.write(b"later")
    [seen] = topic.reader.read(spans, lambda _: take_records, 20).values()
    assert (seen.records, seen.checksum) == (2, hashes(b"ours", b"ours too"))


def test_aborted_records_and_control_records_take_offsets_and_are_not_seen(topic: Topic) -> None:
    committed, aborted = topic.producer("a"), topic.producer("b")
    aborted.produce(topic.name, b"aborted")
    aborted.flush(20)
    committed.produce(topic.name, b"committed")
    committed.commit_transaction(20)
    aborted.abort_transaction(20)
    wait_until(lambda: topic.ends() == [4])  # the markers are written a moment after the answer
    [seen] = topic.read()
    assert (seen.records, seen.checksum) == (1, hashes(b"committed"))


def test_an_open_transaction_is_waited_for_and_then_it_is_said(topic: Topic) -> None:
    open_one = topic.producer("open")
    open_one.produce(topic.name, b"open")
    open_one.flush(20)
    topic.write(b"behind it")
    with pytest.raises(
        OutcomeUnknown,
        match=r"read-back-\d+-0 could not be read to its end.*a transaction is open",
    ):
        topic.read(patience_seconds=1)
    open_one.commit_transaction(20)
    assert topic.read()[0].records == 2


def test_records_that_are_deleted_are_missed_and_it_is_said_from_where_on(topic: Topic) -> None:
    topic.write(b"gone", b"gone", b"stays")
    admin = AdminClient({"bootstrap.servers": topic.bootstrap})
    for future in admin.delete_records([TopicPartition(topic.name, 0, 2)]).values():
        future.result(20)
    [seen] = topic.read()
    assert (seen.records, seen.begins) == (1, 2)


def test_bundles_count_as_the_lines_that_they_hold(topic: Topic) -> None:
    topic.write(b"a\nb\n\nc", headers=[("shipper-lines", b"4"), ("file", b"x")])
    topic.write(b"one\nwith a break", headers=[("shipper-lines", b"1")])
    topic.write(b"no\nheader", None)
    [seen] = topic.read(take_bundles)
    assert (seen.records, seen.checksum) == (
        7,
        hashes(b"a", b"b", b"", b"c", b"one\nwith a break", b"no\nheader", None),
    )


def test_of_a_quarantine_topic_only_records_of_the_run_count_by_reason(topic: Topic) -> None:
    def headers(run: str, reason: str) -> list[tuple[str, bytes]]:
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


def test_a_topic_that_others_write_to_without_end_is_left_at_the_end_as_it_was(
    kafka: KafkaServer,
) -> None:
    topic = Topic(kafka, partitions=2)
    topic.write(*[b"line %d" % n for n in range(20_000)], partition=0)
    topic.write(b"one", partition=1)
    spans = {(topic.name, number): OffsetRange(0, end) for number, end in enumerate(topic.ends())}
    writes: list[int] = []

    def taker(_: str) -> Taker:
        def take(seen: SpanSums, messages: list[object]) -> None:
            topic.write(b"another's")
            writes.append(1)
            take_records(seen, messages)

        return take

    found = topic.reader.read(spans, taker, 20)
    assert writes
    assert [seen.records for seen in found.values()] == [20_000, 1]
