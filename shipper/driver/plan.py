"""Step `plan`: the files of the window, and for each cluster what the ledger holds of them. It only
reads."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from shipper import runtime
from shipper.config.rules import resolve_uri
from shipper.config.units import listed, plural
from shipper.driver.bounds import refuse_outside
from shipper.driver.checks.refusals import (
    absent_topics,
    contradictions,
    missing,
    refusal,
)
from shipper.driver.connections import Connections
from shipper.driver.context import RunContext
from shipper.driver.decide import (
    Decisions,
    Originals,
    SourceFile,
    decide,
    note_of_matches,
    note_of_successors,
    shipped_under_another,
)
from shipper.driver.engine import Listed
from shipper.driver.files import REASONS, ListedFile, NotTaken, select
from shipper.driver.forecast import forecast
from shipper.driver.lookback import LookBack, late_files, look_back
from shipper.driver.looking import look_into
from shipper.driver.preflight import preflight
from shipper.driver.recreated import error as recreated_error
from shipper.driver.recreated import judge, notes, refuse_late
from shipper.driver.schemas import refused_schemas
from shipper.driver.timelines import last_commits
from shipper.driver.unreadable import cannot_be_read, cannot_list
from shipper.errors import ClusterRefuses, ShipperError, SourceError
from shipper.finding import Finding, of_error, warn
from shipper.kafka.admin import TopicFacts
from shipper.ledger.fold import Chunks, Invalidated, LedgerState
from shipper.ledger.identity import LedgerIdentity
from shipper.ledger.log import LedgerLog, ask_state
from shipper.report.past_runs import delivered_files, last_ship, run_ids, window_names
from shipper.report.plan_result import (
    IN_THE_CLEAR,
    ClusterPlan,
    KnownFile,
    LeftOut,
    PlannedFile,
    PlanResult,
    RecognisedFile,
)
from shipper.terminal import say
from shipper.types import FileId
from shipper.windows.folders import TickFolders
from shipper.windows.ticks import Ticks
from shipper.windows.window import Window, literal, source_paths, source_root

_CLUSTERS_AT_ONCE = 16
_TICKS_TOLD = 100
"""Ticks before the window of which the plan says when they were committed: a look back over a day
of minutes has 1,440."""
_FOLDERS_LOOKED_FOR = 20
"""Folders of an empty window that are looked for, so that a wide one costs no thousand questions
more."""


def plan(context: RunContext, started_at: dt.datetime) -> PlanResult:
    """Plan a run. Raises SourceError for a window without files (unless `when_empty: succeed`),
    beyond a limit, or if no cluster can be shipped to."""
    pipeline = context.pipeline
    pattern = resolve_uri(context.config_dir, pipeline.source.path)
    own = TickFolders.named(
        pattern,
        context.window,
        context.ticks,
        by_modified=pipeline.source.window_by == "modified" and not context.request.files,
    )
    back = look_back(context, pattern, own)
    paths = [*map(literal, context.request.files)] or own.paths
    if not context.request.source_only:
        _begin_to_connect(context)
    say(f"plan: listing {listed(paths, 1)}{_and_back(back)}")
    with context.phases("starting Java"):  # which began before Python imported all this
        context.engine.start_java()
    with context.phases("listing"):
        files, left_out, empty = _list(context, paths, own, back)
        root = context.engine.qualified_folder(source_root(pattern))
    _check_named(context, files, left_out)
    result = PlanResult(
        **context.common("plan", started_at),
        source=pattern,
        source_root=root,
        transform_digest=pipeline.transform_digest(),
        files=[_planned(context, file, _tick(context, file, own)) for file in files],
        left_out=_left_out(context, left_out, pattern, own),
        empty=empty,
        over_until=_over_until(context, own, started_at),
        looked_back=back.result() if back else None,
        topics=list(
            dict.fromkeys(
                route.topic for name in pipeline.clusters for route in pipeline.on(name).routes
            )
        ),
    )
    _check_limits(context, result, paths)
    if context.request.source_only:
        _look_at_files(context, result)
    else:
        _ask_clusters(context, result, files, back)
    return result


def _over_until(context: RunContext, own: TickFolders, now: dt.datetime) -> dt.datetime | None:
    """Return the begin of the first tick that is not over; None if there is none. The scheduler has
    waited for a run of the schedule, by a clock of its own."""
    if context.pipeline.schedule is None or context.request.scheduled:
        return None
    return next((tick.start for tick in own.of if tick.end > now), None)


def _check_named(
    context: RunContext, files: Sequence[ListedFile], left_out: Sequence[NotTaken]
) -> None:
    """Raise SourceError for a file that was asked for by name and is not taken."""
    for path in context.request.files:
        if not any(file.under == literal(path) for file in files):
            why = next(
                (found.reason for found in left_out if found.file.under == literal(path)),
                "the file does not exist",
            )
            raise SourceError(
                f"pipeline {context.pipeline.name}: {path}: {why}. Nothing was sent.",
                code="SHIP-302",
            )


def _begin_to_connect(context: RunContext) -> None:
    """Begin to connect while files are listed. A fault of a cluster is raised when the cluster is
    used."""
    for name in context.pipeline.clusters:
        with contextlib.suppress(ShipperError):
            context.connections(name).begin_reading()


def _and_back(back: LookBack | None) -> str:
    folders = f"{plural(len(back.folders), 'folder')} of " if back and back.folders else ""
    return f", and {folders}{plural(len(back.ticks.of), 'window')} before" if back else ""


def _list(
    context: RunContext, paths: Sequence[str], own: TickFolders, back: LookBack | None
) -> tuple[list[ListedFile], list[NotTaken], list[str]]:
    """Return the files of the run's own window; the entries left out of it; and the ticks of the
    window, and before it, whose folders hold no file that is wanted. Files of the ticks before the
    window go into ``back``."""
    source = context.pipeline.source
    listed = _listed(context, paths, own, back)
    settings: dict[str, Any] = {
        "settle_seconds": 0 if context.request.lines else source.settle_seconds,
        "now": runtime.now(),
    }
    files, left_out = select(
        (file for file in listed if not (back and back.holds(file))), **settings
    )
    wanted = [*files, *(found.file for found in left_out if found.waits)]
    empty = own.of.keys() - own.with_a_file(wanted)
    if back is not None:
        earlier = select((file for file in listed if back.holds(file)), **settings)
        back.files = {file.id: file for file in earlier.taken}
        back.left_out += [
            found for found in _left_out(context, earlier.left_out, "", back.ticks) if found.warns
        ]
        wanted += [*earlier.taken, *(found.file for found in earlier.left_out if found.waits)]
        empty |= back.ticks.of.keys() - back.ticks.with_a_file(wanted) - back.not_listed
    return files, left_out, [] if context.request.files else sorted(map(str, empty))


def _listed(
    context: RunContext, paths: Sequence[str], own: TickFolders, back: LookBack | None
) -> list[ListedFile]:
    """List the folders of the window, and of the ticks before it. Raises SourceError for faults of
    the window's own folders.

    One question is enough, unless it finds too many files. Then each window is asked about
    separately, so that too many files in an old folder are a fault of its tick alone.
    """
    most, window = context.pipeline.limits.max_files, context.window

    def ask(paths: Sequence[str], start: dt.datetime, end: dt.datetime, most: int) -> Listed:
        found = context.engine.list_files(
            paths, most=most, modified=Window(start, end) if own.by_modified else None
        )
        refuse_outside(context.config_dir, context.engine, found)
        return found

    if back is not None:
        found = ask(
            [*paths, *back.folders], back.start, window.end, most * (1 + len(back.ticks.of))
        )
        if not found.too_many:
            _refuse_problems(context, paths, found)
            for path in found.problems.keys() - set(paths):
                for tick in back.ticks.naming(path):
                    back.note_problem(
                        tick,
                        path,
                        f"it cannot be listed: {found.problems[path]}",
                        "unreadable-folder",
                    )
            return found.files
    found = ask(paths, window.start, window.end, most)
    _refuse_problems(context, paths, found)
    if found.too_many:
        raise SourceError(
            f"pipeline {context.pipeline.name}: window {window} has at least {most + 1} files, "
            f"and `limits.max_files` allows {most}. The listing stopped there, and nothing was "
            "sent. Use a shorter window, or raise the limit.",
            code="SHIP-304",
        )
    if back is None:
        return found.files
    files = {file.id: file for file in found.files}
    for tick, folders in back.ticks.of.items():
        left = [path for path in folders if own.by_modified or path in back.folders]
        found = ask(left, tick.start, tick.end, most) if left else Listed([])
        for path, why in found.problems.items():
            back.note_problem(tick, path, f"it cannot be listed: {why}", "unreadable-folder")
        if found.too_many:
            back.note_problem(
                tick,
                left[0],
                f"its window holds more files than `limits.max_files` ({most}) allows",
            )
        else:
            files = {file.id: file for file in found.files} | files
    return list(files.values())


def _refuse_problems(context: RunContext, own: Sequence[str], found: Listed) -> None:
    for path, why in found.problems.items():
        if path in own:
            raise cannot_list(context.pipeline.name, [path], why)


def _left_out(
    context: RunContext, left_out: Sequence[NotTaken], pattern: str, ticks: TickFolders
) -> list[LeftOut]:
    """Return the entries left out. A file still being written in a folder that the next window has
    as well belongs to that window, and gives no warning. The same holds for a file that will be
    modified once more, where the time of modification decides. ``pattern``: empty for the ticks
    before the run's window, whose folders no next window has."""
    schedule, coming = context.pipeline.schedule, set[str]()
    if context.request.scheduled and schedule is not None and pattern and not ticks.by_modified:
        coming = set(source_paths(pattern, Ticks(schedule).window_of(context.window.end)))
    return [
        LeftOut(
            path=found.file.id.path,
            reason=found.reason,
            code=found.code,
            warns=found.warns
            and not (
                found.code in ("unfinished", "open", "unsettled") and found.file.under in coming
            )
            and not (ticks.by_modified and found.code == "open"),
            window=_tick(context, found.file, ticks),
            modified_ms=found.file.id.modified_ms,
            count=found.file.count,
            more=list(found.file.more),
        )
        for found in left_out
    ]


def _tick(context: RunContext, file: ListedFile, ticks: TickFolders) -> str | None:
    """Return START/END; None if it is the run's window."""
    tick = ticks.tick_of(file)
    return str(tick) if tick and tick != context.window else None


def _ask_clusters(
    context: RunContext, result: PlanResult, files: Sequence[ListedFile], back: LookBack | None
) -> None:
    """Ask what each cluster lacks; add the late files that any of them is to get to the plan."""

    def of_each(ask: Callable[[Any], Any], asked: Iterable[object]) -> list[Any]:
        with (
            context.phases("asking clusters"),
            runtime.ThreadPoolExecutor(_CLUSTERS_AT_ONCE, thread_name_prefix="ask") as pool,
        ):
            return list(pool.map(ask, asked))

    names = context.pipeline.clusters
    asked: list[AskedCluster] = of_each(
        lambda name: AskedCluster(context, name, result, back), names
    )
    _refuse_shared_ledgers(asked)
    if back is not None:
        late = late_files(
            context, back, {one.name: one.decided for one in asked if one.decided}, files
        )
        result.left_out += back.left_out
        for file, clusters in late.items():
            planned = _planned(context, back.files[file])
            planned.late_window = str(back.window_of(back.files[file]))
            planned.late_for = tuple(clusters)
            result.files.append(planned)
    _note_left(result, asked)
    _look_at_files(context, result)
    for one in asked:
        one.look_into_files()
    _leave_out(result, asked)
    _note_left(result, asked)
    _refuse_unreadable(context, result)
    unread = ""
    if any(file.left for file in result.files):
        if context.ships:
            context.engine.begin()
        with context.phases("looking into files"):
            unread = context.engine.take_sample(result)
    result.clusters = of_each(AskedCluster.result, asked)
    for cluster in result.clusters:
        if unread and cluster.left_files:
            text = (
                f"None of the files that were sampled could be read: {unread}. The plan knows "
                "nothing of their content, and nothing can be shipped while this lasts."
            )
            cluster.findings.append(warn(text, code="unread", cluster=cluster.cluster))
            cluster.forecast = None
    _note_missing(context, result, asked)
    problems = [cluster.problem for cluster in result.clusters if cluster.problem]
    if problems and len(problems) == len(result.clusters):
        result.status, result.error = "failed", " ".join(one.text for one in problems)
        result.final = not any(one.passing for one in problems)


def _refuse_shared_ledgers(asked: Sequence[AskedCluster]) -> None:
    """Raise ClusterRefuses if two clusters are one: each would take what the other one delivered
    for its own, and their ships would fence each other."""
    of_place: dict[tuple[str, str], str] = {}
    for one in asked:
        cluster_id, topic = one.ledger_place
        other = of_place.setdefault(one.ledger_place, one.name)
        if cluster_id and other != one.name:
            raise ClusterRefuses(
                f"clusters {other} and {one.name} are one Kafka cluster (its id is {cluster_id}), "
                f"and have one ledger there, {topic}: each would take the other's records for its "
                "own. Nothing was sent. To deliver twice to it, give one of them another "
                "`ledger.topic`; to deliver to several topics, use one cluster with `routes`.",
                code="SHIP-411",
            )


def _note_missing(context: RunContext, result: PlanResult, asked: Sequence[AskedCluster]) -> None:
    """Write down what each cluster lacks: for whoever asks later, when the run has failed there. A
    reship delivers anew, so what earlier runs delivered does not count."""
    silent = [one.name for one in asked if one.decided is None]
    delivered: Mapping[str, set[FileId]] = {}
    if silent and not context.request.reship:
        delivered = delivered_files(context.own_runs_uri, context.pipeline.key, silent, result)
    everything = {file.id for file in result.files}
    missing = {
        one.name: one.left() if one.decided else everything - delivered.get(one.name, set())
        for one in asked
    }
    for file in result.files:
        file.missing_on = tuple(name for name, files in missing.items() if file.id in files)


def _note_left(result: PlanResult, asked: Sequence[AskedCluster]) -> None:
    wanted = set[FileId]().union(*(one.left() for one in asked))
    for planned in result.files:
        planned.left = bool(wanted) and planned.id in wanted


def _leave_out(result: PlanResult, asked: Sequence[AskedCluster]) -> None:
    """Leave files out, for each cluster by itself, of which it cannot be decided whether they were
    shipped. A late file that turned out to be done, or not to be shipped, goes."""
    of_id = {file.id: file for file in result.files}
    for one in asked:
        decided = one.decided or Decisions()
        for file, why in decided.left_out.items():
            if file in of_id:
                _leave_out_for(result, of_id[file], one.name, why, "doubtful")
        for planned in result.late_files:
            if one.name in planned.late_for and one.decided and not one.wants(planned.id):
                if why := decided.refused.get(planned.id, ""):
                    _leave_out_for(result, planned, one.name, f"{one.name}: {why}", "")
                planned.late_for = tuple(name for name in planned.late_for if name != one.name)
    result.files = [file for file in result.files if file.late_window is None or file.late_for]


def _leave_out_for(
    result: PlanResult, planned: PlannedFile, cluster: str, why: str, code: str
) -> None:
    planned.not_for = (*planned.not_for, cluster)
    left_out = planned.left_out(why)
    result.left_out.append(left_out.model_copy(update={"clusters": [cluster], "code": code}))


def _look_at_files(context: RunContext, result: PlanResult) -> None:
    """Note the format of each file that is left, or why it cannot be read. Raises SourceError if
    the pipeline asks for it."""
    left = [file for file in result.files if file.left]
    with context.phases("looking into files"):
        context.engine.look_at(left)
    # An old file must not fail each hour's run while it exists.
    if late := [file for file in result.late_files if file.problem]:
        result.files = [file for file in result.files if file not in late]
        result.left_out += [file.left_out(file.problem) for file in late]
    _refuse_unreadable(context, result)


def _refuse_unreadable(context: RunContext, result: PlanResult) -> None:
    if context.pipeline.source.on_unreadable == "fail" and (
        bad := [file for file in result.files if file.problem]
    ):
        raise cannot_be_read(bad, "Nothing was sent.")


def _planned(context: RunContext, file: ListedFile, tick: str | None = None) -> PlannedFile:
    return file.planned(len(context.split_starts(file.id)), tick)


def _check_limits(context: RunContext, result: PlanResult, paths: Sequence[str]) -> None:
    pipeline = context.pipeline
    if not result.files and pipeline.source.when_empty == "fail":
        left = result.left_out_by_weight()
        left_out = f"; {result.left_out_in_words()}: {left[0]}" if left else ""
        where = "" if left else _why_nothing_lies_there(context, paths)
        remedies = [f"{REASONS[one.code].remedy}." for one in left]
        if not any(one.warns for one in left):
            remedies.append(
                "Check the path and `source.include`; if such a window is normal, set "
                "`source.when_empty: succeed`."
            )
        remedy = " ".join(dict.fromkeys(remedies))
        raise SourceError(
            f"pipeline {pipeline.name}: no files for window {context.window} at "
            f"{listed(paths, 1)}{where}{left_out}. Nothing was sent. {remedy}",
            code="SHIP-303",
        )
    limits = pipeline.limits
    for found, what, most in (
        (len(result.files), "file", limits.max_files),
        (result.total_bytes, "byte", limits.max_bytes),
    ):
        if most is not None and found > most:
            raise SourceError(
                f"pipeline {pipeline.name}: window {context.window} has {plural(found, what)}, "
                f"and `limits.max_{what}s` allows {most}. Nothing was sent. Use a shorter "
                "window, or raise the limit.",
                code="SHIP-304",
            )


def _why_nothing_lies_there(context: RunContext, paths: Sequence[str]) -> str:
    """Tell a missing folder from an empty one."""
    looked = paths[:_FOLDERS_LOOKED_FOR]
    missing = context.engine.missing(looked)
    if len(missing) == len(paths):
        return "; there is no such folder" if len(paths) == 1 else "; none of these folders exists"
    if missing:
        return f"; some of these folders do not exist, such as {missing[0]}"
    return "; the folder is empty"


class AskedCluster:
    """One cluster's part, and the files that it lacks: all of the window's own, if it cannot be
    asked. Never raises: the others must not suffer."""

    def __init__(
        self, context: RunContext, name: str, plan: PlanResult, back: LookBack | None
    ) -> None:
        self.name = name
        self._context, self._plan, self._back = context.on(name), plan, back
        pipeline = self._context.pipeline
        topics = (
            [route.topic for route in pipeline.routes]
            if pipeline.routes != context.pipeline.routes
            else []
        )
        self._found = ClusterPlan(
            cluster=name, topics=topics, transform_digest=pipeline.transform_digest()
        )
        self._connections: Connections | None = None
        self._known: dict[str, TopicFacts] = {}
        self._ledger: LedgerLog | None = None
        self._originals: Originals | None = None
        self.decided: Decisions | None = None
        """Decisions as far as the ledger was looked at, also on files that were found looking back;
        None: nobody could ask the cluster."""
        self.ledger_place = "", ""
        """Id of the Kafka cluster and the ledger's topic there; empty while nobody knows."""
        try:
            self.decided = self._ask()
        except ShipperError as error:
            self._note_problem(error)

    def _note_problem(self, error: ShipperError) -> None:
        if not self._found.problem:
            self._found.findings.append(of_error(error, self.name))

    def _ask(self) -> Decisions:
        context, pipeline = self._context, self._context.pipeline
        cluster = context.clusters[self.name]
        if cluster.in_the_clear:
            self._found.findings.append(
                warn(cluster.in_the_clear, code=IN_THE_CLEAR, cluster=self.name)
            )
        self._connections = connections = context.connections(self.name)
        ledger = context.ledger(cluster.name, self._plan.source_root)
        self._known = known = connections.client.facts([ledger.topic, *pipeline.needed_topics()])
        self._found.missing_topics = absent_topics(pipeline, known)
        self.ledger_place = connections.client.cluster_id, ledger.topic
        there = ledger.exists_by(known)
        self._refuse_unknown_former(there=there)
        late = self._back.for_cluster(self.name) if self._back else []
        self._late = set(late)
        etags = {file.id: file.etag for file in self._plan.files} | {
            file: self._back.files[file].etag for file in late if self._back
        }
        self._files = {
            file: SourceFile(file, len(context.split_starts(file)), etag)
            for file, etag in etags.items()
        }
        chunks, invalidated = Chunks(pipeline.key), dict[FileId, Invalidated]()
        with runtime.ThreadPoolExecutor(1, thread_name_prefix="ask") as meanwhile:
            identified = meanwhile.submit(
                LedgerIdentity(ledger, new_ledger=context.request.new_ledger).check, there
            )
            try:
                state = ledger.look(ask_state([file.path for file in etags])) if there else None
            finally:
                # If the ledger is not the one that it was, nothing else need be reported.
                identified.result()
        self._found.findings += ledger.weaknesses()
        self._found.generation = -1
        if state is not None:
            self._take(state)
            chunks, invalidated = state.chunks, state.invalidated
        reshipped, policy = self._plan.reshipped(invalidated), pipeline.delivery.on_recreated
        judged = {file for file in etags if not context.request.reship or file in reshipped}
        topics = self._topics = judge(connections.client, chunks, judged)
        self._found.recreated = topics.named(resent=policy == "resend")
        self._found.note(*notes(self._found.recreated), code="recreated")
        if policy == "fail" and topics.lost_files.keys() - self._late:
            raise recreated_error(self.name, pipeline.name, self._found.recreated)
        self._ledger = ledger if there else None
        self._policy = context.policy(
            self._found.transform_digest,
            self._found.generation + 1 if context.request.reship else None,
            reshipped,
            self._late,
        )
        found = self._decide()
        if known and found.left:
            connections.begin_measuring(next(iter(known)))
            if context.ships:
                connections.begin_writing(self._found.to_fence)
        return found

    def _take(self, state: LedgerState) -> None:
        """Take over what the ledger says of its runs."""
        if text := moved(state, self._plan):
            self._found.findings.append(warn(text, code="moved", cluster=self.name))
        control = state.control
        self._found.to_fence = control.to_fence()
        self._found.generation = control.generation
        latest = control.generations.get(control.generation)
        self._found.ack_ms = latest.ack_ms if latest else None

    def _decide(self) -> Decisions:
        chunks = self._topics.chunks
        found = decide(list(self._files.values()), chunks, self._originals, self._policy)
        found.check(chunks, self._policy.spark)
        policy = self._context.pipeline.delivery.on_recreated
        return refuse_late(found, self._topics.lost_files, policy)

    def _refuse_unknown_former(self, *, there: bool) -> None:
        """Refuse a name in `formerly` that nothing is known of. ``there``: True if the ledger
        exists. A name that is wrong would begin an empty ledger. Raises SourceError."""
        context, runs_uri = self._context, self._context.own_runs_uri
        pipeline = context.pipeline
        if not pipeline.formerly or there or context.request.replay:
            return
        others = {*run_ids(runs_uri, pipeline.key, context.window)} - {context.folder.run_id}
        if others or {*window_names(runs_uri, pipeline.key)} - {context.window}:
            return
        raise SourceError(
            f"pipeline {pipeline.name}: `formerly` names a pipeline {pipeline.key!r} that is "
            f"unknown: {runs_uri} has no run of it, and cluster {self.name} has no ledger of "
            "it. Nothing was sent. Correct the name, or remove `formerly` if nothing was ever "
            "shipped under it. Of several names the pipeline's first one comes last.",
            code="SHIP-311",
        )

    def look_into_files(self) -> None:
        """Decide again, when the files that are left were looked at: some may be files that were
        shipped under another name."""
        if self.decided is None or self._connections is None:
            return
        left = set(self.decided.left)
        files = [file for file in self._plan.files_for(self.name) if file.id in left]
        try:
            self._originals = {}
            if self._ledger is not None:
                look, to = self._ledger.look, self._connections.client
                self._originals = look_into(self._context, to, look, self._topics.chunks, files)
                self._files.update((file.id, SourceFile.of(file)) for file in files)
            self.decided = self._decide()
        except ShipperError as error:
            self.decided = None
            self._note_problem(error)
            return
        if matched := self.decided.matched:
            self._found.note(note_of_matches(matched), code="renamed")
        self._found.recognised = [
            RecognisedFile(
                **one.file._asdict(),
                original=KnownFile(**one.match.original.file._asdict()),
                complete=one.match.beginning.whole,
            )
            for one in matched
            if one.match
        ]
        if successors := self.decided.by("successor"):
            self._found.note(note_of_successors(successors), code="successor")

    def wants(self, file: FileId) -> bool:
        """Return True if a ship has work on a late file: records to send, or to write down which
        file it is."""
        return (
            self.decided is None
            or file in self.decided.left
            or any(one.file == file for one in self.decided.matched)
        )

    def left(self) -> set[FileId]:
        """Return the plan's files that are to go to this cluster."""
        if self.decided is None:
            return {file.id for file in self._plan.own_files}
        left = set(self.decided.left)
        return left & {file.id for file in self._plan.files_for(self.name)} if left else left

    def result(self) -> ClusterPlan:
        found, context, pipeline = self._found, self._context, self._context.pipeline
        left = self.decided
        if left is None:
            found.asked = False
            return found
        self._refuse(missing(pipeline, found.missing_topics))
        sizes = {file.id: file.size_bytes for file in self._plan.files_for(self.name)}
        own = {file.id for file in self._plan.own_files}
        wanted = self.left()
        records = left.records
        found.complete_files = len(own & set(left.complete))
        found.partial_files = len(wanted & set(left.partial))
        found.left_files, found.late_files = len(wanted), len(wanted - own)
        found.left_bytes = sum(sizes[file] for file in wanted)
        found.records_there = sum(records.get(file, 0) for file in sizes)
        if older := len(own & {one.file for one in left.by("older")}):
            found.note(shipped_under_another(older), code="older")
        if self._back:
            found.looks_back_to = self._back.looks_back_to(self.name)
            found.committed = self._committed_before(self._back, set(left.complete))
        if wanted and not found.problem:
            found.findings += refused_schemas(context.clusters[self.name], pipeline)
        if wanted:
            self._compare_topics()
        if wanted and not found.problem and self._connections:
            try:
                _add_tuning(found, self._connections, self._known, context, self._plan, wanted)
            except ShipperError as error:
                self._note_problem(error)
        return found

    def _committed_before(
        self, back: LookBack, complete: Collection[FileId]
    ) -> dict[str, dt.datetime]:
        """Return the last commits of files that the run neither reads nor ships. Without them,
        commits of a run that left no result would never be reported."""
        files = [
            (file.id, back.window_of(file)) for file in back.files.values() if file.id in complete
        ]
        newest = {*sorted({tick for _, tick in files}, key=lambda tick: tick.start)[-_TICKS_TOLD:]}
        return last_commits(
            self._topics.chunks, {file: str(tick) for file, tick in files if tick in newest}
        )

    def _compare_topics(self) -> None:
        """Note where topics contradict what the pipeline makes of lines."""
        pipeline = self._context.pipeline
        window = None if self._context.request.files else self._context.window
        now = runtime.now()
        topics = [
            (topic, self._known[topic].limit)
            for topic in pipeline.needed_topics()
            if topic in self._known
        ]
        found = [
            each
            for topic, limit in topics
            for each in contradictions(pipeline, topic, limit, window, now)
        ]
        self._found.findings += [
            replace(each, cluster=self.name) for each in found if each.severity == "warn"
        ]
        self._refuse(found)

    def _refuse(self, found: Iterable[Finding]) -> None:
        context = self._context
        if error := refusal(context.clusters[self.name], context.pipeline, found):
            self._note_problem(error)


def moved(state: LedgerState, plan: PlanResult) -> str:
    """Return a warning if the files lie, or may lie, elsewhere than at the last ship."""
    before = state.control.sources[-1:]
    if plan.source_root and before and before != [plan.source_root]:
        known = sum(1 for file in plan.files if file.id in state.chunks.digests)
        return (
            f"the files lay under {before[0]}, and lie under {plan.source_root} now: a file that "
            "was shipped from there counts as shipped if its path below, its size and its "
            f"modification time are the same. That holds for {known:,} of "
            f"{plural(len(plan.files), 'file')} of this window."
        )
    if (
        not before
        and state.other
        and not state.other.startswith(plan.source_root)
        and not state.chunks.digests
    ):
        return (
            f"the ledger has files under another root ({state.other}), and no file of this "
            f"window under {plan.source_root}. If the same files were moved, they will be sent "
            "again. To prevent that, name their earlier place in `source.formerly`."
        )
    return ""


def _add_tuning(
    found: ClusterPlan,
    to: Connections,
    known: dict[str, TopicFacts],
    context: RunContext,
    plan: PlanResult,
    wanted: Collection[FileId],
) -> None:
    """Add the preflight's tuning, and what a ship of the files will cost. Raises ClusterError."""
    ready = preflight(
        to.client,
        to.cluster,
        context.pipeline,
        plan.sample_ratio,
        plan.bytes_to_read,
        known=known,
    ).with_ack(None if found.ack_ms is None else found.ack_ms / 1000)
    tuning, rtt_seconds = ready.tuning, ready.sizing.link.rtt_seconds
    found.rtt_ms, found.tuning, found.lanes = rtt_seconds * 1000, tuning.why, tuning.lanes
    found.batch_bytes, found.chunk_bytes = tuning.batch_bytes, tuning.chunk_bytes
    count, past = sum(file.unpacked_bytes for file in plan.files if file.id in wanted), None
    with contextlib.suppress(OSError):
        past = last_ship(context.own_runs_uri, context.pipeline.key, found.cluster)
    found.forecast = forecast(ready.sizing, tuning, count, past)
