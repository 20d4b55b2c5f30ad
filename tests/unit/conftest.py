from functools import partial

import in_process
import pytest


@pytest.fixture
def config(tmp_path):
    """A configuration with the cluster `local`, and no pipeline yet."""
    folder = tmp_path / "config"
    (folder / "pipelines").mkdir(parents=True)
    (folder / "clusters").mkdir()
    (folder / "clusters" / "local.yaml").write_text("cluster: local\nbootstrap: 127.0.0.1:9092\n")
    return folder


@pytest.fixture
def shipper(monkeypatch):
    return partial(in_process.run, monkeypatch)
