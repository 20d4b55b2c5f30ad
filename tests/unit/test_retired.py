"""Whoever still uses what was retired is told what to use instead."""

import json

import pytest

from shipper.config.retired import RETIRED

_COMMANDS = sorted(name for name in RETIRED if name.startswith("shipper "))
_KEYS = sorted(name for name in RETIRED if not name.startswith("shipper "))


def _pipeline(folder, **more):
    """Write a configuration. JSON is YAML, on one line."""
    (folder / "pipelines").mkdir(parents=True)
    (folder / "clusters").mkdir()
    (folder / "clusters/near.yaml").write_text("cluster: near\nbootstrap: 127.0.0.1:9092\n")
    more["source"] = {"path": "logs", "format": "csv", **more.get("source", {})}
    right = {"pipeline": "web", "topic": "t", "clusters": {"near": {}}}
    (folder / "pipelines/web.yaml").write_text(json.dumps({**right, **more}))
    return folder


def _nested(key):
    first, _, rest = key.partition(".")
    return {first: _nested(rest) if rest else 1}


def _place(done):
    [place] = json.loads(done.stdout)["places"]
    return done.returncode, place["code"], place["path"], place["line"]


@pytest.mark.parametrize("key", _KEYS)
def test_a_retired_key_is_refused_at_its_place(key, tmp_path, shipper):
    config = _pipeline(tmp_path / "config", **_nested(key))
    validated = shipper("validate", "--no-sql", "--json", "--config", str(config))
    assert _place(validated) == (2, "SHIP-209", key, 1)
    loaded = shipper(
        *("run", "web", "--window", "2026-11-01/2026-11-02", "--json", "--config", str(config))
    )
    found = json.loads(loaded.stdout)
    assert (found["code"], found["exit_code"]) == ("SHIP-209", 2)
    assert "web.yaml:1:" in found["error"]
    assert RETIRED[key] in found["error"]


@pytest.mark.parametrize("command", _COMMANDS)
def test_a_retired_command_is_refused(command, shipper):
    done = shipper(*command.split()[1:], "x", "--json")
    found = json.loads(done.stdout)
    assert (done.returncode, found["code"]) == (2, "SHIP-209")
    assert RETIRED[command] in found["error"]
    assert "SHIP-209" in shipper(*command.split()[1:], "--help").stderr


def test_a_retired_key_and_option_are_found_wherever_they_are_written(
    tmp_path, shipper, monkeypatch
):
    monkeypatch.setitem(RETIRED, "routes.speed", "Use `delivery.rate_limit`.")
    monkeypatch.setitem(RETIRED, "shipper ledger show --all", "Leave it out.")
    routes = [{"topic": "t", "speed": 1}]
    config = _pipeline(tmp_path / "config", clusters={"near": {"routes": routes}})
    command = ("validate", "--no-sql", "--json", "--config", str(config))
    assert _place(shipper(*command)) == (2, "SHIP-209", "clusters.near.routes[0].speed", 1)
    (config / "pipelines/web.yaml").write_text("pipeline: web\nsource: logs\nclusters: [near]\n")
    (config / "shipper.yaml").write_text(json.dumps({"defaults": {"routes": routes}}))
    assert '"code": "SHIP-209"' in shipper(*command).stdout
    done = shipper("ledger", "show", "web", "--all")
    assert (done.returncode, "SHIP-209" in done.stderr) == (2, True)
