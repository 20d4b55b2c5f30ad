"""One Spark task of the sink: from Arrow batches to what became of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark import TaskContext

from shipper.config.models import Cluster
from shipper.delivery.ledger_log import LedgerLog
from shipper.delivery.order import Receipt, ShipOrder
from shipper.delivery.sealed import sealed
from shipper.delivery.task import TaskShipment
from shipper.errors import DeliveryError, ShipperError, TopicMissing
from shipper.producer.client import ClusterClient
from shipper.producer.limits import TopicLimits
from spark_jobs import cutter
from spark_jobs.ahead import Ahead
from spark_jobs.sorting import Limits

#: Opening the lanes takes some ten round trips; what the JVM can read meanwhile need not be waited for afterwards.
_MOST_AHEAD_BYTES = 16_000_000
_LAST_ATTEMPT = 3  # Spark gives a task four attempts; the runner's local master asks for as many.


class TaskError(Exception):
    """What fails the attempt. Its text is for the driver, see shipper.delivery.sealed."""


class _Without:
    """An importer that says that a module is not there."""

    def __init__(self, module: str) -> None:
        self._module = module

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name == self._module:
            raise ModuleNotFoundError(f"{name} is not wanted here", name=name)


def _let_pyarrow_do_without_pandas() -> None:
    """With its first array pyarrow imports pandas, should it ever meet a frame: a second of CPU in every new worker, while the cluster
    waits. It looks once in a process, so it is enough that there is none at that moment."""
    if "pandas" in sys.modules:
        return
    without = _Without("pandas")
    sys.meta_path.insert(0, without)  # type: ignore[arg-type]
    try:
        pa.scalar(0)
    finally:
        sys.meta_path.remove(without)  # type: ignore[arg-type]


def get_ready() -> None:
    """What a worker does once, whatever it ships."""
    _let_pyarrow_do_without_pandas()


def ship_task(order: ShipOrder, cluster: Cluster, batches: Iterator[pa.RecordBatch]) -> Receipt:
    """Raises only what another attempt may mend, and not in the last one; everything else is in the receipt."""
    get_ready()
    context: Any = TaskContext.get()
    client = ClusterClient(cluster)
    ledger = LedgerLog(client, cluster, order.pipeline, control_from=order.generation)
    topics = TopicLimits(
        order.preflight.limits,
        lambda asked: {topic: facts.max_message_bytes for topic, facts in client.facts(list(asked)).items()},
    )
    limits = Limits(order.preflight.settings.compression, topics)
    shipment = TaskShipment(order, ledger, context.partitionId(), context.taskAttemptId(), topics)
    shipment.receipt.retries = context.attemptNumber()
    try:
        ahead = max(1, min(4, _MOST_AHEAD_BYTES // order.chunk_size_bytes))
        with Ahead(cutter.pieces(batches, order.chunk_size_bytes, order.splits), ahead) as pieces:
            shipment.open()
            cutter.ship(pieces, order, shipment, limits)
            shipment.finish()
    except ShipperError as error:
        shipment.abandon()
        # A topic that stayed unusable for the whole wait would only be waited for once more.
        if error.retriable and not isinstance(error, TopicMissing) and context.attemptNumber() < _LAST_ATTEMPT:
            raise TaskError(sealed(error, order.seal)) from error
        shipment.receipt.error, shipment.receipt.error_kind = error.message, type(error).__name__
    except Exception as error:
        shipment.abandon()  # Spark uses this process again: no lane may live on in it
        from spark_jobs.reason import of_python  # brings what a worker does not need otherwise

        told = DeliveryError(f"task {context.partitionId()}: {of_python(error)}. What was committed is in the ledger; run again")
        raise TaskError(sealed(told, order.seal)) from error
    except BaseException:
        shipment.abandon()
        raise
    return shipment.fill_receipt()
