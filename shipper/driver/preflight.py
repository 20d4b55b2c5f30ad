"""Questions to a cluster before anything is sent to it: topics, limits, transactions, distance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from shipper.config.cluster import Cluster
from shipper.config.pipeline import Pipeline
from shipper.config.rules import original
from shipper.driver.checks.refusals import (
    absent_topics,
    lacking_partitions,
    missing,
    no_transactions,
    refusal,
)
from shipper.errors import ClusterError
from shipper.kafka.admin import NO_TRANSACTIONS, TopicFacts
from shipper.kafka.client import ClusterClient
from shipper.kafka.connection import KafkaFault
from shipper.kafka.limits import DEFAULT_LIMIT_BYTES, TopicLimit
from shipper.kafka.producer import LaneSettings
from shipper.ledger.writing import lane_settings
from shipper.worker.rate import PACED_SHARE
from shipper.worker.tuning import (
    LONG_BATCH_BYTES,
    SHORT_BATCH_BYTES,
    SHORT_CHUNK_BYTES,
    SHORT_LANES,
    LinkProfile,
    Sizing,
    Tuning,
)


@dataclass(frozen=True)
class Preflight:
    """Picklable. Holds secrets in ``settings``: never log it."""

    settings: LaneSettings
    sizing: Sizing
    tuning: Tuning
    limits: Mapping[str, TopicLimit]
    rate_limit_bytes: int | None
    """Bytes per second on the wire, of all tasks."""

    def with_ack(self, seconds: float | None) -> Preflight:
        """Return the same, sized for acknowledgements that take so long."""
        sizing = self.sizing.with_ack(seconds)
        return replace(self, sizing=sizing, tuning=sizing.tune())

    def announced(self, seconds: float | None) -> Preflight:
        """Return the same once the lanes are announced, with what their announcement told of the
        delay: there will be no more lanes, and fewer if the lease alone took long."""
        most = replace(self.sizing, most_lanes=self.tuning.lanes)
        opened = replace(self, sizing=most).with_ack(seconds)
        return replace(opened, sizing=replace(opened.sizing, most_lanes=opened.tuning.lanes))


def preflight(
    client: ClusterClient,
    cluster: Cluster,
    pipeline: Pipeline,
    sample_ratio: float,
    bytes_to_send: int = 0,
    *,
    known: Mapping[str, TopicFacts] | None = None,
) -> Preflight:
    """Measure the way to the cluster and size the lanes. Raises TopicMissing, ClusterError.

    Args:
        sample_ratio: uncompressed bytes per compressed byte. bytes_to_send: of the files that are
        left, unpacked, as far as the plan knows; 0: unknown. known: facts of topics, if the cluster
        was asked a moment ago.
    """
    if known is None:
        known = client.facts(list(pipeline.needed_topics()))
    known = {topic: known[topic] for topic in pipeline.needed_topics() if topic in known}
    findings = [
        *missing(pipeline, absent_topics(pipeline, known)),
        *lacking_partitions(pipeline, known),
        *no_transactions(pipeline, cluster),
    ]
    if error := refusal(cluster, pipeline, findings):
        raise error
    limits = {topic: facts.limit for topic, facts in known.items()}
    some_topic = next(iter(limits), cluster.ledger_topic(pipeline.key))
    rate_limit = min(
        (each for each in (pipeline.delivery.rate_limit, cluster.rate_limit) if each), default=None
    )
    link = LinkProfile(
        client.rtt_seconds(some_topic),
        cluster.bandwidth,
        sample_ratio,
        min(
            (limits[topic].max_bytes for topic in pipeline.fixed_topics()),
            default=DEFAULT_LIMIT_BYTES,
        ),
        rate_limit,
        pipeline.delivery.transaction_timeout_seconds * PACED_SHARE,
        partitions=_partitions_side_by_side(pipeline, known),
    )
    is_auto = pipeline.delivery.compression == "auto"
    sizing = replace(
        _sizing(pipeline, link, bytes_to_send),
        chooses_level=is_auto and cluster.property_value("compression.level") is None,
    )
    tuning = sizing.tune()
    transactional = is_transactional(client, cluster, pipeline, some_topic)
    batch_bytes = tuning.batch_bytes
    if transactional:
        # Lanes cut batches themselves, by the average record; so that a batch with larger ones, or
        # one that is sized anew during the ship, is still one request. At least once, several
        # batches wait for a partition, and librdkafka cuts them.
        batch_bytes = (sizing.batch_bytes or LONG_BATCH_BYTES) * 9 // 8
    settings = lane_settings(cluster, pipeline, batch_bytes, transactional=transactional)
    settings = replace(settings, compression_level=tuning.level)
    return Preflight(settings, sizing, tuning, limits, rate_limit)


def _sizing(pipeline: Pipeline, link: LinkProfile, bytes_to_send: int) -> Sizing:
    delivery = pipeline.delivery
    lanes, batch, chunk = delivery.lanes, delivery.batch_size_bytes, delivery.chunk_size_bytes
    if delivery.tuning == "off":
        lanes = lanes or SHORT_LANES
        batch, chunk = (
            batch or min(SHORT_BATCH_BYTES, chunk or SHORT_BATCH_BYTES),
            chunk or max(SHORT_CHUNK_BYTES, batch or 0),
        )
    return Sizing(
        link, pipeline.tasks, delivery.memory_bytes, lanes, batch, chunk, bytes_to_send,
        keyed=pipeline.records.key is not None,
    )  # fmt: skip


def _partitions_side_by_side(pipeline: Pipeline, known: Mapping[str, TopicFacts]) -> int:
    """Return the number of partitions to which the batches of one transaction may go. Records of
    several topics go side by side anyway, and those of a file that keeps its order never do."""
    topics = list(pipeline.listed_topics())
    if len(topics) != 1 or pipeline.delivery.ordering == "file":
        return 1
    listed = pipeline.delivery.partitions
    return (
        len(listed)
        if isinstance(listed, tuple)
        else known[topics[0]].partitions
        if topics[0] in known
        else 1
    )


def is_transactional(
    client: ClusterClient, cluster: Cluster, pipeline: Pipeline, topic: str
) -> bool:
    """Return True if the pipeline ships exactly once to the cluster. ``topic``: any existing topic.
    Raises ClusterError, also while this cannot be decided."""
    guarantee = pipeline.delivery.guarantee
    if guarantee != "prefer_exactly_once" or not cluster.idempotence:
        return guarantee == "exactly_once"
    probe = f"{original(pipeline.key)}.{cluster.name}.preflight"
    try:
        client.try_transactions(topic, probe, list(pipeline.needed_topics()))
    except KafkaFault as fault:
        if fault.name in NO_TRANSACTIONS:
            return False
        raise ClusterError(
            f"cluster {cluster.name}: cannot tell whether it has transactions: {fault}"
        ) from fault
    return True
