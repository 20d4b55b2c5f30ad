"""Where secrets come from, and that they show nowhere."""

import dataclasses
import json
import pickle
import re

import pytest

from shipper.config.environment import EVERYTHING, GIVEN_VARIABLE
from shipper.config.load import load_all, load_cluster, load_pipeline, references
from shipper.driver.preflight import Preflight
from shipper.errors import ClusterError, ConfigError
from shipper.kafka.client import ClusterClient
from shipper.kafka.connection import connection
from shipper.kafka.producer import LaneSettings
from shipper.worker.order import LaneOptions
from shipper.worker.tuning import LinkProfile, Sizing
from tests.doubles.task import order_with

SHORTEST = "pipeline: web\nsource: logs\ntopic: logs.web\nclusters: [local]\n"
LOCAL = "cluster: local\nbootstrap: 127.0.0.1:9092\n"


def load(config, text):
    (config / "pipelines" / "web.yaml").write_text(text)
    return load_pipeline(config, "web")


def test_no_secret_is_in_what_is_printed_or_dumped_of_a_cluster(config):
    """Also not of what travels to Spark's workers, where it must arrive all the same."""
    (config / "clusters" / "local.yaml").write_text(
        LOCAL + "properties: {sasl.password: hunter2}\n"
    )
    cluster = load_cluster(config, "local")
    settings = LaneSettings(connection(cluster), 1000, "none", 10_000)
    sizing = Sizing(LinkProfile(0.1, 1e6, 7, 1_000_000), 1, 1_000_000)
    ready = Preflight(settings, sizing, sizing.tune(), {}, None)
    order = order_with(lane_options=LaneOptions(settings, "_shipper.p", 0, 1.0))
    for holder in (load_all(config), cluster, settings, ready, order):
        assert "hunter2" not in f"{holder} {holder!r}"
        arrived = pickle.loads(pickle.dumps(holder))
        assert "hunter2" not in f"{arrived} {arrived!r}"
    assert "hunter2" not in cluster.model_dump_json() + str(cluster.model_dump()) + str(
        dataclasses.asdict(order)
    )
    assert (
        pickle.loads(pickle.dumps(order))
        .lane_options.settings.connection["sasl.password"]
        .get_secret_value()
        == "hunter2"
    )


# --- Secrets from elsewhere


def secret_of(config, reference, leave=()):
    (config / "clusters" / "local.yaml").write_text(
        f"{LOCAL}properties:\n  sasl.password: {reference}\n"
    )
    return load_cluster(config, "local", leave).property_value("sasl.password")


def test_a_secret_comes_from_a_file_that_nobody_else_may_read(config, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text(" hunter2 \n")
    for mode in (0o600, 0o400):
        secret.chmod(mode)
        assert secret_of(config, f"${{file:{secret}}}") == " hunter2 "
    for mode in (0o640, 0o604, 0o644, 0o620):
        secret.chmod(mode)
        with pytest.raises(
            ConfigError,
            match=r"4:18: properties.sasl.password: .*secret holds a secret and others may read it",
        ) as found:
            secret_of(config, f"${{file:{secret}}}")
        assert "hunter2" not in str(found.value)


@pytest.mark.parametrize(
    ("reference", "says"),
    [
        ("${file:/nowhere/at/all}", "/nowhere/at/all cannot be read: No such file or directory"),
        ("${file:relative}", "needs an absolute path"),
        ("${file:/dev/null}", "is not a regular file"),
        ("${airflow:kafka}", "a connection of Airflow's is written"),
        ("${airflow:kafka.password}", "Airflow's tasks look it up"),
    ],
)
def test_a_secret_that_is_not_there_is_a_fault_with_its_place(config, reference, says):
    with pytest.raises(
        ConfigError,
        match=rf"^config/clusters/local.yaml:4:18: properties.sasl.password: .*{re.escape(says)}",
    ):
        secret_of(config, reference)


def test_a_secret_of_an_airflow_connection_is_given_by_the_task(config, monkeypatch):
    monkeypatch.setenv(
        GIVEN_VARIABLE,
        json.dumps({"airflow:kafka.password": "hunter2", "airflow:kafka.extra.ca": "pem"}),
    )
    assert secret_of(config, "${airflow:kafka.password}") == "hunter2"
    assert secret_of(config, "a-${airflow:kafka.extra.ca}") == "a-pem"


@pytest.mark.parametrize(
    "reference", ["${SHIPPER_NOWHERE}", "${file:/nowhere/at/all}", "${airflow:kafka.password}"]
)
def test_what_parses_dags_needs_no_secret(config, monkeypatch, reference):
    monkeypatch.delenv("SHIPPER_NOWHERE", raising=False)
    assert secret_of(config, reference, EVERYTHING) is None
    (config / "pipelines" / "web.yaml").write_text(SHORTEST)
    assert not load_all(config, EVERYTHING).faults
    with pytest.raises(
        ClusterError, match=r"sasl\.password: the value that the setting refers to is not known"
    ):
        ClusterClient(load_cluster(config, "local", EVERYTHING))


def test_references_of_a_pipeline_are_its_own_and_those_of_its_clusters(config):
    (config / "clusters" / "local.yaml").write_text(
        LOCAL + "properties: {sasl.password: '${A}', ssl.key.pem: '${file:/x}'}\n"
    )
    (config / "clusters" / "other.yaml").write_text("cluster: other\nbootstrap: ${OTHER}\n")
    (config / "pipelines" / "web.yaml").write_text(SHORTEST + "runs_uri: ${RUNS:-x}\n")
    assert {str(reference) for reference in references(config, "web")} == {"A", "file:/x", "RUNS"}


def test_a_pipeline_refers_to_the_environment_only(config):
    with pytest.raises(ConfigError, match="is for cluster files"):
        load(config, SHORTEST + "runs_uri: ${file:/x}\n")


@pytest.mark.parametrize("key", ["source", "runs_uri"])
def test_an_address_with_a_password_in_it_is_refused_and_not_shown(config, key):
    text = SHORTEST if key == "runs_uri" else SHORTEST.replace("source:", "owner:")
    with pytest.raises(ConfigError, match="contains a password") as found:
        load(config, text + f"{key}: sftp://shipper:hunter2@host/logs\n")
    assert "hunter2" not in str(found.value)
    load(config, SHORTEST + "runs_uri: abfss://logs@account.example/runs\n")
