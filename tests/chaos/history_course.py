"""The course of a history: which files come and change, what is asked for, which faults come, and
what becomes of the runs."""

from __future__ import annotations

import json
import random
import signal
import sys
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from shipper_tools.dev.errors import DevServerError

from tests.chaos.history_faults import DURING, Undo
from tests.chaos.history_model import (
    RECORDS_PER_SPLIT,
    SPLIT_BYTES,
    Difference,
    FileVersion,
    Model,
    Tracked,
)
from tests.chaos.history_run import DRIVER_POINTS, WORKER_POINTS, Piece, RunSpec, Strike, said_of
from tests.chaos.history_world import (
    RUN_ENDS_WITHIN_SECONDS,
    TOPICS,
    Brokers,
    HistoryRun,
    RunServer,
)

_PIPELINE = "history"
_MOST_AT_ONCE = 3
_EXAMPLES = 8
_SLEEPS_AT_MOST_SECONDS = 40.0
#: Records a second of a task that is to be at work still when its driver is gone and another run
#: has taken over.
_LONG_LIVED = (150.0, 300.0, 600.0)


@dataclass(frozen=True)
class Options:
    runs: int
    seed: int
    brokers: int = 1
    """One, or three."""

    @property
    def command(self) -> str:
        return (
            f"python -m tests.chaos.history --runs {self.runs} --seed {self.seed} --brokers "
            f"{self.brokers}"
        )


@dataclass
class Request:
    """Goal of a user, reached in as many runs as it takes."""

    kind: str
    windows: tuple[int, int]
    run_id: str
    late: tuple[str, ...] = ()
    """Paths of files of other windows."""
    reship: str | None = None

    @property
    def must_be_done(self) -> bool:
        return self.reship is not None


@dataclass
class Sleeper:
    """A run that was stopped, and will be woken."""

    run: HistoryRun
    wakes: int
    """At which turn."""
    longest: float
    """The time at which it wakes anyway."""


@dataclass
class History:
    """The state of a history."""

    brokers: Brokers
    server: RunServer
    folder: Path
    options: Options
    model: Model = field(default_factory=Model)
    hour: int = 0
    turn: int = 0
    launched: int = 0
    fired: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    active: list[HistoryRun] = field(default_factory=list)
    """Runs that have processes and are awake."""
    sleepers: list[Sleeper] = field(default_factory=list)
    debts: deque[Request] = field(default_factory=deque)
    """Goals that must be asked for again."""
    undos: list[tuple[float, Undo]] = field(default_factory=list)
    hidden: set[str] = field(default_factory=set)
    """Paths of files that are out of reach."""
    faults: list[str] = field(default_factory=list)
    """Findings against shipper, beside the count of records."""
    rng: random.Random = field(default_factory=random.Random)
    began: float = field(default_factory=time.monotonic)
    _files: int = 0

    # The course

    def go_on(self, runs: int) -> None:
        while self.launched < runs:
            self.turn += 1
            self.rng = random.Random(f"{self.options.seed}/{self.turn}")
            self._wake(self.turn)
            self._change_source()
            request = self._next_request()
            spec = self._spec(request)
            if spec is not None:
                self._take_turn(request, spec)
            if self.turn % 25 == 0:
                self._say()

    def _say(self) -> None:
        seconds = time.monotonic() - self.began
        print(
            f"{seconds:4.0f} s: {self.launched} runs, {self.ends['succeeded']} succeeded, "
            f"{self.ends['failed']} failed, {self.ends['killed']} killed; {self.fired.total()} "
            f"faults; {len(self.debts)} to be asked for again",
            flush=True,
        )

    def _chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    # The source

    def _new_file(self, window: int) -> None:
        self._files += 1
        splits = self.rng.choice((1, 1, 2, 3))
        self.model.write(
            FileVersion(
                f"history:///{window:04}/{self._files}.log",
                window,
                1_000 * self._files,
                (0,) * splits,
            )
        )

    def _change_source(self) -> None:
        if self.turn == 1 or self._chance(0.6):
            self.hour += 1
            for _ in range(self.rng.choice((1, 1, 2, 3))):
                self._new_file(self.hour)
        if self._chance(0.1):
            self.fired["late file"] += 1
            self._new_file(max(1, self.hour - self.rng.randrange(1, 6)))
        if self._chance(0.12) and (free := self._free_files()):
            self.replace(self.rng.choice(free).file)
        self.write_source()

    def replace(self, file: FileVersion) -> None:
        """Write other bytes to a file, also to one that nobody has asked for yet."""
        self._files += 1
        number = len(self.model.versions[file.path])
        how = self.rng.choice(("grown", "replaced", "replaced by a shorter one"))
        if how == "grown":
            born = file.born + (number,) * self.rng.choice((1, 2))
        elif how == "replaced":
            born = (number,) * len(file.born)
        else:
            born = (number,) * max(1, len(file.born) - 1)
        self.fired[f"file {how}"] += 1
        self.model.write(replace(file, modified_ms=1_000 * self._files, born=born))

    def write_source(self) -> None:
        there = {
            each.file.path: each.file.state
            for each in self.model.now()
            if each.file.path not in self.hidden
        }
        part = self.folder / "source.json.part"
        part.write_text(json.dumps(there))
        part.rename(self.folder / "source.json")

    def busy_paths(self, but: HistoryRun | None = None) -> set[str]:
        """Return the paths of files that must not change now: those of runs that are not over, and
        of requests that must be done.

        If such a file was replaced, a run would be told by its plan to ship a version that is gone,
        and the model could not say which version a success is about."""
        runs = [*self.active, *(sleeper.run for sleeper in self.sleepers)]
        paths = {file.path for run in runs if run is not but for file in run.spec.files}
        for debt in self.debts:
            if debt.must_be_done:
                paths |= {each.file.path for each in self._listed(debt)}
        return paths

    def _free_files(self) -> list[Tracked]:
        busy = self.busy_paths() | self.hidden
        return [each for each in self.model.now() if each.file.path not in busy]

    def _listed(self, request: Request) -> list[Tracked]:
        if request.kind != "ship":
            return []
        found = self.model.of_windows(range(*request.windows))
        found += [
            each
            for each in self.model.now()
            if each.file.path in request.late and each not in found
        ]
        return sorted(
            (each for each in found if each.file.path not in self.hidden),
            key=lambda each: each.file.path,
        )

    # Requests

    def _next_request(self) -> Request:
        if self.debts and self._chance(0.3 + 0.1 * len(self.debts)):
            return self.debts[0]
        run_id = f"turn-{self.turn}"
        kind = self.rng.choices(
            ("new", "old", "wide", "reship", "archive", "snapshot"),
            (66, 8, 8, 9, 5, 4),
        )[0]
        first = max(1, self.hour - self.rng.randrange(12))
        if kind == "reship":
            request = Request(
                "ship",
                (first, first + self.rng.choice((1, 1, 2))),
                run_id,
                reship=f"reship-{self.turn}",
            )
            busy = self.busy_paths()
            if not any(each.file.path in busy for each in self._listed(request)):
                return request
        if kind == "archive" and self.hour > 3:
            return Request("archive", (0, self.rng.randrange(1, self.hour - 1)), run_id)
        if kind == "snapshot" and self.launched:
            return Request("snapshot", (0, 1), run_id)
        if kind == "old":
            return Request("ship", (first, first + 1), run_id)
        if kind == "wide":
            return Request("ship", (first, first + self.rng.randrange(2, 6)), run_id)
        late = tuple(
            each.file.path
            for each in self.model.of_windows(range(self.hour - 6, self.hour))
            if not each.latest.asked
        )
        return Request("ship", (self.hour, self.hour + 1), run_id, late=late)

    def _spec(self, request: Request) -> RunSpec | None:
        """Return the run that the request needs, without faults; None if there is nothing
        to ship."""
        files = tuple(each.file for each in self._listed(request))
        if request.kind == "ship" and not files:
            if request in self.debts:
                self.debts.remove(request)
            return None
        rng, chunk_bytes = self.rng, self.rng.choice((4_000, 12_000, 12_000, 40_000))
        return RunSpec(
            request.kind,
            request.run_id,
            _PIPELINE,
            self.brokers.bootstrap,
            TOPICS,
            str(self.folder),
            request.windows,
            files,
            request.reship,
            archive_before=request.windows[1],
            tasks=rng.choice((1, 2, 2, 3)),
            lanes=rng.choice((1, 2, 2)),
            chunk_bytes=chunk_bytes,
            batch_bytes=min(chunk_bytes, rng.choice((2_000, 4_000, 8_000))),
        )

    # A turn

    def _take_turn(self, request: Request, spec: RunSpec) -> None:
        known = request in self.debts
        if known and self._chance(0.5):
            spec = replace(
                spec, run_id=f"{spec.run_id}-{self.turn}"
            )  # another run; else another attempt of the same
        spec, during = self._disturbed(spec)
        run = self._launch(spec)
        if self._chance(0.06):
            self._second_driver(spec)
        self._accompany(run, during)
        if run.succeeded:
            if request in self.debts:
                self.debts.remove(request)
        elif not known and (request.must_be_done or (spec.kind == "ship" and self._chance(0.6))):
            self.debts.append(request)
        elif request in self.debts:
            self.debts.rotate(-1)

    def _launch(self, spec: RunSpec) -> HistoryRun:
        self.launched += 1
        run = HistoryRun(spec, self.launched, self.server, self.folder)
        self.model.launched(run.name, spec.files, spec.reship)
        self.active.append(run)
        return run

    def _second_driver(self, spec: RunSpec) -> None:
        """Start another run beside it, for the same request or for the newest windows."""
        self.fired["second driver"] += 1
        if self._chance(0.5) or spec.kind != "ship":
            self._launch(replace(spec, run_id=f"{spec.run_id}-second", strikes=()))
            return
        request = Request("ship", (max(1, self.hour - 1), self.hour + 1), f"{spec.run_id}-second")
        if (other := self._spec(request)) is not None:
            self._launch(other)

    def _disturbed(self, spec: RunSpec) -> tuple[RunSpec, list[str]]:
        """Return the run with faults that are part of it, and the names of the faults that come
        while it runs."""
        rng = self.rng
        if self._chance(0.25):
            return spec, []
        if self._chance(0.55):
            victim = rng.choice(("worker", "driver", "all", "all"))
            number = signal.SIGSTOP if self._chance(0.4) else signal.SIGKILL
            spec = replace(
                spec,
                strikes=(Strike(self._point(spec), victim, rng.choice((1, 1, 2, 2, 3)), number),),
            )
            if victim == "driver":
                spec = replace(spec, records_per_second=rng.choice(_LONG_LIVED))
        if spec.kind == "ship" and self._chance(0.2):
            spec = self._source_fault(spec)
        during = []
        if self._chance(0.5):
            during = [rng.choices([*DURING], [fault.weight for fault in DURING.values()])[0]]
            outlived = during[0] in ("driver killed", "run stopped and taken over")
            spec = replace(
                spec,
                records_per_second=rng.choice(
                    _LONG_LIVED if outlived else (800.0, 1_500.0, 3_000.0)
                ),
            )
            if self._chance(0.4):
                spec = replace(
                    spec,
                    pauses=((rng.choice(("commit", "flush", "begin")), rng.uniform(0.02, 0.2)),),
                )
        return spec, during

    def _point(self, spec: RunSpec) -> str:
        """Choose where in the protocol something happens to the run."""
        if spec.kind != "ship":
            return self.rng.choice([*WORKER_POINTS, "before the control partition is written"])
        if spec.reship and self._chance(0.5):
            return self.rng.choice([point for point in DRIVER_POINTS if "invalidations" in point])
        return self.rng.choice([*WORKER_POINTS, *DRIVER_POINTS])

    def _source_fault(self, spec: RunSpec) -> RunSpec:
        rng = self.rng
        file = rng.choice(spec.files)
        piece = Piece(
            file.path, SPLIT_BYTES * rng.randrange(len(file.born)), rng.randrange(RECORDS_PER_SPLIT)
        )
        match rng.choice(("broken", "no end", "vanished")):
            case "broken":
                self.fired["piece breaks in the middle"] += 1
                return replace(spec, broken=(piece,))
            case "no end":
                self.fired["stream without an end"] += 1
                return replace(spec, cut_off=(rng.choice((1, 1, 2, 4)), rng.randrange(1, 20)))
            case _:
                self.fired["file vanishes after the plan"] += 1
                self.hidden.add(file.path)
                self.write_source()
                return spec

    def _accompany(self, run: HistoryRun, during: list[str]) -> None:
        """Wait until the run's driver is gone or sleeps; begin and end faults meanwhile."""
        strikes_at = time.monotonic() + self.rng.uniform(0.05, 0.7) if during else float("inf")
        while True:
            self._look_after_runs()
            if not run.driven:
                break
            if time.monotonic() >= strikes_at:
                strikes_at = float("inf")
                self._disturb(run, during[0])
            if any(sleeper.run is run for sleeper in self.sleepers):
                break
            time.sleep(0.01)
        if self.hidden and not any(
            file.path in self.hidden
            for other in self.active
            if other.driven
            for file in other.spec.files
        ):
            for path in sorted(self.hidden):
                if self._chance(0.2) and path not in self.busy_paths():
                    self.model.remove(path)
            self.hidden.clear()
            self.write_source()
        while sum(other.alive for other in self.active) >= _MOST_AT_ONCE:
            self._look_after_runs()
            time.sleep(0.02)

    def _disturb(self, run: HistoryRun, name: str) -> None:
        seconds = self.rng.uniform(
            0.2, self.brokers.longest_pause_seconds if name == "broker paused" else 2.5
        )
        try:
            undo = DURING[name].begin(self, run)
        except (DevServerError, KafkaException):
            return  # nothing to hit right now
        if undo is None:
            return
        self.fired[name] += 1
        run.disturbed.append(name)
        self.undos.append((time.monotonic() + seconds, undo))

    def _look_after_runs(self) -> None:
        now = time.monotonic()
        for ends, undo in [entry for entry in self.undos if entry[0] <= now]:
            self.undos.remove((ends, undo))
            undo()
        for run in list(self.active):
            if len(stopped := run.stopped) > run.stops_seen:
                run.stops_seen = len(stopped)
                run.disturbed.append(f"{stopped[-1]} stopped")
                if {*stopped} == {"worker"}:
                    self.undos.append(
                        (now + self.rng.uniform(0.2, 2.0), lambda run=run: self._go_on_with(run))
                    )
                else:
                    self.put_to_sleep(run)
                    continue
            if not run.noted and not run.driven:
                self._note_end(run)
            if not run.alive:
                self._hear(run)
                self.active.remove(run)
            elif now > run.deadline:
                self.faults.append(
                    f"run {run.name} missed its deadline "
                    f"({'; '.join(run.disturbed) or 'undisturbed'}): {run.log}"
                )
                run.signal(signal.SIGKILL)
                run.deadline = float("inf")

    def _note_end(self, run: HistoryRun) -> None:
        run.noted = True
        end = "succeeded" if run.succeeded else "failed" if run.end else "killed"
        self.ends[end] += 1
        self._hear(run)
        self.model.ended(
            run.name, succeeded=run.succeeded and run.spec.kind == "ship", reship=run.spec.reship
        )

    def _hear(self, run: HistoryRun) -> None:
        """Note what the run's processes have said since the last time. Tasks may go on without
        their driver."""
        events = run.events
        for event in events[run.heard :]:
            if event["event"] == "strike":
                what = "stopped" if event["number"] == signal.SIGSTOP else "killed"
                self.fired[f"{event['victim']} {what}"] += 1
            if event["event"] == "not read whole" and run.succeeded:
                self.faults.append(
                    f"run {run.name} said that it succeeded, and did not read {event['path']} "
                    f"whole: {run.log}"
                )
        run.heard = len(events)

    def _go_on_with(self, run: HistoryRun) -> None:
        """Continue a run of which a task was stopped. One that sleeps meanwhile goes on when it is
        woken."""
        if run in self.active:
            run.signal(signal.SIGCONT)

    def put_to_sleep(self, run: HistoryRun) -> None:
        self.active.remove(run)
        turns = self.rng.choice((1, 1, 2, 3, 6, 12))
        self.sleepers.append(
            Sleeper(run, self.turn + turns, time.monotonic() + _SLEEPS_AT_MOST_SECONDS)
        )

    def _wake(self, turn: int) -> None:
        now = time.monotonic()
        for sleeper in [
            each for each in self.sleepers if each.wakes <= turn or each.longest <= now
        ]:
            self.sleepers.remove(sleeper)
            sleeper.run.deadline = time.monotonic() + RUN_ENDS_WITHIN_SECONDS
            sleeper.run.signal(signal.SIGCONT)
            self.active.append(sleeper.run)

    # Step by step, for a test of one thing

    def write(self, file: FileVersion) -> None:
        """Add a file, or give it other bytes."""
        self.model.write(file)
        self.write_source()

    def ask(self, request: Request, strikes: tuple[Strike, ...] = ()) -> HistoryRun:
        """Start a run."""
        spec = self._spec(request)
        assert spec is not None, "there is nothing to ship"
        return self._launch(replace(spec, strikes=strikes))

    # The end

    def settle(self) -> None:
        """Heal everything, let all runs end, and ship what is left."""
        self.turn += 1
        self.rng = random.Random(f"{self.options.seed}/end")
        for _, undo in self.undos:
            undo()
        self.undos.clear()
        self.brokers.heal()
        self._wake(sys.maxsize)
        while self.active:
            self._look_after_runs()
            time.sleep(0.02)
        self.hidden.clear()
        self.write_source()
        for debt in [each for each in self.debts if each.must_be_done]:
            self._finish(debt)
        everything = Request("ship", (0, self.hour + 1), "last")
        self._finish(everything)
        end = self._finish(replace(everything, run_id="nothing-left"))
        files = len(self._listed(everything))
        if end and (end["delivered"], end["complete_files"]) != (0, files):
            self.faults.append(
                f"a run after the last one delivered {end['delivered']} records and found "
                f"{end['complete_files']} of {files} files complete"
            )

    def _finish(self, request: Request) -> dict[str, Any]:
        """Start runs for the request until one succeeds; return what that run said."""
        spec = self._spec(request)
        if spec is None:
            return {}
        for attempt in range(3):
            run = self._launch(
                replace(
                    spec,
                    run_id=f"{spec.run_id}-finished-{attempt}",
                    tasks=2,
                    lanes=2,
                    chunk_bytes=40_000,
                )
            )
            while run.alive:
                self._look_after_runs()
                time.sleep(0.02)
            self._look_after_runs()
            if run.succeeded:
                return run.end
        self.faults.append(
            f"run {run.name} did not succeed although nothing was wrong any more: "
            f"{run.end.get('error')}; {run.log}"
        )
        return {}

    def judge(self) -> list[Difference]:
        return self.model.differences(self.brokers.count())

    def explain(self, differences: Sequence[Difference]) -> Iterator[str]:
        """Describe the first records that are wrong, with what the model and the ledger say of
        them."""
        some = self._spec(Request("snapshot", (0, 1), "explain"))
        assert some is not None
        some = replace(some, bootstrap=self.brokers.direct)
        explained = set()
        for place, expected, found in differences[:_EXAMPLES]:
            topic, record = place
            yield (
                f"{TOPICS[topic]} has {found} of {record}, and should have {expected.least} to "
                f"{expected.most}"
            )
            if (record.path, record.start) not in explained:
                explained.add((record.path, record.start))
                versions = self.model.versions.get(record.path, [])
                yield from (
                    f"  model: {each.number}: {each.file.state}, {each.deliveries}, {each.reships}"
                    for each in versions
                )
                yield from (
                    f"  ledger: {said}"
                    for said in said_of(some, record, [each.file for each in versions])
                )
