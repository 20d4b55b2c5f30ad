"""The demo as a newcomer meets it: S3, Kafka, a scheduler, a DAG run, the report; then the same
window again."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.scheduler, pytest.mark.kafka, pytest.mark.spark, pytest.mark.long]


def test_the_demo_ships_every_line_once_and_nothing_the_second_time():
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-m", "shipper", "demo", "--lines", "20000"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "s3a://shop-logs/" in done.stdout
    assert "0 sent" in done.stdout or "nothing was sent" in done.stdout, done.stdout[-2000:]
