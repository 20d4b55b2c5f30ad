"""The machine that a benchmark runs on, and what its processes have used."""

from __future__ import annotations

import platform
import resource
import subprocess
from importlib import metadata
from pathlib import Path

import psutil

from shipper.java import find_java
from shipper_tools.bench.results import Machine
from shipper_tools.dev.kafka_tools import JARS

_PACKAGES = ("confluent-kafka", "pyspark", "pyarrow")


def describe() -> Machine:
    """Describe the machine without anything that names it or its user."""
    info = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    models = [
        line.partition(":")[2].strip()
        for line in info.splitlines()
        if line.startswith("model name")
    ]
    versions = {
        "python": platform.python_version(),
        "java": find_java().version,
        "broker": JARS,
        "shipper": _commit(),
    }
    return Machine(
        cpu=models[0] if models else platform.machine(),
        cores=len(psutil.Process().cpu_affinity() or ()),
        memory_gb=round(psutil.virtual_memory().total / 2**30, 1),
        system=f"{platform.system()} {platform.release().partition('-')[0]}",
        load_before=round(psutil.getloadavg()[0], 2),
        versions=versions | {package: metadata.version(package) for package in _PACKAGES},
    )


def _commit() -> str:
    """Return the commit of this checkout; ``+`` if it was changed since."""
    words = ["git", "describe", "--always", "--dirty=+", "--exclude=*"]
    said = subprocess.run(words, cwd=Path(__file__).parent, capture_output=True, text=True)
    return said.stdout.strip() or metadata.version("shipper")


def process_seconds(process: psutil.Process) -> float:
    """Return user and system time of a process in seconds; 0 if it is gone."""
    try:
        used = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(used.user + used.system)


def ended_children_seconds() -> float:
    """Return the CPU seconds of this process's children that have ended, and of theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
