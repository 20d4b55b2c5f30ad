"""``config/shipper.yaml``: what pipelines may use, and what they have without writing it."""

import re
from pathlib import Path

import pytest

from shipper.config.load import (
    hash_keys,
    load_all,
    load_pipeline,
    load_platform,
    locate,
    references,
)
from shipper.errors import ConfigError

RIGHT = "pipeline: web\nsource: s3a://logs/web/\ntopic: logs.web\nclusters: [local]\n"


@pytest.fixture
def config(config, monkeypatch):
    monkeypatch.chdir(config.parent)
    return Path("config")


def write(config, platform, pipeline=RIGHT):
    """All faults."""
    if platform is not None:
        (config / "shipper.yaml").write_text(platform)
    (config / "pipelines" / "web.yaml").write_text(pipeline)
    return [str(fault) for fault in load_all(config).faults]


ALLOW = """\
allow:
  runners: [local]
  programs: [/opt/shipper/bin/python]
  notifiers: [airflow.providers.slack.*]
  sources: [s3a://logs/, logs]
  runs: [s3a://runs/]
"""
WITHIN = RIGHT + (
    "runner: {python: /opt/shipper/bin/python, conf: {spark.executor.memory: 4g}}\nruns_uri: "
    "s3a://runs/web\n"
    "notify: [{notifier: airflow.providers.slack.notifications.slack.SlackNotifier}]\n"
)


@pytest.mark.parametrize(
    ("pipeline", "faults"),
    [
        (WITHIN, []),
        (RIGHT.replace("s3a://logs/web/", "logs/{window_start:%Y}/"), []),
        (RIGHT + "runner: {kind: yarn}\n", ["5:16: runner.kind: 'yarn' is not allowed by "
            "config/shipper.yaml:2 (`allow.runners`: local)"]),
        (RIGHT + "runner: {python: /tmp/evil}\n", ["5:18: runner.python: '/tmp/evil' is not allowed by config/shipper.yaml:3"]),  # noqa: E501
        (
            RIGHT + "runner: {kind: standalone, master: 'spark://h:1', archive: /tmp/evil.zip}\n",
            [
                "5:16: runner.kind: 'standalone' is not allowed by config/shipper.yaml:2 "
                "(`allow.runners`: local)",
                "5:60: runner.archive: '/tmp/evil.zip' is not allowed by config/shipper.yaml:3",
            ],
        ),
        (RIGHT + "runner: {spark_submit: evil}\n", ["5:24: runner.spark_submit: 'evil' is not allowed by config/shipper.yaml:3"]),  # noqa: E501
        (
            RIGHT + ("runner:\n  conf:\n    spark.plugins: evil\n    spark.jars.packages: evil\n   "
                " spark.driver.extraJavaOptions: -javaagent:x\n"),
            [f"{line}: runner.conf.{name}: " for line, name in (("7:20", "spark.plugins"), ("8:26", "spark.jars.packages"))]  # noqa: E501
            + ["9:36: runner.conf.spark.driver.extraJavaOptions: "],
        ),
        (RIGHT + "notify: [{notifier: os.system}]\n", ["5:21: notify[0].notifier: 'os.system' is not allowed by config/shipper.yaml:4"]),  # noqa: E501
        (RIGHT.replace("s3a://logs/", "s3a://other/"), ["2:9: source: 's3a://other/web/' is not "
            "allowed by config/shipper.yaml:5"]),
        (RIGHT.replace("s3a://logs/", "s3a://logs-of-others/"), ["2:9: source: "]),
        (RIGHT.replace("s3a://logs/web/", "logs/../secret/"), ["2:9: source: "]),
        (RIGHT.replace("s3a://logs/web/", "'logs/{a,../b}'"), ["2:9: source: "]),
        (RIGHT.replace("s3a://logs/web/", "'*/web/'"), ["2:9: source: "]),
        (RIGHT.replace("s3a://logs/web/", "/etc/"), ["2:9: source: "]),
        (RIGHT + "runs_uri: /tmp\n", ["5:11: runs_uri: '/tmp' is not allowed by "
            "config/shipper.yaml:6 (`allow.runs`: s3a://runs/)"]),
    ],
)  # fmt: skip
def test_a_pipeline_beyond_the_bounds_is_refused_with_both_places(config, pipeline, faults):
    found = write(config, ALLOW, pipeline)
    assert len(found) == len(faults), found
    for got, want in zip(found, faults, strict=True):
        assert got.startswith(f"config/pipelines/web.yaml:{want}"), got
        assert re.search(r"config/shipper\.yaml:\d+", got)


def test_without_the_file_authors_are_trusted(config):
    assert (
        write(
            config,
            None,
            RIGHT
            + "runner: {python: /usr/bin/python3, conf: {spark.plugins: x}}\nruns_uri: /tmp\n",
        )
        == []
    )
    assert load_platform(config).allow is None


@pytest.mark.parametrize(
    ("setting", "allowed"),
    [
        ("spark.sql.adaptive.enabled", True),
        ("spark.sql.adaptive.coalescePartitions.enabled", True),
        ("spark.sql.adaptive.customCostEvaluatorClass", False),
        ("spark.sql.adaptive.setting.of.tomorrow", False),
    ],
)
def test_of_adaptive_execution_only_named_settings_are_allowed_by_default(config, setting, allowed):
    faults = write(config, "allow: {}\n", f"{RIGHT}runner: {{conf: {{{setting}: x}}}}\n")
    assert [bool(re.search(r"config/shipper\.yaml:1", fault)) for fault in faults] == (
        [] if allowed else [True]
    )


def test_an_empty_list_of_bounds_allows_what_loads_no_code(config):
    found = write(
        config,
        "allow: {}\n",
        RIGHT.replace("s3a://logs/web/", "/anywhere")
        + "runner: {conf: {spark.sql.extensions: x}}\n",
    )
    assert len(found) == 1
    assert "runner.conf.spark.sql.extensions" in found[0]


DEFAULTS = """\
defaults:
  owner: platform
  schedule: {timezone: Europe/Berlin}
  source: {settle: 5m}
  clusters: [local]
  runner: {kind: yarn, conf: {spark.jars.packages: "a:b:c", spark.executor.memory: 4g}}
  gates: {sample_files: 9}
  limits: {max_files: 7}
  quarantine: {topic: quarantine.all}
"""


def test_defaults_lie_below_what_a_pipeline_says(config):
    pipeline = (
        "pipeline: web\nsource: s3a://logs/web/\ntopic: t\nlimits: {max_bytes: 1GB}\nrunner: "
        "{conf: {spark.executor.memory: 8g}}\n"
    )
    assert write(config, DEFAULTS + "allow: {runners: [local]}\n", pipeline) == [], (
        "what the platform sets is not asked whether it may"
    )
    found = load_pipeline(config, "web")
    assert (found.owner, found.clusters, found.schedule) == ("platform", ("local",), None), (
        "a time zone alone is no schedule"
    )
    assert (found.source.path, found.source.settle_seconds) == ("s3a://logs/web/", 300)
    assert (found.runner.kind, found.runner.conf) == (
        "yarn",
        {"spark.jars.packages": "a:b:c", "spark.executor.memory": "8g"},
    )
    assert (found.limits.max_files, found.limits.max_bytes, found.gates.sample_files) == (
        7,
        10**9,
        9,
    )
    assert found.quarantine is not None
    assert references(config, "web") == set()
    write(config, None, pipeline + "schedule: '@daily'\nowner: web-team\n")
    again = load_pipeline(config, "web")
    assert (again.schedule.cron, again.schedule.timezone, again.owner) == (
        "@daily",
        "Europe/Berlin",
        "web-team",
    )


def test_what_is_wrong_with_a_default_is_shown_where_it_stands(config):
    found = write(config, "defaults:\n  quarantine: {topic: logs.web}\n")
    assert found[0].startswith(
        "config/shipper.yaml:2:23: defaults.quarantine.topic: 'logs.web' is a route's topic too"
    )
    assert found[0].endswith("(as a default of config/pipelines/web.yaml)")
    write(config, "defaults:\n  records:\n    drop: {half: rand() < 0.5}\n")
    assert str(locate(config, "web", "records.drop.half", "no")).startswith(
        "config/shipper.yaml:3:18: defaults.records.drop.half: no"
    )


@pytest.mark.parametrize(
    ("platform", "fault"),
    [
        ("alow: {}\n", "config/shipper.yaml:1:1: alow: unknown key; did you mean 'allow'"),
        ("allow: {runners: [mesos]}\n", "config/shipper.yaml:1:19: allow.runners[0]: found "
            "'mesos'"),
        ("defaults: {owners: x}\n", "config/shipper.yaml:1:20: defaults.owners: unknown key; did "
            "you mean 'owner'"),
        ("defaults: {delivery: {lanes: many}}\n", "config/shipper.yaml:1:30: defaults.delivery.lanes: found 'many'; expected a whole number"),  # noqa: E501
        ("defaults: {pipeline: web}\n", "config/shipper.yaml:1:1: defaults: `pipeline` is each "
            "pipeline's own"),
        ("[]", "config/shipper.yaml:1:1: the file is a list"),
    ],
)  # fmt: skip
def test_a_broken_file_allows_nothing(config, platform, fault):
    found = write(config, platform)
    assert any(line.startswith(fault) for line in found), found
    assert all(line.startswith("config/shipper.yaml:") for line in found), "each is listed once"
    loaded = load_all(config)
    assert loaded.pipelines == {}
    assert str(loaded.broken["web"][0]).startswith(
        "config/pipelines/web.yaml:1:1: the platform's file is broken: config/shipper.yaml:"
    )
    with pytest.raises(ConfigError, match=r"config/shipper\.yaml:1"):
        load_platform(config)


def test_a_list_of_a_pipeline_hides_all_of_the_defaults(config):
    def rules(*keys):
        rules = [f"{{rule: ipv4, hash: {{key: '${{HASH_KEY_OF_LOGS_{key}}}'}}}}" for key in keys]
        return f"records: {{redact: [{', '.join(rules)}]}}"

    platform = f"defaults: {{{rules('A', 'B')}}}\n"
    write(config, platform, RIGHT)
    assert hash_keys(config, "web") == ["${HASH_KEY_OF_LOGS_A}", "${HASH_KEY_OF_LOGS_B}"]
    write(config, platform, RIGHT + rules("C"))
    assert hash_keys(config, "web") == ["${HASH_KEY_OF_LOGS_C}"]
