"""Write ledger-only chunk records (tombstones, restored records) through a transactional lane of a
run.

The next run fences the lane, so a process that was paused and continues later can no longer change
newer records.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import TYPE_CHECKING

from shipper import runtime
from shipper.config.cluster import Cluster
from shipper.errors import ClusterError, Superseded
from shipper.kafka.connection import KafkaFault, Until, connection
from shipper.kafka.producer import LaneSettings
from shipper.kafka.transaction import RightToShip, Transactions
from shipper.ledger.codec import encode_invalidation
from shipper.ledger.control import Control
from shipper.ledger.log import CONTROL_NOW, LedgerLog, Patience
from shipper.ledger.records import CHUNKS, Invalidation
from shipper.ledger.rights import transactional_id
from shipper.types import Decided, EncodedRecord, FileId

if TYPE_CHECKING:
    from shipper.config.pipeline import Pipeline

_RECORDS_AT_ONCE = 20_000
_TRANSACTION_SECONDS = 60.0
_ABORT_SECONDS = 5.0


def lane_settings(
    cluster: Cluster, pipeline: Pipeline, batch_size_bytes: int, *, transactional: bool = True
) -> LaneSettings:
    """Return the settings of every lane of the pipeline to the cluster, whichever process opens
    it."""
    return LaneSettings(
        cluster=cluster.name,
        connection=connection(cluster),
        batch_size_bytes=batch_size_bytes,
        compression=pipeline.delivery.codec,
        transaction_timeout_ms=int(pipeline.delivery.transaction_timeout_seconds * 1000),
        transactional=transactional,
    )


def patience_of(pipeline: Pipeline) -> Patience:
    """Return how long a deciding read of the pipeline's ledger may wait."""
    return Patience.of(
        pipeline.delivery.transaction_timeout_seconds, pipeline.delivery.metadata_wait_seconds
    )


def right_of(ledger: LedgerLog, generation: int) -> RightToShip[Control]:
    """Return the right to ship of a run without tasks: it may go on until a later run has announced
    itself."""

    def read() -> Decided[Control]:
        found = ledger.of_generation(generation).decide(CONTROL_NOW)
        if found.answer.generation != generation:
            raise Superseded(
                f"a later run of pipeline {ledger.pipeline} took over. This run sends nothing "
                "more. Run the same command again."
            )
        return found

    return RightToShip(read)


def invalidate(
    ledger: LedgerLog, generation: int, asked_by: str, reason: str | None, files: Iterable[FileId]
) -> None:
    """Declare that chunks of ``files`` below ``generation`` no longer count, if this run still has
    the right to ship.

    A run that was paused here and taken over does no harm: readers take the highest generation.
    Raises Superseded, ClusterError."""
    right_of(ledger, generation).check()
    value = Invalidation(asked_by, reason)
    ledger.write_control(
        encode_invalidation(ledger.pipeline, file, generation, value) for file in files
    )


def write_as_lane(
    ledger: LedgerLog,
    settings: LaneSettings,
    generation: int,
    records: Iterable[EncodedRecord],
    failed: str,
) -> None:
    """Write ledger-only entries through a transactional lane. Raises Superseded, and ClusterError
    with ``failed``, which has the fault at its ``{}``. Then some are written, and the same records
    again do no harm."""
    lane_id = transactional_id(ledger.pipeline, ledger.cluster.name, 0, 0)
    transactions = Transactions(settings, lane_id, [ledger.topic], right_of(ledger, generation))
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
    except KafkaFault as fault:
        raise ClusterError(failed.format(fault), code="SHIP-507") from fault
    finally:
        transactions.close(within(_ABORT_SECONDS))


def within(seconds: float) -> Until:
    deadline = runtime.monotonic() + seconds
    return lambda: deadline
