"""Redaction, clusters with routes of their own, and replays, as far as the configuration goes."""

import datetime as dt
import re
from pathlib import Path

import pytest
import typer

from shipper.cli.named import named_files
from shipper.cli.replay import app as replay_app
from shipper.config.environment import EVERYTHING
from shipper.config.load import load_all, load_pipeline, references
from shipper.config.pipeline import Pipeline
from shipper.config.replay_request import Replay, replayed
from shipper.errors import UsageError

RIGHT = "pipeline: web\nsource: s3a://logs/web/\ntopic: logs.web\nclusters: [local]\n"
KEY = "0123456789abcdef"


@pytest.fixture(autouse=True)
def config(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for folder in ("pipelines", "clusters"):
        (tmp_path / "config" / folder).mkdir(parents=True)
    for name in ("local", "far"):
        Path(f"config/clusters/{name}.yaml").write_text(
            f"cluster: {name}\nbootstrap: 127.0.0.1:9092\n"
        )
    return Path("config")


def faults_of(text, **leave):
    Path("config/pipelines/web.yaml").write_text(text)
    return [
        str(fault).removeprefix("config/pipelines/web.yaml:")
        for fault in load_all(Path("config"), **leave).faults
    ]


def pipeline(**more):
    base = {"pipeline": "web", "source": "/logs/", "clusters": ["local", "far"]}
    return Pipeline.model_validate(
        {**base, **({} if "routes" in more else {"topic": "logs.web"}), **more}
    )


@pytest.mark.parametrize(
    ("redact", "expected"),
    [
        (
            "[emial]",
            "5:20: records.redact[0]: found 'emial'; did you mean 'email'? allowed: email, ipv4, "
            "ipv6, card, bearer",
        ),
        ("[{regex: a, rule: card}]", "either `rule` or `regex`"),
        ("[{with: x}]", "either `rule` or `regex`"),
        (
            "[{rule: card, with: x, hash: {key: '${KEY}'}}]",
            "`with` and `hash` contradict each other",
        ),
        ("[{regex: '(a)', with: 'x$2'}]", "`with`: $2 is not a group of `regex`, which has 1"),
        ("[{regex: '(a)', with: 'x$'}]", "write a dollar sign as $$"),
        (
            f"[{{rule: card, hash: {{key: {KEY}}}}}]",
            "records.redact[0].hash.key: a key must not stand in the configuration",
        ),
        (
            f"[{{rule: card, hash: {{key: '${{KEY:-{KEY}}}'}}}}]",
            "records.redact[0].hash.key: a key must not stand in the configuration",
        ),
        (
            "[{rule: card, hash: {key: '${UNKNOWN}'}}]",
            "the environment variable UNKNOWN is not set",
        ),
        ("[{rule: card, hash: {key: '${SHORT}'}}]", "the key has fewer than 16 characters"),
        ("[{rule: card, hash: {}}]", "records.redact[0].hash.key: missing"),
    ],
)
def test_a_rule_that_is_none_is_refused_at_its_place(monkeypatch, redact, expected):
    monkeypatch.setenv("KEY", KEY)
    monkeypatch.setenv("SHORT", "secret!")
    (fault,) = faults_of(RIGHT + f"records: {{redact: {redact}}}\n")
    assert expected in fault
    assert fault.startswith("5:")
    assert KEY not in fault
    assert "secret!" not in fault


def test_a_key_comes_from_where_the_reference_says_and_shows_nowhere(monkeypatch, tmp_path):
    secret = tmp_path / "key"
    secret.write_text(KEY + "\n")
    secret.chmod(0o600)
    monkeypatch.setenv("KEY", KEY)
    text = RIGHT + "records: {redact: [{rule: ipv4, hash: {key: '%s'}}]}\n"
    digests = set()
    for reference in ("${KEY}", f"${{file:{secret}}}"):
        assert faults_of(text % reference) == []
        found = load_pipeline(Path("config"), "web")
        assert KEY not in repr(found)
        assert KEY not in found.model_dump_json()
        digests.add(found.transform_digest())
    assert len(digests) == 1
    assert {str(one) for one in references(Path("config"), "web")} == {f"file:{secret}"}
    monkeypatch.delenv("KEY")
    assert faults_of(text % "${KEY}", leave=EVERYTHING) == [], "Airflow parses DAGs without it"


def test_what_is_redacted_is_part_of_the_transform_and_nothing_else_changes_it():
    plain = pipeline()
    rules = [
        ["email"],
        ["ipv4"],
        ["email", "ipv4"],
        [{"rule": "email", "with": "x"}],
        [{"rule": "email", "hash": {"key": KEY}}],
    ]
    found = {
        pipeline(records={"redact": rule}).transform_digest()
        for rule in [*rules, [{"rule": "email", "hash": {"key": KEY + "x"}}]]
    }
    assert len(found | {plain.transform_digest()}) == 7
    assert pipeline(records={"redact": []}).transform_digest() == plain.transform_digest()


# Replays


def asked(**more):
    hour = dt.datetime(2026, 11, 1, 6, tzinfo=dt.UTC)
    return Replay.model_validate(
        {
            "id": "r1",
            "reason": "why not",
            "window_start": hour,
            "window_end": hour + dt.timedelta(hours=1),
            **more,
        }
    )


@pytest.mark.parametrize(
    ("prefix", "says"),
    [
        ("_shipper.", "cannot hold records"),
        ("a b", "letters, digits"),
        ("x", "is a topic of the pipeline itself"),
    ],
)
def test_a_prefix_that_leads_nowhere_is_refused(prefix, says):
    with pytest.raises(UsageError, match=says):
        replayed(
            pipeline(routes=[{"when": "a", "topic": "xa"}, {"topic": "a"}]),
            asked(topic_prefix=prefix),
        )


# What is asked for on the command line


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--from", "2026-11-01"], "--from and --to belong together"),
        (["--window", "2026-11-01/2026-11-02"], "--reason is missing"),
        (["--reason", "r"], "it is not said what to replay"),
        (
            ["--reason", "r", "--window", "2026-11-01/2026-11-02", "--files", "a"],
            "contradict each other",
        ),
        (
            ["--reason", "r", "--window", "2026-11-01/2026-11-02", "--rate", "5"],
            "a rate has a unit",
        ),
        (
            ["--reason", "r", "--window", "2026-11-01/2026-11-02", "--cluster", "x"],
            "does not ship to cluster 'x'. Its clusters are local",
        ),
        (["--reason", "r", "--window", "2026-11-01/2026-11-02", "--id", "A"], "lower-case letters"),
        (
            ["--reason", "r", "--window", "2026-11-01/2026-11-02"],
            "Consumers of logs.web will see these records once more",
        ),
        (["--id", "gone"], "pipeline web has no replay gone"),
    ],
)
def test_a_replay_that_is_not_clear_is_refused_before_anything_starts(options, says):
    Path("config/pipelines/web.yaml").write_text(RIGHT)
    with pytest.raises(UsageError, match=re.escape(says)):
        typer.main.get_command(replay_app).main(["web", *options], standalone_mode=False)
    assert not Path("runs").exists()


def test_files_that_are_named_by_hand_lie_where_the_platform_lets_pipelines_read(
    tmp_path, monkeypatch
):
    config = tmp_path / "config"
    config.mkdir(exist_ok=True)
    (config / "shipper.yaml").write_text("allow: {sources: [logs/, s3a://logs/web/]}\n")
    monkeypatch.chdir(tmp_path)
    assert named_files(config, ["logs/a.log", "s3a://logs/web/b.log"]) == [
        str(tmp_path / "logs/a.log"),
        "s3a://logs/web/b.log",
    ]
    for elsewhere in (
        "other/a.log",
        "logs/../other/a.log",
        "s3a://logs/web/../secret",
        "s3a://other/b.log",
    ):
        with pytest.raises(UsageError, match=r"allow\.sources"):
            named_files(config, [elsewhere])


@pytest.mark.parametrize("path", ["hdfs://n/logs/.snapshot/s1/a.log", "s3a://logs/a//b.log"])
def test_a_named_file_that_a_source_may_not_have_is_refused(tmp_path, path):
    with pytest.raises(UsageError, match="SHIP-101"):
        named_files(tmp_path, [path])
