"""Random histories of runs: what `gaps` says, by the results that the runs leave, is what a model
knows that sees every file.

The model keeps the runs as facts about the source (which files lay in which tick, which of them a
cluster lacked when the run was over), and never reads a result. Each run is the real plan over a
source that changes meanwhile, and leaves real results."""

import datetime as dt
import itertools
import json
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple, cast

import pytest
from hypothesis import Phase, event, example, given, settings
from hypothesis import strategies as st

from shipper.driver import plan as plan_step
from shipper.driver.context import RunContext
from shipper.driver.decide import Original, Policy, SourceFile
from shipper.driver.engine import Engine, Listed
from shipper.driver.files import ListedFile
from shipper.errors import ClusterError, SourceError
from shipper.ledger.fold import Chunks
from shipper.ledger.incarnations import Incarnations
from shipper.ledger.inventory import Entries, Inventory
from shipper.ledger.records import Alias, ChunkKey, ChunkValue, Entry
from shipper.ledger.sums import ByteSum
from shipper.report.coverage import coverage
from shipper.report.incomplete import find_gaps, read_schedule
from shipper.report.plan_result import Beginning, PlanResult
from shipper.report.results import DeliveryGateResult, GateResult, ShipResult
from shipper.report.run_folder import RunFolder
from shipper.report.window_records import read_records, record_files
from shipper.request import RunRequest, apply_request
from shipper.types import FileId, SplitId
from shipper.windows.window import Window, to_ms
from tests.doubles.runtime import runtime_with
from tests.samples.config import cluster_of, pipeline_of
from tests.samples.results import checked

# Two days meet within the ticks, so that a folder a day is shared by some of them.
DAY = dt.datetime(2026, 11, 1, 22, tzinfo=dt.UTC)
HOUR = dt.timedelta(hours=1)
TICKS = 3
LOOKBACK = 2
CLUSTERS = ("near", "far")
SINCE = {"near": 0, "far": 1}
"""Cluster → first tick that it is shipped."""
PATHS = {
    "start": "/logs/{window_start:%d-%H}/",
    "end": "/logs/{window_end:%d-%H}/",
    "day": "/logs/{window_start:%d}/",
    "modified": "/logs/",
}


CONTENT = ByteSum(9, 1, 2)


def hour(first, count=1):
    return Window(DAY + first * HOUR, DAY + (first + count) * HOUR)


NAMES = [str(hour(tick)) for tick in range(TICKS)]


@dataclass(eq=False)
class File:
    folder: str
    name: str
    modified_ms: int
    content: int
    size_bytes: int = 10

    @property
    def id(self):
        return FileId(f"{self.folder}{self.name}", self.size_bytes, self.modified_ms)


@dataclass
class Shipped:
    """What a ledger has of one file."""

    content: int
    parts: list[str]
    """Window of each part."""
    complete: bool
    original: FileId | None = None

    def alias(self):
        assert self.original is not None
        return Alias(
            *self.original, whole=True, sum=str(CONTENT), read=9, generation=1, run_id="r",
            window=self.parts[0], records={"t": 1}, topic_ids={},
        )  # fmt: skip

    def values(self, file):
        for number, window in enumerate(self.parts):
            ends = self.complete and number == len(self.parts) - 1
            common = {
                "last": number + 1,
                "end": ends,
                "records": 1,
                "bytes": 9,
                "checksum": 1,
                "digest": "d",
                "generation": 1,
                "run_id": "r",
                "window": window,
            }
            yield ChunkKey(SplitId(file, 0), number, "t"), ChunkValue(**common)


Ledger = dict[FileId, Shipped]


@dataclass
class Place:
    """The source, a clock, and what is on the clusters: all that is true, whoever has seen it."""

    by: str
    files: list[File] = field(default_factory=list)
    locked: set[str] = field(default_factory=set)
    down: set[str] = field(default_factory=set)
    """Clusters that nobody reaches."""
    ledgers: dict[str, Ledger] = field(
        default_factory=lambda: {cluster: {} for cluster in CLUSTERS}
    )
    now: dt.datetime = DAY + (TICKS + 1) * HOUR
    count: int = 0

    def folder(self, tick):
        at = DAY + (tick + (self.by == "end")) * HOUR
        return {"modified": "/logs/", "day": f"/logs/{at:%d}/"}.get(self.by, f"/logs/{at:%d-%H}/")

    def add(self, tick, kind):
        self.count += 1
        modified = to_ms(DAY + tick * HOUR) + self.count
        if self.by != "modified":
            modified = {"young": to_ms(self.now), "future": to_ms(self.now) + 1_800_000}.get(
                kind, modified
            )
        suffix = {"part": ".log.tmp", "other": ".txt"}.get(kind, ".log")
        self.files.append(File(self.folder(tick), f"{self.count}{suffix}", modified, self.count))

    def settled(self, file):
        return file.name.endswith(".log") and file.modified_ms <= to_ms(self.now) - 600_000

    def in_tick(self, file, tick):
        in_time = self.by != "modified" or to_ms(hour(tick).start) <= file.modified_ms < to_ms(
            hour(tick).end
        )
        return file.folder == self.folder(tick) and in_time and not file.name.endswith(".txt")

    def lacks(self, cluster, file):
        known = self.ledgers[cluster].get(file.id)
        return known is None or not known.complete

    # What a plan asks of an engine.
    version = "4.0"

    def list_files(self, paths, *, most, modified=None):
        found = [
            ListedFile(
                file.id,
                file.id.path,
                file.folder,
                left="unwanted" if file.name.endswith(".txt") else "",
            )
            for file in self.files
            if file.folder in paths
            and file.folder not in self.locked
            and (
                modified is None or to_ms(modified.start) <= file.modified_ms < to_ms(modified.end)
            )
        ]
        problems = {path: "permission denied" for path in paths if path in self.locked}
        return Listed(
            found,
            too_many=sum(file.id.path.endswith(".log") for file in found) > most,
            problems=problems,
        )

    def start_java(self): ...

    def qualified_folder(self, folder):
        return folder

    def missing(self, paths):
        return [path for path in paths if all(file.folder != path for file in self.files)]

    def look_at(self, files): ...

    def take_sample(self, plan):
        return ""


class Note(NamedTuple):
    """A file that a run left behind. ``size_bytes``: None while it was being written, or of a
    folder."""

    path: str
    size_bytes: int | None
    modified_ms: int

    def is_in(self, ledger):
        def fits(file):
            exact = (file.size_bytes, file.modified_ms) == (self.size_bytes, self.modified_ms)
            return exact if self.size_bytes is not None else file.modified_ms >= self.modified_ms

        renamed = {one.original for one in ledger.values()}
        return any(
            file.path == self.path and fits(file) and (one.complete or file in renamed)
            for file, one in ledger.items()
        )


@dataclass
class Seen:
    """What a run saw of the ticks on one cluster."""

    passed: bool
    looked: set[int]
    notes: dict[int, set[Note]] = field(
        default_factory=lambda: {tick: set() for tick in range(TICKS)}
    )
    empty: set[int] = field(default_factory=set)
    files: set[FileId] = field(default_factory=set)
    """What its plan had for the cluster."""
    asked: bool = True
    """Its plan could ask the cluster."""


@dataclass
class Run:
    folder: Path
    own: range
    clusters: Sequence[str]
    closed: bool | None = None
    seen: dict[str, Seen] = field(default_factory=dict)


def true_gaps(runs, cluster, ledger):
    """Return the ticks that are not complete, as far as ``runs`` saw. ``ledger``: None if it cannot
    be had."""
    found = set()
    for tick in range(SINCE[cluster], TICKS):
        renamed = {one.original for one in (ledger or {}).values()}
        under = [
            one.complete or file in renamed
            for file, one in (ledger or {}).items()
            if NAMES[tick] in one.parts
        ]
        own = [run for run in runs if tick in run.own]
        # Those since the source gate was last open, of the runs that were for the cluster.
        closed = []
        for run in own:
            if cluster in run.clusters and run.closed is not None:
                closed = [*closed, run] if run.closed else []
        before = [
            run
            for run in runs
            if closed and (tick in run.own or runs.index(run) < runs.index(closed[0]))
        ]
        passed_before = any(
            run.seen[cluster].passed
            for run in before
            if cluster in run.seen and tick in run.seen[cluster].looked
        )
        looks = [
            run.seen[cluster]
            for run in runs
            if cluster in run.seen and tick in run.seen[cluster].looked
        ]
        notes, empty, held = set[Note](), False, False
        for seen in looks:
            if seen.passed:
                notes, empty = set(), tick in seen.empty and not held
                held |= not seen.notes[tick] and tick not in seen.empty
            elif seen.asked:
                notes = set()
            notes |= seen.notes[tick]
        if closed and (
            not passed_before or notes or empty
        ):  # it takes nothing away that runs had delivered
            found.add(tick)
        elif not any(seen.passed for seen in looks):
            if looks or any(cluster in run.clusters for run in own) or not under or not all(under):
                found.add(tick)
        elif not all(note.is_in(ledger or {}) for note in notes) or (
            empty and not (under and all(under))
        ):
            found.add(tick)
    return found


class AskedLedger(plan_step.AskedCluster):
    """A cluster whose ledger is what the place says."""

    place: Place

    def _ask(self):
        if self.name in self.place.down:
            raise ClusterError(f"cluster {self.name} cannot be reached")
        late = self._back.for_cluster(self.name) if self._back else []
        files = [file.id for file in self._plan.files] + late
        chunks = Chunks("web")
        for file, one in self.place.ledgers[self.name].items():
            if one.original is not None:
                chunks.add_alias(file, one.alias())
                chunks.succeeded.add(one.original)
                continue
            for key, value in one.values(file):
                chunks.add(key, value)
        self._ledger = SimpleNamespace(look=self.name)
        self._connections = SimpleNamespace(client=None)
        self._late, self._topics = set(late), Incarnations(chunks)
        self._files = {file: SourceFile(file, 1) for file in files}
        source = self._context.pipeline.source
        self._policy = Policy(
            "d", None, source.on_replaced, source.on_renamed, late=frozenset(late)
        )
        self._found.transform_digest = "d"
        return self._decide()


def look_into(place, cluster, chunks, files, on_renamed):
    """Find the files whose content is on the cluster under a name that nothing has any more."""
    ledger, by_id = place.ledgers[cluster], {file.id: file for file in place.files}
    succeeded = {one.original for one in ledger.values()}
    looked = dict[FileId, list[Original]]()
    for planned in files:
        file = by_id[planned.id]
        originals = [
            Original(original, CONTENT)
            for original, one in ledger.items()
            if one.complete
            and one.content == file.content
            and original not in by_id
            and original not in succeeded
            and original.path != file.id.path
        ]
        known = originals if on_renamed == "recognise" and file.id not in ledger else []
        looked[file.id] = known
        planned.head = f"9:{file.content:016x}"
        planned.beginnings = [
            Beginning(length=CONTENT.length, sum=str(CONTENT), ends_line=True, whole=True)
        ]
    return looked


class Ending(NamedTuple):
    """What becomes of a run on one cluster."""

    how: str
    """passes, fails, is refused (fails for good), is killed."""
    ships: Sequence[int]
    """Of each file in turn, where it does not pass: 0 nothing, 1 a part, 2 all of it."""


class History:
    """Runs one after the other, each by the real plan over what the place holds by then."""

    def __init__(self, root, by, source, max_files):
        self.place, self.runs, self.root, self.source, self.count = (
            Place(by),
            list[Run](),
            root,
            source,
            0,
        )
        self.pipeline = pipeline_of(
            source={
                "path": PATHS[by],
                "include": "*.log",
                "lookback": f"{LOOKBACK}h",
                **source,
                "window_by": "modified" if by == "modified" else "path",
            },
            clusters=list(CLUSTERS),
            runs_uri=str(root),
            schedule={"cron": "0 * * * *", "start": DAY.isoformat()},
            limits={"max_files": max_files},
        )
        (root / "web" / "schedule").mkdir(parents=True)
        first = {cluster: hour(tick).start.isoformat() for cluster, tick in SINCE.items()}
        (root / "web" / "schedule" / "1.json").write_text(json.dumps({"first_window": first}))

    def run(self, own, scheduled, clusters, gate, endings):
        """``gate``: opens, closes, or never fires, since the run is killed before it has a plan."""
        self.count += 1
        place, window = self.place, hour(own.start, len(own))
        folder = RunFolder(str(self.root), "web", window, f"run-{self.count:03}")
        asked = RunRequest(clusters=tuple(clusters), scheduled=scheduled)
        known = {name: cluster_of(name) for name in clusters}
        pipeline, said = apply_request(self.pipeline, asked)
        context = RunContext(
            pipeline, known, self.root, window, folder, cast("Engine", place), said
        )
        times = {"started_at": place.now, "finished_at": place.now}
        run = Run(Path(folder.uri), own, clusters)
        self.runs.append(run)
        folder.note_begin(window, place.now, said.other_clusters)
        if gate == "never fires":
            return
        before = (
            range(max(min(SINCE[name] for name in clusters), own.start - LOOKBACK), own.start)
            if scheduled
            else range(0)
        )
        try:
            planned = plan_step.plan(context, place.now)
        except SourceError as error:
            folder.write(
                "plan",
                PlanResult(**context.common("plan"), **times, status="failed", error=error.message),
            )
            run.seen = {name: Seen(False, {*own}, asked=False) for name in clusters}
            event("the plan raised")
            return
        folder.write("plan", planned)
        plans = {one.cluster: one for one in planned.clusters}
        run.seen = {
            name: self.failed(name, own, before, scheduled, plans, planned) for name in clusters
        }
        if planned.status == "failed":
            event("no cluster could be asked")
            return
        run.closed = gate == "closes"
        check = checked("files", not run.closed, "", "")
        failed = {"status": "failed", "error": "no"}
        folder.write(
            "gate_source",
            GateResult(
                **context.common("gate_source"),
                **times,
                checks=[check],
                **(failed if run.closed else {}),
            ),
        )
        for name in [] if run.closed else clusters:
            how, ships = endings[name]
            if plans[name].problem:
                how, ships = "fails", [0]
            self.ship(
                name,
                planned,
                plans[name],
                itertools.repeat(2) if how == "passes" else itertools.cycle(ships),
            )
            if how == "passes":
                found = coverage(
                    planned, name, when_empty_fails=self.source["when_empty"] == "fail"
                )
                judged = DeliveryGateResult(
                    **context.common("gate_delivery"), **times, cluster=name, coverage=found
                )
                folder.write(f"gate_delivery.{name}", judged)
                self.pass_(run.seen[name], name, own, before, scheduled)
                run.seen[name].files = {file.id for file in planned.files_for(name)}
            elif how != "is killed":
                ship = ShipResult(
                    **context.common("ship"),
                    **times,
                    **failed,
                    cluster=name,
                    fails_again=how == "is refused",
                )
                folder.write(f"ship.{name}", ship)
            event(f"{'a scheduled' if scheduled else 'a'} run {how}")

    def ship(self, cluster, planned, to, ships):
        ledger, by_id = self.place.ledgers[cluster], {file.id: file for file in self.place.files}
        moved = {one.id: one.original.id for one in to.recognised}
        renamed = {*moved.values(), *(one.original for one in ledger.values() if one.original)}
        for file in planned.files_for(cluster):
            id, window = (
                file.id,
                file.late_window
                or file.tick
                or str(Window(planned.window_start, planned.window_end)),
            )
            assert self.place.settled(by_id[id])
            if not self.place.lacks(cluster, by_id[id]) or not (how := next(ships)):
                continue
            parts = ledger[id].parts if id in ledger else []
            for other in [
                other for other in ledger if other.path == id.path and other not in (id, *renamed)
            ]:
                del ledger[other]  # it was replaced
            whole = how == 2 or id in moved  # which file it is is one record
            ledger[id] = Shipped(by_id[id].content, [*parts, window], whole, moved.get(id))

    def files_of(self, own, before):
        """Return for each tick the files that a run over ``own`` has for it. The last tick with a
        file's folder has the file; one of the run's own rather than one before."""
        found = {tick: [] for tick in (*before, *own)}
        for file in self.place.files:
            in_own, in_before = (
                [tick for tick in some if self.place.in_tick(file, tick)] for some in (own, before)
            )
            if ticks := in_own or in_before:
                found[ticks[-1]].append(file)
        return found

    def waiting(self, file, tick, own, scheduled):
        """Return no note of a file that the next tick's run meets in the same folder."""
        place = self.place
        comes_again = (
            tick in own
            and scheduled
            and place.by != "modified"
            and file.folder == place.folder(own.stop)
        )
        if place.settled(file) or (comes_again and file.modified_ms <= to_ms(place.now)):
            return set()
        return {Note(file.id.path, None, file.modified_ms)}

    def unseen(self, own, before):
        """Return the ticks before the window that nobody can list: their folders are locked, or
        hold too many files."""
        place, most = self.place, self.pipeline.limits.max_files
        logs = [
            file
            for file in place.files
            if file.name.endswith(".log") and file.folder not in place.locked
        ]
        in_tick = {
            tick: {file.id for file in logs if place.in_tick(file, tick)}
            for tick in (*before, *own)
        }
        too_many = len(set().union(*in_tick.values())) > most * (1 + len(before))
        found = {
            tick
            for tick in before
            if (too_many and len(in_tick[tick]) > most) or place.folder(tick) in place.locked
        }
        own_folders = set() if place.by == "modified" else {place.folder(tick) for tick in own}
        return {tick for tick in found if place.folder(tick) not in own_folders}

    def delivered(self, cluster, since):
        """Return what runs are known to have delivered, as long as their results are there. A plan
        reads none of those whose window was over at tick ``since``, where it began to look."""
        found = set[FileId]()
        for run in self.runs:
            if run.own.stop > since and (seen := run.seen.get(cluster)):
                found |= seen.files if seen.passed else set()
                notes = set[Note]().union(*seen.notes.values())
                found -= {FileId(one.path, one.size_bytes or 0, one.modified_ms) for one in notes}
        return found

    def lacking(self, cluster, plan, own, late, since):
        """Return what of the plan's files the cluster lacks, or may lack if nobody could ask it."""
        settled = [file for file in own if self.place.settled(file)]
        if plan.problem:
            return {one.id for one in (*settled, *late)} - self.delivered(cluster, since)
        lacks = {file.id for file in settled if self.place.lacks(cluster, file)}
        late_here = {file.id for file in late if cluster in file.late_for}
        return (lacks | late_here) - {one.id for one in plan.recognised}

    def failed(self, cluster, own, before, scheduled, plans, planned):
        """Return what is known once the run has failed: any file that the cluster was to get may be
        missing there."""
        place, unseen, files = (self.place, self.unseen(own, before), self.files_of(own, before))
        found = Seen(False, {*before, *own}, asked=not plans[cluster].problem)
        own_files = [file for tick in own for file in files[tick]]
        since = min((*before, *own))
        lacking = self.lacking(cluster, plans[cluster], own_files, planned.late_files, since) | {
            FileId(one.path, one.size_bytes or 0, one.modified_ms)
            for one in planned.left_out
            if cluster in one.clusters
        }
        for tick, some in files.items():
            if tick in unseen:
                found.notes[tick].add(Note(place.folder(tick), None, 0))
            else:
                waiting = [self.waiting(file, tick, own, scheduled) for file in some]
                found.notes[tick].update(
                    *waiting, {Note(*file.id) for file in some if file.id in lacking}
                )
        return found

    def pass_(self, seen, cluster, own, before, scheduled):
        """Make it what is known once all that the run planned is on the cluster."""
        place, unseen = self.place, self.unseen(own, before)
        seen.passed = True
        for tick, some in self.files_of(own, before).items():
            if tick in unseen or tick not in seen.looked:
                continue
            waiting = [self.waiting(file, tick, own, scheduled) for file in some]
            left = {
                Note(*file.id)
                for file in some
                if place.settled(file) and place.lacks(cluster, file)
            }
            assert not left or tick in before
            seen.notes[tick] = left.union(*waiting)
            if self.source["when_empty"] == "fail" and not any(
                place.in_tick(file, tick) for file in place.files
            ):
                seen.empty.add(tick)

    def forget(self, run):
        """Lose what the run left."""
        for file, path in record_files(str(self.root), "web").items():
            if file.run_id == run.folder.name:
                Path(path.removeprefix("file://")).unlink()
        shutil.rmtree(run.folder, ignore_errors=True)

    def compare(self):
        """Hold what `gaps` finds, with the ledgers and without, against the truth."""
        runs, began = (
            read_records(str(self.root), "web", DAY, DAY + 99 * HOUR),
            read_schedule(str(self.root), "web").first_window,
        )
        for cluster, ledger in self.place.ledgers.items():
            for held in (self.held(ledger), None):
                found = find_gaps(
                    map(hour, range(TICKS)),
                    runs,
                    {cluster: began[cluster]},
                    dict.fromkeys(CLUSTERS, held).get,
                )
                wanted = true_gaps(self.runs, cluster, ledger if held else None)
                assert {NAMES.index(gap.window) for gap in found} == wanted
                event(f"gaps: {len(wanted)}")

    @staticmethod
    def held(ledger):
        inventory = Inventory()
        for file, one in ledger.items():
            found = Entries()
            if one.original is not None:
                found.aliases = {file: one.alias()}
            else:
                found += [
                    Entry(key, value, 1, 1, invalidated=False, archived=False)
                    for key, value in one.values(file)
                ]
            inventory.add(found, "web")
        return inventory


ticks = st.integers(0, TICKS - 1)
adds = st.tuples(
    st.just("add"), ticks, st.sampled_from(["whole", "whole", "young", "part", "other", "future"])
)
windows = st.one_of(
    st.tuples(
        st.sampled_from([*range(TICKS), TICKS - 1]),
        st.just(1),
        st.sampled_from([True, True, False]),
    ),
    st.tuples(st.sampled_from([*range(TICKS), TICKS - 1]), st.just(1), st.just(True)),
    st.tuples(st.integers(0, TICKS - 2), st.integers(2, TICKS), st.just(False)),
)
endings = st.builds(
    Ending,
    st.sampled_from(["passes", "passes", "passes", "passes", "fails", "is refused", "is killed"]),
    st.lists(st.integers(0, 2), min_size=1, max_size=3),
)
runs = st.tuples(
    st.just("run"),
    windows,
    st.sampled_from([CLUSTERS, CLUSTERS, CLUSTERS, *((name,) for name in CLUSTERS)]),
    st.sampled_from(["opens"] * 7 + ["closes", "closes", "never fires"]),
    st.fixed_dictionaries(dict.fromkeys(CLUSTERS, endings)),
)
kinds = [
    "wait",
    "wait",
    "vanish",
    "clear",
    "rename",
    "replace",
    "replace",
    "rotate",
    "lock",
    "down",
    "prune",
    "prune",
]
changes = st.tuples(st.sampled_from(kinds), st.integers(0, 99))
content = st.sampled_from([["whole"], ["whole"], ["whole", "part"], ["young"], [], ["other"]])
steps = st.one_of(runs, runs, runs, adds, changes, changes)


def change(story, what, number):
    place = story.place
    match what:
        case "wait":
            place.now += dt.timedelta(minutes=20)
        case "lock" if place.by != "modified":
            place.locked ^= {place.folder(number % TICKS)}
        case "down":
            place.down ^= {CLUSTERS[number % 2]}
        case "clear":
            place.files = [file for file in place.files if not place.in_tick(file, number % TICKS)]
        case "prune" if story.runs:
            story.forget(story.runs.pop(number % len(story.runs)))
        case "vanish" | "rename" | "replace" | "rotate" if place.files:
            file = place.files[number % len(place.files)]
            before, place.count = file.name, place.count + 1
            if what == "vanish":
                place.files.remove(file)
            elif what == "replace":
                file.content = place.count
                if number // 10 % 3:
                    file.modified_ms = (
                        to_ms(place.now)
                        if number // 10 % 3 == 1 and place.by != "modified"
                        else file.modified_ms + 1
                    )
                else:
                    file.size_bytes += 1
            else:
                file.name = (
                    before.removesuffix(".tmp")
                    if before.endswith(".tmp")
                    else f"{place.count}-{before}"
                )
                if what == "rotate" and not before.endswith(".tmp"):
                    place.files.append(File(file.folder, before, file.modified_ms + 1, place.count))


@pytest.fixture(scope="module", autouse=True)
def _no_cluster():
    """Nobody connects, and the clock is the place's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan_step, "_begin_to_connect", lambda context: None)
        patch.setattr(plan_step, "AskedCluster", AskedLedger)
        patch.setattr(plan_step, "_add_tuning", lambda *_: None)
        patch.setattr(plan_step, "say", lambda text: None)
        yield patch


def told(*history, there=("whole",) * TICKS, **other):
    """Return a history that random ones hardly meet. ``there``: the file in each tick."""
    common = {
        "by": "start",
        "when_empty": "fail",
        "on_replaced": "fail",
        "on_renamed": "ship",
        "max_files": 100,
    }
    return example(**{**common, **other}, there=[[kind] for kind in there], history=list(history))


def run_of(tick, gate="opens", near="passes", far="passes", ships=0):
    return (
        "run",
        (tick, 1, True),
        CLUSTERS,
        gate,
        {"near": Ending(near, [ships]), "far": Ending(far, [ships])},
    )


@told(run_of(0), run_of(1), ("down", 0), ("run", (0, TICKS, False), *run_of(0)[2:]))
@told(run_of(0), ("down", 0), run_of(0), ("add", 0, "whole"), run_of(0))
@told(run_of(0), ("add", 0, "whole"), ("down", 1), run_of(0, near="fails"))
@told(run_of(0), ("replace", 21), run_of(0, near="fails", far="fails"))
@told(("add", 1, "whole"), run_of(1), ("replace", 13), run_of(1))
@told(("add", 1, "young"), run_of(1), ("wait", 0), run_of(1, near="fails", far="fails", ships=2))
@told(run_of(1, far="fails", ships=1), ("prune", 0))
@told(*[("add", 1, "whole")] * 5, run_of(2), max_files=2, when_empty="succeed")
@told(*[("add", 1, "whole")] * 2, run_of(2), max_files=2)
@told(run_of(1), ("replace", 1), run_of(2), on_renamed="recognise")
@told(run_of(1), ("replace", 1), run_of(1, near="fails", far="fails"))
@told(run_of(1, near="is refused"), run_of(2))
@told(run_of(1, far="fails"), run_of(2, near="fails"))
@told(run_of(1), ("prune", 0), run_of(1, gate="never fires"))
@told(run_of(2), by="day", there=("young", "other", "whole"))
@told(("run", (0, TICKS, False), *run_of(0)[2:]), by="day", there=("young", "other", "whole"))
@settings(
    phases=[Phase.explicit, Phase.reuse, Phase.generate], max_examples=settings().max_examples // 2
)
@given(
    by=st.sampled_from([*PATHS]), when_empty=st.sampled_from(["fail", "succeed"]), on_replaced=st.sampled_from(["fail", "reship"]),  # noqa: E501
    on_renamed=st.sampled_from(["recognise", "ship"]), max_files=st.sampled_from([2, 100, 100]),
    there=st.lists(content, min_size=TICKS, max_size=TICKS), history=st.lists(steps, min_size=8, max_size=24),  # noqa: E501
)  # fmt: skip
def test_the_gaps_are_the_ticks_that_the_truth_says(
    by, when_empty, on_replaced, on_renamed, max_files, there, history
):
    with tempfile.TemporaryDirectory() as root, pytest.MonkeyPatch.context() as patch:
        source = {"when_empty": when_empty, "on_replaced": on_replaced, "on_renamed": on_renamed}
        story = History(Path(root), by, source, max_files)
        place = story.place

        patch.setattr(plan_step, "runtime", runtime_with(now=lambda: place.now))
        patch.setattr(AskedLedger, "place", place, raising=False)
        patch.setattr(
            plan_step,
            "look_into",
            lambda _, __, look, chunks, files: look_into(place, look, chunks, files, on_renamed),
        )
        for tick, kinds in enumerate(there):
            for kind in kinds:
                place.add(tick, kind)
        for step in history:
            match step:
                case ("add", tick, kind):
                    place.add(tick, kind)
                case ("run", (first, count, scheduled), clusters, gate, endings):
                    story.run(
                        range(first, min(first + count, TICKS)), scheduled, clusters, gate, endings
                    )
                    story.compare()
                case (what, number):
                    change(story, what, number)
        story.compare()
