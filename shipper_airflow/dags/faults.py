"""Faults of the configuration, and its files as they were when they were right: both beside
Airflow's own files, on this machine alone."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

from shipper import runtime
from shipper.config import load_pipeline_alone
from shipper.config.environment import EVERYTHING
from shipper.config.pipeline import Pipeline
from shipper.config.platform import NAME as PLATFORM
from shipper.errors import ConfigError
from shipper.whole_files import write_whole

SHOWN_SECONDS = 86_400.0
"""Time that a pipeline's DAG stays after its file was removed."""
_REMOVED = "removed"
"""Name of an empty file beside a copy, as old as the removal."""


class BrokenConfigurationError(Exception):
    """Some of its files cannot become a DAG."""


class OtherVersionError(Exception):
    """The files in Airflow's folder of DAGs are of another version than the installed shipper."""


def keep_faults(config_dir: Path, faults: Mapping[str, tuple[str, ...]]) -> None:
    """Keep faults for :func:`raise_faults`. ``faults``: DAG → messages; none: all is well."""
    with suppress(OSError):
        path = _folder_of(config_dir) / ".faults.json"
        if not faults:
            return path.unlink(missing_ok=True)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(str(path), json.dumps(faults))


def raise_other_version(dags: Path, written_by: str) -> None:
    """Raise OtherVersionError if the files in ``dags`` were written by another version than the
    installed one."""
    if (installed := version("shipper")) != written_by:
        raise OtherVersionError(
            f"shipper {written_by} wrote these files, and Airflow has shipper {installed}. The "
            f"DAGs still run. Run `shipper dags install {dags}` with {installed}. [SHIP-902]"
        )


def raise_faults(config_dir: Path) -> None:
    """Raise BrokenConfigurationError with what the latest parse of the DAGs found, if it found
    something, or if there is no such folder."""
    if not config_dir.is_dir():
        raise BrokenConfigurationError(
            f"{config_dir} does not exist, so no pipeline has a DAG. Set SHIPPER_CONFIG, or run "
            f"`shipper dags install` again with --config. [SHIP-203]"
        )
    try:
        faults: dict[str, list[str]] = json.loads(
            (_folder_of(config_dir) / ".faults.json").read_text(encoding="utf-8")
        )
    except OSError:
        return
    what = "\n\n".join(
        "\n".join([f"{dag_id}:", *found]) for dag_id, found in sorted(faults.items())
    )
    raise BrokenConfigurationError(
        "these pipelines ship nothing until their files are corrected; `shipper validate` checks "
        f"them [{ConfigError.code}]\n\n{what}"
    )


def _folder_of(config_dir: Path) -> Path:
    home = Path(os.environ.get("AIRFLOW_HOME") or "~/airflow").expanduser()
    return (
        home
        / "shipper"
        / "last_good"
        / hashlib.sha256(str(config_dir.absolute()).encode()).hexdigest()[:12]
    )


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
        self._copies = _folder_of(config_dir)

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
