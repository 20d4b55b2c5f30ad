"""What the client of a cluster says when nobody can know, without a broker."""

import threading
from concurrent.futures import Future

import pytest
from confluent_kafka import KafkaError, KafkaException

from shipper.driver.preflight import is_transactional
from shipper.errors import ClusterError, ClusterRefuses, OutcomeUnknown
from shipper.kafka import admin as module
from shipper.kafka.client import ClusterClient
from shipper.kafka.connection import KafkaFault
from tests.samples.config import cluster_of, pipeline_of
from tests.unit.mock_cluster import mock_cluster

CLUSTER = cluster_of("far")


class Silent:
    """A producer that hears nothing, neither that a record is there nor that it is not."""

    def produce(self, *record, **callbacks):
        pass

    def flush(self, timeout_seconds):
        return 1


def test_a_write_that_was_not_acknowledged_is_not_taken_for_written(monkeypatch):
    client = ClusterClient(CLUSTER)
    monkeypatch.setattr(client, "_log_producer", lambda topic: Silent())
    with pytest.raises(OutcomeUnknown, match="2 of 2 records for ledger were not acknowledged"):
        client.append("ledger", 0, [(b"a", b""), (b"b", b"")])


class Creating:
    """An AdminClient whose cluster has just created the topics; brokers learn of them later. Or it
    refuses to create them."""

    def __init__(self, client, refuses=None):
        self._client, self._refuses = client, refuses

    def create_topics(self, topics, **options):
        done = Future()
        if self._refuses is None:
            done.set_result(None)
        else:
            done.set_exception(KafkaException(KafkaError(self._refuses)))
        return {topic.topic: done for topic in topics}

    def __getattr__(self, name):
        return getattr(self._client, name)


def test_a_topic_is_created_when_every_broker_knows_it_and_not_before():
    """A broker that is behind says UNKNOWN_TOPIC_OR_PART, and librdkafka then fails the first
    record: "_UNKNOWN_TOPIC"."""
    with mock_cluster() as broker:
        broker.create("new")
        broker.say_of("new", KafkaError.UNKNOWN_TOPIC_OR_PART)
        client = ClusterClient(cluster_of(bootstrap=broker.bootstrap))
        client._client = Creating(client._client)
        learns = threading.Event()

        def learn():
            learns.set()
            broker.say_of("new", 0)

        timer = threading.Timer(0.2, learn)
        timer.start()
        client.create_topics({"new": 1})
        knew = learns.is_set()
        timer.join()
        assert knew


def test_a_topic_that_a_broker_does_not_know_in_time_is_an_error_that_names_the_broker():
    with mock_cluster() as broker:
        broker.create("new")
        broker.say_of("new", KafkaError.UNKNOWN_TOPIC_OR_PART)
        client = ClusterClient(cluster_of(bootstrap=broker.bootstrap), timeout_seconds=1.0)
        client._client = Creating(client._client)
        with pytest.raises(ClusterError, match=f"broker {broker.bootstrap} does not know new"):
            client.create_topics({"new": 1})


@pytest.mark.parametrize(
    ("fault", "lacks_a_right"),
    [
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, True),
        (KafkaError.TOPIC_EXCEPTION, False),
        (KafkaError.POLICY_VIOLATION, False),
    ],
)
def test_a_right_is_asked_for_only_where_one_is_missing(fault, lacks_a_right):
    with mock_cluster() as broker:
        client = ClusterClient(cluster_of(bootstrap=broker.bootstrap))
        client._client = Creating(client._client, fault)
        with pytest.raises(ClusterRefuses) as refused:
            client.create_topics({"new": 1})
        assert ("Grant Create" in refused.value.message) is lacks_a_right


def _pipeline():
    return pipeline_of(clusters=["far"], delivery={"guarantee": "prefer_exactly_once"})


@pytest.mark.parametrize("fault", ["_UNSUPPORTED_FEATURE", "UNSUPPORTED_VERSION"])
def test_a_cluster_without_transactions_is_one_that_says_so(monkeypatch, fault):
    asked = []

    def refuse(settings, transactional_id, *rest):
        asked.append(transactional_id)
        raise KafkaFault(fault, "")

    monkeypatch.setattr(module, "try_transaction", refuse)
    assert not is_transactional(ClusterClient(CLUSTER), CLUSTER, _pipeline(), "t")
    assert asked == ["web.far.preflight"]


@pytest.mark.parametrize(
    "fault",
    ["_TIMED_OUT", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS", "_TRANSPORT"],
)
def test_a_coordinator_that_is_slow_does_not_make_a_run_promise_less(monkeypatch, fault):
    def refuse(*arguments):
        raise KafkaFault(fault, "")

    monkeypatch.setattr(module, "try_transaction", refuse)
    with pytest.raises(ClusterError, match="cannot tell whether it has transactions") as found:
        is_transactional(ClusterClient(CLUSTER), CLUSTER, _pipeline(), "t")
    assert found.value.retriable
