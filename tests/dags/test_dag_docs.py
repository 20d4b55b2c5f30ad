"""What Airflow's docs tab says of a pipeline."""

from textwrap import dedent

from shipper.config.environment import EVERYTHING
from shipper.config.load import load_pipeline_alone
from shipper_airflow.dags.docs import page

SPEC = """
    pipeline: web
    # why there is an hour: ``` in a comment
    description: Access logs.
    schedule: {cron: "0 * * * *", start: 2026-11-01, deliver_within: 45m}
    source: {path: "logs/{window_start:%Y}/", include: "*.log"}
    routes:
      - {topic: logs.errors, when: "value rlike 'a|b'"}
      - {topic: logs.rest}
    clusters: [near, far]
    gates: {source: [{check: rows, min: 5}, {check: not_null, column: value, severity: warn}]}
    runner: {conf: {spark.hadoop.fs.s3a.secret.key: canary-key, spark.ui.enabled: "true", spark.ssl.keyPassword: "${KEY_PASSWORD}"}}
    notify:
      - on: [late]
        notifier: airflow.providers.slack.notifications.slack.SlackNotifier
        with: {channel: logs, hook: {url: "https://hooks.example/canary-hook"}, text: "{{ notice.text }}"}
"""  # noqa: E501


def shown(tmp_path, text=SPEC):
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines" / "web.yaml").write_text(dedent(text))
    return page(load_pipeline_alone(tmp_path, "web", EVERYTHING), tmp_path)


def test_the_file_is_shown_as_written_with_references_and_without_secrets(tmp_path):
    text = shown(tmp_path)
    assert "# why there is an hour: ``` in a comment" in text
    assert "````yaml" in text
    assert "${KEY_PASSWORD}" in text
    assert "channel: logs" in text
    assert "canary" not in text
    assert text.count("***") == 2


def test_a_file_whose_secrets_cannot_be_told_from_the_rest_is_not_shown(tmp_path):
    folded = SPEC.replace("canary-key", '"canary-\\x6bey"')
    text = shown(tmp_path, folded)
    assert "canary" not in text
    assert "The file is not shown" in text


def test_limits_of_checks_are_shown_with_their_units(tmp_path):
    checks = "[{check: freshness, max_age: 90m}, {check: total_bytes, min: 2MB}]"
    text = shown(tmp_path, SPEC.replace("[{check: rows, min: 5}", f"{checks[:-1]}"))
    assert "`freshness`: `max_age 1h30m`" in text
    assert "`total_bytes`: `min 2MB`" in text
