"""Histories of lanes, ledger and takeover alone: what a ship does from its lease to its receipts,
without plan, gates and results. So small that two cores play ten thousand of them in a minute."""

from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from functools import partial

from shipper.driver.engine import Scan
from shipper.driver.files import split_hash, split_starts
from shipper.errors import ShipperError
from shipper.kafka.client import ClusterClient
from shipper.ledger.fold import SplitState
from shipper.ledger.lease import HeldLease
from shipper.ledger.log import SETTINGS, LedgerLog, ask_committed, ask_state
from shipper.ledger.records import CHUNKS, PARTITIONS, Generation
from shipper.ledger.takeover import take_over
from shipper.ledger.writing import lane_settings, patience_of
from shipper.report.plan_result import PlannedFile
from shipper.types import SplitId
from shipper.worker.order import LaneOptions, OrderedSplit, ShipOrder
from shipper.worker.tuning import Tuning
from tests.sim import ships
from tests.sim.engine import FilesEngine
from tests.sim.ships import Wrong, shown
from tests.sim.source import ROOT, SPLIT_BYTES
from tests.sim.world import World

_BATCH_BYTES, _CHUNK_BYTES = 20_000, 12_000


class LaneHistory(ships.History):
    """One seed: a cluster, one file, and ships that interleave."""

    def _set_up(self):
        self._strikes = self.habits.strikes  # of `takeovers` alone: they take their time
        super()._set_up()
        self._no_leases = self.world.chance(0.5)
        self._has_last = self.world.chance(0.25)
        self.source.files.clear()
        self.source.written.clear()
        lines = (4, 20) if self.habits.strikes else (1, 8)
        self.source.write(f"{ROOT}f.log", self.world.random.randint(*lines))
        self.clusters["one"].create(self._ledger_topic, PARTITIONS, SETTINGS)

    @property
    def _counts_of_runs(self):
        return (2, 4) if self.habits.strikes else (1, 2)

    @property
    def _ledger_topic(self):
        return ships.cluster_of("one").ledger_topic("sim")

    def _run_last(self, new):
        """Let most histories end where a run would take over: what it rests on is compared."""
        if self._has_last:
            super()._run_last(new)

    def _run(self, run):
        files = [replace(file) for file in self.source.files.values()]
        try:
            self._ship(run)
            run.code = 0
            self._refuse_missing({line for file in files for line in file.all_lines()})
        except ShipperError as error:
            self.world.tell(f"{run.name}: {error.message}")
            run.code = 1

    def _ship(self, run):
        """Ship the file: lease, takeover, tasks, and what the ledger holds then."""
        cluster = ships.cluster_of("one")
        pipeline = ships.pipeline_of(2, 2, ("one",))
        ledger = LedgerLog(ClusterClient(cluster), cluster, "sim", patience=patience_of(pipeline))
        settings = lane_settings(cluster, pipeline, _BATCH_BYTES)
        files = [  # as a plan lists them: what comes later is a later run's
            PlannedFile(
                path=path, uri=path, size_bytes=file.size_bytes,
                modified_ms=file.modified_ms, splits=1, format="plain",
            )
            for path, file in self.source.files.items()
        ]  # fmt: skip
        held = HeldLease(ledger, run.name, 5, 40, self.world.tell)
        # Safety rests on fencing alone: some histories go without leases, as the model does.
        with nullcontext() if self._no_leases and self._hurts else held as lease:
            taken = take_over(
                ledger, settings, Generation(run.name, run.tasks, run.lanes),
                ask_state([file.path for file in files]), lease=lease,
            )  # fmt: skip
            if lease:
                lease.generation = taken.generation
            splits = {}
            for file in files:
                starts = split_starts(file.path, file.size_bytes, SPLIT_BYTES)
                for start in starts:
                    split = SplitId(file.id, start)
                    state = taken.chunks.splits.get(split, SplitState())
                    splits[split_hash(file.uri, file.id, start)] = OrderedSplit(
                        split, there={topic: state.intervals(topic) for topic in state.topics},
                        counts_bytes=True, end_known=state.end is not None, of=len(starts),
                    )  # fmt: skip
            order = ShipOrder(
                pipeline="sim", cluster="one", run_id=run.name, window="w", digest="d",
                generation=taken.generation, chunks_end=taken.chunks_end,
                lane_options=LaneOptions(settings, self._ledger_topic, CHUNKS, 30.0),
                limits={}, tuning=Tuning(run.lanes, settings.batch_size_bytes, _CHUNK_BYTES),
                topics=ships.TOPICS, splits=splits, tasks=run.tasks,
            )  # fmt: skip
            engine = FilesEngine(pipeline, self.source, run.name, partial(self._may_hurt, run))
            scan = Scan()
            try:
                engine.job(order, cluster, files, long_lines=False).run(scan)
            except RuntimeError as lost:
                raise ShipperError(str(lost)) from lost
            for receipt in scan.receipts:
                if receipt.error_kind == "RecordUnshippable":
                    raise Wrong(f"a record that fits is called too large: {receipt.error}")
                if receipt.error:
                    raise ShipperError(receipt.error)
            if scan.unsent:
                raise ShipperError("another pass would send what was not parked")
            ledger.decide(ask_committed(taken.chunks_end))

    def _compare(self):
        """Refuse doubled lines, and a ledger that says other than the topics."""
        claimed = self.claimed("one")
        if claimed != (found := self._found()):
            raise Wrong(
                f"doubled or unknown to the ledger {shown(found - claimed)}; claimed by it, and"
                f" missing {shown(claimed - found)}"
            )
        if self._has_last:
            self._refuse_missing(set(self.source.truth()))

    def _found(self, name="one"):
        topics = self.clusters[name].topics
        return Counter(
            one.value or b""
            for topic in ships.TOPICS
            for part in topics[topic].partitions
            for one in part.ended()
        )

    def _refuse_missing(self, lines):
        if missing := lines - self._found().keys():
            raise Wrong(f"a run succeeded, and {shown(Counter(missing))} are missing")


def play(world: World, habits: ships.Habits | None = None):
    """Play the world's seed. Raises as :func:`tests.sim.ships.play` does."""
    ships.play_history(world, lambda: LaneHistory(world, habits or ships.Habits()))
