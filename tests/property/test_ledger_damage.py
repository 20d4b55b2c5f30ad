"""Whatever somebody writes into a ledger: a record that can be used, or LedgerDamaged; nothing
else, and nothing without bounds."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shipper.errors import LedgerDamaged, LedgerGone, LedgerOutdated, SourceError
from shipper.ledger.codec import decode, encode_chunk, encode_generation, encode_lease
from shipper.ledger.control import Control
from shipper.ledger.inventory import Inventory, entries, figures, findings
from shipper.ledger.log import CONTROL_NOW, LedgerLog, ask_committed, ask_files, ask_state
from shipper.ledger.records import (
    CHUNKS,
    CONTROL,
    MOST_LANES,
    MOST_LEASE_SECONDS,
    MOST_TASKS,
    ChunkKey,
    Generation,
    GenerationKey,
    Lease,
)
from shipper.types import FileId, LogRecord, SplitId
from tests.doubles.memory_log import MemoryLog
from tests.samples.config import cluster_of
from tests.samples.decisions import decided
from tests.samples.ledger import chunk_value

CLUSTER = cluster_of()
FILE = FileId("file:/logs/a", 10, 5)
VALUE = chunk_value(last=5, records=5, bytes=9, generation=0)

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
kinds = st.sampled_from(
    [
        "chunk",
        "invalidation",
        "generation",
        "fenced",
        "lease",
        "attempt",
        "archive",
        "identity",
        "snapshot",
        "later",
    ]
)
# Near misses: the right kind and pipeline, and fields of which some are right.
parts = st.sampled_from(
    ["file:/logs/a", "\ud800", "t", "", 0, 1, 5, 10, -1, 2**63, 2**70, 1.5, True, None, [], {}]
)
near_keys = st.builds(
    lambda format, kind, owner, rest: json.dumps([*format, kind, owner, *rest]).encode(),
    st.sampled_from([[1], [1], [1], [], [2], ["1"]]),
    kinds,
    st.sampled_from(["web", "other"]),
    st.lists(parts, max_size=7),
)
right_keys = st.sampled_from(
    [
        encode_chunk("web", ChunkKey(SplitId(FILE, 0), 3, "t"), VALUE)[0],
        b'[1,"generation","web","c",""]',
        b'[1,"fenced","web","c",0]',
        b'[1,"lease","web","r"]',
        b'[1,"attempt","web",0,1,1]',
        b'[1,"invalidation","web","file:/logs/a",10,5,3]',
        b'[1,"archive","web"]',
        b'[1,"identity","web"]',
        b'[1,"snapshot","web"]',
    ]
)
NAMES = """last end records bytes checksum digest generation run_id window partition wire_bytes parked reasons ordinals
without filtered splits spark etag read replay topic tasks lanes host pid held seconds attempt ended manifest sha256 entries
before by at reason instead_of later"""  # noqa: E501
names = st.sampled_from(NAMES.split())

near_values = st.builds(
    lambda fields: json.dumps(fields).encode(),
    st.dictionaries(
        names,
        parts | st.sampled_from(["1-2", "2-1", "1,1", "r", {"x": 1}, ["t"], 1e12]),
        max_size=14,
    ),
)
right_values = st.sampled_from(
    [
        encode_chunk("web", ChunkKey(SplitId(FILE, 0), 0, "t"), VALUE)[1],
        encode_generation("web", GenerationKey("c", "r"), Generation("r", 4, 4))[1],
        encode_lease("web", Lease("r", "h", 1, True, 9.0))[1],
    ]
)
keys = (
    st.binary(max_size=20)
    | st.builds(lambda found: json.dumps(found).encode(), anything)
    | near_keys
    | right_keys
)
values = (
    st.none()
    | st.binary(max_size=20)
    | st.builds(lambda found: json.dumps(found).encode(), anything)
    | near_values
    | right_values
)


@settings(max_examples=4 * settings().max_examples)
@given(keys, values)
def test_any_bytes_are_a_record_or_damage(key, value):
    found = None
    try:
        decode("web", LogRecord(7, 0, key, value))
    except LedgerDamaged as damage:
        found = damage
    assert found is None or (found.offset == 7 and "ledger repair web" in found.message)


@pytest.mark.parametrize(
    "key",
    [
        b"[" * 100_000,
        b'[1,"chunk","web",' + b"[" * 100_000,
        b'[1,"chunk","web","a",' + b"9" * 5000 + b"]",
    ],
)
def test_nesting_and_length_are_no_way_out(key):
    with pytest.raises(LedgerDamaged):
        decode("web", LogRecord(7, 0, key, b"{}"))
    with pytest.raises(LedgerDamaged):
        decode("web", LogRecord(7, 0, b'[1,"archive","web"]', key))


@given(st.lists(st.tuples(st.sampled_from([CONTROL, CHUNKS]), keys, values), max_size=6))
def test_nobody_who_reads_a_ledger_meets_anything_but_damage(written):
    log = MemoryLog()
    for partition, key, value in written:
        log.append("t", partition, [(key, value)])
    ledger = LedgerLog(log, CLUSTER, "web")
    try:
        control = ledger.look(CONTROL_NOW)
        read = ledger.look(ask_files())
        state = ledger.look(ask_state())
        inventory = Inventory()
        for of_path in entries(read):
            list(findings(of_path, lambda file: [0]))
            inventory.add(of_path, "web")
        figures(state.chunks, [FILE], {0})
        decided([FILE], state.chunks)
    except (LedgerDamaged, LedgerOutdated, LedgerGone, SourceError):
        return
    assert all(
        tasks <= MOST_TASKS and lanes <= MOST_LANES for tasks, lanes in control.to_fence().values()
    )


def test_no_lease_is_believed_for_longer_than_a_day():
    forged = LogRecord(0, 0, *encode_lease("web", Lease("evil", "h", 1, True, 1e12)))
    asking = LogRecord(
        1,
        int(MOST_LEASE_SECONDS * 1000) + 1,
        *encode_lease("web", Lease("me", "h", 1, False, 30.0)),
    )
    assert Control("web").feed([forged, asking]).holder("me").run_id == "me"


class TestMended:
    """A damaged record behind which a person has written what its key said before, or a
    tombstone."""

    def ledger(self, *chunks, control=()):
        log = MemoryLog()
        log.append("t", CHUNKS, chunks)
        log.append("t", CONTROL, control)
        return log, LedgerLog(log, CLUSTER, "web")

    def good(self, **fields):
        return encode_chunk("web", ChunkKey(SplitId(FILE, 0), 0, "t"), VALUE)

    def test_a_foreign_record_stops_every_reader_until_it_is_mended(self):
        log, ledger = self.ledger(self.good(), (b"hello", b"{}"))
        for question in (ask_state(), ask_committed(0)):
            with pytest.raises(
                LedgerDamaged, match=r"cluster c: topic _shipper\.web.* 1:1: .*--record 1:1"
            ):
                ledger.look(question)
        log.append("t", CHUNKS, [(b"hello", None)])
        assert len(ledger.look(ask_state()).chunks.splits) == 1
        assert len(ledger.look(ask_committed(0))) == 1

    def test_a_chunk_that_somebody_wrote_over_counts_again_once_it_is_restored(self):
        log, ledger = self.ledger(self.good(), (self.good().key, b"{}"))
        with pytest.raises(LedgerDamaged):
            ledger.look(ask_state())
        log.append("t", CHUNKS, [self.good()])
        assert len(ledger.look(ask_state()).chunks.splits) == 1

    def test_a_mended_record_of_the_control_partition_is_passed_over_by_who_had_stumbled_over_it(
        self,
    ):
        log, ledger = self.ledger(
            control=[
                (b"hello", b"{}"),
                encode_generation("web", GenerationKey("c", "r"), Generation("r", 2, 2)),
            ]
        )
        for _ in range(2):
            with pytest.raises(LedgerDamaged):
                ledger.look(CONTROL_NOW)
        log.append("t", CONTROL, [(b"hello", None)])
        assert ledger.look(CONTROL_NOW).to_fence() == {"c": (2, 2)}

    def test_a_record_in_the_wrong_partition_is_damage(self):
        _, ledger = self.ledger(control=[self.good()])
        with pytest.raises(LedgerDamaged, match="does not belong into this partition"):
            ledger.look(ask_state())

    def test_a_tombstone_of_a_foreign_key_says_nothing(self):
        _, ledger = self.ledger((b"hello", None), self.good())
        assert len(ledger.look(ask_state()).chunks.splits) == 1
