"""A standalone Spark of a master and two workers: what is lost there in the middle of a ship is
neither lost nor doubled on the target."""

import contextlib
import importlib.metadata
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import psutil
import pytest
from shipper_tools import release
from shipper_tools.dev.ports import free_port
from shipper_tools.dev.process import send
from shipper_tools.dev.secured_kafka import SecuredKafka
from shipper_tools.dev.spark import SparkServer as RealSpark

from shipper.processes import ProcessId
from shipper.report.results import RunReport
from tests.waiting import wait_until

from .test_kill import numbered_lines, small_steps
from .world import WINDOW, World, account_of

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.cold, pytest.mark.long]

ON_LOOPBACK = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.heartbeatInterval": "1s",
}
#: A paused executor counts as lost after so long.
_LOST_AFTER = {"spark.network.timeout": "6s", "spark.network.timeoutInterval": "1s"}


class SparkServer(RealSpark):
    """A Spark whose executors can be hurt."""

    def executors(self, worker):
        """Return the Java processes of jobs on a worker."""
        found = []
        for child in psutil.Process(self.worker(worker).id.pid).children():
            with contextlib.suppress(
                psutil.Error, ProcessLookupError
            ):  # gone, or what `spark-class` has left unreaped
                if "org.apache.spark.executor.CoarseGrainedExecutorBackend" in child.cmdline():
                    found.append(ProcessId.of(child.pid))
        return found

    def kill_executor(self, worker):
        """Kill a worker's executors, and return how many there were. The master has it start
        others; their Python processes see that they are gone."""
        found = self.executors(worker)
        for executor in found:
            send(executor, signal.SIGKILL)
        return len(found)

    @contextlib.contextmanager
    def executors_paused(self, worker):
        """Stop a worker's executors and their Python processes for the ``with`` block; they hold
        all their connections."""
        held = []
        for executor in self.executors(worker):
            below = psutil.Process(executor.pid).children(recursive=True)
            held += [executor, *(ProcessId.of(child.pid) for child in below)]
        for process in held:
            send(process, signal.SIGSTOP)
        try:
            yield held
        finally:
            for process in held:
                send(process, signal.SIGCONT)


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    with SparkServer(tmp_path_factory.mktemp("spark"), die_with_parent=True) as server:
        yield server


class ClusterRun:
    """``shipper run`` on the Spark cluster, in processes of its own."""

    def __init__(self, world, **environment):
        self.world = world
        command = world.command("run", world.name, "--window", WINDOW, "--json")
        self.process = subprocess.Popen(
            command,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def ships(self, records):
        """Until so many are in the topic, committed or not. Fails the test if the run ends before
        that."""
        self.until(lambda: sent(self.world) >= records)

    def until(self, holds):
        wait_until(lambda: self.process.poll() is not None or holds())
        assert self.process.poll() is None, self.process.communicate()

    def account(self):
        """When it has ended; fails the test if it failed."""
        out, err = self.process.communicate()
        assert self.process.returncode == 0, err[-6000:]
        return account_of(RunReport.model_validate_json(out))

    def kill(self):
        """-9 to the command, the driver, and their JVM, wherever they are."""
        family = [psutil.Process(self.process.pid)]
        family += family[0].children(recursive=True)
        for process in family:
            with contextlib.suppress(psutil.Error):
                process.kill()
        self.process.communicate()


@contextlib.contextmanager
def running(world, **environment):
    run = ClusterRun(world, **environment)
    try:
        yield run
    finally:
        if run.process.poll() is None:
            run.kill()


def sent(world):
    """By the ends of the topic, which also count what is aborted later. Waits for no
    transaction."""
    return sum(world.client.end_offset(world.topic(), partition) for partition in range(3))


def on_cluster(world, spark, conf=None, *, rate="200kB/s", **runner):
    """So slow that something can happen in the middle."""
    runner = {
        "kind": "standalone",
        "master": spark.master,
        "conf": ON_LOOPBACK | (conf or {}),
        **runner,
    }
    small_steps(world, runner=runner, delivery={"rate_limit": rate} if rate else {})


def executors(spark):
    return lambda: bool(spark.executors(0)) and bool(spark.executors(1))


def assert_exact(world, account, expected):
    assert account["delivered"] + account["before"] == expected.total()
    assert world.read() == expected
    assert world.ledger_count() == expected.total()


def heartbeats_that_failed(spark):
    """What executors say of an answer of the driver's that did not come: after 60 of them an
    executor gives up. Nobody answers one that is sent while the application ends."""
    logs = [
        log.read_text(errors="replace").partition("Driver commanded a shutdown")[0]
        for log in spark.directory.glob("work/*/app-*/*/stderr")
    ]
    assert logs, "no executor wrote a log"
    return [
        line
        for log in logs
        for line in log.splitlines()
        if "Issue communicating with driver in heartbeater" in line
    ]


def test_an_executor_and_a_worker_killed_in_the_middle_cost_tries_and_no_record(
    tmp_path, kafka, spark
):
    world = World(tmp_path, kafka.bootstrap)
    on_cluster(
        world, spark, rate="90kB/s"
    )  # the second executor may come ten seconds after the first
    expected = numbered_lines(world, files=6, lines=40_000)
    with running(world) as run:
        run.ships(1)
        run.until(executors(spark))
        assert spark.kill_executor(0) == 1
        run.ships(expected.total() // 4)
        spark.kill("worker-1")
        account = run.account()
    spark.revive("worker-1")
    spark.wait_ready()
    assert account["status"] == "succeeded"
    assert_exact(world, account, expected)
    assert heartbeats_that_failed(spark) == []


def test_an_executor_that_wakes_up_after_it_was_given_up_sends_nothing_more(tmp_path, kafka, spark):
    """Its tasks run again elsewhere meanwhile, under the same lanes, and it holds transactions that
    are open."""
    world = World(tmp_path, kafka.bootstrap)
    on_cluster(world, spark, _LOST_AFTER)
    expected = numbered_lines(world, files=6, lines=60_000)
    with running(world) as run:
        run.ships(1)
        run.until(executors(spark))
        with spark.executors_paused(1):
            half = sent(world)
            run.until(lambda: sent(world) > half + expected.total() // 4)
            time.sleep(8)
        account = run.account()
    assert_exact(world, account, expected)


def test_secrets_reach_tasks_and_lie_nowhere_on_the_workers(tmp_path, spark, tmp_path_factory):
    canary = "canary-5d1e9b-right"
    with SecuredKafka(tmp_path_factory.mktemp("secured"), {"shipper": canary}) as secured:
        world = World(tmp_path / "world", secured.address)
        on_cluster(world, spark)
        properties = secured.properties("shipper", "${CLUSTER_PASSWORD}")
        cluster = {
            "cluster": "local",
            "bootstrap": secured.bootstrap,
            "properties": properties,
            "ledger": {"replication_factor": 1},
        }
        (world.root / "config" / "clusters" / "local.yaml").write_text(json.dumps(cluster))
        expected = numbered_lines(world, files=4, lines=60_000)
        seen = []
        with running(world, CLUSTER_PASSWORD=canary) as run:
            run.ships(1)
            run.until(executors(spark))
            for worker in (0, 1):
                for executor in spark.executors(worker):
                    for process in (
                        psutil.Process(executor.pid),
                        *psutil.Process(executor.pid).children(recursive=True),
                    ):
                        seen += [*process.cmdline(), *process.environ().values()]
            account = run.account()
        assert_exact(world, account, expected)
        assert seen
        assert not [text for text in seen if canary in text]
        files = [path for path in spark.directory.rglob("*") if path.is_file()]
        assert files
        assert [str(path) for path in files if canary.encode() in path.read_bytes()] == []


_BARE = {
    "PATH": os.defpath,
    "HOME": "/nonexistent",
    **({"JAVA_HOME": os.environ["JAVA_HOME"]} if "JAVA_HOME" in os.environ else {}),
}


def _packed(folder):
    """Make an archive by the commands of docs/how-to/pack-an-environment.md.

    The packages come before the page's `pip install`, from uv's cache, where `make setup` put
    them: so pip finds nothing to fetch.
    """
    root, version = Path(__file__).resolve().parents[2], importlib.metadata.version("shipper")
    page = (root / "docs/how-to/pack-an-environment.md").read_text(encoding="utf-8")
    (commands,) = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
    venv, install = commands.split("\n", 1)
    release.make(root, folder, version)
    uv, locked = release.uv(root), folder / "pylock.toml"
    export = ["export", "--project", root, "--locked", "--no-emit-workspace", "--no-dev"]
    for command in (
        ["sh", "-ec", venv.replace("python3", sys.executable)],
        [uv, *export, "--group", "pack", "--output-file", locked],
        [uv, "pip", "install", "--python", "tasks/bin/python", "--requirements", locked],
        ["sh", "-ec", f"export PIP_NO_INDEX=1\n{install}"],
    ):
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    return folder / "tasks.tar.gz"


def _python_below(spark):
    """Of each Python process of the executors that has begun to work: its program, and the files
    of packages that it has mapped."""
    found = []
    for executor in spark.executors(0) + spark.executors(1):
        for process in psutil.Process(executor.pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                mapped = [part.path for part in process.memory_maps() if "-packages" in part.path]
                if mapped:
                    found.append((process.exe(), mapped))
    return found


def test_an_archive_brings_tasks_shipper_wherever_executors_are(tmp_path, kafka):
    """Executors have another environment and folder, and no PYTHONPATH. Their packages are those
    of the archive alone; only Python itself is the machine's."""
    archive = _packed(tmp_path)
    world = World(tmp_path / "world", kafka.bootstrap)
    expected = numbered_lines(world, files=6, lines=60_000)
    with SparkServer(
        tmp_path / "spark", environment=_BARE | {"PATH": _path_with_java()}, die_with_parent=True
    ) as spark:
        on_cluster(world, spark, archive=str(archive))
        status, says, _ = findings(world)["executors"]
        assert (status, "2 executors" in says) == ("ok", True), says
        with running(world) as run:
            run.ships(1)
            run.until(executors(spark))
            found = []
            run.until(lambda: bool(found.extend(_python_below(spark)) or found))
            account = run.account()
        assert_exact(world, account, expected)
        for program, packages in found:
            assert Path(program).is_relative_to(sys.base_prefix), program
            assert not [path for path in packages if not path.startswith(str(spark.directory))]


def findings(world):
    """Return what ``shipper doctor`` says of each check: status, what it found, and what to do."""
    done = world.shipper("doctor", world.name, "--limit", "240", "--json")
    return {
        found["subject"]: (found["severity"], found["text"], found["remedy"])
        for found in json.loads(done.stdout)["findings"]
    }


def test_executors_without_a_python_are_named_with_the_remedy(tmp_path, kafka):
    """The archive holds none. Where it was forgotten Spark says the same of the driver's path."""
    with tarfile.open(tmp_path / "empty.tar.gz", "w:gz") as archive:
        archive.add(__file__, "x")
    world = World(tmp_path / "world", kafka.bootstrap)
    world.write_log("a.log", b"one\n")
    bare = _BARE | {"PATH": _path_with_java()}
    with SparkServer(
        tmp_path / "spark", workers=1, environment=bare, die_with_parent=True
    ) as spark:
        on_cluster(world, spark, rate=None, archive=str(tmp_path / "empty.tar.gz"))
        said = world.fails(code=1, says="executors have no Python.*`runner.archive`")
        assert not re.search(r"^\d\d:\d\d:\d\d ERROR |^Traceback", said, re.MULTILINE)
        assert world.nothing_was_sent()
        status, says, _ = findings(world)["executors"]
        assert (status, "`runner.archive`" in says) == ("fail", True)


def test_executors_that_run_out_of_memory_are_told_as_that_with_the_key_that_helps(
    tmp_path, kafka, spark
):
    """The plan sees short lines, so that a batch takes all of the long ones: more than the heap."""
    world = World(tmp_path, kafka.bootstrap)
    on_cluster(world, spark, rate=None)
    file = world.root / "config" / "pipelines" / f"{world.name}.yaml"
    pipeline = json.loads(file.read_text())
    pipeline["records"] = {"max_line": "64MiB"}
    file.write_text(json.dumps(pipeline))
    world.write_log("a.log", b"short\n" * 5_000 + (b"x" * 60_000_000 + b"\n") * 10)
    said = world.fails(code=1, says=r"`spark\.executor\.memory`.*SHIP-809")
    assert "driver_memory" not in said
    assert world.nothing_was_sent()


def test_a_run_whose_executors_come_late_says_what_it_waits_for_and_ships(tmp_path, kafka):
    world = World(tmp_path / "world", kafka.bootstrap)
    world.write_log("a.log", b"one\n")
    with SparkServer(tmp_path / "spark", workers=0, die_with_parent=True) as spark:
        on_cluster(world, spark, rate=None)
        with running(world) as run:
            assert run.process.stderr is not None
            assert any(spark.master in line for line in run.process.stderr)
            spark.start_worker(0)
            assert run.account()["delivered"] == 1


def test_a_master_that_is_not_there_and_an_archive_that_is_not_are_named_at_once(tmp_path, kafka):
    world = World(tmp_path / "world", kafka.bootstrap)
    world.write_log("a.log", b"one\n")
    world.write_pipeline(
        runner={"kind": "standalone", "master": f"spark://127.0.0.1:{free_port()}"}
    )
    report = world.report(code=1)
    (ship,) = report.ships
    assert (ship.status, ship.read) == ("failed", 0)
    assert "no Spark master answers" in (report.error or "")
    assert (ship.finished_at - ship.started_at).total_seconds() < 30, "Spark tries for a minute"
    assert findings(world)["Spark's cluster"][0] == "fail"
    world.write_pipeline(
        runner={
            "kind": "standalone",
            "master": "spark://127.0.0.1:1",
            "archive": str(tmp_path / "forgotten.tar.gz"),
        }
    )
    world.fails(code=1, says="forgotten.tar.gz does not exist.*pack-an-environment")


def _path_with_java():
    java = shutil.which("java")
    return os.pathsep.join([os.defpath, *([str(Path(java).parent)] if java else [])])
