"""The ledger on a real broker: snapshots, fencing across runs of different shapes, archiving."""

import json
import re
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Producer

from shipper.errors import ClusterError, ClusterRefuses, LedgerGone, OutcomeUnknown, Superseded
from shipper.kafka.connection import KafkaFault, connection
from shipper.kafka.producer import LaneSettings
from shipper.kafka.transaction import Transactions
from shipper.ledger import archive as module
from shipper.ledger import takeover
from shipper.ledger.codec import encode_chunk
from shipper.ledger.log import LedgerLog, ask_files, ask_partition, ask_state
from shipper.ledger.records import CHUNKS, CONTROL, ChunkKey, ChunkValue, Generation
from shipper.ledger.rights import transactional_id
from shipper.ledger.snapshot import LedgerFolder
from shipper.ledger.takeover import announce, fence_earlier_runs, take_over
from shipper.ledger.writing import right_of, within
from shipper.types import FileId, SplitId
from shipper.windows.window import parse_moment

from .open_lane import OpenLane

pytestmark = [pytest.mark.kafka]

VALUE = ChunkValue(
    last=10, end=True, records=10, bytes=100, checksum=1, digest="d", generation=0, run_id="r",
    window="2026-11-01T00:00:00Z/2026-11-02T00:00:00Z",
)  # fmt: skip


def ledger_of(world, folder=True, cluster="local"):
    chosen = LedgerFolder(str(world.root / "runs"), world.name, "local") if folder else None
    ledger = LedgerLog(
        world.client, world.cluster.model_copy(update={"name": cluster}), world.name, chosen
    )
    ledger.create()
    return ledger


def chunk(world, path, first=0, **changes):
    key = ChunkKey(SplitId(FileId(path, 100, 5), 0), first, world.topic())
    return encode_chunk(world.name, key, replace(VALUE, **changes))


def records_there(state):
    return sum(split.records for split in state.chunks.splits.values())


def settings_of(world):
    return LaneSettings(
        connection(world.cluster),
        batch_size_bytes=500_000,
        compression="none",
        transaction_timeout_ms=20_000,
    )


class TestSnapshot:
    def test_an_open_transaction_ends_the_snapshot_and_what_it_commits_later_is_read(self, world):
        ledger = ledger_of(world)
        settings = settings_of(world)
        ledger._append(CHUNKS, [chunk(world, "before")])
        lane = OpenLane(settings, "open", ledger.topic)
        produce(lane, ledger.topic, chunk(world, "in the transaction"))
        ledger._append(CHUNKS, [chunk(world, "behind")])
        assert ledger.keep_snapshot(longer_than=0).chunks_end == 1
        with pytest.raises(OutcomeUnknown):
            ledger_of(world).look(ask_state(), 1)
        lane.commit()
        assert records_there(ledger_of(world).look(ask_state(), 15)) == 30


class TestTakeover:
    def test_a_lane_is_fenced_once_for_good_under_every_name_of_the_cluster_and_also_from_a_snapshot(  # noqa: E501
        self, world, monkeypatch
    ):
        fenced = []
        fence = takeover.Fence
        monkeypatch.setattr(
            takeover,
            "Fence",
            lambda settings, lane, topic: (fenced.append(lane), fence(settings, lane, topic))[1],
        )
        exactly_once, ledger = settings_of(world), ledger_of(world)
        at_least_once = replace(exactly_once, transactional=False)

        def ids(cluster, tasks, lanes):
            return {
                transactional_id(world.name, cluster, task, lane)
                for task in range(tasks)
                for lane in range(lanes)
            }

        first = fence_earlier_runs(ledger, exactly_once, Generation("run 1", 4, 2)).generation
        zombies = [
            OpenLane(exactly_once, lane, ledger.topic) for lane in sorted(ids("local", 4, 2))
        ]
        for lane in zombies:
            produce(lane, ledger.topic, chunk(world, "zombie"))
        for number, (settings, cluster, tasks, lanes, expected) in enumerate(
            [
                (exactly_once, "renamed", 1, 3, ids("local", 4, 2)),
                (exactly_once, "renamed", 1, 1, ids("renamed", 1, 3)),
                (exactly_once, "renamed", 2, 1, ids("renamed", 1, 1)),
                (exactly_once, "renamed", 2, 1, ids("renamed", 2, 1)),
                (at_least_once, "renamed", 9, 9, ids("renamed", 2, 1)),
                (at_least_once, "renamed", 9, 9, set()),
            ]
        ):
            fenced.clear()
            ledger = ledger_of(world, cluster=cluster)
            take_over(ledger, settings, Generation(f"run {number}", tasks, lanes), ask_state([]))
            assert set(fenced) == expected
            ledger.keep_snapshot(longer_than=0)
            shutil.rmtree(
                world.root / "runs" / world.name / "ledger.local", ignore_errors=number == 2
            )
        for lane in zombies:
            with pytest.raises(KafkaFault, match="FENCED"):
                lane.commit()
        # One of them comes back, when nobody fences its id any more.
        back = Transactions(
            exactly_once, max(ids("local", 4, 2)), [ledger.topic], right_of(ledger_of(world), first)
        )
        with pytest.raises(Superseded):
            back.begin(within(20))

    @pytest.mark.long
    def test_a_lane_that_cannot_be_fenced_says_why_and_whether_waiting_helps(self, world):
        ledger = ledger_of(world)
        settings = replace(settings_of(world), transaction_timeout_ms=3_600_000)
        announce(ledger, Generation("run 1", 1, 1))
        with pytest.raises(
            ClusterRefuses,
            match=r"INVALID_TRANSACTION_TIMEOUT.*transaction_timeout.*waiting does not",
        ) as found:
            fence_earlier_runs(ledger, settings, Generation("run 2", 1, 1))
        assert not found.value.retriable


class TestArchive:
    def archive(self, world, before="2026-11-03", run_id="archive"):
        ledger = ledger_of(world)
        return module.archive(ledger, world.pipeline, parse_moment(before), run_id, print)

    def test_what_is_archived_leaves_the_topic_and_still_counts(self, world):
        ledger = ledger_of(world)
        young = "2026-11-05T00:00:00Z/2026-11-06T00:00:00Z"
        ledger._append(
            CHUNKS,
            [
                chunk(world, "old", 0, end=False),
                chunk(world, "old", 10, last=20),
                chunk(world, "young", window=young),
            ],
        )
        done = self.archive(world)
        assert (done.moved, done.files, done.left, done.archived) == (2, 1, 1, 2)
        in_topic = {record.key: record.value for record in ledger.look(ask_partition(CHUNKS))}
        assert sum(value is not None and b'"chunk"' in key for key, value in in_topic.items()) == 1
        assert records_there(ledger_of(world).look(ask_state(), 15)) == 30
        # Again: nothing is old enough any more; later the rest goes to the same archive.
        assert self.archive(world).moved == 0
        assert self.archive(world, before="2026-11-07").archived == 3
        assert records_there(ledger_of(world).look(ask_state(["old"]), 15)) == 20
        assert records_there(ledger_of(world).look(ask_state(), 15)) == 30
        # Without its archive the ledger is not believed.
        says = r"^cluster local: .*3 records in the archive.*Nothing was sent"
        with pytest.raises(LedgerGone, match=says):
            ledger_of(world, folder=False).look(ask_state(["old"]), 15)
        for shard in world.root.glob("runs/*/ledger.local/archive/shards/*"):
            shard.write_bytes(shard.read_bytes()[:-1])
        with pytest.raises(LedgerGone, match=says):
            ledger_of(world).look(ask_state(["old"]), 15)

    def test_an_archiving_that_is_overtaken_inside_its_transaction_cannot_commit(
        self, world, monkeypatch
    ):
        ledger_of(world)._append(CHUNKS, [chunk(world, "old")])
        commit = Transactions.commit

        def late(transactions, until):
            fence_earlier_runs(ledger_of(world), settings_of(world), Generation("meanwhile", 1, 1))
            commit(transactions, until)

        monkeypatch.setattr(Transactions, "commit", late)
        with pytest.raises(ClusterError, match="could be removed"):
            self.archive(world)
        monkeypatch.undo()
        assert len(ledger_of(world).look(ask_files(), 15).archived) == 0
        assert self.archive(world).moved == 1


@pytest.mark.spark
@pytest.mark.long
def test_an_archived_window_that_is_run_again_sends_nothing_and_the_commands_say_what_is_there(
    world,
):
    world.write_log("a.log", b"one\ntwo\n")
    world.write_log("b.log", b"three\n")
    world.run()
    assert (
        command(world, "show")["local"]["windows"]["2026-11-01T00:00:00Z/2026-11-02T00:00:00Z"][
            "complete"
        ]
        == 2
    )
    for arguments, says in ((["2026-11-02"], "--local"), (["2099-01-01", "--local"], "--yes")):
        refused = world.shipper("ledger", "archive", world.name, "--before", *arguments)
        assert refused.returncode == 2
        assert says in refused.stderr
    moved = command(world, "archive", "--before", "2026-11-02", "--local")
    assert (moved["moved"], moved["left"]) == (2, 0)
    assert command(world, "verify")["local"] == {
        "chunks_end": moved_end(world),
        "snapshot": True,
        "findings": [],
    }

    again = world.run()
    assert (again["delivered"], again["before"]) == (0, 3)
    assert world.run("--reship", "--reason", "another transform")["delivered"] == 3
    assert world.run()["delivered"] == 0
    assert world.read() == Counter({b"one": 2, b"two": 2, b"three": 2})

    document = command(world, "show", "--files")["local"]
    assert [
        (file["path"].rsplit("/", 1)[1], file["records"], file["complete"])
        for file in document["files"]
    ] == [("a.log", 2, 1), ("b.log", 1, 1)]
    assert sorted(
        (row["path"].rsplit("/", 1)[1], row["records"], row["invalidated"])
        for row in document["chunks"]
    ) == [("a.log", 2, False), ("b.log", 1, False)]
    shutil.rmtree(world.root / "runs" / world.name / "ledger.local")
    world.fails(code=1, says="cluster local: the ledger .* in the archive .*runs_uri")
    said = world.shipper("ledger", "show", world.name)
    assert said.returncode == 1
    assert "in the archive" in said.stderr
    # If it is lost for good: the tombstone that the page writes.
    page = (Path(__file__).parents[2] / "docs/how-to/recover-a-ledger.md").read_text()
    [key] = re.findall(r"printf '(.*)\|\\n' \| kcat -P .* -p 1 ", page)
    producer = Producer({"bootstrap.servers": world.bootstrap})
    key = key.replace("web_access", world.name)
    producer.produce(ledger_of(world).topic, None, key.encode(), partition=CHUNKS)
    assert producer.flush(30) == 0
    assert world.run()["before"] == 3, "those of the reship, which were not archived"


def moved_end(world):
    return ledger_of(world).look(ask_files(), 15).chunks_end


def command(world, *arguments):
    done = world.shipper("ledger", arguments[0], world.name, *arguments[1:], "--json")
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def test_verify_names_what_is_wrong_and_fails(world):
    ledger = ledger_of(world)
    ledger._append(
        CHUNKS,
        [
            chunk(world, "overlap", 0, end=False),
            chunk(world, "overlap", 5, last=15, digest="other"),
            chunk(world, "unfinished", end=False),
            encode_chunk(
                world.name, ChunkKey(SplitId(FileId("gone", 1, 5), 0), 0, "no.such.topic"), VALUE
            ),
        ],
    )
    done = world.shipper("ledger", "verify", world.name, "--json")
    assert done.returncode == 1
    found = json.loads(done.stdout)["local"]["findings"]
    assert {
        (finding["severity"], finding["code"], finding["subject"].split()[0]) for finding in found
    } == {
        ("fail", "overlap", "overlap"),
        ("fail", "digests", "overlap"),
        ("warn", "gap", "overlap"),
        ("warn", "gap", "unfinished"),
        ("fail", "topic", "no.such.topic"),
    }


def damaged_places(world):
    done = world.shipper("ledger", "verify", world.name, "--json")
    found = json.loads(done.stdout)["local"]["findings"]
    places = {
        finding["subject"].split()[-1]: finding["severity"]
        for finding in found
        if finding["code"] == "damage"
    }
    return done.returncode, places


class TestRepair:
    """Somebody else has written into the ledger: with a key that is none, and over a chunk's
    record."""

    def test_damage_is_named_and_taken_out_of_the_way_and_no_chunk_is_forgotten(self, world):
        ledger = ledger_of(world)
        key, _ = chunk(world, "a")
        world.client.append(
            ledger.topic, CHUNKS, [chunk(world, "a"), (b"hello", b"{}"), (key, b'{"last":"x"}')]
        )
        world.client.append(
            ledger.topic,
            CONTROL,
            [
                (
                    f'[1,"generation","{world.name}","local",""]'.encode(),
                    b'{"run_id":"x","tasks":1000000,"lanes":1000000}',
                )
            ],
        )
        said = world.shipper("ledger", "show", world.name)
        assert said.returncode == 1
        assert "Traceback" not in said.stderr
        repair = ("ledger", "repair", world.name, "--cluster", "local", "--record")
        assert f"shipper {' '.join(repair)} 0:0" in said.stderr
        places = ["0:0", "1:1", "1:2"]
        assert damaged_places(world) == (1, dict.fromkeys(places, "fail"))

        assert world.shipper(*repair, "1:0").returncode == 2
        restored = {}
        for place in places:
            if place == "1:2":  # of a chunk's value: found by whom the file concerns, not by all
                said = world.shipper("ledger", "show", world.name)
                assert f"shipper {' '.join(repair)} {place}" in said.stderr
            done = world.shipper(*repair, place, "--json")
            assert done.returncode == 0, done.stderr
            restored[place] = json.loads(done.stdout)["restored"]
        assert restored == {"0:0": None, "1:1": None, "1:2": 0}
        assert damaged_places(world) == (0, {})
        # What the damaged record had replaced is there again, behind it: compaction cannot take it
        # away.
        behind = [
            r
            for r in ledger_of(world).look(ask_partition(CHUNKS))
            if r.key == key and r.offset >= 3
        ]
        assert [record.value for record in behind] == [chunk(world, "a")[1]]
        state = ledger_of(world).look(ask_state(), 15)
        assert records_there(state) == 10
        assert set(state.control.to_fence().values()) <= {(1, 1)}, (
            "what the forged generation claimed is not fenced"
        )

        # What cannot be found any more is forgotten only when somebody says so.
        lost, _ = chunk(world, "lost")
        (at,) = world.client.append(ledger.topic, CHUNKS, [(lost, b"[]")])
        drop = (*repair, f"1:{at}")
        refused = world.shipper(*drop)
        assert refused.returncode == 2
        assert "sent again" in refused.stderr
        assert world.shipper(*drop, "--forget").returncode == 0
        assert records_there(ledger_of(world).look(ask_state(), 15)) == 10


@pytest.mark.spark
@pytest.mark.long
def test_a_damaged_ledger_and_a_missing_one_stop_their_clusters_alone_and_moved_files_stay_shipped(
    world,
):
    """Three clusters, on one broker: the ledgers are three topics."""
    names = ["local", "other", "third"]
    for name in names[1:]:
        text = (
            f"cluster: {name}\nbootstrap: {world.bootstrap}\nledger: {{replication_factor: 1, "
            f"topic: '{name}.{{pipeline}}'}}\n"
        )
        (world.root / "config" / "clusters" / f"{name}.yaml").write_text(text)
    world.write_pipeline(clusters=names)
    world.write_log("a.log", b"one\ntwo\n")

    def run(*arguments, code):
        ships = world.report(*arguments, code=code).ships
        sent = {ship.cluster: ship.delivered for ship in ships if ship.status == "succeeded"}
        return sent, {ship.cluster: ship.error for ship in ships if ship.error}

    assert run(code=0)[0] == dict.fromkeys(names, 2)

    world.client.append(ledger_of(world).topic, CHUNKS, [(b"hello", b"{}")])
    gone = f"other.{world.name}"
    world.delete_topic(gone)
    world.write_log("b.log", b"three\n")
    found, errors = run(code=1)
    assert found == {"third": 1}
    places = re.findall(r"ledger repair \S+ --cluster local --record (1:\d+)", errors["local"])
    assert places, errors
    assert "--new-ledger" in errors["other"]
    assert gone not in world.client.topics(), "it is not made anew unasked"
    for look in (["doctor", world.name], ["ledger", "show", world.name]):
        done = world.shipper(*look)
        assert done.returncode != 0
        assert "SHIP-503" in " ".join((done.stdout + done.stderr).split()), look
        assert "secure-a-cluster" not in done.stdout, "no right is missing"

    assert (
        world.shipper(
            "ledger", "repair", world.name, "--cluster", "local", "--record", places[0]
        ).returncode
        == 0
    )
    # The files are moved, with their times, and one is new. What was shipped from there is not
    # shipped again from here.
    shutil.move(world.logs, world.root / "elsewhere")
    world.logs = world.root / "elsewhere"
    world.write_log("c.log", b"four\n")
    world.write_pipeline(clusters=names, source={"path": "elsewhere", "settle": "0s"})
    assert run("--new-ledger", code=0)[0] == {"local": 2, "other": 4, "third": 1}
    assert world.read() == Counter({b"one": 4, b"two": 4, b"three": 3, b"four": 3})
    assert command(world, "show", "--cluster", "other")["other"]["identity"][
        "instead_of"
    ].startswith(gone)
    assert world.shipper("ledger", "verify", world.name).returncode == 0


@pytest.mark.long
def test_a_ledger_that_was_made_anew_is_no_ground_to_change_anything(world):
    """It knows nothing of what was archived and quarantined before it."""
    world.write_log("a.log", b"one\n")
    world.run()
    topic = ledger_of(world).topic
    world.delete_topic(topic)
    ledger_of(world)

    for command in (
        ("ledger", "archive", world.name, "--before", "1d"),
        ("ledger", "repair", world.name, "--cluster", "local", "--record", "1:0"),
    ):
        done = world.shipper(*command)
        assert done.returncode == 1, (command, done.stderr[-2000:])
        assert f"the ledger topic {topic} was made anew" in " ".join(done.stderr.split())
    verified = world.shipper("ledger", "verify", world.name, "--json")
    assert verified.returncode == 1
    [finding] = json.loads(verified.stdout)["local"]["findings"]
    assert (finding["severity"], finding["code"], finding["subject"]) == ("fail", "ledger", topic)


def produce(lane, topic, record):
    key, value = record
    lane.produce(topic, value, key, CHUNKS)
