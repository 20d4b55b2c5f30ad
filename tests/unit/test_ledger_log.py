"""When a snapshot is used, when it is not, and what it costs. The log is in memory;
tests/integration has a real one."""

import logging
from dataclasses import replace
from functools import cache

import pytest

from shipper.ledger.codec import (
    EncodedRecord,
    encode_alias,
    encode_attempt,
    encode_chunk_key,
    encode_chunk_value,
    encode_invalidation,
    encode_lease,
)
from shipper.ledger.heads import head_of
from shipper.ledger.inventory import Inventory, differences, entries, findings
from shipper.ledger.log import CONTROL_NOW, LedgerLog, ask_files, ask_heads, ask_state
from shipper.ledger.records import (
    CHUNKS,
    CONTROL,
    Alias,
    Attempt,
    AttemptKey,
    ChunkKey,
    Invalidation,
    Lease,
)
from shipper.ledger.snapshot import SHARD_RECORDS, LedgerFolder
from shipper.types import FileId, LogRecord, SplitId
from tests.doubles.memory_log import MemoryLog
from tests.samples.config import cluster_of
from tests.samples.ledger import announced, chunk_value

CLUSTER = cluster_of()
# Thousands of chunks have the same value.
encoded_value = cache(encode_chunk_value)
VALUE = chunk_value(generation=3)


@pytest.fixture
def log():
    return MemoryLog()


@pytest.fixture
def folder(tmp_path):
    return LedgerFolder(str(tmp_path), "web", "c")


@pytest.fixture
def opened(log, folder):
    return lambda: LedgerLog(log, CLUSTER, "web", folder)


def chunk(path, first=0, *, start=0, topic="t", **changes):
    key = ChunkKey(SplitId(FileId(path, 100, 5), start), first, topic)
    return EncodedRecord(
        encode_chunk_key("web", key), encoded_value(replace(VALUE, **changes) if changes else VALUE)
    )


def ship(log, *paths):
    log.append("t", CHUNKS, [chunk(path) for path in paths])


def test_a_task_reads_what_runs_said_from_its_own_generation_on(log):
    """Whatever a year of runs said before, and whatever compaction has left of it."""
    for _ in range(1000):
        log.append(
            "t",
            CONTROL,
            [announced("earlier"), encode_attempt("web", AttemptKey(0, 0, 7), Attempt())],
        )
    (generation,) = log.append("t", CONTROL, [announced("mine")])
    log.append("t", CONTROL, [encode_attempt("web", AttemptKey(generation, 0, 8), Attempt())])
    control = LedgerLog(log, CLUSTER, "web", generation=generation).look(CONTROL_NOW)
    assert (control.generation, control.attempts) == (generation, {0: [8]})
    assert log.reads == 2
    assert LedgerLog(log, CLUSTER, "web").look(CONTROL_NOW).attempts == control.attempts
    log.append("t", CONTROL, [announced("later")])
    assert (
        LedgerLog(log, CLUSTER, "web", generation=generation).look(CONTROL_NOW).generation
        == generation + 2
    )


def paths_of(state):
    return {split.file.path for split in state.chunks.splits}


def manifests(folder):
    return sorted(name for name in folder.snapshots._manifest_names())


class TestUsingASnapshot:
    def test_a_window_opens_the_shards_of_its_own_paths_only(self, log, opened, folder, tmp_path):
        ship(log, *(f"{n:05}" for n in range(5 * SHARD_RECORDS)))
        made = opened().keep_snapshot()
        assert len(made.shards) == 5
        needed = {shard.name for shard in made.covering({"00001", "00002"})}
        for path in (tmp_path / "web" / "ledger.c" / "snapshot" / "shards").iterdir():
            if path.name not in needed:
                path.unlink()
        log.reads = 0
        assert len(paths_of(opened().look(ask_state({"00001", "00002"}), 1))) == 2
        assert log.reads == 1, "the one that names the snapshot"

    def test_the_search_for_renamed_files_opens_the_shards_of_alike_ones_only(
        self, log, opened, tmp_path
    ):
        of = [f"{n:05}" for n in range(6 * SHARD_RECORDS)]
        log.append(
            "t", CHUNKS, [chunk(path, head=head_of(b"begins " + path.encode())) for path in of]
        )
        alias = Alias(
            "06001", 100, 5, whole=True, sum="9:0123456789abcdef", read=9, generation=1, run_id="r",
            window="w", records={}, topic_ids={}, head=head_of(b"alias"),
        )  # fmt: skip
        log.append("t", CHUNKS, encode_alias("web", FileId("06002", 200, 5), alias))
        made = opened().keep_snapshot()
        needed = {shard.name for shard in made.covering({"00001", "04001", "06002"})}
        assert (len(needed), len(made.shards)) == (3, 7)
        for path in (tmp_path / "web" / "ledger.c" / "snapshot" / "shards").iterdir():
            if path.name not in needed:
                path.unlink()
        log.reads = 0
        heads = [head_of(each) for each in (b"begins 00001", b"begins 04001", b"else", b"alias")]
        found = opened().look(ask_heads(set(heads)), 1).found
        assert [{file.path for file in found.get(head, ())} for head in heads] == [
            {"00001"},
            {"04001"},
            set(),
            {"06002"},
        ]
        assert log.reads == 1, "the one that names the snapshot"

    def test_old_ones_are_removed_but_the_one_before(self, log, opened, folder, tmp_path):
        for n in range(5):
            ship(log, f"{n}")
            opened().keep_snapshot(longer_than=0)
        assert len(manifests(folder)) == 2
        assert len(list((tmp_path / "web" / "ledger.c" / "snapshot" / "shards").iterdir())) == 2


class TestNotUsingASnapshot:
    def lose(self, log, opened, caplog):
        """The state must be right, and somebody must be told why it took long."""
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            found = paths_of(opened().look(ask_state(), 1))
        return found, caplog.text

    def test_a_topic_that_has_lost_its_end_is_not_what_the_snapshot_says(self, log, opened, caplog):
        ship(log, "a", "b", "c")
        opened().keep_snapshot(longer_than=0)
        log._records[CHUNKS].pop()
        log._ends[CHUNKS] -= 1
        found, said = self.lose(log, opened, caplog)
        assert found == {"a", "b"}
        assert "it ends at offset 3 of partition 1" in said

    def test_what_somebody_else_puts_beside_the_runs_is_not_believed(
        self, log, opened, folder, caplog
    ):
        """Whole, with the right ids and checksums; but the ledger does not name it."""
        ship(log, "a")
        key, value = chunk("never shipped")
        records = {"never shipped": {key: LogRecord(0, 0, key, value)}}
        opened().keep_snapshot(longer_than=0)
        folder.snapshots.write(
            None, records, opened().origin(), log.end_offset("t", CONTROL), 1, []
        )
        found, said = self.lose(log, opened, caplog)
        assert (found, said) == ({"a"}, ""), "the one before serves"
        assert opened().look(CONTROL_NOW).generation == -1

    def test_a_snapshot_whose_writer_was_killed_before_it_named_it_leaves_the_one_before(
        self, log, opened, tmp_path
    ):
        """Whoever asks, and whatever is asked first."""
        of = [f"{n:05}" for n in range(3)]
        log.append("t", CHUNKS, [chunk(path, head=head_of(path.encode())) for path in of])
        first = opened().keep_snapshot(longer_than=0)
        ship(log, "d")
        killed = opened()
        killed.write_control = lambda records: None
        killed.keep_snapshot(longer_than=0)
        log.reads = 0
        asked = opened()
        assert asked.look(ask_heads({head_of(b"00001")}), 1).found.keys() == {head_of(b"00001")}
        assert asked.look(ask_state(), 1).chunks_end == 4
        assert asked.snapshot() == first
        assert log.reads <= 6, "what came after it, for each question"
        assert paths_of(asked.look(ask_state(), 1)) == {*of, "d"}
        assert asked.keep_snapshot(longer_than=0).records == 4

    def test_brokers_that_give_topics_no_id_get_none(self, log, opened):
        log.topic_id = ""
        ship(log, "a")
        assert opened().keep_snapshot(longer_than=0) is None
        assert paths_of(opened().look(ask_state(), 1)) == {"a"}


class Brokers(MemoryLog):
    """Remembers how a topic was made."""

    def __init__(self, count):
        super().__init__()
        self.count, self.made = count, []

    def brokers(self):
        return self.count

    def create_topics(self, topics, settings, replication_factor):
        self.made.append((topics, settings, replication_factor))


@pytest.mark.parametrize(
    ("brokers", "asked", "replicas", "min_insync"),
    [
        (1, None, 1, None),
        (2, None, 2, None),
        (3, None, 3, "2"),
        (12, None, 3, "2"),
        (12, 5, 5, "2"),
        (3, 1, 1, None),
    ],
)
def test_a_ledger_is_made_with_three_replicas_of_which_two_must_have_each_record(
    brokers, asked, replicas, min_insync
):
    """As far as there are brokers, unless the cluster's file says otherwise. With less than three
    replicas a second one in sync would mean that nothing is shipped while one broker restarts."""
    log = Brokers(brokers)
    cluster = cluster_of(ledger={"replication_factor": asked} if asked else {})
    LedgerLog(log, cluster, "web").create()
    [(topics, settings, replication_factor)] = log.made
    assert topics == {"_shipper.web": 2}
    assert (replication_factor, settings.get("min.insync.replicas")) == (replicas, min_insync)
    assert settings["cleanup.policy"] == "compact"


class TestInventory:
    def read(self, log, opened, *records, control=()):
        log.append("t", CONTROL, control)
        log.append("t", CHUNKS, records)
        return opened().look(ask_files(), 1)

    def found(self, read, starts=(0,)):
        return [
            (finding.severity, finding.code)
            for of_path in entries(read)
            for finding in findings(of_path, lambda file: starts)
        ]

    @pytest.mark.parametrize(
        ("records", "kinds"),
        [
            (
                [chunk("a", 0, last=10, end=False), chunk("a", 5, last=15, records=5)],
                {"overlap", "gap"},
            ),
            ([chunk("a", 0, last=10), chunk("a", 0, topic="u", last=10)], {"count"}),
            ([chunk("a", 0, records=11, last=10, end=False)], {"count", "gap"}),
            ([chunk("a", 0, last=10), chunk("a", 10, last=20)], {"ends"}),
            ([chunk("a", 0, last=10), chunk("a", 10, last=20, end=False)], {"ends", "count"}),
            ([chunk("a", 0, last=10, end=False), chunk("a", 10, last=20, digest="e")], {"digests"}),
            ([chunk("a", 0, last=10, end=False)], {"gap"}),
            ([chunk("a", 0, last=10, records=3)], {"gap"}),
        ],
    )
    def test_what_contradicts_itself_is_named(self, log, opened, records, kinds):
        found = self.found(self.read(log, opened, *records))
        assert {kind for _, kind in found} == kinds
        assert all((severity == "warn") == (kind == "gap") for severity, kind in found)

    def test_what_is_invalidated_is_neither_counted_nor_wrong(self, log, opened):
        void = encode_invalidation("web", FileId("a", 100, 5), 4, Invalidation("again"))
        read = self.read(
            log,
            opened,
            chunk("a", digest="other"),
            chunk("a", 0, topic="u", generation=4),
            control=[void],
        )
        assert self.found(read) == []
        assert [entry.invalidated for of_path in entries(read) for entry in of_path] == [
            True,
            False,
        ]

    def test_a_snapshot_that_differs_from_the_topic_is_found(self, log, opened):
        ship(log, "a", "b", "c")
        opened().keep_snapshot(longer_than=0)
        assert (
            list(
                differences(
                    opened().look(ask_files(), 1), opened().records_of_topic(wait_seconds=1)
                )
            )
            == []
        )
        changed = log._records[CHUNKS][1]
        log._records[CHUNKS][1] = changed._replace(value=chunk("b", records=9)[1])
        del log._records[CHUNKS][2]
        before = opened().look(ask_files(), 1)
        ship(log, "a", "later")  # what comes between the two readings is no difference
        assert [
            finding.subject
            for finding in differences(before, opened().records_of_topic(wait_seconds=1))
        ] == ["b", "c"]

    @pytest.mark.parametrize(
        ("there", "today", "complete", "text"),
        [
            ([0, 70], [0], True, None),
            ([0, 70], [0, 40, 80, 120], True, None),
            ([0], [0], False, "of 1 of the 2 splits that it was cut into"),
            ([70], [0, 70], False, "nothing yet of the splits at bytes 0"),
        ],
        ids=[
            "cut-once-now",
            "cut-smaller-now",
            "half-of-it-and-cut-once-now",
            "half-of-it-and-cut-likewise",
        ],
    )
    def test_a_file_is_complete_by_the_splits_that_it_had_when_it_was_shipped(
        self, log, opened, there, today, complete, text
    ):
        """Its chunks say that it was cut into two; `split_size`, or `ordering`, may have been
        changed since."""
        read = self.read(
            log, opened, *(chunk("a", 0, start=start, last=10, splits=2) for start in there)
        )
        inventory = Inventory()
        for of_path in entries(read):
            inventory.add(of_path, "web")
        [tally] = inventory.files.values()
        assert (tally.complete, inventory.windows["w"].complete) == (complete, complete)
        found = [
            finding
            for of_path in entries(read)
            for finding in findings(of_path, lambda file: today)
        ]
        assert [(finding.severity, finding.code) for finding in found] == (
            [] if complete else [("warn", "gap")]
        )
        assert text is None or text in found[0].text


def test_claims_are_in_the_order_of_their_renewal(log, opened):
    leases = [encode_lease("web", Lease(run, "h", 1, True, 9.0)) for run in "aba"]
    log.append("t", CONTROL, leases)
    assert [claim.lease.run_id for claim in opened().look(CONTROL_NOW).claims()] == ["b", "a"]
