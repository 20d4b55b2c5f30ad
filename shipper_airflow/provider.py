"""What `airflow providers list` shows of shipper."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any


def get_provider_info() -> dict[str, Any]:
    """As Airflow's schema of providers wants it (``airflow/provider_info.schema.json``)."""
    return {
        "package-name": "shipper",
        "name": "shipper",
        "description": "Exactly-once shipping of log files from HDFS and S3 to remote Kafka "
        "clusters.",
        "versions": [version("shipper")],
    }
