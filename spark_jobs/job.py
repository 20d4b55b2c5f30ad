"""The Spark job that ships: it reads pieces of files, turns lines into records, and gives them to
the sink."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from shipper.config.checks import ChecksumCheck
from shipper.config.cluster import Cluster
from shipper.config.pipeline import Pipeline
from shipper.config.rules import sql_column
from shipper.driver.dispositions import crosses_in_blocks, is_counted
from shipper.driver.engine import Scan, ShipJob
from shipper.driver.pieces import file_pieces, partition_bytes
from shipper.report.plan_result import PlannedFile
from shipper.worker.marks import BROKEN, END, MARK, RECORDS
from shipper.worker.order import ShipOrder
from spark_jobs.frame import blocks, records
from spark_jobs.reader import LineLimits, reading
from spark_jobs.sink import Sink

_ARROW_BATCH_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
_UNLIMITED, _LONG_LINES_BATCH_BYTES, _BLOCKS_BATCH_BYTES = 2**31 - 1, 16_000_000, 4_000_000
#: Bits 0–21, 22–43 and 44–63 of a checksum.
_PART, _SHIFTS = 2**22 - 1, (0, 22, 44)


class SparkJob(ShipJob):
    def __init__(
        self,
        spark: SparkSession,
        pipeline: Pipeline,
        order: ShipOrder,
        cluster: Cluster,
        files: Sequence[PlannedFile],
        *,
        long_lines: bool,
    ) -> None:
        self._spark = spark
        self._pipeline = pipeline
        self._cluster = cluster
        self._schema_ids = order.schema_ids
        self._sink = Sink(order, cluster)
        self._limits = LineLimits.of(pipeline)
        self._pieces = list(file_pieces(files, pipeline.split_size_bytes))
        self._blocks = crosses_in_blocks(pipeline)
        self._long_lines = long_lines

    def run(self, scan: Scan) -> None:
        self._size_arrow_batches()
        together = partition_bytes(
            self._pieces, self._pipeline.tasks, self._pipeline.split_size_bytes
        )
        failed: Exception | None = None
        try:
            with reading(
                self._spark, self._pieces, self._limits, partition_bytes=together, ends=True
            ) as read:
                try:
                    self._write(read.frame, scan)
                except Exception as error:
                    failed = error
                scan.receipts = self._sink.receipts
                scan.reports = read.reports()
        except Exception as error:  # of a JVM that is gone; what it did before says why
            failed = failed or error
        if failed is not None:
            raise failed

    def _write(self, frame: DataFrame, scan: Scan) -> None:
        pipeline, observed, dispositions = (
            self._pipeline,
            Observation("lines"),
            Observation("dispositions"),
        )
        is_record = F.coalesce(~F.col(sql_column(MARK)).isin(BROKEN, END), F.lit(True))
        read = F.sum(sql_column(RECORDS)) if self._blocks else F.count_if(is_record)
        frame = frame.observe(observed, read.alias("read"))
        made = (
            blocks(frame)
            if self._blocks
            else records(
                frame, pipeline, dispositions, self._cluster.reserved_topics, self._schema_ids
            )
        )
        frame, checksums = _with_checksum(made, pipeline)
        jobs = self._jobs()
        self._sink.write(frame.coalesce(pipeline.tasks))
        scan.cpu_seconds = self._cpu_seconds(self._jobs() - jobs)
        scan.read = observed.get["read"] or 0
        scan.checksum = _checksum(checksums) if checksums else None
        if is_counted(pipeline):
            scan.observed = {name: int(count or 0) for name, count in dispositions.get.items()}

    def stop(self) -> None:
        self._spark.sparkContext.cancelAllJobs()

    def read_so_far(self) -> object:
        """Return rows and bytes read, for each stage that runs, by the executors' heartbeats (every
        10 s)."""
        stages = self._store.activeStages()
        running = [stages.apply(index) for index in range(stages.size())]
        return [(stage.inputRecords(), stage.inputBytes()) for stage in running]

    def _jobs(self) -> set[int]:
        jobs = self._store.jobsList(None)
        return {jobs.apply(index).jobId() for index in range(jobs.size())}

    def _cpu_seconds(self, jobs: Collection[int]) -> float:
        """Return the CPU time of the tasks' Java threads, in seconds."""
        store, stages = self._store, set[int]()
        for job in jobs:
            ids = store.job(job).stageIds()
            stages |= {ids.apply(index) for index in range(ids.size())}
        spent: int = sum(store.lastStageAttempt(stage).executorCpuTime() for stage in stages)
        return spent / 1e9

    @property
    def _store(self) -> Any:
        return self._spark.sparkContext._jsc.sc().statusStore()

    def _size_arrow_batches(self) -> None:
        """Limit Arrow batches by bytes only if lines are long. Spark counts the bytes of an Arrow
        batch again with every row, which costs 40 % of the way to Python (measured: 0.90 against
        0.53 CPU s per million lines). So it counts where lines are long, and elsewhere the number
        of rows is limit enough."""
        size = _LONG_LINES_BATCH_BYTES if self._long_lines else _UNLIMITED
        if self._blocks:  # few rows, each of a size that counts
            size = _BLOCKS_BATCH_BYTES
        if _ARROW_BATCH_BYTES not in self._pipeline.runner.conf:
            self._spark.conf.set(_ARROW_BATCH_BYTES, str(size))


def _with_checksum(frame: DataFrame, pipeline: Pipeline) -> tuple[DataFrame, Observation | None]:
    """Observe the sum of the frame's column `checksum`, for a pipeline whose delivery gate compares
    it.

    A sum of 64-bit numbers overflows, and under ANSI an overflow ends the job. So they are summed
    in three parts, which takes 2^41 records to overflow.
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
