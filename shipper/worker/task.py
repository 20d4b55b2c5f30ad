"""One Spark task of the sink: from Arrow batches to what became of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pyarrow as pa

from shipper.config.cluster import Cluster
from shipper.errors import ShipperError, TopicMissing
from shipper.kafka.client import ClusterClient
from shipper.kafka.limits import TopicLimits
from shipper.ledger.log import LedgerLog
from shipper.worker import cut
from shipper.worker.assign import Limits
from shipper.worker.order import ShipOrder
from shipper.worker.prefetch import Ahead
from shipper.worker.receipt import Receipt
from shipper.worker.sealed import sealed
from shipper.worker.shipment import TaskShipment

#: Opening the lanes takes some ten round trips; what the JVM can read meanwhile need not be waited for afterwards.
_MOST_AHEAD_BYTES = 16_000_000
_LAST_ATTEMPT = 3  # Spark gives a task four attempts; the runner's local master asks for as many.


class TaskError(Exception):
    """What fails the attempt. Its text is for the driver, see shipper.worker.sealed."""


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
    sys.meta_path.insert(0, without)
    try:
        pa.scalar(0)
    finally:
        sys.meta_path.remove(without)


def get_ready() -> None:
    """What a worker does once, whatever it ships."""
    _let_pyarrow_do_without_pandas()


def ship_task(
    order: ShipOrder, cluster: Cluster, batches: Iterator[pa.RecordBatch], task: int, attempt: int, tries_before: int
) -> Receipt:
    """``task``: its number; ``attempt``: of all attempts of all tasks, by which later ones are told; ``tries_before``: of this task.

    Raises TaskError for what another attempt may mend, but not in the last one; everything else that is known is in the receipt. What nobody
    foresaw is raised as it is."""
    get_ready()
    client = ClusterClient(cluster)
    ledger = LedgerLog(client, cluster, order.pipeline, control_from=order.generation)
    topics = TopicLimits(
        order.limits,
        lambda asked: {topic: facts.max_message_bytes for topic, facts in client.facts(list(asked)).items()},
    )
    limits = Limits(order.settings.compression, topics)
    shipment = TaskShipment(order, ledger, task, attempt, topics)
    shipment.receipt.retries = tries_before
    try:
        ahead = max(1, min(4, _MOST_AHEAD_BYTES // order.chunk_size_bytes))
        with Ahead(cut.pieces(batches, order.chunk_size_bytes, order.splits), ahead) as pieces:
            shipment.open()
            cut.ship(pieces, order, shipment, limits)
            shipment.finish()
    except ShipperError as error:
        shipment.abandon()
        # A topic that stayed unusable for the whole wait would only be waited for once more.
        if error.retriable and not isinstance(error, TopicMissing) and tries_before < _LAST_ATTEMPT:
            raise TaskError(sealed(error, order.seal)) from error
        shipment.receipt.error, shipment.receipt.error_kind = error.message, type(error).__name__
    except BaseException:
        shipment.abandon()  # Spark uses this process again: no lane may live on in it
        raise
    return shipment.fill_receipt()
