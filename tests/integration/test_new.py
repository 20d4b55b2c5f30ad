"""What `shipper new` makes of a sample ships it, and Spark finds the time that it found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .world import WINDOW, World, lines_of

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

SAMPLES = {
    "access": b'10.0.0.1 - - [01/Nov/2026:06:00:%02d +0100] "GET / HTTP/1.1" 200 5\n',
    "python": b"2026-11-01 06:00:%02d,123 INFO it's there\n",
    "object": b'{"@timestamp": "2026-11-01T06:00:%02dZ", "level": "info"}\n',
    "millis": b'{"level": "info", "at": 17935128%02d123}\n',
}


@pytest.mark.parametrize(
    "kind", ["access", pytest.param("python", marks=pytest.mark.long), "object", pytest.param("millis", marks=pytest.mark.long)]
)
def test_a_new_pipeline_ships_its_sample(kind: str, tmp_path: Path, kafka) -> None:
    world = World(tmp_path, kafka.bootstrap)
    content = b"".join(SAMPLES[kind] % second for second in range(60))
    sample = world.write_log("a.log", content)
    (world.root / "config" / "pipelines" / f"{world.name}.yaml").unlink()
    flags = [
        "--sample",
        str(sample),
        "--source",
        str(world.logs),
        "--topic",
        world.topic(),
        "--cluster",
        "local",
        "--schedule",
        "none",
    ]
    made = world.shipper("new", world.name, *flags)
    assert made.returncode == 0, made.stderr[-4000:]
    done = world.shipper("run", world.name, "--window", WINDOW, "--json")
    assert done.returncode == 0, done.stderr[-4000:]
    checks = {check["check"]: check for check in json.loads(done.stdout)["gate_source"]["checks"]}
    assert checks["not_null(time)"]["passed"], checks["not_null(time)"]
    assert world.read() == lines_of(content)
