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
from shipper.config.pipeline import Pipeline
from shipper.config.platform import NAME as PLATFORM
from shipper.errors import ConfigError


class LastGood:
    def __init__(self, config_dir: Path) -> None:
        home = Path(os.environ.get("AIRFLOW_HOME") or "~/airflow").expanduser()
        digest = hashlib.sha256(str(config_dir.absolute()).encode()).hexdigest()[:12]
        self._config_dir = config_dir
        self._copies = home / "shipper" / "last_good" / digest

    def _copy_of(self, name: str) -> Path:
        """A configuration's folder with this pipeline alone: its file, and the platform's as it was then."""
        return self._copies / name

    def keep(self, name: str) -> None:
        """Copies the pipeline's file and the platform's if they are others than the copies. Where nothing can be written there is no copy."""
        with contextlib.suppress(OSError):
            for file in (f"pipelines/{name}.yaml", PLATFORM):
                _keep(self._config_dir / file, self._copy_of(name) / file)

    def find(self, name: str) -> Pipeline | None:
        """None if there is no copy, or no longer one that can be read."""
        try:
            return load_pipeline_alone(self._copy_of(name), name, EVERYTHING)
        except (ConfigError, OSError):
            return None


def _keep(source: Path, copy: Path) -> None:
    there = _looks(source)
    if _looks(copy) == there:
        return
    if there is None:
        return copy.unlink()
    copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    partial = copy.with_name(f"{copy.name}.{os.getpid()}")
    shutil.copy2(source, partial)
    partial.replace(copy)


def _looks(path: Path) -> tuple[int, int] | None:
    """None: there is none."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_size, found.st_mtime_ns
