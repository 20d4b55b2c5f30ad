"""Order for the tasks of a ship, from the plan, the cluster's measurements and the ledger."""

from __future__ import annotations

import math
from collections.abc import Sequence

from shipper.driver.context import RunContext
from shipper.driver.dispositions import crosses_in_blocks, fixed_topics, reasons, rules
from shipper.driver.files import split_hash
from shipper.driver.pieces import starts_of
from shipper.driver.preflight import Preflight
from shipper.driver.recognition import PLAIN, UNREADABLE
from shipper.errors import SourceError
from shipper.ledger.fold import SplitState
from shipper.ledger.incarnations import Incarnations
from shipper.ledger.records import CHUNKS
from shipper.ledger.takeover import Takeover
from shipper.report.plan_result import PlannedFile, PlanResult
from shipper.types import SplitId
from shipper.worker.order import LaneOptions, OrderedSplit, QuarantineOrder, ShipOrder


def ship_order(
    context: RunContext,
    plan: PlanResult,
    ready: Preflight,
    taken: Takeover,
    files: Sequence[PlannedFile],
    topics: Incarnations,
) -> ShipOrder:
    """Make the order. ``files``: those that are left. Raises SourceError."""
    pipeline, cluster = context.pipeline, context.clusters[ready.settings.cluster]
    delivery, quarantine = pipeline.delivery, pipeline.quarantine
    return ShipOrder(
        pipeline=pipeline.key,
        cluster=cluster.name,
        run_id=context.folder.run_id,
        window=str(context.window),
        digest=plan.digest_for(cluster.name),
        generation=taken.generation,
        chunks_end=taken.chunks_end,
        lane_options=LaneOptions(
            ready.settings,
            cluster.ledger_topic(pipeline.key),
            CHUNKS,
            delivery.metadata_wait_seconds,
            partitions=delivery.partitions if isinstance(delivery.partitions, tuple) else None,
            share_partitions=delivery.partitions == "share",
            in_order=delivery.ordering == "file",
            gone_ids=topics.gone,
        ),
        limits=ready.limits,
        tuning=ready.tuning,
        sizing=ready.sizing,
        topics=fixed_topics(pipeline),
        listed=frozenset(pipeline.listed_topics()),
        max_topics=pipeline.limits.max_topics,
        topic_ids=topics.topic_ids,
        splits=_splits(context, taken, files),
        rules=rules(pipeline),
        reasons=reasons(pipeline),
        quarantine=QuarantineOrder(quarantine.topic, quarantine.keep_bytes) if quarantine else None,
        tasks=pipeline.tasks,
        doubtful_bytes=math.inf if taken.after_unended else 0.0,
        memory_bytes=delivery.memory_bytes,
        stall_seconds=delivery.stall_seconds,
        rate_limit_bytes=ready.rate_limit_bytes,
        ratio=plan.sample_ratio,
        spark=None if crosses_in_blocks(pipeline) else context.engine.version,
    )


def _splits(
    context: RunContext, taken: Takeover, files: Sequence[PlannedFile]
) -> dict[int, OrderedSplit]:
    pipeline = context.pipeline
    in_order = pipeline.delivery.ordering == "file"
    found: dict[int, OrderedSplit] = {}
    count = 0
    for file in files:
        starts = starts_of(file, pipeline.split_size_bytes)
        count += len(starts)
        for start in starts:
            split = SplitId(file.id, start)
            state = taken.chunks.splits.get(split, SplitState())
            topics = state.topics
            found[split_hash(file.uri, split.file, start)] = OrderedSplit(
                split,
                bom=start == 0 and file.bom and pipeline.restores_bom,
                there={topic: state.intervals(topic) for topic in topics},
                partitions={
                    topic: number
                    for topic in (topics if in_order else ())
                    if (number := state.partition(topic)) is not None
                },
                quarantines=state.quarantines,
                counts_bytes=file.format == PLAIN and pipeline.source.verbatim,
                skipped_bytes=3 if start == 0 and file.bom and pipeline.source.verbatim else 0,
                end_known=state.end is not None,
                of=len(starts),
                etag=file.etag or None,
                head=(file.head or None) if file.format != UNREADABLE else None,
                window=file.late_window or file.tick,
            )
    if len(found) != count:
        raise SourceError(
            "two splits of this window have the same 64-bit hash. Nothing was sent. Ship the "
            "window in two halves.",
            code="SHIP-312",
        )
    return found
