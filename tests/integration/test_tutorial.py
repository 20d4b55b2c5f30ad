"""The tutorial docs/start/first-pipeline.md, as it stands there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from shipper_tools.dev import servers

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.long]

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "start" / "first-pipeline.md"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    for server in servers.remembered(tmp_path / "dev"):
        server.stop(grace_seconds=0)


def test_the_first_pipeline_of_the_tutorial_ships_and_reads_back(folder: Path) -> None:
    page = PAGE.read_text(encoding="utf-8")
    pipeline, cluster = re.findall(r"```yaml\n(.*?)```", page, re.S)[:2]
    environment = {**os.environ, "SHIPPER_DEV_HOME": str(folder / "dev")}

    def shipper(*arguments: str) -> str:
        command = [sys.executable, "-m", "shipper", *arguments]
        environment["PYTHONPATH"] = str(ROOT)
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    address = re.search(r"127\.0\.0\.1:\d+", shipper("dev", "up", "kafka", "--port", "0"))
    assert address
    shipper("dev", "topic", "logs.mine")
    for kind, name, text in (
        ("pipelines", "mine", pipeline),
        ("clusters", "here", cluster.replace("127.0.0.1:9092", address[0])),
    ):
        (folder / "config" / kind).mkdir(parents=True)
        (folder / "config" / kind / f"{name}.yaml").write_text(text)
    (folder / "logs").mkdir()
    (folder / "logs" / "one.log").write_text("".join(f"line {n}\n" for n in range(1, 1001)))
    window = ("--window", "2026-11-01/2026-11-02")
    assert "here: 1,000 records sent" in shipper("run", "mine", *window)
    assert sorted(shipper("dev", "read", "logs.mine").splitlines()) == sorted(
        f"line {n}" for n in range(1, 1001)
    )
    assert "here: 0 records sent" in shipper("run", "mine", *window)
