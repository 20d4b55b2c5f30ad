"""The sink: ``df.write.format("shipper")``.

The frame has the columns that :func:`spark_jobs.records.records` makes. Everything that a task needs travels with the
pickled writer; secrets are read from the config on the driver's machine and are in no Spark option.

Spark imports this module in three kinds of processes: one that makes the writer, the workers that write, one that commits. Only a
worker needs the rest of shipper, which takes a second of CPU to import; so the writer carries it pickled, and receipts are text.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


class ShipperDataSource(DataSource):
    """Options: ``order``, where the pickled (ShipOrder, Cluster) can be read (see spark_jobs.handover); ``receipts``, where to write them."""

    @classmethod
    def name(cls) -> str:
        return "shipper"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        return ShipperWriter(Path(self.options["order"]).read_bytes(), self.options["receipts"])


@dataclass
class TaskReceipt(WriterCommitMessage):
    receipt: str
    """A Receipt as JSON."""


class ShipperWriter(DataSourceArrowWriter):
    def __init__(self, order: bytes, receipts_path: str) -> None:
        self._order = order
        self._receipts_path = receipts_path

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """One task. Raises only what another attempt may mend, and not in the last one; everything else is in the receipt."""
        from spark_jobs.sink_task import ship_task

        order, cluster = pickle.loads(self._order)
        return TaskReceipt(json.dumps(asdict(ship_task(order, cluster, iterator))))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Runs in a Python worker on the driver's machine, so the receipts go back by file."""
        receipts = [message.receipt for message in messages if isinstance(message, TaskReceipt)]
        Path(self._receipts_path).write_text(f"[{','.join(receipts)}]")

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self.commit(messages)
