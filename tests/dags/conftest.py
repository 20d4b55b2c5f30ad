"""Airflow in a folder of its own, configured before it is imported; and a Spark side that does as
it is told."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from dag_world import DAGS, Config, FakeSpark


@pytest.fixture
def spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSpark:
    folder = tmp_path / "spark"
    folder.mkdir()
    monkeypatch.setenv("SPARK_FAKE", str(folder))
    return FakeSpark(folder)


@pytest.fixture
def config(tmp_path: Path, spark: FakeSpark, monkeypatch: pytest.MonkeyPatch) -> Config:
    folder = tmp_path / "config"
    monkeypatch.setenv("SHIPPER_CONFIG", str(folder))
    return Config(folder, spark.python)


@pytest.fixture(scope="session")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """AIRFLOW_HOME of this session, with an empty database."""
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
        os.environ.pop("_AIRFLOW_PARSING_CONTEXT_DAG_ID", None)
        from airflow.utils.db import initdb

        initdb()
        yield home
