"""Courses of the protocol in which one rule decides: who stops, between which requests, and what
others do meanwhile. ``tests/sim/rules.py: SCRIPTED`` says which rule each of them is about."""

from contextlib import suppress
from dataclasses import replace
from functools import partial
from unittest.mock import patch

import pytest

from shipper import runtime
from shipper.driver.recreated import judge
from shipper.errors import Superseded
from shipper.kafka.admin import ClusterAdmin
from shipper.kafka.client import ClusterClient
from shipper.kafka.connection import KafkaFault
from shipper.kafka.limits import TopicLimit, TopicLimits
from shipper.kafka.topic_ids import TopicIdWatch
from shipper.kafka.topics import TopicLookup
from shipper.kafka.transaction import RightToShip, Transactions
from shipper.ledger.archive import archive
from shipper.ledger.codec import encode_chunk
from shipper.ledger.log import LedgerLog, ask_state
from shipper.ledger.records import CHUNKS, ChunkKey, ChunkValue, Generation
from shipper.ledger.rights import transactional_id
from shipper.ledger.snapshot import LedgerFolder
from shipper.ledger.takeover import sole_run, take_over
from shipper.ledger.writing import (
    invalidate,
    lane_settings,
    patience_of,
    right_of,
    within,
    write_as_lane,
)
from shipper.report import window_records
from shipper.report.closed_gates import ClosedGate, ClosedGatesFolder
from shipper.report.run_folder import RunFolder, StepResult
from shipper.types import FileId, SplitId
from shipper.worker.order import LaneOptions, ShipOrder
from shipper.worker.receipt import Receipt
from shipper.worker.task import TaskAttempt, TaskLanes
from shipper.worker.tuning import Tuning
from tests.sim import lanes, ships
from tests.sim.broker import SimCluster
from tests.sim.clients import Network
from tests.sim.course import course
from tests.sim.lanes import LaneHistory
from tests.sim.ships import TOPICS, Habits
from tests.sim.world import FAULTS, Process, World

_FILE, _WRITE = FileId("f.log", 10, 1), SimCluster.write


class Protocol(LaneHistory):
    """A cluster with a ledger, and runs of which only single steps are played."""

    def __init__(self, world, story):
        super().__init__(world, Habits())
        self._story = story

    def play(self):
        self._set_up()
        self._heal()
        self.cluster, self.of_run = ships.cluster_of("one"), ships.pipeline_of(2, 2, ("one",))
        # No transaction of a run that stops times out.
        settings = lane_settings(self.cluster, self.of_run, 20_000)
        self.settings = replace(settings, transaction_timeout_ms=600_000)
        self._story(self)

    def ledger(self, folder=None, **options):
        client, options["patience"] = ClusterClient(self.cluster), patience_of(self.of_run)
        return LedgerLog(client, self.cluster, "sim", folder, **options)

    def take_over(self, run_id, lanes=2):
        return take_over(self.ledger(), self.settings, Generation(run_id, 1, lanes), ask_state([]))

    def lane(self, right, number=0):
        """A lane of task 0, of a generation or with a right of its own."""
        if isinstance(right, int):
            right = right_of(self.ledger(), right)
        lane_id = transactional_id("sim", "one", 0, number)
        return Transactions(self.settings, lane_id, TOPICS[:1], right)

    def write(self, lane):
        """Write a record in a transaction of the lane, and leave it open."""
        producer = lane.begin(within(30))
        producer.produce_patiently(within(30), TOPICS[0], b"record", None, 0)
        producer.flush(within(30))
        return lane

    def attempt(self, taken, number):
        ledger = self.ledger(generation=taken.generation)
        return TaskAttempt(self.order(taken), ledger, 0, number)

    def order(self, taken):
        options = LaneOptions(self.settings, self._ledger_topic, CHUNKS, 30.0)
        return ShipOrder(
            pipeline="sim", cluster="one", run_id="run", window="w", digest="d",
            generation=taken.generation, chunks_end=taken.chunks_end, lane_options=options,
            limits={}, tuning=Tuning(2, 20_000, 12_000), topics=TOPICS, splits={},
        )  # fmt: skip

    def ship(self, generation, topic_id=None):
        """Write a chunk of ``_FILE``."""
        key, window = ChunkKey(SplitId(_FILE, 0), 0, TOPICS[0]), ships.Run("any").window
        value = ChunkValue(
            1, False, 1, 10, 0, "digest", generation, "run", str(window), topic_id=topic_id
        )
        records = [encode_chunk("sim", key, value)]
        write_as_lane(self.ledger(), self.settings, generation, records, "{}")

    def make_anew(self, topic):
        self.clusters["one"].delete(topic)
        self.clusters["one"].create(topic)

    def begin(self, call, at, stop, number=1):
        """Begin a process that calls, and ``stop`` it at the ``number``-th point ``at``."""
        process = Process(at)
        process.struck_word, process.struck_at = at, number
        process.strike = lambda: stop(process)
        return self.world.spawn(call, at, process)

    def stall(self, process):
        self.world.sleep(10.0)

    def wait_for_end(self, fiber):
        while not fiber.done and not fiber.process.dead:
            runtime.sleep(1.0)

    def refuse_commit(self, lane):
        with pytest.raises(KafkaFault):
            lane.commit(within(9))


def protocol(story):
    """Make a test of what ``story`` does in a simulated world."""

    def test():
        world = World(1, without=FAULTS)
        ships.play_history(world, lambda: Protocol(world, story))

    test.__doc__ = story.__doc__
    return test


@protocol
def test_a_read_that_began_before_a_lane_was_open_says_nothing_about_it(world):
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
def test_a_read_covers_no_lane_that_was_opened_before_its_answer(world):
    read, answers = right_of(world.ledger(), world.take_over("zombie").generation).check, []

    def read_slowly():
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
def test_lanes_of_a_run_that_came_before_the_announcement_are_fenced(world):
    last = world.begin(lambda: world.take_over("last"), "generation", world.stall)
    runtime.sleep(2)
    lane = world.write(world.lane(world.take_over("between").generation, 1))
    world.wait_for_end(last)
    world.refuse_commit(lane)


@protocol
def test_lanes_are_fenced_although_a_run_between_announced_itself_and_died(world):
    lane = world.write(world.lane(world.take_over("zombie").generation, 1))
    take_over = partial(world.take_over, "between", lanes=1)
    world.wait_for_end(world.begin(take_over, "init of", world.world.kill))
    world.take_over("last", lanes=1)
    world.refuse_commit(lane)


@protocol
def test_an_archive_fences_the_lanes_of_runs(world):
    lane = world.write(world.lane(world.take_over("zombie").generation))
    with sole_run(world.ledger(), world.of_run, "archive", world.world.tell):
        world.refuse_commit(lane)


@protocol
def test_an_invalidation_that_comes_late_brings_no_chunk_back(world):
    zombie = world.take_over("zombie").generation
    late = world.begin(
        lambda: invalidate(world.ledger(), zombie, "zombie", "asked for", [_FILE]),
        "invalidation",
        world.stall,
    )
    runtime.sleep(2)
    world.ship(world.take_over("ship").generation)
    again = world.take_over("reship").generation
    invalidate(world.ledger(), again, "reship", "asked for", [_FILE])
    world.wait_for_end(late)
    state = world.ledger().decide(ask_state([_FILE.path])).answer
    assert not any(split.chunks for split in state.chunks.splits.values())


@protocol
def test_an_attempt_that_announces_itself_late_has_no_right(world):
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
def test_a_later_attempt_fences_nobody_before_it_has_announced_itself(world):
    """The first one would come back, find nobody, and send beside it."""
    taken = world.take_over("run")
    first, second = world.attempt(taken, 0), world.attempt(taken, 1)
    first.announce()
    lane = world.lane(RightToShip(first.check), 1)
    lane.open(within(30))
    order = world.order(taken)
    opened = TaskLanes(order, second, TopicLimits(), Receipt(0, 1))
    opening = world.begin(opened.open, "attempt", world.stall)
    runtime.sleep(2)
    try:
        world.write(lane)
    except KafkaFault:
        lane.discard()
        world.write(lane)
    world.wait_for_end(opening)
    world.refuse_commit(lane)
    with suppress(Superseded):
        opened.abandon()


@protocol
def test_ids_of_before_the_ledger_was_read_make_no_later_chunk_a_lost_one(world):
    admin = ClusterAdmin(world.cluster)
    before = admin.present_ids(TOPICS)
    world.make_anew(TOPICS[0])
    run = world.take_over("run").generation
    topic_id = world.clusters["one"].topics[TOPICS[0]].id
    world.ship(run, topic_id=topic_id)
    chunks = world.ledger().decide(ask_state([_FILE.path])).answer.chunks
    assert not judge(admin, chunks, {_FILE}, topics=TOPICS, present=before).lost


@protocol
def test_a_look_at_ids_that_began_before_the_records_confirms_none(world):
    watch = TopicIdWatch(TopicLookup(world.settings).ids)
    topics, asked = world.clusters["one"].topics, Network.latency
    Network.latency = 4.0
    watch.ask(TOPICS[:1])
    with patch.object(SimCluster, "known", autospec=True, side_effect=SimCluster.known) as known:
        while not known.called:
            runtime.sleep(0.01)
    world.make_anew(TOPICS[0])  # and records go there, while the answer is under way
    Network.latency = 8.0
    found = watch.wait_for(watch.ask(TOPICS[:1]), within(60))
    Network.latency = asked
    watch.close()
    assert found == {TOPICS[0]: topics[TOPICS[0]].id}


@protocol
def test_a_chunk_that_a_snapshot_has_does_not_hide_the_later_one_of_the_archive(world):
    """A reship was archived, the process died before it kept a snapshot, and the tombstone is
    gone."""
    ledger = partial(world.ledger, folder=LedgerFolder("memory://runs", "sim", "one"))
    world.ship(world.take_over("first").generation)
    snapshot = ledger()
    snapshot.look(ask_state([_FILE.path]))
    snapshot.keep_snapshot(longer_than=0)
    again = world.take_over("reship").generation
    invalidate(world.ledger(), again, "reship", "asked for", [_FILE])
    world.ship(again)
    with (
        patch.object(LedgerLog, "keep_snapshot", side_effect=KeyboardInterrupt),
        pytest.raises(KeyboardInterrupt),
    ):
        archive(
            ledger(), world.of_run,
            ships.START.replace(year=2027), "archive", world.world.tell,
        )  # fmt: skip
    chunks = world.clusters["one"].topics[world._ledger_topic].partitions[CHUNKS]
    while any(b'"chunk"' in (record.key or b"") for record in chunks.records):
        chunks.compact(world.world)
    state = ledger().decide(ask_state([_FILE.path])).answer
    found = [each for split in state.chunks.splits.values() for each in split.chunks.values()]
    assert [chunk.generation for chunk in found] == [again]


@protocol
def test_an_attempt_that_wakes_up_writes_over_no_later_result(world):
    folder = RunFolder("memory://runs", "sim", ships._HOUR, "run")

    def write(second):
        at = ships.START.replace(second=second)
        result = StepResult(
            step="ship.one", pipeline="sim", window_start=ships.START, window_end=ships.START,
            run_id="run", started_at=at, finished_at=at,
        )  # fmt: skip
        with patch.object(window_records, "records_of", return_value=[]):
            folder.write("ship.one", result)

    early = world.begin(partial(write, 1), "store", world.stall, 2)
    runtime.sleep(2)
    write(2)
    world.wait_for_end(early)
    assert '"started_at": "2026-09-01T00:00:02Z"' in (folder.read_text("ship.one.json") or "")


@protocol
def test_a_batch_that_was_built_by_an_old_limit_holds_no_record_that_is_too_large(world):
    def write(cluster, batch):
        if batch.topic in TOPICS:
            cluster.topics[batch.topic].settings["max.message.bytes"] = "8000"
        return _WRITE(cluster, batch)

    world.source.write(f"{ships.ROOT}g.log", 40)
    known = dict.fromkeys(TOPICS, TopicLimit())  # as the plan learned it
    order = patch.object(lanes, "ShipOrder", lambda **of: ShipOrder(**of | {"limits": known}))
    with order, patch.object(SimCluster, "write", write):
        world._ship(ships.Run("run", tasks=1))
    world._refuse_missing(set(world.source.truth()))


@course()
def test_a_gate_that_closed_is_not_counted_again_by_another_ledger(world):
    (cluster,) = world.clusters.values()
    world.write("app.log", 10)
    first = world.run("first")
    folder = ClosedGatesFolder("memory://runs", "sim", "one")
    planned = first.plan.files_for("one")
    [ship] = first.ships
    gate = ClosedGate(at=runtime.now(), ship=ship, files=[file.id for file in planned])
    folder.add(ships.Run("first").window, gate)
    runtime.sleep(5.0)
    cluster.delete(ships.cluster_of("one").ledger_topic("sim"))
    world.remove("app.log")
    world.write("next.log", 10)
    assert world.run(new_ledger=True).code == 0
