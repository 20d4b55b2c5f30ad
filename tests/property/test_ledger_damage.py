"""Whatever somebody writes into a ledger: a record that can be used, or LedgerDamaged; nothing else, and nothing without bounds."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shipper_tools.testing.memory_log import MemoryLog

from shipper.config.cluster import Cluster
from shipper.driver.pending import pending
from shipper.errors import ArchiveMissing, DigestChanged, LedgerDamaged, SourceError
from shipper.ledger.codec import decode, encode_chunk, encode_generation, encode_lease, encode_passed_over
from shipper.ledger.control import Control
from shipper.ledger.inventory import Inventory, entries, figures, findings
from shipper.ledger.log import LedgerLog
from shipper.ledger.records import (
    CHUNKS,
    CONTROL,
    MOST_LANES,
    MOST_LEASE_SECONDS,
    MOST_TASKS,
    ChunkKey,
    ChunkValue,
    Generation,
    Lease,
    PassedOver,
)
from shipper.types import FileId, LogRecord, PartitionOffset, SplitId

CLUSTER = Cluster.model_validate({"cluster": "c", "bootstrap": "nowhere:1"})
FILE = FileId("file:/logs/a", 10, 5)
VALUE = ChunkValue(last=5, end=True, records=5, bytes=9, checksum=1, digest="d", generation=0, run_id="r", window="w")

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
kinds = st.sampled_from(
    ["chunk", "void", "replay", "generation", "lease", "attempt", "archive", "dropped", "begun", "kept", "later"]
)
# Near misses: the right kind and pipeline, and fields of which some are right.
parts = st.sampled_from(["file:/logs/a", "\ud800", "t", "", 0, 1, 5, 10, -1, 2**63, 2**70, 1.5, True, None, [], {}])
near_keys = st.builds(
    lambda kind, owner, rest: json.dumps([kind, owner, *rest]).encode(),
    kinds,
    st.sampled_from(["web", "other"]),
    st.lists(parts, max_size=7),
)
right_keys = st.sampled_from(
    [
        encode_chunk("web", ChunkKey(SplitId(FILE, 0), 3, "t"), VALUE)[0],
        b'["generation","web"]', b'["lease","web","r"]', b'["attempt","web",1,1]', b'["void","web","file:/logs/a",10,5]',
        b'["replay","web","file:/logs/a",10,5,0,1]', b'["archive","web"]', b'["dropped","web",1,1]', b'["begun","web"]', b'["kept","web"]',
    ]
)  # fmt: skip
NAMES = """last end records bytes checksum digest generation run_id window partition bundles wire_bytes parked reasons ordinals without
filtered topic tasks lanes host pid held seconds attempt ended manifest sha256 entries before by at reason instead_of manifest later"""
names = st.sampled_from(NAMES.split())

near_values = st.builds(
    lambda fields: json.dumps(fields).encode(),
    st.dictionaries(names, parts | st.sampled_from(["1-2", "2-1", "1,1", "r", {"x": 1}, ["t"], 1e12]), max_size=14),
)
right_values = st.sampled_from(
    [
        encode_chunk("web", ChunkKey(SplitId(FILE, 0), 0, "t"), VALUE)[1],
        encode_generation("web", Generation("r", 4, 4))[1],
        encode_lease("web", Lease("r", "h", 1, True, 9.0))[1],
    ]
)
keys = st.binary(max_size=20) | st.builds(lambda found: json.dumps(found).encode(), anything) | near_keys | right_keys
values = (
    st.none()
    | st.binary(max_size=20)
    | st.builds(lambda found: json.dumps(found).encode(), anything)
    | near_values
    | right_values
)


@settings(max_examples=2000, deadline=None)
@given(keys, values)
def test_any_bytes_are_a_record_or_damage(key, value):
    found = None
    try:
        decode("web", LogRecord(7, 0, key, value))
    except LedgerDamaged as damage:
        found = damage
    assert found is None or (found.offset == 7 and "ledger repair web" in found.message)


@pytest.mark.parametrize(
    "key", [b"[" * 100_000, b'["chunk","web",' + b"[" * 100_000, b'["chunk","web","a",' + b"9" * 5000 + b"]"]
)
def test_nesting_and_length_are_no_way_out(key):
    with pytest.raises(LedgerDamaged):
        decode("web", LogRecord(7, 0, key, b"{}"))
    with pytest.raises(LedgerDamaged):
        decode("web", LogRecord(7, 0, b'["archive","web"]', key))


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.sampled_from([CONTROL, CHUNKS]), keys, values), max_size=6))
def test_nobody_who_reads_a_ledger_meets_anything_but_damage(written):
    log = MemoryLog()
    for partition, key, value in written:
        log.append("t", partition, [(key, value)])
    ledger = LedgerLog(log, CLUSTER, "web")
    try:
        control = ledger.control()
        read = ledger.records(wait_seconds=None)
        state = ledger.state(wait_seconds=None)
        inventory = Inventory()
        for of_path in entries(read):
            list(findings(of_path, lambda file: [0]))
            inventory.add(of_path, "web", lambda file: [0])
        figures(state.chunks, [FILE], 0)
        pending({FILE: [0]}, state.chunks, digest="d", reship=False, on_replaced="fail")
    except (LedgerDamaged, ArchiveMissing, DigestChanged, SourceError):
        return
    assert all(tasks <= MOST_TASKS and lanes <= MOST_LANES for tasks, lanes in control.to_fence("c").values())


def test_no_lease_is_believed_for_longer_than_a_day():
    forged = LogRecord(0, 0, *encode_lease("web", Lease("evil", "h", 1, True, 1e12)))
    asking = LogRecord(1, int(MOST_LEASE_SECONDS * 1000) + 1, *encode_lease("web", Lease("me", "h", 1, False, 30.0)))
    assert Control("web").feed([forged, asking]).holder("me").run_id == "me"


class TestPassedOver:
    """A record that a person has signed off."""

    def ledger(self, *chunks, control=()):
        log = MemoryLog()
        log.append("t", CHUNKS, chunks)
        log.append("t", CONTROL, control)
        return log, LedgerLog(log, CLUSTER, "web")

    def good(self, **fields):
        return encode_chunk("web", ChunkKey(SplitId(FILE, 0), 0, "t"), VALUE)

    def passed_over(self, partition, offset):
        return encode_passed_over(
            "web", PartitionOffset(partition, offset), PassedOver("ann", "2026-11-22T00:00:00Z", "a test", "r")
        )

    def test_a_foreign_record_stops_every_reader_until_somebody_signs_it_off(self):
        log, ledger = self.ledger(self.good(), (b"hello", b"{}"))
        for read in (lambda: ledger.state(wait_seconds=None), lambda: ledger.chunks(0, wait_seconds=None)):
            with pytest.raises(LedgerDamaged, match=r"cluster c: topic _shipper\.web.* 1:1: .*--drop 1:1 "):
                read()
        log.append("t", CONTROL, [self.passed_over(CHUNKS, 1)])
        assert len(ledger.state(wait_seconds=None).chunks.splits) == 1
        assert len(ledger.chunks(0, wait_seconds=None)) == 1

    def test_a_signed_off_record_of_the_control_partition_is_passed_over_by_who_had_stumbled_over_it(self):
        log, ledger = self.ledger(control=[(b"hello", b"{}"), encode_generation("web", Generation("r", 2, 2))])
        with pytest.raises(LedgerDamaged):
            ledger.control()
        log.append("t", CONTROL, [self.passed_over(CONTROL, 0)])
        assert ledger.control().to_fence("c") == {"c": (2, 2)}

    def test_a_record_that_can_be_read_is_never_passed_over(self):
        _, ledger = self.ledger(self.good(), control=[self.passed_over(CHUNKS, 0)])
        assert len(ledger.state(wait_seconds=None).chunks.splits) == 1

    def test_a_record_in_the_wrong_partition_is_damage(self):
        _, ledger = self.ledger(control=[self.good()])
        with pytest.raises(LedgerDamaged, match="does not belong there"):
            ledger.state(wait_seconds=None)

    def test_a_tombstone_of_a_foreign_key_says_nothing(self):
        _, ledger = self.ledger((b"hello", None), self.good())
        assert len(ledger.state(wait_seconds=None).chunks.splits) == 1
