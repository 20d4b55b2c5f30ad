"""Whether two processes run the same shipper is known before anything is sent."""

import shutil
import subprocess
import sys
from pathlib import Path

from shipper.worker.order import code_digest

ROOT = Path(__file__).parents[2]


def digest_in(folder):
    command = [
        sys.executable,
        "-c",
        "from shipper.worker.order import code_digest; print(code_digest())",
    ]
    return subprocess.run(
        command,
        cwd=folder,
        env={"PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()


def test_the_digest_goes_by_what_tasks_run_and_not_by_where_it_lies(tmp_path):
    for package in ("config", "kafka", "ledger", "worker"):
        shutil.copytree(
            ROOT / "shipper" / package,
            tmp_path / "shipper" / package,
            ignore=shutil.ignore_patterns("__pycache__"),
        )
    for path in (ROOT / "shipper").glob("*.py"):
        shutil.copy(path, tmp_path / "shipper")
    assert digest_in(tmp_path) == code_digest()
    (tmp_path / "shipper" / "cache.py").write_text("# no task runs it\n")
    assert digest_in(tmp_path) == code_digest()
    with (tmp_path / "shipper" / "worker" / "order.py").open("a") as order:
        order.write("# another field\n")
    assert digest_in(tmp_path) != code_digest()
