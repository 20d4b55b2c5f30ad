"""Checks of `shipper validate` beyond loading. No server is asked. Each yields its faults with the
pipeline or the cluster that they are of.

Importing Airflow takes seconds, and a module may do anything when it is imported, so a process of
its own imports the notifiers. That process finds modules where Airflow finds them, and none in the
working directory.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import islice, pairwise
from pathlib import Path

from shipper import runner
from shipper.config.load import LoadedConfig, locate, locate_property, references
from shipper.config.pipeline import Pipeline
from shipper.config.rules import missing_date_parts
from shipper.config.runner_options import Runner
from shipper.config.yaml_file import ConfigFault
from shipper.error_codes import code_of
from shipper.errors import UsageError, WindowError
from shipper.kafka.connection import refusal
from shipper.windows.ticks import Ticks
from shipper.windows.window import source_paths

_SECONDS = 120.0
_LOOKED_AT = 8
"""Windows, from the beginning of a month on: as many as a schedule with two windows a day needs."""
_WINDOWS_PATH = re.compile(r"[A-Za-z]:\\")
_FROM = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)


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


def misfits(pipeline: Pipeline) -> Iterator[str]:
    """Yield what is allowed in `source.path`, and most likely a mistake."""
    path = pipeline.source.path
    if "$(" in path or "`" in path:
        yield (
            "no shell reads the path, so what looks like a command is the name of a folder; write "
            "the time as in {window_start:%Y-%m-%d}"
        )
    if _WINDOWS_PATH.match(path):
        yield "a backslash parts no folders; write slashes"
    if missing := missing_date_parts(path):
        yield (
            f"the folder's name repeats, because {', '.join(missing)} is not in it: a window "
            "also reads the files of other times. Write the whole date, as in "
            "{window_start:%Y/%m/%d}"
        )
        return
    if pipeline.source.shared_folders or pipeline.schedule is None:
        return
    if "{window_start:" not in path:
        return
    windows = islice(
        Ticks(pipeline.schedule).windows(_FROM, _FROM + dt.timedelta(days=3660)), _LOOKED_AT
    )
    for window, following in pairwise(windows):
        try:
            shared = set(source_paths(path, window)) & set(source_paths(path, following))
        except WindowError:
            return
        if shared:
            yield (
                f"windows of the schedule share folders: {window} and {following} both have "
                f"{min(shared)}. Each run lists the whole folder, and its gates judge all files "
                "in it. Name folders as fine as the schedule, or close windows when the "
                "folder's name changes (placeholders are UTC). If the windows share folders by "
                "intent, write `shared_folders: true`"
            )
            return


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
