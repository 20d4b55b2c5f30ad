"""Ours, bare: the lane pool from plain Python, in a process of its own so that its CPU time can be told from the bench's.

``python -m shipper_tools.bench.lanes`` reads a :class:`LaneJob` as JSON on standard input and answers with a :class:`LaneAnswer`.
"""

from __future__ import annotations

import sys
import time

from pydantic import BaseModel

from shipper.config.cluster import Cluster
from shipper.errors import DeliveryError
from shipper.kafka.connection import connection
from shipper.kafka.limits import RECORD_OVERHEAD_BYTES, TopicLimit, TopicLimits
from shipper.kafka.producer import LaneSettings
from shipper.types import Decided
from shipper.worker.chunk import Chunk
from shipper.worker.order import LaneOptions
from shipper.worker.pool import LanePool
from shipper_tools.bench.records import log_lines, random_records

_DEADLINE_SECONDS = 120.0


class LaneJob(BaseModel):
    bootstrap: str
    topic: str
    ledger_topic: str
    max_message_bytes: int
    lanes: int
    batch_bytes: int
    """Uncompressed bytes to a partition at a time."""
    batches_per_transaction: int
    compression: str
    record_bytes: int | None
    """None: log lines."""
    records: int
    """At least; rounded up to whole transactions, the same number for each lane."""
    least_transactions: int = 1
    """Per lane. With one or two, the beginning and the end, when not all lanes are at work, are all that is measured."""


class LaneAnswer(BaseModel):
    records: int
    bytes: int
    seconds: float
    opening_seconds: float
    sending_cpu_seconds: float
    """Of this process, without its start and the opening of lanes."""
    reopened: int


def _values(job: LaneJob) -> list[bytes]:
    """One transaction's records, sent again and again. Random ones differ within a batch only: nothing compares batches."""
    if job.record_bytes is not None:
        per_batch = max(1, job.batch_bytes // (job.record_bytes + RECORD_OVERHEAD_BYTES))
        return random_records(per_batch, job.record_bytes) * job.batches_per_transaction
    size, values = 0, []
    for line in log_lines(1, 10_000_000):
        size += len(line) + RECORD_OVERHEAD_BYTES
        if size > job.batch_bytes * job.batches_per_transaction:
            break
        values.append(line)
    return values


def measure(job: LaneJob) -> LaneAnswer:
    """The only place of the bench that knows the pool: opens it, hands over transactions, waits for
    the last commit. Raises what the pool raises, and DeliveryError if a record is missing in its account."""
    values = _values(job)
    size_bytes = sum(len(value) for value in values)
    transactions = max(job.least_transactions, -(-job.records // (len(values) * job.lanes))) * job.lanes
    settings = LaneSettings(
        connection=connection(Cluster.model_validate({"cluster": "bench", "bootstrap": job.bootstrap})),
        batch_size_bytes=job.batch_bytes + job.batch_bytes // 8,
        compression=job.compression,
        transaction_timeout_ms=60_000,
    )
    limits = TopicLimits({job.topic: TopicLimit(job.max_message_bytes)})
    options = LaneOptions(settings, job.ledger_topic, 0, _DEADLINE_SECONDS, limits=limits, batch_bytes=job.batch_bytes)
    with LanePool(options, [f"bench.{lane}" for lane in range(job.lanes)], settle=lambda: Decided(set())) as pool:
        began = time.monotonic()
        pool.open([job.topic])
        opened, cpu_began = time.monotonic(), time.process_time()
        for number in range(transactions):
            key = b"%d" % number
            pool.submit(
                [Chunk(job.topic, values, size_bytes, key, lambda partition, topic_id: b"\0" * 200, f"transaction {number}")]
            )
        pool.drain()
        ended, cpu_ended = time.monotonic(), time.process_time()
        delivery = pool.close(30)
        reopened = pool.reopened
    if delivery.delivered != transactions:
        raise DeliveryError(f"{delivery.delivered} of {transactions} transactions were delivered: {delivery.failure}")
    return LaneAnswer(
        records=transactions * len(values),
        bytes=transactions * size_bytes,
        seconds=ended - opened,
        opening_seconds=opened - began,
        sending_cpu_seconds=cpu_ended - cpu_began,
        reopened=reopened,
    )


if __name__ == "__main__":
    print(measure(LaneJob.model_validate_json(sys.stdin.read())).model_dump_json())
