"""One pipeline, several clusters, each with a real broker: what is wrong with one is that one's
affair."""

import datetime as dt
import json
import os
import re
import signal
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from shipper_tools.dev.console_consumer import read_topic
from shipper_tools.dev.java import SHORT_LIVED
from shipper_tools.dev.kafka import KafkaServer
from shipper_tools.dev.ports import free_port
from shipper_tools.faultproxy.proxy import FaultProxy

from shipper.kafka.client import ClusterClient
from shipper.report.results import RunReport, ShipResult
from tests.samples.config import cluster_of
from tests.waiting import slowness, wait_until

from .test_kill import Ship, numbered_lines
from .world import WINDOW, World

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

_PARTITIONS = 2


class Target:
    """A cluster of one broker behind a proxy."""

    def __init__(self, name, folder):
        self.name = name
        port = free_port()
        self.server = KafkaServer(
            folder / name, far_port=port, java_options=SHORT_LIVED, die_with_parent=True
        )
        self.link = FaultProxy(self.server.far_listener, port)

    @property
    def client(self):
        """Past the proxy."""
        return ClusterClient(cluster_of(self.name, bootstrap=self.server.bootstrap))

    def make_topic(self, topic):
        self.client.create_topics({topic: _PARTITIONS}, replication_factor=1)

    def write_cluster(self, world):
        content = {
            "cluster": self.name,
            "bootstrap": self.server.far_bootstrap,
            "ledger": {"replication_factor": 1},
        }
        (world.root / "config" / "clusters" / f"{self.name}.yaml").write_text(json.dumps(content))

    def read(self, topic):
        """Every committed value, by Java's console consumer."""
        return Counter(read_topic(self.server.bootstrap, topic))

    def ends(self, topic):
        """Also of what was aborted: whatever is sent moves them."""
        return [self.client.end_offset(topic, partition) for partition in range(_PARTITIONS)]


@pytest.fixture
def targets(tmp_path, request):
    """Those that the test's parameter names."""
    found = {name: Target(name, tmp_path / "kafka") for name in request.param}
    with ExitStack() as stack:
        for target in found.values():
            stack.callback(target.server.stop)
            stack.enter_context(target.link)
        with ThreadPoolExecutor(len(found)) as pool:
            list(pool.map(lambda target: target.server.start(), found.values()))
        yield found


def write_pipeline(world, clusters):
    """Its topic is there on each, or is not; with small steps."""
    limits = {"lease": "2s", "metadata_wait": "20s", "transaction_timeout": "20s"}
    world.write_pipeline(
        clusters=clusters,
        delivery={"chunk_size": "300kB", "lanes": 2, **limits},
        runner={"driver_memory": "1g"},
    )


def run(world, *, code):
    """`shipper run`: its report, and the ships by cluster."""
    report = world.report(code=code)
    return report, {ship.cluster: ship for ship in report.ships}


def raw_lines(said):
    """Those of librdkafka's log and of Spark's."""
    return [
        line
        for line in said
        if re.search(
            r"\[thrd:|\b(FAIL|TXNERR|METADATAUPDATE|REQTMOUT) |^\d\d:\d\d:\d\d ERROR ", line
        )
    ]


def test_a_cluster_that_the_plan_found_dead_is_not_waited_for_as_long_again_and_floods_no_terminal(
    tmp_path, kafka
):
    world = World(tmp_path, kafka.bootstrap)
    nobody = json.dumps({"cluster": "nobody", "bootstrap": f"127.0.0.1:{free_port()}"})
    (world.root / "config" / "clusters" / "nobody.yaml").write_text(nobody)
    world.write_pipeline(clusters=["nobody", "local"])
    world.write_log("a.log", b"one\ntwo\n")
    done = world.shipper("run", world.name, "--window", WINDOW, "--json")
    report = RunReport.model_validate_json(done.stdout)
    ships = {ship.cluster: ship for ship in report.ships}
    assert (done.returncode, ships["local"].delivered, ships["nobody"].status) == (1, 2, "failed")
    assert (ships["nobody"].finished_at - ships["nobody"].started_at).total_seconds() < 10
    assert raw_lines(done.stderr.splitlines()) == []


@pytest.mark.long
@pytest.mark.parametrize("targets", [("dying", "near")], indirect=True)
def test_a_cluster_that_dies_in_the_middle_is_given_up_after_one_wait(tmp_path, targets):
    """Not after one for each attempt that Spark gives a task. The other cluster has everything, and
    the dead one gets the rest when it is back."""
    dying, near = targets["dying"], targets["near"]
    world = World(tmp_path / "world", near.server.bootstrap)
    for target in targets.values():
        target.write_cluster(world)
    write_pipeline(world, ["dying", "near"])
    dying.make_topic(world.topic())
    dying.link.shape(bytes_per_second=300_000)
    expected = numbered_lines(world, files=4, lines=60_000)
    world.steps_done("r", "plan", "gate_source")
    ship = Ship(world, "r", "ship:dying", "ship:near")
    try:
        wait_until(lambda: sum(dying.ends(world.topic())) >= 1_000)
        os.kill(dying.server.pid, signal.SIGKILL)
        died_at = dt.datetime.now(dt.UTC)
        assert ship.wait() == 1
    finally:
        ship.signal_all(signal.SIGKILL)
    written = {name: next((world.root / "runs").rglob(f"ship.{name}.json")) for name in targets}
    found = {
        name: ShipResult.model_validate_json(path.read_text()) for name, path in written.items()
    }
    took = (found["dying"].finished_at - died_at).total_seconds()
    print(f"given up {took:.1f} s after it died: {found['dying'].error}")
    assert re.search(
        r"within 20 s \(`delivery.metadata_wait`\)|lane \S+ cannot be opened",
        found["dying"].error or "",
    )
    assert not found["dying"].final, "another run may do it"
    assert took < 110 * slowness(), (
        "20 s of waiting, a transaction's timeout, and what it takes to hear nothing of lease and "
        "ledger"
    )
    assert found["near"].delivered == expected.total()
    assert raw_lines(ship.lines) == []

    dying.link.shape(bytes_per_second=0)
    dying.server.start()
    run(world, code=0)
    assert dying.read(world.topic()) == expected
    assert near.read(world.topic()) == expected
