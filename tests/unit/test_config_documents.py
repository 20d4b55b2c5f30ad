"""The generated files: up to date, and of one mind with the loader."""

import json
from pathlib import Path

import pytest

from shipper.config import explain as types
from shipper.config.cluster import Cluster
from shipper.config.load import load_all
from shipper.config.pipeline import Pipeline
from shipper.config.platform import Platform, read_platform
from shipper.config.yaml_file import read_yaml
from tests.samples.config import write_config

CONFIG = Path(__file__).resolve().parents[2] / "config"
PUBLISHED = {
    name: (CONFIG / "schema" / name).read_text(encoding="utf-8")
    for name in ("pipeline.json", "cluster.json", "platform.json", "tests.json", "REFERENCE.md")
}
PIPELINE, CLUSTER, PLATFORM = (
    json.loads(PUBLISHED[f"{name}.json"]) for name in ("pipeline", "cluster", "platform")
)
REFERENCE = PUBLISHED["REFERENCE.md"]

SHORTEST = {"pipeline": "web", "source": "s3a://logs/", "topic": "logs.web", "clusters": ["local"]}


def validator(schema):
    """jsonschema comes with Great Expectations and Airflow; the core does without."""
    jsonschema = pytest.importorskip("jsonschema")
    from referencing import Registry, Resource

    beside = Registry().with_resource("pipeline.json", Resource.from_contents(PIPELINE))
    return jsonschema.Draft202012Validator(schema, registry=beside)


def accepts(schema, data):
    return bool(validator(schema).is_valid(data))


@pytest.mark.parametrize(("folder", "schema"), [("pipelines", PIPELINE), ("clusters", CLUSTER)])
def test_schemas_accept_the_examples(folder, schema):
    files = sorted((CONFIG / folder).glob("*.yaml"))
    assert files
    for file in files:
        validator(schema).validate(read_yaml(file, file.name).data)
        assert file.read_text().startswith(
            f"# yaml-language-server: $schema=../schema/{folder[:-1]}.json\n"
        )


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"schedule": "@hourly"},
        {"schedule": {"cron": "0 * * * *", "start": "2026-11-01"}},
        {"source": {"path": "x", "settle": "1h30m", "split_size": "64 MiB", "recursive": True}},
        {"source": {"path": "x", "include": ["*.log", "*.gz"]}},
        {"records": {"columns": {"service": "'x'"}, "headers": {"a.b": "value"}}},
        {
            "gates": {
                "source": [{"check": "not_null", "column": "value", "min_rate": 1}],
                "delivery": [{"check": "sum_closes"}],
            }
        },
        {"runner": {"kind": "local", "conf": {"spark.ui.enabled": "false"}}},
        {"delivery": {"rate_limit": "50MB/s"}},
        {"delivery": {"partitions": "share"}},
        {"records": {"parse": {"json": True}}},
        {"records": {"parse": None}},
        {"source": {"path": "x", "format": "csv", "csv": {"quote": None}}},
    ],
)
def test_what_the_loader_takes_the_schema_takes(more, tmp_path):
    data = {**SHORTEST, **more}
    assert loads(data, tmp_path)
    assert accepts(PIPELINE, data)


@pytest.mark.parametrize(
    "more",
    [
        {"delivry": {}},
        {"delivery": {"chunk_size": 8_000_000}},
        {"delivery": {"compression": "zip"}},
        {"delivery": {"rate_limit": "50MB"}},
        {"delivery": {"lanes": 0}},
        {"delivery": {"lanes": True}},
        {"source": 5},
        {"schedule": None},
        {"gates": {"source": []}},
        {"gates": {"source": [{"check": "files", "max_age": "1h"}]}},
        {"clusters": []},
        {"runner": {"conf": {"spark.speculation": "true"}}},
    ],
)
def test_what_the_schema_refuses_the_loader_refuses(more, tmp_path):
    data = {**SHORTEST, **more}
    assert not accepts(PIPELINE, data)
    assert not loads(data, tmp_path)


@pytest.mark.parametrize(
    ("data", "right"),
    [
        (
            {
                "cluster": "a",
                "bootstrap": "${B}",
                "properties": {"sasl.password": "${P}", "socket.timeout.ms": 1},
            },
            True,
        ),
        (
            {
                "cluster": "a",
                "bootstrap": "b",
                "ledger": {"replication_factor": "${RF:-3}", "create": "${CREATE}"},
            },
            True,
        ),
        (
            {
                "cluster": "a",
                "bootstrap": "b",
                "ledger": {"replication_factor": 3, "create": False},
            },
            True,
        ),
        ({"cluster": "a", "bootstrap": "b", "ledger": {"replication_factor": "three"}}, False),
        ({"cluster": "a", "bootstrap": "b", "ledger": {"replication_factor": 0}}, False),
        ({"cluster": "a", "bootstrap": "b", "properties": {"acks": "1"}}, False),
        ({"cluster": "a", "bootstrap": "b", "properties": {"x": ["y"]}}, False),
        ({"cluster": "a", "bootstrap": "b", "bandwidth": "1GB/s", "rate_limit": "500kB/s"}, True),
        ({"cluster": "a", "bootstrap": "b", "bandwidth": "${BANDWIDTH}"}, True),
        ({"cluster": "a", "bootstrap": "b", "bandwidth": "1GB"}, False),
        ({"cluster": "a"}, False),
    ],
)
def test_clusters(data, right):
    assert accepts(CLUSTER, data) is right


@pytest.mark.parametrize(
    ("data", "right"),
    [
        ({}, True),
        (
            {"allow": {"runners": ["yarn"], "sources": ["s3a://logs/"]}, "environment": ["X_*"]},
            True,
        ),
        (
            {
                "defaults": {
                    "owner": "x",
                    "schedule": {"timezone": "UTC"},
                    "source": {"settle": "5m"},
                    "delivery": {"lanes": 4},
                }
            },
            True,
        ),
        ({"defaults": {"owners": "x"}}, False),
        ({"defaults": {"pipeline": "x"}}, False),
        ({"defaults": {"delivery": {"lanes": "many"}}}, False),
        ({"allow": {"runners": ["mesos"]}}, False),
        ({"alow": {}}, False),
    ],
)
def test_platform(data, right, tmp_path):
    assert accepts(PLATFORM, data) is right
    (tmp_path / "shipper.yaml").write_text(json.dumps(data))
    assert (not read_platform(tmp_path, "shipper.yaml").faults) is right


def loads(data, folder):
    """JSON is YAML, so the loader can be asked with the same data."""
    local = "cluster: local\nbootstrap: x:1\n"
    write_config(folder, {"pipelines/web": json.dumps(data), "clusters/local": local})
    return "web" in load_all(folder).pipelines


def keys(model):
    """All keys that a user may write, in all sections."""
    found = set()
    for key, field in types.yaml_keys(model).items():
        found.add(key)
        below = types.item(types.bare(field.annotation)) or field.annotation
        for section in [types.bare(below), *types.variants(below).values()]:
            found |= keys(section) if types.is_model(section) else set()
    return found


@pytest.mark.parametrize("model", [Pipeline, Cluster, Platform])
def test_every_key_is_explained(model):
    for key in keys(model) - {"check"}:
        rows = [line for line in REFERENCE.splitlines() if line.startswith(f"| `{key}` |")]
        assert rows, key
        assert all(len(row.split(" | ")[-1]) > 10 for row in rows), f"{key} has no description"
