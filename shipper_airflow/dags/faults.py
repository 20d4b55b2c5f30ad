"""Faults of a step, and of the configuration; those are kept beside Airflow's own files on this
machine. Imports no model: what reads them has a process of its own at each parse.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

from shipper.errors import ConfigError, ShipperError
from shipper.whole_files import write_whole


class BrokenConfigurationError(Exception):
    """Some of its files cannot become a DAG."""


class StepFailed(SystemExit):
    """Ends a task that has said in its log why it failed. Of any other exception Airflow would show
    the frames, which are its own and ours."""

    def __init__(self, message: str, *, final: bool = True, said: bool = False) -> None:
        super().__init__(1)
        self.message, self.said = message, said
        """The reason, and whether the step's own log has it already."""
        self.final = final
        """True if the task is not to be tried again: that cannot help without a change, or another
        run does it."""

    def __str__(self) -> str:
        return self.message


def keep_faults(config_dir: Path, faults: Mapping[str, tuple[str, ...]]) -> None:
    """Keep faults for :func:`raise_faults`. ``faults``: DAG → messages; none: all is well."""
    with suppress(OSError):
        path = kept_folder(config_dir) / ".faults.json"
        if not faults:
            return path.unlink(missing_ok=True)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(str(path), json.dumps(faults))


def raise_other_version(dags: Path, written_by: str) -> None:
    """Raise ShipperError if the files in ``dags`` were written by another version than the
    installed one."""
    if (installed := version("shipper")) != written_by:
        again = shlex.join(["shipper", "dags", "install", str(dags)])
        raise ShipperError(
            f"shipper {written_by} wrote these files, and Airflow has shipper {installed}. The "
            f"DAGs still run. Run `{again}` with {installed}.",
            code="SHIP-902",
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
            (kept_folder(config_dir) / ".faults.json").read_text(encoding="utf-8")
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


def kept_folder(config_dir: Path) -> Path:
    """Return the folder on this machine of what is kept of a configuration."""
    home = Path(os.environ.get("AIRFLOW_HOME") or "~/airflow").expanduser()
    return (
        home
        / "shipper"
        / "last_good"
        / hashlib.sha256(str(config_dir.absolute()).encode()).hexdigest()[:12]
    )
