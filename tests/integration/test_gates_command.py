"""`shipper gates`: the source gate alone, with no cluster in reach."""

import json
import os
import time

import pytest

from tests import warm

pytestmark = pytest.mark.spark

WINDOW = "2026-11-01T06:00/2026-11-01T09:00"


@pytest.fixture
def root(tmp_path):
    for hour in (6, 7, 8):
        path = tmp_path / "logs" / f"web-20261101{hour:02}.log"
        path.parent.mkdir(exist_ok=True)
        path.write_text("web1 ok\n" * 10 * hour)
        os.utime(path, (time.time() - 3600,) * 2)
    for folder in ("pipelines", "clusters"):
        (tmp_path / "config" / folder).mkdir(parents=True)
    (tmp_path / "config" / "clusters" / "c.yaml").write_text(
        "cluster: c\nbootstrap: '${NOWHERE_SET}:1'\n"
    )
    write_pipeline(tmp_path, {"check": "matches", "regex": "^web1 ", "on": "full"})
    return tmp_path


def write_pipeline(root, *checks):
    spec = {
        "pipeline": "web",
        "source": {"path": "logs", "settle": "0s"},
        "topic": "logs.web",
        "clusters": ["c"],
    }
    per_hour = {"check": "files_per", "every": "1h", "time": "-%Y%m%d%H"}
    (root / "config" / "pipelines" / "web.yaml").write_text(
        json.dumps({**spec, "gates": {"source": [per_hour, *checks]}})
    )


def gates(root, *arguments):
    wide = {**os.environ, "COLUMNS": "200"}
    return warm.run(
        [
            "shipper",
            "gates",
            "web",
            "--window",
            WINDOW,
            "--config",
            str(root / "config"),
            *arguments,
        ],
        wide,
    )


@pytest.mark.long
def test_an_open_gate_shows_its_table_and_leaves_nothing_behind(root):
    done = gates(root)
    assert done.returncode == 0, done.stderr
    assert "files_per" in done.stdout
    assert "0 of 210 rows without a match (100 % with a match) in all files" in done.stdout
    assert "1 scan of the lines" in done.stdout
    assert "The gate is open" in done.stdout
    assert not (root / "runs").exists()


@pytest.mark.long
def test_a_closed_gate_is_exit_code_1_and_one_json_document(root):
    (root / "logs" / "web-2026110107.log").unlink()
    write_pipeline(root, {"check": "matches", "regex": "^web2 ", "severity": "warn"})
    done = gates(root, "--json")
    assert done.returncode == 1, done.stderr
    result = json.loads(done.stdout)
    assert [(check["check"], check["passed"], check["severity"]) for check in result["checks"]] == [
        ("files_per", False, "block"),
        ("matches(value)", False, "warn"),
    ]
    assert "2026-11-01T07:00Z has 0" in result["error"]
    # One for all checks of lines, and one that says in which files a check does not hold.
    assert (result["status"], result["scans"]) == ("failed", 2)
    done = gates(root)
    assert done.returncode == 1
    assert "The gate is closed" in done.stderr
    assert "✗" in done.stdout


@pytest.mark.long
def test_strict_makes_exit_code_3_of_a_warning(root):
    write_pipeline(root, {"check": "files", "min": 4, "severity": "warn"})
    assert (gates(root).returncode, gates(root, "--strict").returncode) == (0, 3)
    write_pipeline(root, {"check": "files", "min": 4})
    assert gates(root, "--strict").returncode == 1, "a closed gate is more than a warning"


@pytest.mark.long
def test_validate_finds_what_spark_would_refuse_in_a_check(root):
    bad = [
        {"check": "matches", "regex": "(["},
        {"check": "condition", "name": "typo", "sql": "hots = 1"},
        {"check": "condition", "name": "text", "sql": "upper(value)"},
        {"check": "allowed", "column": "value", "values": ["it's"]},
    ]
    write_pipeline(root, *bad)
    (root / "config" / "clusters" / "c.yaml").write_text("cluster: c\nbootstrap: 127.0.0.1:1\n")
    done = warm.run(["shipper", "validate", "--json", "--config", str(root / "config")])
    assert done.returncode == 2
    found = json.loads(done.stdout)["faults"]
    assert len(found) == 3
    faults = " ".join(found)
    assert "gates.source[1].regex: '([' is not a Java regular expression" in faults
    assert "gates.source[2].sql: '(hots = 1)'" in faults
    assert "gates.source[3].sql: '(upper(value))' is of type string; it must be boolean" in faults
