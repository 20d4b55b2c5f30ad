"""Histories of runs: the real steps, lanes and ledger, over a source and clusters that misbehave.

Runs interleave, are killed at any point or paused, lose answers, and meet leaders that do not know
that they were replaced. At the end a run without faults ships what is left. Then each topic must
hold each line once.
"""

import datetime as dt
import errno
import functools
import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from fsspec.implementations.memory import MemoryFileSystem

from shipper import runtime
from shipper.driver import decide, ledger_progress, looking
from shipper.driver import plan as plan_step
from shipper.driver import run as run_module
from shipper.driver import ship as ship_step
from shipper.driver.context import RunContext
from shipper.errors import ShipperError
from shipper.ledger import codec
from shipper.ledger.codec import decode_sound
from shipper.ledger.fold import Chunks, Invalidated, covered
from shipper.ledger.records import CHUNKS, CONTROL, ChunkValue, Invalidation, InvalidationKey
from shipper.report import window_records
from shipper.report.plan_result import PlanResult
from shipper.report.results import ShipResult
from shipper.report.run_folder import RunFolder
from shipper.request import RunRequest
from shipper.types import FileId, LogRecord
from shipper.windows.window import Window
from shipper.worker import task
from tests.sim import clients
from tests.sim.broker import SimCluster
from tests.sim.config import TOPICS, UNCHANGED, Config, cluster_of, pipeline_of
from tests.sim.engine import BoundedPool, FilesEngine
from tests.sim.primitives import installed
from tests.sim.source import HEAD_LINES, LINE_BYTES, ROOT, SimSource
from tests.sim.world import FAULTS, Fiber, Process, World

START = dt.datetime(2026, 9, 1, tzinfo=dt.UTC)
_HOUR = Window(START, START + dt.timedelta(hours=1))
_MOST_SECONDS = 8_000.0
_READ = codec._Kind.read
#: Requests of a storage. A file is moved by a copy and a removal, and either may fail.
_STORED = ("cat_file", "cp_file", "exists", "info", "ls", "pipe_file", "rm", "rm_file")
#: Number of a run → chance that its driver, or a task, is struck at a point of the protocol. The
#: first run stops, the next one dies while it takes over, and another one takes over from both.
_RISKS = ((0.3, 0.8), (0.6, 0.3), (0.1, 0.1))
#: Requests at which they are struck.
_DRIVERS_WORDS = ("generation", "init", "barrier", "invalidation", "archive", "commit", "store")
_TASKS_WORDS = ("attempt", "init", "barrier", "batch", "chunk", "commit")


class Wrong(Exception):
    """A history broke a promise."""


@dataclass
class Run:
    """One run of the pipeline."""

    name: str
    tasks: int = 2
    lanes: int = 2
    ended: bool = False
    """True if its process came to its end."""
    code: int = -1
    window: Window = _HOUR
    options: Mapping[str, Any] = field(default_factory=dict)
    """What this run alone is asked for (shipper.request)."""
    machine: list[Process] = field(default_factory=list)
    """Its driver, and the tasks that it has begun: they share a machine."""
    risks: tuple[float, float] = (0.1, 0.1)
    """Chance that its driver, or a task, is struck at a point of the protocol."""
    words: Sequence[str] = ()
    """Requests at which its driver is struck; none: any."""
    may_die: bool = True
    """True if it may also be killed there."""
    config: Config = UNCHANGED
    """The pipeline's settings when it begins."""
    is_struck: bool = False
    """True once one of them was struck at a point of the protocol."""


@dataclass(frozen=True)
class Habits:
    """What a history does, besides what its seed decides."""

    clusters: int = 1
    grows: bool = False
    rotates: bool = False
    """True if files are renamed, and others begin at their paths. Steps are then processes of their
    own with time between them, as in Airflow, and failed ones are tried again."""
    repeats: bool = True
    """True if a run may be repeated from its plan, under the same run id, while it still runs."""
    zombies: bool = False
    """True if whole machines are paused in a ship. Then files are renamed, and the run is repeated
    from its plan."""
    unasked: bool = False
    """True if a cluster may be away while it is asked by the plan."""
    while_listed: bool = False
    """True if files are also renamed between two pages of a listing."""
    copies: bool = False
    """True if a renamed file may at once be copied, with its time."""
    names: bool = False
    """True if people run files by name, also while a cluster is away. For schedules."""
    strikes: bool = False
    """True if processes, or threads, stop between two requests, perhaps with leaders that do not
    know that they were replaced. The next run begins then."""
    reships: bool = False
    """True if some runs send again what is there."""
    ordered: bool = False
    """True if the lines of a file keep their order."""
    objects: bool = False
    """True if files are objects, with ETags, and are written over."""
    packs: bool = False
    """True if files are also compressed."""
    breaks: bool = False
    """True if listings and streams of lines break off."""
    moves: bool = False
    """True if the whole folder moves."""
    loses_ledger: bool = False
    """True if the ledger's topic may be deleted, or made anew."""
    remakes: bool = False
    """True if topics are deleted and made anew. Lost records are sent again."""
    skips: bool = False
    """True if files that were delivered are replaced, and what takes their place is left alone."""
    away: bool = False
    """True if topics are without a leader when a run begins. Its tasks may then read twice."""
    archives: bool = False
    """True if windows are archived and sent again beside each other. For schedules."""
    headers: bool = False
    """True if files begin with one and the same header. Some have no more than that. Files that
    were shipped are removed."""
    changes: bool = False
    """True if the pipeline is changed between runs."""
    stores: bool = False
    """True if the storage of results and snapshots fails now and then, and loses what it may."""


class History:
    """One seed: clusters, a source, and runs that interleave."""

    def __init__(self, world: World, habits: Habits):
        self.world, self.habits = world, habits
        self.names = ["one", "two"][: habits.clusters]
        self.clusters = {name: SimCluster(world, name) for name in self.names}
        self.source = SimSource(world, has_etags=habits.objects, breaks=habits.breaks)
        self.runs: list[Run] = []
        self._numbers = itertools.count()
        self._hurts = True
        self._config, self._is_scheduled = UNCHANGED, False
        self._archives: list[tuple[Fiber, Process]] = []
        self._configs: dict[str, Config] = {}
        """Digest of the transform → the pipeline's settings with it."""
        self._lost_ledger = self._has_copies = False
        self._strikes = habits.strikes or world.chance(0.3)
        self._is_calm = habits.changes and world.chance(0.2)
        if self._is_calm:  # then nothing is doubled, whatever the guarantee
            self._strikes, world.without = False, FAULTS
        self._results: list[tuple[Run, str, dt.datetime]] = []
        """Run, cluster, and when the ship began whose result was there when the run was green."""
        self._possible: dict[tuple[str, str, dt.datetime], int] = {}
        """Ship → number of records that it says may be there twice."""
        self._delivered: set[str] = set()
        """Paths of files that a run without fault had, so that they may be removed."""
        chance = world.random
        self._kill_share = chance.choice((0.0, 0.2, 0.5))
        self._pause_share = chance.choice((0.0, 0.2, 0.5))
        if "kills" in world.without:
            self._kill_share = 0.0
        if "pauses" in world.without:
            self._pause_share = 0.0
        self._on_replaced = "continue"
        if habits.skips:
            self._on_replaced = "skip"
        elif habits.headers or habits.objects:
            self._on_replaced = chance.choice(("continue", "fail" if habits.headers else "reship"))

    @property
    def _counts_of_runs(self):
        """Least and most runs before the last one."""
        return (3, 4) if self.habits.reships else (2, 4) if self.habits.rotates else (2, 3)

    def play(self):
        """Let the runs interleave, then let one finish, and compare."""
        self._set_up()
        begun = []
        for number in range(self.world.random.randint(*self._counts_of_runs)):
            name = f"r{number}"
            if self.runs and self.habits.repeats and self.world.chance(0.3):
                name = self.runs[-1].name  # the same run, tried again from its first step
            begun.append(self._begin(self._new_run(name)))
            if self.habits.strikes:
                self._wait_for_strike(self.runs[-1], *begun[-1])
            if self.habits.zombies and not self._is_calm and self.world.chance(0.5):
                begun += self._repeat_beside_zombie(self.runs[-1])
            if self.habits.rotates and self.world.chance(0.6):
                self._wait_for(begun[-1:])
            runtime.sleep(self.world.random.choice((0.0, 0.5, 5.0, 30.0)))
            self._trouble()
        self._wait_for(begun)
        self._heal()
        if self._lost_ledger:
            self._refuse_doubled(Counter(self.source.truth()))
        options = {"new_ledger": self._lost_ledger}
        self._config = config = replace(self._changed(), without="")
        self._run_last(lambda: Run("last", tasks=1, lanes=1, options=options, config=config))
        self._compare()

    def _run_last(self, new):
        """Let a run without faults finish what is left. While requests of earlier runs are still
        under way, one of them may announce its run, which supersedes this one."""
        while True:
            self.last, late = new(), clients.Network.under_way
            self._wait_for([self._begin(self.last)])
            if not self.last.code:
                return
            if self.source.is_misread and "reship" not in self.last.options:
                options = {"reship": True, "reship_reason": "it was misread"}
                config = self._config
                new = partial(Run, "reship", tasks=1, lanes=1, options=options, config=config)
            elif not late and not self._lost_ledger:  # which cannot stop zombies of before
                if self.habits.changes and self._finish_begun():
                    continue
                raise Wrong(f"a healthy run failed: exit code {self.last.code}")
            runtime.sleep(clients.Network.late_seconds)

    def _finish_begun(self):
        """Finish files that were begun under an earlier transform, which the last run refused.
        Return False if it did not, or if nobody can finish them."""
        plan = self._context(self.last).folder.find("plan", PlanResult)
        ships = [self._result(self.last, name) for name in self.names]
        refused = [*(plan.clusters if plan else ()), *(ship.error for ship in ships if ship)]
        if "SHIP-309" not in f"{plan and plan.error} {refused}":
            return False
        for number, before in enumerate(reversed(list(self._configs.values()))):
            restored = self._config.with_transform_of(before)
            run = replace(self.last, name=f"restored{number}", config=restored, machine=[])
            self._wait_for([self._begin(run)])
            if not run.code:
                return True
        return False

    def _new_run(self, name):
        chance = self.world.random
        most_lanes = 4 if self.habits.changes else 2
        run = Run(name, chance.randint(1, 2), chance.randint(1, most_lanes), config=self._changed())
        run.risks, run.may_die = _RISKS[min(len(self.runs), 2)], bool(self.runs)
        if self.habits.reships and self.world.chance(0.7):
            run.options = {"reship": True, "reship_reason": "asked for"}
        for before in self.runs:
            if before.name == name:
                run.options = before.options
        self.runs.append(run)
        return run

    def _changed(self):
        """Return the pipeline's settings for the next run; an engineer may change them first."""
        if self.habits.changes and self.world.chance(0.7):
            chance, before = self.world.random, self._config
            known = any("_shipper.sim" in cluster.topics for cluster in self.clusters.values())
            self._config = before.changed(
                chance,
                self.names,
                scheduled=self._is_scheduled,
                known=known,
                archiving=any(not (f.done or p.dead) for f, p in self._archives),
            )
            self.world.tell(f"the pipeline is changed: {self._config}")
            for name in self.names:
                _move_ledger(before.cluster_name(name), self._config.cluster_name(name))
        return self._config

    def _repeat_beside_zombie(self, run):
        """Pause the machine of ``run`` when a task has read something, rename, and begin the run
        anew."""
        world = self.world
        until = world.seconds + 100
        while not any(process.switches > 20 for process in run.machine[1:]):
            runtime.sleep(0.1)
            if world.seconds > until:
                return []
        runtime.sleep(world.random.choice((0.0, 0.2, 1.0)))
        seconds = world.random.choice((5.0, 15.0, 45.0))
        for process in run.machine:
            world.pause(process, seconds)
        self._rotate()
        return [self._begin(self._new_run(run.name))]

    def _wait_for_strike(self, run, fiber, process):
        until = self.world.seconds + 100
        while not (run.is_struck or fiber.done or process.dead or self.world.seconds > until):
            runtime.sleep(0.1)

    def _wait_for(self, begun):
        for fiber, process in begun:
            while not fiber.done and not process.dead:
                runtime.sleep(1.0)

    def _set_up(self):
        chance, network = self.world.random, clients.Network
        clients.CLUSTERS.clear()
        for name, cluster in self.clusters.items():
            clients.CLUSTERS[f"{name}:9092"] = cluster
            for topic in TOPICS:
                cluster.create(topic, chance.randint(1, 3))
            cluster.marker_seconds = chance.choice((0.0, 0.05, 2.0))
        network.latency = chance.choice((0.002, 0.02, 0.2))
        network.lost_requests = chance.choice((0.0, 0.01, 0.05, 0.15))
        network.late_requests = chance.choice((0.0, 0.5, 1.0))
        network.late_seconds = chance.choice((1.0, 5.0, 20.0))
        network.lost_answers = chance.choice((0.0, 0.01, 0.05, 0.15))
        network.under_way, network.moved_coordinators = 0, 0.0
        network.old_leaders_answer = True
        if self._strikes and "troubles" not in self.world.without:
            network.moved_coordinators = chance.choice((0.0, 0.05))
            network.old_leaders_answer = chance.random() < 0.5
            for cluster in self.clusters.values():
                cluster.compacts = chance.choice((0.0, 0.5))
        if "losses" in self.world.without:
            network.lost_requests = network.lost_answers = 0.0
        self._lost_answers = network.lost_answers
        if "delays" in self.world.without:
            network.latency = 0.002
            for cluster in self.clusters.values():
                cluster.marker_seconds = 0.0
        if self.habits.stores:
            self.world.store_fails = chance.choice((0.003, 0.02, 0.1))
        for number in range(chance.randint(1, 3)):
            self._write(f"{ROOT}f{number}.log")

    def _lose_stored(self, what):
        """Lose a snapshot of the ledger, or the results of runs: what may be removed."""
        store = MemoryFileSystem.store
        for path in [path for path in store if path.startswith(f"/runs/sim/{what}")]:
            del store[path]
        self.world.tell(f"the storage loses {what}")

    def _change_topic(self, cluster, name):
        """Change a topic, or who may write to it, or how fast."""
        chance, topic = self.world.random, cluster.topics.get(name)
        if topic is None:
            return
        what = chance.choice(
            (
                "partition",
                "limit",
                "leader",
                "acl",
                "quota",
                *(("remake",) * 3 * self.habits.remakes),
            )
        )
        if what == "partition" and len(topic.partitions) < 5:
            cluster.grow(name)
        elif what == "limit":
            topic.settings["max.message.bytes"] = chance.choice(("6000", "9000", "1048588"))
        elif what == "leader":
            cluster.lose_leader(name, chance.randrange(len(topic.partitions)), 12.0)
        elif what == "acl":
            denied = chance.choice((name, cluster_of(cluster.name).ledger_topic("sim")))
            if denied in cluster.topics:
                cluster.deny(denied, chance.choice((3.0, 12.0, 40.0)))
        elif what == "quota":
            cluster.quota = chance.choice((0.0, 4e3, 2e4))
        elif what == "remake":
            cluster.remake(name, chance.choice((0.0, 1.0, 20.0)))

    def _write(self, path):
        chance, headed = self.world.random, self.habits.headers
        lines = 1 if headed and chance.random() < 0.4 else chance.randint(1, 30)
        self.source.write(path, lines, headed=headed)

    def _heal(self):
        """End all faults."""
        self._hurts = self.source.breaks = False
        self.world.store_fails = 0.0
        network = clients.Network
        network.lost_requests = network.lost_answers = network.moved_coordinators = 0.0
        network.latency = 0.002
        for cluster in self.clusters.values():
            cluster.down_until = cluster.quota = 0.0
            for topic in cluster.topics.values():
                topic.forbidden = False
                for part in topic.partitions:
                    part.stale, part.has_leader = None, True
        while any(topic not in one.topics for one in self.clusters.values() for topic in TOPICS):
            runtime.sleep(1.0)

    def _begin(self, run):
        process, chance = Process(f"{run.name}.driver"), self.world.random
        if self.habits.away and self._hurts:
            cluster, topic = self.clusters[self.names[0]], chance.choice(TOPICS)
            for number in range(len(cluster.topics[topic].partitions)):
                cluster.lose_leader(topic, number, chance.choice((10.0, 25.0)))

        def work():
            self._run(run)
            process.dead = True  # and with it threads that it has not waited for

        self._may_hurt(run, process)
        return self.world.spawn(work, "driver", process), process

    def _may_hurt(self, run, process):
        """Arm a kill or a pause of the process, at some moment of its life."""
        run.machine.append(process)
        if not self._hurts:
            return
        world, chance = self.world, self.world.random
        if self._strikes:
            return self._strike_at_a_point(run, process)
        switches = int(2 ** (chance.random() * 10))
        if chance.random() < self._kill_share:
            process.struck_after, process.strike = switches, lambda: world.kill(process)
        elif chance.random() < self._pause_share:
            seconds = chance.choice((1.0, 7.0, 15.0, 45.0, 120.0))
            paused = run.machine if chance.random() < 0.3 else [process]
            process.struck_after = switches
            process.strike = lambda: [world.pause(each, seconds) for each in paused]

    def _strike_at_a_point(self, run, process):
        """Arm a kill of the process, a pause of it or of its machine, or of the one thread, between
        two requests. The first run is struck more often than those that take over from it."""
        world, chance = self.world, self.world.random
        is_driver, zombies = process is run.machine[0], ("pause", "stall")
        what = chance.choice((*zombies, "kill") if run.may_die else (*zombies, *zombies, ""))
        if ("kills" if what == "kill" else "pauses") in world.without:
            what = ""
        seconds = chance.choice((7.0, 15.0, 45.0, 90.0, 90.0))
        is_isolated, paused = chance.random() < 0.5, chance.choice(([process], run.machine))
        if chance.random() < run.risks[not is_driver]:
            words = _DRIVERS_WORDS if is_driver else _TASKS_WORDS
            process.struck_word = chance.choice(run.words or ("", *words))
            process.struck_at = (
                1 + (chance.random() < 0.5)
                if run.words
                else int(2 ** (chance.random() * (3 if process.struck_word else 6)))
            )

        def strike():
            run.is_struck = True
            for name, cluster in self.clusters.items() if is_isolated else ():
                if (ledger := cluster_of(name).ledger_topic("sim")) in cluster.topics:
                    self._cut_off(cluster, ledger, seconds)
                    process.cut_off_until = world.seconds + seconds + 20
            self._meanwhile(is_driver)
            if what == "kill":
                world.kill(process)
            elif what == "pause":
                for each in paused:
                    world.pause(each, seconds)
            elif what:
                world.has_paused = True
                world.tell(f"a thread of {process} stops for {seconds:.1f} s")
                world.sleep(seconds)

        process.strike = strike

    def _meanwhile(self, is_driver):
        """Let something else happen while a process is struck."""
        chance, cluster = self.world.random, self.clusters[self.names[0]]
        if self.habits.loses_ledger and is_driver and not self._lost_ledger:
            self._lose_ledger()
        if chance.random() < (0.7 if self.habits.remakes else 0.2):
            self._change_topic(cluster, chance.choice(TOPICS))

    def _cut_off(self, cluster, ledger, seconds):
        """Cut the ledger's leaders off from the other brokers: they are replaced, and answer on.
        Meanwhile answers may be lost."""
        for number in (0, 1):
            cluster.depose(ledger, number, seconds + 30)
        network = clients.Network
        if self.world.chance(0.3):
            network.lost_answers = 0.3

        def mend():
            network.lost_answers = self._lost_answers if self._hurts else 0.0

        self.world.at(seconds, mend)

    def _trouble(self):
        """Let something happen to the clusters and to the source."""
        chance = self.world.random
        for name, cluster in self.clusters.items():
            ledger = cluster.topics.get(cluster_of(name).ledger_topic("sim"))
            if "troubles" in self.world.without:
                continue
            if ledger and chance.random() < 0.2:
                cluster.depose(
                    cluster_of(name).ledger_topic("sim"),
                    chance.randint(0, 1),
                    chance.choice((3.0, 20.0, 100.0)),
                )
            if ledger and chance.random() < 0.2:
                for part in ledger.partitions:
                    part.compact(self.world)
            if chance.random() < 0.3:
                self._change_topic(cluster, chance.choice(TOPICS))
            if chance.random() < 0.1:
                cluster.down_until = self.world.seconds + chance.choice((1.0, 10.0, 40.0))
        if self.habits.grows and chance.random() < 0.5:
            path = chance.choice(sorted(self.source.files))
            self.source.grow(path, chance.randint(1, 20))
        if self.habits.rotates and chance.random() < 0.5:
            self._rotate()
        if self.habits.loses_ledger and not self._lost_ledger and chance.random() < 0.5:
            self._lose_ledger()
        if self.habits.objects and chance.random() < 0.7:
            self.source.overwrite(chance.choice(sorted(self.source.files)))
        are_over = all(run.machine[0].dead for run in self.runs)
        if self.habits.stores and chance.random() < 0.5:
            self._lose_stored(
                "2026" if are_over and chance.random() < 0.5 else "ledger.one/snapshot/"
            )
        if self.habits.moves and chance.random() < 0.5 and (are_over or not self._has_copies):
            self.source.move(f"file:///moved{next(self._numbers)}/")
            if are_over and chance.random() < 0.7:
                # What is a copy, and what was moved, nobody can tell if that is during a run.
                path, self._has_copies = chance.choice(sorted(self.source.files)), True
                self.source.copy(path, f"{path}.copy{next(self._numbers)}")
        if self.habits.headers or self.habits.skips:
            for path in [path for path in sorted(self._delivered) if chance.random() < 0.5]:
                self._delivered.remove(path)
                if self.habits.skips:
                    self.source.write(path, chance.randint(1, 30)).skipped = True
                else:
                    self.source.remove(path)
        if chance.random() < 0.3 or not self.source.files:
            self._write(f"{self.source.root}n{len(self.source.written)}.log")

    def _lose_ledger(self):
        cluster, topic = self.clusters["one"], cluster_of("one").ledger_topic("sim")
        if topic in cluster.topics:
            self._lost_ledger = True
            is_made_anew = self.world.chance(0.5)
            cluster.remake(topic, 1.0) if is_made_anew else cluster.delete(topic)

    def _rotate(self):
        while not self.habits.while_listed and any(not one.dead for one in self.source.listed_by):
            runtime.sleep(0.1)
        path = self.world.random.choice(sorted(self.source.files))
        if self.habits.packs and not path.endswith(".gz") and self.world.chance(0.5):
            return self.source.pack(path)
        root, number = self.source.root, next(self._numbers)
        name = path.removeprefix(root).partition(".")[0]
        # The new name is listed right behind the old one, or behind all others.
        to = f"{root}{name}.old{number}" if self.world.chance(0.5) else f"{root}z{number}.{name}"
        self.source.rename(path, to)
        if self.habits.copies and self.world.chance(0.5):
            self.source.copy(to, f"{to}.copy")
        if self.world.chance(0.5):
            self._write(path)
            # A file of one line is too short to be told from the one that was at its path.
            self.source.files[path].moved = self.source.files[path].lines < HEAD_LINES

    def _between_pages(self):
        if self._hurts and self.world.chance(0.5):
            self._rotate()

    def _run(self, run):
        there = set(self.source.files)
        try:
            run.code = (
                self._run_apart(run) if self._is_apart else self._run_steps(run, self._steps(run))
            )
            run.ended = True
        except Exception as error:
            if not self.world.over:
                self.world.failures.append((run.name, error))
            raise
        self._note_possible(run)
        self.world.tell(f"{run.name} ended with {run.code}")
        if run.code == 0:
            self._refuse_untrue_figures(run)
            self._delivered |= there & set(self.source.files)
            for name in run.config.shipped_to(self.names):
                if ship := self._result(run, name):
                    self._results.append((run, name, ship.started_at))

    @property
    def _is_apart(self):
        return self.habits.rotates and self._hurts

    def _run_steps(self, run, steps):
        """Run steps in a process, and return its exit code."""
        try:
            return run_module.run_steps(self._context(run), steps)
        except ShipperError as error:  # of the storage
            _tell(error)
            return error.exit_code

    def _run_apart(self, run):
        """Run each step by itself, as Airflow does: with time before it, and once more if it
        failed. A cluster whose step fails does not hold up the other."""
        chance, failed = self.world.random, dict[str, int]()
        for step in self._steps(run):
            cluster = step.partition(":")[2]
            if failed.keys() & {"", cluster}:
                continue
            if self.habits.unasked and step == "plan" and chance.random() < 0.5:
                away = self.clusters[chance.choice(self.names)]
                away.down_until = self.world.seconds + chance.choice((20.0, 60.0))
            if self.habits.changes and chance.random() < 0.1:  # each step reads the files anew
                run.config = self._changed().with_clusters_of(run.config)
            for _ in range(3):
                code = self._run_steps(run, [step])
                self._note_possible(run)
                if not code:
                    break
                runtime.sleep(chance.choice((1.0, 30.0)))
            if code:
                failed[cluster] = code
            runtime.sleep(chance.choice((0.0, 5.0, 30.0)))
        return next(iter(failed.values()), 0)

    def _note_possible(self, run):
        """Note how many records the ships of a run say that they may have doubled."""
        if not self.habits.changes:
            return
        for name in self.names:
            if found := self._result(run, name):
                key = run.name, name, found.started_at
                self._possible[key] = found.possible_duplicates

    def _steps(self, run):
        steps = ["plan", "gate_source"]
        for name in self._pipeline(run).clusters:
            steps += [f"ship:{name}", f"gate_delivery:{name}"]
        return steps

    def _context(self, run):
        pipeline, window = self._pipeline(run), run.window
        engine = FilesEngine(pipeline, self.source, run.name, partial(self._may_hurt, run))
        if self.habits.while_listed:
            engine.between_pages = self._between_pages
        return RunContext(
            pipeline=pipeline,
            clusters={name: cluster_of(name) for name in pipeline.clusters},
            config_dir=Path(),
            window=window,
            folder=RunFolder("memory://runs", "sim", window, run.name),
            engine=engine,  # type: ignore[arg-type]
            request=RunRequest(**run.options),
        )

    def _pipeline(self, run):
        ordering = "file" if self.habits.ordered else "none"
        of_run = run.tasks, run.lanes, tuple(self.names)
        root, config = self.source.root, run.config
        pipeline = pipeline_of(*of_run, self._on_replaced, ordering, root, config)
        return self._noted(pipeline, config)

    def _noted(self, pipeline, config):
        """Note with which settings the pipeline's transform came."""
        if self.habits.changes:
            self._configs[pipeline.transform_digest()] = config
        return pipeline

    def _compare(self):
        """Compare each topic with the truth. A file that was renamed or has grown may be missing if
        the last run left it out with a warning, and one that repeats the whole content of another
        one that is gone. No file may be doubled."""
        for run, name, began in self._results:
            if (ship := self._result(run, name)) and ship.started_at < began:
                raise Wrong(f"{name}: an earlier attempt's result took the place of {run.name}'s")
        wanted = Counter(self.source.truth())
        named = self._left_out()
        if self.habits.remakes:  # nobody can notice a loss where brokers did not tell a topic's id
            named += self.claimed("one", lambda chunk: chunk.topic_id is None)
        headers = [file for file in self.source.written if file.headed and file.lines == 1]
        named.update(file.line(0) for file in headers[1:])
        named.update(line for file in self.source.written if file.gone for line in file.all_lines())
        copies = 1 + self.source.is_misread + self._lost_ledger
        most = Counter({line: count * copies for line, count in wanted.items()})
        for name, cluster in self.clusters.items():
            self._refuse_doubled(most + self._asked_again(name), [name])
            found = self._found(name)
            if self.habits.reships and (claimed := self.claimed(name)) != wanted:
                raise Wrong(f"{name}: doubled in the ledger {shown(claimed - wanted)}")
            if self.habits.ordered:
                self._refuse_disorder(name)
            if behind := wanted - found - named:
                raise Wrong(f"{name}: missing {shown(behind)}")
            configs = self._configs.values() or [UNCHANGED]
            for topic in TOPICS:
                if wrong := [
                    line
                    for line in cluster.values(topic)
                    if all(config.topic_of(line) != topic for config in configs)
                ]:
                    raise Wrong(f"{name}: {topic} holds {wrong[0]!r}")

    def _result(self, run, name):
        step = f"ship.{run.config.cluster_name(name)}"
        return self._kept(run, step, ShipResult)

    def _kept(self, run, step, kind):
        """Return a step's result, whatever the storage does; None if there is none."""
        fails, self.world.store_fails = self.world.store_fails, 0.0
        try:
            return self._context(run).folder.find(step, kind)
        finally:
            self.world.store_fails = fails

    def _found(self, name):
        return Counter(line for topic in TOPICS for line in self.clusters[name].values(topic))

    def _sent_plainly(self, name):
        """Return the lines that were sent without a transaction: faults may double these."""
        if self._is_calm or not self.habits.changes:
            return Counter()
        topics = self.clusters[name].topics
        return Counter(
            one.value or b""
            for topic in TOPICS
            for part in topics[topic].partitions
            for one in part.records
            if one.is_plain
        )

    def _refuse_doubled(self, most, names=()):
        for name in names or self.names:
            twice = self._found(name) - most
            if doubled := twice - self._sent_plainly(name):
                raise Wrong(f"{name}: doubled {shown(doubled)}")
            said = sum(n for (_, on, _), n in self._possible.items() if on == name)
            if self._tells_all and twice.total() > said:
                raise Wrong(
                    f"{name}: {said} lines may be there twice, as ships say: {shown(twice)}"
                )

    @property
    def _tells_all(self):
        """True if the ships' results name all that may be there twice: each run left its own, and
        none of them woke up later."""
        names = [run.name for run in self.runs]
        are_told = len({*names}) == len(names) and all(run.ended for run in self.runs)
        return self.habits.changes and are_told and not self.world.has_paused

    def _refuse_untrue_figures(self, run):
        """Raise Wrong if the results of a run that succeeded say other than the ledger what the run
        has sent. What a later run takes back or sends again counts there alone."""
        habits = self.habits
        if habits.reships or habits.archives or habits.objects or habits.remakes:
            return
        if self._lost_ledger:  # perhaps behind the ship
            return
        for name in run.config.shipped_to(self.names):
            if cluster_of(name).ledger_topic("sim") not in self.clusters[name].topics:
                continue
            ship = self._result(run, name)
            if ship is None or ship.status == "failed":
                continue  # it is lost, or another attempt began later, and its result counts
            sent = Counter[str]()
            for _, of, chunk in self._chunks(name):
                if chunk.generation in ship.generations:
                    sent[of.topic] += chunk.records
            said = Counter({one.topic: one.delivered for one in ship.topics if one.delivered})
            came = Counter({topic: count for topic, count in sent.items() if topic})
            # Nobody fences a run at least once: a later one takes the place of its chunks.
            is_fenced = self._is_calm or ship.guarantee == "exactly_once"
            if came - said or (is_fenced and said - came):
                raise Wrong(f"{name}: {run.name} says that it sent {said}, the ledger {came}")

    def _refuse_disorder(self, name):
        """Raise Wrong if a partition has lines of a file in another order than the file."""
        for topic in TOPICS:
            for part in self.clusters[name].topics[topic].partitions:
                last = {}
                for one in part.ended():
                    if one.is_plain and not self._is_calm:
                        continue
                    _, file, _, line = (one.value or b"").rstrip(b".").decode().split()
                    if int(line) < last.get(file, -1):
                        raise Wrong(f"{name}: {topic} has line {line} of file {file} too late")
                    last[file] = int(line)

    def _invalidations(self, name):
        """Return file → the generations below which its chunks do not count."""
        ledger = self.clusters[name].topics[cluster_of(name).ledger_topic("sim")]
        found = dict[FileId, set[int]]()
        for _, entry in decode_sound("sim", CONTROL, _records(ledger, CONTROL), {}):
            match entry:
                case (InvalidationKey(file, generation), Invalidation()):
                    found.setdefault(file, set()).add(generation)
        return found

    def _asked_again(self, name):
        """Return the lines of files that were to be sent again, each as often as they were."""
        if not (self.habits.reships or self.habits.archives):
            return Counter()
        of_path = dict[str, set[int]]()
        for file, generations in self._invalidations(name).items():
            of_path.setdefault(file.path, set()).update(generations)
        lines = Counter[bytes]()
        for path, generations in of_path.items():
            for line in self.source.files[path].all_lines():
                lines[line] += len(generations)
        return lines

    def claimed(
        self, name: str, counts: Callable[[ChunkValue], object] = lambda chunk: True
    ) -> Counter[bytes]:
        """Return the lines that a cluster's ledger says are in its topics; only of some chunks."""
        return Counter(
            line
            for split, of, chunk in self._chunks(name)
            if of.topic and counts(chunk)
            for run in covered(of.first, chunk)
            for line in self.source.files[split.file.path].lines_of(split.start, *run)
            if self._configs.get(chunk.digest, UNCHANGED).topic_of(line) == of.topic
        )

    def _chunks(self, name):
        """Yield what a cluster's ledger says, without what was taken back."""
        ledger = self.clusters[name].topics[cluster_of(name).ledger_topic("sim")]
        over = {
            file: Invalidated(max(generations), frozenset())
            for file, generations in self._invalidations(name).items()
        }
        chunks = Chunks("sim", over).feed(_records(ledger, CHUNKS))
        for split, state in chunks.splits.items():
            for of, chunk in state.chunks.items():
                yield split, of, chunk

    def _left_out(self):
        """Return the lines of files that the last run named as left out, and may."""
        folder = self._context(self.last).folder
        plan = folder.need("plan", PlanResult)
        paths = {one.path for one in plan.left_out if one.warns}
        return Counter(
            file.line(index)
            for path, file in self.source.files.items()
            if path in paths and file.moved
            for index in range(file.lines)
        )


def _move_ledger(before, now):
    """Move the folder of a cluster's ledger, as docs/how-to/rename.md says."""
    old, store = f"/runs/sim/ledger.{before}/", MemoryFileSystem.store
    for path in [path for path in store if now != before and path.startswith(old)]:
        store[f"/runs/sim/ledger.{now}/{path.removeprefix(old)}"] = store.pop(path)


def _records(ledger, partition):
    return [
        LogRecord(one.offset, one.timestamp_ms, one.key or b"", one.value)
        for one in ledger.partitions[partition].ended()
    ]


def shown(lines: Counter[bytes]) -> str:
    first = ", ".join(line.rstrip(b".").decode() for line in sorted(lines)[:3])
    return f"{sum(lines.values())} lines: {first} …"


def _tell(text):
    if not World.current.over:
        World.current.tell(f"says: {text}")


def _stored(name):
    """Return a storage's method that passes a point of the world, and may fail there: the request
    is lost, or its answer."""
    method = getattr(MemoryFileSystem, name)

    @functools.wraps(method)
    def ask(*given, **more):
        world = World.current
        if world.over or world.process.name == "world":
            return method(*given, **more)
        if name == "pipe_file":
            world.pass_point("store")
        if world.chance(world.store_fails):
            if world.chance(0.5):
                method(*given, **more)
            raise OSError(errno.EIO, f"the storage fails: {name} {given[-1]}")
        return method(*given, **more)

    return ask


@functools.lru_cache(4096)
def _read_once(kind, value):
    """Parse a value of the ledger; a history reads each of them some ten times."""
    return _READ(kind, value)


def play(world: World, habits: Habits | None = None):
    """Play the world's seed. Raises Wrong, Stuck, or whatever the product let through."""
    play_history(world, lambda: History(world, habits or Habits()))


def play_history(world: World, history: Callable[[], History]):
    """Play a history in the world."""
    MemoryFileSystem.store.clear()
    MemoryFileSystem.pseudo_dirs[:] = [""]  # no seed sees the folders of another
    window_records._file.cache_clear()
    places = [
        *clients.places(),
        *((MemoryFileSystem, name, _stored(name)) for name in _STORED),
        (task, "LanePool", BoundedPool),
        (codec._Kind, "read", lambda kind, value: _read_once(kind, value)),
        *((module, "say", _tell) for module in (plan_step, ledger_progress, run_module, ship_step)),
    ]
    # A line is as long as a real head.
    places += [(module, "HEAD_BYTES", HEAD_LINES * LINE_BYTES) for module in (decide, looking)]
    with installed(more=places):
        world.run(lambda: history().play(), _MOST_SECONDS)
        if world.failures:
            name, error = world.failures[0]
            raise Wrong(f"thread {name} died: {type(error).__name__}: {error}") from error
