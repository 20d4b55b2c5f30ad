"""When a look at a topic's id counts as an answer. What the cluster says is scripted;
tests/chaos/test_recreated.py has a real one."""

import threading
import time

import pytest

from shipper.kafka import topic_ids as module
from shipper.kafka.connection import KafkaFault
from shipper.kafka.topic_ids import Looked, TopicIdWatch
from tests.waiting import slowness, wait_until


class Cluster:
    """Scripted cluster. A look answers with ``says``, and waits at ``gate``, both as they were when
    the look began."""

    def __init__(self):
        self.says = Looked(ids={"t": "A", "u": "U"})
        self.looks = []
        self.gate = threading.Event()
        self.gate.set()
        self.under_way = self.most_under_way = 0

    def __call__(self, topics, timeout_seconds):
        self.looks.append(set(topics))
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        said, gate = self.says, self.gate
        gate.wait(30)
        self.under_way -= 1
        return Looked(
            *(
                {t: v for t, v in found.items() if t in topics}
                for found in (said.ids, said.faults, said.refused)
            )
        )


@pytest.fixture
def cluster(monkeypatch):
    monkeypatch.setattr(module, "_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(module, "_SHORT_PATIENCE_SECONDS", 0.05)
    return Cluster()


@pytest.fixture
def watch(cluster):
    found = TopicIdWatch(cluster, {"t": "A"}, patience_seconds=5)
    yield found
    cluster.gate.set()
    found.close()


def in_time():
    return time.monotonic() + 30


def test_lanes_that_wait_share_a_look_and_few_are_under_way_at_once(cluster, watch):
    cluster.gate.clear()
    questions = [watch.ask({"t"}) for _ in range(50)]
    time.sleep(0.1)
    more = [watch.ask({"u"}) for _ in range(50)]
    time.sleep(0.1)
    assert cluster.most_under_way <= 4
    cluster.gate.set()
    assert {watch.wait_for(one, in_time)["t"] for one in questions} == {"A"}
    assert {watch.wait_for(one, in_time)["u"] for one in more} == {"U"}
    assert len(cluster.looks) < 20


def test_a_fault_is_asked_again_until_somebody_answers(cluster, watch):
    cluster.says = Looked(faults={"t": "no broker"})
    question = watch.ask({"t"})
    wait_until(lambda: len(cluster.looks) > 2)
    cluster.says = Looked(ids={"t": "A"})
    assert watch.wait_for(question, in_time) == {"t": "A"}


def test_nobody_waits_for_ever_and_after_the_first_time_only_for_a_moment(cluster):
    watch = TopicIdWatch(cluster, {"t": "A"}, patience_seconds=0.5)
    cluster.says = Looked(faults={"t": "no broker"})
    began = time.monotonic()
    assert watch.wait_for(watch.ask({"t"}), in_time) == {}
    assert time.monotonic() - began >= 0.5
    began = time.monotonic()
    assert watch.wait_for(watch.ask({"t"}), in_time) == {}
    assert time.monotonic() - began < 0.45 * slowness()
    assert watch.why("t") == "no broker"
    watch.close()


def test_who_may_not_see_a_topic_is_not_waited_for(cluster, watch):
    cluster.says = Looked(refused={"t": "an ACL forbids it", "v": "an ACL forbids it"})
    began = time.monotonic()
    assert watch.wait_for(watch.ask({"t"}), in_time) == {}
    assert watch.known({"v"}, in_time) == {}
    assert time.monotonic() - began < 25
    assert watch.why("v") == "an ACL forbids it"


def test_the_lanes_deadline_ends_the_waiting(cluster, watch):
    cluster.gate.clear()
    soon = time.monotonic() + 0.2
    with pytest.raises(KafkaFault, match="_TIMED_OUT"):
        watch.wait_for(watch.ask({"t"}), lambda: soon)


def test_a_watch_that_is_closed_answers_nothing_and_holds_up_nobody(cluster, watch):
    cluster.gate.clear()
    question = watch.ask({"t"})
    threading.Timer(0.1, watch.close).start()
    assert watch.wait_for(question, in_time) == {}
    assert watch.wait_for(watch.ask({"t"}), in_time) == {}


def test_a_look_that_raises_harms_no_lane(cluster):
    def broken(topics, timeout_seconds):
        raise RuntimeError("a fault of ours")

    watch = TopicIdWatch(broken, {"t": "A"}, patience_seconds=0.2)
    assert watch.wait_for(watch.ask({"t"}), in_time) == {}
    watch.close()
