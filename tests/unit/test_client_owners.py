"""No client is in a cycle with the object that owns it: the garbage collector runs in any thread,
and in one of librdkafka's own it would destroy the client and abort the process."""

import gc
import weakref

import pytest

from shipper.kafka.client import ClusterClient
from shipper.kafka.connection import connection
from shipper.kafka.producer import LaneProducer, LaneSettings
from shipper.kafka.topics import TopicLookup
from shipper.verify.readback import ReadBack
from tests.samples.config import cluster_of

CLUSTER = cluster_of("nobody")
LANE = LaneSettings(connection(CLUSTER), 100_000, "none", 30_000)
OWNERS = [
    lambda: ClusterClient(CLUSTER),
    lambda: TopicLookup(LANE),
    lambda: LaneProducer(LANE, "nobody.0"),
    lambda: ReadBack(CLUSTER),
]


@pytest.mark.parametrize("make", OWNERS, ids=["client", "topics", "producer", "read back"])
def test_an_owner_and_its_client_are_gone_with_the_last_reference(make):
    gc.disable()
    try:
        owner = make()
        alive = weakref.ref(owner)
        del owner
        assert alive() is None
    finally:
        gc.enable()
