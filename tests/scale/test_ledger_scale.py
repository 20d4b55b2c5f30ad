"""What reading the ledger costs with 10,000 and with 1,000,000 entries in it. `make scale` prints
the table; some minutes.

A window is 100 files of 10 chunks. Two layouts: `by hour` keeps a window's files together (a folder
for each hour), `by host` scatters them over the whole history (a folder for each host), which is
the worst that sorting by path can meet.
"""

import statistics
import subprocess
import time
from itertools import chain

import pytest
from shipper_tools.bench.scale import CHUNKS_OF_A_FILE, chunks_of

from shipper.kafka.client import ClusterClient
from shipper.ledger.log import LedgerLog, ask_state
from shipper.ledger.records import CHUNKS
from shipper.ledger.snapshot import LedgerFolder
from tests.integration.conftest import kafka  # noqa: F401
from tests.integration.world import WINDOW, World

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(3600)]

FILES = 100
PER_WINDOW = FILES * CHUNKS_OF_A_FILE
FEW, MANY = 10_000, 1_000_000
LAYOUTS = {
    "by hour": "s3a://logs/web/{day:03}/{hour:02}/host-{host:03}.log.gz",
    "by host": "s3a://logs/web/host-{host:03}/{day:03}-{hour:02}.log.gz",
}


class History:
    """A pipeline with ``entries`` in its ledger, all but the last window in a snapshot."""

    def __init__(self, root, bootstrap, layout, entries):
        self.world = World(root, bootstrap)
        self.layout = LAYOUTS[layout]
        self.folder = LedgerFolder(str(self.world.root / "runs"), self.world.name, "local")
        self.opened().create()
        self.windows = entries // PER_WINDOW
        for window in range(self.windows - 1):
            self.ship(window)
        self.built_seconds = seconds(lambda: self.opened().keep_snapshot(longer_than=0))
        self.ship(self.windows - 1)

    def opened(self, *, snapshot=True):
        """As a process that has just started: nothing connected, nothing cached."""
        client = ClusterClient(self.world.cluster)
        return LedgerLog(
            client, self.world.cluster, self.world.name, self.folder if snapshot else None
        )

    def paths(self, window):
        return [
            self.layout.format(day=window // 24, hour=window % 24, host=host)
            for host in range(FILES)
        ]

    def ship(self, window):
        records = chain.from_iterable(
            chunks_of(self.world.name, path) for path in self.paths(window)
        )
        self.opened_writer()._append(CHUNKS, records)

    def opened_writer(self):
        if not hasattr(self, "_writer"):
            self._writer = self.opened()
        return self._writer

    def read(self, window, *, snapshot=True, wait_seconds=None):
        state = self.opened(snapshot=snapshot).look(ask_state(self.paths(window)), wait_seconds)
        assert sum(split.records for split in state.chunks.splits.values()) == PER_WINDOW * 60_000
        assert all(split.complete for split in state.chunks.splits.values())

    def plan(self):
        done = self.world.shipper("plan", self.world.name, "--window", WINDOW, "--json")
        assert done.returncode == 0, done.stderr


def seconds(call):
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def median(rounds, call):
    return statistics.median(seconds(call) for _ in range(rounds))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_planning_with_a_million_entries_costs_less_than_twice_as_much_as_with_ten_thousand(
    layout,
    tmp_path,
    kafka,  # noqa: F811
    capsys,
):
    few = History(tmp_path / "few", kafka.bootstrap, layout, FEW)
    many = History(tmp_path / "many", kafka.bootstrap, layout, MANY)
    rows = []

    def compare(what, rounds, measure):
        # Alternating, so that whatever else the machine does meets both.
        pairs = [
            (seconds(lambda: measure(few)), seconds(lambda: measure(many))) for _ in range(rounds)
        ]
        costs = [statistics.median(side) for side in zip(*pairs, strict=True)]
        rows.append((what, *costs))
        return costs[1] / costs[0]

    ratio = compare(
        "read a window in the snapshot", 9, lambda history: history.read(history.windows // 2)
    )
    compare(
        "read the latest window (in the tail)", 9, lambda history: history.read(history.windows - 1)
    )
    compare(
        "the same when taking over",
        9,
        lambda history: history.read(history.windows // 2, wait_seconds=30.0),
    )
    for history in (few, many):
        for file in range(FILES):
            history.world.write_log(f"{file}.log", b"a line\n")
    of_plan = compare("shipper plan, 100 files", 3, History.plan)
    compare(
        "without a snapshot", 1, lambda history: history.read(history.windows // 2, snapshot=False)
    )
    rows.append(("make the first snapshot", few.built_seconds, many.built_seconds))
    compare(
        "add a window to the snapshot",
        1,
        lambda history: history.opened().keep_snapshot(longer_than=0),
    )
    sizes = [
        subprocess.run(
            ["du", "-sm", history.folder.uri], capture_output=True, text=True
        ).stdout.split()[0]
        for history in (few, many)
    ]
    with capsys.disabled():
        print(f"\n{layout:36}  {FEW:>10,}  {MANY:>10,}   ratio")
        for what, a, b in rows:
            print(f"{what:36} {a:10.3f}s {b:10.3f}s {b / a:7.2f}")
        print(f"{'snapshot, MB (two kept)':36}  {sizes[0]:>10}  {sizes[1]:>10}")
    assert ratio < 2
    assert of_plan < 2
