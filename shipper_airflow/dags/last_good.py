"""Files of the configuration as they were when they were right: copies beside Airflow's own files,
on this machine alone."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from shipper import runtime
from shipper.config.environment import EVERYTHING
from shipper.config.load import load_pipeline_alone
from shipper.config.pipeline import Pipeline
from shipper.config.platform import NAME as PLATFORM
from shipper.errors import ConfigError
from shipper_airflow.dags.faults import kept_folder

SHOWN_SECONDS = 86_400.0
"""Time that a pipeline's DAG stays after its file was removed."""
_REMOVED = "removed"
"""Name of an empty file beside a copy, as old as the removal."""


def is_removed(config_dir: Path, name: str) -> bool:
    """True if the pipeline's file is gone, though the folder is there."""
    folder = config_dir / "pipelines"
    return folder.is_dir() and not (folder / f"{name}.yaml").exists()


def removed(config_dir: Path, name: str, pipelines: Iterable[Pipeline]) -> str:
    """Return what the removal means for the data, and what to do. ``pipelines``: those that there
    are."""
    if new := next((one.name for one in pipelines if name in one.formerly), None):
        return (
            f"Pipeline {name} is called {new} now. {new} has its ledger and its results, and ships "
            "the rest. There is nothing to do."
        )
    return (
        f"{config_dir.name}/pipelines/{name}.yaml is gone, so the pipeline ships nothing any more. "
        "What was delivered stays delivered. If somebody removed the file by mistake, put it "
        "back and clear the run. Otherwise there is nothing to do."
    )


class LastGood:
    """Pipelines as they were when their files could last be read: copies beside Airflow's own
    files, on this machine alone.

    A pipeline whose file is broken for a moment (half of it saved, a failed merge) keeps its DAG
    with its former tasks. A DAG without them would make Airflow remove these tasks from runs in
    progress and end their processes. No copy ships records: a task that begins while the file is
    broken fails and names its faults.
    """

    def __init__(self, config_dir: Path) -> None:
        self._config_dir = config_dir
        self._copies = kept_folder(config_dir)

    def _copy_of(self, name: str) -> Path:
        """Return a configuration's folder with this pipeline alone: its file, and the platform's as
        it was then."""
        return self._copies / name

    def keep(self, name: str) -> None:
        """Copy the pipeline's file and the platform's if they differ from the copies. Where nothing
        can be written there is no copy."""
        with suppress(OSError):
            for file in (f"pipelines/{name}.yaml", PLATFORM):
                _keep(self._config_dir / file, self._copy_of(name) / file)
            (self._copy_of(name) / _REMOVED).unlink(missing_ok=True)

    def removed(self, present: Collection[str]) -> Iterator[str]:
        """Yield pipelines whose file was removed less than a day ago: a run on its way still has
        tasks to end. ``present``: all others. Forgets pipelines that were removed earlier."""
        with suppress(OSError):
            for copy in sorted(self._copies.iterdir()):
                name, noticed = copy.name, copy / _REMOVED
                if not copy.is_dir() or name in present:
                    continue
                if not noticed.exists():
                    noticed.touch()
                if runtime.time() - noticed.stat().st_mtime < SHOWN_SECONDS:
                    yield name
                else:
                    shutil.rmtree(copy, ignore_errors=True)

    def find(self, name: str) -> Pipeline | None:
        """Return the pipeline of the copy; None if there is no copy, or no longer one that can be
        read."""
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
    """Return size and time of a file; None if it does not exist."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_size, found.st_mtime_ns
