"""How the tasks of a ship divide its cap among themselves: they know of each other by the ledger
alone."""

from types import SimpleNamespace

from shipper.ledger.codec import encode_generation
from shipper.ledger.log import LedgerLog
from shipper.ledger.records import CONTROL, Generation, GenerationKey
from shipper.worker import task as module
from shipper.worker.task import TaskAttempt
from tests.doubles.memory_log import MemoryLog
from tests.doubles.runtime import runtime_with


class Ship:
    def __init__(self, tasks, monkeypatch):
        self.topic, self.now = MemoryLog(), 1000.0
        generation = Generation("r", tasks, 2, ())
        self._write(encode_generation("web", GenerationKey("c", "k"), generation))
        self._order = SimpleNamespace(
            pipeline="web", generation=0, run_id="r", tasks=tasks, splits=dict.fromkeys(range(9))
        )
        clock = runtime_with(monotonic=lambda: self.now)
        monkeypatch.setattr(module, "runtime", clock)

    def _write(self, record):
        self.topic.append("ledger", CONTROL, [record])

    def begin(self, task, attempt=0):
        cluster = SimpleNamespace(name="c", ledger_topic=lambda pipeline: "ledger")
        log = LedgerLog(self.topic, cluster, "web")
        found = TaskAttempt(self._order, log, task, attempt)
        found.announce()
        found.check()
        return found

    def wait(self, seconds):
        """The memory's clock goes on by a second with each offset."""
        self.now += seconds
        self.topic.skip(CONTROL, seconds)


def test_tasks_that_have_not_begun_yet_have_their_share_for_some_seconds(monkeypatch):
    ship = Ship(3, monkeypatch)
    first = ship.begin(0)
    assert first.active_tasks == 3
    second = ship.begin(1)
    assert (second.active_tasks, second.is_late) == (3, False)
    ship.wait(5)
    first.count_tasks()
    assert first.active_tasks == 2, "Spark has given the third nothing to do"


def test_a_task_that_comes_late_or_again_waits_until_the_others_know_of_it(monkeypatch):
    ship = Ship(2, monkeypatch)
    first = ship.begin(0)
    ship.wait(60)
    assert ship.begin(1).is_late
    first.count_tasks()
    assert first.active_tasks == 2
    again = ship.begin(0, attempt=2)
    assert again.is_late, "its first attempt may have given its share away"


def test_a_task_that_ended_leaves_its_share(monkeypatch):
    ship = Ship(2, monkeypatch)
    first, second = ship.begin(0), ship.begin(1)
    second.announce(ended=True)
    first.count_tasks()
    assert first.active_tasks == 1
    ship.wait(60)
    first.announce(ended=True)
    alone = ship.begin(1, attempt=3)
    assert not alone.is_late, "nobody else sends"
