"""Secured clusters: every way to log in, the rights that are enough and no more, and what is
refused, before a ship and in the middle of one. One broker with five listeners and ACLs; only what
the tests grant is allowed."""

import datetime as dt
import itertools
import json
import os
import threading
import time
from collections import Counter

import pytest

from shipper.config.cluster import Cluster
from shipper.config.load import load_cluster
from shipper.errors import ClusterRefuses
from shipper.kafka.client import GROUP, ClusterClient
from shipper.kafka.connection import connection
from shipper.kafka.producer import LaneSettings
from shipper.ledger.rights import Right, rights
from shipper.report.results import ShipResult
from shipper.types import Decided
from shipper.worker.order import LaneOptions
from tests.waiting import slowness, wait_until

from .committed import read_committed
from .pool_world import Pool, chunk
from .world import World, lines_of

pytestmark = [pytest.mark.kafka]

PASSWORD, SECRET = "of-the-test", "of-the-client"
#: Name → (listener, properties).
WAYS = {
    "TLS": lambda kafka: ("TLS", kafka.tls),
    "mutual TLS": lambda kafka: ("MUTUAL", {**kafka.tls, **kafka.client_certificate("shipper")}),
    "mutual TLS, PKCS#12": lambda kafka: (
        "MUTUAL",
        {**kafka.tls, **kafka.client_keystore("shipper", PASSWORD)},
    ),
    "PLAIN": lambda kafka: ("SECURE", kafka.properties("shipper", PASSWORD, "PLAIN")),
    "SCRAM-SHA-256": lambda kafka: (
        "SECURE",
        kafka.properties("shipper", PASSWORD, "SCRAM-SHA-256"),
    ),
    "SCRAM-SHA-512": lambda kafka: ("SECURE", kafka.properties("shipper", PASSWORD)),
    "OAUTHBEARER": lambda kafka: ("SECURE", kafka.properties("shipper", SECRET, "OAUTHBEARER")),
}
_unique = itertools.count(1)


def cluster_of(kafka, listener, properties):
    return Cluster.model_validate(
        {"cluster": "far", "bootstrap": kafka.at(listener), "properties": properties}
    )


# Every way in.


@pytest.mark.parametrize("way", WAYS)
def test_records_and_ledger_travel_by_every_way_in(secured, way):
    cluster, name = cluster_of(secured, *WAYS[way](secured)), f"way{next(_unique)}"
    data, ledger = f"{name}.data", f"{name}.ledger"
    ClusterClient(Cluster(name="open", bootstrap=secured.address)).create_topics(
        {data: 1, ledger: 1}, None, 1
    )
    granted = [
        Right("topic", name, ("Read", "Write"), prefixed=True),
        Right("group", GROUP, ("Describe",)),
    ]
    secured.grant("shipper", [*granted, Right("transactional-id", name, ("Write",), prefixed=True)])
    client = ClusterClient(cluster)
    settings = LaneSettings(connection(cluster), 100_000, "zstd", 30_000, True)
    with Pool(
        LaneOptions(settings, ledger, 0, 60), [f"{name}.0"], resolve_outcome=lambda: Decided(set())
    ) as pool:
        pool.open([data])
        pool.submit([chunk(data, "one")])
        pool.drain()
    assert Counter(read_committed(secured.address, data, 0)) == Counter(chunk(data, "one").values)
    assert [record.key for record in client.read(ledger, 0, 0, wait_seconds=30)] == [
        chunk(data, "one").ledger_key
    ]


# What is refused before a ship.


def refusal_of(kafka, listener, properties):
    began = time.monotonic()
    with pytest.raises(ClusterRefuses) as caught:
        ClusterClient(cluster_of(kafka, listener, properties)).topics()
    assert time.monotonic() - began < 30 * slowness()
    assert PASSWORD not in caught.value.message
    assert "clusters/far.yaml" in caught.value.message
    return caught.value.message


@pytest.mark.long
def test_a_client_that_the_issuer_does_not_know_is_refused_and_the_settings_named(secured):
    said = refusal_of(
        secured, "SECURE", secured.properties("shipper", "a-wrong-one", "OAUTHBEARER")
    )
    assert "`sasl.oauthbearer.client.secret`" in said
    assert "a-wrong-one" not in said


# The rights: enough, and no more.


class SecuredWorld(World):
    """Its pipeline ships to `far`, which is the secured broker, and reads back; and to `local`,
    another broker, before that if asked to."""

    def set_up(self, kafka, way="SCRAM-SHA-512", **changes):
        listener, properties = WAYS[way](kafka)
        spec = {
            "cluster": "far",
            "bootstrap": kafka.at(listener),
            "properties": properties,
            "ledger": {"replication_factor": 1},
        }
        (self.root / "config" / "clusters" / "far.yaml").write_text(
            json.dumps(spec | changes.pop("cluster", {}))
        )
        gates = {"delivery": [{"check": "read_back", "mode": "full"}]}
        self.write_pipeline(**{"clusters": ["far"], "gates": gates, **changes})
        self.far = ClusterClient(Cluster(name="open", bootstrap=kafka.address))
        self.far.create_topics(
            {self.topic(suffix): count for suffix, count in self.topics.items()}, None, 1
        )

    @property
    def rights(self):
        return rights(self.pipeline, load_cluster(self.root / "config", "far"))

    def there(self, kafka):
        found = (
            read_committed(kafka.address, self.topic(), number) for number in range(self.topics[""])
        )
        return Counter(itertools.chain.from_iterable(found))


@pytest.fixture
def world(tmp_path, kafka):
    return SecuredWorld(tmp_path / "world", kafka.bootstrap)


@pytest.mark.spark
@pytest.mark.long
def test_the_rights_that_the_docs_list_are_enough(secured, world):
    world.set_up(secured)
    content = b"".join(b"line %d\n" % number for number in range(1000))
    world.write_log("a.log", content)
    secured.grant("shipper", world.rights)
    assert world.shipper("run", world.name, "--window", "2026-11-01/2026-11-02").returncode == 0
    assert world.there(secured) == lines_of(content)
    again = world.shipper("run", world.name, "--window", "2026-11-01/2026-11-02", "--json")
    assert again.returncode == 0, again.stderr
    assert world.there(secured) == lines_of(content)


@pytest.mark.spark
@pytest.mark.long
def test_without_any_one_of_them_a_run_fails_loses_nothing_and_the_next_one_finishes(
    secured, world
):
    world.set_up(secured)
    contents = []
    every = [(right, operation) for right in world.rights for operation in right.operations]
    # What makes the ledger is needed once, and first.
    every.sort(key=lambda pair: pair[1] != "Create")
    secured.grant("shipper", world.rights)
    for number, (right, operation) in enumerate(every):
        one = [Right(right.resource, right.name, (operation,), right.prefixed)]
        secured.revoke("shipper", one)
        contents.append(b"".join(b"line %d of %d\n" % (line, number) for line in range(500)))
        world.write_log(f"{number}.log", contents[-1])
        failed = world.shipper("run", world.name, "--window", "2026-11-01/2026-11-02")
        assert failed.returncode == 1, (right, operation, failed.stderr[-3000:])
        assert "Traceback" not in failed.stderr
        said = " ".join(failed.stderr.split())
        print(f"without {operation} on {right.resource} {right.name}: {said[-600:]}")
        assert "uthoriz" in said.lower() or "AUTHORIZATION" in said or "ACL" in said, (
            right,
            operation,
            said,
        )
        secured.grant("shipper", one)
        done = world.shipper("run", world.name, "--window", "2026-11-01/2026-11-02")
        assert done.returncode == 0, (right, operation, done.stderr[-3000:])
    assert world.there(secured) == lines_of(*contents)


# In the middle of a ship.


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.parametrize("what", ["the topic", "the transactional ids", "the ledger"])
def test_a_right_that_is_revoked_in_the_middle_ends_the_ship_in_half_a_minute_and_nothing_is_lost(
    secured, world, what
):
    slow = {"rate_limit": "150kB/s"}
    world.set_up(
        secured,
        clusters=["local", "far"],
        cluster=slow,
        delivery={"lease": "2s", "transaction_timeout": "20s"},
    )
    content = os.urandom(4_000_000).hex(" ", -60).replace(" ", "\n").encode()
    world.write_log("a.log", content)
    secured.grant("shipper", world.rights)
    topic, ledger, _, ids = world.rights
    taken = {"the topic": topic, "the ledger": ledger, "the transactional ids": ids}[what]
    taken = Right(taken.resource, taken.name, ("Write",), taken.prefixed)
    ended = []
    run = threading.Thread(
        target=lambda: ended.append(
            world.shipper("run", world.name, "--window", "2026-11-01/2026-11-02")
        )
    )
    run.start()
    wait_until(
        lambda: any(world.far.end_offset(world.topic(), number) > 0 for number in range(3)), 120
    )
    secured.revoke("shipper", [taken])
    revoked_at = dt.datetime.now(dt.UTC)
    run.join()
    (done,) = ended
    assert done.returncode == 1, done.stderr[-3000:]
    result = ShipResult.model_validate_json(
        next(world.root.glob("runs/**/ship.far.json")).read_text()
    )
    took = (result.finished_at - revoked_at).total_seconds()
    print(f"{what}: {took:.1f} s after it was revoked: {result.error}")
    assert took < 30 * slowness(), result.error
    assert result.final
    error = str(result.error)
    named = {
        "the topic": "may not write to",
        "the ledger": ledger.name,
        "the transactional ids": "an ACL forbids the transactional.id",
    }
    assert named[what] in error
    assert "grant the user Write on" in error
    assert world.read() == lines_of(content), "the other cluster has it all"
    secured.grant("shipper", [taken])
    again = world.shipper("run", world.name, "--window", "2026-11-01/2026-11-02")
    assert again.returncode == 0, again.stderr[-3000:]
    assert world.there(secured) == lines_of(content), "nothing lost, nothing twice"
    results = [
        ShipResult.model_validate_json(each.read_text())
        for each in world.root.glob("runs/**/ship.far.json")
    ]
    assert [each.lane_reopened for each in results if not each.error] == [0], (
        "under a cap, too, nothing is sent twice"
    )
