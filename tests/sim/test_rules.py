"""Courses of the protocol in which one rule decides: who stops, between which requests, and what
others do meanwhile. ``tests/sim/rules.py: SCRIPTED`` says which rule each of them is about."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from shipper import runtime
from shipper.errors import Superseded
from shipper.kafka.client import ClusterClient
from shipper.kafka.connection import KafkaFault
from shipper.kafka.limits import TopicLimits
from shipper.kafka.transaction import RightToShip, Transactions
from shipper.ledger.codec import encode_chunk
from shipper.ledger.log import SETTINGS, LedgerLog, ask_state
from shipper.ledger.records import CHUNKS, PARTITIONS, ChunkKey, ChunkValue, Generation
from shipper.ledger.rights import transactional_id
from shipper.ledger.takeover import Takeover, sole_run, take_over
from shipper.ledger.writing import (
    invalidate,
    lane_settings,
    patience_of,
    right_of,
    within,
    write_as_lane,
)
from shipper.types import FileId, SplitId
from shipper.worker.order import LaneOptions, ShipOrder
from shipper.worker.receipt import Receipt
from shipper.worker.task import TaskAttempt, TaskLanes
from shipper.worker.tuning import Tuning
from tests.sim import ships
from tests.sim.ships import TOPICS, Habits, History
from tests.sim.world import FAULTS, Fiber, Process, World

_FILE = FileId("f.log", 10, 1)


class Protocol(History):
    """A cluster with a ledger, and runs of which only single steps are played."""

    def __init__(self, world: World, story: Callable[[Protocol], None]) -> None:
        super().__init__(world, Habits())
        self._story = story

    def play(self) -> None:
        self._set_up()
        self._heal()
        self.cluster, self.of_run = ships.cluster_of("one"), ships.pipeline_of(2, 2, ("one",))
        # No transaction of a run that stops times out.
        settings = lane_settings(self.cluster, self.of_run, 20_000)
        self.settings = replace(settings, transaction_timeout_ms=600_000)
        self.topic = self.cluster.ledger_topic("sim")
        self.clusters["one"].create(self.topic, PARTITIONS, SETTINGS)
        self._story(self)

    def ledger(self, **options: Any) -> LedgerLog:
        client, patience = ClusterClient(self.cluster), patience_of(self.of_run)
        return LedgerLog(client, self.cluster, "sim", patience=patience, **options)

    def take_over(self, run_id: str, lanes: int = 2) -> Takeover:
        return take_over(self.ledger(), self.settings, Generation(run_id, 1, lanes), [])

    def lane(self, right: int | RightToShip[Any], number: int = 0) -> Transactions:
        """A lane of task 0, of a generation or with a right of its own."""
        if isinstance(right, int):
            right = right_of(self.ledger(), right)
        lane_id = transactional_id("sim", "one", 0, number)
        return Transactions(self.settings, lane_id, TOPICS[:1], right)

    def write(self, lane: Transactions) -> Transactions:
        """Write a record in a transaction of the lane, and leave it open."""
        producer = lane.begin(within(30))
        producer.produce_patiently(within(30), TOPICS[0], b"record", None, 0)
        producer.flush(within(30))
        return lane

    def attempt(self, taken: Takeover, number: int) -> TaskAttempt:
        ledger = self.ledger(control_from=taken.generation)
        return TaskAttempt(self.order(taken), ledger, 0, number)

    def order(self, taken: Takeover) -> ShipOrder:
        options = LaneOptions(self.settings, self.topic, CHUNKS, 30.0)
        return ShipOrder(
            pipeline="sim", cluster="one", run_id="run", window="w", digest="d",
            generation=taken.generation, chunks_end=taken.chunks_end, lane_options=options,
            limits={}, tuning=Tuning(2, 20_000, 12_000), topics=TOPICS, splits={},
        )  # fmt: skip

    def begin(
        self, call: Callable[[], object], at: str, stop: Callable[[Process], object]
    ) -> Fiber:
        """Begin a process that calls, and ``stop`` it before the first request ``at``."""
        process = Process(at)
        process.struck_word, process.struck_at = at, 1
        process.strike = lambda: stop(process)
        return self.world.spawn(call, at, process)

    def stall(self, process: Process) -> None:
        self.world.sleep(10.0)

    def wait_for_end(self, fiber: Fiber) -> None:
        while not fiber.done and not fiber.process.dead:
            runtime.sleep(1.0)

    def refuse_commit(self, lane: Transactions) -> None:
        with pytest.raises(KafkaFault):
            lane.commit(within(9))


def protocol(story: Callable[[Protocol], None]) -> Callable[[], None]:
    """Make a test of what ``story`` does in a simulated world."""

    def test() -> None:
        world = World(1, without=FAULTS)
        ships.play_history(world, lambda: Protocol(world, story))

    test.__doc__ = story.__doc__
    return test


@protocol
def test_a_read_that_began_before_a_lane_was_open_says_nothing_about_it(world: Protocol) -> None:
    right = right_of(world.ledger(), world.take_over("zombie").generation)
    slow, other = world.lane(right, 0), world.lane(right, 1)
    opening = world.begin(lambda: slow.open(within(100)), "init of", world.stall)
    runtime.sleep(2)
    other.begin(within(30))  # reads that nobody came
    other.discard()
    world.take_over("next")
    world.wait_for_end(opening)  # and has fenced a lane of the run that took over
    with pytest.raises(Superseded):
        slow.begin(within(30))


@protocol
def test_a_read_covers_no_lane_that_was_opened_before_its_answer(world: Protocol) -> None:
    read, answers = right_of(world.ledger(), world.take_over("zombie").generation).check, []

    def read_slowly() -> Any:
        answers.append(read())
        runtime.sleep(10.0 if len(answers) == 1 else 0.0)
        return answers[-1]

    right = RightToShip(read_slowly)
    reading = world.world.spawn(right.check)
    runtime.sleep(2)
    world.take_over("next")
    late = world.lane(right)
    late.open(within(30))
    world.wait_for_end(reading)
    with pytest.raises(Superseded):
        late.begin(within(30))


@protocol
def test_lanes_of_a_run_that_came_before_the_announcement_are_fenced(world: Protocol) -> None:
    last = world.begin(lambda: world.take_over("last"), "generation", world.stall)
    runtime.sleep(2)
    lane = world.write(world.lane(world.take_over("between").generation, 1))
    world.wait_for_end(last)
    world.refuse_commit(lane)


@protocol
def test_lanes_are_fenced_although_a_run_between_announced_itself_and_died(world: Protocol) -> None:
    lane = world.write(world.lane(world.take_over("zombie").generation, 1))
    take_over = partial(world.take_over, "between", lanes=1)
    world.wait_for_end(world.begin(take_over, "init of", world.world.kill))
    world.take_over("last", lanes=1)
    world.refuse_commit(lane)


@protocol
def test_an_archive_fences_the_lanes_of_runs(world: Protocol) -> None:
    lane = world.write(world.lane(world.take_over("zombie").generation))
    with sole_run(world.ledger(), world.of_run, "archive", world.world.tell):
        world.refuse_commit(lane)


@protocol
def test_an_invalidation_that_comes_late_brings_no_chunk_back(world: Protocol) -> None:
    key = ChunkKey(SplitId(_FILE, 0), 0, TOPICS[0])
    zombie = world.take_over("zombie").generation
    late = world.begin(
        lambda: invalidate(world.ledger(), zombie, "zombie", "asked for", [_FILE]),
        "invalidation",
        world.stall,
    )
    runtime.sleep(2)
    shipped = world.take_over("ship").generation
    value = ChunkValue(1, False, 1, 10, 0, "d", shipped, "ship", "w")
    write_as_lane(world.ledger(), world.settings, shipped, [encode_chunk("sim", key, value)])
    again = world.take_over("reship").generation
    invalidate(world.ledger(), again, "reship", "asked for", [_FILE])
    world.wait_for_end(late)
    state = world.ledger().decide(ask_state([_FILE.path])).answer
    assert not any(split.chunks for split in state.chunks.splits.values())


@protocol
def test_an_attempt_that_announces_itself_late_has_no_right(world: Protocol) -> None:
    taken = world.take_over("run")
    first, second = world.attempt(taken, 0), world.attempt(taken, 1)
    late = world.begin(first.announce, "attempt", world.stall)
    runtime.sleep(2)
    second.announce()
    world.wait_for_end(late)
    second.check()
    with pytest.raises(Superseded):
        first.check()


@protocol
def test_a_later_attempt_fences_nobody_before_it_has_announced_itself(world: Protocol) -> None:
    """The first one would come back, find nobody, and send beside it."""
    taken = world.take_over("run")
    first, second = world.attempt(taken, 0), world.attempt(taken, 1)
    first.announce()
    lane = world.lane(RightToShip(first.check), 1)
    lane.open(within(30))
    order = world.order(taken)
    lanes = TaskLanes(order, second, TopicLimits(), Receipt(0, 1))
    opening = world.begin(lanes.open, "attempt", world.stall)
    runtime.sleep(2)
    try:
        world.write(lane)
    except KafkaFault:
        lane.discard()
        world.write(lane)
    world.wait_for_end(opening)
    world.refuse_commit(lane)
    with suppress(Superseded):
        lanes.abandon()
