from __future__ import annotations

from functools import partial
from pathlib import Path

import in_process
import pytest


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A configuration with the cluster `local`, and no pipeline yet."""
    folder = tmp_path / "config"
    (folder / "pipelines").mkdir(parents=True)
    (folder / "clusters").mkdir()
    (folder / "clusters" / "local.yaml").write_text("cluster: local\nbootstrap: 127.0.0.1:9092\n")
    return folder


@pytest.fixture
def shipper(monkeypatch: pytest.MonkeyPatch) -> in_process.Command:
    return partial(in_process.run, monkeypatch)
