"""Step `ship`: everything that the ledger of one cluster does not hold yet, exactly once."""

from __future__ import annotations

import datetime as dt
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

from shipper.config.delivery_checks import ReadBackCheck
from shipper.config.models import Cluster
from shipper.delivery.lease import HeldLease
from shipper.delivery.ledger_log import LedgerLog
from shipper.delivery.order import BundleOrder, OrderedSplit, QuarantineOrder, Receipt, ShipOrder
from shipper.delivery.preflight import Preflight, Sample, preflight
from shipper.delivery.remaining import Remaining, remaining
from shipper.delivery.takeover import Takeover, take_over
from shipper.errors import ShipperError, SourceError, StepResultError, TooManyQuarantined, TopicMissing
from shipper.ledger.records import ChunkKey, ChunkValue, Void, encode_chunk, encode_void
from shipper.plan.files import split_hash
from shipper.producer.client import ClusterClient, TopicLookup
from shipper.readback import ReadBack
from shipper.report.results import GateResult, PlanResult, ShipResult, write_checksum
from shipper.terms import FileId, SplitId
from spark_jobs.account import added, file_accounts, too_many_quarantined, topic_accounts
from spark_jobs.context import RunContext, file_id, say
from spark_jobs.fates import reasons, rules
from spark_jobs.listing import files_with_bom
from spark_jobs.passes import PassOutcome, run_pass
from spark_jobs.progress import lane_accounts, lane_timeline, timeline
from spark_jobs.records import fixed_topics, headers_of_files


def ship(context: RunContext, cluster_name: str, started_at: dt.datetime) -> ShipResult:
    """Ships to one cluster. The result is complete also when the Spark job failed: then ``error`` says why, and the counts
    hold what is certainly there. Raises ShipperError for what was found before anything was sent."""
    plan = context.folder.need("plan", PlanResult)
    context.folder.need("gate_source", GateResult)
    if plan.transform_digest != context.pipeline.transform_digest():
        raise StepResultError("the pipeline's transform was changed after the plan was made; start the run again from the plan")
    cluster = context.clusters[cluster_name]
    client = ClusterClient(cluster)
    sample = Sample(plan.sample_ratio, plan.long_lines)
    ledger = LedgerLog(client, cluster, context.pipeline.name, context.ledger_folder(cluster_name))
    with ThreadPoolExecutor(2, thread_name_prefix="connect") as meanwhile:
        meanwhile.submit(ledger.connect)
        exists = meanwhile.submit(ledger.exists)
        found = preflight(client, cluster, context.pipeline, sample)
    if not exists.result():
        ledger.create()
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
        _Ship(context, cluster, plan, ledger, found, lease, result).run()
    result.notes += _keep_snapshot(ledger)
    result.finished_at = dt.datetime.now(dt.UTC)
    return result


def _keep_snapshot(ledger: LedgerLog) -> list[str]:
    """So that the next run need not read what this one has read. What was shipped is shipped, whatever becomes of it."""
    try:
        ledger.keep_snapshot()
    except (ShipperError, OSError) as error:
        return [f"The ledger's snapshot could not be written, so the next run reads the ledger from the last one on: {error}"]
    return []


class _Ship:
    """From taking over to the account, for one cluster."""

    def __init__(
        self, context: RunContext, cluster: Cluster, plan: PlanResult, ledger: LedgerLog, found: Preflight,
        lease: HeldLease, result: ShipResult,
    ) -> None:  # fmt: skip
        self._context = context
        self._cluster = cluster
        self._plan = plan
        self._uris = {file_id(file): file.uri for file in plan.files}
        self._ledger = ledger
        self._preflight = found
        self._lease = lease
        self._result = result
        self._dropped: dict[str, int] = {}
        """Topic → records that the last pass could not send."""

    def _hash(self, file: FileId, start: int) -> int:
        return split_hash(self._uris[file], file, start)

    def run(self) -> None:
        context, pipeline, result = self._context, self._context.pipeline, self._result
        tasks, lanes = pipeline.tasks, self._preflight.tuning.lanes
        settings, paths = self._preflight.settings, [file.path for file in self._plan.files]
        with self._read_back_connecting() as ends:
            taken = take_over(self._ledger, settings, self._cluster.name, context.folder.run_id, tasks, lanes, paths)
        self._lease.generation = result.generation = taken.generation
        result.chunks_end = taken.chunks_end
        result.tasks, result.lanes, result.tuning = tasks, lanes, self._preflight.tuning.why
        result.guarantee = "exactly_once" if self._preflight.transactional else "at_least_once"
        splits_of = context.splits_of(self._plan)
        left = self._remaining(taken)
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
            result.ends_before = self._ends_before(ends)
            receipts = self._passes(left, taken)
        else:
            say(f"{self._cluster.name}: nothing to ship: the ledger holds all {result.unread} records of {len(splits_of)} files")
        self._account(left, before, receipts, taken)

    @contextmanager
    def _read_back_connecting(self) -> Iterator[ReadBack | None]:
        """Who can say where the topics end, connected meanwhile; None if the delivery gate reads nothing back."""
        if not any(isinstance(check, ReadBackCheck) for check in self._context.pipeline.gates.delivery):
            yield None
            return
        read_back = ReadBack(self._cluster)
        with ThreadPoolExecutor(1, thread_name_prefix="connect") as meanwhile:
            meanwhile.submit(read_back.connect)
            yield read_back

    def _ends_before(self, read_back: ReadBack | None) -> dict[str, list[int]] | None:
        """Taken when nobody but this ship can write for the pipeline any more, and it has not begun. So what earlier ships sent lies before
        these offsets, also what an earlier try of this very run sent; and all that this one sends, behind them."""
        return read_back.ends(self._context.pipeline.may_ship_to) if read_back else None

    def _remaining(self, taken: Takeover) -> Remaining:
        return remaining(
            self._context.splits_of(self._plan),
            taken.chunks,
            digest=self._plan.transform_digest,
            reship=self._plan.reship,
            on_replaced=self._context.pipeline.source.on_replaced,
            reshipped=[file for file, void in taken.voids.items() if void.run_id == self._context.folder.run_id],
        )

    def _read_on(self, taken: Takeover) -> Takeover:
        """With what was committed since."""
        wait_seconds = self._preflight.settings.transaction_timeout_ms / 1000
        committed = self._ledger.chunks(taken.chunks_end, wait_seconds=wait_seconds)
        end = committed[-1].offset + 1 if committed else taken.chunks_end
        return replace(taken, chunks=taken.chunks.feed(committed), chunks_end=end)

    def _write_voids(self, left: Remaining, taken: Takeover) -> None:
        """Declared before the first byte is sent anew, so that a run that dies after it is finished by any later one."""
        if left.void:
            void = Void(taken.generation, self._context.folder.run_id)
            self._ledger.write_control(encode_void(self._ledger.pipeline, file, void) for file in left.void)
            for file in left.void:
                taken.voids[file] = void
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
                    quarantines=state.quarantines if state else frozenset(),
                    end_known=state is not None and state.end is not None,
                    headers=headers.get(self._uris[file], ()),
                )
        if len(splits) != sum(len(context.split_starts(file)) for file in left.left):
            raise SourceError("two splits of this window have the same 64-bit hash; ship the window in two halves")
        bundle, delivery, quarantine = pipeline.records.bundle, pipeline.delivery, pipeline.quarantine
        return ShipOrder(
            pipeline=pipeline.name,
            cluster=self._cluster.name,
            run_id=context.folder.run_id,
            window=str(context.window),
            digest=self._plan.transform_digest,
            generation=taken.generation,
            chunks_end=taken.chunks_end,
            ledger_topic=self._ledger.topic,
            preflight=self._preflight,
            deadline_seconds=pipeline.delivery.metadata_wait_seconds,
            topics=fixed_topics(pipeline),
            splits=splits,
            bundle=bundle and BundleOrder(bundle.max_bytes, all_lines=pipeline.records.value == "value"),
            rules=rules(pipeline),
            reasons=reasons(pipeline),
            quarantine=quarantine and QuarantineOrder(quarantine.topic, quarantine.keep_bytes),
            partitions=delivery.partitions if isinstance(delivery.partitions, tuple) else None,
            share_partitions=delivery.partitions == "share",
            in_order=delivery.ordering == "file",
            rate_limit_bytes=min((limit for limit in (delivery.rate_limit, self._cluster.rate_limit) if limit), default=None),
            ratio=self._plan.sample_ratio,
        )

    def _passes(self, left: Remaining, taken: Takeover) -> list[Receipt]:
        """Reads what is left and ships it; again, for what found its topic unusable and no room to wait for it in memory."""
        result = self._result
        deadline = time.monotonic() + self._context.pipeline.delivery.metadata_wait_seconds
        outcome = self._pass(left, taken)
        result.read = outcome.read
        if outcome.checksum is not None:
            result.checksum = write_checksum(outcome.checksum)
        if outcome.observed:
            result.observed = {"read": outcome.read, **outcome.observed}
        self._close_empty_splits(left, outcome, taken)
        receipts = outcome.receipts
        self._dropped = outcome.dropped
        while outcome.error is None and outcome.dropped:
            outcome = self._next_pass(outcome.dropped, taken, deadline)
            self._dropped = outcome.dropped if outcome.receipts else self._dropped
            for receipt in outcome.receipts:
                # The first pass has counted these lines as read; what they add is what they deliver.
                for split in receipt.splits.values():
                    split.records = split.before = split.adjusted = 0
                    split.filtered, split.settled = {}, {}
                for topic in receipt.topics.values():
                    topic.before = 0
            receipts += outcome.receipts
        if outcome.error is not None:
            self._failed(outcome.error)
        return receipts

    def _pass(self, left: Remaining, taken: Takeover) -> PassOutcome:
        order = self._order(left, taken)
        paths = [file.path for file in left.left]
        return run_pass(self._context, self._cluster, self._ledger, self._lease, order, paths, self._plan.long_lines)

    def _next_pass(self, dropped: Mapping[str, int], taken: Takeover, deadline: float) -> PassOutcome:
        lookup = TopicLookup(self._preflight.settings)
        while missing := {topic: state for topic, state in lookup(dropped, 5.0).items() if not state.partitions}:
            if time.monotonic() > deadline:
                counts = ", ".join(f"{topic} ({dropped[topic]:,} records: {state.reason})" for topic, state in missing.items())
                return PassOutcome(
                    error=TopicMissing(
                        f"cluster {self._cluster.name}: not delivered within `delivery.metadata_wait`: {counts}. Everything else was sent. "
                        "Create the topic, or check its name and the ACLs; then run again: only what is left will be sent."
                    )
                )
            time.sleep(1.0)
        say(
            f"{self._cluster.name}: another pass for {', '.join(f'{topic} ({count:,} records)' for topic, count in dropped.items())}"
        )
        self._result.notes.append(f"Another pass over the files was needed for parked records of {', '.join(dropped)}.")
        taken = self._read_on(taken)
        return self._pass(self._remaining(taken), taken)

    def _failed(self, error: ShipperError) -> None:
        self._result.status, self._result.error, self._result.final = "failed", error.message, not error.retriable

    def _close_empty_splits(self, left: Remaining, outcome: PassOutcome, taken: Takeover) -> None:
        """A split without any record never reaches the sink; the ledger says that it is done, so that it is not read again.

        Only when Spark's count of lines and the tasks' agree: else a lost split would be taken for an empty one."""
        if outcome.error is not None or outcome.read != outcome.records:
            return
        seen = {split for receipt in outcome.receipts for split in receipt.splits}
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
        quarantine = self._context.pipeline.quarantine
        quarantines = {topic for state in taken.chunks.splits.values() for topic in state.quarantines}
        quarantines |= {quarantine.topic} if quarantine else set()
        result.topics = topic_accounts(before, receipts, quarantines, self._dropped)
        result.files = file_accounts(self._plan.files, left, receipts, self._context, taken.chunks)
        result.filtered = added(file.filtered for file in result.files)
        result.quarantined = added(file.quarantined for file in result.files)
        result.settled = added(split.settled for receipt in receipts for split in receipt.splits.values())
        if quarantine and result.status != "failed" and (fault := too_many_quarantined(result, quarantine)):
            self._failed(TooManyQuarantined(fault))
        if result.checksum is not None:
            result.checksum_added = write_checksum(sum(s.adjusted for receipt in receipts for s in receipt.splits.values()))
        if result.ends_before is not None:
            mine = {topic.topic for topic in result.topics} | set(self._context.pipeline.needed_topics())
            result.ends_before = {topic: ends for topic, ends in result.ends_before.items() if topic in mine}
        result.task_retries = sum(receipt.retries for receipt in receipts)
        result.lane_reopened = sum(receipt.lane_reopened for receipt in receipts)
        result.possible_duplicates = sum(receipt.possible_duplicates for receipt in receipts)
        result.wire_bytes = sum(receipt.wire_bytes for receipt in receipts)
        result.parked = dict(sum((Counter(receipt.parked) for receipt in receipts), Counter()))
        for topic, batch_bytes in {topic: size for receipt in receipts for topic, size in receipt.lowered.items()}.items():
            result.notes.append(
                f"Batches of {topic} turned out larger than the topic takes and were halved, to {batch_bytes:,} bytes at last (uncompressed)."
            )
        starts = [receipt.first_at for receipt in receipts if receipt.first_at]
        ends = [receipt.last_at for receipt in receipts if receipt.last_at]
        if starts and ends:
            result.ship_seconds = max(ends) - min(starts)
        result.lane_timeline, result.lane_accounts = lane_timeline(receipts), lane_accounts(receipts)
        wait_seconds = self._preflight.settings.transaction_timeout_ms / 1000 + 15
        try:
            committed = self._ledger.chunks(taken.chunks_end, wait_seconds=wait_seconds)
        except ShipperError as error:
            if result.status != "failed":
                raise
            say(f"{self._cluster.name}: no timeline: {error}")  # what made the ship fail says more
            return
        result.timeline = timeline(self._ledger.pipeline, committed, taken.generation)
