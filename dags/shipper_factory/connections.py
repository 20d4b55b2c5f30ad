"""What ``${airflow:CONNECTION.password}`` in a cluster's file stands for: asked of Airflow by the task that needs it."""

from __future__ import annotations

import logging
from pathlib import Path

log = logging.getLogger(__name__)


def given(config_dir: Path, pipeline: str) -> dict[str, str]:
    """Reference → value, for all that the pipeline's clusters refer to. Holds secrets. One that Airflow does not have is left out: the step
    says so, for that cluster alone."""
    from shipper.config.load import references

    asked = sorted(reference.name for reference in references(config_dir, pipeline) if reference.kind == "airflow")
    found = {name: _look_up(name) for name in asked}
    return {f"airflow:{name}": value for name, value in found.items() if value is not None}


def _look_up(name: str) -> str | None:
    from airflow.sdk import Connection

    from shipper.config.environment import connection_field

    conn_id, field = connection_field(name)
    try:
        connection = Connection.get(conn_id)
    except Exception as error:  # not defined, not permitted, or the secrets' backend is down: the cluster's fault, not the task's
        log.warning("connection %s cannot be looked up: %s", conn_id, type(error).__name__)
        return None
    key = field.removeprefix("extra.")
    value = getattr(connection, field) if key == field else connection.extra_dejson.get(key)
    return None if value is None else str(value)
