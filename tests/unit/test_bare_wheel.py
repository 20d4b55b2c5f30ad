"""A Python with the wheel alone, without its extras: it validates, lists and schedules; what needs
Spark says so."""

import subprocess
import sys

import pytest

from shipper.cli.main import app
from tests.samples.config import write_config

_ABSENT = ("airflow", "great_expectations", "numpy", "pandas", "pyarrow", "pyspark")
_HELP = f"""
import sys
for name in {_ABSENT!r}:
    sys.modules[name] = None
import typer
from typer.testing import CliRunner
from shipper.cli.main import app

def visit(command, words):
    done = CliRunner().invoke(app, [*words, "--help"])
    print(len(words), "Usage" in done.output, done.exit_code, " ".join(words), done.exception)
    names = command.list_commands(None) if hasattr(command, "list_commands") else ()
    for name in names:
        visit(command.get_command(None, name), [*words, name])

visit(typer.main.get_command(app), [])
"""


def test_the_help_of_every_command_is_there():
    done = subprocess.run([sys.executable, "-c", _HELP], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) > len(app.registered_commands) + 10
    assert [line for line in lines if " True 0 " not in line] == []


@pytest.mark.parametrize(
    "command",
    [
        ("plan", "web", "--window", "2026-11-01"),
        ("run", "web", "--window", "2026-11-01"),
        ("preview", "web", "--window", "2026-11-01"),
        ("new", "other", "--sample", "s.log.zst"),
    ],
)
def test_what_needs_spark_says_so_once(command, tmp_path, monkeypatch, shipper):
    web = "pipeline: web\nsource: logs\ntopic: t\nclusters: [near]\n"
    near = "cluster: near\nbootstrap: 127.0.0.1:1\n"
    write_config(tmp_path / "config", {"pipelines/web": web, "clusters/near": near})
    (tmp_path / "s.log.zst").write_bytes(b"\x28\xb5\x2f\xfd")
    monkeypatch.chdir(tmp_path)
    for name in _ABSENT:
        monkeypatch.setitem(sys.modules, name, None)
    done = shipper(*command)
    assert (done.returncode, "SHIP-110" in done.stderr) == (2, True)
    assert "SHIP-003" not in done.stderr
