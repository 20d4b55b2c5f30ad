"""Histories of a schedule: windows of five minutes, by the time at which a file was last modified.
Each window has a run, which looks back. People run windows again, or files by name.

Before the last run, ``gaps`` may be silent about no file that is missing. The last run goes over
all windows, and has no faults. Then nothing is missing, and no gap is left.
"""

import datetime as dt
from collections import Counter
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial

from shipper import runtime
from shipper.cli.open_ledger import OpenLedger
from shipper.cli.topic_state import PresentEntries
from shipper.errors import ClusterError, ShipperError
from shipper.kafka.client import ClusterClient
from shipper.ledger.archive import archive
from shipper.ledger.inventory import Inventory
from shipper.ledger.log import LedgerLog
from shipper.ledger.snapshot import LedgerFolder
from shipper.ledger.writing import patience_of
from shipper.report.closed_gates import ClosedGatesFolder
from shipper.report.incomplete import beginnings_of, find_gaps, read_schedule
from shipper.report.results import RunReport
from shipper.report.window_records import read_records
from shipper.windows.ticks import Ticks
from shipper.windows.window import Window
from tests.sim import ships
from tests.sim.config import first_name
from tests.sim.ships import Run, Wrong
from tests.sim.world import EPOCH, Process, World

_TICK_SECONDS = 300
_UNFINISHED = ".tmp"
_RUNS_URI = "memory://runs"


def _tick(number, count=1):
    start = ships.START + dt.timedelta(seconds=number * _TICK_SECONDS)
    return Window(start, start + dt.timedelta(seconds=count * _TICK_SECONDS))


class ScheduleHistory(ships.History):
    """One seed: clusters, a source, and the runs of some windows."""

    def __init__(self, world: World, habits: ships.Habits):
        super().__init__(world, habits)
        self._is_scheduled = True
        self._ticks = world.random.randint(2, 4)
        self._ids = iter(range(1_000))
        self._reports = world.chance(0.3)

    def play(self):
        self._set_up()
        chance = self.world.random
        begun = []
        fails, self.world.store_fails = self.world.store_fails, 0.0
        for tick in range(self._ticks):
            for _ in range(chance.randint(0, 3)):
                runtime.sleep(chance.random() * 90)
                self._trouble()
            self._sleep_until((tick + 1) * _TICK_SECONDS + 1)
            for _ in range(chance.choice((1, 1, 2))):  # Airflow tries the task of a lost process
                with self._cluster_away() if self.habits.names else nullcontext():
                    begun.append(self._begin(self._run_of(_tick(tick), scheduled=True)))
                    self._wait_for(begun)
                if not begun[-1][1].dead:
                    break
            self.world.store_fails = fails  # the first run says since when there is a schedule
            begun += self._by_hand(tick)
            if self.habits.names:
                self._wait_for(begun)
                self._finish_files(0.3)
                with suppress(ClusterError):  # then `gaps` says that it could not ask
                    self._refuse_silence()
        self._wait_for(begun)
        self._finish()

    def _finish(self):
        """Let a run over all windows finish, and compare."""
        ticks = int(self.world.seconds // _TICK_SECONDS) + 1
        self._sleep_until(ticks * _TICK_SECONDS)
        self._finish_files(1.0)
        self._heal()
        self._refuse_silence()
        self._config = replace(self._config, without="", settle="0s")
        self._run_last(lambda: self._run_of(_tick(0, ticks)))
        for name in self.names:
            folder = ClosedGatesFolder(_RUNS_URI, "sim", self._config.cluster_name(name))
            for window in folder.windows():  # only a run over the same window opens its gate
                self._run_last(partial(self._run_of, window))
        self._compare()
        if not self._left_out() and (gaps := self._gaps()):
            raise Wrong(f"nothing is missing, and gaps has {gaps[0]}")

    def _sleep_until(self, seconds):
        runtime.sleep(max(0.0, seconds - self.world.seconds))

    def _run_of(self, window, **options):
        chance, now = (
            self.world.random,
            dt.datetime.fromtimestamp(EPOCH + self.world.seconds, dt.UTC),
        )
        name = f"{now:%Y%m%dT%H%M%S}-{next(self._ids):06}"
        run = Run(name, chance.randint(1, 2), chance.randint(1, 2), window=window, options=options)
        run.config = self._changed() if self._hurts else self._config
        self.runs.append(run)
        return run

    def _by_hand(self, tick):
        """Begin what people ask for after a tick."""
        chance, begun = self.world.random, []
        if chance.random() < 0.2:
            first = chance.randint(0, tick)
            begun.append(self._begin(self._run_of(_tick(first, tick + 1 - first))))
        if chance.random() < 0.2:
            begun.append(self._begin_to_archive(tick))
        finished = [path for path in self.source.files if not path.endswith(_UNFINISHED)]
        if self.habits.names:
            path = chance.choice(sorted(finished))
            seconds = self.source.files[path].modified_ms / 1000 - EPOCH
            window = _tick(int(seconds // _TICK_SECONDS))
            for _ in range(chance.randint(1, 3)):
                with self._cluster_away():
                    begun.append(self._begin(self._run_of(window, files=(path,))))
                    self._wait_for(begun)
        return begun

    @contextmanager
    def _cluster_away(self):
        """Let a cluster be away now and then while the block runs, perhaps behind the plan."""
        chance, away = self.world.random, self.clusters[self.world.random.choice(self.names)]

        over = False

        def leave():
            if not over:
                away.down_until = self.world.seconds + 2_000

        if chance.random() < 0.5:
            self.world.at(chance.choice((0.0, 2.0, 2.0)), leave)
        yield
        over = True
        away.down_until = 0.0

    def _trouble(self):
        """Let a file also be written under another name at first, which no run takes."""
        super()._trouble()
        if self.habits.names:
            self._finish_files(0.4)
            path = f"{ships.ROOT}t{len(self.source.written)}.log{_UNFINISHED}"
            self.source.write(path, self.world.random.randint(1, 9))

    def _finish_files(self, share):
        for path in [path for path in self.source.files if path.endswith(_UNFINISHED)]:
            if self.world.chance(share):
                self.source.rename(path, path.removesuffix(_UNFINISHED))
                self.source.files[path.removesuffix(_UNFINISHED)].moved = False

    def _begin_to_archive(self, tick):
        """Begin to archive the windows before a tick, on one cluster."""
        name, process = self.world.random.choice(self.names), Process("archive")

        def tell(text):
            self.world.tell(text)
            for _ in range(2):
                self.world.pass_point("told")  # it has read, and written nothing to the topic yet

        def work():
            opened = self._open(name)
            try:
                if opened.log.exists():
                    archive(
                        opened.log, opened.pipeline, _tick(tick).start,
                        f"archive-{next(self._ids)}", tell,
                    )  # fmt: skip
            except (ShipperError, OSError) as error:
                self.world.tell(f"archive: {error}")

        run = Run("archive", risks=(0.9, 0.0), words=("told", "told", "archive", "commit"))
        self._may_hurt(run, process)
        begun = self.world.spawn(work, "archive", process), process
        self._archives.append(begun)
        if self.habits.strikes:
            self._wait_for_strike(run, *begun)
        return begun

    def _open(self, name):
        """Open a cluster's ledger, as commands that look at ledgers do."""
        pipeline = self._pipeline(Run("any", config=self._config))
        name = self._config.cluster_name(name)
        cluster = ships.cluster_of(name)
        client, folder = ClusterClient(cluster), LedgerFolder(_RUNS_URI, pipeline.key, name)
        log = LedgerLog(client, cluster, pipeline.key, folder, patience=patience_of(pipeline))
        log.lies_at(None, pipeline.source.formerly)
        return OpenLedger(pipeline, cluster, client, log)

    @property
    def _is_apart(self):
        return self._hurts

    def _pipeline(self, run):
        of_run = run.tasks, run.lanes, tuple(self.names)
        pipeline = ships.pipeline_of(*of_run, self._on_replaced, config=run.config, scheduled=True)
        return self._noted(pipeline, run.config)

    def _inventory(self, name):
        opened, found = self._open(first_name(name)), Inventory()
        if not opened.log.exists():
            return None
        for of_path in PresentEntries(opened).of(opened.read()):
            found.add(of_path, "sim")
        return found

    def _gaps(self):
        """Return the windows that ``shipper gaps`` names."""
        pipeline = self._pipeline(Run("any", config=self._config))
        since = beginnings_of(_RUNS_URI, pipeline)
        assert pipeline.schedule is not None
        windows = list(Ticks(pipeline.schedule).windows(ships.START, runtime.now()))
        windows = [window for window in windows if window.end <= runtime.now()]
        records = read_records(_RUNS_URI, "sim", ships.START)
        return find_gaps(windows, records, since, self._inventory)

    def _refuse_silence(self):
        """Raise Wrong if a file is missing, and no gap is named in its window."""
        began = read_schedule(_RUNS_URI, "sim").first_window
        asked = self.world.seconds  # a window that ends while the ledger is read is not named
        gaps = {(gap.cluster, gap.window) for gap in self._gaps()}
        for called, cluster in self.clusters.items():
            name = self._config.cluster_name(called)
            if called == self._config.without or name not in began:
                continue  # no run of the schedule came far enough to say since when it is
            there = Counter(line for topic in ships.TOPICS for line in cluster.values(topic))
            for path, file in self.source.files.items():
                if path.endswith(_UNFINISHED):
                    continue
                tick = int((file.modified_ms / 1000 - EPOCH) // _TICK_SECONDS)
                if tick >= asked // _TICK_SECONDS:
                    continue  # its window has not closed
                window = _tick(tick)
                if window.start < began[name] and (
                    self.habits.changes or not self._has_ended_before(began[name])
                ):
                    continue  # nobody asked for it there, or who did was killed before it wrote
                missing = [i for i in range(file.lines) if not there[file.line(i)]]
                if missing and (name, str(window)) not in gaps:
                    lacks = f"{name}: {path} lacks {len(missing)} lines"
                    raise Wrong(f"{lacks}, and gaps says nothing of {window}")

    def _has_ended_before(self, at):
        """True if a scheduled run over an earlier window came to its end."""
        scheduled = (run for run in self.runs if run.options.get("scheduled"))
        return any(run.ended and run.window.start < at for run in scheduled)

    def _run(self, run):
        super()._run(run)
        report = self._kept(run, "report", RunReport)
        if report is None or run.ended is False or not self._reports:
            return
        if self.habits.stores and run.code:
            return  # what was written of the report may be an earlier attempt's
        if (report.status == "succeeded") != (run.code == 0):
            raise Wrong(f"{run.name} ended with {run.code}, and its report says {report.status}")
        for name, until in report.fresh_until.items():
            found, end = self._found(first_name(name)), until.timestamp()
            start = end - _TICK_SECONDS  # earlier windows may lack something
            for path, file in self.source.files.items():
                is_due = start <= file.modified_ms / 1000 < end and EPOCH + file.since < end
                if (
                    is_due
                    and not path.endswith(_UNFINISHED)
                    and any(not found[line] for line in file.all_lines())
                ):
                    raise Wrong(f"{name} is said to be fresh until {until}, and lacks {path}")

    def _steps(self, run):
        return [*super()._steps(run), *(["report"] * self._reports)]


class ArchiveHistory(ScheduleHistory):
    """Two windows that were shipped. Then they are archived, and sent again, by runs that stop."""

    def play(self):
        self._set_up()
        self.source.files.clear()
        self.source.written.clear()
        chance, begun = self.world.random, []
        self._hurts = False
        for tick in range(2):
            self._write(f"{ships.ROOT}w{tick}.log")
            self._sleep_until((tick + 1) * _TICK_SECONDS + 1)
            self._wait_for([self._begin(self._run_of(_tick(tick), scheduled=True))])
        self._hurts = True
        tick = chance.randint(0, 1)
        for what in ("archive", "reship", "archive", "reship", "archive"):
            if chance.random() < 0.2:
                continue
            if what == "archive":
                begun.append(self._begin_to_archive(chance.choice((tick + 1, 2))))
            else:
                again = self._run_of(_tick(tick), reship=True, reship_reason="asked for")
                again.risks = chance.choice(((0.0, 0.0), (0.2, 0.8)))
                again.may_die = chance.random() < 0.5
                begun.append(self._begin(again))
                self._wait_for_strike(again, *begun[-1])
            runtime.sleep(chance.choice((0.0, 1.0, 10.0, 60.0)))
        self._wait_for(begun)
        self._finish()


def play(world: World, habits: ships.Habits | None = None):
    """Play the world's seed. Raises as :func:`tests.sim.ships.play` does."""
    chosen = replace(habits or ships.Habits(), repeats=False)
    kind = ArchiveHistory if chosen.archives else ScheduleHistory
    ships.play_history(world, lambda: kind(world, chosen))
