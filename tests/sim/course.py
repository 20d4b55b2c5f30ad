"""A scripted course: what a test does to a source, one run after the other, without any fault.

The steps, the ledger, lanes and decisions are the product's own, as in every history of the
simulated world. What Spark, the JVM's reader and a broker make of it is asked in tests/integration.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from shipper import runtime
from shipper.report.plan_result import PlanResult
from shipper.report.results import ShipResult
from shipper.report.run_folder import RunFolder
from tests.sim import ships
from tests.sim.ships import ROOT, TOPICS, Habits, History, Run
from tests.sim.world import FAULTS, World


class Outcome:
    """What a run of the course left."""

    def __init__(self, code: int, folder: RunFolder, ships: list[ShipResult]):
        self.code, self._folder, self.ships = code, folder, ships
        self.sent = sum(each.delivered for each in ships)
        """Records that the run delivered."""

    @property
    def plan(self) -> PlanResult:
        return self._folder.need("plan", PlanResult)

    @property
    def recognised(self) -> list[tuple[str, str, bool]]:
        """(former name, name, whether all of it was delivered before)"""
        return sorted(
            (name_of(one.original.path), name_of(one.path), one.complete)
            for cluster in self.plan.clusters
            for one in cluster.recognised
        )

    @property
    def left_out(self) -> list[str]:
        """Names of the files that it left out with a warning."""
        return sorted(name_of(one.path) for one in self.plan.left_out if one.warns)


class Course(History):
    """A source of one folder and a cluster. Names of files are given without the folder. A file of
    ``HEAD_LINES`` lines or more has a head; the first line of one with ``headed`` is a header that
    all such files share."""

    def __init__(self, world: World, story: Story, settings: Mapping[str, Any]):
        super().__init__(world, Habits(repeats=False))
        self.settings = dict(settings)
        """Settings of `source` beside those of every history."""
        self._story = story
        self._ids = iter(range(1_000))

    def play(self):
        self._set_up()
        for path in list(self.source.files):
            self.source.remove(path)
        self.source.written.clear()
        self._heal()
        self._story(self)

    def write(self, name: str, lines: int, *, headed: bool = False):
        self.source.write(ROOT + name, lines, headed=headed)

    def rename(self, name: str, to: str):
        self.source.rename(ROOT + name, ROOT + to)

    def copy(self, name: str, to: str):
        self.source.copy(ROOT + name, ROOT + to)

    def grow(self, name: str, lines: int):
        runtime.sleep(1.0)
        self.source.grow(ROOT + name, lines)

    def pack(self, name: str):
        self.source.pack(ROOT + name)

    def remove(self, name: str):
        self.source.remove(ROOT + name)

    def run(self, run_id: str = "", *steps: str, **options: Any) -> Outcome:
        """Run the steps, or all of them; ``options`` are the request's."""
        run = Run(run_id or f"run{next(self._ids)}", options=options)
        only = list(steps) or self._steps(run)
        run.code = ships.run_module.run_steps(self._context(run), only)
        folder = self._context(run).folder
        ended = (folder.find(f"ship.{name}", ShipResult) for name in self.names)
        return Outcome(run.code, folder, [one for one in ended if one])

    def found(self) -> Counter[str]:
        """The lines in the topics: ``file NUMBER line INDEX``."""
        (cluster,) = self.clusters.values()
        lines = [line for topic in TOPICS for line in cluster.values(topic)]
        return Counter(line.rstrip(b".").decode() for line in lines)

    def _pipeline(self, run):
        made = super()._pipeline(run)
        return made.model_copy(update={"source": made.source.model_copy(update=self.settings)})


Story = Callable[[Course], None]


def course(**settings: Any) -> Callable[[Story], Callable[[], None]]:
    """Make a test of what ``story`` does in a simulated world; ``settings`` are of `source`."""

    def of(story):
        def test():
            world = World(1, without=FAULTS)
            ships.play_history(world, lambda: Course(world, story, settings))

        test.__doc__ = story.__doc__
        return test

    return of


def name_of(path: str) -> str:
    return path.removeprefix(ROOT)
