"""Starting the Spark side: one command line for Airflow, for ``shipper run`` and for a person who wants to look.

Every step is an argument of the same entry point, ``python -m spark_jobs``. Airflow passes one step per task,
``shipper run`` all of them, so that both run the same code. The Spark side may live in an environment of its own
(``runner.python``, ``runner.spark_submit``).
"""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from shipper.config.models import Pipeline, Runner
from shipper.errors import UsageError

PLAN, GATE_SOURCE, SHIP, GATE_DELIVERY, REPORT = "plan", "gate_source", "ship", "gate_delivery", "report"


def new_run_id() -> str:
    """Sortable by time and unique: ``20261121T113000-3f9a1c``."""
    return f"{dt.datetime.now(dt.UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(3)}"


def step_names(clusters: Sequence[str]) -> list[str]:
    """All steps of a run in order: ``plan``, ``gate_source``, then ``ship:CLUSTER``, ``gate_delivery:CLUSTER`` for each, ``report``."""
    per_cluster = [f"{step}:{cluster}" for cluster in clusters for step in (SHIP, GATE_DELIVERY)]
    return [PLAN, GATE_SOURCE, *per_cluster, REPORT]


@dataclass(frozen=True)
class Job:
    """Some steps of one run of one pipeline."""

    pipeline: Pipeline
    config_dir: Path
    window_start: dt.datetime
    window_end: dt.datetime
    run_id: str
    steps: tuple[str, ...]
    reship: bool = False
    runs_uri: str | None = None
    """In place of the pipeline's."""
    source_only: bool = False
    """Whether the plan leaves the clusters alone; for a look at the source that also works while they are down."""

    def command(self) -> list[str]:
        """argv of the process that runs the steps. Holds no secret: those are read from the config by the job itself."""
        runner = self.pipeline.runner
        arguments = [
            *("--config", str(self.config_dir), "--pipeline", self.pipeline.name, "--run-id", self.run_id),
            *("--window", f"{self.window_start.isoformat()}/{self.window_end.isoformat()}"),
            *(["--reship"] if self.reship else []),
            *(["--runs-uri", self.runs_uri] if self.runs_uri else []),
            *(["--source-only"] if self.source_only else []),
            *self.steps,
        ]
        if runner.spark_submit is None:
            return [runner.python or sys.executable, "-m", "spark_jobs", *arguments]
        main = Path(__file__).resolve().parents[1] / "spark_jobs" / "__main__.py"
        settings = [word for key, value in runner.conf.items() for word in ("--conf", f"{key}={value}")]
        options = ["--master", runner.spark_master, "--deploy-mode", "client", "--driver-memory", runner.driver_memory]
        return [runner.spark_submit, *options, *settings, str(main), *arguments]


def environment(runner: Runner) -> dict[str, str]:
    """This process's environment, with Spark's Python set to the one that the runner names and the project importable."""
    python = runner.python or sys.executable
    root = Path(__file__).resolve().parents[1]
    # A checkout must be found from any working directory; an installed shipper is found anyway, and its site-packages
    # must not come before those of another environment.
    checkout = [str(root)] if (root / "pyproject.toml").exists() else []
    path = os.pathsep.join(p for p in (*checkout, os.environ.get("PYTHONPATH")) if p)
    ours = {"PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python, "PYTHONPATH": path, "GX_ANALYTICS_ENABLED": "false"}
    if runner.kind == "local":
        # Else Spark looks its own host's name up, and complains when that is a loopback address.
        ours["SPARK_LOCAL_IP"] = os.environ.get("SPARK_LOCAL_IP", "127.0.0.1")
    return {**os.environ, **ours}


def run_job(job: Job, *, stdout: int | IO[bytes] | None = None, stderr: int | IO[bytes] | None = None) -> int:
    """Runs the steps, waits, and returns the exit code (see :mod:`shipper.errors`). The child's log goes to stderr.

    The child gets a session of its own, so that stopping it (Ctrl-C, Airflow's on_kill) stops the JVM and Spark's
    Python workers with it; a SIGKILL of this process leaves it running, and then fencing keeps it harmless.
    """
    command = job.command()
    try:
        child = subprocess.Popen(
            command,
            env=environment(job.pipeline.runner),
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )
    except OSError as error:
        raise UsageError(
            f"pipeline {job.pipeline.name}: cannot start {command[0]} ({error.strerror}); correct `runner.python` or "
            "`runner.spark_submit`, or leave it out to use the environment that runs shipper"
        ) from error
    try:
        return child.wait()
    except BaseException:
        stop_group(child)
        raise


def stop_group(child: subprocess.Popen[bytes], grace_seconds: float = 10.0) -> None:
    """TERM to the whole process group; KILL to what is left of it after the grace, or when its leader is gone."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(grace_seconds)
        os.killpg(child.pid, signal.SIGKILL)
        child.wait(5.0)
