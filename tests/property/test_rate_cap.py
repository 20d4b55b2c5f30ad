"""Under a cap, whatever is shipped: over any ten seconds and over the whole ship no more bytes go
than the cap allows, hardly fewer in a long ship, and no transaction is held open. The time is
virtual: tasks and their lanes are steps of one loop."""

import heapq
import itertools
import random
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from shipper.worker.rate import BURST_SECONDS, BrokerRate, RateLimit, SendSize

_OPEN_SECONDS = 15.0
_COUNTED_EVERY_SECONDS = 3.0


@dataclass
class Ship:
    """Some tasks of some lanes, which share a cap as shipper's do."""

    cap: float
    seed: int
    rtt: float
    lanes: int
    guess: float
    """What batches take, relative to the estimate; it varies by a fifth around that."""
    bytes_of_tasks: list[int]
    now: float = 0.0
    sent: list[tuple[float, float]] = field(default_factory=list)
    """Times and bytes."""
    longest_open: float = 0.0

    def __post_init__(self):
        self.chance = random.Random(self.seed)
        self.active = set(range(len(self.bytes_of_tasks)))
        self.lanes_at_work = dict.fromkeys(self.active, self.lanes)
        self.known = {task: len(self.active) for task in self.active}
        """Task → number of active tasks, as it last counted."""

    def run(self):
        order = itertools.count()
        steps = []
        for task, size in enumerate(self.bytes_of_tasks):
            limit = RateLimit(lambda task=task: self.cap / self.known[task], lambda: self.now)
            rate, left = BrokerRate(limit, lambda: self.now), [float(size)]
            begins = self.chance.uniform(0, 3)
            for _ in range(self.lanes):
                heapq.heappush(steps, (begins, next(order), self._lane(task, rate, left)))
            heapq.heappush(steps, (begins, next(order), self._counting(task)))
        while steps:
            self.now, _, lane = heapq.heappop(steps)
            if (seconds := next(lane, None)) is not None:
                heapq.heappush(steps, (self.now + seconds, next(order), lane))

    def _counting(self, task):
        while task in self.active:
            yield _COUNTED_EVERY_SECONDS
            self.known[task] = max(1, len(self.active))

    def _lane(self, task, rate, left):
        cap = rate.cap
        assert cap
        while left[0] > 0:
            share = cap.bytes_per_second()
            total = min(left[0], share * self.chance.uniform(0.1, 12))
            left[0] -= total
            sizes = []
            while total > 0:
                sizes.append(min(total, share * BURST_SECONDS))
                total -= sizes[-1]
            pace = rate.transaction([SendSize(0, size) for size in sizes], _OPEN_SECONDS)
            yield from pace.begin()
            began = self.now
            for number, size in enumerate(sizes):
                yield from pace.send(number)
                really = size * self.guess * self.chance.uniform(0.8, 1.2)
                self.sent.append((self.now, really))
                yield self.rtt
                cap.correct(really - size)
            self.longest_open = max(self.longest_open, self.now - began)
            pace.close()
            yield 3 * self.rtt
        self.lanes_at_work[task] -= 1
        if not self.lanes_at_work[task]:
            self.active.discard(task)


_ships = st.builds(
    Ship,
    cap=st.sampled_from([1e4, 1e5, 1e6, 1e8]),
    seed=st.integers(0, 999),
    rtt=st.floats(0.001, 0.2),
    lanes=st.integers(2, 6),
    guess=st.floats(0.5, 1.05),
    bytes_of_tasks=st.just([]),
)


@given(_ships, st.lists(st.floats(0.01, 60), min_size=1, max_size=5))
def test_over_any_ten_seconds_and_the_whole_ship_the_cap_holds(ship, seconds):
    ship.bytes_of_tasks = [int(each * ship.cap / len(seconds)) + 1 for each in seconds]
    ship.__post_init__()
    ship.run()
    for index, (begins, _) in enumerate(ship.sent):
        within = sum(size for at, size in ship.sent[index:] if at < begins + 10)
        assert within <= 1.05 * 10 * ship.cap
    whole = sum(size for _, size in ship.sent)
    assert whole <= 1.05 * ship.cap * ship.now
    assert ship.longest_open <= 1.25 * _OPEN_SECONDS + 100 * ship.rtt


@settings(max_examples=30)
@given(_ships, st.integers(1, 4), st.floats(0.7, 1.05))
def test_a_long_ship_loses_little_of_its_cap(ship, tasks, guess):
    ship.guess = guess
    ship.bytes_of_tasks = [int(100 * ship.cap / tasks)] * tasks
    ship.__post_init__()
    ship.run()
    whole = sum(size for _, size in ship.sent)
    assert whole >= 0.85 * ship.cap * ship.now
