"""Ours, bare: the lane pool from plain Python, in a process of its own so that its CPU time can be
told from the bench's.

``python -m shipper_tools.bench.lanes`` reads a :class:`LaneJob` as JSON on standard input and
answers with a :class:`LaneAnswer`.
"""

from __future__ import annotations

import os
import sys
import time

from pydantic import BaseModel

from shipper.config.cluster import Cluster
from shipper.errors import DeliveryError
from shipper.kafka.connection import connection
from shipper.kafka.limits import DEFAULT_LIMIT_BYTES, RECORD_OVERHEAD_BYTES, TopicLimit, TopicLimits
from shipper.kafka.producer import LaneSettings
from shipper.types import Decided
from shipper.worker.chunk import Chunk
from shipper.worker.order import LaneOptions
from shipper.worker.pool import LanePool
from shipper.worker.tuning import Following, Tuning

LEDGER_TOPIC = "bench-ledger"
BATCH_BYTES = 1_000_000
"""Uncompressed bytes to a partition at a time."""
BATCHES_PER_TRANSACTION = 7
_DEADLINE_SECONDS = 120.0


class LaneJob(BaseModel):
    bootstrap: str
    topic: str
    lanes: int
    record_bytes: int = 1000
    records: int
    """At least; rounded up to whole transactions, the same number for each lane."""
    least_transactions: int = 1
    """Per lane. With one or two, the begin and the end, when not all lanes are at work, are all
    that is measured."""


class LaneAnswer(BaseModel):
    records: int
    bytes: int
    seconds: float
    opening_seconds: float


def measure(job: LaneJob) -> LaneAnswer:
    """Open the pool, hand over transactions, and wait for the last commit.

    Raises what the pool raises, and DeliveryError if a record is missing in its account.
    """
    # One transaction's records, sent again and again. They differ within a batch only: nothing
    # compares batches.
    per_batch = max(1, BATCH_BYTES // (job.record_bytes + RECORD_OVERHEAD_BYTES))
    values = [os.urandom(job.record_bytes) for _ in range(per_batch)] * BATCHES_PER_TRANSACTION
    size_bytes = sum(map(len, values))
    transactions = (
        max(job.least_transactions, -(-job.records // (len(values) * job.lanes))) * job.lanes
    )
    settings = LaneSettings(
        connection=connection(
            Cluster.model_validate({"cluster": "bench", "bootstrap": job.bootstrap})
        ),
        batch_size_bytes=BATCH_BYTES + BATCH_BYTES // 8,
        compression="none",
        transaction_timeout_ms=60_000,
    )
    limits = TopicLimits({job.topic: TopicLimit(DEFAULT_LIMIT_BYTES)})
    options = LaneOptions(settings, LEDGER_TOPIC, 0, _DEADLINE_SECONDS, limits=limits)
    with LanePool(
        options,
        [f"bench.{lane}" for lane in range(job.lanes)],
        resolve_outcome=lambda: Decided(set()),
        sizes=Following(Tuning(job.lanes, BATCH_BYTES, size_bytes)),
    ) as pool:
        began = time.monotonic()
        pool.open([job.topic])
        opened = time.monotonic()
        for number in range(transactions):
            name = f"transaction {number}"
            pool.submit(
                [
                    Chunk(
                        job.topic,
                        values,
                        size_bytes,
                        b"%d" % number,
                        lambda partition, topic_id: b"\0" * 200,
                        name,
                    )
                ]
            )
        pool.drain()
        ended = time.monotonic()
        delivery = pool.close(30)
    if delivery.delivered != transactions:
        raise DeliveryError(
            f"{delivery.delivered} of {transactions} transactions were delivered: "
            f"{delivery.failure}"
        )
    records, size = transactions * len(values), transactions * size_bytes
    return LaneAnswer(
        records=records, bytes=size, seconds=ended - opened, opening_seconds=opened - began
    )


if __name__ == "__main__":
    print(measure(LaneJob.model_validate_json(sys.stdin.read())).model_dump_json())
