"""The sink: ``df.write.format("shipper")``.

The frame has the columns that :func:`spark_jobs.records.records` makes. Everything that a task needs travels with the
pickled writer; secrets are read from the config on the driver's machine and are in no Spark option.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from shipper.config.models import Cluster
from shipper.delivery.ledger_log import LedgerLog
from shipper.delivery.order import Receipt, ShipOrder
from shipper.delivery.task import TaskShipment
from shipper.errors import ShipperError, TopicMissing
from shipper.producer.client import ClusterClient
from spark_jobs import cutter
from spark_jobs.ahead import Ahead
from spark_jobs.sorting import Limits

#: Opening the lanes takes some ten round trips; what the JVM can read meanwhile need not be waited for afterwards.
_MOST_AHEAD_BYTES = 16_000_000
_LAST_ATTEMPT = 3  # Spark gives a task four attempts; the runner's local master asks for as many.


class ShipperDataSource(DataSource):
    """Options: ``order``, a file with the pickled (ShipOrder, Cluster), readable by its owner only; ``receipts``, where to write them."""

    @classmethod
    def name(cls) -> str:
        return "shipper"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        order, cluster = pickle.loads(Path(self.options["order"]).read_bytes())
        return ShipperWriter(order, cluster, self.options["receipts"])


@dataclass
class TaskReceipt(WriterCommitMessage):
    receipt: Receipt


class ShipperWriter(DataSourceArrowWriter):
    def __init__(self, order: ShipOrder, cluster: Cluster, receipts_path: str) -> None:
        self._order = order
        self._cluster = cluster
        self._receipts_path = receipts_path

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """One task. Raises only what another attempt may mend, and not in the last one; everything else is in the receipt."""
        context: Any = TaskContext.get()
        order = self._order
        client = ClusterClient(self._cluster)
        ledger = LedgerLog(client, self._cluster, order.pipeline)
        limits = Limits(order, lambda topic: facts.max_message_bytes if (facts := client.facts([topic]).get(topic)) else None)
        shipment = TaskShipment(order, ledger, context.partitionId(), context.taskAttemptId())
        shipment.receipt.retries = context.attemptNumber()
        try:
            ahead = max(1, min(4, _MOST_AHEAD_BYTES // order.chunk_size_bytes))
            with Ahead(cutter.pieces(iterator, order.chunk_size_bytes), ahead) as pieces:
                shipment.open()
                cutter.ship(pieces, order, shipment, limits)
                shipment.finish()
        except ShipperError as error:
            shipment.abandon()
            # A topic that stayed unusable for the whole wait would only be waited for once more.
            if error.retriable and not isinstance(error, TopicMissing) and context.attemptNumber() < _LAST_ATTEMPT:
                raise
            shipment.receipt.error, shipment.receipt.error_kind = error.message, type(error).__name__
        except BaseException:
            shipment.abandon()  # Spark uses this process again: no lane may live on in it
            raise
        return TaskReceipt(shipment.fill_receipt())

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Runs in a Python worker on the driver's machine, so the receipts go back by file."""
        receipts = [asdict(message.receipt) for message in messages if isinstance(message, TaskReceipt)]
        Path(self._receipts_path).write_text(json.dumps(receipts))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self.commit(messages)
