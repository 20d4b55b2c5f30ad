"""One pass over files: the Spark job that reads them, turns lines into records, and ships what an order says is missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from shipper.config.checks import ChecksumCheck
from shipper.config.cluster import Cluster
from shipper.config.pipeline import Pipeline
from shipper.config.rules import sql_column
from shipper.errors import DeliveryError, ShipperError, Superseded, of_kind
from shipper.ledger.lease import HeldLease
from shipper.ledger.log import LedgerLog
from shipper.report.plan_result import PlannedFile
from shipper.worker.marks import BROKEN, MARK
from shipper.worker.order import ShipOrder
from shipper.worker.receipt import Receipt
from shipper.worker.sealed import unsealed
from spark_jobs.context import RunContext
from spark_jobs.dispositions import counts_dispositions
from spark_jobs.pieces import LineLimits, PieceReport, file_pieces, reading
from spark_jobs.progress import Progress
from spark_jobs.reason import of_exception
from spark_jobs.records import records
from spark_jobs.sink import Sink

_ARROW_BATCH_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
_UNLIMITED, _LONG_LINES_BATCH_BYTES = 2**31 - 1, 16_000_000
#: Files that are not cut are as large as they are; small ones share a task up to so much.
_MOST_PARTITION_BYTES = 128 * 2**20
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
    reports: list[PieceReport] = field(default_factory=list)
    """What the reader says of each split that it read to an end, good or bad."""
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
    context: RunContext, cluster: Cluster, ledger: LedgerLog, lease: HeldLease, order: ShipOrder, files: Sequence[PlannedFile],
    long_lines: bool,
) -> PassOutcome:  # fmt: skip
    """Runs the job. Never raises: what is committed must be accounted for, whatever happened."""
    outcome = PassOutcome()
    try:
        _run_job(context, cluster, ledger, lease, order, files, long_lines, outcome)
    except Exception as error:
        outcome.error = outcome.error or _job_error(error, order, superseded=lease.superseded.is_set())
    for receipt in outcome.receipts:
        if receipt.error and outcome.error is None:
            outcome.error = of_kind(receipt.error_kind, receipt.error)
    return outcome


def _run_job(
    context: RunContext, cluster: Cluster, ledger: LedgerLog, lease: HeldLease, order: ShipOrder, files: Sequence[PlannedFile],
    long_lines: bool, outcome: PassOutcome,
) -> None:  # fmt: skip
    """Fills ``outcome`` as far as it gets. Raises whatever went wrong first; the receipts are read all the same."""
    spark = context.spark
    _size_arrow_batches(context, long_lines)
    pipeline, sink = context.pipeline, Sink(order, cluster)
    limits = LineLimits(pipeline.records.max_line_bytes, order.quarantine.keep_bytes if order.quarantine else 0)
    pieces = list(file_pieces(files, pipeline.split_size_bytes))
    with reading(spark, pieces, limits, partition_bytes=min(pipeline.split_size_bytes, _MOST_PARTITION_BYTES)) as read:
        progress = Progress(ledger, order, lease.superseded, spark.sparkContext.cancelAllJobs, lambda: _read_so_far(spark))
        try:
            _write(context, cluster, sink, read.frame, progress, outcome)
        except Exception as error:
            outcome.error = progress.stalled or _job_error(error, order, superseded=lease.superseded.is_set())
        outcome.receipts = sink.receipts
        outcome.reports = read.reports()


def _write(
    context: RunContext, cluster: Cluster, sink: Sink, frame: DataFrame, progress: Progress, outcome: PassOutcome,
) -> None:  # fmt: skip
    pipeline, observed, dispositions = context.pipeline, Observation("lines"), Observation("dispositions")
    reserved = cluster.reserved_topics
    frame = frame.observe(observed, F.count_if(~F.col(sql_column(MARK)).eqNullSafe(BROKEN)).alias("read"))
    frame, checksums = _with_checksum(records(frame, pipeline, dispositions, reserved), pipeline)
    with progress:
        sink.write(frame.coalesce(pipeline.tasks))
    outcome.read = observed.get["read"]
    outcome.checksum = checksums and _checksum(checksums)
    if counts_dispositions(pipeline):
        outcome.observed = {name: int(count or 0) for name, count in dispositions.get.items()}


def _read_so_far(spark: SparkSession) -> list[tuple[int, int]]:
    """For each stage that runs: rows and bytes read, by the executors' heartbeats (every 10 s)."""
    stages = spark.sparkContext._jsc.sc().statusStore().activeStages()
    running = [stages.apply(index) for index in range(stages.size())]
    return [(stage.inputRecords(), stage.inputBytes()) for stage in running]


def _with_checksum(frame: DataFrame, pipeline: Pipeline) -> tuple[DataFrame, Observation | None]:
    """The frame with the sum of its column `checksum` observed, for a pipeline whose delivery gate compares it.

    A sum of 64-bit numbers overflows, and under ANSI an overflow ends the job. So they are summed in three parts, which takes 2^41
    records to overflow.
    """
    if not any(isinstance(check, ChecksumCheck) for check in pipeline.gates.delivery):
        return frame, None
    checksum = F.col("checksum")
    if "disposition" in frame.columns:
        checksum = F.when(F.col("disposition").isNull(), checksum)
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


def _job_error(error: Exception, order: ShipOrder, *, superseded: bool) -> ShipperError:
    if isinstance(error, ShipperError):
        return error
    if superseded:
        return Superseded(f"a later run of pipeline {order.pipeline} took over; this one stopped, and sends nothing more")
    if told := unsealed(str(error), order.seal):
        return told
    reason = of_exception(error)
    return DeliveryError(
        f"the Spark job failed: {reason}. What was committed is in the ledger: run again, and only the rest is sent."
    )
