"""The command line, settings and environment with which a job is started, for each kind of runner.

Of Kubernetes, tests/integration/test_kubernetes_example.py has what Spark makes of them.
"""

import datetime as dt
import shlex
from pathlib import Path

import pytest

from shipper.runner import READER_JAR, Job
from shipper.windows.window import Window
from spark_jobs.settings import spark_settings
from tests.samples.config import pipeline_of

JOB = [
    "--config",
    "/etc/shipper",
    "--pipeline",
    "web",
    "--run-id",
    "r1",
    "--window",
    "2026-11-01T00:00:00+00:00/2026-11-01T01:00:00+00:00",
]
MAIN = str(Path(__file__).parents[2] / "spark_jobs" / "__main__.py")
SUBMIT = "/opt/spark/bin/spark-submit"
ARCHIVE = "hdfs://nn1:8020/shipper/tasks.tar.gz"
YARN = {
    "kind": "yarn",
    "cores": 16,
    "conf": {"spark.executor.instances": "8", "spark.yarn.queue": "logs"},
}
KUBERNETES = {
    "kind": "kubernetes",
    "master": "k8s://https://api:6443",
    "conf": {
        "spark.kubernetes.container.image": "registry/shipper:1",
        "spark.driver.host": "shipper-driver",
    },
}
STANDALONE = {"kind": "standalone", "master": "spark://master:7077"}


def pipeline(runner):
    return pipeline_of(runner=runner)


def job(runner):
    start = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)
    return Job(
        pipeline(runner),
        Path("/etc/shipper"),
        Window(start, start + dt.timedelta(hours=1)),
        "r1",
        ("plan", "ship:c"),
    )


@pytest.mark.parametrize(
    ("runner", "master", "settings"),
    [
        (
            YARN,
            "yarn",
            ["spark.executor.instances=8", "spark.yarn.queue=logs", f"spark.jars={READER_JAR}"],
        ),
        (
            YARN | {"archive": ARCHIVE},
            "yarn",
            [
                *("spark.executor.instances=8", "spark.yarn.queue=logs"),
                *(f"spark.jars={READER_JAR}", f"spark.archives={ARCHIVE}#environment"),
            ],
        ),
        (
            KUBERNETES | {"archive": "/opt/tasks.tgz"},
            "k8s://https://api:6443",
            [
                *(
                    "spark.kubernetes.container.image=registry/shipper:1",
                    "spark.driver.host=shipper-driver",
                ),
                *(f"spark.jars={READER_JAR}", "spark.archives=/opt/tasks.tgz#environment"),
            ],
        ),
        (
            STANDALONE
            | {
                "archive": "/opt/tasks.zip",
                "conf": {"spark.jars": "/a.jar", "spark.archives": "/models.zip#m"},
            },
            "spark://master:7077",
            [
                f"spark.jars={READER_JAR},/a.jar",
                "spark.archives=/opt/tasks.zip#environment,/models.zip#m",
            ],
        ),
    ],
)
def test_spark_submit_is_told_all_that_executors_need(runner, master, settings):
    told = [word for setting in settings for word in ("--conf", setting)]
    client = ["--master", master, "--deploy-mode", "client", "--driver-memory", "2g"]
    assert job(runner | {"spark_submit": SUBMIT}).command() == [
        SUBMIT,
        *client,
        *told,
        MAIN,
        *JOB,
        "plan",
        "ship:c",
    ]
    given = spark_settings(pipeline(runner))
    assert {
        name: given[name] for name in (setting.partition("=")[0] for setting in settings)
    } == dict(setting.split("=", 1) for setting in settings), "the same without spark-submit"
    assert given["spark.master"] == master


@pytest.mark.parametrize("kind", [STANDALONE, YARN, KUBERNETES])
def test_executors_run_the_archives_python_and_the_driver_its_own(kind):
    plain = job(kind | {"python": "/opt/bin/python"}).environment()
    assert (plain["PYSPARK_PYTHON"], plain["PYSPARK_DRIVER_PYTHON"]) == (
        "/opt/bin/python",
        "/opt/bin/python",
    )
    packed = job(kind | {"python": "/opt/bin/python", "archive": ARCHIVE}).environment()
    assert (packed["PYSPARK_PYTHON"], packed["PYSPARK_DRIVER_PYTHON"]) == (
        "./environment/bin/python",
        "/opt/bin/python",
    )


def test_no_secret_of_the_jobs_environment_is_on_its_command_line(monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "canary-1")
    found = job(YARN | {"spark_submit": SUBMIT, "archive": ARCHIVE})
    assert found.environment()["AWS_SECRET_ACCESS_KEY"] == "canary-1"
    assert "canary" not in " ".join(found.command())


@pytest.mark.parametrize("folder", ["/big", "/big disk"])
def test_java_keeps_its_temporary_files_where_tmpdir_says(folder, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", folder)
    options = shlex.split(spark_settings(pipeline_of())["spark.driver.extraJavaOptions"])
    assert f"-Djava.io.tmpdir={folder}" in options
