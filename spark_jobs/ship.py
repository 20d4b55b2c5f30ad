"""Step `ship`: everything that the ledger of one cluster does not hold yet, exactly once."""

from __future__ import annotations

import datetime as dt
import json
import pickle
import re
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from pyspark.sql import Observation
from pyspark.sql import functions as F

from shipper import errors
from shipper.config.models import Cluster
from shipper.delivery.lease import HeldLease
from shipper.delivery.ledger_log import LedgerLog
from shipper.delivery.order import BundleOrder, OrderedSplit, Receipt, ShipOrder, SplitReceipt, TopicReceipt
from shipper.delivery.preflight import lane_settings
from shipper.delivery.remaining import Remaining, remaining
from shipper.delivery.takeover import Takeover, take_over
from shipper.errors import DeliveryError, ShipperError, SourceError, StepResultError, Superseded
from shipper.ledger.chunks import Chunks
from shipper.ledger.records import ChunkKey, ChunkValue, Void, encode_chunk, encode_void
from shipper.plan.files import split_hash
from shipper.producer.client import ClusterClient, LaneSettings
from shipper.report.results import FileAccount, GateResult, PlannedFile, PlanResult, ShipResult, TopicAccount
from shipper.terms import FileId, SplitId
from spark_jobs.context import RunContext, file_id, say
from spark_jobs.listing import files_with_bom, has_long_lines
from spark_jobs.progress import Progress, timeline
from spark_jobs.reason import of_exception
from spark_jobs.records import fixed_topics, headers_of_files, lines, records
from spark_jobs.sink import ShipperDataSource

_ARROW_BATCH_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
_UNLIMITED, _LONG_LINES_BATCH_BYTES = 2**31 - 1, 16_000_000


def ship(context: RunContext, cluster_name: str, started_at: dt.datetime) -> ShipResult:
    """Ships to one cluster. The result is complete also when the Spark job failed: then ``error`` says why, and the counts
    hold what is certainly there. Raises ShipperError for what was found before anything was sent."""
    plan = context.folder.need("plan", PlanResult)
    context.folder.need("gate_source", GateResult)
    if plan.transform_digest != context.pipeline.transform_digest():
        raise StepResultError("the pipeline's transform was changed after the plan was made; start the run again from the plan")
    cluster = context.clusters[cluster_name]
    client = ClusterClient(cluster)
    settings = lane_settings(client, cluster, context.pipeline)
    ledger = LedgerLog(client, cluster, context.pipeline.name)
    ledger.ensure()
    delivery = context.pipeline.delivery
    result = ShipResult(**context.common("ship"), cluster=cluster_name, started_at=started_at, finished_at=started_at)
    lease = HeldLease(
        ledger,
        context.folder.run_id,
        delivery.lease_seconds,
        delivery.lease_wait_seconds,
        lambda text: say(f"{cluster_name}: {text}"),
    )
    with lease:
        _Ship(context, cluster, plan, ledger, settings, lease, result).run()
    result.finished_at = dt.datetime.now(dt.UTC)
    return result


class _Ship:
    """From taking over to the account, for one cluster."""

    def __init__(
        self, context: RunContext, cluster: Cluster, plan: PlanResult, ledger: LedgerLog, settings: LaneSettings,
        lease: HeldLease, result: ShipResult,
    ) -> None:  # fmt: skip
        self._context = context
        self._cluster = cluster
        self._plan = plan
        self._uris = {file_id(file): file.uri for file in plan.files}
        self._ledger = ledger
        self._settings = settings
        self._lease = lease
        self._result = result

    def _hash(self, file: FileId, start: int) -> int:
        return split_hash(self._uris[file], file, start)

    def run(self) -> None:
        context, pipeline, result = self._context, self._context.pipeline, self._result
        tasks, lanes = pipeline.runner.cores, pipeline.delivery.lanes
        taken = take_over(self._ledger, self._settings, self._cluster.name, context.folder.run_id, tasks, lanes)
        self._lease.generation = result.generation = taken.generation
        result.tasks, result.lanes = tasks, lanes
        splits_of = context.splits_of(self._plan)
        left = remaining(
            splits_of,
            taken.chunks,
            digest=self._plan.transform_digest,
            reship=self._plan.reship,
            on_replaced=pipeline.source.on_replaced,
            reshipped=[file for file, void in taken.control.voids.items() if void.run_id == context.folder.run_id],
        )
        self._write_voids(left, taken)
        if left.skipped:
            result.notes.append(
                f"{len(left.skipped)} files were replaced after being shipped and left alone (`on_replaced: skip`)."
            )
        before = taken.chunks.records_by_topic(SplitId(file, start) for file in left.complete for start in splits_of[file])
        result.unread, result.unread_files = sum(before.values()), len(left.complete)
        receipts: list[Receipt] = []
        if left.left:
            say(f"{self._cluster.name}: shipping {len(left.left)} of {len(splits_of)} files")
            receipts = self._spark_job(left, taken)
            self._close_empty_splits(left, receipts, taken)
        else:
            say(f"{self._cluster.name}: nothing to ship: the ledger holds all {result.unread} records of {len(splits_of)} files")
        self._account(left, before, receipts, taken)

    def _write_voids(self, left: Remaining, taken: Takeover) -> None:
        """Declared before the first byte is sent anew, so that a run that dies after it is finished by any later one."""
        if left.void:
            void = Void(taken.generation, self._context.folder.run_id)
            self._ledger.write_control(encode_void(self._ledger.pipeline, file, void) for file in left.void)
            for file in left.void:
                taken.control.voids[file] = void
                for start in self._context.split_starts(file):
                    taken.chunks.splits.pop(SplitId(file, start), None)

    def _order(self, left: Remaining, taken: Takeover) -> ShipOrder:
        context, pipeline = self._context, self._context.pipeline
        restores_bom = pipeline.records.value == "value"
        bom = files_with_bom(context.spark, [file.path for file in left.left]) if restores_bom else set()
        headers = headers_of_files(context.spark, pipeline, [self._uris[file] for file in left.left])
        splits: dict[int, OrderedSplit] = {}
        for file in left.left:
            for start in context.split_starts(file):
                split = SplitId(file, start)
                state = taken.chunks.splits.get(split)
                topics = {topic for _, topic in state.chunks} if state else set()
                splits[self._hash(file, start)] = OrderedSplit(
                    split,
                    bom=start == 0 and file.path in bom,
                    there={topic: state.intervals(topic) for topic in topics} if state else {},
                    end_known=state is not None and state.end is not None,
                    headers=headers.get(self._uris[file], ()),
                )
        if len(splits) != sum(len(context.split_starts(file)) for file in left.left):
            raise SourceError("two splits of this window have the same 64-bit hash; ship the window in two halves")
        bundle = pipeline.records.bundle
        return ShipOrder(
            pipeline=pipeline.name,
            cluster=self._cluster.name,
            run_id=context.folder.run_id,
            window=str(context.window),
            digest=self._plan.transform_digest,
            generation=taken.generation,
            chunks_end=taken.chunks_end,
            ledger_topic=self._ledger.topic,
            lane_settings=self._settings,
            lanes=pipeline.delivery.lanes,
            chunk_size_bytes=pipeline.delivery.chunk_size_bytes,
            deadline_seconds=pipeline.delivery.metadata_wait_seconds,
            topics=fixed_topics(pipeline),
            splits=splits,
            bundle=bundle and BundleOrder(bundle.max_bytes, all_lines=pipeline.records.value == "value"),
        )

    def _spark_job(self, left: Remaining, taken: Takeover) -> list[Receipt]:
        """Runs the job; returns what the tasks say. A failure is noted in the result, never raised: the account follows."""
        context, result = self._context, self._result
        order = self._order(left, taken)
        spark = context.spark
        spark.dataSource.register(ShipperDataSource)
        self._size_arrow_batches([file.path for file in left.left])
        observed = Observation("lines")
        frame = lines(spark, [file.path for file in left.left]).observe(observed, F.count(F.lit(1)).alias("read"))
        frame = records(frame, context.pipeline).coalesce(result.tasks)
        with tempfile.TemporaryDirectory(prefix="shipper-") as folder:
            order_path, receipts_path = Path(folder, "order"), Path(folder, "receipts")
            order_path.touch(mode=0o600)
            order_path.write_bytes(pickle.dumps((order, self._cluster)))
            writer = (
                frame.write.format("shipper")
                .mode("append")
                .option("order", str(order_path))
                .option("receipts", str(receipts_path))
            )
            try:
                with Progress(self._ledger, order, self._lease.superseded, spark.sparkContext.cancelAllJobs):
                    writer.save()
                result.read = observed.get["read"]
            except Exception as error:
                self._failed(self._job_error(error))
            receipts = _read_receipts(receipts_path)
        for receipt in receipts:
            if receipt.error and result.status != "failed":
                self._failed(getattr(errors, receipt.error_kind or "", DeliveryError)(receipt.error))
        return receipts

    def _size_arrow_batches(self, paths: Sequence[str]) -> None:
        """Spark counts the bytes of an Arrow batch anew with every row, which costs 40 % of the way to Python (measured: 0.90
        against 0.53 CPU s per million lines). So it counts where lines are long, and elsewhere the number of rows is limit enough."""
        if _ARROW_BATCH_BYTES not in self._context.pipeline.runner.conf:
            limit = _LONG_LINES_BATCH_BYTES if has_long_lines(self._context.spark, paths) else _UNLIMITED
            self._context.spark.conf.set(_ARROW_BATCH_BYTES, str(limit))

    def _failed(self, error: ShipperError) -> None:
        self._result.status, self._result.error, self._result.final = "failed", error.message, not error.retriable

    def _job_error(self, error: Exception) -> ShipperError:
        if self._lease.superseded.is_set():
            return Superseded(
                f"a later run of pipeline {self._ledger.pipeline} took over; this one stopped, and sends nothing more"
            )
        ours = re.findall(r"shipper\.errors\.(\w+): (.+)", str(error))
        if ours:
            kind, message = ours[-1]
            return getattr(errors, kind, DeliveryError)(message)
        reason = of_exception(error)
        return DeliveryError(
            f"the Spark job failed: {reason}. What was committed is in the ledger: run again, and only the rest is sent."
        )

    def _close_empty_splits(self, left: Remaining, receipts: Sequence[Receipt], taken: Takeover) -> None:
        """A split without any record never reaches the sink; the ledger says that it is done, so that it is not read again.

        Only when Spark's count of lines and the tasks' agree: else a lost split would be taken for an empty one."""
        seen = {split for receipt in receipts for split in receipt.splits}
        if self._result.status == "failed" or self._result.read != sum(
            r.records for receipt in receipts for r in receipt.splits.values()
        ):
            return
        empty = [
            SplitId(file, start)
            for file in left.left
            for start in self._context.split_starts(file)
            if self._hash(file, start) not in seen
        ]
        value = ChunkValue(
            last=0, end=True, records=0, bytes=0, checksum=0, digest=self._plan.transform_digest, generation=taken.generation,
            run_id=self._context.folder.run_id, window=str(self._context.window),
        )  # fmt: skip
        if empty:
            self._ledger.write_chunks(encode_chunk(self._ledger.pipeline, ChunkKey(split, 0, ""), value) for split in empty)

    def _account(self, left: Remaining, before: Counter[str], receipts: Sequence[Receipt], taken: Takeover) -> None:
        result = self._result
        topics: dict[str, TopicAccount] = {}
        for topic, count in before.items():
            topics.setdefault(topic, TopicAccount(topic=topic)).before += count
        for receipt in receipts:
            for topic, counts in receipt.topics.items():
                account = topics.setdefault(topic, TopicAccount(topic=topic))
                account.delivered += counts.delivered
                account.delivered_bytes += counts.bytes
                account.before += counts.before
        result.topics = sorted(topics.values(), key=lambda account: account.topic)
        result.files = _file_accounts(self._plan.files, left, receipts, self._context, taken.chunks)
        result.task_retries = sum(receipt.retries for receipt in receipts)
        result.lane_reopened = sum(receipt.lane_reopened for receipt in receipts)
        starts = [receipt.first_at for receipt in receipts if receipt.first_at]
        ends = [receipt.last_at for receipt in receipts if receipt.last_at]
        if starts and ends:
            result.ship_seconds = max(ends) - min(starts)
        committed = self._ledger.chunks(taken.chunks_end, wait_seconds=self._settings.transaction_timeout_ms / 1000)
        result.timeline = timeline(self._ledger.pipeline, committed, taken.generation)


def _read_receipts(path: Path) -> list[Receipt]:
    if not path.exists():
        return []
    receipts = []
    for fields in json.loads(path.read_text()):
        fields["splits"] = {int(split): SplitReceipt(**counts) for split, counts in fields["splits"].items()}
        fields["topics"] = {topic: TopicReceipt(**counts) for topic, counts in fields["topics"].items()}
        receipts.append(Receipt(**fields))
    return receipts


def _file_accounts(
    files: Sequence[PlannedFile], left: Remaining, receipts: Sequence[Receipt], context: RunContext, chunks: Chunks
) -> list[FileAccount]:
    by_split: Mapping[int, SplitReceipt] = {split: counts for receipt in receipts for split, counts in receipt.splits.items()}
    complete = set(left.complete)
    accounts = []
    for planned in files:
        file: FileId = file_id(planned)
        starts = context.split_starts(file)
        if file in complete:
            there = sum(chunks.records_by_topic(SplitId(file, start) for start in starts).values())
            accounts.append(FileAccount(path=file.path, records=there, delivered=0, before=there))
            continue
        found = [by_split.get(split_hash(planned.uri, file, start), SplitReceipt()) for start in starts]
        accounts.append(
            FileAccount(
                path=file.path,
                records=sum(split.records for split in found),
                delivered=sum(split.delivered for split in found),
                before=sum(split.before for split in found),
            )
        )
    return accounts
