"""`shipper validate --against`: what a change of the configuration means."""

import json
import shutil

import pytest

KEYS = {"access_key": "${S3_ACCESS}", "secret_key": "${S3_SECRET}"}
WEB = {
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
def config(config):
    for cluster in ("local", "far", "near"):
        (config / "clusters" / f"{cluster}.yaml").write_text(
            f"cluster: {cluster}\nbootstrap: 127.0.0.1:9092\n"
            "properties: {security.protocol: sasl_plaintext, sasl.mechanism: PLAIN, "
            "sasl.username: web, sasl.password: '${file:/run/kafka}'}\n"
        )
    write(config, WEB)
    return config


def write(config, *pipelines):
    for file in (config / "pipelines").iterdir():
        file.unlink()
    for pipeline in pipelines:
        (config / "pipelines" / f"{pipeline['pipeline']}.yaml").write_text(json.dumps(pipeline))


def changes(shipper, config, *now):
    """Return what the command says of a change from WEB to ``now``."""
    old = config.parent / "old"
    shutil.rmtree(old, ignore_errors=True)
    shutil.copytree(config, old)
    write(config, *now)
    command = ("validate", "--no-sql", "--no-secrets", "--config", str(config))
    done = shipper(*command, "--against", str(old), "--json")
    found = json.loads(done.stdout)["changes"]
    text = shipper(*command, "--against", str(old))
    assert (done.returncode, text.returncode) == (0, 0), text.stderr
    assert all(one["message"] in text.stdout for one in found)
    assert "/run/" not in done.stdout + text.stdout
    return found


def changed(**sections):
    return {
        **WEB,
        **{
            name: {**WEB[name], **value} if isinstance(WEB.get(name), dict) else value
            for name, value in sections.items()
        },
    }


def kinds(found, pipeline="web"):
    return {(one["kind"], *one["clusters"]) for one in found if one["pipeline"] == pipeline}


@pytest.mark.parametrize(
    ("now", "effects"),
    [
        (changed(records={"key": "value"}), {"transform"}),
        (changed(records={"drop": {"noise": "value = ''"}}), {"transform"}),
        (changed(owner="edge"), set()),
        (changed(delivery={"ordering": "file"}), {"transform"}),
        (changed(runner={"conf": {"spark.sql.ansi.enabled": "false"}}), {"transform"}),
        (changed(runner={"conf": {"spark.sql.shuffle.partitions": "8"}}), set()),
        (changed(schedule={**WEB["schedule"], "timezone": "UTC"}), set()),
        (changed(records={"redact": [WEB["records"]["redact"][1]]}), {"transform", "redaction"}),
        (changed(records={"redact": [*WEB["records"]["redact"], "card"]}), {"transform"}),
        (changed(schedule={"cron": "@daily"}), {"schedule"}),
        (changed(schedule={"give_up_after": "2h"}), {"schedule"}),
        ({key: value for key, value in WEB.items() if key != "schedule"}, {"schedule"}),
        (
            changed(gates={"source": [{"check": "files"}, {"check": "rows", "min": 5}]}),
            {"source_gate"},
        ),
        (
            changed(gates={**WEB["gates"], "delivery": [{"check": "read_back", "mode": "full"}]}),
            {"delivery_gate"},
        ),
        (changed(source={"path": "s3a://archive/web/{window_start:%Y/%m/%d/%H}/"}), {"source"}),
    ],
)
def test_an_effect_is_told_where_there_is_one(now, effects, shipper, config):
    assert kinds(changes(shipper, config, now)) == {(effect,) for effect in effects}


def test_a_topic_that_comes_or_goes_is_told_for_each_cluster(shipper, config):
    found = changes(shipper, config, changed(quarantine={"topic": "odd"}))
    assert kinds(found) == {("quarantine",), ("topics", "local"), ("topics", "far")}
    write(config, WEB)
    found = changes(shipper, config, changed(routes=[{"topic": "logs"}]))
    assert kinds(found) == {("transform",), ("topics", "local"), ("topics", "far")}


def test_a_key_behind_another_reference_may_be_another_transform(shipper, config):
    hashed = {"rule": "ipv4", "hash": {"key": "${file:/run/secrets/other}"}}
    found = changes(shipper, config, changed(records={"redact": ["email", hashed]}))
    assert kinds(found) == {("transform",)}


def test_clusters_that_come_and_go_and_a_transform_of_one_of_them(shipper, config):
    found = changes(shipper, config, changed(clusters=["local", "near"]))
    assert kinds(found) == {("clusters", "near"), ("clusters", "far")}
    write(config, WEB)
    found = changes(
        shipper, config, changed(clusters={"local": {}, "far": {"routes": [{"topic": "x"}]}})
    )
    assert kinds(found) == {("transform", "far"), ("topics", "far")}


def test_a_pipeline_with_another_name_is_the_same_only_if_it_says_so(shipper, config):
    new = {**WEB, "pipeline": "access"}
    found = changes(shipper, config, new)
    assert (kinds(found), kinds(found, "access")) == ({("removed",)}, {("new",)})
    assert "formerly: web" in found[0]["message"]
    write(config, WEB)
    found = changes(shipper, config, {**new, "formerly": "web"})
    assert (kinds(found), kinds(found, "access")) == (set(), {("renamed",)})


def test_only_the_asked_pipeline_is_compared_and_a_broken_one_is_not_gone(shipper, config):
    write(config, WEB, {**WEB, "pipeline": "other"})
    old = shutil.copytree(config, config.parent / "old")
    write(config, {**WEB, "topic": "x"}, {**WEB, "pipeline": "other", "schedule": "@daily"})
    command = ("validate", "--no-sql", "--no-secrets", "--json", "--config", str(config))
    for asked, expected in (((), {"other"}), (("other",), {"other"}), (("web",), set())):
        done = shipper(*command, *asked, "--against", str(old))
        assert {one["pipeline"] for one in json.loads(done.stdout)["changes"]} == expected


def test_an_old_configuration_that_is_missing_or_wrong_is_blamed_on_its_option(shipper, config):
    old = shutil.copytree(config, config.parent / "old")
    (old / "pipelines" / "web.yaml").write_text("pipeline: web\n")
    command = ("validate", "--no-sql", "--no-secrets", "--config", str(config))
    done = shipper(*command, "--against", str(old))
    assert done.returncode == 2
    assert "--against" in done.stderr
    assert "old/pipelines/web.yaml:1:1: source: " in done.stderr
    done = shipper(*command, "--against", str(config.parent / "none"))
    assert (done.returncode, "--against" in done.stderr) == (2, True)
    assert "--config" not in done.stderr
