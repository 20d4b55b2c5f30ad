"""Spark on a real YARN, from HDFS to Kafka: what is killed in the middle of a ship (an executor, a
NodeManager, the application master) is neither lost nor doubled on the target."""

import sys

import psutil
import pytest
from pyspark.find_spark_home import _find_spark_home
from shipper_tools.dev.yarn import YarnServer

from tests.waiting import wait_until

from .test_kill import numbered_lines, small_steps
from .test_spark_cluster import assert_exact, running, sent
from .world import World

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.cold, pytest.mark.long]

_MASTER, _EXECUTOR = "ExecutorLauncher", "YarnCoarseGrainedExecutorBackend"
#: As the guide has it, and small.
ON_YARN = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.instances": "2",
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.yarn.am.memory": "512m",
    "spark.yarn.jars": f"local:{_find_spark_home()}/jars/*",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.heartbeatInterval": "1s",
}


@pytest.fixture(scope="module")
def yarn(tmp_path_factory, hdfs):
    with YarnServer(
        tmp_path_factory.mktemp("yarn"), file_system=hdfs.server.uri, die_with_parent=True
    ) as server:
        yield server


@pytest.fixture
def world(tmp_path, kafka, yarn, hdfs):
    made = World(tmp_path, kafka.bootstrap)
    small_steps(
        made,
        source={"path": hdfs.uri(f"/{made.name}")},
        delivery={"rate_limit": "90kB/s"},
        runner={"kind": "yarn", "cores": 2, "python": sys.executable, "conf": ON_YARN},
    )
    return made


def logs(world, hdfs):
    expected = numbered_lines(world, files=6, lines=40_000)
    hdfs.put(world.logs, f"/{world.name}")
    return expected


def containers(yarn, what):
    """Return the Java processes of jobs, of both nodes; also those whose node was killed."""
    folder = str(yarn.directory)
    found = []
    for process in psutil.process_iter(["cmdline", "cwd"]):
        line = process.info["cmdline"] or []
        if "java" in "".join(line[:1]) and folder in (process.info["cwd"] or ""):
            found += [process] if any(what in word for word in line) else []
    return found


def kill_one(yarn, what):
    wait_until(lambda: containers(yarn, what))[0].kill()


@pytest.mark.parametrize("victim", ["executor", "node", "application master"])
def test_what_is_killed_costs_tries_and_no_record(world, yarn, hdfs, victim):
    expected = logs(world, hdfs)
    with running(world, HADOOP_CONF_DIR=str(yarn.conf_dir)) as run:
        run.ships(expected.total() // 8)
        if victim == "executor":
            kill_one(yarn, _EXECUTOR)
        elif victim == "application master":
            kill_one(yarn, _MASTER)
        else:
            yarn.kill("node-1")
        account = run.account()
    if victim == "node":
        yarn.revive("node-1")
        yarn.wait_ready()
    assert_exact(world, account, expected)
    with running(world, HADOOP_CONF_DIR=str(yarn.conf_dir)) as again:
        account = again.account()
    assert (account["delivered"], account["before"]) == (0, expected.total())
    assert sent(world) >= expected.total()
    wait_until(lambda: not containers(yarn, _EXECUTOR) and not containers(yarn, _MASTER))
