from functools import partial

import in_process
import pytest

from tests.samples.config import write_config


@pytest.fixture
def config(tmp_path):
    """A configuration with the cluster `local`, and no pipeline yet."""
    local = "cluster: local\nbootstrap: 127.0.0.1:9092\n"
    return write_config(tmp_path / "config", {"clusters/local": local})


@pytest.fixture
def shipper(monkeypatch):
    return partial(in_process.run, monkeypatch)
