"""``shipper dags``: the two files that Airflow finds the pipelines' DAGs by."""

from __future__ import annotations

import json
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from shipper.cli.console import Config, Json, err, new_app, out, print_json
from shipper.errors import UsageError, why_system
from shipper.whole_files import output_file

app = new_app("dags", "Write the files through which Airflow finds the pipelines' DAGs.")

#: Marker of shipper's own files, of whatever version.
_OURS = "from shipper_airflow import dags"
_DAGS = f'''\
"""Airflow finds a DAG for every pipeline here. Written by `shipper dags install`."""

{_OURS}
{{config}}
globals().update(dags.of(__file__))
'''
_FAULTS = f'''\
"""Airflow lists as an import error what is wrong in the configuration. The file is one of its own,
so that this harms no DAG. Written by `shipper dags install`."""

{_OURS}

dags.raise_faults(__file__, written_by="{{version}}")
'''


def dag_files(config: Path | None = None) -> dict[str, str]:
    """Return the name and the text of each file. ``config``: the configuration's folder; None: the
    ``config`` beside the folder of DAGs."""
    line = f"\nCONFIG = {json.dumps(str(config))}  # unless SHIPPER_CONFIG names another\n"
    return {
        "shipper_dags.py": _DAGS.format(config=line if config else ""),
        "shipper_faults.py": _FAULTS.format(version=version("shipper")),
    }


def write_dag_files(folder: Path, config: Path) -> list[Path]:
    """Write the files that are missing or outdated, and return them. ``config``: the
    configuration's folder.

    Raises UsageError if another file has such a name, or the folder cannot be written to.
    """
    beside = folder.absolute().parent / "config"
    files = dag_files(None if config.absolute() == beside else config.absolute())
    wanted = {folder / name: text for name, text in files.items()}
    try:
        there = {path: path.read_text("utf-8") for path in wanted if path.exists()}
        for path, text in there.items():
            if _OURS not in text:
                raise UsageError(
                    f"{path} exists already and is not one of shipper's files. Nothing was "
                    "written. Move the file away, or name another folder.",
                    code="SHIP-103",
                )
        stale = [path for path, text in wanted.items() if there.get(path) != text]
        for path in stale:
            with output_file(path, force=True) as part:
                part.write_text(wanted[path], "utf-8")
    except OSError as error:
        raise UsageError(
            f"{folder} cannot be written to: {why_system(error)}.", code="SHIP-104"
        ) from error
    return stale


@app.callback()
def about() -> None:
    """Write the files that Airflow finds the pipelines' DAGs by."""


@app.command(
    epilog="Example: `shipper dags install /opt/airflow/dags --config /etc/shipper` · "
    "`shipper dags install dags` in a repository that Airflow reads"
)
def install(
    folder: Annotated[Path, typer.Argument(help="Airflow's folder of DAGs.")],
    config: Config = Path("config"),
    as_json: Json = False,
) -> None:
    """Write two files of a few lines into Airflow's folder of DAGs; the DAGs themselves come from
    the installed package. The files name the configuration, unless it is the folder `config` beside
    them; in Airflow, SHIPPER_CONFIG overrides it. Run it again after an upgrade of shipper.

    Exit code 2 if the folder cannot be written to, or another file has such a name.
    """
    beside = folder.absolute().parent / "config"
    if not config.is_dir() and beside.is_dir():
        config = beside
    written = write_dag_files(folder, config)
    if as_json:
        print_json(
            {
                "folder": str(folder.absolute()),
                "written": [path.name for path in written],
                "config": str(config.absolute()),
            }
        )
        return
    for name in dag_files():
        done = "written" if folder / name in written else "exists already and is up to date"
        out.say(f"{folder / name}: {done}")
    out.say(f"Airflow reads the pipelines in {config.absolute()}, unless it has SHIPPER_CONFIG.")
    if not config.is_dir():
        err.say(f"There is no configuration at {config} yet: `shipper new` writes one.", "yellow")
    if find_spec("airflow") is None:
        err.say(
            "Airflow is not installed in this Python. Where it is, install the wheel of shipper "
            f"{version('shipper')} too.",
            "yellow",
        )
