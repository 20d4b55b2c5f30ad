"""The pipelines in examples/, by the commands that their READMEs give; what arrives is compared
with the samples by readers of the test's own."""

import csv
import datetime as dt
import gzip
import io
import json
import os
import re
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from confluent_kafka.admin import AdminClient

from shipper.kafka.client import ClusterClient
from tests import warm
from tests.integration.committed import read_committed
from tests.integration.world import WINDOW, World
from tests.samples.config import cluster_of

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = sorted(folder.parent.name for folder in EXAMPLES.glob("*/logs"))


def files(example, pattern):
    yield from sorted((EXAMPLES / example / "logs").rglob(pattern))


def nginx_access():
    packed = b"".join(gzip.decompress(file.read_bytes()) for file in files("nginx_access", "*.gz"))
    plain = b"".join(file.read_bytes() for file in files("nginx_access", "*.log"))
    lines = [line for line in (packed + plain).splitlines() if b'"GET /healthz ' not in line]
    failed = [line for line in lines if re.search(rb'" 5\d\d ', line)]
    return {"errors.nginx": failed, "logs.nginx": [line for line in lines if line not in failed]}


def app_events():
    found = b"".join(file.read_bytes() for file in files("app_events", "*.jsonl"))
    for secret, word in (
        (rb"[\w.]+@example\.com", b"[email]"),
        (rb"4111 1111 1111 1111", b"[card]"),
        (rb"Bearer [\w.]+", b"Bearer [bearer]"),
    ):
        found, count = re.subn(secret, word, found)
        assert count, "the samples have all of them"
    lines = found.splitlines()
    errors = [line for line in lines if json.loads(line)["level"] == "ERROR"]
    return {
        "logs.app": [line for line in lines if line not in errors],
        "errors.app": errors,
        "archive.app": lines,
    }


def java_stacks():
    text = b"".join(file.read_bytes() for file in files("java_stacks", "*.log"))
    records = [
        record.rstrip(b"\n") for record in re.split(rb"(?m)^(?=\d{4}-\d\d-\d\d )", text) if record
    ]
    errors = [record for record in records if b" ERROR " in record]
    assert all(b"\n\tat " in record and record.endswith(b"12 more") for record in errors), (
        "a trace is one with its line"
    )
    return {
        "errors.orders": errors,
        "logs.orders": [record for record in records if record not in errors],
    }


def audit_parquet():
    rows = [
        row
        for file in files("audit_parquet", "*.parquet")
        for row in pq.read_table(file).to_pylist()
    ]
    return {
        "audit": [
            _compact({name: _shown(value) for name, value in row.items() if value is not None})
            for row in rows
        ]
    }


def _shown(value):
    """Moments as Java prints them: in milliseconds, or in none."""
    if not isinstance(value, dt.datetime):
        return value
    return (
        value.isoformat(timespec="milliseconds").removesuffix("+00:00").removesuffix(".000") + "Z"
    )


def _compact(row):
    return json.dumps(row, separators=(",", ":"), ensure_ascii=False).encode()


def orders_csv():
    (file,) = files("orders_csv", "*.csv")
    head, *rows = csv.reader(io.StringIO(file.read_bytes().decode(), newline=""))
    whole = [dict(zip(head, row, strict=True)) for row in rows if len(row) == len(head)]
    good = [row for row in whole if row["amount"] != "n/a"]
    odd = [_compact(row) for row in whole if row not in good]
    odd += [
        json.dumps(row, separators=(",", ":")).encode() for row in rows if len(row) != len(head)
    ]
    assert (len(good), len(odd)) == (37, 3)
    return {"orders": [_compact(row) for row in good], "quarantine.orders": odd}


EXPECTED = {
    made.__name__: made
    for made in (nginx_access, app_events, java_stacks, audit_parquet, orders_csv)
}


def read_all(bootstrap, topics):
    """Every committed value, by a plain consumer."""
    there = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=30).topics
    return {
        topic: [
            value
            for part in there[topic].partitions
            for value in read_committed(bootstrap, topic, part)
        ]
        for topic in topics
    }


def commands(example):
    """Return the commands of the README, word by word."""
    (block,) = re.findall(r"```sh\n(.*?)```", (EXAMPLES / example / "README.md").read_text(), re.S)
    return [found.split() for found in re.findall(r"(?:^|&& )(shipper [^\n&]+)", block, re.M)]


@pytest.mark.parametrize(
    "example",
    [
        pytest.param(
            name, marks=[] if name in ("nginx_access", "orders_csv") else [pytest.mark.long]
        )
        for name in NAMES
    ],
)
@pytest.mark.long
def test_an_example_ships_its_samples_as_its_readme_says(example, tmp_path, kafka):
    folder = shutil.copytree(EXAMPLES / example, tmp_path / example)
    expected = EXPECTED[example]()
    brokers = dict.fromkeys(
        ("KAFKA_BOOTSTRAP", "KAFKA_FRANKFURT", "KAFKA_ARCHIVE"), kafka.bootstrap
    )
    environment = {**os.environ, **brokers, "LOGS_URI": "logs"}
    run = next(words for words in commands(example) if words[1] == "run")
    (topics,) = (words[3:] for words in commands(example) if words[1:3] == ["dev", "topic"])
    assert sorted(topics) == sorted(expected)
    cluster = cluster_of("local", bootstrap=kafka.bootstrap)
    ClusterClient(cluster).create_topics(dict.fromkeys(topics, 2), replication_factor=1)
    done = warm.run([*run, "--json", "--config", str(folder / "config")], environment)
    assert done.returncode == 0, done.stderr[-4000:]
    found = read_all(kafka.bootstrap, topics)
    assert {topic: sorted(values) for topic, values in found.items()} == {
        t: sorted(values) for t, values in expected.items()
    }


def test_each_example_is_in_the_list_and_is_right():
    listed = (EXAMPLES / "README.md").read_text()
    for example in NAMES:
        assert f"[{example}]({example})" in listed
        shown = (EXAMPLES / example / "README.md").read_text().splitlines()
        assert len(shown) <= 20, "short enough to be read"
        assert ["shipper", "preview", example] in [words[:3] for words in commands(example)]


@pytest.mark.long
def test_a_log_says_where_sparks_ui_is_if_there_is_one(tmp_path, kafka):
    world = World(tmp_path, kafka.bootstrap)
    world.write_log("a.log", b"one\n")
    for on in ("false", "true"):
        world.write_pipeline(
            runner={"driver_memory": "1g", "conf": {"spark.ui.enabled": on, "spark.ui.port": "0"}}
        )
        done = world.shipper("preview", world.name, "--window", WINDOW)
        assert done.returncode == 0, done.stderr[-4000:]
        assert bool(
            re.search(
                r"Spark's UI, as long as this step runs: http://127\.0\.0\.1:\d+", done.stderr
            )
        ) is (on == "true")
