"""Checks of `shipper validate` beyond loading: that notifiers can be imported and take the
arguments of `with`, and that sources fit their schedules.

Importing Airflow takes seconds, and a module may do anything when it is imported, so a process of
its own does it. This process finds modules where Airflow finds them, and none in the working
directory.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from shipper.config import ConfigFault, LoadedConfig, locate
from shipper.windows.fit import misfits

_SECONDS = 120.0


def check_notifiers(
    config_dir: Path, loaded: LoadedConfig
) -> tuple[dict[str, list[ConfigFault]], str | None]:
    """Import every notifier that a pipeline names. Return the faults of each pipeline that has
    some, and the reason why notifiers could not be checked, if they could not."""
    named = [
        (name, index, entry)
        for name, pipeline in loaded.pipelines.items()
        for index, entry in enumerate(pipeline.notify)
    ]
    if not named:
        return {}, None
    if find_spec("airflow") is None:
        return {}, "Airflow is not installed here"
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
            return {}, f"Airflow does not start here: {last}"
        except (subprocess.TimeoutExpired, ValueError):
            return {}, "Airflow does not answer here"
    faults = dict[str, list[ConfigFault]]()
    for (name, index, entry), fault in zip(named, answers, strict=True):
        if fault:
            found = locate(
                config_dir, name, f"notify[{index}].notifier", f"{entry.notifier}: {fault}"
            )
            faults.setdefault(name, []).append(found)
    return faults, None


def source_warnings(config_dir: Path, loaded: LoadedConfig) -> list[ConfigFault]:
    """Return the entries of the pipelines' `source.path` that are allowed and most likely
    mistakes."""
    return [
        locate(config_dir, name, "source.path", why)
        for name, pipeline in loaded.pipelines.items()
        for why in misfits(pipeline)
    ]
