"""examples/kubernetes as far as it goes without a cluster: Spark's own code makes the executor's
pod of its configuration and reads the command line that the image starts it by; the manifests are
held against both."""

import os
import subprocess
from pathlib import Path

import pytest
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from pyspark.find_spark_home import _find_spark_home
from ruamel.yaml import YAML

from shipper.config.environment import EVERYTHING
from shipper.config.load import load_pipeline
from spark_jobs.settings import spark_settings

pytestmark = [pytest.mark.spark]

EXAMPLE = Path(__file__).parents[2] / "examples" / "kubernetes"
K8S = "org.apache.spark.scheduler.cluster.k8s"


@pytest.fixture(scope="module")
def jvm():
    port, secret = launch_gateway(
        classpath=f"{_find_spark_home()}/jars/*", die_on_exit=True, enable_auth=True
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=secret))
    yield gateway.jvm
    gateway.shutdown()


@pytest.fixture(scope="module")
def settings():
    pipeline = load_pipeline(EXAMPLE / "config", "web_access", EVERYTHING)
    return {**spark_settings(pipeline), "spark.app.name": "web-access"}


@pytest.fixture(scope="module")
def manifests():
    found = YAML(typ="safe").load_all((EXAMPLE / "shipper.yaml").read_text())
    return {each["kind"]: each for each in found}


def module(package, name):
    """Return a Scala object."""
    return getattr(getattr(package, f"{name}$"), "MODULE$")


def executor_pod(jvm, settings):
    """Return the pod and its container, as Spark would ask for them."""
    spark, none = jvm.org.apache.spark, jvm.scala.Option.empty()
    conf = spark.SparkConf(False)
    for name, value in settings.items():
        conf.set(name, value)
    wanted = spark.deploy.k8s.KubernetesConf.createExecutorConf(conf, "1", "spark-1", none, 0)
    manager = spark.SecurityManager
    security = manager(conf, none, getattr(manager, "$lessinit$greater$default$3")())
    profile = module(spark.resource, "ResourceProfile").getOrCreateDefaultProfile(conf)
    builder = jvm.org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBuilder()
    made = builder.buildFromFeatures(wanted, security, None, profile).pod()
    as_yaml = jvm.io.fabric8.kubernetes.client.utils.Serialization.asYaml
    pod, container = (YAML(typ="safe").load(as_yaml(one)) for one in (made.pod(), made.container()))
    return pod, container


@pytest.mark.long
def test_spark_makes_the_pod_that_the_manifests_are_for(jvm, settings, manifests):
    pod, container = executor_pod(jvm, settings)
    service, job = manifests["Service"], manifests["CronJob"]["spec"]["jobTemplate"]["spec"]
    driver = job["template"]["spec"]
    [runs] = driver["containers"]
    account = manifests["ServiceAccount"]["metadata"]["name"]
    assert pod["spec"]["serviceAccountName"] == driver["serviceAccountName"] == account
    assert manifests["RoleBinding"]["subjects"][0]["name"] == account
    assert container["image"] == runs["image"]
    assert container["args"] == ["executor"]

    told = {each["name"]: each.get("value") for each in container["env"]}
    name, namespace = (service["metadata"][field] for field in ("name", "namespace"))
    assert told["SPARK_DRIVER_URL"] == (
        f"spark://CoarseGrainedScheduler@{name}.{namespace}.svc:{settings['spark.driver.port']}"
    )
    ports = {settings["spark.driver.port"], settings["spark.driver.blockManager.port"]}
    assert {str(port["port"]) for port in service["spec"]["ports"]} == ports
    assert {str(port["containerPort"]) for port in runs["ports"]} == ports
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["selector"] == job["template"]["metadata"]["labels"]
    assert settings["spark.kubernetes.namespace"] == namespace

    instances, cores = (int(settings[f"spark.executor.{name}"]) for name in ("instances", "cores"))
    pipeline = load_pipeline(EXAMPLE / "config", "web_access", EVERYTHING)
    assert instances * cores == pipeline.runner.cores
    given = {each["name"] for each in runs["env"]}
    assert "KAFKA_PASSWORD" in given
    assert "KAFKA_PASSWORD" not in told, "it reaches executors inside the job"


@pytest.mark.long
def test_the_image_starts_an_executor_by_a_command_line_that_spark_reads(jvm, settings, tmp_path):
    """`java` writes down how it was called."""
    _, container = executor_pod(jvm, settings)
    binary = tmp_path / "bin" / "java"
    binary.parent.mkdir()
    binary.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/said\n')
    binary.chmod(0o755)
    told = {each["name"]: each.get("value") or "10.0.0.7" for each in container["env"]}
    python = Path(_find_spark_home()).parents[3] / "bin"
    path = f"{python}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(
        [EXAMPLE / "entrypoint.sh", *container["args"]],
        env={**told, "JAVA_HOME": str(tmp_path), "PATH": path},
        check=True,
    )
    words = (tmp_path / "said").read_text().splitlines()
    at = words.index(f"{K8S}.KubernetesExecutorBackend")
    assert {word for word in words[:at] if word.startswith("-Dspark.")} == {
        value for name, value in told.items() if name.startswith("SPARK_JAVA_OPT_")
    }
    assert f"-Xmx{told['SPARK_EXECUTOR_MEMORY']}" in words[:at]
    assert words[at - 1] == f"{told['SPARK_CONF_DIR']}:{_find_spark_home()}/jars/*"
    backend = module(jvm.org.apache.spark.scheduler.cluster.k8s, "KubernetesExecutorBackend")
    read = backend.parseArguments(
        jvm_array(jvm, words[at + 1 :]), f"{K8S}.KubernetesExecutorBackend"
    )
    assert (read.driverUrl(), read.executorId(), read.cores(), read.appId(), read.podName()) == (
        told["SPARK_DRIVER_URL"],
        told["SPARK_EXECUTOR_ID"],
        int(told["SPARK_EXECUTOR_CORES"]),
        told["SPARK_APPLICATION_ID"],
        told["SPARK_EXECUTOR_POD_NAME"],
    )


def test_a_command_is_run_as_it_is(tmp_path):
    done = subprocess.run(
        [EXAMPLE / "entrypoint.sh", "echo", "a b"], capture_output=True, text=True, check=True
    )
    assert done.stdout == "a b\n"


def jvm_array(jvm, words):
    made = jvm.java.lang.reflect.Array.newInstance(
        jvm.java.lang.Class.forName("java.lang.String"), len(words)
    )
    for index, word in enumerate(words):
        jvm.java.lang.reflect.Array.set(made, index, word)
    return made
