"""Where there is no PostgreSQL, `shipper dev up airflow` says why in one line, and takes SQLite."""

from __future__ import annotations

from pathlib import Path

import pytest
from shipper_tools.dev import airflow_server, postgres


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the path in which there is nothing yet, and no other."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(postgres, "_FOLDERS", ())
    return tmp_path


def test_what_is_missing_is_named(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "no PostgreSQL is installed" in str(postgres.why_no_postgres())
    for name in ("initdb", "postgres"):
        (programs / name).write_text("#!/bin/sh\n")
        (programs / name).chmod(0o755)
    monkeypatch.setattr(postgres, "_DRIVERS", ("psycopg2_that_nobody_has",))
    assert "psycopg2_that_nobody_has are not installed" in str(postgres.why_no_postgres())
    monkeypatch.setattr(postgres, "_DRIVERS", ())
    monkeypatch.setattr("os.geteuid", lambda: 0)  # and setpriv is not on this path
    assert "does not run as root" in str(postgres.why_no_postgres())
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert postgres.why_no_postgres() is None


def test_an_airflow_without_it_has_sqlite_and_says_what_that_cannot(
    programs: Path, tmp_path: Path
) -> None:
    said: list[str] = []
    server = airflow_server.AirflowServer(tmp_path / "airflow", None, tmp_path, said.append)
    assert server._database() is None
    assert [
        ("no PostgreSQL is installed" in line, "ask again after a 503" in line) for line in said
    ] == [(True, True)]
