"""Airflow in a folder of its own, configured before it is imported; and a Spark side that does as
it is told."""

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from dag_world import DAGS, Config, FakeSpark


@pytest.fixture(scope="session")
def warm_spark():
    """Where a warm process of fake_spark.py listens: a run starts seven, each half a second."""
    with tempfile.TemporaryDirectory() as folder:
        socket = Path(folder) / "socket"
        words = ["-m", "tests.warm.server", str(socket), sys.executable, "tests.dags.fake_spark"]
        with subprocess.Popen(
            [sys.executable, *words],
            cwd=Path(__file__).parents[2],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as server:
            assert server.stdout.readline() == b"ready\n"
            yield socket
            server.stdin.close()


@pytest.fixture
def spark(tmp_path, warm_spark, monkeypatch):
    folder = tmp_path / "spark"
    folder.mkdir()
    monkeypatch.setenv("SPARK_FAKE", str(folder))
    return FakeSpark(folder, warm_spark)


@pytest.fixture
def config(tmp_path, spark, monkeypatch):
    folder = tmp_path / "config"
    monkeypatch.setenv("SHIPPER_CONFIG", str(folder))
    return Config(folder, spark.python)


@pytest.fixture(scope="session", autouse=True)
def airflow_home(tmp_path_factory):
    """AIRFLOW_HOME of this session. Airflow reads it once, whichever test first imports Airflow."""
    home = tmp_path_factory.mktemp("airflow")
    settings = {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(DAGS),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "INFO",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in settings.items():
            patch.setenv(name, value)
        patch.delenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", raising=False)
        yield home


@pytest.fixture(scope="session")
def airflow(airflow_home):
    """AIRFLOW_HOME of this session, with an empty database."""
    from airflow.utils.db import initdb

    initdb()
    return airflow_home
