"""A cluster that wants TLS and a password, as every production cluster does; and where its secrets
show: nowhere."""

import contextlib
import json
import os
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from shipper_tools.dev.secured_kafka import SecuredKafka

from shipper.config.cluster import Cluster
from shipper.errors import ShipperError
from shipper.kafka.client import ClusterClient
from shipper.kafka.connection import KafkaFault
from shipper.verify.readback import OffsetRange, ReadBack, take_records

from .command_lines import CommandLines
from .world import WINDOW, World, lines_of

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

PASSWORD, WRONG = "canary-3f9a1c-right", "canary-77be02-wrong"
CANARY = b"canary-"


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    with SecuredKafka(
        tmp_path_factory.mktemp("secured"), {"shipper": PASSWORD}, listeners=("SECURE", "TLS")
    ) as kafka:
        yield kafka


class Watched:
    """A run whose temporary files lie in a folder of the test's, with canaries in its
    environment."""

    def __init__(self, world):
        self.world = world
        self.temporary = world.root / "temporary"
        self.temporary.mkdir(exist_ok=True)
        self.secret = world.root / "secret"
        self.secret.write_text(f"{PASSWORD}\n")
        self.secret.chmod(0o600)
        places = {
            "TMPDIR": str(self.temporary),
            "SPARK_LOCAL_DIRS": str(self.temporary),
            "JAVA_TOOL_OPTIONS": f"-Djava.io.tmpdir={self.temporary}",
        }
        self.environment = {**os.environ, **places, "WRONG_PASSWORD": WRONG, "SHIPPER_LOG": "info"}

    def write_cluster(self, name, bootstrap, **properties):
        text = json.dumps(
            {
                "cluster": name,
                "bootstrap": bootstrap,
                "properties": properties,
                "ledger": {"replication_factor": 1},
            }
        )
        (self.world.root / "config" / "clusters" / f"{name}.yaml").write_text(text)

    def start(self, *arguments):
        command = self.world.command("run", self.world.name, "--window", WINDOW, *arguments)
        return subprocess.Popen(
            command, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def processes(self):
        """Of this run: those that have its folder, or one below it, in their environment."""
        found = []
        for path in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                if f"\0TMPDIR={self.temporary}".encode() in b"\0" + path.read_bytes():
                    found.append(int(path.parent.name))
        return found

    def files_with_canaries(self):
        """All but the one that is meant to hold one."""
        files = (
            path for path in self.world.root.rglob("*") if path.is_file() and path != self.secret
        )
        return [str(path) for path in files if CANARY in path.read_bytes()]


@pytest.fixture
def watched(tmp_path, secured):
    world = World(tmp_path / "world", secured.address)
    watched = Watched(world)
    watched.write_cluster(
        "local", secured.bootstrap, **secured.properties("shipper", f"${{file:{watched.secret}}}")
    )
    return watched


def test_one_cluster_ships_while_others_name_what_is_wrong_and_no_secret_shows(watched, secured):
    """Of four clusters one is right; the others have a wrong password, a CA file that is missing,
    and a secret that is not there."""
    world = watched.world
    watched.write_cluster(
        "wrong", secured.bootstrap, **secured.properties("shipper", "${WRONG_PASSWORD}")
    )
    right = secured.properties("shipper", f"${{file:{watched.secret}}}")
    watched.write_cluster(
        "no_ca", secured.bootstrap, **{**right, "ssl.ca.location": "/nowhere/ca.pem"}
    )
    watched.write_cluster(
        "absent", secured.bootstrap, **{**right, "sasl.password": "${file:/nowhere/password}"}
    )
    world.write_pipeline(clusters=["local", "wrong", "no_ca", "absent"])
    content = b"".join(b"line %d\n" % number for number in range(3000))
    world.write_log("a.log", content)
    with CommandLines(CANARY) as lines:
        run = watched.start("--json")
        out, err = run.communicate()
    assert run.returncode != 0, err.decode()[-4000:]
    found = {ship["cluster"]: ship for ship in json.loads(out)["ships"]}
    assert found["local"]["status"] == "succeeded", err.decode()[-4000:]
    assert world.read() == lines_of(content)
    assert "there is no file /nowhere/ca.pem" in found["no_ca"]["error"]
    assert "/nowhere/password cannot be read: No such file or directory" in found["absent"]["error"]
    assert "config/clusters/absent.yaml:" in found["absent"]["error"]
    assert "uthentication" in found["wrong"]["error"], (
        "librdkafka says so at once; a time-out alone would not tell"
    )
    report = json.loads(next(world.root.glob("runs/**/report.json")).read_text())
    assert "fail" in {found["severity"] for found in report["plan"]["clusters"][1]["findings"]}
    # What all of this left: nothing that holds a secret.
    assert not lines.seen
    assert CANARY not in out + err
    assert list(world.root.glob("runs/**/report.html"))
    assert watched.files_with_canaries() == []
    ledger = world.client.headed(world.cluster.ledger_topic(world.name))
    assert CANARY not in repr([*ledger]).encode()
    planted = world.root / "planted"
    planted.write_bytes(b"x" + CANARY)
    assert watched.files_with_canaries() == [str(planted)], "the search finds what is there"


@pytest.mark.long
def test_every_question_that_a_wrong_password_leaves_without_an_answer_says_so(secured):
    """librdkafka tells the error callback alone; the calls time out."""
    properties = secured.properties("shipper", WRONG)
    cluster = Cluster.model_validate(
        {"cluster": "c", "bootstrap": secured.bootstrap, "properties": properties}
    )

    def client():
        return ClusterClient(cluster, 2)

    questions = {
        "topics": lambda: client().topics(),
        "facts": lambda: client().facts(["t"]),
        "rtt": lambda: client().rtt_seconds("t"),
        "create": lambda: client().create_topics({"t": 1}),
        "end": lambda: client().end_offset("t", 0),
        "log": lambda: client().log_facts("t"),
        "ids": lambda: client().topic_ids("t"),
        "present ids": lambda: client().present_ids(["t"]),
        "transactions": lambda: client().try_transactions("t", "id"),
        "read": lambda: client().read("t", 0, 0, wait_seconds=2),
        "look": lambda: client().read("t", 0, 0, wait_seconds=None),
        "append": lambda: client().append("t", 0, [(b"k", b"v")]),
        "ends to read back": lambda: ReadBack(cluster, 2).ends(lambda topic: True),
        "starts to read back": lambda: ReadBack(cluster, 2).starts([("t", 0)]),
        "read back": lambda: ReadBack(cluster, 2).read(
            {("t", 0): OffsetRange(0, 1)}, lambda topic: take_records, 2
        ),
    }

    def answer(question):
        try:
            return repr(question())
        except ShipperError as error:
            return error.message
        except KafkaFault as fault:
            return str(fault)

    with ThreadPoolExecutor(4) as pool:
        answers = dict(zip(questions, pool.map(answer, questions.values()), strict=True))
    assert {name: said for name, said in answers.items() if "uthentication" not in said} == {}


@pytest.mark.long
def test_a_password_that_is_rotated_during_a_run_is_named_by_the_gate(tmp_path, tmp_path_factory):
    with SecuredKafka(tmp_path_factory.mktemp("rotated"), {"shipper": PASSWORD}) as rotated:
        world = World(tmp_path / "world", rotated.address)
        watched = Watched(world)
        watched.write_cluster("local", rotated.bootstrap, **rotated.properties("shipper", PASSWORD))
        gate = {"delivery": [{"check": "sum_closes"}, {"check": "read_back", "mode": "full"}]}
        world.write_pipeline(gates=gate, delivery={"rate_limit": "200kB/s", "lease": "2s"})
        world.write_log("a.log", os.urandom(1_500_000).hex(" ", -60).replace(" ", "\n").encode())
        run = watched.start("--json")
        while not any(world.client.end_offset(world.topic(), number) for number in range(3)):
            assert run.poll() is None, run.communicate()
            time.sleep(0.05)
        rotated.set_password("shipper", "another")
        out, err = run.communicate()
    report = json.loads(out)
    assert run.returncode == 1
    assert report["status"] == "failed"
    (closed,) = [
        check
        for gate in report["delivery_gates"]
        for check in gate["checks"]
        if not check["passed"]
    ]
    assert closed["check"] == "read_back"
    assert "uthentication" in json.dumps(closed)
    assert "uthentication" in report["error"], err.decode()[-4000:]


@pytest.mark.long
def test_a_run_that_is_killed_leaves_no_secret_on_disk(watched):
    """Killed with -9, the driver, the JVM and the workers, while they hold the order."""
    world = watched.world
    world.write_pipeline(delivery={"rate_limit": "1MB/s", "lease": "2s"})
    world.write_log("a.log", os.urandom(8_000_000).hex(" ", -60).replace(" ", "\n").encode())
    run = watched.start()
    while world.client.end_offset(world.topic(), 0) == 0:
        assert run.poll() is None
        time.sleep(0.05)
    for _ in range(3):
        for pid in watched.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    out, err = run.communicate()
    assert CANARY not in out + err
    assert list(watched.temporary.rglob("*")), "what was killed left something to look at"
    assert watched.files_with_canaries() == []
