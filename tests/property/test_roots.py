"""A source that moves: the same file under another host, mount or scheme is the same file, and
nothing is sent twice."""

import uuid
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shipper.ledger.codec import encode_chunk, encode_generation, encode_invalidation
from shipper.ledger.log import LedgerLog, ask_files, ask_state
from shipper.ledger.quarantined import RecordPosition, in_quarantine
from shipper.ledger.records import (
    CHUNKS,
    CONTROL,
    ChunkKey,
    Generation,
    GenerationKey,
    Invalidation,
)
from shipper.ledger.roots import Roots
from shipper.ledger.snapshot import LedgerFolder
from shipper.types import FileId, SplitId
from shipper.windows.window import source_root
from tests.doubles.memory_log import MemoryLog
from tests.samples.config import cluster_of
from tests.samples.decisions import decided
from tests.samples.ledger import chunk_value

CLUSTER = cluster_of()
OLD, NEW = "hdfs://nn1:8020/logs/web/", "hdfs://logs/web/"
VALUE = chunk_value(generation=0)


def chunk(path, first=0, last=10, **changes):
    value = replace(VALUE, last=last, records=last - first, **changes)
    return encode_chunk("web", ChunkKey(SplitId(FileId(path, 100, 5), 0), first, "t"), value)


class World:
    def __init__(self):
        self.log = MemoryLog()
        self.folder = LedgerFolder(f"memory://{uuid.uuid4().hex}", "web", "c")

    def opened(self, root=NEW, formerly=None):
        ledger = LedgerLog(self.log, CLUSTER, "web", self.folder)
        ledger.lies_at(root, formerly)
        return ledger

    def record(self, run_id, root=NEW):
        self.opened(root).write_control(
            [
                encode_generation(
                    "web", GenerationKey("c", run_id), Generation(run_id, 1, 1, (root,))
                )
            ]
        )

    def left(self, name="06/a.log", root=NEW, formerly=None, size=100, **options):
        file = FileId(root + name, size, 5)
        state = self.opened(root, formerly).look(ask_state([file.path]))
        return decided([file], state.chunks, **options)


@pytest.fixture
def world():
    made = World()
    made.record("r1", OLD)
    return made


def test_what_was_shipped_from_the_old_root_is_not_shipped_from_the_new_one(world):
    world.log.append("t", CHUNKS, [chunk(OLD + "06/a.log")])
    assert len(world.left().complete) == 1
    world.record("r2")
    assert len(world.left().complete) == 1
    assert len(world.left(root=OLD).complete) == 1, "and back again"


def test_the_configuration_can_say_where_files_lay_or_that_they_are_others(world):
    world.log.append("t", CHUNKS, [chunk("s3a://old/x/06/a.log"), chunk(OLD + "06/b.log")])
    assert len(world.left(formerly=("s3a://old/x/",)).complete) == 1
    assert len(world.left("06/b.log").complete) == 1
    assert len(world.left("06/b.log", formerly=()).left) == 1


def test_a_longer_or_a_shorter_pattern_over_the_same_folders_moves_no_file(world):
    world.log.append("t", CHUNKS, [chunk(OLD + "06/a.log")])
    assert len(world.left("web/06/a.log", root="hdfs://nn1:8020/logs/").complete) == 1
    world.record("r2", "hdfs://nn1:8020/logs/")
    assert len(world.left(root=OLD).complete) == 1


def test_what_lies_in_the_snapshot_or_in_quarantine_is_found_under_either_path(world):
    quarantined = {"reasons": {"unparseable": 1}, "ordinals": "3"}
    key = ChunkKey(SplitId(FileId(OLD + "06/a.log", 100, 5), 0), 3, "q")
    world.log.append(
        "t", CHUNKS, [encode_chunk("web", key, replace(VALUE, last=4, records=1, **quarantined))]
    )
    assert world.opened(OLD).keep_snapshot(longer_than=0) is not None
    world.record("r2")
    assert sum(world.left().records.values()) == 1
    for root in (OLD, NEW):
        place = RecordPosition(root + "06/a.log", 0, 4)
        known = in_quarantine(world.opened(None).look(ask_files({place.file})))
        assert known.find(place) is not None


names = st.sampled_from(["06/a", "06/b", "web/a", "a"])
roots = st.sampled_from([OLD, NEW, "file:/mnt/"])
steps = st.tuples(
    st.sampled_from([CHUNKS, CHUNKS, CONTROL, "snapshot"]), roots, names, st.integers(0, 2)
)


@given(st.lists(steps, max_size=12))
@example(
    [
        (CHUNKS, OLD, "a", 0),
        ("snapshot", NEW, "a", 0),
        (CONTROL, NEW, "a", 0),
        (CHUNKS, "file:/mnt/", "a", 0),
    ]
)
def test_a_ledger_over_several_roots_says_what_one_over_the_last_root_says(history):
    moved, still = World(), World()
    recorded = [
        encode_generation("web", GenerationKey("c", "r"), Generation("r", 1, 1, (root,)))
        for root in (OLD, "file:/mnt/", NEW)
    ]
    for each in (moved, still):
        each.log.append("t", CONTROL, recorded)
    for generation, (what, root, name, first) in enumerate(
        history
    ):  # generations grow: they are offsets
        if what == "snapshot":
            made = moved.opened().keep_snapshot(longer_than=0)
            for each in (still,) if made else (moved, still):
                each.log.skip(CONTROL)
            continue
        for each, at in ((moved, root), (still, NEW)):
            path = at + name
            if what == CHUNKS:
                each.log.append(
                    "t", CHUNKS, [chunk(path, first, first + 1, end=False, generation=generation)]
                )
            else:
                each.log.append(
                    "t",
                    CONTROL,
                    [
                        encode_invalidation(
                            "web", FileId(path, 100, 5), generation, Invalidation("r")
                        )
                    ],
                )
    for paths in (None, [NEW + "06/a", NEW + "a"]):
        found, expected = (each.opened().look(ask_state(paths)) for each in (moved, still))
        assert found.invalidated == expected.invalidated
        assert found.chunks.splits == expected.chunks.splits
        assert found.chunks.files_of_path == expected.chunks.files_of_path


@pytest.mark.parametrize(
    ("pattern", "root"),
    [
        ("s3a://logs/web/{window_start:%Y/%m/%d/%H}/", "s3a://logs/web/"),
        ("s3a://logs/web-{window_start:%Y}/x", "s3a://logs/"),
        ("/data/*/x.log", "/data/"),
        ("/data/web", "/data/web/"),
        ("/data/web/", "/data/web/"),
        ("hdfs://nn/{a,b}/[0-9]", "hdfs://nn/"),
        ("s3a://logs-{window_start:%Y}/x/", ""),
    ],
)
def test_the_root_is_what_is_in_front_of_the_first_placeholder_or_glob(pattern, root):
    assert source_root(pattern) == root


def test_of_two_roots_one_in_the_other_the_longer_one_counts():
    found = Roots("c:/", ("a:/", "a:/b/"))
    assert found.now("a:/b/x") == "c:/x"
    assert found.now("a:/x") == "c:/x"
    assert found.now("d:/x") == "d:/x"
