"""`source.s3`: what Hadoop is told, what never shows, and when S3A's jars come."""

import json

import pytest

from shipper import s3a
from shipper.config.environment import EVERYTHING
from shipper.config.load import load_all, load_pipeline, references
from shipper.config.s3 import S3
from shipper.errors import ConfigError
from spark_jobs import java_command
from spark_jobs.settings import spark_settings
from tests.samples.config import pipeline_of, write_config

KEYS = {"access_key": "AK-canary", "secret_key": "SK-canary"}


def pipeline(s3=None, path="s3a://logs/web/", **more):
    source = {"path": path, **({"s3": s3} if s3 is not None else {})}
    return pipeline_of(source=source, **more)


@pytest.mark.parametrize(
    ("s3", "wanted"),
    [
        ({}, {}),
        ({"region": "eu-central-1"}, {"fs.s3a.endpoint.region": "eu-central-1"}),
        (
            {"endpoint": "http://127.0.0.1:9000", "path_style": True},
            {
                "fs.s3a.endpoint": "http://127.0.0.1:9000",
                "fs.s3a.endpoint.region": "us-east-1",
                "fs.s3a.path.style.access": "true",
                "fs.s3a.connection.ssl.enabled": "false",
            },
        ),
        ({"requester_pays": True}, {"fs.s3a.requester.pays.enabled": "true"}),
        (
            {"credentials": "profile", "profile": "logs"},
            {
                "fs.s3a.aws.credentials.provider": "org.apache.hadoop.fs.s3a.auth.ProfileAWSCredentialsProvider",  # noqa: E501
                "fs.s3a.auth.profile.name": "logs",
            },
        ),
        (
            {"credentials": "instance", "role": "arn:aws:iam::1:role/r"},
            {
                "fs.s3a.aws.credentials.provider": "org.apache.hadoop.fs.s3a.auth.AssumedRoleCredentialProvider",  # noqa: E501
                "fs.s3a.assumed.role.arn": "arn:aws:iam::1:role/r",
                "fs.s3a.assumed.role.credentials.provider": "org.apache.hadoop.fs.s3a.auth.IAMInstanceCredentialsProvider",  # noqa: E501
            },
        ),
    ],
)
def test_hadoop_is_told_what_the_source_says(s3, wanted):
    assert S3.model_validate(s3).settings() == wanted


@pytest.mark.parametrize(
    ("s3", "says"),
    [
        ({"access_key": "a"}, "`access_key` and `secret_key` need each other"),
        ({**KEYS, "credentials": "anonymous"}, "contradict each other"),
        ({"credentials": "keys"}, "needs `access_key` and `secret_key`"),
        ({"credentials": "provider"}, "needs `credential_provider`"),
        ({"profile": "logs"}, "`profile` needs `credentials: profile`"),
        ({"endpoint": "s3.example:9000"}, "an endpoint is written https://HOST:PORT"),
        ({"region": "evil.example/"}, "a region is written like eu-central-1"),
        ({"role": "arn:x", "credentials": "anonymous"}, "`role` needs credentials"),
    ],
)
def test_contradictions_are_refused(s3, says):
    with pytest.raises(ValueError, match=says):
        S3.model_validate(s3)


def test_a_password_in_the_endpoint_is_refused_and_not_shown(tmp_path):
    file = write(tmp_path, "x") / "pipelines" / "web.yaml"
    file.write_text(
        file.read_text().replace("http://127.0.0.1:9}", "https://a:never-shown@s3.example}")
    )
    found = "\n".join(map(str, load_all(tmp_path).faults))
    assert "the address contains a password" in found
    assert "never-shown" not in found


def test_s3_without_a_path_in_s3_is_refused():
    with pytest.raises(ValueError, match=r"begins with s3a://, not for hdfs://n/logs"):
        pipeline({}, path="hdfs://n/logs")


def test_keys_are_told_in_memory_alone_and_hide_from_print_and_json():
    found = pipeline({**KEYS, "session_token": "ST-canary"})
    assert s3a.secrets(found) == {
        "fs.s3a.access.key": "AK-canary",
        "fs.s3a.secret.key": "SK-canary",
        "fs.s3a.session.token": "ST-canary",
    }
    shown = (
        repr(found)
        + str(found)
        + found.model_dump_json()
        + json.dumps(found.model_dump(mode="json"), default=str)
    )
    assert "canary" not in shown
    assert "canary" not in str(s3a.settings(found))


def write(folder, secret):
    source = (
        '{path: s3a://logs/, s3: {endpoint: "${S3_URL:-http://127.0.0.1:9}", access_key: a, '
        f'secret_key: "{secret}"}}}}'
    )
    web = f"pipeline: web\nsource: {source}\ntopic: t\nclusters: [c]\n"
    c = "cluster: c\nbootstrap: 127.0.0.1:1\n"
    return write_config(folder, {"pipelines/web": web, "clusters/c": c})


def test_references_are_looked_up_where_steps_run_and_left_where_dags_are_parsed(
    tmp_path, monkeypatch
):
    config = write(tmp_path / "config", "${airflow:logs_s3.password}")
    with pytest.raises(
        ConfigError, match=r"web\.yaml:2:\d+: source\.s3\.secret_key: .*logs_s3\.password"
    ):
        load_pipeline(config, "web")
    parsed = load_all(config, EVERYTHING)
    assert not parsed.faults
    assert s3a.secrets(parsed.pipelines["web"]) == {"fs.s3a.access.key": "a"}
    assert {str(found) for found in references(config, "web")} == {
        "S3_URL",
        "airflow:logs_s3.password",
    }
    monkeypatch.setenv(
        "SHIPPER_REFERENCES", json.dumps({"airflow:logs_s3.password": "canary ${x}"})
    )
    assert s3a.secrets(load_pipeline(config, "web"))["fs.s3a.secret.key"] == "canary ${x}"


def test_where_a_platform_binds_pipelines_they_choose_neither_server_nor_identity(tmp_path):
    """A key that is sent to a server of the author's choice could be any secret that a reference
    finds."""
    config = write(tmp_path / "config", "canary")
    (config / "shipper.yaml").write_text("allow: {}\n")
    faults = [str(fault) for fault in load_all(config).faults]
    assert len(faults) == 3
    assert all("is not allowed by" in fault and "canary" not in fault for fault in faults)
    (config / "shipper.yaml").write_text("allow: {s3: [endpoint, access_key, secret_key]}\n")
    assert not load_all(config).faults


@pytest.fixture
def jars(tmp_path, monkeypatch):
    """The cache as it is when they have come."""
    monkeypatch.setenv("SHIPPER_CACHE", str(tmp_path))
    folder = tmp_path / "jars" / f"{s3a.LOCK.stem}-12345678"
    folder.mkdir(parents=True)
    (folder / "hadoop-aws-3.5.0.jar").touch()
    monkeypatch.setattr(s3a, "resolve_jars", lambda lock, say: folder)
    return folder


def test_jars_come_for_s3_alone_behind_what_the_class_data_archive_has(jars):
    settings = spark_settings(pipeline())
    assert settings["spark.driver.extraClassPath"] == f"{jars}/*"
    assert str(jars) not in settings["spark.jars"], "in one process Spark need copy none"
    command = java_command.command(settings)
    assert command is not None, "no need to ask Spark's launcher"
    assert command[command.index("-cp") + 1].endswith(
        f"{java_command.class_path(java_command.spark_home())}:{jars}/*"
    )
    assert "spark.driver.extraClassPath" not in spark_settings(pipeline(path="hdfs://n/logs"))


@pytest.mark.parametrize(
    "conf",
    [
        {"spark.jars.packages": "org.apache.hadoop:hadoop-aws:3.5.0"},
        {"spark.jars": "/opt/hadoop-aws-3.4.1.jar"},
        {"spark.driver.extraClassPath": "/usr/lib/hadoop-aws/*"},
    ],
)
def test_an_s3a_of_the_users_own_is_left_alone(jars, conf):
    settings = spark_settings(pipeline(runner={"conf": conf}))
    assert str(jars) not in str(settings)


def test_settings_of_runner_conf_go_before_defaults_and_behind_the_source(jars):
    conf = {
        "spark.hadoop.fs.s3a.retry.limit": "9",
        "spark.hadoop.fs.s3a.endpoint": "http://other:1",
    }
    settings = spark_settings(
        pipeline({"endpoint": "http://mine:1", **KEYS}, runner={"conf": conf})
    )
    assert settings["spark.hadoop.fs.s3a.retry.limit"] == "9"
    assert settings["spark.hadoop.fs.s3a.endpoint"] == "http://mine:1"
    assert "canary" not in str(settings)
