"""How a span is read to its end, with librdkafka's own messages from a consumer that is none. On a
broker: tests/integration/test_read_back.py."""

import pytest
from confluent_kafka import KafkaError, Message

from shipper.errors import ClusterError, OutcomeUnknown
from shipper.verify.readback import OffsetRange, ReadBack, SpanSums, take_records
from tests.samples.config import cluster_of


def record(offset, partition=0, value=b"x"):
    return Message(topic="t", partition=partition, offset=offset, value=value)


def end(offset, partition=0, code=KafkaError._PARTITION_EOF):
    return Message(topic="t", partition=partition, offset=offset, error=KafkaError(code))


class Consumer:
    """Gives one batch after the other, then nothing."""

    def __init__(self, *batches):
        self.batches = list(batches)
        self.rest = []
        self.left = []

    def poll(self, seconds):
        if not self.batches:
            return None
        first, *self.rest = self.batches.pop(0)
        return first

    def consume(self, most, seconds):
        return self.rest

    def incremental_unassign(self, partitions):
        self.left += [partition.partition for partition in partitions]


def drained(consumer, **spans):
    """``p0=3``: partition 0 is to be read from 0 to 3. Returns the records that were counted, by
    partition."""
    waiting = {("t", int(name[1:])): OffsetRange(0, stop) for name, stop in spans.items()}
    seen = {place: SpanSums() for place in waiting}
    reader = ReadBack(cluster_of())
    reader._drain(consumer, waiting, seen, {"t": take_records}, 0.2)
    return [found.records for found in seen.values()]


def test_an_end_that_comes_with_the_last_records_does_not_hide_them():
    assert drained(Consumer([record(0), record(1), end(2)]), p0=2) == [2]
    assert drained(Consumer([end(1, 1), record(0, 1), record(0, 0)]), p0=1, p1=1) == [1, 1]


def test_control_records_at_the_end_are_passed_by_the_end_of_the_partition():
    assert drained(Consumer([record(0), record(1)], [end(3)]), p0=3) == [2]


def test_an_end_before_the_spans_end_is_an_open_transaction_and_is_waited_for():
    assert drained(Consumer([record(0), end(1)], [record(1), end(3)]), p0=3) == [2]
    with pytest.raises(OutcomeUnknown, match="a transaction is open"):
        drained(Consumer([record(0), end(1)]), p0=3)


def test_what_was_written_after_the_end_was_taken_does_not_count():
    consumer = Consumer([record(0), record(1), record(2), record(3)], [record(4)], [record(0, 1)])
    assert drained(consumer, p0=2, p1=1) == [2, 1]
    assert consumer.left == [0, 1]


def test_another_error_is_no_end():
    with pytest.raises(ClusterError, match="t-0 cannot be read"):
        drained(Consumer([end(5, code=KafkaError.TOPIC_AUTHORIZATION_FAILED)]), p0=2)
