"""The one file that Airflow finds DAGs in: a DAG for every pipeline in ``$SHIPPER_CONFIG``
(default: the ``config`` beside ``dags``).

Parsing reads YAML and nothing else: no network, no database, no Spark. A file that cannot be read
becomes a DAG that says so; the others are not harmed. A task's own parse loads the one pipeline
that it belongs to.
"""

from __future__ import annotations

from airflow.sdk import get_parsing_context
from shipper_factory.build import build_dags
from shipper_factory.place import config_dir

for _dag in build_dags(config_dir(), only=get_parsing_context().dag_id):
    globals()[_dag.dag_id] = _dag
