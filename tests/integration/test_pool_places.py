"""Where the lane pool sends chunks, in which order, and how much of them at a time; on a real
broker, from plain Python."""

import os

import pytest

from shipper.config.pipeline import Pipeline
from shipper.driver.preflight import preflight
from shipper.errors import ClusterRefuses, RecordUnshippable, TopicMissing
from shipper.kafka.limits import TopicLimit, TopicLimits
from shipper.worker.chunk import Chunk

from .committed import read_committed
from .pool_world import Ledger, Pool, chunk

pytestmark = [pytest.mark.kafka]


@pytest.fixture
def ledger(kafka):
    return Ledger(kafka)


def test_a_list_of_partitions_that_a_topic_does_not_have_ends_with_the_deadline(ledger):
    ledger.create(wide=5, narrow=1)
    options = ledger.options(deadline_seconds=3, partitions=(3, 4))
    with Pool(options, ["listed.0", "listed.1"], ledger.keys) as pool:
        pool.open(["wide", "narrow"])
        for n in range(4):
            pool.submit([chunk("wide", f"w{n}"), chunk("narrow", f"n{n}")])
        pool.drain()
        with pytest.raises(
            TopicMissing,
            match=r"narrow: it has 1 partition, and none of 3, 4 \(`delivery.partitions`\)",
        ):
            pool.raise_given_up()
    assert pool.unsent() == {"narrow": 400}
    assert pool.parked_records == {"narrow": 400}, "each is parked once, not at every turn"
    assert [len(read_committed(ledger.cluster.bootstrap, "wide", p)) > 0 for p in range(5)] == [
        False,
        False,
        False,
        True,
        True,
    ]


def test_a_list_of_partitions_that_are_not_there_is_refused_before_anything_is_sent(ledger):
    ledger.create(five=5, one=1)
    spec = {
        "pipeline": "web",
        "source": "logs",
        "topic": "five",
        "quarantine": {"topic": "one"},
        "clusters": ["c"],
    }
    refused = Pipeline.model_validate(spec | {"delivery": {"partitions": [0, 4, 5]}})
    with pytest.raises(
        ClusterRefuses, match=r"five has 5 .* no 5 .*one has 1 .* no 4, 5 .*SHIP-405"
    ):
        preflight(ledger.client, ledger.cluster, refused, 1.0)
    taken = Pipeline.model_validate(spec | {"delivery": {"partitions": [0]}})
    limits = preflight(ledger.client, ledger.cluster, taken, 1.0).limits
    assert {topic: limit.max_bytes for topic, limit in limits.items()} == dict.fromkeys(
        ("five", "one"), TopicLimit().max_bytes
    )


def test_a_watcher_of_topics_that_breaks_ends_the_pool_with_the_cause(ledger):
    ledger.create(watched=1)
    with Pool(ledger.options(deadline_seconds=3), ["watched.0"], ledger.keys) as pool:
        pool.open(["watched"])
        cause = RuntimeError("can't start new thread")

        def broken(*_):
            raise cause

        pool.submit([chunk("nowhere", "a")])
        pool._topics._lookup = broken
        with pytest.raises(RuntimeError) as raised:
            pool.drain()
    assert raised.value is cause


def test_a_topic_is_asked_what_it_takes_when_nobody_knew_it_before_reading(ledger):
    """As one whose name is made of a column: batches are halved until they fit, and only a record
    that is too large itself fails."""
    for topic in ("unknown", "refuses"):
        ledger.client.create_topics({topic: 1}, {"max.message.bytes": "20000"}, 1)
    noise = [os.urandom(1000) for _ in range(300)]
    limits = TopicLimits(
        ask=lambda topics: {
            t: facts.limit for t, facts in ledger.client.facts(list(topics)).items()
        }
    )
    with Pool(ledger.options(batch=200_000, limits=limits), ["asked.0"], ledger.keys) as pool:
        pool.open()
        pool.submit(
            [Chunk("unknown", noise, 300_000, b"unknown", lambda p, topic_id: b"", "noise")]
        )
        pool.drain()
        pool.submit(
            [
                Chunk(
                    "refuses",
                    [*noise, os.urandom(30_000)],
                    330_000,
                    b"refuses",
                    lambda p, topic_id: b"",
                    "noise",
                )
            ]
        )
        with pytest.raises(RecordUnshippable, match="record 301 has 30,000 bytes"):
            pool.drain()
    assert ledger.values("unknown") == noise
    assert ledger.values("refuses") == []
