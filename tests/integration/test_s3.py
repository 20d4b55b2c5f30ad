"""Logs in S3: a real S3 server that checks signatures, S3A with the jars that come by themselves,
and what may go wrong in between."""

import gzip
import hashlib
import json
import os
import subprocess
import time
from dataclasses import dataclass, field
from typing import Any

import pytest
from shipper_tools.dev.ports import free_port
from shipper_tools.dev.s3 import ACCESS_KEY, SECRET_KEY, S3Server
from shipper_tools.dev.spark import SparkServer

from shipper.report.results import RunReport
from tests.waiting import slowness

from .command_lines import CommandLines
from .world import WINDOW, World, lines_of

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

#: A server that is not there must be known within a minute, on a machine that does other things
#: too.
DOWN_WITHIN_SECONDS = 90


@pytest.fixture(scope="module")
def s3(tmp_path_factory):
    with S3Server(tmp_path_factory.mktemp("s3"), die_with_parent=True) as server:
        yield server


@dataclass
class Bucket:
    """A pipeline's world with a bucket of its own in place of the folder: Hadoop keeps one client
    per bucket in a JVM."""

    world: World
    server: S3Server
    name: str = field(init=False)
    runner: dict[str, Any] = field(default_factory=lambda: {"driver_memory": "1g"})

    def __post_init__(self):
        self.name = f"b-{self.world.name}"
        self.secret = self.world.root / "secret"
        self.secret.write_text(SECRET_KEY)
        self.secret.chmod(0o600)
        self.client.make_bucket(self.name)
        self.write_pipeline()

    @property
    def client(self):
        return self.server.client

    def write_pipeline(self, *, s3=None, bucket=None, **source):
        """``s3``, ``source``: in place of single keys; None removes one."""
        keys = {"access_key": ACCESS_KEY, "secret_key": f"${{file:{self.secret}}}"}
        reached = {"endpoint": self.server.endpoint, "path_style": True, **keys, **(s3 or {})}
        reached = {key: value for key, value in reached.items() if value is not None}
        path = f"s3a://{bucket or self.name}/logs/"
        self.world.write_pipeline(
            source={"path": path, "settle": "0s", "s3": reached, **source}, runner=self.runner
        )

    def put(self, name, content):
        self.client.put(self.name, f"logs/{name}", content)

    def overwrite_at_once(self, name, content):
        """As many other bytes, and the same moment: the server takes it from the file in which it
        keeps the object."""
        file = self.server.directory / "data" / self.name / "logs" / name
        before = file.stat()
        assert before.st_size == len(content)
        self.put(name, content)
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.fixture
def bucket(tmp_path, kafka, s3):
    return Bucket(World(tmp_path / "world", kafka.bootstrap), s3)


def lines(count, word="line"):
    return b"".join(b"%s %d\r\n" % (word.encode(), number) for number in range(count))


def test_plain_and_packed_objects_arrive_byte_for_byte_and_once(bucket):
    contents = {
        "a.log": lines(4000),
        "b c+d=é.log": b"no end of line \xff\x00",
        "deep/e.log": lines(10, "deep"),
        "empty.log": b"",
    }
    for name, content in contents.items():
        bucket.put(name, content)
    bucket.put("packed.log.gz", gzip.compress(lines(3000, "packed"), mtime=0))
    for name in ("_SUCCESS", "_temporary/0/part.log", "deep/.staging/part.log"):
        bucket.put(name, b"not a log\n")
    bucket.write_pipeline(recursive=True)
    assert [(row.code, row.count) for row in bucket.world.plan().left_out] == [
        ("hidden", 2),
        ("hidden", 1),
    ]

    account = bucket.world.run()
    again = bucket.world.run()

    there = bucket.world.read()
    assert there == lines_of(*contents.values(), lines(3000, "packed"))
    assert account["delivered"] == there.total()
    assert account["source_requests"]["GET"] == 4, "one for each object that has a byte"
    assert again["delivered"] == 0


@pytest.mark.cold
@pytest.mark.long
def test_a_process_of_its_own_needs_no_settings_and_shows_no_secret(bucket):
    """The JVM that lists, and Spark in it, find S3A by themselves; the key is in no command line,
    no Java's environment, no result and no log."""
    secret = "canary-91f2-secret"
    bucket.secret.write_text(secret)
    with S3Server(
        bucket.server.directory / "other", secret_key=secret, die_with_parent=True
    ) as server:
        server.client.make_bucket(bucket.name)
        server.client.put(bucket.name, "logs/a.log", lines(500))
        bucket.write_pipeline(s3={"endpoint": server.endpoint})
        watcher = CommandLines(b"canary-91f2-")
        with watcher:
            command = bucket.world.command("run", bucket.world.name, "--window", WINDOW, "--json")
            environment = {**os.environ, "SHIPPER_LOG": "info"}
            done = subprocess.run(command, env=environment, capture_output=True)
    assert done.returncode == 0, done.stderr[-4000:]
    assert bucket.world.read() == lines_of(lines(500))
    assert watcher.seen == set()
    assert b"canary-91f2-" not in done.stdout + done.stderr
    files = (
        path for path in bucket.world.root.rglob("*") if path.is_file() and path != bucket.secret
    )
    assert [str(path) for path in files if b"canary-91f2-" in path.read_bytes()] == []


@pytest.mark.parametrize(
    ("reached", "says"),
    [
        pytest.param(
            {"secret_key": "wrong"},
            r"s3a://\S* cannot be listed.*SignatureDoesNotMatch.*SHIP-302",
            id="wrong",
        ),
        pytest.param(
            {"access_key": None, "secret_key": None, "credentials": "environment"},
            r"s3a://.* cannot be listed.*credentials.*`source\.s3`",
            id="none",
            marks=pytest.mark.long,
        ),
        pytest.param(
            {"credentials": "anonymous", "access_key": None, "secret_key": None},
            r"s3a://.* cannot be listed.*permission",
            id="anonymous",
            marks=pytest.mark.long,
        ),
    ],
)
@pytest.mark.long
def test_credentials_that_do_not_fit_are_named_and_nothing_is_sent(bucket, reached, says):
    bucket.put("a.log", lines(10))
    bucket.write_pipeline(s3=reached)
    bucket.world.fails(code=1, says=says)
    assert bucket.world.nothing_was_sent()


@pytest.mark.long
def test_a_bucket_that_is_not_there_is_named(bucket):
    bucket.write_pipeline(bucket=f"{bucket.name}-absent")
    bucket.world.fails(code=1, says=rf"{bucket.name}-absent.* no such bucket")
    assert bucket.world.nothing_was_sent()


@pytest.mark.long
def test_an_endpoint_that_does_not_answer_fails_the_run_within_a_minute(bucket):
    bucket.write_pipeline(s3={"endpoint": f"http://127.0.0.1:{free_port()}"}, wait="0s")
    started = time.monotonic()
    bucket.world.fails(code=1, says=r"s3a://.* cannot be listed.*does not answer")
    assert time.monotonic() - started < DOWN_WITHIN_SECONDS * slowness()


@pytest.mark.long
def test_an_object_overwritten_after_the_plan_by_as_many_bytes_is_not_read(bucket):
    bucket.put("a.log", lines(100, "one"))
    bucket.world.steps_done("run-1", "plan", "gate_source")
    bucket.overwrite_at_once("a.log", lines(100, "two"))
    said = bucket.world.steps_fail("run-1", "ship:local")
    assert "a.log: it was replaced or written to after it was planned" in " ".join(said.split())
    assert bucket.world.nothing_was_sent()

    assert bucket.world.run()["delivered"] == 100
    assert bucket.world.read() == lines_of(lines(100, "two"))


@pytest.mark.long
def test_a_public_bucket_needs_no_credentials(tmp_path, kafka):
    with S3Server(tmp_path / "public", anonymous=True, die_with_parent=True) as server:
        bucket = Bucket(World(tmp_path / "world", kafka.bootstrap), server)
        bucket.put("a.log", lines(20))
        bucket.write_pipeline(
            s3={"credentials": "anonymous", "access_key": None, "secret_key": None}
        )
        assert bucket.world.run()["delivered"] == 20


@pytest.mark.long
def test_a_plan_of_many_folders_asks_for_keys_not_for_folders_and_holds_their_etags(bucket):
    for number in range(1, 21):
        bucket.client.put(bucket.name, f"logs/{number}/deep/a.log", lines(number))
    for hidden in (
        "_temporary/a.log",
        ".staging/deep/a.log",
        "1/_temporary/deep/a.log",
        "1/_SUCCESS",
    ):
        bucket.put(hidden, lines(1))
    bucket.write_pipeline(recursive=True)
    bucket.world.steps_done("run-1", "plan")
    [path] = (bucket.world.root / "runs").rglob("plan.json")
    plan = json.loads(path.read_text())
    md5s = [hashlib.md5(lines(number)).hexdigest() for number in range(1, 21)]
    assert sorted(file["etag"] for file in plan["files"]) == sorted(md5s)
    assert 1 <= plan["source_requests"]["LIST"] <= 6


@pytest.mark.long
@pytest.mark.cold
def test_executors_of_a_cluster_get_jars_and_keys_from_the_driver(bucket, tmp_path):
    bucket.put("a.log", lines(1000))
    bucket.put("b.log.gz", gzip.compress(lines(1000, "packed"), mtime=0))
    here = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.memory": "1g",
    }
    with SparkServer(tmp_path / "spark", workers=1, die_with_parent=True) as spark:
        bucket.runner = {
            "kind": "standalone",
            "master": spark.master,
            "cores": 2,
            "driver_memory": "1g",
            "conf": here,
        }
        bucket.write_pipeline()
        bucket.world.run()
    assert bucket.world.read() == lines_of(lines(1000), lines(1000, "packed"))
    words = SECRET_KEY.encode()
    logs = [path for path in (tmp_path / "spark").rglob("std*") if path.is_file()]
    assert logs
    assert [str(path) for path in logs if words in path.read_bytes()] == []


@pytest.mark.long
def test_a_key_that_no_listing_can_name_is_told_of_with_the_remedy(bucket):
    bucket.put("a.log", lines(10))
    bucket.put("bell\x07.log", lines(10))
    said = bucket.world.fails(code=1, says="control character")
    assert "SHIP-302" in said


@pytest.mark.long
@pytest.mark.cold
def test_results_in_s3_are_what_the_next_run_and_people_find_there(
    tmp_path, kafka, s3, monkeypatch
):
    """By fsspec, and without a part that a reader might meet."""
    world = World(tmp_path / "world", kafka.bootstrap)
    told = {
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_ENDPOINT_URL": s3.endpoint,
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    bucket = f"runs-{world.name}"
    s3.client.make_bucket(bucket)
    world.write_pipeline(
        runs_uri=f"s3://{bucket}/shipper",
        source={"path": "logs", "settle": "0s", "lookback": "24h"},
        schedule="@daily",
    )
    world.write_log("a.log", lines(1000))
    first = world.report()
    assert world.run()["delivered"] == 0
    world.write_log("b.log", lines(500, "more"))
    assert world.run()["delivered"] == 500
    keys = s3.client.keys(bucket)
    folder = f"shipper/{world.name}/20261101T000000Z--20261102T000000Z/{first.run_id}"
    kept = RunReport.model_validate_json(s3.client.get(bucket, f"{folder}/report.json"))
    assert (kept.run_id, kept.status) == (first.run_id, "succeeded")
    assert f"{folder}/report.html" in keys
    assert [key for key in keys if key.endswith(".part")] == []
    assert world.shipper("gaps", world.name, "--window", "2026-11-01").returncode == 0
    assert world.shipper("gaps", world.name, "--window", "2026-11-02").returncode == 1
