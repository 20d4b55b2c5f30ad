"""Lineage of a task for OpenLineage: the source it read and the topics it wrote to. They have the
names that OpenLineage's conventions give them, as other producers and consumers name them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from shipper.config.environment import EVERYTHING
from shipper.config.load import load_cluster
from shipper.config.pipeline import Pipeline
from shipper.config.rules import resolve_uri
from shipper.windows.window import source_root

if TYPE_CHECKING:
    from shipper.report.results import ShipResult


def lineage(pipeline: Pipeline, config_dir: Path, ships: Iterable[ShipResult]) -> Any:
    """Return the ``OperatorLineage`` of a task: the pipeline's folder as input, as outputs the
    topics that ``ships`` sent records to, or found records in. Only the provider of OpenLineage
    calls this. Raises ConfigError if a cluster's file is broken."""
    from airflow.providers.openlineage.extractors import OperatorLineage
    from openlineage.client.event_v2 import Dataset

    topics = {
        topic_id(bootstrap, each.topic)
        for ship in ships
        for bootstrap in [load_cluster(config_dir, ship.cluster, EVERYTHING).bootstrap]
        for each in ship.topics
        if each.delivered or each.before or each.earlier
    }
    source = folder_id(resolve_uri(config_dir, pipeline.source.path)) if topics else None
    return OperatorLineage(
        inputs=[Dataset(*source)] if source else [],
        outputs=[Dataset(*topic) for topic in sorted(topics)],
    )


def folder_id(pattern: str) -> tuple[str, str]:
    """Return namespace and name of the folder in front of the first placeholder or glob of
    ``pattern``."""
    folder = urlsplit(source_root(pattern))
    if folder.scheme in ("", "file"):
        return "file", folder.path.rstrip("/") or "/"
    if folder.scheme in ("s3", "s3a", "s3n"):
        return f"s3://{folder.netloc}", folder.path.strip("/") or "/"
    return f"{folder.scheme}://{folder.netloc}", folder.path.rstrip("/") or "/"


def topic_id(bootstrap: str, topic: str) -> tuple[str, str]:
    """Return namespace and name of a topic. ``bootstrap``: HOST:PORT; only the first of several is
    used."""
    return f"kafka://{bootstrap.split(',')[0].strip()}", topic
