"""Checks of `shipper validate` beyond loading. No server is asked. Each yields its faults with the
pipeline or the cluster that they are of.

Importing Airflow takes seconds, and a module may do anything when it is imported, so a process of
its own imports the notifiers. That process finds modules where Airflow finds them, and none in the
working directory.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from shipper import runner
from shipper.config import ConfigFault, LoadedConfig, locate
from shipper.config.load import locate_property, references
from shipper.config.runner_options import Runner
from shipper.error_codes import code_of
from shipper.errors import UsageError
from shipper.kafka.connection import refusal
from shipper.windows.fit import misfits

_SECONDS = 120.0


_Faults = list[tuple[str, ConfigFault]]


def wrong_notifiers(config_dir: Path, loaded: LoadedConfig) -> _Faults | str:
    """Import every notifier that a pipeline names. A text says why they could not be checked."""
    named = [
        (name, index, entry)
        for name, pipeline in loaded.pipelines.items()
        for index, entry in enumerate(pipeline.notify)
    ]
    if not named:
        return []
    if find_spec("airflow") is None:
        return "Airflow is not installed here"
    asked = json.dumps([[entry.notifier, dict.fromkeys(entry.with_)] for _, _, entry in named])
    with tempfile.TemporaryDirectory(prefix="shipper-airflow-") as folder:
        # Airflow writes its configuration into a home that does not exist yet.
        home = (
            {}
            if "AIRFLOW_HOME" in os.environ or Path("~/airflow").expanduser().exists()
            else {"AIRFLOW_HOME": folder}
        )
        command = [sys.executable, "-P", "-m", "shipper_airflow.notifiers"]
        try:
            done = subprocess.run(
                command,
                input=asked,
                env=os.environ | home,
                capture_output=True,
                text=True,
                timeout=_SECONDS,
                check=True,
            )
            answers = json.loads(done.stdout)
        except subprocess.CalledProcessError as error:
            last = (error.stderr.strip().splitlines() or ["it does not say why"])[-1]
            return f"Airflow does not start here: {last}"
        except (subprocess.TimeoutExpired, ValueError):
            return "Airflow does not answer here"
    return [
        (name, locate(config_dir, name, f"notify[{index}].notifier", f"{entry.notifier}: {fault}"))
        for (name, index, entry), fault in zip(named, answers, strict=True)
        if fault
    ]


def doubtful_sources(config_dir: Path, loaded: LoadedConfig) -> _Faults:
    """Return the entries of the pipelines' `source.path` that are allowed and most likely
    mistakes."""
    return [
        (name, locate(config_dir, name, "source.path", why))
        for name, pipeline in loaded.pipelines.items()
        for why in misfits(pipeline)
    ]


def refused_properties(config: Path, loaded: LoadedConfig) -> _Faults:
    """Return librdkafka's complaint about each cluster's properties; no server is asked."""
    said = ((name, refusal(cluster)) for name, cluster in loaded.clusters.items())
    return [(name, locate_property(config, name, why)) for name, why in said if why]


def wrong_sql(
    config: Path, loaded: LoadedConfig, pipeline: str | None, *, runner_python: bool
) -> _Faults:
    """Return the faults that Spark finds in the expressions, by this very Python, so that a check
    need not trust the configuration's programs."""
    job_runner = Runner(
        python=next(iter(loaded.pipelines.values())).runner.python if runner_python else None
    )
    command = [
        job_runner.python or sys.executable,
        "-m",
        "spark_jobs",
        "--config",
        str(config),
        "check",
    ]
    command += ["--pipeline", pipeline] if pipeline else []
    referred = {
        found.name
        for name in loaded.pipelines
        for found in references(config, name)
        if found.kind == "environment"
    }
    try:
        done = subprocess.run(
            command,
            env=runner.environment(job_runner, referred),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        failed, said = done.returncode != 0, done.stderr.decode(errors="replace")
    except OSError as error:
        failed, said = True, str(error)
    if failed:
        tail = (said.strip().splitlines() or ["no output"])[-1]
        if code_of(tail) not in (None, "SHIP-110"):
            raise UsageError(f"SQL expressions could not be analysed: {tail}")
        raise UsageError(
            f"SQL expressions could not be analysed: {command[0]} -m spark_jobs failed "
            f"({tail}). Install shipper[spark] there, use the environment of "
            "`runner.python` with --runner-python, or skip the analysis with --no-sql.",
            code="SHIP-114",
        )
    found: dict[str, list[tuple[str, str]]] = json.loads(done.stdout)
    return [
        (name, locate(config, name, *fault)) for name, faults in found.items() for fault in faults
    ]
