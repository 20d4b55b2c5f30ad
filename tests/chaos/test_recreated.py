"""A topic that is deleted and created again does not hold what the ledger says: no run is
green over it, and none sends twice because of it."""

import time

import pytest

pytestmark = [pytest.mark.kafka]

AGAIN = {"on_recreated": "resend"}


def recreate(pipe, topic=None, *, absent_seconds=1.0):
    pipe.site.kafka.delete_topic(topic or pipe.topic)
    time.sleep(absent_seconds)
    pipe.site.kafka.create_topic(topic or pipe.topic, pipe.partitions)


def fails(ship):
    """Return the error of a ship that must fail."""
    end = ship.wait()
    assert ship.process.returncode == 1, f"{end}; {ship.last_words()}"
    return str(end["error"])


def assert_each_record_once(pipe):
    """Count by the topics alone, because the ledger holds chunks of the earlier topics, too."""
    count = pipe.count()
    assert (count.lost, count.doubled, count.foreign) == (0, 0, 0), count


@pytest.mark.short
def test_a_topic_that_is_recreated_between_two_runs(new_pipe):
    """All of it is gone. The same command again says so and sends nothing; with the policy it sends
    everything, once, and then nothing more."""
    pipe = new_pipe()
    sent = pipe.ship().succeeds()["delivered"]
    recreate(pipe)
    said = fails(pipe.ship())
    assert pipe.topic in said
    assert f"{sent:,} records of 4 files" in said, said
    assert "on_recreated" in said, said
    assert "--reship" in said, said
    assert not pipe.read(pipe.topic)
    again = pipe.ship(delivery=AGAIN).succeeds()
    assert (again["delivered"], again["before"]) == (sent, 0)
    assert_each_record_once(pipe)
    assert pipe.ship().succeeds()["delivered"] == 0


@pytest.mark.parametrize("absent_seconds", [0.0, 4.0])
def test_a_topic_that_is_recreated_during_a_run(new_pipe, absent_seconds):
    """R1: the run is red and names the topic; the same command again is red; with the policy
    exactly what is gone is sent again, in other chunks than before, and what had reached the new
    topic is not."""
    pipe = new_pipe(files=(0, 8), delivery={"metadata_wait": "60s"})
    ship = pipe.ship()
    assert ship.wait_for("shipping"), ship.last_words()
    pipe.wait_until_shipped(3_000, ship)
    recreate(pipe, absent_seconds=absent_seconds)
    assert ship.running, ship.last_words()
    said = fails(ship)
    assert pipe.topic in said
    assert "deleted and created again" in said, said
    there = sum(pipe.read(pipe.topic).values())
    total = pipe.count().expected
    assert 0 < there < total, f"{there} of {total}"
    assert "deleted and created again" in fails(pipe.ship())
    again = pipe.ship(delivery={**AGAIN, "chunk_size": "30kB"}).succeeds()
    assert again["delivered"] == total - there
    assert_each_record_once(pipe)
    assert pipe.ship().succeeds()["delivered"] == 0
