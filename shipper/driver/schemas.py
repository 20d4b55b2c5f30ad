"""The numbers of a pipeline's schema (`records.avro`) in a cluster's Schema Registry."""

from __future__ import annotations

from shipper.config.cluster import Cluster
from shipper.config.pipeline import Pipeline
from shipper.kafka.schema_registry import RegistryClient
from shipper.terminal import say


def schema_ids(cluster: Cluster, pipeline: Pipeline) -> dict[str, int]:
    """Return subject → number, of all topics that the configuration names; empty without
    `records.avro`. Raises ClusterError."""
    avro = pipeline.records.avro
    if avro is None:
        return {}
    registry = RegistryClient(cluster, pipeline.name)
    found = {
        subject: registry.number(subject, avro)
        for subject in avro.subjects(list(pipeline.listed_topics()))
    }
    say(
        f"{cluster.name}: values are Avro, "
        f"{', '.join(f'{subject} by schema {number}' for subject, number in found.items())}"
    )
    return found
