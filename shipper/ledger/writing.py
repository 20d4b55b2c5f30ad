"""Writing chunk records that stand for no data of this run (tombstones, what is put back) as a lane of it: in transactions, which the
next run fences, so that a process that was paused and wakes up later can no longer change what was written meanwhile."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable

from shipper.config.cluster import Cluster
from shipper.config.pipeline import Pipeline
from shipper.errors import Superseded
from shipper.kafka.connection import Until, connection
from shipper.kafka.producer import LaneSettings
from shipper.kafka.transaction import RightToShip, Transactions
from shipper.ledger.log import LedgerLog
from shipper.ledger.records import CHUNKS
from shipper.types import EncodedRecord

_RECORDS_AT_ONCE = 20_000
_TRANSACTION_SECONDS = 60.0
_ABORT_SECONDS = 5.0


def lane_settings(cluster: Cluster, pipeline: Pipeline, batch_size_bytes: int, *, transactional: bool = True) -> LaneSettings:
    """Of every lane of the pipeline to the cluster, whoever opens it."""
    return LaneSettings(
        cluster=cluster.name,
        connection=connection(cluster),
        batch_size_bytes=batch_size_bytes,
        compression=pipeline.delivery.compression,
        transaction_timeout_ms=int(pipeline.delivery.transaction_timeout_seconds * 1000),
        transactional=transactional,
    )


def right_of(ledger: LedgerLog, generation: int) -> RightToShip[None]:
    """Of a run that has no tasks: it may go on until a later one has announced itself."""

    def read() -> None:
        if ledger.control().generation != generation:
            raise Superseded(
                f"a later run of pipeline {ledger.pipeline} took over: nothing more is sent; run the same command again"
            )

    return RightToShip(read)


def write_as_lane(
    ledger: LedgerLog, settings: LaneSettings, transactional_id: str, generation: int,
    records: Iterable[EncodedRecord],
) -> None:  # fmt: skip
    """Raises KafkaFault, Superseded. Then some are written, and the same records again do no harm."""
    transactions = Transactions(settings, transactional_id, ledger.topic, right_of(ledger, generation))
    waiting = iter(records)
    try:
        while batch := list(itertools.islice(waiting, _RECORDS_AT_ONCE)):
            until = within(_TRANSACTION_SECONDS)
            lane = transactions.begin(until)
            with lane.faults():
                for key, value in batch:
                    lane.produce_patiently(until, ledger.topic, value, key, CHUNKS)
                lane.flush(until)
            transactions.commit(until)
    finally:
        transactions.close(within(_ABORT_SECONDS))


def within(seconds: float) -> Until:
    deadline = time.monotonic() + seconds
    return lambda: deadline
