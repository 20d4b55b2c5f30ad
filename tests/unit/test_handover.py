"""The order, with its passwords, reaches other processes of this user and no disk."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from spark_jobs.handover import handed_over, sweep

needs_memory = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="no memory that other processes can open")


@needs_memory
def test_another_process_reads_it_twice_and_no_disk_has_it(tmp_path: Path) -> None:
    with handed_over(b"canary" * 1000, tmp_path) as path:
        read = [sys.executable, "-c", "import sys; print(len(open(sys.argv[1], 'rb').read()))", path]
        for _ in range(2):
            assert subprocess.run(read, capture_output=True, text=True, check=True).stdout == "6000\n"
        assert not list(tmp_path.iterdir())
    assert not Path(path).exists()


@needs_memory
def test_nothing_is_left_when_the_driver_is_killed(tmp_path: Path) -> None:
    hold = "import sys, time, pathlib; from spark_jobs.handover import handed_over\n"
    hold += "with handed_over(b'canary', pathlib.Path(sys.argv[1])) as path: print(path, flush=True); time.sleep(60)"
    root = Path(__file__).resolve().parents[2]
    driver = subprocess.Popen(
        [sys.executable, "-c", hold, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    assert driver.stdout is not None
    path = Path(driver.stdout.readline().strip())
    assert path.read_bytes() == b"canary"
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    driver.stdout.close()
    assert not path.exists()
    assert not list(tmp_path.iterdir())


def test_orders_that_killed_processes_left_in_files_are_swept_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    old, young, other = (tmp_path / folder / "order" for folder in ("shipper-old", "shipper-young", "elsewhere"))
    for path in (old, young, other):
        path.parent.mkdir()
        path.write_text("canary")
    an_hour_ago = time.time() - 3600
    for path in (old, other):
        os.utime(path, (an_hour_ago, an_hour_ago))
    sweep()
    assert (old.exists(), young.exists(), other.exists()) == (False, True, True)
