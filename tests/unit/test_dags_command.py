"""``shipper dags install``, and that the files in the repository are the ones that it writes."""

import errno
import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from shipper.cli.dags import dag_files
from shipper.cli.main import _TOOLS, _Commands, app
from shipper.errors import UsageError
from shipper_airflow.place import config_dir

ROOT = Path(__file__).resolve().parents[2]


def install(*words):
    return CliRunner().invoke(app, ["dags", "install", *map(str, words)])


def test_the_repository_has_the_files_of_this_version():
    there = {path.name: path.read_text() for path in (ROOT / "dags").iterdir() if path.is_file()}
    assert there == dag_files(), "`shipper dags install dags` writes them anew"


def test_it_writes_what_is_missing_or_old_and_says_which_configuration(tmp_path, monkeypatch):
    folder = tmp_path / "airflow" / "dags"
    first = json.loads(install(folder, "--config", tmp_path / "config", "--json").stdout)
    assert (sorted(first["written"]), config_dir(folder)) == (
        sorted(dag_files()),
        tmp_path / "config",
    )
    monkeypatch.setenv("SHIPPER_CONFIG", "/else/where")
    assert config_dir(folder) == Path("/else/where")
    monkeypatch.delenv("SHIPPER_CONFIG")
    faults = folder / "shipper_faults.py"
    faults.write_text(faults.read_text().replace('written_by="', 'written_by="0.0.'))
    beside = json.loads(
        install(folder, "--config", tmp_path / "airflow" / "config", "--json").stdout
    )
    assert (sorted(beside["written"]), config_dir(folder)) == (
        sorted(dag_files()),
        tmp_path / "airflow" / "config",
    )
    assert {path.name: path.read_text() for path in folder.iterdir()} == dag_files()


def test_a_file_of_somebody_else_is_left_alone(tmp_path):
    (tmp_path / "shipper_dags.py").write_text("mine = 1\n")
    refused = install(tmp_path)
    assert isinstance(refused.exception, UsageError)
    assert "shipper_dags.py" in refused.exception.message
    assert (tmp_path / "shipper_dags.py").read_text() == "mine = 1\n"
    assert not (tmp_path / "shipper_faults.py").exists(), "all or nothing"


def test_a_read_only_folder_is_named(tmp_path, monkeypatch):
    def refuse(path, *_):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    monkeypatch.setattr(Path, "write_text", refuse)  # root may write into any folder
    refused = install(tmp_path / "dags")
    assert isinstance(refused.exception, UsageError)
    assert refused.exception.code == "SHIP-104"
    assert f"{tmp_path / 'dags'}/" in refused.exception.message


@pytest.mark.parametrize("command", ["dev", "demo", "bench"])
def test_a_command_of_the_extra_says_how_to_get_it(command, monkeypatch):
    without = {name: at for name, at in _Commands.elsewhere.items() if name not in _TOOLS}
    monkeypatch.setattr(_Commands, "elsewhere", without)
    refused = CliRunner().invoke(app, [command])
    assert isinstance(refused.exception, UsageError)
    assert "shipper_tools" in refused.exception.message
