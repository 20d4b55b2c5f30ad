"""One fault from outside at a time. After each: the ship ended, a rerun finishes it, and the count
is exact."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable

import pytest
from confluent_kafka import KafkaException, Producer
from shipper_tools.faultproxy.proxy import FaultProxy

from tests.chaos.kafka_cluster import BROKERS
from tests.chaos.numbered import Kill
from tests.chaos.world import END_TXN, Pipe, Ship

pytestmark = [pytest.mark.kafka]
New = Callable[..., Pipe]

#: A request that is not answered within this is given up by librdkafka: 60 s by default.
SHORT_SOCKET_TIMEOUT = {"socket.timeout.ms": 3000}


def begun(pipe: Pipe, **changes: object) -> Ship:
    """A ship that has delivered something and has more to do."""
    ship = pipe.ship(**changes)
    assert ship.wait_for("shipping"), ship.last_words()
    pipe.wait_until_shipped(1, ship)
    return ship


def finish(pipe: Pipe) -> None:
    pipe.rerun()
    pipe.assert_exact()


# Brokers


def test_the_leader_is_killed(new_pipe: New):
    pipe = new_pipe()
    kafka = pipe.site.kafka
    ship = begun(pipe)
    kafka.kill(kafka.leader_of(pipe.topic, 0))
    ship.succeeds()
    finish(pipe)


@pytest.mark.parametrize(
    "committed",
    [pytest.param(True, marks=pytest.mark.short), False],
    ids=["committed", "not committed"],
)
def test_the_coordinator_is_killed_during_a_commit(new_pipe: New, committed: bool):
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


@pytest.mark.parametrize("seconds", [3, 12], ids=["and stays leader", "and is replaced"])
def test_a_broker_is_paused_for_longer_than_the_socket_timeout(new_pipe: New, seconds: float):
    pipe = new_pipe(properties={"socket.timeout.ms": 1500})
    kafka = pipe.site.kafka
    ship = begun(pipe)
    paused = kafka.leader_of(pipe.topic, 0)
    kafka.pause(paused)
    time.sleep(seconds)
    kafka.resume(paused)
    ship.succeeds()
    finish(pipe)


def test_too_few_replicas_are_in_sync(new_pipe: New):
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


def test_the_ledger_alone_has_too_few_replicas_in_sync(new_pipe: New):
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


def test_the_leader_moves_and_partitions_are_added(new_pipe: New):
    pipe = new_pipe(files=(0, 12), delivery={"rate_limit": "100kB/s"})
    kafka = pipe.site.kafka
    ship = begun(pipe)
    kafka.move_leader(pipe.topic, 0)
    kafka.add_partitions(pipe.topic, 5)
    assert ship.running, "it ended before the leader had moved"
    ship.succeeds()
    finish(pipe)


# Links


@pytest.mark.parametrize("how", [FaultProxy.cut, FaultProxy.reset], ids=["cut", "reset"])
def test_connections_are_broken_again_and_again(new_pipe: New, how: Callable[[FaultProxy], int]):
    pipe = new_pipe(files=(0, 8))
    ship = begun(pipe)
    broken = 0
    for _ in range(6):
        broken += sum(how(link) for link in pipe.site.links.values())
        time.sleep(0.7)
    assert broken
    ship.succeeds()
    finish(pipe)


@pytest.mark.parametrize(
    "shape", [{"jitter_ms": 200}, {"bytes_per_second": 125_000}], ids=["200 ms jitter", "1 Mbit/s"]
)
def test_the_link_is_bad(new_pipe: New, shape: dict[str, float]):
    """The codec is none, so that a megabit is less than what is read."""
    pipe = new_pipe(files=(0, 2), delivery={"compression": "none"})
    pipe.site.everywhere(lambda link: link.shape(**shape))  # type: ignore[arg-type]
    pipe.ship().succeeds()
    finish(pipe)


def test_nothing_moves_for_longer_than_the_socket_timeout(new_pipe: New):
    pipe = new_pipe(properties=SHORT_SOCKET_TIMEOUT)
    ship = begun(pipe)
    pipe.site.everywhere(FaultProxy.stall)
    time.sleep(8)
    pipe.site.everywhere(FaultProxy.resume)
    ship.succeeds()
    finish(pipe)


# Topics


def test_a_topic_is_never_created(new_pipe: New):
    """The ship ends, says which topic is missing, and everything is there once somebody
    created it."""
    pipe = new_pipe(missing=1, delivery={"metadata_wait": "10s"})
    ship = pipe.ship()
    end = ship.wait()
    assert ship.process.returncode == 1
    assert pipe.topic_names[1] in end["error"], end
    pipe.site.kafka.create_topic(pipe.topic_names[1], 2)
    finish(pipe)


def test_a_topic_is_created_late(new_pipe: New):
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
def test_a_topic_is_deleted_in_an_open_transaction(new_pipe: New, recreated: bool):
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


def test_a_hijacked_transactional_id_is_taken_back(new_pipe: New):
    pipe = new_pipe(files=(0, 8))
    ship = begun(pipe)
    ship.signal_all(
        signal.SIGSTOP
    )  # else the lane takes its id back each time before the thief, who tries twice a second, has it  # noqa: E501
    assert pipe.in_ledger() < 16_000
    thief = Producer(
        {"bootstrap.servers": pipe.site.kafka.bootstrap, "transactional.id": pipe.lane_id()}
    )
    thief.init_transactions(30)
    thief.begin_transaction()
    thief.produce(pipe.topic, b"stolen")
    ship.signal_all(signal.SIGCONT)
    ship.succeeds()
    with pytest.raises(KafkaException):
        thief.commit_transaction(30)
    finish(pipe)


# The ship's own processes


@pytest.mark.parametrize("victim", ["worker", "driver", "all"])
@pytest.mark.parametrize(
    "point", ["before begin", "after produce", "after flush", "during commit", "after commit"]
)
def test_kill_9(new_pipe: New, point: str, victim: str):
    """A worker that is killed gets another attempt. A driver that is killed leaves its workers
    behind, which go on until they are done or the rerun fences them."""
    pipe = new_pipe()
    ship = pipe.ship(kill=Kill(point, victim))
    end = ship.wait()
    if victim == "worker":
        assert ship.process.returncode == 0, ship.last_words()
        assert end["task_retries"] == 1
    else:
        assert ship.process.returncode == -signal.SIGKILL
    pipe.rerun()
    ship.wait_for_orphans(60)
    pipe.assert_exact()


@pytest.mark.parametrize(
    "victim", [pytest.param("driver", marks=pytest.mark.short), "worker", "all"]
)
@pytest.mark.parametrize("committed", [True, False], ids=["committed", "not committed"])
def test_kill_9_between_the_commit_and_its_answer(new_pipe: New, victim: str, committed: bool):
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
