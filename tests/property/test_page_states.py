"""Random histories of runs: the state that the Shipments page shows of each window is what the
ledger's commits and the schedule say."""

import datetime as dt
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import event, example, given, settings
from hypothesis import strategies as st

from shipper.config.environment import EVERYTHING
from shipper.config.load import load_pipeline
from shipper.report.coverage import coverage
from shipper.report.plan_result import ClusterPlan, LeftOut, PlannedFile, PlanResult
from shipper.report.results import (
    DeliveryGateResult,
    FileAccount,
    GateResult,
    RunReport,
    ShipResult,
    TopicAccount,
)
from shipper.report.run_folder import RunFolder
from shipper.shipments import app
from shipper.shipments.feed import look
from shipper.windows.window import Window
from tests.samples.results import checked
from tests.samples.shipments import START, World, at, leave, seconds, windows_of

TICKS, LOOKBACK, WITHIN = 5, 3, dt.timedelta(minutes=50)
MINUTE = dt.timedelta(minutes=1)
NAME, CLUSTER = "web", "near"


def hour(first, count=1):
    return Window(at(first), at(first + count))


@dataclass(frozen=True)
class File:
    name: str
    tick: int


@dataclass
class Run:
    """What is asked for, so that it can be asked for again."""

    first: int
    count: int
    scheduled: bool
    run_id: str
    passed: bool = False


@dataclass
class Truth:
    """What is known of one window, by who knows it."""

    looked: bool = False
    """A run whose gate has passed has looked at it."""
    tried: bool = False
    """A run was to ship it, or a part of it."""
    early: bool = False
    """The last run that was to ship it and had a plan passed, and the window was not over."""
    own_looked: bool = False
    """One of these was over all of it, or came before its source gate closed; no other one opens a
    gate that is closed."""
    closed: list[str] = field(default_factory=list)
    """Runs whose source gate closed since one of them passed it. A run that closes it again does so
    for the first time: its results tell of its last attempt."""
    left: dict[str, set[File]] = field(default_factory=dict)
    """Run → the files of the window that were not there, when it last left a report."""
    own_passed: bool = True
    """Whether the last run over exactly this window has passed."""
    committed: dt.datetime | None = None
    """When the last record was, by the ledger, as a run that has passed has read it."""

    @property
    def outstanding(self):
        return any(self.left.values())


class History:
    def __init__(self, root, hours):
        self.world = World(root)
        self.world.pipeline(NAME, (CLUSTER,))
        text = (self.world.config / "pipelines" / f"{NAME}.yaml").read_text()
        text = text.replace(
            "start: 2026-11-01}", f"start: 2026-11-01, deliver_within: {WITHIN // MINUTE}m}}"
        )
        self.world.write(f"pipelines/{NAME}.yaml", text + "notify: [{on: [late], notifier: a.B}]\n")
        self.world.beginning(NAME, (CLUSTER,))
        self.pipeline = load_pipeline(self.world.config, NAME, EVERYTHING)
        self.now = START + hours * 60 * MINUTE
        self.files = [File(f"{tick}.log", tick) for tick in range(TICKS)]
        self.young = set()
        self.ledger = {}
        self.truth = [Truth() for _ in range(TICKS)]
        self.begun = {}
        self.done = []
        self.results = {}
        """Run → what its steps left."""
        self.count = 0

    def wait(self, minutes):
        self.now += minutes * MINUTE

    def add(self, tick, *, young):
        self.files.append(File(f"late{len(self.files)}.log", tick))
        if young:
            self.young.add(self.files[-1])

    def new(self, first, count, *, scheduled):
        """None: the schedule has not come to it, or not even people."""
        count = min(count, TICKS - first)
        if at(first + count if scheduled else first) > self.now:
            return None
        self.count += 1
        self.done.append(Run(first, count, scheduled, f"run-{self.count:03}"))
        return self.done[-1]

    def ship(self, run, ending):
        """Run it, or all of its tasks again, as far as ``ending`` says."""
        window = hour(run.first, run.count)
        self.wait(1)
        folder = RunFolder(str(self.world.runs), NAME, window, run.run_id)
        folder.note_begin(window, self.now, ())
        look(self.world.config)
        self.begun[window] = self.now
        before = range(max(0, run.first - LOOKBACK), run.first) if run.scheduled else range(0)
        own, seen = (
            range(run.first, run.first + run.count),
            [*before, *range(run.first, run.first + run.count)],
        )
        for tick in own:
            self.truth[tick].tried = True
            if run.count == 1:
                self.truth[tick].own_passed = run.passed
        if ending == "killed at once":
            return
        began, common = self.now, self.common(run, window)
        there = [file for file in self.files if file.tick in seen]
        alone = {
            file for file in there if file.tick not in own and self.truth[file.tick].closed
        }  # a run that looks back leaves it alone
        lacking = [
            file for file in there if file not in self.ledger and file not in self.young | alone
        ]
        left_alone = [file for file in alone if file not in self.ledger]
        early = [tick for tick in own if at(tick + 1) > began]
        plan = self.plan(common, run, own, before, there, lacking, left_alone)
        plan.over_until = at(early[0]) if early else None
        closed = ending == "gate closes"
        check = checked("files", not closed, ">= 1", "0")
        status = {"status": "failed", "error": "3 files"} if closed else {}
        gate = GateResult(**common, step="gate_source", checks=[check], **status)
        self.wait(2)
        sent = [] if closed else lacking[: len(lacking) // 2] if ending == "ship fails" else lacking
        self.ledger |= dict.fromkeys(sent, self.now)
        self.wait(3)
        if ending == "killed at the end":
            return
        passed = ending == "passes"
        left = self.results.setdefault(run.run_id, {})  # of an earlier attempt, too
        if not closed:
            left["ship"] = self.ship_result(common, there, own, sent, failed=ending == "ship fails")
        if passed:
            left["gate"] = self.gate(common, plan, seen)
            run.passed = True
        ship, delivered = left.get("ship"), left.get("gate")
        cause = None if passed else f"{ending}: it says so"
        report = RunReport(
            **common
            | {
                "started_at": began,
                "finished_at": self.now,
                "status": "succeeded" if passed else "failed",
                "error": cause,
            },
            plan=plan,
            gate_source=gate,
            ships=[ship] if ship else [],
            delivery_gates=[delivered] if delivered else [],
        )
        leave(self.world.runs, report)
        look(self.world.config)
        self.begun.pop(window, None)
        if passed:  # one that began before and left nothing is dead
            start = at(seen[0])
            dead = [
                one
                for one, then in self.begun.items()
                if then < began and start <= one.start and one.end <= window.end
            ]
            self.begun = {one: then for one, then in self.begun.items() if one not in dead}
        for tick in own:
            self.truth[tick].early = passed and tick in early
        self.learn(run, seen, own, lacking, left_alone, ending)

    def learn(self, run, seen, own, lacking, left_alone, ending):
        """What the report of a run has told, whatever it holds."""
        for tick in seen:
            truth, passed = self.truth[tick], ending == "passes"
            if truth.early and tick in own:
                truth.closed, truth.own_passed = (
                    [],
                    run.passed if run.count == 1 else truth.own_passed,
                )
                continue
            left = {file for file in [*self.young, *left_alone] if file.tick == tick}
            if passed:
                truth.looked, truth.left = True, {run.run_id: left}
                truth.own_looked |= tick in own
                times = [moment for file, moment in self.ledger.items() if file.tick == tick]
                truth.committed = max(times, default=truth.committed)
            else:
                # Its plan has asked the cluster, so it knows what is missing, whoever left it.
                truth.left = {run.run_id: left | {file for file in lacking if file.tick == tick}}
                truth.tried = True
            if tick in own:
                truth.closed = [one for one in truth.closed if one != run.run_id]
                if ending == "gate closes" and not truth.closed:
                    truth.own_looked = truth.looked
                truth.closed = [*truth.closed, run.run_id] if ending == "gate closes" else []
                if run.count == 1:
                    truth.own_passed = run.passed

    def common(self, run, window):
        return {
            "pipeline": NAME,
            "window_start": window.start,
            "window_end": window.end,
            "run_id": run.run_id,
            "started_at": self.now,
            "finished_at": self.now,
        }

    def plan(self, common, run, own, before, there, lacking, left_alone):
        files = []
        for file in there:
            about = {
                "path": file.name,
                "size_bytes": 10,
                "modified_ms": 0,
                "splits": 1,
                "left": file in lacking,
                "missing_on": [CLUSTER] if file in lacking else [],
            }
            tick = str(hour(file.tick))
            if file.tick in own and file not in self.young:
                files.append(PlannedFile(**about, tick=tick if run.count > 1 else None))
            elif file in lacking:
                files.append(PlannedFile(**about, late_window=tick, late_for=[CLUSTER]))
        left_out = [
            LeftOut(
                path=f.name, reason="young", code="unsettled", warns=True, window=str(hour(f.tick))
            )
            for f in there
            if f in self.young or f in left_alone
        ]
        complete = {
            tick: [self.ledger[f] for f in there if f.tick == tick and f in self.ledger]
            for tick in before
        }
        cluster = ClusterPlan(
            cluster=CLUSTER,
            left_files=len(lacking),
            looks_back_to=at(before[0]) if before else None,
            committed={str(hour(tick)): max(times) for tick, times in complete.items() if times},
        )
        return PlanResult(**common, files=files, left_out=left_out, clusters=[cluster])

    def ship_result(self, common, there, own, sent, *, failed):
        files = [
            FileAccount(path=f.name, records=1, delivered=int(f in sent), before=int(f not in sent))
            for f in there
            if f.tick in own or f in sent
        ]
        status = {"status": "failed", "error": "it does not answer"} if failed else {}
        topics = [TopicAccount(topic="t", delivered=len(sent), before=len(files) - len(sent))]
        return ShipResult(
            **common | {"finished_at": self.now},
            cluster=CLUSTER,
            read=len(files),
            files=files,
            topics=topics,
            **status,
        )

    def gate(self, common, plan, seen):
        """As the gate does it, with what the ledger says of the plan's files alone."""
        ticks = {
            file.path: file.late_window
            or file.tick
            or str(Window(plan.window_start, plan.window_end))
            for file in plan.files
        }
        committed = {}
        for file, moment in self.ledger.items():
            if tick := ticks.get(file.name):
                committed[tick] = max(moment, committed.get(tick, moment))
        found = coverage(plan, CLUSTER, when_empty_fails=True, committed=committed)
        return DeliveryGateResult(
            **common | {"finished_at": self.now}, cluster=CLUSTER, coverage=found
        )

    def replay(self, tick):
        """A run of a derived pipeline: nothing of it is the window's."""
        window = hour(tick)
        name = f"{NAME}.replay.again{self.count}"
        common = self.common(Run(tick, 1, False, "replay"), window) | {"pipeline": name}
        topics = [TopicAccount(topic="t", delivered=3)]
        found = coverage(
            PlanResult(**common), CLUSTER, when_empty_fails=False, committed={str(window): self.now}
        )
        report = RunReport(
            **common,
            plan=PlanResult(**common),
            gate_source=GateResult(**common, step="gate_source"),
            ships=[ShipResult(**common, cluster=CLUSTER, topics=topics)],
            delivery_gates=[
                DeliveryGateResult(**common, cluster=CLUSTER, topics=topics, coverage=found)
            ],
        )
        leave(self.world.runs, report)
        look(self.world.config)

    def wanted(self, tick):
        truth, window = self.truth[tick], hour(tick)
        blocked = truth.closed and (not truth.own_looked or truth.outstanding)
        whole = truth.looked and not truth.outstanding and not blocked
        is_late = self.now >= window.end + WITHIN and not whole
        if window in self.begun:
            return "overdue" if is_late else "shipping"  # or killed: for a day nobody can tell
        if not whole and any(
            one.start <= window.start and window.end <= one.end for one in self.begun
        ):
            return "overdue" if is_late else "shipping"
        if blocked:
            return "blocked"
        if truth.looked and not truth.outstanding:
            assert {file for file in self.files if file.tick == tick and file in self.ledger}, (
                "what is there is in the ledger"
            )
            return (
                "late" if truth.committed and truth.committed > window.end + WITHIN else "shipped"
            )
        if truth.looked:
            return "doubt" if truth.own_passed else "failed"
        if truth.tried and not truth.early:
            return "failed"
        if window.end > self.now and not truth.early:
            return "never"
        return "waiting" if self.now < window.end + WITHIN else "missing"

    def shown(self):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(app, "_now", lambda: int(self.now.timestamp()))
            windows = windows_of(self.world.index, NAME, seconds(0), seconds(TICKS))
        painted = ["never"] * TICKS
        for start, end, state in sorted(
            windows, key=lambda window: window[0] - window[1]
        ):  # a shorter window lies above a longer one
            for tick in range(TICKS):
                painted[tick] = state if start <= seconds(tick) < end else painted[tick]
        return painted


ticks = st.integers(0, TICKS - 1)
endings = st.sampled_from(
    [
        "passes",
        "passes",
        "passes",
        "ship fails",
        "gate closes",
        "killed at once",
        "killed at the end",
    ]
)
steps = st.one_of(
    st.tuples(st.just("wait"), st.sampled_from([5, 30, 60])),
    st.tuples(st.just("wait"), st.sampled_from([5, 30, 60])),
    st.tuples(st.just("own"), ticks, endings),
    st.tuples(st.just("own"), ticks, endings),
    st.tuples(st.just("by hand"), ticks, endings),
    st.tuples(st.just("wide"), st.integers(0, TICKS - 2), st.integers(2, TICKS), endings),
    st.tuples(st.just("again"), st.integers(0, 99), endings),
    st.tuples(st.just("add"), ticks, st.booleans()),
    st.tuples(st.just("settle")),
    st.tuples(st.just("replay"), ticks),
)


def do(history, step):
    match step:
        case ("wait", minutes):
            history.wait(minutes)
        case ("own" | "by hand" as kind, tick, ending):
            if run := history.new(tick, 1, scheduled=kind == "own"):
                history.ship(run, ending)
        case ("wide", first, count, ending):
            if run := history.new(first, count, scheduled=False):
                history.ship(run, ending)
        case ("again", number, ending) if history.done:
            history.ship(history.done[number % len(history.done)], ending)
        case ("add", tick, young):
            history.add(tick, young=young)
        case ("settle",):
            history.young.clear()
        case ("replay", tick):
            history.replay(tick)


@example(
    3,
    [
        ("own", 0, "passes"),
        ("wide", 0, 2, "gate closes"),
        ("own", 2, "passes"),
        ("own", 1, "passes"),
        ("again", 2, "ship fails"),  # its first gate left the file that run 1 shipped meanwhile
    ],
)
@example(
    3,
    [
        *[("wait", 5)] * 5,
        ("own", 1, "passes"),  # and delivers the window before, too
        ("own", 0, "gate closes"),
        ("again", 0, "gate closes"),
    ],
)
@example(1, [*[("wait", 5)] * 4, *[("own", 0, "ship fails")] * 2, ("again", 0, "passes")])
@example(
    3,
    [
        *[("wait", 5)] * 4,
        ("own", 1, "passes"),
        ("own", 0, "gate closes"),
        ("again", 0, "passes"),  # it had delivered before that gate closed, and did not after it
        ("own", 0, "gate closes"),
    ],
)
@settings(max_examples=settings().max_examples // 4)
@given(st.sampled_from([1, 3, 5]), st.lists(steps, min_size=8, max_size=18))
def test_the_page_shows_what_the_ledgers_commits_and_the_schedule_say(hours, story):
    with tempfile.TemporaryDirectory() as root:
        history = History(Path(root), hours)
        for step in story:
            do(history, step)
            if history.count:
                shown = history.shown()
                wanted = [history.wanted(tick) for tick in range(TICKS)]
                assert shown == wanted, (step, shown, wanted)
                for state in set(shown):
                    event(state)
