"""docker-compose.yml cannot be started here; what can go wrong in it without Docker noticing is
held by these tests."""

import re
import tomllib
from pathlib import Path

import pytest
from ruamel.yaml import YAML
from shipper_tools.dev import kafka_tools

ROOT = Path(__file__).resolve().parents[2]
_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)")


def read(path):
    return YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))


COMPOSE = read(ROOT / "docker-compose.yml")
SERVICES = COMPOSE["services"]
DOCKERFILE = (ROOT / "docker/Dockerfile").read_text(encoding="utf-8")
each_service = pytest.mark.parametrize("service", SERVICES.values(), ids=SERVICES)


def tag(image):
    return image.rpartition("/")[2].partition(":")[2]


def texts(data):
    if isinstance(data, dict | list):
        for value in data.values() if isinstance(data, dict) else data:
            yield from texts(value)
    elif isinstance(data, str):
        yield data


@each_service
def test_nothing_listens_beyond_this_machine(service):
    assert [
        port for port in service.get("ports", ()) if not re.fullmatch(r"127\.0\.0\.1:\d+:\d+", port)
    ] == []
    assert service.keys().isdisjoint({"network_mode", "privileged"})


def test_airflow_sets_every_variable_that_the_config_asks_for():
    files = [
        *(ROOT / "config/pipelines").glob("*.yaml"),
        *(ROOT / "config/clusters").glob("*.yaml"),
    ]
    wanted = {
        name for file in files for text in texts(read(file)) for name in _REFERENCE.findall(text)
    }
    assert {"KAFKA_BOOTSTRAP"} <= wanted
    assert wanted <= SERVICES["airflow"]["environment"].keys()


def test_the_topics_of_the_shipped_pipelines_are_made():
    pipelines = [read(path) for path in (ROOT / "config/pipelines").glob("*.yaml")]
    topics = {
        route["topic"] for pipeline in pipelines for route in pipeline.get("routes", [pipeline])
    }
    made = re.search(r"for topic in (.+); do", SERVICES["topics"]["command"][0])
    assert {topic for topic in topics if "{" not in topic} <= set(made[1].split())


def test_versions_are_those_that_are_tested():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    locked = {
        package["name"]: package["version"]
        for package in tomllib.loads((ROOT / "uv.lock").read_text())["package"]
    }
    assert f"apache/airflow:slim-{locked['apache-airflow']}-python3.11" in DOCKERFILE
    assert f"kafka-{tag(SERVICES['kafka']['image'])}" == kafka_tools.JARS
    assert {service["image"] for service in SERVICES.values() if "build" in service} == {
        f"shipper:{project['version']}"
    }
