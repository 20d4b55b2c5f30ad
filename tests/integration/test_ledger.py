"""The ledger on a real broker: snapshots, fencing across runs of different shapes, archiving."""

import csv
import json
import shutil
import time
from collections import Counter
from dataclasses import replace

import pytest
from confluent_kafka.admin import AdminClient

from shipper.delivery import archive as module
from shipper.delivery.ledger_folder import LedgerFolder
from shipper.delivery.ledger_log import LedgerLog
from shipper.delivery.takeover import announce, fence_earlier_runs, take_over, transactional_id
from shipper.errors import ArchiveMissing, ClusterError, OutcomeUnknown, Superseded
from shipper.ledger.records import CHUNKS, ChunkKey, ChunkValue, encode_chunk
from shipper.plan.window import parse_moment
from shipper.producer.client import KafkaFault, LaneProducer, LaneSettings, connection
from shipper.terms import FileId, SplitId

from .world import World

pytestmark = [pytest.mark.kafka]

VALUE = ChunkValue(
    last=10, end=True, records=10, bytes=100, checksum=1, digest="d", generation=0, run_id="r",
    window="2026-11-01T00:00:00Z/2026-11-02T00:00:00Z",
)  # fmt: skip


@pytest.fixture
def world(tmp_path, kafka):
    return World(tmp_path, kafka.bootstrap)


def ledger_of(world, folder=True):
    chosen = LedgerFolder(str(world.root / "runs"), world.name, "local") if folder else None
    ledger = LedgerLog(world.client, world.cluster, world.name, chosen)
    ledger.ensure()
    return ledger


def chunk(world, path, first=0, **changes):
    key = ChunkKey(SplitId(FileId(path, 100, 5), 0), first, world.topic())
    return encode_chunk(world.name, key, replace(VALUE, **changes))


def records_there(state):
    return sum(split.records for split in state.chunks.splits.values())


def settings_of(world):
    return LaneSettings(connection(world.cluster), batch_size_bytes=500_000, compression="none", transaction_timeout_ms=20_000)


class TestSnapshot:
    def test_only_what_is_new_is_read_from_the_topic(self, world):
        ledger = ledger_of(world)
        ledger.write_chunks(chunk(world, f"day/{n:04}") for n in range(5000))
        assert ledger.keep_snapshot() is not None
        ledger.write_chunks([chunk(world, "day/0003", generation=7), chunk(world, "night/1")])

        later = ledger_of(world)
        assert later.snapshot().chunks_end == 5000
        state = later.state(["day/0003", "night/1", "day/none"], wait_seconds=15)
        assert {split.file.path for split in state.chunks.splits} == {"day/0003", "night/1"}
        assert state.chunks_end == 5002
        assert records_there(later.state(wait_seconds=15)) == records_there(ledger_of(world, folder=False).state(wait_seconds=15))
        assert later.keep_snapshot() is None, "a tail of two records is not worth a snapshot"

    def test_a_ledger_that_was_deleted_and_made_anew_does_not_inherit_the_old_ones_snapshot(self, world):
        ledger = ledger_of(world)
        ledger.write_chunks(chunk(world, f"{n}") for n in range(10))
        ledger.keep_snapshot(longer_than=0)
        admin = AdminClient({"bootstrap.servers": world.bootstrap})
        admin.delete_topics([ledger.topic])[ledger.topic].result()
        deadline = time.monotonic() + 20
        while ledger.topic in world.client.topics() and time.monotonic() < deadline:
            time.sleep(0.1)
        ledger_of(world).write_chunks(chunk(world, f"new {n}") for n in range(20))
        later = ledger_of(world)
        assert later.snapshot() is None
        assert {split.file.path for split in later.state(wait_seconds=15).chunks.splits} == {f"new {n}" for n in range(20)}

    def test_an_open_transaction_ends_the_snapshot_and_what_it_commits_later_is_read(self, world):
        ledger = ledger_of(world)
        settings = settings_of(world)
        ledger.write_chunks([chunk(world, "before")])
        lane = open_lane(settings, "open", ledger.topic)
        produce(lane, ledger.topic, chunk(world, "in the transaction"))
        ledger.write_chunks([chunk(world, "behind")])
        assert ledger.keep_snapshot(longer_than=0).chunks_end == 1
        with pytest.raises(OutcomeUnknown):
            ledger_of(world).state(wait_seconds=1)
        lane.commit(deadline())
        assert records_there(ledger_of(world).state(wait_seconds=15)) == 30


class TestTakeover:
    def test_lanes_of_any_earlier_run_are_fenced_before_the_ledger_is_read(self, world):
        """Run 1 had 3 tasks x 2 lanes, the runs after it had other shapes; its widest lane wakes up after the fourth announced itself."""
        settings = settings_of(world)
        ledger = ledger_of(world)
        fence_earlier_runs(ledger, settings, "local", "run 1", 3, 2)
        zombie = open_lane(settings, transactional_id(world.name, "local", 2, 1), ledger.topic)
        produce(zombie, ledger.topic, chunk(world, "zombie"))
        committed = open_lane(settings, transactional_id(world.name, "local", 1, 1), ledger.topic)
        produce(committed, ledger.topic, chunk(world, "committed"))
        committed.commit(deadline())

        # Generations of other shapes; the zombie is still open until one of them fences it, so these only announce themselves.
        for run, tasks, lanes in (("run 2", 1, 1), ("run 3", 1, 4)):
            announce(ledger_of(world), run, tasks, lanes)
        taken = take_over(ledger_of(world), settings, "local", "run 4", 1, 1, ["zombie", "committed"])

        assert {split.file.path for split in taken.chunks.splits} == {"committed"}
        with pytest.raises(KafkaFault, match="FENCED"):
            zombie.commit(deadline())
        again = ledger_of(world).state(wait_seconds=15)
        assert {split.file.path for split in again.chunks.splits} == {"committed"}

    def test_a_run_fences_the_most_tasks_and_lanes_that_any_run_ever_had_also_from_a_snapshot(self, world):
        settings = settings_of(world)
        for run, tasks, lanes in (("run 1", 4, 1), ("run 2", 1, 3), ("run 3", 1, 1)):
            ledger = ledger_of(world)
            fence_earlier_runs(ledger, settings, "local", run, tasks, lanes)
            ledger.keep_snapshot(longer_than=0)
            shutil.rmtree(world.root / "runs" / world.name / "ledger.local", ignore_errors=run == "run 2")
        lanes = [open_lane(settings, transactional_id(world.name, "local", task, 2), ledger.topic) for task in range(4)]
        for lane in lanes:
            produce(lane, ledger.topic, chunk(world, "zombie"))
        fence_earlier_runs(ledger_of(world), settings, "local", "run 4", 1, 1)
        for lane in lanes:
            with pytest.raises(KafkaFault, match="FENCED"):
                lane.commit(deadline())


class TestArchive:
    def archive(self, world, before="2026-11-03", run_id="archive"):
        ledger = ledger_of(world)
        return module.archive(ledger, ledger._folder, world.cluster, world.pipeline, parse_moment(before), run_id, print)

    def test_what_is_archived_leaves_the_topic_and_still_counts(self, world):
        ledger = ledger_of(world)
        young = "2026-11-05T00:00:00Z/2026-11-06T00:00:00Z"
        ledger.write_chunks(
            [chunk(world, "old", 0, end=False), chunk(world, "old", 10, last=20), chunk(world, "young", window=young)]
        )
        done = self.archive(world)
        assert (done.moved, done.files, done.left, done.archived) == (2, 1, 1, 2)
        in_topic = {record.key: record.value for record in ledger.chunks(wait_seconds=15)}
        assert sum(value is not None and b'"chunk"' in key for key, value in in_topic.items()) == 1
        assert records_there(ledger_of(world).state(wait_seconds=15)) == 30
        # Again: nothing is old enough any more; later the rest goes to the same archive.
        assert self.archive(world).moved == 0
        assert self.archive(world, before="2026-11-07").archived == 3
        assert records_there(ledger_of(world).state(["old"], wait_seconds=15)) == 20
        assert records_there(ledger_of(world).state(wait_seconds=15)) == 30

    @pytest.mark.parametrize("damage", ["gone", "cut", "no folder"])
    def test_without_its_archive_a_ledger_is_not_believed(self, world, damage):
        ledger_of(world).write_chunks([chunk(world, "old")])
        self.archive(world)
        folder = world.root / "runs" / world.name / "ledger.local" / "archive"
        if damage == "gone":
            shutil.rmtree(folder)
        elif damage == "cut":
            [shard] = (folder / "shards").iterdir()
            shard.write_bytes(shard.read_bytes()[:-1])
        with pytest.raises(ArchiveMissing, match=r"1 records in the archive.*Nothing was sent"):
            ledger_of(world, folder=damage != "no folder").state(["old"], wait_seconds=15)

    def test_an_archiving_that_was_paused_and_wakes_up_after_a_run_removes_nothing(self, world, monkeypatch):
        """It sleeps after it has written its files. Meanwhile a run ships the file anew; its records must stay."""
        ledger_of(world).write_chunks([chunk(world, "old")])
        remove = module._remove

        def late(ledger, lane, generation, records):
            fence_earlier_runs(ledger_of(world), settings_of(world), "local", "meanwhile", 1, 1)
            ledger_of(world).write_chunks([chunk(world, "old", generation=9, records=7)])
            remove(ledger, lane, generation, records)

        monkeypatch.setattr(module, "_remove", late)
        with pytest.raises(Superseded, match="nothing was removed"):
            self.archive(world)
        assert records_there(ledger_of(world).state(wait_seconds=15)) == 7

    def test_an_archiving_that_is_overtaken_inside_its_transaction_cannot_commit(self, world, monkeypatch):
        ledger_of(world).write_chunks([chunk(world, "old")])
        commit = module._commit

        def late(lane, topic, batch):
            fence_earlier_runs(ledger_of(world), settings_of(world), "local", "meanwhile", 1, 1)
            commit(lane, topic, batch)

        monkeypatch.setattr(module, "_commit", late)
        with pytest.raises(ClusterError, match="could be removed"):
            self.archive(world)
        monkeypatch.undo()
        assert len(ledger_of(world).records(wait_seconds=15).archived) == 0
        assert self.archive(world).moved == 1


@pytest.mark.spark
@pytest.mark.long
def test_an_archived_window_that_is_run_again_sends_nothing_and_the_commands_say_what_is_there(world):
    world.write_log("a.log", b"one\ntwo\n")
    world.write_log("b.log", b"three\n")
    world.run()
    assert command(world, "show")["local"]["windows"]["2026-11-01T00:00:00Z/2026-11-02T00:00:00Z"]["complete"] == 2
    moved = command(world, "archive", "--before", "2026-11-02")
    assert (moved["moved"], moved["left"]) == (2, 0)
    assert command(world, "verify")["local"] == {"chunks_end": moved_end(world), "snapshot": True, "findings": []}

    again = world.run()
    assert (again["delivered"], again["before"]) == (0, 3)
    assert world.run("--reship")["delivered"] == 3
    assert world.run()["delivered"] == 0
    assert world.read() == Counter({b"one": 2, b"two": 2, b"three": 2})

    [document] = [command(world, "show", "--files")["local"]]
    assert [(file["path"].rsplit("/", 1)[1], file["records"], file["complete"]) for file in document["files"]] == [
        ("a.log", 2, 1),
        ("b.log", 1, 1),
    ]
    target = world.root / "export.csv"
    done = world.shipper("ledger", "export", world.name, "--format", "csv", "--to", str(target))
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader(target.open()))
    assert sorted((row["path"].rsplit("/", 1)[1], row["records"], row["void"]) for row in rows) == [
        ("a.log", "2", "False"),
        ("b.log", "1", "False"),
    ]
    shutil.rmtree(world.root / "runs" / world.name / "ledger.local")
    world.fails(code=1, says="in the archive .*runs_uri")
    said = world.shipper("ledger", "show", world.name)
    assert said.returncode == 1
    assert "in the archive" in said.stderr


def moved_end(world):
    return ledger_of(world).records(wait_seconds=15).chunks_end


def command(world, *arguments):
    done = world.shipper("ledger", arguments[0], world.name, *arguments[1:], "--json")
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def test_verify_names_what_is_wrong_and_fails(world):
    ledger = ledger_of(world)
    ledger.write_chunks(
        [
            chunk(world, "overlap", 0, end=False), chunk(world, "overlap", 5, last=15, digest="other"),
            chunk(world, "unfinished", end=False),
            encode_chunk(world.name, ChunkKey(SplitId(FileId("gone", 1, 5), 0), 0, "no.such.topic"), VALUE),
        ]
    )  # fmt: skip
    done = world.shipper("ledger", "verify", world.name, "--json")
    assert done.returncode == 1
    found = json.loads(done.stdout)["local"]["findings"]
    assert {(finding["severity"], finding["kind"], finding["where"].split()[0]) for finding in found} == {
        ("wrong", "overlap", "overlap"),
        ("wrong", "digests", "overlap"),
        ("wrong", "count", "overlap"),
        ("unfinished", "gap", "unfinished"),
        ("wrong", "topic", "no.such.topic"),
    }


def deadline():
    end = time.monotonic() + 20
    return lambda: end


def open_lane(settings, transactional_id, topic):
    lane = LaneProducer(settings, transactional_id)
    lane.connect(deadline(), topic)
    lane.init(deadline())
    lane.begin()
    return lane


def produce(lane, topic, record):
    key, value = record
    lane.produce(topic, value, key, CHUNKS)
    lane.flush(deadline())
