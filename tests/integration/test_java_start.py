"""How the JVM is started, and what a run does not start: seen from outside, by the commands that
users have."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections import Counter
from pathlib import Path

import pytest

from shipper.java import find_java
from shipper.runner import READER_JAR
from spark_jobs import class_data, java_command
from spark_jobs.settings import spark_settings
from tests.waiting import wait_until

from .world import WINDOW, World

pytestmark = pytest.mark.cold
LINES = b"".join(b"line %d\n" % i for i in range(500))


@pytest.fixture
def world(kafka, tmp_path):
    found = World(tmp_path, kafka.bootstrap)
    found.write_log("a.log", LINES)
    return found


@pytest.fixture(autouse=True)
def own_java(monkeypatch):
    """Of a JVM that is shared with other tests nothing is started."""
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    monkeypatch.delenv("PYSPARK_GATEWAY_SECRET", raising=False)


def with_events(world, folder):
    """Every SparkContext leaves a log of its events."""
    folder.mkdir(exist_ok=True)
    conf = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": folder.as_uri()}
    world.write_pipeline(
        runner={"driver_memory": "1g", "conf": conf},
        gates={"source": [{"check": "rows", "min": 1}]},
    )


@pytest.mark.long
def test_a_run_starts_spark_once_with_our_words_alone_and_a_plan_or_nothing_to_ship_none(
    world, tmp_path
):
    events = tmp_path / "events"
    with_events(world, events)
    planned = world.shipper("plan", world.name, "--window", WINDOW)
    assert planned.returncode == 0, planned.stderr
    assert list(events.iterdir()) == [], "a plan needs none"
    steps = ["plan", "gate_source", "ship:local", "gate_delivery:local", "report"]
    done = subprocess.run(
        [sys.executable, "-m", *world._steps("words", *steps)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert len(list(events.iterdir())) == 1, "one for all steps of a run"
    # Every JVM of Spark's warns of its incubator modules and its log level, and Airflow showed that
    # in yellow in each task.
    ours = ["plan", "gate_source", "local", "topic", "ship", "gate_delivery", "report"]
    said = done.stderr.splitlines()
    assert [line for line in said if re.split("[: ]", line)[0] not in ours] == []
    assert world.run()["delivered"] == 0
    assert len(list(events.iterdir())) == 1, "nothing to ship needs none"


@pytest.mark.long
def test_what_is_set_up_for_spark_on_a_machine_holds(world, tmp_path, monkeypatch):
    """`spark-defaults.conf` is for spark-submit to read, `core-site.xml` for Hadoop: both decide
    what a plan lists and a ship reads."""
    conf, events = tmp_path / "conf", tmp_path / "events"
    conf.mkdir()
    events.mkdir()
    mount = f"<property><name>fs.viewfs.mounttable.place.link./logs</name><value>{world.logs.as_uri()}</value></property>"  # noqa: E501
    (conf / "core-site.xml").write_text(f"<configuration>{mount}</configuration>")
    world.write_pipeline(source={"path": "viewfs://place/logs/", "settle": "0s"})
    monkeypatch.setenv("HADOOP_CONF_DIR", str(conf))
    assert world.run()["delivered"] == 500

    (conf / "core-site.xml").unlink()
    as_default = f"spark.hadoop.fs.viewfs.mounttable.place.link./logs {world.logs.as_uri()}\n"
    (conf / "spark-defaults.conf").write_text(
        f"{as_default}spark.eventLog.enabled true\nspark.eventLog.dir {events.as_uri()}\n"
    )
    monkeypatch.delenv("HADOOP_CONF_DIR")
    monkeypatch.setenv("SPARK_CONF_DIR", str(conf))
    world.write_log("b.log", LINES)
    assert world.run()["delivered"] == 500
    assert len(list(events.iterdir())) == 1


@pytest.mark.long
@pytest.mark.parametrize("damage", ["bytes", "header", "folder"])
def test_damage_in_the_cache_costs_time_alone(world, tmp_path, monkeypatch, damage):
    found = class_data.archive()
    if found is None:
        pytest.skip("there is no archive here: `make setup` makes it")
    cache = tmp_path / "cache"
    monkeypatch.setenv("SHIPPER_CACHE", str(cache))
    if damage == "folder":
        cache.write_text("a file")
    else:
        class_data.folder().mkdir(parents=True)
        copy = class_data.folder() / found.name
        shutil.copyfile(found, copy)
        with copy.open("r+b") as content:
            content.seek(copy.stat().st_size // 2 if damage == "bytes" else 0)
            content.write(os.urandom(1 << 20))
        if damage == "header":  # right as far as we can see; the JVM finds out
            copy.rename(copy.parent / f"{class_data.key()}-{class_data.checksum(copy)}.jsa")
        assert (class_data.archive() is None) == (damage == "bytes")
    done = world.shipper("plan", world.name, "--window", WINDOW, "--json")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("{"), "nothing else stands on standard output"
    ours = ("--window ", "plan: ")
    assert all(line.startswith(ours) for line in done.stderr.splitlines()), done.stderr


@pytest.mark.long
def test_the_first_run_that_ships_has_the_class_data_made_for_the_next(
    world, tmp_path, monkeypatch
):
    monkeypatch.setenv("SHIPPER_CACHE", str(tmp_path / "cache"))
    assert world.run()["delivered"] == 500
    [begun] = class_data.folder().glob("*.begun")
    world.write_log("b.log", LINES)
    assert world.run()["delivered"] == 500, "nobody waits for it"
    wait_until(lambda: class_data.archive() is not None, 300)
    assert len(list(class_data.folder().glob("*.jsa"))) == 1
    assert begun.exists()


def test_the_jvm_is_started_as_sparks_own_launcher_would(world, monkeypatch, tmp_path):
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_CONF_DIR"):
        (tmp_path / name).mkdir()
        monkeypatch.setenv(name, str(tmp_path / name))
    settings = spark_settings(world.pipeline)
    ours = java_command.command(settings)
    home = java_command.spark_home()
    words = [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
    launcher = [str(find_java().path), "-cp", f"{home}/jars/*", "org.apache.spark.launcher.Main"]
    said = subprocess.run(
        [*launcher, "org.apache.spark.deploy.SparkSubmit", *words, "pyspark-shell"],
        env={**os.environ, **java_command.environment(home)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    theirs = [word for word in said.replace("\n", "\0").split("\0") if word]
    without_reader = [
        str(Path(ours[0]).resolve()),
        *(word.replace(f":{READER_JAR}", "") for word in ours[1:]),
    ]
    jars = sorted(map(str, (home / "jars").glob("*.jar")))
    kept = [jar for jar in jars if "/spark-mllib_" not in jar]
    assert len(kept) == len(jars) - 1
    # It ends names of folders with a slash.
    assert sorted(without_reader) == sorted(
        word.replace("/:", ":").removesuffix("/").replace(f"{home}/jars/*", ":".join(kept))
        for word in theirs
    )
    assert (ours[1], ours[3]) == ("-cp", "-Xmx1g")


def test_the_archive_of_class_data_fits_the_jvm_that_is_started(world):
    """One that does not fit is left out without a word, and each start takes two seconds more."""
    found = class_data.archive()
    assert found is not None, "`make setup` makes it"
    options = [*class_data.OPTIONS, f"-XX:SharedArchiveFile={found}", "-Xshare:on", "-version"]
    command = java_command.command(spark_settings(world.pipeline), options)
    assert command is not None
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.long
@pytest.mark.skipif(shutil.which("javac") is None, reason="needs a JDK")
def test_the_same_compiler_makes_the_jar_that_is_committed(tmp_path):
    said = subprocess.run(["javac", "-version"], capture_output=True, text=True, check=True).stdout
    with zipfile.ZipFile(READER_JAR) as jar:
        if jar.read("META-INF/shipper-javac").decode() != said.split()[1].split(".")[0]:
            pytest.skip(f"the jar was made by another compiler than {said}")
    again = tmp_path / "again.jar"
    subprocess.run(
        [sys.executable, Path(__file__).parents[2] / "jvm" / "build.py", again], check=True
    )
    assert again.read_bytes() == READER_JAR.read_bytes()


@pytest.mark.long
def test_a_ship_that_looks_at_files_while_spark_starts_waits_for_no_second_jvm(world, tmp_path):
    """Another run has shipped since the plan, so the ship holds its files against what that run
    sent, while a thread starts Spark: both need the JVM's address, which is written once."""
    planned = world.write_log("a.log", b"a\n")
    world.steps_done("a", "plan", "gate_source")
    planned.rename(tmp_path / "a.log")
    world.write_log("b.log", b"b\n")
    world.steps_done("b", "plan", "gate_source", "ship:local")
    (tmp_path / "a.log").rename(planned)
    ship = world.steps("a", "ship:local")
    try:
        _, said = ship.communicate()
    finally:
        ship.kill()
    assert ship.returncode == 0, said
    assert world.read() == Counter([b"a", b"b"])


FAKE_JAVA = """#!/bin/sh
if [ "$1" = -version ]; then echo 'openjdk version "{version}"' >&2; exit; fi
echo "started $*" >> {starts}
echo 'Exception in thread "main" java.io.IOException: failure to login: nobody@EXAMPLE' >&2
for each in 1 2 3 4 5 6 7 8 9; do echo "\tat org.apache.spark.deploy.SparkSubmit" >&2; done
echo "Caused by: javax.security.auth.login.LoginException: Unable to obtain password" >&2
exit 1
"""


def without_a_cluster(folder, java, *command):
    """Run a command that asks no cluster, with another JAVA_HOME."""
    for name in ("pipelines", "clusters"):
        (folder / "config" / name).mkdir(parents=True, exist_ok=True)
    (folder / "logs").mkdir(exist_ok=True)
    (folder / "config/clusters/near.yaml").write_text("cluster: near\nbootstrap: 127.0.0.1:1\n")
    (folder / "config/pipelines/web.yaml").write_text(
        f"pipeline: web\nsource: {folder}/logs/\ntopic: t\nclusters: [near]\n"
        "gates: {source: [{check: rows, min: 1}]}\n"
    )
    return subprocess.run(
        [sys.executable, "-m", "shipper", *command, "--config", str(folder / "config")],
        env={**os.environ, "JAVA_HOME": str(java)},
        capture_output=True,
        text=True,
    )


def fake_java(home, version):
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(FAKE_JAVA.format(version=version, starts=home / "starts"))
    program.chmod(0o755)
    return home


@pytest.mark.parametrize("java", [pytest.param("none", marks=pytest.mark.long), "old"])
def test_no_java_or_an_old_one_is_told_once_before_a_jvm_is_started(java, tmp_path):
    home = fake_java(tmp_path / "old", "11.0.2") if java == "old" else tmp_path / "none"
    done = without_a_cluster(tmp_path, home, "gates", "web", "--window", "2026-11-01")
    assert (done.returncode, "SHIP-807" in done.stderr) == (1, True), done.stderr
    assert len(done.stderr.splitlines()) < 6, done.stderr
    validated = without_a_cluster(tmp_path, home, "validate")
    assert (validated.returncode, "SHIP-807" in validated.stderr) == (2, True), validated.stderr
    assert not (home / "starts").exists()
    assert "SHIP-001" not in done.stderr + validated.stderr


@pytest.mark.long
def test_a_run_that_fails_before_it_needs_java_leaves_no_temporary_file(world, tmp_path):
    blocked, temporary = tmp_path / "blocked", tmp_path / "temporary"
    blocked.touch()
    temporary.mkdir()
    world.write_pipeline(runs_uri=str(blocked / "runs"))
    done = subprocess.run(
        [sys.executable, "-m", *world._steps("early", "plan")],
        env={**os.environ, "TMPDIR": str(temporary)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, "SHIP-005" in done.stderr) == (1, True), done.stderr
    assert list(temporary.iterdir()) == []
    assert str(temporary) not in subprocess.check_output(["ps", "-eo", "args"], text=True)


@pytest.mark.long
def test_a_jvm_that_dies_before_it_listens_says_why_and_is_not_started_again(tmp_path):
    home = fake_java(tmp_path / "java", "17.0.9")
    done = without_a_cluster(tmp_path, home, "gates", "web", "--window", "2026-11-01")
    assert (done.returncode, "SHIP-808" in done.stderr) == (1, True), done.stderr
    assert "failure to login: nobody@EXAMPLE" in done.stderr
    assert "Unable to obtain password" in done.stderr
    assert "\tat " not in done.stderr
    assert len(done.stderr.splitlines()) < 6, done.stderr
    [started] = (home / "starts").read_text().splitlines()
    assert "SparkSubmit" in started
    assert "spark-core_" not in started, "`ps` shows what matters, not 10 kB of jars"
