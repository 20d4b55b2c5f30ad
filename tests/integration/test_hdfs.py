"""A real NameNode and DataNode: what HDFS says of a file counts, not what its age makes likely; and
no fault of HDFS's loses or doubles a line."""

import base64
import bz2
import getpass
import gzip
import json
import os
import subprocess
import time
import urllib.request
from collections import Counter
from urllib.parse import urlsplit

import pytest
from shipper_tools.dev.ports import LOOPBACK, free_port

from shipper.report.results import ShipResult
from tests import warm
from tests.integration.hdfs_world import HdfsFiles, runner
from tests.integration.world import WINDOW, World, lines_of

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


def numbered(name, first, count):
    return b"".join(
        b"%s %d %s\n" % (name.encode(), n, b"x" * (n % 60)) for n in range(first, first + count)
    )


class HdfsWorld(World):
    """A pipeline over a folder of its own in HDFS."""

    files: HdfsFiles

    def source(self, **changes):
        conf = changes.pop("conf", {})
        more = {
            key: changes.pop(key)
            for key in ("quarantine", "schedule", "records", "delivery")
            if key in changes
        }
        source = {"path": self.files.uri(self.folder), "settle": "0s", **changes}
        self.write_pipeline(source=source, runner=runner(conf), **more)

    @property
    def folder(self):
        return f"/logs/{self.name}"

    def put(self, name, content, **more):
        self.files.write(f"{self.folder}/{name}", content, **more)

    def left_out(self):
        return {
            found.path.rpartition("/")[2]: found.reason
            for found in self.plan().left_out
            if found.warns
        }


@pytest.fixture
def world(tmp_path, kafka, hdfs):
    made = HdfsWorld(tmp_path, kafka.bootstrap, topics={"": 3, ".q": 1})
    made.files = hdfs
    made.source()
    return made


def test_what_is_done_is_shipped_and_what_is_open_is_known_and_shipped_when_it_is_closed(world):
    """A file open for writing has the age of its creation, however much was written since; one
    writer's habits are never logs."""
    contents = {
        "many blocks.log": numbered("plain", 0, 9_000),
        "packed.log.gz": gzip.compress(numbered("packed", 0, 2_000)),
        "packed.log.bz2": bz2.compress(numbered("cut", 0, 3_000), 1),
        "a b [1]{2}*.log": b"a name\n",
        "empty.log": b"",
    }
    for name, content in contents.items():
        world.put(name, content, block_bytes=65_536)
    for name in ("_SUCCESS", ".hidden.log", "copied.log._COPYING_", "x.tmp", "_temporary/part.log"):
        world.put(name, b"not a log\n")
    writer = world.files.create(f"{world.folder}/open.log")
    writer.write(b"one\ntw")
    again = numbered("again", 0, 50)
    world.put("again.log", again)
    reopened = world.files.append(f"{world.folder}/again.log")
    reopened.write(b"more ")
    world.files.set_modified(f"{world.folder}/open.log", time.time() - 86_400)

    left_out = world.left_out()
    assert left_out == {
        "again.log": "open for writing, says HDFS",
        "open.log": "open for writing, says HDFS",
        "copied.log._COPYING_": "still being written, by its name",
        "x.tmp": "still being written, by its name",
    }
    unseen = Counter(
        {found.code: found.count for found in world.plan().left_out if not found.warns}
    )
    assert unseen == {"hidden": 2, "hidden-folder": 1}, "of _SUCCESS, .hidden.log and _temporary"
    world.run()
    writer.write(b"o\n")
    writer.close()
    reopened.write(b"of it\n")
    reopened.close()
    world.run()
    expected = lines_of(
        contents["many blocks.log"],
        numbered("packed", 0, 2_000),
        numbered("cut", 0, 3_000),
        b"a name\n",
        b"one\ntwo\n",
    )
    assert world.read() == expected + lines_of(again + b"more of it\n")


@pytest.mark.long
def test_a_file_that_was_appended_to_through_webhdfs_is_shipped_whole(world):
    """As the guide says to try it on `dev up hdfs`, whose only DataNode cannot be replaced by
    another one."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    base = f"{world.files.server.web}/webhdfs/v1{world.folder}/a.log?noredirect=true&user.name={getpass.getuser()}&op="  # noqa: E501
    for method, operation, content in (("PUT", "CREATE", b"one\n"), ("POST", "APPEND", b"two\n")):
        with opener.open(urllib.request.Request(base + operation, method=method)) as answer:
            writes_to = json.load(answer)["Location"]
        opener.open(
            urllib.request.Request(
                writes_to, content, {"Content-Type": "application/octet-stream"}, method=method
            )
        ).close()
    world.run()
    assert world.read() == lines_of(b"one\ntwo\n")


def ship_step(world, run_id, *steps):
    """The steps after a plan, and what the ship said."""
    done = warm.run(world._steps(run_id, *steps))
    (result,) = world.root.glob("runs/**/ship.local.json")
    return done.returncode, ShipResult.model_validate_json(result.read_text())


@pytest.mark.long
def test_a_file_that_is_opened_again_between_plan_and_ship_is_left_to_a_later_run(world):
    first = numbered("first", 0, 4_000)
    world.put("growing.log", first)
    world.put("other.log", b"another\n")
    world.steps_done("r1", "plan")
    writer = world.files.append(f"{world.folder}/growing.log")
    writer.write(b"behind it\n")
    code, ship = ship_step(world, "r1", "gate_source", "ship:local")
    assert code == 1
    assert "growing.log: somebody opened it for writing after it was planned" in (ship.error or "")
    assert world.ledger_count() == 1, "the other one"
    writer.close()
    world.run()
    assert world.read() == lines_of(first, b"behind it\n", b"another\n")


@pytest.mark.long
def test_a_dead_datanode_fails_the_run_and_nothing_is_lost_or_taken_for_damaged(world):
    """Quarantine is for what is wrong with a file. What only cannot be reached would be gone for
    good with it."""
    content = numbered("dead", 0, 3_000)
    world.put("plain.log", content)
    world.put("packed.log.gz", gzip.compress(content))
    world.source(
        on_unreadable="quarantine", quarantine={"topic": world.topic(".q"), "max_rate": 1.0}
    )
    server = world.files.server
    world.steps_done("r1", "plan", "gate_source")
    server.kill("datanode")
    try:
        says = (
            r"2 files cannot be read: \S*packed\.log\.gz, \S*plain\.log: no DataNode gives one of "
            r"its blocks.* Run again"
        )
        world.fails(code=1, says=says)
        code, ship = ship_step(world, "r1", "ship:local")
        assert (code, ship.final) == (1, False), "Airflow may try again"
        assert "no DataNode gives one of its blocks" in (ship.error or "")
        assert world.nothing_was_sent()
    finally:
        server.revive("datanode")
        server.wait_ready()
    with world.files.safe_mode():  # as after a restart: nothing can be written, all can be read
        run = world.run()
    assert run["quarantined"] == {}
    assert world.read() == lines_of(content, content)


def ha_settings(world, service):
    """Of a service of two NameNodes, the first of which is gone."""
    here = urlsplit(world.files.server.uri).netloc
    return {
        "dfs.nameservices": service,
        f"dfs.ha.namenodes.{service}": "nn1,nn2",
        f"dfs.namenode.rpc-address.{service}.nn1": f"{LOOPBACK}:{free_port()}",
        f"dfs.namenode.rpc-address.{service}.nn2": here,
        f"dfs.client.failover.proxy.provider.{service}": "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider",  # noqa: E501
        "dfs.client.failover.sleep.base.millis": "10",
        "dfs.client.failover.sleep.max.millis": "50",
    }


@pytest.mark.long
def test_a_service_of_several_namenodes_and_a_view_are_known_by_settings_alone(world):
    """In `runner.conf`, which both JVM's uses of Hadoop see: the listing, and Spark's tasks. The
    view knows what is open, too."""
    world.put("ha.log", b"by the second NameNode\n")
    view = {"fs.viewfs.mounttable.all.link./mounted": f"hdfs://one{os.getpid()}{world.folder}"}
    conf = {
        f"spark.hadoop.{key}": value
        for key, value in {**ha_settings(world, f"one{os.getpid()}"), **view}.items()
    }
    world.source(path="viewfs://all/mounted/", conf=conf)
    writer = world.files.create(f"{world.folder}/open.log")
    assert world.left_out() == {"open.log": "open for writing, says HDFS"}
    assert world.run()["delivered"] == 1
    writer.write(b"and this\n")
    writer.close()
    assert world.run()["delivered"] == 1
    assert world.read() == Counter([b"by the second NameNode", b"and this"])


@pytest.mark.cold
@pytest.mark.long
def test_a_datanode_that_dies_while_files_are_read_costs_a_run_and_no_line(world):
    """Some files are read by then, some in part, some not at all: with such chunks tasks read 40 MB
    ahead, and at this rate they need a minute for the rest."""
    content = b"".join(base64.b64encode(os.urandom(384)) + b"\n" for _ in range(10_000))
    for n in range(16):
        world.write_log(f"{n}.log", content)
    expected = lines_of(*[content] * 16)
    world.files.put(world.logs, world.folder)
    delivery = {"chunk_size": "256kB", "lease": "2s", "lease_wait": "30s"}
    world.source(split_size="1MB", delivery={**delivery, "rate_limit": "500kB/s"})
    server = world.files.server
    command = world.command("run", world.name, "--window", WINDOW)
    ship = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        while world.ledger_count() == 0 and ship.poll() is None:
            time.sleep(0.05)
        server.kill("datanode")
        said = ship.communicate()[1]
    finally:
        ship.kill()
        server.revive("datanode")
        server.wait_ready()
    assert ship.returncode == 1, said[-4000:]
    assert "no DataNode gives one of its blocks" in " ".join(said.split()), said[-4000:]
    there = world.ledger_count()
    assert 0 < there < expected.total()
    world.source(split_size="1MB", delivery=delivery)
    assert world.run()["before"] == there
    assert world.read() == expected
