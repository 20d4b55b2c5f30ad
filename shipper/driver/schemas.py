"""A pipeline's schema (`records.avro`) in a cluster's Schema Registry."""

from __future__ import annotations

from collections.abc import Iterator

from shipper.config.avro import Avro
from shipper.config.cluster import Cluster
from shipper.config.pipeline import Pipeline
from shipper.errors import ClusterError
from shipper.finding import Finding, of_error
from shipper.kafka.schema_registry import RegistryClient
from shipper.terminal import say


def schema_ids(cluster: Cluster, pipeline: Pipeline) -> dict[str, int]:
    """Return subject → number, of all topics that the configuration names; empty without
    `records.avro`. Raises ClusterError."""
    asked = _subjects(cluster, pipeline)
    found = {subject: registry.number(subject, avro) for registry, subject, avro in asked}
    if found:
        named = ", ".join(f"{subject} by schema {number}" for subject, number in found.items())
        say(f"{cluster.name}: values are Avro, {named}")
    return found


def refused_schemas(cluster: Cluster, pipeline: Pipeline) -> Iterator[Finding]:
    """Yield the first fault for which the registry would not take the schema. It only reads: the
    ship registers missing schemas."""
    try:
        for registry, subject, avro in _subjects(cluster, pipeline):
            registry.check(subject, avro)
    except ClusterError as error:
        yield of_error(error, cluster.name)


def _subjects(cluster: Cluster, pipeline: Pipeline) -> Iterator[tuple[RegistryClient, str, Avro]]:
    if avro := pipeline.records.avro:
        registry = RegistryClient(cluster, pipeline.name)
        for subject in avro.subjects(list(pipeline.listed_topics())):
            yield registry, subject, avro
