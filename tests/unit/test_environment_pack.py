"""`shipper environment pack`; tests/integration/test_spark_cluster.py ships by a real archive."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from shipper.cli import environment
from shipper.errors import UsageError


def test_an_archive_may_be_named_from_the_present_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(made: Path) -> None:
        """Write a Python that finds all that it is asked for."""
        entry = tarfile.TarInfo("bin/python")
        entry.size, entry.mode = len(script := b"#!/bin/sh\n"), 0o755
        with tarfile.open(made, "w:gz") as archive:
            archive.addfile(entry, io.BytesIO(script))

    monkeypatch.setattr(environment, "_write", write)
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(environment.app, ["pack", "--json"], catch_exceptions=False)
    assert json.loads(done.stdout)["archive"] == str(tmp_path / "tasks.tar.gz")
    assert [path.name for path in tmp_path.iterdir()] == ["tasks.tar.gz"]
    done = CliRunner().invoke(environment.app, ["pack", "--json"])
    assert isinstance(done.exception, UsageError)
    assert done.exception.code == "SHIP-103"
    CliRunner().invoke(environment.app, ["pack", "--force"], catch_exceptions=False)
