"""The machine that a benchmark runs on, and what its processes have used."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from shipper_tools.bench.results import Machine
from shipper_tools.dev.java import find_java
from shipper_tools.dev.kafka import JARS

_PACKAGES = ("confluent-kafka", "pyspark", "pyarrow")
_TICKS = os.sysconf("SC_CLK_TCK")


def describe() -> Machine:
    """Without anything that names the machine or its user."""
    info = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    models = [line.partition(":")[2].strip() for line in info.splitlines() if line.startswith("model name")]
    return Machine(
        cpu=models[0] if models else platform.machine(),
        cores=len(os.sched_getaffinity(0)),
        memory_gb=round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        system=f"{platform.system()} {platform.release().partition('-')[0]}",
        load_before=round(os.getloadavg()[0], 2),
        versions=_versions(),
    )


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "java": find_java().version, "broker": JARS}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    found["shipper"] = _commit() or metadata.version("shipper")
    return found


def _commit() -> str | None:
    """Of the checkout that this file is in; ``+`` if it was changed since."""
    root = Path(__file__).resolve().parents[3]
    if not (root / ".git").exists():
        return None
    words = ["git", "-C", str(root), "describe", "--always", "--dirty=+", "--exclude=*"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.stdout.strip() or None


def cpu_seconds(pids: Mapping[str, list[int]]) -> dict[str, float]:
    """User and system time of processes until now, by kind. One that is gone counts nothing."""
    return {kind: sum(process_seconds(pid) for pid in kinds) for kind, kinds in pids.items()}


def process_seconds(pid: int, *, with_reaped_children: bool = False) -> float:
    """User and system time of a process in seconds; 0 if it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    # utime, stime, cutime and cstime: fields 14 to 17 of proc(5)
    return sum(int(field) for field in fields[11 : 15 if with_reaped_children else 13]) / _TICKS
