"""The simulated world itself: a seed is the same twice, and the world is as harsh as it says."""

import pytest
from confluent_kafka import KafkaException

from shipper import runtime
from tests.sim import clients, lanes, ships
from tests.sim.__main__ import KINDS, kept_seeds
from tests.sim.broker import Batch, SimCluster
from tests.sim.primitives import installed
from tests.sim.world import Process, Stuck, World


def played(call, seed=1):
    """Return what ``call`` returns in a world of its own."""
    world = World(seed)
    with installed():
        return world.run(lambda: call(world), 10_000)


@pytest.mark.parametrize("kind", ["lanes", "runs", "renames", "changes", "changed-schedule"])
def test_a_seed_is_the_same_twice_whatever_was_played_before(kind):
    logs = []
    for before in ((), (3, 4)):
        for seed in before:
            KINDS[kind](World(seed))
        world = World(8, keeps_log=True)
        KINDS[kind](world)
        logs.append(world.log)
    assert logs[0] == logs[1]
    assert len(logs[0]) > 10


@pytest.mark.parametrize(("kind", "seed"), kept_seeds())
def test_no_seed_that_was_kept_breaks_a_promise(kind, seed):
    KINDS[kind](World(seed))


@pytest.mark.parametrize("seed", range(12))
def test_no_seed_of_lanes_breaks_a_promise(seed):
    lanes.play(World(seed))


@pytest.mark.parametrize("seed", range(6))
def test_no_seed_of_runs_breaks_a_promise(seed):
    ships.play(World(seed), ships.Habits(clusters=1 + seed % 2, grows=seed % 3 == 0))


def test_time_passes_only_while_everybody_waits():
    def wait(world):
        done = []
        threads = [
            runtime.Thread(target=lambda n=n: (runtime.sleep(n), done.append(str(n))))
            for n in (30, 10, 20)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return runtime.monotonic(), done

    seconds, done = played(wait)
    assert 30 <= seconds < 30.1
    assert done == ["10", "20", "30"]


def test_a_killed_process_does_nothing_more_and_a_paused_one_goes_on_later():
    def watch(world):
        counts = {"killed": 0, "paused": 0}

        def count(name):
            while True:
                runtime.sleep(1.0)
                counts[name] += 1

        processes = {name: Process(name) for name in counts}
        for name, process in processes.items():
            world.spawn(lambda name=name: count(name), name, process)
        runtime.sleep(5.5)
        world.kill(processes["killed"])
        world.pause(processes["paused"], 10)
        runtime.sleep(14.0)
        return counts["killed"], counts["paused"]

    assert played(watch) == (5, 9)


def test_a_deadlock_is_told():
    with pytest.raises(Stuck, match="nothing can happen"):
        played(lambda world: runtime.Event().wait())


class TestBroker:
    """What the protocol rests on."""

    @staticmethod
    def cluster(world):
        found = SimCluster(world, "one")
        found.create("t", 1)
        return found

    @staticmethod
    def send(cluster, producer, epoch, number, *values):
        records = [(None, value, None, None) for value in values]
        cluster.write(Batch("t", 0, records, producer, epoch, number))

    def test_a_fenced_producer_can_neither_write_nor_commit(self):
        def fenced(world):
            cluster = self.cluster(world)
            producer, epoch = cluster.initialise("id", 10)
            cluster.add("id", producer, epoch, [("t", 0)])
            self.send(cluster, producer, epoch, 1, b"a")
            while True:
                try:
                    cluster.initialise("id", 10)
                    break
                except KafkaException:
                    runtime.sleep(0.1)
            for late in (
                lambda: self.send(cluster, producer, epoch, 2, b"b"),
                lambda: cluster.end("id", producer, epoch, commit=True),
            ):
                with pytest.raises(KafkaException):
                    late()
            return cluster.values("t")

        assert played(fenced) == []

    def test_a_batch_that_comes_twice_is_written_once(self):
        def twice(world):
            cluster = self.cluster(world)
            producer, epoch = cluster.initialise("id", 10)
            cluster.add("id", producer, epoch, [("t", 0)])
            for _ in range(2):
                self.send(cluster, producer, epoch, 1, b"a")
            cluster.end("id", producer, epoch, commit=True)
            runtime.sleep(1.0)
            return cluster.values("t")

        assert played(twice) == [b"a"]

    def test_a_late_copy_of_a_commit_ends_the_next_transaction_of_its_epoch(self):
        def late(world):
            cluster = self.cluster(world)
            producer, epoch = cluster.initialise("id", 10)
            for number, value in enumerate((b"a", b"b")):
                cluster.add("id", producer, epoch, [("t", 0)])
                self.send(cluster, producer, epoch, number, value)
                cluster.end("id", producer, epoch, commit=True)  # the second one is the late copy
                runtime.sleep(1.0)
            return cluster.values("t")

        assert played(late) == [b"a", b"b"]

    def test_an_open_transaction_hides_what_is_behind_it_until_it_times_out(self):
        def hidden(world):
            cluster = self.cluster(world)
            for name, number in (("open", 1), ("other", 2)):
                producer, epoch = cluster.initialise(name, 10)
                cluster.add(name, producer, epoch, [("t", 0)])
                self.send(cluster, producer, epoch, number, name.encode())
            cluster.end("other", producer, epoch, commit=True)
            runtime.sleep(5.0)
            before = cluster.values("t")
            runtime.sleep(6.0)
            return before, cluster.values("t")

        assert played(hidden) == ([], [b"other"])

    def test_a_deposed_leader_shows_what_it_had(self):
        def stale(world):
            cluster = self.cluster(world)
            clients.CLUSTERS["one:9092"] = cluster
            cluster.topics["t"].partitions[0].append(
                Batch("t", 0, [(None, b"a", None, None)], None, -1, 0), 0, append_time=False
            )
            cluster.depose("t", 0, 30)
            cluster.topics["t"].partitions[0].append(
                Batch("t", 0, [(None, b"b", None, None)], None, -1, 1), 0, append_time=False
            )
            seen = []
            for seconds in (0, 40):
                runtime.sleep(seconds)
                ends = set()
                for _ in range(20):
                    consumer = clients.Consumer({"bootstrap.servers": "one:9092"})
                    consumer._position = 0
                    _, end, _ = consumer._read("t", 0, is_old=consumer._asks_old_leader)
                    ends.add(end)
                seen.append(ends)
            return seen

        assert played(stale) == [{1, 2}, {2}]
