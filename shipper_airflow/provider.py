"""Description of shipper for `airflow providers list`."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any


def get_provider_info() -> dict[str, Any]:
    """Return the description that Airflow's schema of providers requires
    (``airflow/provider_info.schema.json``)."""
    return {
        "package-name": "shipper",
        "name": "shipper",
        "description": "Exactly-once shipping of log files from HDFS and S3 to remote Kafka "
        "clusters.",
        "versions": [version("shipper")],
    }
