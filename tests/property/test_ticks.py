"""Random histories of runs: what `gaps` says, by the results that the runs leave, is what a model knows that sees every file."""

from __future__ import annotations

import datetime as dt
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from shipper.cli.gaps import LedgerHeld
from shipper.config.cluster import Cluster
from shipper.config.pipeline import Pipeline
from shipper.driver import plan as plan_step
from shipper.driver.context import RunContext
from shipper.driver.engine import Listed
from shipper.driver.files import ListedFile
from shipper.driver.pending import Pending
from shipper.driver.preflight import Sample
from shipper.errors import SourceError
from shipper.ledger.inventory import Entries, Entry, Inventory
from shipper.ledger.records import ChunkKey, ChunkValue
from shipper.report.coverage import coverage
from shipper.report.gaps import find_gaps
from shipper.report.past_runs import window_runs
from shipper.report.plan_result import PlannedFile, PlanResult
from shipper.report.results import DeliveryGateResult, GateResult, ShipResult
from shipper.report.run_folder import RunFolder
from shipper.types import FileId, SplitId
from shipper.windows.window import Window, to_ms

DAY = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)
HOUR = dt.timedelta(hours=1)
TICKS = 6
LOOKBACK = 3
PATHS = {"start": "/logs/{window_start:%H}/", "end": "/logs/{window_end:%H}/", "modified": "/logs/"}


def hour(first: int, count: int = 1) -> Window:
    return Window(DAY + first * HOUR, DAY + (first + count) * HOUR)


@dataclass(eq=False)
class File:
    tick: int
    folder: str
    name: str
    modified_ms: int

    @property
    def id(self) -> FileId:
        return FileId(f"{self.folder}{self.name}", 10, self.modified_ms)


@dataclass
class Place:
    """The source, a clock, and what is on the cluster: all that is true, whoever has seen it."""

    by: str
    files: list[File] = field(default_factory=list)
    locked: set[str] = field(default_factory=set)
    shipped: dict[FileId, str] = field(default_factory=dict)
    """File → window that the ledger has it under."""
    now: dt.datetime = DAY + (TICKS + 1) * HOUR
    count: int = 0

    def folder(self, tick: int) -> str:
        return "/logs/" if self.by == "modified" else f"/logs/{tick + (self.by == 'end'):02}/"

    def add(self, tick: int, kind: str) -> None:
        self.count += 1
        old = to_ms(DAY + tick * HOUR) + self.count
        modified = to_ms(self.now) if kind == "young" and self.by != "modified" else old
        suffix = {"part": ".log.tmp", "other": ".txt"}.get(kind, ".log")
        self.files.append(File(tick, self.folder(tick), f"{self.count}{suffix}", modified))

    def settled(self, file: File) -> bool:
        return file.name.endswith(".log") and file.modified_ms <= to_ms(self.now) - 600_000

    def wanted(self, tick: int) -> list[File]:
        return [file for file in self.files if file.tick == tick and not file.name.endswith(".txt")]

    # What a plan asks of an engine.
    def list_files(self, paths: Sequence[str], *, most: int, modified: Window | None = None) -> Listed:
        found = [
            ListedFile(file.id, file.id.path, file.folder, left="unwanted" if file.name.endswith(".txt") else "")
            for file in self.files
            if file.folder in paths
            and file.folder not in self.locked
            and (modified is None or to_ms(modified.start) <= file.modified_ms < to_ms(modified.end))
        ]
        problems = {path: "permission denied" for path in paths if path in self.locked}
        return Listed(found, too_many=sum(file.name.endswith(".log") for file in found) > most, problems=problems)

    def start_java(self) -> None: ...

    def qualified_folder(self, folder: str) -> str:
        return folder

    def look_at(self, files: Sequence[PlannedFile]) -> None: ...

    def take_sample(self, files: Sequence[PlannedFile]) -> Sample:
        return Sample()


@dataclass
class Truth:
    """What is missing of each tick, by what runs could see."""

    looked: set[int] = field(default_factory=set)
    held: set[int] = field(default_factory=set)
    empty: set[int] = field(default_factory=set)
    locked: set[int] = field(default_factory=set)
    unshipped: dict[int, set[FileId]] = field(default_factory=lambda: {tick: set() for tick in range(TICKS)})

    def gaps(self, place: Place) -> set[int]:
        there = {FileId(file.path, 10, 0): file for file in place.shipped}
        shipped = {Window.__str__(hour(tick)): tick for tick in range(TICKS)}
        in_ledger = {shipped[window] for window in place.shipped.values()}
        return {
            tick
            for tick in range(TICKS)
            if tick not in self.looked
            or tick in self.locked
            or (tick in self.empty and tick not in in_ledger)
            or any(FileId(file.path, 10, 0) not in there for file in self.unshipped[tick])
        }


class AskedLedger(plan_step.AskedCluster):
    """A cluster whose ledger is what the place says."""

    shipped: Mapping[FileId, str]

    def _ask(self) -> Pending:
        files = [FileId(file.path, file.size_bytes, file.modified_ms) for file in self._plan.files]
        files += self._back.for_cluster(self.name) if self._back else []
        return Pending(
            left=[file for file in files if file not in self.shipped], complete=[file for file in files if file in self.shipped]
        )


class History:
    """Runs one after the other, each by the real plan over what the place holds by then."""

    def __init__(self, root: Path, by: str, when_empty: str, max_files: int) -> None:
        self.place, self.truth, self.runs, self.partly = Place(by), Truth(), 0, False
        self.root, self.when_empty = root, when_empty
        self.pipeline = Pipeline.model_validate(
            {
                "pipeline": "web", "topic": "t", "clusters": ["c"], "runs_uri": str(root),
                "schedule": {"cron": "0 * * * *", "start": DAY.isoformat()}, "limits": {"max_files": max_files},
                "source": {
                    "path": PATHS[by], "include": "*.log", "lookback": f"{LOOKBACK}h", "when_empty": when_empty,
                    "window_by": "modified" if by == "modified" else "path",
                },
            }
        )  # fmt: skip

    def run(self, first: int, count: int, scheduled: bool, ending: str, ships: Sequence[bool]) -> None:
        self.runs += 1
        place, truth, window = self.place, self.truth, hour(first, count)
        folder = RunFolder(str(self.root), "web", window.start, window.end, f"run-{self.runs:03}")
        clusters = {"c": Cluster.model_validate({"cluster": "c", "bootstrap": "127.0.0.1:1"})}
        context = RunContext(self.pipeline, clusters, self.root, window, folder, place, scheduled=scheduled)  # type: ignore[arg-type]
        times = {"started_at": place.now, "finished_at": place.now}
        try:
            planned = plan_step.plan(context, place.now)
        except SourceError as error:
            folder.write("plan", PlanResult(**context.common("plan"), **times, status="failed", error=error.message))
            event("plan failed")
            return
        folder.write("plan", planned)
        folder.write("gate_source", GateResult(**context.common("gate_source"), **times))
        before = range(max(0, first - LOOKBACK), first) if scheduled else range(0)
        locked = {tick for tick in before if place.folder(tick) in place.locked} | self.overfull(first, count, before)
        seen = {tick: place.wanted(tick) for tick in (*before, *range(first, first + count)) if tick not in locked}
        lacking = {tick: {file.id for file in files if file.id not in place.shipped} for tick, files in seen.items()}
        to_ship = [file for file in planned.files_for("c") if file.left]
        expected = {file.id for files in seen.values() for file in files if place.settled(file)} - place.shipped.keys()
        taken = {FileId(file.path, file.size_bytes, file.modified_ms) for file in to_ship}
        assert taken <= expected
        assert taken == expected or len(expected) > self.pipeline.limits.max_files - len(planned.own_files)
        passed = ending == "passes"
        for number, file in enumerate(to_ship):
            if passed or ships[number % len(ships)]:
                window_of = file.late_window or file.tick or str(window)
                place.shipped[FileId(file.path, file.size_bytes, file.modified_ms)] = window_of
        if not passed:
            self.partly |= any(ships)
            folder.write("ship.c", ShipResult(**context.common("ship"), **times, cluster="c", status="failed", error="no"))
            for tick, files in lacking.items():
                truth.unshipped[tick] |= files
            truth.locked |= locked
            return
        found = coverage(planned, "c", when_empty_fails=self.when_empty == "fail")
        folder.write(
            "gate_delivery.c", DeliveryGateResult(**context.common("gate_delivery"), **times, cluster="c", coverage=found)
        )
        truth.looked |= {*seen, *locked}
        truth.locked = truth.locked - seen.keys() | locked
        for tick in locked:
            truth.unshipped[tick] = set()
            truth.empty.discard(tick)
        for tick, files in seen.items():
            truth.unshipped[tick] = {file for file in lacking[tick] if file not in place.shipped}
            truth.empty.discard(tick)
            if not files and self.when_empty == "fail" and tick not in truth.held:
                truth.empty.add(tick)
            elif not truth.unshipped[tick] and (files or self.when_empty == "succeed"):
                truth.held.add(tick)

    def overfull(self, first: int, count: int, before: range) -> set[int]:
        """Return the ticks before the window that nobody lists: too many files are there, and in all folders together."""
        most, place = self.pipeline.limits.max_files, self.place
        counts = dict.fromkeys((*before, *range(first, first + count)), 0)
        for file in place.files:
            if file.tick in counts and file.name.endswith(".log") and file.folder not in place.locked:
                counts[file.tick] += 1
        together = sum(counts.values()) > most * (1 + len(before))
        return {tick for tick in before if together and counts[tick] > most}

    def gaps(self, *, with_ledger: bool) -> set[int]:
        runs = window_runs(str(self.root), "web", ("c",), DAY, DAY + 99 * HOUR)
        inventory = Inventory()
        for file, window in self.place.shipped.items():
            value = ChunkValue(
                last=1, end=True, records=1, bytes=9, checksum=1, digest="d", generation=1, run_id="r", window=window, splits=1
            )
            inventory.add(
                Entries([Entry(ChunkKey(SplitId(file, 0), 0, "t"), value, 1, 1, invalidated=False, archived=False)]), "web"
            )
        held = LedgerHeld(inventory) if with_ledger else None
        found = find_gaps([hour(tick) for tick in range(TICKS)], runs, {"c": DAY}, lambda cluster: held)
        return {int(gap.window[11:13]) for gap in found}


ticks = st.integers(0, TICKS - 1)
adds = st.tuples(st.just("add"), ticks, st.sampled_from(["whole", "whole", "young", "part", "other"]))
narrow = st.tuples(st.just("run"), ticks, st.just(1), st.sampled_from([True, True, False]))
wide = st.tuples(st.just("run"), st.integers(0, TICKS - 2), st.integers(2, TICKS), st.just(False))
changes = st.tuples(st.sampled_from(["wait", "wait", "vanish", "rename", "lock"]), st.integers(0, 99))
endings = st.tuples(st.sampled_from(["passes", "passes", "passes", "fails"]), st.lists(st.booleans(), min_size=1, max_size=3))
content = st.sampled_from([["whole"], ["whole", "part"], ["whole", "young"], [], ["other"]])
steps = st.one_of(adds, changes, st.tuples(narrow, endings), st.tuples(narrow, endings), st.tuples(wide, endings))


def change(place: Place, what: str, number: int) -> None:
    if what == "wait":
        place.now += dt.timedelta(minutes=20)
    elif what == "lock":
        if place.by != "modified":
            place.locked ^= {place.folder(number % TICKS)}
    elif place.files:
        file = place.files[number % len(place.files)]
        if what == "vanish":
            place.files.remove(file)
        else:
            file.name = file.name.removesuffix(".tmp")


@pytest.fixture(scope="module", autouse=True)
def _no_cluster() -> Any:
    """Nobody connects, and the clock is the place's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan_step, "_begin_to_connect", lambda context: None)
        patch.setattr(plan_step, "AskedCluster", AskedLedger)
        patch.setattr(plan_step, "say", lambda text: None)
        yield patch


@settings(max_examples=100, deadline=None)
@given(
    by=st.sampled_from([*PATHS]), when_empty=st.sampled_from(["fail", "succeed"]), max_files=st.sampled_from([2, 100]),
    there=st.lists(content, min_size=TICKS, max_size=TICKS), history=st.lists(steps, min_size=8, max_size=16),
)  # fmt: skip
def test_the_gaps_are_the_ticks_that_the_truth_says(
    by: str, when_empty: str, max_files: int, there: list[list[str]], history: list[Any]
) -> None:
    with tempfile.TemporaryDirectory() as root, pytest.MonkeyPatch.context() as patch:
        story = History(Path(root), by, when_empty, max_files)
        place = story.place

        class Clock(dt.datetime):
            @classmethod
            def now(cls, tz: dt.tzinfo | None = None) -> dt.datetime:  # type: ignore[override]
                return place.now

        patch.setattr(plan_step, "dt", SimpleNamespace(datetime=Clock, UTC=dt.UTC, timedelta=dt.timedelta))
        patch.setattr(AskedLedger, "shipped", place.shipped, raising=False)
        for tick, kinds in enumerate(there):
            for kind in kinds:
                place.add(tick, kind)
        for step in history:
            match step:
                case ("add", tick, kind):
                    place.add(tick, kind)
                case (("run", first, count, scheduled), (ending, ships)):
                    story.run(first, min(count, TICKS - first), scheduled, ending, ships)
                case (what, number):
                    change(place, what, number)
        wanted = story.truth.gaps(place)
        event(f"gaps: {len(wanted) > 0}, complete: {len(wanted) < TICKS}")
        assert story.gaps(with_ledger=True) == wanted
        by_results = story.gaps(with_ledger=False)
        assert wanted <= by_results
        assert story.partly or by_results == wanted
