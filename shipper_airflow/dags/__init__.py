"""A DAG for every pipeline of a configuration. The two files that `shipper dags install` writes
into Airflow's folder of DAGs call what is here.

How a pipeline becomes a DAG, in small steps::

    YAML ──read_catalog──▶ pipelines, faults ──build──▶ airflow.sdk DAG
                           operators run the steps, each in a child process (step);
                           notice tells how a run ended

``faults`` keeps what is wrong, and ``last_good`` what was right before. ``operators`` import
``step``, and all else that costs time, when a task runs and not when it is parsed.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow.sdk import DAG


def of(file: str) -> dict[str, DAG]:
    """Return the DAGs by their ids, for the globals of the file that Airflow reads. ``file``: that
    file's path.

    It reads YAML and nothing else: no network, no database, no Spark. A file that cannot be read
    becomes a DAG that says so; the others are not harmed. Without a folder there is no DAG, and
    :func:`raise_faults` says so. A task's own parse loads the one pipeline that it belongs to.
    """
    from airflow.sdk import get_parsing_context

    from shipper_airflow.dags.build import build_dags
    from shipper_airflow.place import config_dir

    folder = config_dir(Path(file).parent)
    if not folder.is_dir():
        return {}
    dags = build_dags(folder, only=get_parsing_context().dag_id)
    return {dag.dag_id: dag for dag in dags}


def raise_faults(file: str, *, written_by: str) -> None:
    """Raise what :func:`of` found in the configuration when it was read last, so that Airflow shows
    it above its list of DAGs. It makes no DAG, so this harms none.

    ``written_by``: the version of shipper that wrote the files. Raises ShipperError for another
    one than this, BrokenConfigurationError.
    """
    from shipper_airflow.dags import faults
    from shipper_airflow.place import config_dir

    folder = Path(file).parent
    faults.raise_other_version(folder, written_by)
    faults.raise_faults(config_dir(folder))
