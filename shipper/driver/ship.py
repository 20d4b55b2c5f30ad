"""Step `ship`: everything that the ledger of one cluster does not hold yet, exactly once."""

from __future__ import annotations

import datetime as dt
import os
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

from shipper import runtime
from shipper.config.checks import ReadBackCheck
from shipper.config.units import listed, plural
from shipper.driver.account import ReceiptAccount, records_behind, too_many_quarantined
from shipper.driver.context import RunContext
from shipper.driver.decide import (
    Decisions,
    FileDecision,
    Originals,
    SourceFile,
    decide,
    note_of_matches,
    note_of_successors,
    shipped_under_another,
)
from shipper.driver.engine import Scan
from shipper.driver.looking import heads_to_ask, look_into
from shipper.driver.pieces import broken_files, file_pieces
from shipper.driver.preflight import Preflight, preflight
from shipper.driver.recognition import PLAIN
from shipper.driver.recreated import error as recreated_error
from shipper.driver.recreated import judge, look_again, notes
from shipper.driver.scan import scan
from shipper.driver.schemas import schema_ids
from shipper.driver.ship_order import ship_order
from shipper.driver.timelines import timeline
from shipper.driver.unreadable import (
    cannot_be_read,
    padded,
    quarantine_whole,
    too_long,
    without_records,
    wrong_sizes,
)
from shipper.errors import (
    ClusterRefuses,
    DeliveryError,
    OutcomeUnknown,
    ShipperError,
    SourceError,
    StepResultError,
    TopicMissing,
)
from shipper.kafka.topics import TopicLookup, wait_for
from shipper.ledger.codec import encode_alias
from shipper.ledger.fold import Chunks, Invalidated, LedgerState, SentToTopic
from shipper.ledger.identity import LedgerIdentity
from shipper.ledger.incarnations import Incarnations
from shipper.ledger.lease import HeldLease
from shipper.ledger.log import LedgerLog, LedgerQuestion, ask_committed, ask_state
from shipper.ledger.records import Alias, Entry, Generation
from shipper.ledger.takeover import Fences, Takeover, take_over
from shipper.ledger.writing import invalidate, right_of, write_as_lane
from shipper.report.plan_result import PlannedFile, PlanResult
from shipper.report.results import GateResult, ShipResult, apply_gate
from shipper.report.run_folder import reached
from shipper.stopping import Stopped
from shipper.terminal import say
from shipper.types import FileId
from shipper.verify.readback import ReadBack

#: Topics or files in a message; log lines may have made many.
_NAMED = 10
_STOPPED_READS_SECONDS = 3.0


def ship(context: RunContext, cluster_name: str, started_at: dt.datetime) -> ShipResult:
    """Ship to one cluster. The result is complete also when the Spark job failed: then ``error``
    gives the reason, and the counts hold the records that are certainly delivered. Raises
    ShipperError for faults found before anything was sent."""
    plan = apply_gate(
        context.folder.need("plan", PlanResult), context.folder.need("gate_source", GateResult)
    )
    if plan.digest_for(cluster_name) != context.pipeline.transform_digest():
        raise StepResultError(
            "the pipeline's transform was changed after the plan was made. Nothing was sent. "
            "Start the run again from the plan.",
            code="SHIP-008",
        )
    cluster = context.clusters[cluster_name]
    if any(file.left for file in plan.files_for(cluster_name)):
        context.engine.begin()
    connections = context.connections(cluster_name)
    client = connections.client
    connections.begin_writing(plan.of_cluster(cluster_name).to_fence)
    ledger = context.ledger(cluster_name, plan.source_root)
    identity = LedgerIdentity(ledger, new_ledger=context.request.new_ledger)
    with context.phases("asking the cluster"):
        with runtime.ThreadPoolExecutor(1, thread_name_prefix="ask") as meanwhile:
            exists = meanwhile.submit(_checked, ledger, identity)
            found = preflight(
                client, cluster, context.pipeline, plan.sample_ratio, plan.bytes_to_read
            )
        if not exists.result():
            ledger.create()
        connections.wait()
    delivery = context.pipeline.delivery
    result = ShipResult(**context.common("ship", started_at), cluster=cluster_name)
    result.earlier_wire_bytes = _earlier_wire_bytes(context, cluster_name)
    lease = HeldLease(
        ledger, context.folder.run_id, delivery.lease_seconds, delivery.lease_wait_seconds,
        lambda text: say(f"{cluster_name}: {text}"),
    )  # fmt: skip
    with (
        runtime.ThreadPoolExecutor(1, thread_name_prefix="timeline") as meanwhile,
        ExitStack() as held,
    ):
        with context.phases("waiting for the lease"):
            held.enter_context(lease)
            result.note(*_remember(identity, context), code="new-ledger")
        found = found.with_ack(ledger.ack_seconds)
        shipping = ClusterShip(context, plan, identity, found, lease, result)
        taken = shipping.run()
        drawn = meanwhile.submit(shipping.draw_timeline, taken)
        with context.phases("releasing the lease"):
            held.close()
            drawn.result()
    _keep_snapshot(ledger, result)
    return result


def _earlier_wire_bytes(context: RunContext, cluster: str) -> int:
    """Return what earlier attempts of this run sent; 0 if they left nothing that can be read."""
    earlier = context.folder.glance(f"ship.{cluster}", ShipResult)
    return earlier.wire_bytes + earlier.earlier_wire_bytes if earlier else 0


def _checked(ledger: LedgerLog, identity: LedgerIdentity) -> bool:
    """Return True if the ledger exists and is the remembered one. Raises LedgerGone,
    ClusterError."""
    exists = ledger.exists()
    identity.check(exists)
    return exists


def _remember(identity: LedgerIdentity, context: RunContext) -> list[str]:
    """Remember the ledger before anything is sent: a ledger that is lost must be missed, also after
    its first ship."""
    with reached(f"the identity of the ledger in {context.own_runs_uri}"):
        return identity.remember(context.folder.run_id, f"{runtime.now():%Y-%m-%dT%H:%M:%SZ}")


def _keep_snapshot(ledger: LedgerLog, result: ShipResult) -> None:
    """Write a snapshot, so that the next run need not read the same records again. A failure here
    does not undo the ship."""
    try:
        ledger.keep_snapshot()
    except (ShipperError, OSError) as error:
        result.note(
            "The ledger's snapshot could not be written, so the next run reads the ledger from "
            f"the last one on: {error}",
            code="snapshot",
        )


def _left_out(cluster: str, left_out: Mapping[FileId, str]) -> SourceError:
    """Return the error for files that the plan took for new: somebody shipped something of them
    meanwhile, or the cluster could not be asked. The next plan leaves them out by name."""
    files = sorted(left_out)
    paths, why = listed([file.path for file in files], 1), left_out[files[0]]
    return SourceError(
        f"cluster {cluster}: {paths}: {why}. Everything else was sent.", code="SHIP-314"
    )


class ClusterShip:
    """Ship to one cluster, from the takeover to the account."""

    def __init__(
        self,
        context: RunContext,
        plan: PlanResult,
        identity: LedgerIdentity,
        found: Preflight,
        lease: HeldLease,
        result: ShipResult,
    ) -> None:
        cluster, connections = context.clusters[result.cluster], context.connections(result.cluster)
        self._client = connections.client
        self._context = context
        self._cluster = cluster
        self._plan = plan
        self._files, self._seen = plan.files_for(cluster.name), plan.seen_by(cluster.name)
        self._late_windows = {file.id: file.late_window for file in self._files if file.late_window}
        self._identity, self._ledger = identity, identity.ledger
        self._preflight = found
        self._lease = lease
        self._fences: Fences | None = connections.take_fences()
        self._result = result
        self._account = ReceiptAccount(result)
        self._of_id = {file.id: file for file in plan.files}
        self._schema_ids: dict[str, int] = {}
        self._incarnations = Incarnations(Chunks(self._ledger.pipeline))
        self._unreadable: list[PlannedFile] = []
        """Files that are left and cannot be read, as the plan or the reading found."""
        self._originals: Originals = {}
        self._at_end: Takeover | None = None
        """The ledger after this ship; None: not read yet."""
        self._stayed: runtime.Future[dict[str, str | None]] | None = None
        """The topics' ids after this ship; None: not asked yet."""
        self._earlier: dict[str, SentToTopic] = {}
        """Topic → what earlier attempts of this very run sent there."""

    def run(self) -> Takeover:
        context, pipeline, result = self._context, self._context.pipeline, self._result
        tasks, lanes = pipeline.tasks, self._preflight.tuning.lanes
        with (
            self._read_back_connecting() as ends,
            context.phases("taking over"),
            runtime.ThreadPoolExecutor(1, thread_name_prefix="topic ids") as meanwhile,
        ):
            present = meanwhile.submit(self._client.present_ids, list(pipeline.needed_topics()))
            taken = self._present(self._take_over(tasks, lanes), present.result())
        self._preflight = self._preflight.announced(self._ledger.ack_seconds)
        lanes = self._preflight.tuning.lanes
        self._lease.generation = result.generation = taken.generation
        result.chunks_end = result.ledger_end = taken.chunks_end
        result.tasks, result.lanes, result.tuning = tasks, lanes, self._preflight.tuning.why
        link = self._preflight.sizing.link
        result.rtt_ms, result.ack_ms = link.rtt_seconds * 1000, link.ack_seconds * 1000
        result.rate_limit_bytes = self._preflight.rate_limit_bytes
        result.guarantee = (
            "exactly_once" if self._preflight.settings.transactional else "at_least_once"
        )
        if result.status == "failed":
            return taken
        try:
            self._ship(taken, ends)
            self._look_whether_topics_stayed(taken)
        except Stopped as stopped:
            context.engine.abandon()
            stopped.there, stopped.committed = self._there(taken)
            raise
        return taken

    def _take_over(self, tasks: int, lanes: int) -> Takeover:
        taken = take_over(
            self._ledger,
            self._preflight.settings,
            Generation(self._context.folder.run_id, tasks, lanes),
            self._question(),
            lease=self._lease,
            fences=self._fences,
        )
        self._lease.control = self._fences = None  # of the first takeover alone
        return taken

    def _question(self) -> LedgerQuestion[LedgerState]:
        """Return what the takeover asks: what the ledger has of the files, and which others begin
        like those that the plan has looked into."""
        heads = heads_to_ask(self._context, self._seen)
        return ask_state([file.path for file in self._seen], heads)

    def _present(self, taken: Takeover, present: dict[str, str | None]) -> Takeover:
        """Return the takeover without chunks whose topics are gone. The ship fails if records of
        its files are lost with them, and the pipeline does not say to send them again. Raises
        ClusterError."""
        reshipped, result = set(self._plan.reshipped(taken.invalidated)), self._result
        seen = self._incarnations.topic_ids
        judged = {file for file in self._of_id if not self._plan.asked.reship or file in reshipped}
        topics = set(self._context.pipeline.needed_topics())
        found = self._incarnations = judge(
            self._client, taken.chunks, judged, topics=topics, present=present
        )
        result.topic_ids = found.topic_ids
        result.gone_topic_ids = {topic: sorted(ids) for topic, ids in found.gone.items()}
        # What this ship itself has sent to a topic that is gone would count twice.
        is_ours = any(seen.get(topic) in ids for topic, ids in found.gone.items())
        resends = self._context.pipeline.delivery.on_recreated == "resend" and not is_ours
        result.recreated = found.named(resent=resends)
        if found.lost and not resends:
            sent = ["That was during this ship."] if is_ours else []
            self._failed(
                recreated_error(
                    self._cluster.name, self._context.pipeline.name, result.recreated, *sent
                )
            )
        elif found.lost:
            look_again(found, self._cluster)
            result.note(*notes(result.recreated), code="recreated")
        return replace(taken, chunks=found.chunks)

    def _look_whether_topics_stayed(self, taken: Takeover) -> None:
        """Look for topics that were deleted during the ship: the receipts count their records as
        delivered. If the look fails, a note says so; the delivered records are counted all the
        same, and the delivery gate looks again."""
        known = self._incarnations.topic_ids
        try:
            present = self._stayed.result() if self._stayed else self._client.present_ids(known)
            if all(present.get(topic, topic_id) == topic_id for topic, topic_id in known.items()):
                return
            lost = judge(
                self._client, taken.read_on(self._ledger).chunks, self._of_id.keys()
            ).named()
        except ShipperError as error:
            self._result.note(
                "At the end it could not be checked whether a topic was deleted during the "
                f"ship: {error}",
                code="topics",
            )
            return
        if lost:
            self._result.recreated += lost
            why = recreated_error(
                self._cluster.name, self._context.pipeline.name, lost, "That was during this ship."
            )
            if self._result.status == "failed":
                self._result.note(why.message, code=why.code)
            else:
                self._failed(why)

    def _look_into_files(self, taken: Takeover) -> None:
        """Find out what the files may be that the ledger does not know: a deciding read, after the
        takeover. What the plan has seen of the source holds; what it thought of the ledger does
        not."""
        self._engine_looks_at(self._seen)

        def ask(question: LedgerQuestion[Any]) -> Any:
            return self._ledger.decide(question).answer

        with self._context.phases("recognising files"):
            self._originals = look_into(
                self._context, self._client, ask, taken.chunks, self._seen, taken.alike
            )

    def _engine_looks_at(self, files: Sequence[PlannedFile]) -> None:
        """Look at files that the plan did not look at, since no cluster seemed to lack them."""
        if unknown := [file for file in files if file.unknown]:
            self._context.engine.look_at(unknown)

    def _look_for(self, replaced: Sequence[FileId]) -> None:
        """Look whether the files that are to take the place of others are as planned. If not, the
        ledger may hold what is there now, sent by a run with a later plan."""
        files = self._planned(replaced)
        there = self._context.engine.look_for([file.path for file in files]) if files else {}
        for file in files:
            now = there[file.path]
            if now is None or (now.id, now.etag) != (file.id, file.etag):
                file.problem, file.passing = "it was replaced after the plan was made", True

    def _note_aliases(self, matched: Sequence[FileDecision], taken: Takeover) -> None:
        """Write into the ledger which files are others. Raises ClusterError."""
        ledger = self._ledger
        aliases = {one.file: self._alias(one, taken) for one in matched}
        records = [
            record
            for file, alias in aliases.items()
            for record in encode_alias(ledger.pipeline, file, alias)
        ]
        write_as_lane(
            ledger, self._preflight.settings, taken.generation, records,
            f"cluster {self._cluster.name}: the renamed files could not be written to the ledger: "
            "{}. Nothing was sent. Run again.",
        )  # fmt: skip
        for file, alias in aliases.items():
            taken.chunks.add_alias(file, alias)
            taken.chunks.succeeded.add(alias.original)
        self._result.note(note_of_matches(matched), code="renamed")

    def _alias(self, one: FileDecision, taken: Takeover) -> Alias:
        assert one.match is not None
        file, chunks = self._of_id[one.file], taken.chunks
        original, beginning = one.match.original.file, one.match.beginning
        size = file.size_bytes if beginning.whole else 0 if file.format != PLAIN else one.begins
        return Alias(
            original.path,
            original.size_bytes,
            original.modified_ms,
            whole=beginning.whole,
            sum=str(beginning.sum),
            read=size,
            generation=taken.generation,
            run_id=self._context.folder.run_id,
            window=file.late_window or file.tick or str(self._context.window),
            records=dict(chunks.delivered_as(original)),
            topic_ids=chunks.topic_ids(original),
            swallowed=chunks.swallowed(original) or None,
            head=file.head,
            etag=file.etag or None,
        )

    def _ship(self, taken: Takeover, ends: ReadBack | None) -> None:
        context, result = self._context, self._result
        self._look_into_files(taken)
        left = self._decide(taken)
        if matched := left.matched:
            self._note_aliases(matched, taken)
        if successors := left.by("successor"):
            result.note(note_of_successors(successors), code="successor")
        if context.pipeline.source.on_unreadable == "quarantine":
            planned = self._planned(left.left) + self._unreadable
            result.note(quarantine_whole(context, planned, set(left.partial)), code="unreadable")
            left = self._decide(taken)
        if left.left:
            self._identity.confirm()
            context.start_spark_for_sql()
            self._schema_ids = schema_ids(self._cluster, context.pipeline)
        self._invalidate(left, taken)
        if skipped := left.of("skip"):
            names = listed([file.path for file in skipped], _NAMED)
            what = "file was" if len(skipped) == 1 else "files were"
            self._note(
                f"{len(skipped)} {what} replaced after being shipped and left alone "
                f"(`on_replaced: skip`): {names}.",
                "replaced",
            )
        if older := left.by("older"):
            result.note(shipped_under_another(len(older)), code="older")
        self._earlier = taken.chunks.sent_by(context.folder.run_id)
        if earlier := sum(sent.records for sent in self._earlier.values()):
            result.by_earlier_attempts = earlier
            self._note(
                f"{plural(earlier, 'record')} of those already committed came from an earlier "
                "attempt of this very run.",
                "earlier-attempt",
            )
        late = [file for file in left.left if file in self._late_windows]
        result.late_files = len(late)
        result.late_windows = len({self._late_windows[file] for file in late})
        before = taken.chunks.records_by_topic(left.complete)
        result.unread, result.unread_files = sum(before.values()), len(left.complete)
        if left.left:
            files = plural(len(self._files), "file")
            say(f"{self._cluster.name}: shipping {len(left.left)} of {files}")
            # Only this ship can write for the pipeline now, and has not begun. So records of
            # earlier ships, also of an earlier try of this very run, lie before these offsets, and
            # all records of this ship behind them.
            result.ends_before = ends.ends(context.pipeline.may_ship_to) if ends else None
            self._scan_and_ship(left, taken)
        else:
            say(
                f"{self._cluster.name}: nothing to ship: the ledger holds all "
                f"{plural(result.unread, 'record')} of {plural(len(left.complete), 'file')}"
            )
        if self._unreadable and result.status != "failed":
            self._failed(cannot_be_read(self._unreadable, "Everything else was sent."))
        if left.left_out and result.status != "failed":
            self._failed(_left_out(self._cluster.name, left.left_out))
        self._close_account(left, before, taken)

    def _there(self, taken: Takeover) -> tuple[str, int | None]:
        """Return the ledger's entries on the window's files after all shipping has ended, and the
        number of this ship's records, if known. A transaction that was cut off stays open until
        the next run fences it, so this waits only for the records in front of it."""
        question = ask_committed(taken.chunks_end)
        try:
            try:
                least, seen = "", self._ledger.look(question, _STOPPED_READS_SECONDS)
            except OutcomeUnknown:
                least, seen = "at least ", self._ledger.look(question)
            for chunk in seen:
                taken.chunks.add(chunk.key, chunk.value, chunk.timestamp_ms)
            left = self._decide(taken)
        except ShipperError as error:
            return f"The ledger of {self._cluster.name} could not be read any more ({error})", None
        files = plural(len(left.of("done", "ship", "skip")), "file")
        records = plural(sum(left.records.values()), "record")
        return (
            f"The ledger of {self._cluster.name} has {least}{records} of this window "
            f"({len(left.complete)} of {files} complete)"
        ), self._committed(seen)

    @contextmanager
    def _read_back_connecting(self) -> Iterator[ReadBack | None]:
        """Yield a reader of the topics' ends, which connects meanwhile; None if the delivery gate
        reads nothing back."""
        if not any(
            isinstance(check, ReadBackCheck) for check in self._context.pipeline.gates.delivery
        ):
            yield None
            return
        read_back = ReadBack(self._cluster)
        with runtime.ThreadPoolExecutor(1, thread_name_prefix="connect") as meanwhile:
            meanwhile.submit(read_back.connect)
            yield read_back

    def _decide(self, taken: Takeover) -> Decisions:
        """Decide about each file, by what the ledger has of it now. Raises SourceError."""
        chunks = taken.chunks
        asked = self._plan.of_cluster(self._cluster.name).generation
        # A cluster that could not be asked is asked now.
        below = taken.generation if asked is None else asked + 1
        policy = self._context.policy(
            self._plan.digest_for(self._cluster.name),
            below if self._plan.asked.reship else None,
            self._plan.reshipped(taken.invalidated),
            {file.id for file in self._seen if file.late_window},
        )
        found = decide([*map(SourceFile.of, self._seen)], chunks, self._originals, policy)
        found.check(chunks, policy.spark)
        found = found.without({file.id for file in self._seen} - {file.id for file in self._files})
        for one in found.each:
            self._of_id[one.file].begins = one.begins
        self._engine_looks_at(self._planned(found.left))
        self._look_for([one.file for one in found.each if one.void and one.rule != "reship"])
        self._unreadable = [file for file in self._planned(found.left) if file.problem]
        return found.without({file.id for file in self._unreadable})

    def _invalidate(self, left: Decisions, taken: Takeover) -> None:
        """Invalidate chunks before the first byte is sent again, so that a run that dies after it
        is finished by any later one."""
        if left.void:
            asker, reason = self._plan.asker, self._plan.asked.reship_reason
            invalidate(self._ledger, taken.generation, asker, reason or None, left.void)
            before = {
                file: taken.invalidated.get(file, Invalidated(0, frozenset())).asked_by
                for file in left.void
            }
            over = {
                file: Invalidated(taken.generation, asked_by | {asker})
                for file, asked_by in before.items()
            }
            taken.invalidated.update(over)
            taken.chunks.invalidate(over)

    def _scan_and_ship(self, left: Decisions, taken: Takeover) -> None:
        """Read the remaining pieces and ship them; repeat for lines whose topic was unusable and
        that did not fit in memory."""
        deadline = runtime.monotonic() + self._context.pipeline.delivery.metadata_wait_seconds
        done = self._scan(left, taken)
        self._account.add_first(done)
        with self._keeping_the_account():
            self._check_reading(left, done)
            while done.error is None and done.unsent:
                done = self._next_scan(done.unsent, taken, deadline)
                self._check_reading(left, done)
                self._account.add_later(done)
            if done.error is None and not self._unreadable:
                self._check_that_all_is_there(left, taken)
        if done.error is not None:
            self._failed(done.error)

    def _check_that_all_is_there(self, left: Decisions, taken: Takeover) -> None:
        """Check that the ledger says that each file is complete: a ship is green only then,
        whatever the tasks said."""
        self._lease.end()
        with (
            self._context.phases("reading the ledger"),
            runtime.ThreadPoolExecutor(1, thread_name_prefix="topic ids") as meanwhile,
        ):
            known = self._incarnations.topic_ids
            self._stayed = meanwhile.submit(self._client.present_ids, known)
            self._at_end = now = taken.read_on(self._ledger)
        self._result.ledger_end = now.chunks_end
        still = self._decide(now).left
        if missing := [file.path for file in left.left if file in still]:
            raise DeliveryError(
                f"cluster {self._cluster.name}: every task succeeded, but the ledger does not "
                f"hold all of {listed(missing, _NAMED)}. What was committed stays. Run again: "
                "only the rest is sent. If this happens again, report it as a bug.",
                code="SHIP-607",
            )

    @contextmanager
    def _keeping_the_account(self) -> Iterator[None]:
        """Keep the account: records are delivered by now, so any error becomes the ship's error,
        and its counts are kept."""
        try:
            yield
        except ShipperError as error:
            self._failed(error)
        except Exception as error:
            if os.environ.get("SHIPPER_LOG"):
                traceback.print_exc()
            cause = self._context.engine.cause(error)
            self._failed(
                DeliveryError(
                    f"cluster {self._cluster.name}: the ship failed after the files were read: "
                    f"{cause.text}. What was committed stays. Run again: only the rest is sent.",
                    code=cause.code,
                )
            )

    def _scan(self, left: Decisions, taken: Takeover) -> Scan:
        context = self._context
        files = self._planned(left.left)
        with context.phases("preparing"):
            order = replace(
                ship_order(context, self._plan, self._preflight, taken, files, self._incarnations),
                schema_ids=self._schema_ids,
            )
        phases, began = context.phases, runtime.time()
        with phases("shipping"):
            found = scan(
                context,
                self._ledger,
                self._lease,
                order,
                files,
                long_lines=self._plan.long_lines,
            )
        self._result.are_receipts_lost |= found.are_receipts_lost
        if first := min(
            (receipt.first_at for receipt in found.receipts if receipt.first_at), default=0.0
        ):
            phases.move(first - began, of="shipping", to="starting tasks")
        return found

    def _planned(self, files: Sequence[FileId]) -> list[PlannedFile]:
        return [self._of_id[file] for file in files]

    def _next_scan(self, unsent: Mapping[str, int], taken: Takeover, deadline: float) -> Scan:
        if missing := wait_for(TopicLookup(self._preflight.settings), unsent, deadline):
            waiting = [
                f"{topic} ({plural(unsent[topic], 'record')}: {state.reason})"
                for topic, state in missing.items()
            ]
            named = listed(waiting, _NAMED)
            return Scan(
                error=TopicMissing(
                    f"cluster {self._cluster.name}: records were not delivered within "
                    f"`delivery.metadata_wait`: {named}. Everything else was sent. Create the "
                    "topics, or check their names and ACLs. Then run again: only what is left "
                    "is sent."
                )
            )
        waiting = [f"{topic} ({plural(count, 'record')})" for topic, count in unsent.items()]
        named = listed(waiting, _NAMED)
        say(f"{self._cluster.name}: another pass for {named}")
        self._result.note(
            f"Another pass over the files was needed for parked records of {named}.", code="parked"
        )
        taken = self._next_generation()
        left = self._decide(taken)
        self._identity.confirm()
        return self._scan(left, taken)

    def _next_generation(self) -> Takeover:
        """Take over from our own scan: a task attempt of it that Spark took for dead must find
        itself superseded. Raises Superseded if another run has taken over meanwhile: what that one
        sent would be in no account."""
        right_of(self._ledger, self._result.generations[-1]).check()
        self._lease.generation = None
        pipeline = self._context.pipeline
        taken = self._take_over(pipeline.tasks, self._preflight.tuning.lanes)
        self._lease.generation = taken.generation
        self._result.later_generations.append(taken.generation)
        present = self._present(taken, self._client.present_ids(list(pipeline.needed_topics())))
        if self._result.status == "failed":
            raise ClusterRefuses(self._result.error or "", code="SHIP-404")
        return present

    def _note(self, text: str, code: str) -> None:
        say(f"{self._cluster.name}: {text}")
        self._result.note(text, code=code)

    def _failed(self, error: ShipperError) -> None:
        self._result.status, self._result.error = "failed", error.message
        self._result.final = not error.retriable
        self._result.fails_again = error.fails_again

    def _check_reading(self, left: Decisions, done: Scan) -> None:
        """Note the files that the reader could not read to their end, and those of which the tasks
        saw other bytes than there are. The ledger does not call any of them complete, whatever
        becomes of this process."""
        known = {file.path for file in self._unreadable}
        pieces = list(
            file_pieces(self._planned(left.left), self._context.pipeline.split_size_bytes)
        )
        found = broken_files(pieces, done.reports)
        found += wrong_sizes(
            pieces, done.reports, done.receipts, verbatim=self._context.pipeline.source.verbatim
        )
        self._unreadable += [file for file in found if file.path not in known]
        if done.error is None:
            self._result.note(too_long(pieces, done.reports) or "", code="too-long")
            self._result.note(padded(pieces, done.reports) or "", code="padded")
            if empty := without_records(pieces, done.receipts):
                count, more = plural(len(empty), "file"), ", …" if len(empty) > 1 else ""
                without = f"{count} with bytes but without a line ({min(empty)}{more})."
                self._result.note(without, code="no-lines")

    def _close_account(self, left: Decisions, before: Counter[str], taken: Takeover) -> None:
        result, quarantine = self._result, self._context.pipeline.quarantine
        quarantines = {
            topic for state in taken.chunks.splits.values() for topic in state.quarantines
        }
        quarantines |= {quarantine.topic} if quarantine else set()
        self._account.close(self._context, self._files, left, before, quarantines)
        for topic in result.topics:
            topic.earlier, topic.earlier_bytes = self._earlier.get(topic.topic, SentToTopic(0, 0))
        if quarantine and result.status != "failed":
            files = {file.id for file in self._files}
            behind = records_behind(result, files, (self._at_end or taken).chunks)
            if fault := too_many_quarantined(result, quarantine, behind):
                too_many = ShipperError(fault, code="SHIP-605")
                too_many.fails_again = True  # the records stay in quarantine
                self._failed(too_many)

    def draw_timeline(self, taken: Takeover) -> None:
        """Draw the timeline. It is a picture, and no reason to call a ship failed that delivered
        everything."""
        wait_seconds = self._preflight.settings.transaction_timeout_ms / 1000 + 15
        try:
            committed = (
                self._at_end.since
                if self._at_end
                else self._ledger.look(ask_committed(taken.chunks_end), wait_seconds)
            )
        except ShipperError as error:
            say(f"{self._cluster.name}: no timeline: {error}")
            self._result.note(
                f"There is no timeline, because the ledger could not be read at the end: {error}",
                code="timeline",
            )
            return
        if self._result.are_receipts_lost:
            self._result.ledger_records = self._committed(committed)
        self._result.timeline = timeline(committed, self._result.generations)

    def _committed(self, chunks: Sequence[Entry]) -> int:
        """Return the number of this ship's records in these chunks."""
        generations = self._result.generations
        return sum(
            chunk.value.records
            for chunk in chunks
            if chunk.key.topic and chunk.value.generation in generations
        )
