"""The lane pool on a real broker, from plain Python: what waits, what flows meanwhile, and how it
ends."""

import gc
import os
import signal
import threading
import time
import weakref
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
)
from shipper_tools.dev.java import SHORT_LIVED
from shipper_tools.dev.kafka import KafkaServer
from shipper_tools.dev.kafka_tools import run_kafka_tool

from shipper.errors import LedgerGone, TopicMissing
from shipper.kafka.client import ClusterClient
from shipper.kafka.connection import KafkaFault
from shipper.kafka.limits import TopicLimit, TopicLimits
from shipper.types import Decided
from shipper.worker.chunk import Chunk
from shipper.worker.pool import LanePool
from tests.integration.open_lane import OpenLane
from tests.waiting import slowness, wait_until

from .pool_world import LEDGER, Ledger, Pool, chunk, values_of

pytestmark = [pytest.mark.kafka]


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    """A broker of its own: with ACLs, and stopped for a while by one of the tests."""
    properties = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
        "auto.create.topics.enable": "false",
    }
    with KafkaServer(
        tmp_path_factory.mktemp("kafka"),
        properties=properties,
        java_options=SHORT_LIVED,
        die_with_parent=True,
    ) as server:
        yield server


@pytest.fixture
def ledger(broker):
    return Ledger(broker)


def acl(topic, permission=AclPermissionType.DENY, operation=AclOperation.WRITE):
    literal = ResourcePatternType.LITERAL
    return AclBinding(
        ResourceType.TOPIC, topic, literal, "User:ANONYMOUS", "*", operation, permission
    )


def create_acls(ledger, *bindings):
    admin = AdminClient({"bootstrap.servers": ledger.cluster.bootstrap})
    for future in admin.create_acls([*bindings]).values():
        future.result()
    return admin


def test_a_pool_keeps_nothing_of_what_is_delivered(ledger):
    """Until it ends: a task of 10 GB that ships to a thousand topics makes a million chunks."""
    ledger.create(forgotten=1)
    chunks = [chunk("forgotten", f"f{n}") for n in range(20)]
    kept = [weakref.ref(one) for one in chunks]
    with LanePool(ledger.options(), ["forgotten.0"], ledger.keys, lambda delivered: None) as pool:
        pool.open(["forgotten"])
        while chunks:
            pool.submit([chunks.pop()])
        pool.drain()

        def gone():
            gc.collect()
            return (
                sum(one() is not None for one in kept) <= 1
            )  # the lane's own variables hold the last one until the next comes

        wait_until(gone)
        assert pool.close(20).delivered == 20


def test_a_forbidden_topic_is_parked_until_the_acl_allows_it(ledger):
    ledger.create(open=1, secret=1)
    deny = acl("secret")
    admin = create_acls(ledger, deny, acl("secret", AclPermissionType.ALLOW, AclOperation.ALL))
    chunks = [chunk(topic, f"{topic}{n}") for n in range(10) for topic in ("open", "secret")]
    expected = values_of(*chunks)
    with Pool(ledger.options(), ["acl.0", "acl.1"], ledger.keys) as pool:
        pool.open(["open", "secret"])
        for first in range(0, 20, 4):
            pool.submit(chunks[first : first + 4])
        wait_until(lambda: len(pool.delivered) == 10)
        assert {c.topic for c in pool.delivered} == {"open"}
        for future in admin.delete_acls([_filter_of(deny)]).values():
            future.result()
        pool.drain()
    assert Counter(ledger.values("open") + ledger.values("secret")) == expected


def _filter_of(binding):
    return AclBindingFilter(
        binding.restype,
        binding.name,
        binding.resource_pattern_type,
        binding.principal,
        binding.host,
        binding.operation,
        binding.permission_type,
    )


@pytest.mark.parametrize("transactional", [True, False])
def test_a_limit_that_is_lowered_during_a_run_is_kept_to_by_every_lane(
    broker, ledger, transactional
):
    """Lanes share what is known of a topic. The first one that is refused learns of the new limit;
    the batches of the others were built by the old one all the same, and none of their records is
    too large, whatever their headers take. At least once, a batch holds no more than what is
    flushed together."""
    name = f"shrinking{transactional}"
    ledger.create(**{name: 4})
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    limits = TopicLimits({name: TopicLimit()}, ledger.client.limits)
    options = ledger.options(batch=500_000, limits=limits, transactional=transactional)
    expected = Counter()
    with Pool(options, [f"{name}.{n}" for n in range(6)], ledger.keys) as pool:
        pool.open([name])
        for n in range(36):
            noise = [os.urandom(100) for _ in range(4000)]
            expected.update(noise)
            if n == 6:
                lower = ConfigEntry(
                    "max.message.bytes", "60000", incremental_operation=AlterConfigOpType.SET
                )
                topic = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[lower])
                admin.incremental_alter_configs([topic])[topic].result()
            pool.submit(
                [
                    Chunk(
                        name,
                        noise,
                        400_000,
                        b"%s/%d" % (name.encode(), n),
                        lambda p, topic_id: b"",
                        f"noise {n}",
                        headers=[[("beside", os.urandom(200))] for _ in noise],
                    )
                ]
            )
        pool.drain()
    assert name in pool.lowered
    found = Counter(ledger.values(name, 4))
    assert found == expected if transactional else found >= expected


def test_close_returns_by_its_deadline_while_the_broker_is_stopped(broker, ledger):
    ledger.create(stalled=4)
    chunks = [chunk("stalled", f"s{n}", records=2000) for n in range(200)]
    pool = Pool(ledger.options(), ["stopped.0", "stopped.1"], ledger.keys)
    pool.open(["stalled"])
    submitted = []

    def submit_all():
        for one in chunks:
            try:
                pool.submit([one])
            except BaseException:
                return
            submitted.append(one)

    thread = threading.Thread(target=submit_all, daemon=True)
    thread.start()
    wait_until(lambda: len(pool.delivered) > 5)
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        time.sleep(0.5)
        began = time.monotonic()
        delivery = pool.close(4)
        took = time.monotonic() - began
    finally:
        os.kill(broker.pid, signal.SIGCONT)
    assert took < 15 * slowness(), "4 s, and some more; the transaction would have had 30"
    known = ledger.keys().answer
    assert {c.ledger_key for c in pool.delivered} <= known
    assert not {c.ledger_key for c in delivery.not_delivered} & known
    ends = [*pool.delivered, *delivery.not_delivered, *delivery.unknown]
    assert len({id(c) for c in ends}) == len(ends) >= len(submitted)


def test_order_in_a_partition_is_kept_across_retries(broker, ledger):
    ledger.create(ordered=3)
    chunks = [
        chunk("ordered", f"{sequence}-{n:03}", records=50, sequence=sequence)
        for n in range(40)
        for sequence in (1, 2)
    ]
    with Pool(ledger.options(), ["ordered.0", "ordered.1"], ledger.keys) as pool:
        pool.open(["ordered"])
        for number, one in enumerate(chunks):
            if number == 30:
                os.kill(broker.pid, signal.SIGSTOP)
                threading.Timer(2, os.kill, (broker.pid, signal.SIGCONT)).start()
            pool.submit([one])
        pool.drain()
    for sequence in (1, 2):
        found = [v for v in ledger.values("ordered", 3) if v.startswith(b"%d-" % sequence)]
        assert found == [
            v for n in range(40) for v in chunk("ordered", f"{sequence}-{n:03}", records=50).values
        ]


@pytest.fixture
def quota(broker):
    """Bytes per second that the broker lets a client.id send."""
    where = [
        "--bootstrap-server",
        broker.bootstrap,
        "--entity-type",
        "clients",
        "--entity-default",
        "--alter",
    ]
    run_kafka_tool(
        "kafka.admin.ConfigCommand", [*where, "--add-config", "producer_byte_rate=300000"]
    )
    yield 300_000
    run_kafka_tool("kafka.admin.ConfigCommand", [*where, "--delete-config", "producer_byte_rate"])


@pytest.mark.long
def test_lanes_take_turns_when_the_broker_throttles(ledger, quota):
    """All four send at once what the quota lets through in 20 s, and each has 10 s: every
    transaction timed out and was sent again, without end. The broker's answers say for how long it
    throttles; whoever cannot end in time leaves at once, and waits for its turn."""
    ledger.create(throttled=4)
    chunks = [chunk("throttled", f"q{n}", records=quota * 5 // 1000) for n in range(4)]
    for one in chunks:
        one.values = [os.urandom(1000) for _ in one.values]
        one.size_bytes = sum(map(len, one.values))
    expected = values_of(*chunks)
    options = ledger.options(deadline_seconds=150, batch=quota, transaction_timeout_ms=10_000)
    with Pool(options, [f"throttled.{n}" for n in range(4)], ledger.keys) as pool:
        pool.open(["throttled"])
        for one in chunks:
            pool.submit([one])
        pool.drain()
        assert pool.rate.throttled_seconds > 1
        assert pool.reopened <= 4, "once for each lane that had begun when nobody knew of the quota"
    assert Counter(ledger.values("throttled", 4)) == expected


def test_nothing_is_left_behind_by_a_closed_pool(ledger):
    ledger.create(clean=1)
    ledger.keys()  # whose consumer stays
    threads, sockets = _threads(), _sockets()
    for round_number in range(5):
        with Pool(ledger.options(), ["clean.0", "clean.1", "clean.2"], ledger.keys) as pool:
            pool.open(["clean"])
            pool.submit([chunk("clean", f"{round_number}")])
            pool.drain()
    wait_until(lambda: _threads() <= threads + 2 and _sockets() <= sockets + 2)


def _threads():
    """Count librdkafka's and Python's: other libraries start theirs when they like."""
    names = []
    for task in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # it ended after it was listed
            names.append((task / "comm").read_text())
    return sum(name.startswith("rdk:") for name in names) + threading.active_count()


def _sockets():
    found = 0
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # it was closed after it was listed
            found += "socket" in str(entry.readlink())
    return found


def test_no_lane_fences_its_past_before_that_is_announced(ledger):
    ledger.create(announced=1)
    options = ledger.options()
    earlier = OpenLane(options.settings, "announced.0", LEDGER, begun=False)
    commits = []

    def announce():
        time.sleep(1.0)  # more than the lane needs to connect
        commit_one(earlier, commits)

    with Pool(options, ["announced.0"], resolve_outcome=lambda: Decided(set())) as pool:
        pool.open(["announced"], announce)
        assert commits == ["committed"]
        with pytest.raises(KafkaFault, match="FENCED"):
            commit_one(earlier, commits)
    earlier.die()


def commit_one(lane, commits):
    lane.begin()
    lane.produce("announced", b"value", None, 0)
    lane.commit()
    commits.append("committed")


def test_a_pool_whose_announcement_fails_leaves_no_lane_behind(ledger):
    def announce():
        raise TopicMissing("nobody can be told")

    with (
        pytest.raises(TopicMissing),
        Pool(ledger.options(), ["unannounced.0"], resolve_outcome=lambda: Decided(set())) as pool,
    ):
        pool.open([], announce)
    assert not [thread.name for thread in threading.enumerate() if "unannounced" in thread.name]


@pytest.mark.long
def test_a_ledger_that_is_deleted_during_a_ship_is_missed_and_no_leader_is_blamed(ledger):
    ledger.create(kept=1, vanishing=1)
    options = replace(ledger.options(10, transaction_timeout_ms=15_000), ledger_topic="vanishing")

    def ship():
        with Pool(options, ["gone.0"], ledger.keys) as pool:
            pool.open(["kept"])
            pool.submit([chunk("kept", "first")])
            wait_until(lambda: len(pool.delivered) == 1)
            admin = AdminClient({"bootstrap.servers": ledger.cluster.bootstrap})
            admin.delete_topics(["vanishing"])["vanishing"].result(30)
            pool.submit([chunk("kept", "second")])
            pool.drain()

    with pytest.raises(LedgerGone) as gone:
        ship()
    assert gone.value.code == "SHIP-503"
    client = ClusterClient(ledger.cluster, timeout_seconds=3.0)
    for ask in (
        lambda: client.read("vanishing", 0, 0, wait_seconds=None),
        lambda: client.append("vanishing", 0, [(b"key", b"value")]),
    ):
        with pytest.raises(TopicMissing):
            ask()
