"""What `shipper new` makes of a sample ships it, and Spark finds the time that it found."""

import datetime as dt
import json
import re
from pathlib import Path

import pytest

from .world import WINDOW, World, lines_of

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

EXAMPLES = Path(__file__).parents[2] / "examples"
SAMPLES = {
    "access": b'10.0.0.1 - - [01/Nov/2026:06:00:%02d +0100] "GET / HTTP/1.1" 200 5\n',
    "python": b"2026-11-01 06:00:%02d,123 INFO it's there\n",
    "object": b'{"@timestamp": "2026-11-01T06:00:%02dZ", "level": "info"}\n',
    "millis": b'{"level": "info", "at": 17935128%02d123}\n',
}


@pytest.mark.parametrize(
    "kind",
    [
        "access",
        pytest.param("python", marks=pytest.mark.long),
        pytest.param("object", marks=pytest.mark.long),
        pytest.param("millis", marks=pytest.mark.long),
    ],
)
def test_a_new_pipeline_ships_its_sample(kind, tmp_path, kafka):
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


@pytest.mark.long
@pytest.mark.parametrize(
    "sample",
    [
        "nginx_access/logs/2026/11/01/06/web-01.log.gz",
        "app_events/logs/2026/11/01/06/mailer.jsonl",
        "java_stacks/logs/2026-11-01/06/host=orders-1/orders.log",
        "audit_parquet/logs/2026-11-01/part-00000.snappy.parquet",
        "orders_csv/logs/2026-11-01/orders.csv",
    ],
)
def test_what_new_says_next_shows_the_sample_with_its_time(sample, tmp_path, kafka):
    world = World(tmp_path, kafka.bootstrap)
    (world.root / "config" / "pipelines" / f"{world.name}.yaml").unlink()
    flags = [
        "--source",
        str(world.logs),
        "--topic",
        "t",
        "--cluster",
        "local",
        "--schedule",
        "none",
    ]
    made = world.shipper("new", world.name, "--sample", str(EXAMPLES / sample), *flags)
    said = re.search(r"shipper (preview .*?), which shows", " ".join(made.stdout.split()))
    assert said, made.stderr
    shown = world.shipper(*said[1].split(), "--json")
    assert shown.returncode == 0, shown.stderr[-4000:]
    lines = [line for line in json.loads(shown.stdout)["lines"] if line["outcome"] == "shipped"]
    assert len(lines) >= 19
    assert all(
        line["timestamp_ms"] // 86_400_000 * 86_400
        == dt.datetime(2026, 11, 1, tzinfo=dt.UTC).timestamp()
        for line in lines
    )
