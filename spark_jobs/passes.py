"""One pass over files: the Spark job that reads them, turns lines into records, and ships what an order says is missing."""

from __future__ import annotations

import json
import pickle
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from shipper import errors
from shipper.config.delivery_checks import ChecksumCheck
from shipper.config.models import Cluster, Pipeline
from shipper.delivery.lease import HeldLease
from shipper.delivery.ledger_log import LedgerLog
from shipper.delivery.order import Receipt, ShipOrder, SplitReceipt, TopicReceipt
from shipper.errors import DeliveryError, ShipperError, Superseded
from spark_jobs.context import RunContext
from spark_jobs.fates import counts_fates
from spark_jobs.progress import Progress
from spark_jobs.reason import of_exception
from spark_jobs.records import lines, records
from spark_jobs.sink import ShipperDataSource

_ARROW_BATCH_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
_UNLIMITED, _LONG_LINES_BATCH_BYTES = 2**31 - 1, 16_000_000
#: Bits 0–21, 22–43 and 44–63 of a checksum.
_PART, _SHIFTS = 2**22 - 1, (0, 22, 44)


@dataclass
class PassOutcome:
    """What a pass did. With ``error`` set the receipts say what was done until then."""

    read: int = 0
    """Lines, by Spark's own observation."""
    checksum: int | None = None
    """Of the values that are to be shipped, by Spark's own observation, if the pipeline asks for it."""
    observed: dict[str, int] = field(default_factory=dict)
    """What rules and reasons took, by Spark's own observation; named as in ShipResult."""
    receipts: list[Receipt] = field(default_factory=list)
    error: ShipperError | None = None

    @property
    def records(self) -> int:
        """Lines, by the tasks' count."""
        return sum(split.records for receipt in self.receipts for split in receipt.splits.values())

    @property
    def dropped(self) -> dict[str, int]:
        """Topic → records that were read and not sent, since it could not be written to."""
        found: dict[str, int] = {}
        for receipt in self.receipts:
            for topic, count in receipt.dropped.items():
                found[topic] = found.get(topic, 0) + count
        return found


def run_pass(
    context: RunContext, cluster: Cluster, ledger: LedgerLog, lease: HeldLease, order: ShipOrder, paths: Sequence[str], long_lines: bool
) -> PassOutcome:  # fmt: skip
    """Runs the job. Never raises: what is committed must be accounted for, whatever happened."""
    outcome = PassOutcome()
    spark = context.spark
    spark.dataSource.register(ShipperDataSource)
    _size_arrow_batches(context, long_lines)
    observed, fates = Observation("lines"), Observation("fates")
    frame = lines(spark, paths).observe(observed, F.count(F.lit(1)).alias("read"))
    frame, checksums = _with_checksum(records(frame, context.pipeline, fates), context.pipeline)
    frame = frame.coalesce(context.pipeline.tasks)
    with tempfile.TemporaryDirectory(prefix="shipper-") as folder:
        order_path, receipts_path = Path(folder, "order"), Path(folder, "receipts")
        order_path.touch(mode=0o600)
        order_path.write_bytes(pickle.dumps((order, cluster)))
        writer = (
            frame.write.format("shipper").mode("append").option("order", str(order_path)).option("receipts", str(receipts_path))
        )
        try:
            with Progress(ledger, order, lease.superseded, spark.sparkContext.cancelAllJobs):
                writer.save()
            outcome.read = observed.get["read"]
            outcome.checksum = checksums and _checksum(checksums)
            if counts_fates(context.pipeline):
                outcome.observed = {name: int(count or 0) for name, count in fates.get.items()}
        except Exception as error:
            outcome.error = _job_error(error, ledger.pipeline, superseded=lease.superseded.is_set())
        outcome.receipts = _read_receipts(receipts_path)
    for receipt in outcome.receipts:
        if receipt.error and outcome.error is None:
            outcome.error = getattr(errors, receipt.error_kind or "", DeliveryError)(receipt.error)
    return outcome


def _with_checksum(frame: DataFrame, pipeline: Pipeline) -> tuple[DataFrame, Observation | None]:
    """The frame with the sum of its column `checksum` observed, for a pipeline whose delivery gate compares it.

    A sum of 64-bit numbers overflows, and under ANSI an overflow ends the job. So they are summed in three parts, which takes 2^41
    records to overflow.
    """
    if not any(isinstance(check, ChecksumCheck) for check in pipeline.gates.delivery):
        return frame, None
    checksum = F.col("checksum")
    if "fate" in frame.columns:
        checksum = F.when(F.col("fate").isNull(), checksum)
    parts = [F.shiftrightunsigned(checksum, shift).bitwiseAND(F.lit(_PART)) for shift in _SHIFTS]
    observed = Observation("checksums")
    sums = [F.sum(part).alias(f"part{shift}") for part, shift in zip(parts, _SHIFTS, strict=True)]
    return frame.observe(observed, *sums), observed


def _checksum(observed: Observation) -> int:
    return sum((observed.get[f"part{shift}"] or 0) << shift for shift in _SHIFTS) % (1 << 64)


def _size_arrow_batches(context: RunContext, long_lines: bool) -> None:
    """Spark counts the bytes of an Arrow batch anew with every row, which costs 40 % of the way to Python (measured: 0.90
    against 0.53 CPU s per million lines). So it counts where lines are long, and elsewhere the number of rows is limit enough."""
    if _ARROW_BATCH_BYTES not in context.pipeline.runner.conf:
        context.spark.conf.set(_ARROW_BATCH_BYTES, str(_LONG_LINES_BATCH_BYTES if long_lines else _UNLIMITED))


def _job_error(error: Exception, pipeline: str, *, superseded: bool) -> ShipperError:
    if superseded:
        return Superseded(f"a later run of pipeline {pipeline} took over; this one stopped, and sends nothing more")
    ours = re.findall(r"shipper\.errors\.(\w+): (.+)", str(error))
    if ours:
        kind, message = ours[-1]
        return getattr(errors, kind, DeliveryError)(message)  # type: ignore[no-any-return]
    reason = of_exception(error)
    return DeliveryError(
        f"the Spark job failed: {reason}. What was committed is in the ledger: run again, and only the rest is sent."
    )


def _read_receipts(path: Path) -> list[Receipt]:
    if not path.exists():
        return []
    receipts = []
    for fields in json.loads(path.read_text()):
        fields["splits"] = {int(split): SplitReceipt(**counts) for split, counts in fields["splits"].items()}
        fields["topics"] = {topic: TopicReceipt(**counts) for topic, counts in fields["topics"].items()}
        receipts.append(Receipt(**fields))
    return receipts
