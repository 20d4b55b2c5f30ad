"""What a job's process gets of the environment of the one that starts it."""

import os

from shipper.config.load import load_pipeline
from shipper.job_environment import forget, needed
from shipper.runner import Job
from shipper.windows.expression import parse_expression


def test_what_the_machine_java_and_file_systems_need_goes_on_and_nothing_else():
    keeps = {
        "PATH",
        "JAVA_HOME",
        "SPARK_CONF_DIR",
        "HADOOP_USER_NAME",
        "AWS_SECRET_ACCESS_KEY",
        "KRB5CCNAME",
        "LC_ALL",
        "https_proxy",
    }
    leaves = {
        "AIRFLOW__CORE__FERNET_KEY",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN",
        "AIRFLOW_CONN_KAFKA",
        "KAFKA_PASSWORD",
        "PGPASSWORD",
    }
    assert set(needed(dict.fromkeys(keeps | leaves, "x"))) == keeps
    assert set(needed(dict.fromkeys(leaves, "x"), also=["PGPASSWORD", "KAFKA_*"])) == {
        "PGPASSWORD",
        "KAFKA_PASSWORD",
    }


def test_what_was_read_is_forgotten_unless_every_job_needs_it(monkeypatch):
    monkeypatch.setenv("KAFKA_PASSWORD", "canary")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "needed")
    forget(["KAFKA_PASSWORD", "AWS_SECRET_ACCESS_KEY", "SHIPPER_NOWHERE"])
    assert "KAFKA_PASSWORD" not in os.environ
    assert os.environ["AWS_SECRET_ACCESS_KEY"] == "needed"


def test_a_job_gets_what_its_own_files_refer_to(tmp_path, monkeypatch):
    config = tmp_path / "config"
    for folder in ("pipelines", "clusters"):
        (config / folder).mkdir(parents=True)
    (config / "pipelines" / "web.yaml").write_text(
        "pipeline: web\nsource: ${LOGS:-logs}\ntopic: t\nclusters: [mine]\n"
    )
    for name in ("mine", "other"):
        password = "${" + name.upper() + "_PASSWORD}"
        (config / "clusters" / f"{name}.yaml").write_text(
            f"cluster: {name}\nbootstrap: b:1\nproperties: {{sasl.password: '{password}'}}\n"
        )
        monkeypatch.setenv(f"{name.upper()}_PASSWORD", f"canary-{name}")
    window = parse_expression("2026-11-01T06")
    job = Job(load_pipeline(config, "web"), config, window, "r", ("plan",))
    assert job.environment()["MINE_PASSWORD"] == "canary-mine"
    assert "canary-other" not in str(job.environment())
    assert (
        job.environment({"airflow:a.password": "x"})["SHIPPER_REFERENCES"]
        == '{"airflow:a.password": "x"}'
    )
    assert "canary" not in " ".join(job.command())
