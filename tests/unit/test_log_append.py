"""Writes outside of transactions: what is acknowledged, what is not, and what becomes of the
producer. librdkafka is real."""

import pytest
from confluent_kafka import KafkaError, KafkaException

from shipper.errors import ClusterError, OutcomeUnknown
from shipper.kafka.client import ClusterClient
from shipper.types import EncodedRecord
from tests.samples.config import cluster_of
from tests.unit.mock_cluster import fail_for_good, mock_cluster

RECORDS = [EncodedRecord(b"a", b"1"), EncodedRecord(b"b", b"2")]


@pytest.fixture
def broker():
    with mock_cluster() as found:
        found.create("ledger")
        yield found


@pytest.fixture
def client(broker):
    return ClusterClient(cluster_of(bootstrap=broker.bootstrap), timeout_seconds=1.0)


def test_a_producer_after_a_fatal_error_is_replaced(client):
    assert client.append("ledger", 0, RECORDS) == [0, 1]
    fail_for_good(client._log_producer("ledger"), KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert client.append("ledger", 0, RECORDS) == [2, 3]


def test_after_a_fatal_error_in_the_middle_nobody_knows_and_the_next_write_works(
    client, monkeypatch
):
    queue = ClusterClient._queue

    def breaking(producer, written, topic, partition, key, *rest):
        if key == b"b":
            fail_for_good(producer, KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER)
        queue(producer, written, topic, partition, key, *rest)

    with monkeypatch.context() as patched:
        patched.setattr(ClusterClient, "_queue", staticmethod(breaking))
        with pytest.raises((OutcomeUnknown, ClusterError)):
            client.append("ledger", 0, RECORDS)
    assert len(client.append("ledger", 0, RECORDS)) == 2


def test_an_acknowledgement_without_an_offset_is_an_unknown_outcome(broker, client):
    """A broker that has the batch already does not say where. Offset 0 would bound a later read by
    nothing."""
    assert client.append("ledger", 0, RECORDS) == [0, 1]
    broker.answer_next_produce(KafkaError.DUPLICATE_SEQUENCE_NUMBER)
    with pytest.raises(OutcomeUnknown, match=r"for ledger.* with their place"):
        client.append("ledger", 0, RECORDS[:1])


def test_a_record_whose_answer_does_not_come_in_time_may_be_there(broker, client):
    assert client.append("ledger", 0, RECORDS) == [0, 1]
    broker.delay(60_000)
    with pytest.raises(OutcomeUnknown, match="_MSG_TIMED_OUT"):
        client.append("ledger", 0, RECORDS)


class NotYet:
    """A producer whose brokers do not know the topic for a while: ``refused`` when a record is
    handed over, or ``reported`` later."""

    def __init__(self, tries, name, *, reported):
        self.tries, self.error, self.reported = tries, KafkaError(name), reported
        self.there = []
        self._reports = []

    def produce(self, topic, value, key, partition, on_delivery):
        self.tries -= 1
        if self.tries < 0:
            self.there.append(key)
            self._reports.append((on_delivery, None, Acknowledged(len(self.there) - 1)))
        elif self.reported:
            self._reports.append((on_delivery, self.error, Acknowledged(None)))
        else:
            raise KafkaException(self.error)

    def flush(self, timeout_seconds):
        reports, self._reports = self._reports, []
        for report, error, message in reports:
            report(error, message)
        return 0

    def list_topics(self, *arguments):
        pass


class Acknowledged:
    def __init__(self, offset):
        self._offset = offset

    def offset(self):
        return self._offset

    def topic(self):
        return "ledger"


@pytest.mark.parametrize("reported", [False, True])
@pytest.mark.parametrize("error", [KafkaError._UNKNOWN_TOPIC, KafkaError.LEADER_NOT_AVAILABLE])
def test_a_topic_that_brokers_do_not_know_yet_is_waited_for(client, monkeypatch, error, reported):
    producer = NotYet(4, error, reported=reported)
    monkeypatch.setattr(client, "_log_producer", lambda topic: producer)
    assert client.append("ledger", 0, RECORDS) == [0, 1]
    assert producer.there == [b"a", b"b"]


def test_a_topic_that_brokers_never_know_fails_within_the_timeout(client, monkeypatch):
    monkeypatch.setattr(
        client,
        "_log_producer",
        lambda topic: NotYet(10_000, KafkaError._UNKNOWN_TOPIC, reported=True),
    )
    with pytest.raises(ClusterError, match="cannot write to ledger: _UNKNOWN_TOPIC"):
        client.append("ledger", 0, RECORDS)


def test_a_record_is_not_written_behind_a_later_one(client, monkeypatch):
    """In the ledger the latest record of a key counts: what failed is written again only if nothing
    behind it was written."""
    producer = NotYet(1, KafkaError.UNKNOWN_TOPIC_OR_PART, reported=True)
    monkeypatch.setattr(client, "_log_producer", lambda topic: producer)
    with pytest.raises(ClusterError, match="UNKNOWN_TOPIC_OR_PART"):
        client.append("ledger", 0, RECORDS)
    assert producer.there == [b"b"]
