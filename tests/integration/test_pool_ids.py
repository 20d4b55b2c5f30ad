"""What a lane does with a topic's id, on a real broker: it goes into the ledger record once it is
confirmed, and not without."""

import time

import pytest

from shipper.errors import ClusterRefuses
from shipper.kafka.topic_ids import Looked, TopicIdWatch
from shipper.kafka.topics import TopicLookup
from shipper.worker.chunk import Chunk
from tests.waiting import slowness

from .pool_world import LEDGER, Ledger, Pool

pytestmark = [pytest.mark.kafka]


@pytest.fixture
def ledger(kafka):
    return Ledger(kafka)


@pytest.fixture
def topic(request):
    return str(request.node.name)[:40]


def chunk(topic, key):
    return Chunk(
        topic,
        [b"one", b"two"],
        6,
        key,
        lambda partition, topic_id: (topic_id or "none").encode(),
        "two records",
    )


def ids_in_ledger(ledger, *keys):
    latest = {
        record.key: record.value or b""
        for record in ledger.client.read(LEDGER, 0, 0, wait_seconds=60)
    }
    return [latest.get(key, b"") for key in keys]


class Scripted:
    """Looks that answer with ``says``, one after the other, and then the last one for ever."""

    def __init__(self, *says):
        self.says = list(says)

    def __call__(self, topics, timeout_seconds):
        return self.says.pop(0) if len(self.says) > 1 else self.says[0]


def test_a_transaction_whose_topic_changed_is_sent_again_under_the_new_id(ledger, topic):
    ledger.create(**{topic: 1})
    watch = TopicIdWatch(Scripted(Looked(ids={topic: "B"})), {topic: "A"})
    with Pool(ledger.options(topic_ids=watch), [f"{topic}.0"], resolve_outcome=ledger.keys) as pool:
        pool.open([topic])
        pool.submit([chunk(topic, topic.encode())])
        pool.drain()
        assert pool.reopened == 1
    watch.close()
    assert ids_in_ledger(ledger, topic.encode()) == [b"B"]
    assert ledger.values(topic) == [b"one", b"two"]


def test_an_id_that_nobody_confirms_is_not_claimed(ledger, topic):
    """The ledger record with the id was on its way already: another one takes its place in the same
    transaction."""
    ledger.create(**{topic: 1})
    watch = TopicIdWatch(
        Scripted(Looked(faults={topic: "no broker answers"})), {topic: "A"}, patience_seconds=1.0
    )
    began = time.monotonic()
    with Pool(ledger.options(topic_ids=watch), [f"{topic}.0"], resolve_outcome=ledger.keys) as pool:
        pool.open([topic])
        pool.submit([chunk(topic, topic.encode())])
        pool.drain()
        assert pool.reopened == 0
    watch.close()
    assert time.monotonic() - began < 30 * slowness()
    assert ids_in_ledger(ledger, topic.encode()) == [b"none"]
    assert ledger.values(topic) == [b"one", b"two"]
    assert watch.unconfirmed[topic] == 1
    assert watch.why(topic) == "no broker answers"


def test_what_the_driver_took_for_gone_is_not_sent_again_if_it_is_there_after_all(ledger, topic):
    """A broker whose metadata lag behind said that the topic was another one."""
    ledger.create(**{topic: 1})
    real = ledger.client.present_ids([topic])[topic]
    assert real
    watch = TopicIdWatch(TopicLookup(ledger.options().settings).ids, {topic: "earlier"})
    options = ledger.options(topic_ids=watch, gone_ids={topic: {real}})
    with Pool(options, [f"{topic}.0"], resolve_outcome=ledger.keys) as pool:
        pool.open([topic])
        pool.submit([chunk(topic, topic.encode())])
        with pytest.raises(ClusterRefuses, match="about to be sent again"):
            pool.drain()
    watch.close()
    assert ids_in_ledger(ledger, topic.encode()) == [b""]
    assert ledger.values(topic) == []
