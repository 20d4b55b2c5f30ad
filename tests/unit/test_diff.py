"""`shipper diff`: what a change of the configuration means."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from in_process import Command

KEYS = {"access_key": "${S3_ACCESS}", "secret_key": "${S3_SECRET}"}
WEB: dict[str, Any] = {
    "pipeline": "web",
    "schedule": {"cron": "0 * * * *", "start": "2026-11-01"},
    "source": {"path": "s3a://logs/web/{window_start:%Y/%m/%d/%H}/", "s3": KEYS},
    "records": {
        "key": "file_name",
        "redact": ["email", {"rule": "ipv4", "hash": {"key": "${file:/run/secrets/hash}"}}],
    },
    "routes": [{"when": "value like '%ERROR%'", "topic": "errors"}, {"topic": "logs"}],
    "clusters": ["local", "far"],
    "gates": {"source": [{"check": "files"}, {"check": "rows", "min": 1}]},
}


@pytest.fixture
def config(config: Path) -> Path:
    for cluster in ("local", "far", "near"):
        (config / "clusters" / f"{cluster}.yaml").write_text(
            f"cluster: {cluster}\nbootstrap: 127.0.0.1:9092\n"
            "properties: {security.protocol: sasl_ssl, sasl.password: '${file:/run/kafka}'}\n"
        )
    write(config, WEB)
    return config


def write(config: Path, *pipelines: dict[str, Any]) -> None:
    for file in (config / "pipelines").iterdir():
        file.unlink()
    for pipeline in pipelines:
        (config / "pipelines" / f"{pipeline['pipeline']}.yaml").write_text(json.dumps(pipeline))


def told(shipper: Command, config: Path, *now: dict[str, Any]) -> dict[str, Any]:
    """What the command says of a change from WEB to ``now``."""
    old = config.parent / "old"
    shutil.rmtree(old, ignore_errors=True)
    shutil.copytree(config, old)
    write(config, *now)
    done = shipper("diff", str(old), "--config", str(config), "--json")
    assert done.returncode == 0, done.stderr
    text = shipper("diff", str(old), "--config", str(config)).stdout
    found: dict[str, Any] = json.loads(done.stdout)
    assert all(one["pipeline"] in text for one in found["pipelines"])
    return found


def changed(**sections: Any) -> dict[str, Any]:
    return {
        **WEB,
        **{
            name: {**WEB[name], **value} if isinstance(WEB.get(name), dict) else value
            for name, value in sections.items()
        },
    }


def kinds(found: dict[str, Any]) -> set[str]:
    (pipeline,) = found["pipelines"]
    return {effect["kind"] for effect in pipeline["effects"]}


def fields(found: dict[str, Any]) -> dict[str, tuple[list[str], list[str]]]:
    (pipeline,) = found["pipelines"]
    return {each["field"]: (each["before"], each["after"]) for each in pipeline["changes"]}


@pytest.mark.parametrize(
    ("now", "effects", "keys"),
    [
        (
            changed(records={"key": "value"}),
            {"transform"},
            {"records.key": (["file_name"], ["value"])},
        ),
        (
            changed(records={"drop": {"noise": "value = ''"}}),
            {"transform"},
            {"records.drop.noise": ([], ["value = ''"])},
        ),
        (changed(owner="edge"), set(), {"owner": (["shipper"], ["edge"])}),
        (
            changed(delivery={"ordering": "file"}),
            {"transform"},
            {"delivery.ordering": (["none"], ["file"])},
        ),
        (
            changed(runner={"conf": {"spark.sql.ansi.enabled": "false"}}),
            {"transform"},
            {"runner.conf.spark.sql.ansi.enabled": ([], ["false"])},
        ),
        (
            changed(runner={"conf": {"spark.sql.shuffle.partitions": "8"}}),
            set(),
            {"runner.conf.spark.sql.shuffle.partitions": ([], ["8"])},
        ),
        (
            changed(routes=[{"topic": "logs"}]),
            {"transform", "topics"},
            {"routes": (["{topic: errors, when: value like '%ERROR%'}"], [])},
        ),
        (
            changed(records={"redact": [WEB["records"]["redact"][1]]}),
            {"transform", "redaction"},
            {"records.redact": (["{rule: email}"], [])},
        ),
        (
            changed(schedule={"cron": "@daily"}),
            {"schedule"},
            {"schedule.cron": (["0 * * * *"], ["@daily"])},
        ),
        (
            changed(schedule={"give_up_after": "2h"}),
            {"schedule"},
            {"schedule.give_up_after": (["1d"], ["2h"])},
        ),
        (
            {key: value for key, value in WEB.items() if key != "schedule"},
            {"schedule"},
            None,
        ),
        (
            changed(gates={"source": [{"check": "files"}, {"check": "rows", "min": 5}]}),
            {"source_gate"},
            {"gates.source": (["{check: rows}"], ["{check: rows, min: 5}"])},
        ),
        (
            changed(quarantine={"topic": "odd"}),
            {"quarantine", "topics"},
            None,
        ),
        (
            changed(source={"path": "s3a://archive/web/{window_start:%Y/%m/%d/%H}/"}),
            {"source"},
            None,
        ),
    ],
)
def test_an_effect_is_told_where_there_is_one(
    now: dict[str, Any],
    effects: set[str],
    keys: dict[str, Any] | None,
    shipper: Command,
    config: Path,
) -> None:
    found = told(shipper, config, now)
    assert kinds(found) == effects
    assert keys is None or fields(found) == keys


def test_nothing_is_told_of_what_stays(shipper: Command, config: Path) -> None:
    found = told(shipper, config, {**WEB, "schedule": {**WEB["schedule"], "timezone": "UTC"}})
    assert (found["pipelines"], found["clusters"], found["unchanged"]) == ([], [], ["web"])


def test_a_key_behind_another_reference_may_be_another_transform(
    shipper: Command, config: Path
) -> None:
    hashed = {"rule": "ipv4", "hash": {"key": "${file:/run/secrets/other}"}}
    found = told(shipper, config, changed(records={"redact": ["email", hashed]}))
    assert kinds(found) == {"transform"}
    assert "/run/secrets" not in json.dumps(found)


def test_clusters_that_come_and_go_and_a_transform_of_one_of_them(
    shipper: Command, config: Path
) -> None:
    found = told(shipper, config, changed(clusters=["local", "near"]))
    effects = {(effect["kind"], *effect["clusters"]) for effect in found["pipelines"][0]["effects"]}
    assert effects == {("clusters", "near"), ("clusters", "far")}
    assert fields(found) == {"clusters": (["far"], ["near"])}
    write(config, WEB)
    found = told(
        shipper, config, changed(clusters={"local": {}, "far": {"routes": [{"topic": "x"}]}})
    )
    effects = {(effect["kind"], *effect["clusters"]) for effect in found["pipelines"][0]["effects"]}
    assert effects == {("transform", "far"), ("topics", "far")}


def test_a_pipeline_with_another_name_is_the_same_only_if_it_says_so(
    shipper: Command, config: Path
) -> None:
    new = {**WEB, "pipeline": "access"}
    found = told(shipper, config, new)
    said = {one["pipeline"]: one["effects"] for one in found["pipelines"]}
    assert [effect["kind"] for effect in said["access"]] == ["new"]
    assert "formerly: web" in said["access"][0]["text"]
    assert [effect["kind"] for effect in said["web"]] == ["removed"]
    write(config, WEB)
    found = told(shipper, config, {**new, "formerly": "web"})
    assert kinds(found) == {"renamed"}


def test_no_secret_of_a_cluster_is_shown(shipper: Command, config: Path) -> None:
    old = shutil.copytree(config, config.parent / "old")
    file = config / "clusters" / "far.yaml"
    file.write_text(
        "cluster: far\nbootstrap: kafka:9092\n"
        "properties: {security.protocol: sasl_ssl, sasl.password: hunter2}\n"
    )
    done = shipper("diff", str(old), "--config", str(config), "--json")
    (cluster,) = json.loads(done.stdout)["clusters"]
    changes = {each["field"]: each["after"] for each in cluster["changes"]}
    assert changes["bootstrap"] == ["kafka:9092"]
    assert changes["properties.sasl.password"] == ["(not shown)"]
    assert "hunter2" not in done.stdout + done.stderr


def test_a_file_that_is_wrong_on_either_side_is_told_with_its_place(
    shipper: Command, config: Path
) -> None:
    old = shutil.copytree(config, config.parent / "old")
    (old / "pipelines" / "web.yaml").write_text("pipeline: web\n")
    done = shipper("diff", str(old), "--config", str(config))
    assert done.returncode == 2
    assert "old/pipelines/web.yaml:1:1: source: " in done.stderr
    done = shipper("diff", str(config.parent / "none"), "--config", str(config))
    assert done.returncode == 2
