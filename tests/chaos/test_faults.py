"""One fault at a time that must come at its moment, or that needs a topic of its own; random_run.py
has the others. After each: the ship ended, a rerun finishes it, and the count is exact."""

import threading
import time

import pytest

from tests.chaos.kafka_cluster import BROKERS
from tests.chaos.world import END_TXN

pytestmark = [pytest.mark.kafka]


def begun(pipe, **changes):
    """A ship that has delivered something and has more to do."""
    ship = pipe.ship(**changes)
    assert ship.wait_for("shipping"), ship.last_words()
    pipe.wait_until_shipped(1, ship)
    return ship


def finish(pipe):
    pipe.rerun()
    pipe.assert_exact()


# Brokers


@pytest.mark.parametrize(
    "committed",
    [pytest.param(True, marks=pytest.mark.short), False],
    ids=["committed", "not committed"],
)
def test_the_coordinator_is_killed_during_a_commit(new_pipe, committed):
    """The lane does not get an answer to its EndTxn, which the coordinator has carried out, or has
    never seen."""
    pipe = new_pipe()
    ship = begun(pipe)
    coordinator = pipe.site.kafka.coordinator_of(pipe.lane_id())
    link = pipe.site.links[coordinator]
    (link.hold_response if committed else link.hold_request)(END_TXN)
    assert link.wait_held(60), ship.last_words()
    pipe.site.kafka.kill(coordinator)
    link.release()
    ship.succeeds()
    finish(pipe)


def test_too_few_replicas_are_in_sync(new_pipe):
    pipe = new_pipe(delivery={"metadata_wait": "120s", "transaction_timeout": "60s"})
    kafka = pipe.site.kafka
    ship = begun(pipe)
    for broker in BROKERS[:2]:
        kafka.kill(broker)
    kafka.wait_for(
        lambda: kafka.partitions(pipe.topic)[0].isrs == list(BROKERS[2:]),
        "one replica is left in sync",
    )
    time.sleep(5)
    assert ship.running
    kafka.heal()
    ship.succeeds()
    finish(pipe)


def test_the_ledger_alone_has_too_few_replicas_in_sync(new_pipe):
    """The data could be written. The ship ends, says that it is the ledger, and everything is there
    once it is well."""
    pipe = new_pipe(
        tasks=1, lanes=1, delivery={"metadata_wait": "30s", "transaction_timeout": "10s"}
    )
    kafka, ledger = pipe.site.kafka, pipe.numbered().cluster.ledger_topic(pipe.name)
    kafka.create_topic(
        ledger,
        2,
        min_insync_replicas="3",
        cleanup_policy="compact",
        message_timestamp_type="LogAppendTime",
    )
    ship = begun(pipe)
    kafka.kill(
        next(
            broker
            for broker in BROKERS
            if broker not in (kafka.leader_of(ledger, 0), kafka.leader_of(ledger, 1))
        )
    )
    end = ship.wait(300)
    assert ship.process.returncode == 1
    assert ledger in end["error"], end
    kafka.heal()
    finish(pipe)


# Links


# Topics


def test_a_topic_is_never_created(new_pipe):
    """The ship ends, says which topic is missing, and everything is there once somebody
    created it."""
    pipe = new_pipe(missing=1, delivery={"metadata_wait": "10s"})
    ship = pipe.ship()
    end = ship.wait()
    assert ship.process.returncode == 1
    assert pipe.topic_names[1] in end["error"], end
    pipe.site.kafka.create_topic(pipe.topic_names[1], 2)
    finish(pipe)


def test_a_topic_is_created_late(new_pipe):
    pipe = new_pipe(missing=1, delivery={"metadata_wait": "60s"})
    ship = pipe.ship()
    ship.wait_for("task")
    pipe.site.kafka.create_topic(pipe.topic_names[1], 2)
    end = ship.wait()
    assert ship.process.returncode == 0 or pipe.topic_names[1] in end["error"], end
    finish(pipe)


@pytest.mark.parametrize(
    "recreated", [False, True], ids=["and created later", "and created at once"]
)
def test_a_topic_is_deleted_in_an_open_transaction(new_pipe, recreated):
    """Records that were committed to it before are gone: the next run names the topic and sends
    nothing, and a resend restores exactly them."""
    pipe = new_pipe(topics=2, tasks=1, lanes=1, delivery={"metadata_wait": "15s"})
    kept, deleted = pipe.topic_names
    kafka = pipe.site.kafka
    ship = begun(pipe)
    link = pipe.site.links[kafka.coordinator_of(pipe.lane_id())]
    link.hold_request(END_TXN)
    assert link.wait_held(60), ship.last_words()
    kafka.delete_topic(deleted)
    if recreated:
        kafka.create_topic(deleted, 3)
    link.release()
    ship.wait()
    kafka.create_topic(deleted, 3)
    refused = pipe.ship()
    end = refused.wait()
    assert refused.process.returncode == 1, end
    assert deleted in end["error"], end
    assert end["delivered"] == 0
    pipe.rerun(delivery={"metadata_wait": "15s", "on_recreated": "resend"})
    for topic in (kept, deleted):
        # By the topic alone: the ledger holds chunks of the earlier topic, too.
        count = pipe.count(topics=(topic,))
        assert (count.lost, count.doubled, count.foreign) == (0, 0, 0), count


# Others who write


# The ship's own processes


@pytest.mark.parametrize(
    "victim", [pytest.param("driver", marks=pytest.mark.short), "worker", "all"]
)
@pytest.mark.parametrize("committed", [True, False], ids=["committed", "not committed"])
def test_kill_9_between_the_commit_and_its_answer(new_pipe, victim, committed):
    pipe = new_pipe()
    ship = begun(pipe)
    link = pipe.site.links[pipe.site.kafka.coordinator_of(pipe.lane_id())]
    (link.hold_response if committed else link.hold_request)(END_TXN)
    assert link.wait_held(60), ship.last_words()
    ship.kill(victim)
    threading.Timer(3, link.release).start()
    ship.wait()
    pipe.rerun()
    ship.wait_for_orphans(60)
    pipe.assert_exact()
