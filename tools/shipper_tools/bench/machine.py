"""The machine that a benchmark runs on, and what its processes have used."""

from __future__ import annotations

import platform
import subprocess
from importlib import metadata
from pathlib import Path

import psutil

from shipper_tools.bench.results import Machine
from shipper_tools.dev.java import find_java
from shipper_tools.dev.kafka import JARS

_PACKAGES = ("confluent-kafka", "pyspark", "pyarrow")


def describe() -> Machine:
    """Without anything that names the machine or its user."""
    info = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    models = [line.partition(":")[2].strip() for line in info.splitlines() if line.startswith("model name")]
    return Machine(
        cpu=models[0] if models else platform.machine(),
        cores=len(psutil.Process().cpu_affinity() or ()),
        memory_gb=round(psutil.virtual_memory().total / 2**30, 1),
        system=f"{platform.system()} {platform.release().partition('-')[0]}",
        load_before=round(psutil.getloadavg()[0], 2),
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


def process_seconds(process: psutil.Process, *, with_reaped_children: bool = False) -> float:
    """User and system time of a process in seconds; 0 if it is gone."""
    try:
        used = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    own: float = used.user + used.system
    return own + used.children_user + used.children_system if with_reaped_children else own


def command_of(process: psutil.Process) -> list[str]:
    """Empty if it is gone, or a zombie."""
    try:
        words: list[str] = process.cmdline()
    except psutil.Error:
        return []
    return words


def is_python_worker(command: list[str]) -> bool:
    """Of Spark's, or the daemon that it is forked from."""
    return "pyspark.daemon" in command or "pyspark.worker" in command
