"""Pipelines as they were when their files could last be read: copies beside Airflow's own files, on this machine alone.

A pipeline whose file is broken for a moment (half of it saved, a merge gone wrong) keeps its DAG with the tasks that it had. A DAG without
them would make Airflow remove these tasks from runs in progress and end their processes. Nothing is shipped by a copy: a task that
begins while the file is broken fails and says what is wrong with it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from pathlib import Path

from shipper.config import load_pipeline_alone
from shipper.config.environment import EVERYTHING
from shipper.config.models import Pipeline
from shipper.errors import ConfigError


class LastGood:
    def __init__(self, config_dir: Path) -> None:
        home = Path(os.environ.get("AIRFLOW_HOME") or "~/airflow").expanduser()
        digest = hashlib.sha256(str(config_dir.absolute()).encode()).hexdigest()[:12]
        self._config_dir = config_dir
        self._copies = home / "shipper" / "last_good" / digest

    def keep(self, name: str) -> None:
        """Copies the pipeline's file if it is another than the copy. Where nothing can be written there is no copy."""
        source, copy = (folder / "pipelines" / f"{name}.yaml" for folder in (self._config_dir, self._copies))
        with contextlib.suppress(OSError):
            if copy.exists() and _looks(copy) == _looks(source):
                return
            copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            partial = copy.with_name(f"{copy.name}.{os.getpid()}")
            shutil.copy2(source, partial)
            partial.replace(copy)

    def find(self, name: str) -> Pipeline | None:
        """None if there is no copy, or no longer one that can be read."""
        try:
            return load_pipeline_alone(self._copies, name, EVERYTHING)
        except (ConfigError, OSError):
            return None


def _looks(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_size, found.st_mtime_ns
