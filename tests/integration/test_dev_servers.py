"""A real broker, through the code that tests use and through the commands that people use."""

import getpass
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections import Counter

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pydantic import Secret
from shipper_tools.dev import servers, state
from shipper_tools.dev.console_consumer import read_records, read_topic
from shipper_tools.dev.errors import DevServerError
from shipper_tools.dev.http import Refused
from shipper_tools.dev.kafka import answers
from shipper_tools.dev.s3 import ACCESS_KEY, SECRET_KEY
from shipper_tools.dev.s3_client import S3Client

from shipper.config.load import load_cluster
from shipper.errors import ClusterRefuses
from shipper.kafka.client import ClusterClient
from tests.waiting import wait_until

pytestmark = pytest.mark.kafka

AWKWARD = [
    b"plain",
    b"",
    b"\r",
    b"x\ry\r\n",
    b"\xff\xfe",
    b"\x00",
    "straße".encode(),
    b"z" * 900_000,
]


def make_topic(bootstrap, topic, partitions=1):
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(30)


def send(bootstrap, topic, values):
    producer = Producer({"bootstrap.servers": bootstrap})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(30) == 0


def topics(bootstrap):
    return set(AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=30).topics)


@pytest.fixture
def home(tmp_path):
    """A home of the dev commands; what a failed test leaves running in it is stopped."""
    yield tmp_path / "dev"
    for server in servers.remembered(tmp_path / "dev"):
        server.stop(grace_seconds=0)


def dev(home, *arguments, **environ):
    """Run a dev command as a person would, in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "shipper", "dev", *arguments],
        env={**os.environ, "SHIPPER_DEV_HOME": str(home), "COLUMNS": "200", **environ},
        capture_output=True,
        text=True,
    )


def kafka_of(home):
    known = state.load(home, "kafka")
    return known.addresses["bootstrap"], known.processes[0]


@pytest.mark.long
def test_up_status_and_down_tell_the_truth(home):
    up = dev(home, "up", "kafka", "--port", "0", "--json")
    assert up.returncode == 0, up.stderr
    bootstrap, process = kafka_of(home)
    assert process.alive()
    make_topic(bootstrap, "kept")
    send(bootstrap, "kept", [b"one", b"two"])

    status = dev(home, "status", "--json")
    assert json.loads(status.stdout)["kafka"]["bootstrap"] == bootstrap
    assert json.loads(up.stdout) == json.loads(status.stdout)

    nope = dev(home, "read", "nope")
    assert (nope.returncode, nope.stderr.rstrip()[-10:]) == (2, "[SHIP-101]")

    again = dev(home, "up", "kafka")
    assert again.returncode == 0
    assert "kafka runs already" in again.stderr
    assert bootstrap in again.stdout
    assert kafka_of(home) == (bootstrap, process)

    moved = dev(home, "up", "kafka", "--port", "1")
    assert moved.returncode == 1
    assert f"kafka runs already, at {bootstrap}, not on port 1" in moved.stderr

    down = dev(home, "down")
    assert down.returncode == 0, down.stderr
    assert not process.alive()
    assert not answers("127.0.0.1", int(bootstrap.rpartition(":")[2]))
    assert json.loads(dev(home, "status", "--json").stdout) == {}
    assert dev(home, "down").returncode == 0

    back = dev(home, "up", "kafka", "--port", bootstrap.rpartition(":")[2])
    assert back.returncode == 0, back.stderr
    assert read_topic(bootstrap, "kept") == [b"one", b"two"]

    purged = dev(home, "down", "kafka", "--purge")
    assert purged.returncode == 0, purged.stderr
    assert not (home / "kafka").exists()


@pytest.mark.long
def test_hdfs_keeps_its_files_and_is_up_only_if_both_its_processes_are(home):
    up = dev(home, "up", "hdfs", "--port", "0", "--json")
    assert up.returncode == 0, up.stderr
    known = state.load(home, "hdfs")
    assert len(known.processes) == 2
    assert json.loads(dev(home, "status", "--json").stdout)["hdfs"]["uri"] == known.addresses["uri"]
    owner = f"user.name={getpass.getuser()}"
    made = urllib.request.Request(
        f"{known.addresses['web']}/webhdfs/v1/kept/here?op=MKDIRS&{owner}", method="PUT"
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    assert json.load(opener.open(made)) == {"boolean": True}

    os.kill(known.processes[1].pid, signal.SIGKILL)
    assert dev(home, "status").returncode == 1
    back = dev(home, "up", "hdfs", "--port", known.addresses["uri"].rpartition(":")[2])
    assert back.returncode == 0, back.stderr
    again = state.load(home, "hdfs")
    assert again.addresses["uri"] == known.addresses["uri"]
    listed = json.load(opener.open(f"{again.addresses['web']}/webhdfs/v1/kept?op=LISTSTATUS"))
    assert [entry["pathSuffix"] for entry in listed["FileStatuses"]["FileStatus"]] == ["here"]

    down = dev(home, "down", "--purge")
    assert down.returncode == 0, down.stderr
    assert not any(process.alive() for process in (*known.processes, *again.processes))
    assert not (home / "hdfs").exists()


@pytest.mark.long
def test_an_hdfs_with_kerberos_is_another_one_and_is_taken_down_with_the_others(home):
    up = dev(home, "up", "hdfs", "--kerberos", "--port", "0")
    assert up.returncode == 0, up.stderr
    folder = home / "hdfs-kerberos"
    assert f"-Djava.security.krb5.conf={folder}/krb5.conf" in up.stdout
    known = state.load(home, "hdfs")
    assert known.addresses["keytab"] == str(folder / "all.keytab")
    assert "with --kerberos" in dev(home, "up", "hdfs", "--port", "0").stderr
    assert dev(home, "up", "kafka", "--kerberos").returncode == 2
    assert dev(home, "down", "--purge").returncode == 0
    assert not any(process.alive() for process in known.processes)
    assert not folder.exists()


@pytest.mark.long
def test_a_secured_kafka_comes_with_a_cluster_file_that_works_and_lets_nobody_else_in(
    home, tmp_path
):
    up = dev(home, "up", "kafka", "--secure", "--port", "0")
    assert up.returncode == 0, up.stderr
    written = home / "kafka-secure" / "secure.yaml"
    assert "secure.yaml config/clusters/" in up.stdout
    assert (home / "kafka-secure" / "password").stat().st_mode & 0o777 == 0o600
    (tmp_path / "config" / "clusters").mkdir(parents=True)
    (tmp_path / "config" / "clusters" / "secure.yaml").write_text(written.read_text())
    cluster = load_cluster(tmp_path / "config", "secure")
    assert dev(home, "topic", "logs.mine").returncode == 0
    assert ClusterClient(cluster).append("logs.mine", 0, [(b"key", b"value")]) == [0]
    assert dev(home, "read", "logs.mine").stdout == "value\n"
    wrong = cluster.model_copy(
        update={"properties": {**cluster.properties, "sasl.password": Secret("another")}}
    )
    with pytest.raises(ClusterRefuses, match="refuses the connection"):
        ClusterClient(wrong).topics()

    other = dev(home, "up", "kafka")
    assert other.returncode == 1
    assert "runs already, with --secure" in other.stderr
    assert dev(home, "down", "kafka", "--purge").returncode == 0
    assert not written.exists()


def test_a_port_that_is_taken_is_said_before_anything_starts(home):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        up = dev(home, "up", "kafka", "--port", str(port))

    assert up.returncode == 1
    assert f"port {port} on 127.0.0.1 is taken by another process" in up.stderr
    assert (up.stderr.count("[SHIP-"), up.stderr.rstrip()[-10:]) == (1, "[SHIP-952]")
    assert "shipper dev up kafka --port" in up.stderr
    assert up.stdout == ""
    assert not (home / "kafka").exists()
    assert json.loads(dev(home, "status", "--json").stdout) == {}


@pytest.mark.long
def test_the_s3_server_is_filled_by_put_keeps_its_objects_and_looks_at_signatures(home, tmp_path):
    up = dev(home, "up", "s3", "--port", "0", "--json")
    assert up.returncode == 0, up.stderr
    endpoint = json.loads(up.stdout)["s3"]["endpoint"]
    (tmp_path / "a b.log").write_bytes(b"one\r\n\xff")

    put = dev(home, "put", str(tmp_path / "a b.log"), "s3a://logs/2026/")
    assert put.returncode == 0, put.stderr
    assert dev(home, "put", str(tmp_path / "a b.log"), "logs/2026").returncode == 2
    refused = dev(home, "put", str(tmp_path / "a b.log"), "s3a://x/")
    assert (refused.returncode, "Traceback" in refused.stderr) == (2, False), refused.stderr
    with (tmp_path / "large.log").open("wb") as large:
        large.truncate(300 << 20)  # more than the memory of the server
    assert dev(home, "put", str(tmp_path / "large.log"), "s3a://large/").returncode == 0

    client = S3Client(endpoint, ACCESS_KEY, SECRET_KEY)
    assert client.keys("logs") == ["2026/a b.log"]
    with pytest.raises(Refused, match="403"):
        S3Client(endpoint, ACCESS_KEY, "wrong").get("logs", "2026/a b.log")
    assert dev(home, "down", "s3").returncode == 0
    with pytest.raises(OSError, match="refused"):
        client.keys("logs")
    assert dev(home, "put", str(tmp_path / "a b.log"), "s3a://logs/").returncode == 2, (
        "nothing is up"
    )

    assert dev(home, "up", "s3", "--port", endpoint.rpartition(":")[2]).returncode == 0
    assert client.get("logs", "2026/a b.log") == b"one\r\n\xff"


@pytest.mark.long
@pytest.mark.spark
def test_a_spark_of_a_master_and_two_workers_comes_up_and_goes(home):
    up = dev(home, "up", "spark", "--port", "0", "--json")
    assert up.returncode == 0, up.stderr
    told, known = json.loads(up.stdout)["spark"], state.load(home, "spark")
    assert known is not None
    with urllib.request.urlopen(f"{told['page']}/json/") as page:
        found = json.load(page)
    assert (found["url"], found["aliveworkers"], found["cores"]) == (told["master"], 2, 2)
    assert len(told["pids"]) == 3
    assert set(json.loads(dev(home, "status", "--json").stdout)) == {"spark"}, (
        "kafka is not brought up with it"
    )
    assert dev(home, "down", "spark").returncode == 0
    assert not any(process.alive() for process in known.processes)


@pytest.fixture
def sigint_heard():
    """A shell starts what it runs in the background with SIGINT ignored, and processes pass that
    on."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.long
@pytest.mark.usefixtures("sigint_heard")
def test_a_command_that_is_interrupted_leaves_no_server(home):
    for _ in range(5):
        with subprocess.Popen(
            [sys.executable, "-m", "shipper", "dev", "up", "kafka", "--port", "0"],
            env={**os.environ, "SHIPPER_DEV_HOME": str(home)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as up:
            wait_until(lambda: (home / "kafka.json").exists())
            _, process = kafka_of(home)
            up.send_signal(signal.SIGINT)
        if up.returncode != 0:
            break
        # It was up already when the signal came, and rightly stays up.
        subprocess.run(
            [sys.executable, "-m", "shipper", "dev", "down"],
            env={**os.environ, "SHIPPER_DEV_HOME": str(home)},
            check=True,
        )

    assert up.returncode != 0
    assert not process.alive()
    assert state.load(home, "kafka") is None


def test_the_independent_reader_returns_exactly_the_committed_bytes(kafka):
    make_topic(kafka.bootstrap, "exact", partitions=3)
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": "exact"})
    producer.init_transactions(30)
    for turn in range(9):
        producer.begin_transaction()
        for number, value in enumerate(AWKWARD):
            producer.produce("exact", value, partition=(number + turn) % 3)
        producer.flush(30)
        # The aborted ones at the end leave offsets that no reader ever gets.
        producer.commit_transaction(30) if turn in (0, 3, 4) else producer.abort_transaction(30)

    assert Counter(read_topic(kafka.bootstrap, "exact")) == Counter(AWKWARD * 3)


def test_the_independent_reader_tells_keys_headers_and_nulls(kafka):
    make_topic(kafka.bootstrap, "whole")
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    producer.produce(
        "whole",
        b"a\nb",
        key=b"k\t",
        headers=[("h", b"1:2"), ("n", None)],
        timestamp=1_700_000_000_123,
    )
    producer.produce("whole", None, key=b"")
    assert producer.flush(30) == 0

    first, second = read_records(kafka.bootstrap, "whole")

    assert (first.partition, first.offset, first.timestamp_ms) == (0, 0, 1_700_000_000_123)
    assert (first.key, first.value, first.headers) == (
        b"k\t",
        b"a\nb",
        (("h", b"1:2"), ("n", None)),
    )
    assert (second.offset, second.key, second.value, second.headers) == (1, b"", None, ())
    with pytest.raises(ValueError, match="without a value"):
        read_topic(kafka.bootstrap, "whole")


def test_the_independent_reader_does_not_stop_short_of_an_open_transaction(kafka):
    make_topic(kafka.bootstrap, "open")
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": "open"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("open", b"not yet")
    producer.flush(30)

    with pytest.raises(DevServerError, match="A transaction may be open"):
        read_topic(kafka.bootstrap, "open", timeout_seconds=6)

    producer.abort_transaction(30)
    assert read_topic(kafka.bootstrap, "open") == []
