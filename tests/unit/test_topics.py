"""What is concluded from what a cluster says of its topics. What it says is scripted;
tests/integration/test_pool.py has a real one."""

import time
from contextlib import contextmanager

from shipper.kafka import topics as module
from shipper.kafka.limits import DEFAULT_LIMIT_BYTES, TopicLimit, TopicLimits
from shipper.kafka.topics import Topics, TopicState
from tests.waiting import wait_until

ALL = (0, 1, 2, 3)


class Cluster:
    """``says``: topic → what a lookup answers from now on; an exception is raised."""

    def __init__(self):
        self.says = {}
        self.fails = None
        self.looks = 0
        self.failed = []

    def __call__(self, topics, timeout_seconds):
        self.looks += 1
        if self.fails:
            raise self.fails
        return {topic: self.says.get(topic, TopicState(reason="unknown")) for topic in topics}

    @contextmanager
    def topics(self, only=None):
        topics = Topics(self, lambda: True, self.failed.append, only)
        topics.start()
        try:
            yield topics
        finally:
            topics.stop(5)


def look_again(cluster, topics):
    """A refresh takes 5 s; a topic that is blocked is looked at at once."""
    topics.block("t", "")
    before = cluster.looks
    wait_until(lambda: cluster.looks > before + 1)
    topics.delivered("t")


def test_a_file_keeps_its_partition_while_others_lose_their_leaders_or_are_added():
    cluster = Cluster()
    cluster.says["t"] = TopicState((0, 1, 3), existing=ALL)
    with cluster.topics() as topics:
        topics.learn(["t"], 5)
        homes = [topics.sticky_partition("t", sequence, None) for sequence in range(8)]
        assert homes == [0, 1, 2, 3, 0, 1, 2, 3]
        assert [
            bool(topics.partitions("t", sticky_partition)) for sticky_partition in homes[:4]
        ] == [True, True, False, True]
        cluster.says["t"] = TopicState((2,), existing=(*ALL, 4, 5))
        look_again(cluster, topics)
        wait_until(lambda: topics.partitions("t") == (2,))
        assert [topics.sticky_partition("t", sequence, None) for sequence in range(8)] == homes
        assert topics.why_unusable("t", 1) == "partition 1 has no leader"


def test_a_file_goes_on_where_the_ledger_says_that_it_began_unless_the_topic_was_made_anew():
    cluster = Cluster()
    cluster.says["t"] = TopicState(ALL, existing=ALL)
    with cluster.topics() as topics:
        assert topics.sticky_partition("t", 0, 3) is None, (
            "nobody knows yet which partitions there are"
        )
        topics.learn(["t"], 5)
        assert topics.sticky_partition("t", 0, 3) == 3
        cluster.says["t"] = TopicState((0, 1), existing=(0, 1))
        look_again(cluster, topics)
        wait_until(lambda: topics.partitions("t") == (0, 1))
        assert [topics.sticky_partition("t", sequence, 3) for sequence in range(3)] == [0, 1, 0]


def test_a_lookup_that_nobody_answers_is_no_news_of_a_topic_that_is_known():
    cluster = Cluster()
    away = TopicState(reason="timed out waiting for the controller", answered=False)
    cluster.says |= {"t": TopicState((0, 1), existing=(0, 1)), "new": away}
    with cluster.topics() as topics:
        topics.learn(["t", "new"], 5)
        assert topics.why_unusable("new") == away.reason
        cluster.says["t"] = away
        look_again(cluster, topics)
        assert topics.partitions("t") == (0, 1)
        assert topics.unusable_seconds("t") == 0
        cluster.says["t"] = TopicState(reason="deleted")
        wait_until(lambda: not topics.partitions("t"))
        assert topics.why_unusable("t") == "deleted"


def test_a_probe_that_comes_back_unsent_lets_another_one_go():
    cluster = Cluster()
    cluster.says["t"] = TopicState((0,), existing=(0,))
    with cluster.topics() as topics:
        topics.learn(["t"], 5)
        topics.block("t", "an ACL")
        wait_until(lambda: topics.probe("t"))
        assert not topics.probe("t")
        topics.not_probed("t")
        assert topics.probe("t")


def test_limits_are_asked_for_once_together_and_again_when_a_topic_refuses_what_should_fit():
    there = {"a": 10_000, "b": 20_000}
    asked = []

    def ask(topics):
        asked.append(sorted(topics))
        return {topic: TopicLimit(there[topic]) for topic in topics if topic in there}

    limits = TopicLimits({"known": TopicLimit(5_000)}, ask)
    limits.learn(["a", "b", "known", "absent"])
    assert [limits.limit(topic).max_bytes for topic in ("a", "b", "known", "absent")] == [
        10_000,
        20_000,
        5_000,
        DEFAULT_LIMIT_BYTES,
    ]
    assert limits.limit("a").uncompressed_bytes == 10_000 - 2048
    assert asked == [["a", "absent", "b"]]
    assert limits.limit_by_now("a").uncompressed_bytes == 10_000 - 2048
    there["a"] = 6_000
    assert limits.limit_by_now("a").uncompressed_bytes == 6_000 - 2048
    assert limits.limit("a").max_bytes == 6_000


def test_what_an_acl_forbids_is_told_from_what_is_missing_until_it_is_granted():
    cluster = Cluster()
    cluster.says["t"] = TopicState(reason="not authorized", forbidden=True)
    with cluster.topics() as topics:
        topics.learn(["t", "missing"], 5)
        wait_until(lambda: topics.forbidden_seconds("t") > 0)
        assert topics.forbidden_seconds("missing") == 0
        assert topics.unusable_seconds("missing") > 0
        cluster.says["t"] = TopicState((0,), existing=(0,))
        wait_until(lambda: topics.partitions("t") == (0,))
        assert topics.forbidden_seconds("t") == 0
        topics.block("t", "write forbidden", forbidden=True)
        wait_until(lambda: topics.forbidden_seconds("t") > 0.2)
        assert topics.known_partitions("t") == (0,), "metadata alone does not lift it"
        topics.delivered("t")
        assert topics.forbidden_seconds("t") == 0


def test_a_topic_that_is_forbidden_is_not_waited_for_as_long_as_one_that_may_come(monkeypatch):
    monkeypatch.setattr(module, "GRANT_SECONDS", 0.1)
    cluster = Cluster()
    cluster.says["t"] = TopicState(reason="not authorized", forbidden=True)
    began = time.monotonic()
    assert set(module.wait_for(cluster, ["t"], began + 60)) == {"t"}
    assert time.monotonic() - began < 50
    cluster.says["t"] = TopicState((0,), existing=(0,))
    assert module.wait_for(cluster, ["t"], time.monotonic() + 60) == {}
