"""The one file that Airflow parses: a DAG for every pipeline in ``$SHIPPER_CONFIG`` (default: the ``config`` beside ``dags``).

Parsing reads YAML and nothing else: no network, no database, no Spark. A file that cannot be read becomes a DAG that
says so; the others are not harmed. A task's own parse loads the one pipeline that it belongs to.
"""

from __future__ import annotations

import os
from pathlib import Path

from airflow.sdk import get_parsing_context
from shipper_factory.build import build_dags

_CONFIG_DIR = Path(os.environ.get("SHIPPER_CONFIG") or Path(__file__).resolve().parents[1] / "config").absolute()

for _dag in build_dags(_CONFIG_DIR, only=get_parsing_context().dag_id):
    globals()[_dag.dag_id] = _dag
