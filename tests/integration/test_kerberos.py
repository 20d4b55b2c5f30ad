"""A kerberized HDFS: who may read with which login, and what is said to those who may not."""

import base64
import contextlib
import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from shipper_tools.dev.jars import resolve_jars
from shipper_tools.dev.kerberos import JARS, SERVER, USER, KerberizedHdfs
from shipper_tools.dev.spark import SparkServer
from shipper_tools.dev.yarn import YarnServer

from shipper.java import find_java

from .hdfs_world import IMPATIENT
from .test_spark_cluster import ON_LOOPBACK
from .test_yarn import ON_YARN
from .world import WINDOW, World, lines_of

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.long]

#: The longest life of a ticket, and of a delegation token.
TICKET_SECONDS = 60
LINES = [b"".join(b"%d of %d\n" % (line, file) for line in range(20_000)) for file in range(4)]
#: One of so many files. They are twice what tasks read ahead (140 MB), and hardly to be compressed.
LONG = b"".join(base64.b64encode(os.urandom(384)) + b"\n" for _ in range(24_000))
LONG_FILES = 24
ALL_LONG = lines_of(*[LONG] * LONG_FILES)
#: More than two lives of a ticket. Chunks are small, so that each life sees commits.
SLOWLY = {"rate_limit": "1100kB/s", "lease": "2s", "chunk_size": "4MB"}


LOCAL = {"conf": {}}


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory):
    folder, own = tmp_path_factory.mktemp("kerberos"), tmp_path_factory.mktemp("own")
    with KerberizedHdfs(folder, ticket_seconds=TICKET_SECONDS, die_with_parent=True) as hdfs:
        for name, contents in {"logs": LINES, "long": [LONG] * LONG_FILES}.items():
            (own / name).mkdir()
            for number, content in enumerate(contents):
                (own / name / f"{number}.log").write_bytes(content)
        shell(hdfs, "-put", str(own / "logs"), str(own / "long"), "/")
        user = USER.partition("@")[0]
        shell(hdfs, "-mkdir", "-p", f"/user/{user}")  # YARN's clients put files there
        shell(hdfs, "-chown", user, f"/user/{user}")
        yield hdfs


class KerberizedYarn(YarnServer):
    """Its servers log in as those of HDFS do."""

    hdfs: KerberizedHdfs

    def _settings(self):
        found = super()._settings()
        login = {"hadoop.security.authentication": "kerberos"}
        for server in ("resourcemanager", "nodemanager"):
            login[f"yarn.{server}.principal"] = SERVER
            login[f"yarn.{server}.keytab"] = str(self.hdfs.keytab)
        changed = {name: {**found[name], **login} for name in ("core-site", "yarn-site")}
        return {**found, "hdfs-site": self.hdfs._settings()["hdfs-site"], **changed}


class Place(NamedTuple):
    """A Spark, and the HADOOP_CONF_DIR of its driver."""

    conf: Path
    runner: Mapping[str, Any]


@pytest.fixture(params=["local", "standalone", "yarn"])
def place(request, tmp_path, hdfs, monkeypatch):
    """Executors have neither ticket nor keytab, and those of a standalone Spark no settings of
    Hadoop's."""
    if request.param == "local":
        yield Place(hdfs.conf_dir, LOCAL)
        return
    java = {"spark.executor.extraJavaOptions": f"{hdfs.java_options} -XX:+UseSerialGC"}
    if request.param == "standalone":
        conf = tmp_path / "conf"
        shutil.copytree(hdfs.conf_dir, conf)
        core = conf / "core-site.xml"
        core.write_text(core.read_text().replace("fs.defaultFS", "unused.setting"))
        with SparkServer(tmp_path / "spark", die_with_parent=True) as spark:
            kind = {"kind": "standalone", "master": spark.master}
            yield Place(conf, kind | {"conf": ON_LOOPBACK | java})
        return
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", hdfs.java_options)
    yarn = KerberizedYarn(tmp_path / "yarn", file_system=hdfs.uri, die_with_parent=True)
    yarn.hdfs = hdfs
    with yarn:
        java["spark.yarn.am.extraJavaOptions"] = hdfs.java_options
        yield Place(yarn.conf_dir, {"kind": "yarn", "conf": ON_YARN | java})


def ticket(hdfs, principal, cache):
    """Log in by the keytab, into a ticket cache."""
    program = Path(__file__).with_name("Ticket.java")
    words = [str(hdfs.directory), principal, str(hdfs.keytab), str(cache)]
    jars = f"{resolve_jars(JARS, print)}/*"
    done = subprocess.run(
        [str(find_java().path), hdfs.java_options, "-cp", jars, str(program), *words],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return cache


def environment(hdfs, cache, conf=None):
    return {
        **os.environ,
        "HADOOP_CONF_DIR": str(conf or hdfs.conf_dir),
        "JAVA_TOOL_OPTIONS": hdfs.java_options,
        "KRB5CCNAME": f"FILE:{cache or '/nowhere/cache'}",
    }


def shell(hdfs, *words):
    """Hadoop's own client, as a writer uses it, by keytab."""
    command = [*hdfs._command("org.apache.hadoop.fs.FsShell"), *words]
    login = {"KRB5PRINCIPAL": SERVER, "KRB5KEYTAB": str(hdfs.keytab)}
    done = subprocess.run(
        command, env=environment(hdfs, None) | login, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


class KerberosWorld(World):
    """Its pipeline reads from the kerberized HDFS."""

    hdfs: KerberizedHdfs

    def write(self, *, keytab=False, principal=USER, of="logs", on=LOCAL, **changes):
        login = {
            "spark.kerberos.principal": principal,
            "spark.kerberos.keytab": str(self.hdfs.keytab),
        }
        # Each file needs a login of its own.
        idle = {"spark.hadoop.ipc.client.connection.maxidletime": "1000"}
        conf = {**IMPATIENT, **idle, **(login if keytab else {}), **on["conf"]}
        spec = {
            "source": {"path": f"{self.hdfs.uri}/{of}", "settle": "0s", "wait": "5s"},
            "runner": {"driver_memory": "1g", **on, "conf": conf},
            "gates": {"delivery": [{"check": "read_back", "mode": "full"}]},
        }
        self.write_pipeline(**{**spec, **changes})

    def command_with(self, cache, *words, without="", conf=None):
        env = environment(self.hdfs, cache, conf)
        env.pop(without, None)
        return subprocess.run(self.command(*words), env=env, capture_output=True, text=True)

    def plan_with(self, cache, **options):
        done = self.command_with(cache, "plan", self.name, "--window", WINDOW, "--json", **options)
        assert "Traceback" not in done.stderr
        print(done.stderr[-3000:])
        return dict(json.loads(done.stdout))


@pytest.fixture
def world(tmp_path, kafka, hdfs):
    found = KerberosWorld(tmp_path / "world", kafka.bootstrap)
    found.hdfs = hdfs
    found.write()
    return found


def test_a_ticket_cache_is_enough_for_a_run(world, tmp_path, place):
    world.write(on=place.runner)
    cache = ticket(world.hdfs, USER, tmp_path / "cache")
    done = world.command_with(cache, "run", world.name, "--window", WINDOW, conf=place.conf)
    assert done.returncode == 0, done.stderr[-4000:]
    assert world.read() == lines_of(*LINES)


def test_a_ship_by_keytab_outlasts_its_ticket(world, place):
    """Neither the first ticket nor the first delegation token gives the last files."""
    world.write(keytab=True, of="long", delivery=SLOWLY, on=place.runner)
    done = world.command_with(None, "run", world.name, "--window", WINDOW, conf=place.conf)
    assert done.returncode == 0, done.stderr[-4000:]
    assert world.read() == ALL_LONG


@contextlib.contextmanager
def renewed(hdfs, folder):
    """A ticket cache that has a new ticket before the old one ends, as after `kinit -R`, for the
    ``with`` block. Hadoop's KDC for tests renews tickets, too, but without a later end."""
    cache, ended = ticket(hdfs, USER, folder / "cache"), threading.Event()

    def renew():
        while not ended.wait(TICKET_SECONDS / 3):
            ticket(hdfs, USER, folder / "new").replace(cache)

    with ThreadPoolExecutor(1) as meanwhile:
        renewing = meanwhile.submit(renew)
        try:
            yield cache
        finally:
            ended.set()
        renewing.result()


@pytest.mark.parametrize("place", ["local", "standalone"], indirect=True)
def test_a_ship_by_ticket_cache_ends_with_its_ticket_and_the_next_login_sends_the_rest(
    world, tmp_path, place
):
    """Nobody renews the ticket once something is committed. Spark may take one more token while
    that ticket lives. The last files are begun after both have ended."""
    world.write(of="long", delivery=SLOWLY | {"rate_limit": "600kB/s"}, on=place.runner)
    run = ("run", world.name, "--window", WINDOW)
    with renewed(world.hdfs, tmp_path) as cache:
        ship = subprocess.Popen(
            world.command(*run),
            env=environment(world.hdfs, cache, place.conf),
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            while world.ledger_count() == 0 and ship.poll() is None:
                time.sleep(0.5)
        except BaseException:
            ship.kill()
            raise
    said = ship.communicate()[1]
    assert ship.returncode == 1, said[-4000:]
    assert "Token has expired" in said
    assert "SHIP-313" in said
    assert 0 < world.read().total() < ALL_LONG.total()
    world.write(of="long", keytab=True, on=place.runner)  # may take longer than a ticket lives
    done = world.command_with(None, *run, conf=place.conf)
    assert done.returncode == 0, done.stderr[-4000:]
    assert world.read() == ALL_LONG


def test_a_ship_by_ticket_cache_outlasts_its_ticket_if_somebody_renews_it(world, tmp_path):
    world.write(of="long", delivery=SLOWLY)
    with renewed(world.hdfs, tmp_path) as cache:
        done = world.command_with(cache, "run", world.name, "--window", WINDOW)
    assert done.returncode == 0, done.stderr[-4000:]
    assert world.read() == ALL_LONG


def test_who_is_not_logged_in_is_told_what_helps(world, tmp_path):
    missing = str(world.plan_with(None)["error"])
    assert "SHIP-313" in missing
    assert "kinit" in missing
    cache = ticket(world.hdfs, USER, tmp_path / "cache")
    time.sleep(TICKET_SECONDS + 5)
    assert "SHIP-313" in str(world.plan_with(cache)["error"]), "the ticket is over"
    simple = str(world.plan_with(cache, without="HADOOP_CONF_DIR")["error"])
    assert "SHIP-313" in simple
    assert "HADOOP_CONF_DIR" in simple


def test_a_keytab_without_the_principal_is_told_in_one_sentence(world):
    world.write(keytab=True, principal="nobody@SHIPPER.TEST")
    error = str(world.plan_with(None)["error"])
    assert "SHIP-313" in error
    assert "nobody@SHIPPER.TEST" in error


def test_a_missing_keytab_and_a_missing_krb5_conf_are_told(world, tmp_path):
    world.write_pipeline(
        source={"path": f"{world.hdfs.uri}/logs", "settle": "0s"},
        runner={
            "driver_memory": "1g",
            "conf": {
                "spark.kerberos.principal": USER,
                "spark.kerberos.keytab": str(tmp_path / "no.keytab"),
            },
        },
    )
    absent = str(world.plan_with(None)["error"])
    assert "SHIP-313" in absent
    assert "no.keytab" in absent
    world.write(keytab=True)
    assert "SHIP-313" in str(world.plan_with(None, without="JAVA_TOOL_OPTIONS")["error"])


def test_bytes_that_hdfs_does_not_give_are_no_empty_window(world, tmp_path):
    """Without `dfs.data.transfer.protection` files can be listed, and not read."""
    conf = tmp_path / "conf"
    shutil.copytree(world.hdfs.conf_dir, conf)
    for site in (conf / "core-site.xml", conf / "hdfs-site.xml"):
        site.write_text(site.read_text().replace("dfs.data.transfer.protection", "unused.setting"))
    cache = ticket(world.hdfs, USER, tmp_path / "cache")
    done = world.command_with(cache, "run", world.name, "--window", WINDOW, conf=conf)
    assert done.returncode == 1, done.stderr[-4000:]
    print(done.stderr[-3000:])
    assert "nothing is left to ship" not in done.stderr
