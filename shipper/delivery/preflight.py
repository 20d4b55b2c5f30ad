"""What is asked of a cluster before anything is sent to it."""

from __future__ import annotations

from shipper.config.models import Cluster, Pipeline
from shipper.errors import TopicMissing
from shipper.producer.client import BATCH_OVERHEAD_BYTES, ClusterClient, LaneSettings, connection


def missing_topics(client: ClusterClient, pipeline: Pipeline) -> list[str]:
    """Fixed topics of the pipeline that the cluster does not have. Raises ClusterError when it cannot be reached."""
    known = client.topics()
    return [topic for topic in pipeline.fixed_topics() if topic not in known]


def missing_topics_message(cluster: str, pipeline: Pipeline, missing: list[str]) -> str:
    names = ", ".join(missing)
    return (
        f"cluster {cluster}: topic {names} of pipeline {pipeline.name} is not there. Create it "
        f"(kafka-topics --create --topic {missing[0]} --partitions …), or correct `routes` in config/pipelines/{pipeline.name}.yaml."
    )


def lane_settings(client: ClusterClient, cluster: Cluster, pipeline: Pipeline) -> LaneSettings:
    """Settings of the lanes for this cluster. Raises TopicMissing, ClusterError.

    A batch of at most the smallest topic limit always fits, whatever it compresses to.
    """
    missing = missing_topics(client, pipeline)
    if missing:
        raise TopicMissing(missing_topics_message(cluster.name, pipeline, missing))
    delivery = pipeline.delivery
    limits = [facts.max_message_bytes for facts in client.facts(list(pipeline.fixed_topics())).values()]
    fits = max(1, min(limits) - BATCH_OVERHEAD_BYTES) if limits else delivery.batch_size_bytes
    return LaneSettings(
        connection=connection(cluster),
        batch_size_bytes=min(delivery.batch_size_bytes, delivery.chunk_size_bytes, fits),
        compression=delivery.compression,
        transaction_timeout_ms=int(delivery.transaction_timeout_seconds * 1000),
    )
