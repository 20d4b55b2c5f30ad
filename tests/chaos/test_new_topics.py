"""A topic that was created a moment ago, on three brokers of which one is behind."""

import threading
import time

import pytest

from shipper.config.cluster import Cluster
from shipper.kafka.client import ClusterClient
from shipper.types import EncodedRecord
from tests.chaos.kafka_cluster import BROKERS

pytestmark = [pytest.mark.kafka]


@pytest.mark.short
def test_a_new_topic_can_be_written_to_whichever_broker_was_behind(shared_site):
    """The broker is paused when the topic is created, and wakes up with old metadata."""
    shared_site.heal()
    kafka = shared_site.kafka
    for behind in BROKERS:
        client = ClusterClient(
            Cluster.model_validate({"cluster": "c", "bootstrap": kafka.bootstrap})
        )
        topic = f"new-{behind}-{time.time_ns()}"
        client.topics()
        awake = threading.Event()

        def wake(broker=behind, awake=awake):
            kafka.resume(broker)
            awake.set()

        kafka.pause(behind)
        threading.Timer(1.5, wake).start()
        client.create_topics({topic: 2}, replication_factor=3)
        assert awake.is_set(), "nobody has asked the broker that is behind"
        assert client.append(topic, 1, [EncodedRecord(b"first", b"")]) == [0]
    shared_site.heal()
