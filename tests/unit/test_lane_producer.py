"""What a lane's producer hears of its connections without anybody telling it."""

import socket
import time

import confluent_kafka
import pytest
from confluent_kafka import ThrottleEvent

from shipper.kafka.connection import KafkaFault, call
from shipper.kafka.producer import LaneProducer, LaneSettings, SentBytes
from shipper.kafka.transaction import _TransactionalProducer
from tests.unit.mock_cluster import mock_cluster


def test_a_connection_that_broke_is_noticed_though_no_call_failed():
    with socket.create_server(("127.0.0.1", 0)) as server:  # takes connections and says nothing
        address = f"127.0.0.1:{server.getsockname()[1]}"
        producer = _TransactionalProducer(
            LaneSettings({"bootstrap.servers": address}, 1000, "none", 10_000), "lane"
        )
        client, _ = server.accept()
        assert not producer.lost_connection()
        client.close()
        server.accept()  # librdkafka connects anew once it has told its log of the loss
        assert producer.lost_connection()
        producer.discard()


def test_a_fatal_error_whose_cause_was_lost_is_a_fault_like_any_other():
    """confluent-kafka's calls, from time to time, when a lane is fenced while they wait."""

    def flush():
        raise SystemError("<built-in method flush> returned NULL without setting an exception")

    with pytest.raises(KafkaFault) as found:
        call(flush)
    assert found.value.name == "_FATAL"


class FencedWhileFlushing:
    """A Producer whose lane is fenced while it is thrown away; confluent-kafka has lost which error
    that was."""

    def purge(self, *what):
        pass

    def flush(self, timeout_seconds):
        raise SystemError("<built-in method flush> returned NULL without setting an exception")


def test_a_lane_that_is_fenced_while_it_is_discarded_leaves_nothing_behind():
    producer = _TransactionalProducer(
        LaneSettings({"bootstrap.servers": "127.0.0.1:1"}, 1000, "none", 10_000), "lane"
    )
    producer._packed._topic("t")
    producer._client = FencedWhileFlushing()
    producer.discard()
    assert not hasattr(producer, "_client"), (
        "librdkafka's threads and connections would stay for the task's life"
    )
    assert producer._packed._topics == {}, (
        "librdkafka waits for topic handles that nobody gives back"
    )


def test_a_lane_that_was_throttled_by_the_answer_to_one_batch_does_not_wait_for_the_next_one():
    """The broker reads nothing more before the transaction times out. The lane knew of it, took the
    figure for the rate, and forgot it: it then waited until its transaction had timed out."""
    settings = LaneSettings(
        {"bootstrap.servers": "127.0.0.1:1"}, 1000, "none", 10_000, transactional=False
    )
    producer = _TransactionalProducer(settings, "lane")
    producer._hear_throttling(ThrottleEvent("broker", 1, 60.0))
    assert producer.take_throttled().seconds == 60.0
    producer._ends_at = time.monotonic() + 30
    producer.produce("t", b"of the next batch", None, 0)
    until = time.monotonic() + 3
    with pytest.raises(KafkaFault) as found:
        producer.flush(lambda: until)
    producer.discard()
    assert found.value.name == "THROTTLING_QUOTA_EXCEEDED"


def test_what_was_sent_is_counted_at_any_moment_as_the_statistics_count_it(monkeypatch):
    with mock_cluster() as mock:
        mock.create("logs", 3)
        settings = LaneSettings(
            {"bootstrap.servers": mock.bootstrap}, 10_000, "none", 10_000, transactional=False
        )
        producer = LaneProducer(settings, "")
        for number in range(300):
            producer.produce("logs", b"value", b"%03d" % number)
        producer.flush(lambda: time.monotonic() + 30)
        counted = producer.count_sent()
        assert counted.record_bytes == 300 * len("value001")
        assert counted.wire_bytes > counted.record_bytes
        producer.sent = SentBytes()
        deadline = time.monotonic() + 600
        while (
            producer.sent.record_bytes < counted.record_bytes
        ):  # statistics of before may still wait to be served
            producer.wait_for_room(lambda: deadline)
        assert producer.sent.record_bytes == counted.record_bytes
        # A request for metadata may come since then, and statistics leave out what went by a
        # bootstrap connection that is gone.
        assert 0.9 * counted.wire_bytes < producer.sent.wire_bytes < 1.1 * counted.wire_bytes
        producer.discard()

        monkeypatch.setattr(confluent_kafka, "__version__", "2.99.0")
        untried = LaneProducer(settings, "")
        untried.sent = SentBytes(1, 2)
        assert untried.count_sent() == SentBytes(1, 2), "what the statistics said last"
        untried.discard()
