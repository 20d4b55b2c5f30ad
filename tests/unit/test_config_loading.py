"""What right files become."""

import datetime as dt
import re
from pathlib import Path

import pytest

from shipper.config.load import load_all, load_cluster, load_pipeline
from shipper.config.rules import check_cron, legal_topic, resolve_uri
from shipper.errors import ConfigError

SHORTEST = """\
pipeline: web
schedule: "0 * * * *"
source: s3a://logs/web/{window_start:%Y/%m/%d/%H}/
topic: logs.web
clusters: [local]
"""


@pytest.fixture
def config(config):
    (config / "pipelines" / "web.yaml").write_text(SHORTEST)
    return config


def load(config, text):
    (config / "pipelines" / "web.yaml").write_text(text)
    return load_pipeline(config, "web")


def test_shortest_pipeline_means_the_same_as_the_long_one(config):
    long = """\
pipeline: web
owner: shipper
schedule: {cron: "0 * * * *", timezone: UTC, catchup: true}
source:
  path: s3a://logs/web/{window_start:%Y/%m/%d/%H}/
  settle: 10m
  split_size: 32MiB
routes:
  - topic: logs.web
clusters:
  - local
delivery: {tuning: auto, memory: 160MB, metadata_wait: 600s}
"""
    assert load_pipeline(config, "web").model_dump() == load(config, long).model_dump()


def test_one_broken_file_takes_nothing_else_down(config):
    (config / "pipelines" / "broken.yaml").write_text("pipeline: [")
    (config / "pipelines" / "lost.yaml").write_text(
        SHORTEST.replace("web", "lost", 1).replace("[local]", "[far]")
    )
    (config / "clusters" / "far.yaml").write_text("cluster: far")
    loaded = load_all(config)
    assert list(loaded.pipelines) == ["web"]
    assert list(loaded.clusters) == ["local"]
    assert list(loaded.broken) == ["broken", "lost"]
    assert {fault.file.rpartition("/")[2] for fault in loaded.faults} == {"broken.yaml", "far.yaml"}


def test_values_are_those_of_yaml_1_2(config):
    text = SHORTEST + "records: {headers: {a: on, b: 2026-11-01, c: 12:30:45, d: =}}\n"
    assert load(config, text).records.headers == {
        "a": "on",
        "b": "2026-11-01",
        "c": "12:30:45",
        "d": "=",
    }
    gates = "gates: {source: [{check: rows, on: full, min: 0o17}]}\n"
    check = load(config, SHORTEST + gates).gates.source[0]
    assert check.model_dump() == {
        "check": "rows",
        "on": "full",
        "min": 15,
        "max": None,
        "severity": "block",
    }


@pytest.mark.parametrize(
    ("written", "moment"),
    [
        ("2026-11-01", dt.datetime(2026, 11, 1, tzinfo=dt.UTC)),
        ("2026-11-01T06:00", dt.datetime(2026, 11, 1, 6, tzinfo=dt.UTC)),
        ("2026-11-01 06:00:00+01:00", dt.datetime(2026, 11, 1, 5, tzinfo=dt.UTC)),
        ("'2026-11-01'", dt.datetime(2026, 11, 1, tzinfo=dt.UTC)),
    ],
)
def test_start_is_a_moment_in_utc(config, written, moment):
    text = SHORTEST.replace('"0 * * * *"', f'{{cron: "@hourly", start: {written}}}')
    schedule = load(config, text).schedule
    assert schedule.start == moment


# --- The environment


def test_references_are_filled_in_where_they_may_be(config, monkeypatch):
    monkeypatch.setenv("BUCKET", "logs")
    monkeypatch.setenv("EMPTY", "")
    monkeypatch.setenv("TRICKY", "${BUCKET} $1 \\1 {x}")
    text = (
        "pipeline: web\nsource: s3a://${BUCKET}/${EMPTY}${EMPTY:-web}\ntopic: t\nclusters: "
        "[local]\n"
    )
    pipeline = load(config, text + "runs_uri: ${NOT_SET_AT_ALL:-s3://runs}/x\nowner: ${BUCKET}\n")
    assert pipeline.source.path == "s3a://logs/web"
    assert pipeline.runs_uri == "s3://runs/x"
    assert pipeline.owner == "${BUCKET}", "elsewhere it is text"
    (config / "clusters" / "local.yaml").write_text(
        "cluster: ${NOT_SET_AT_ALL:-local}\nbootstrap: ${BUCKET}:9092\n"
        "properties: {sasl.password: '${TRICKY}', socket.timeout.ms: 1000}\n"
        "ledger: {replication_factor: '${RF:-3}', create: '${CREATE:-false}'}\n"
    )
    cluster = load_cluster(config, "local")
    values = {name: value.get_secret_value() for name, value in cluster.properties.items()}
    assert values == {"sasl.password": "${BUCKET} $1 \\1 {x}", "socket.timeout.ms": 1000}, (
        "what is filled in is not looked at again"
    )
    assert (cluster.bootstrap, cluster.ledger.replication_factor, cluster.ledger.create) == (
        "logs:9092",
        3,
        False,
    )


# --- Paths


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("data/logs", "/srv/app/data/logs"),
        ("data/{window_start:%Y-%m-%d}/*.log/", "/srv/app/data/{window_start:%Y-%m-%d}/*.log/"),
        ("./runs", "/srv/app/runs"),
        ("../runs", "/srv/runs"),
        ("{window_start:%Y}/x", "/srv/app/{window_start:%Y}/x"),
        ("/data", "/data"),
        ("s3a://b/k", "s3a://b/k"),
        ("s3a://b", "s3a://b/"),
        ("hdfs:///k", "hdfs:///k"),
        ("file:/k", "file:/k"),
        ("memory://k", "memory://k"),
    ],
)
def test_relative_paths_lie_below_the_folder_above_config(uri, expected):
    assert resolve_uri(Path("/srv/app/config"), uri) == expected


# --- Rules


@pytest.mark.parametrize(
    "cron",
    [
        "",
        "0 * * *",
        "0 * * * * *",
        "60 * * * *",
        "* 24 * * *",
        "a * * * *",
        "*/0 * * * *",
        "@reboot",
        "R * * * *",
        "H 6 * * *",
    ],
)
def test_cron_that_no_scheduler_takes_is_refused(cron):
    with pytest.raises(ValueError, match=r"five|preset|random|minute|hour"):
        check_cron(cron)


def test_topics_are_those_of_kafka():
    assert all(legal_topic(name) for name in ("a", "a.b-c_d", "A" * 249))
    assert not any(legal_topic(name) for name in ("", ".", "..", "a b", "ä", "a\n", "A" * 250))


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("s3://logs/web/", "write `s3a://`"),
        ("s3n://logs/web/", "write `s3a://`"),
        ("S3A://logs/web/", "write `s3a://`"),
        ("webhdfs://nn:9870/logs/", "write `hdfs://`"),
        ("http://host/a.log", "copy the files"),
        ("https://host/logs/", "copy the files"),
        ("gs://logs/", "copy the files"),
        ("abfs://logs@account/", "copy the files"),
        ("~/logs/", "`~` is not expanded"),
        ("logs/{{ ds }}/", "window_start"),
    ],
)
def test_a_source_that_no_test_covers_is_refused_with_the_right_one(config, path, says):
    with pytest.raises(ConfigError, match=re.escape(says)):
        load(config, SHORTEST.replace("s3a://logs/web/{window_start:%Y/%m/%d/%H}/", f"'{path}'"))
