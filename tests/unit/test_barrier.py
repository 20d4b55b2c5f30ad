"""A broker that was replaced as the leader of the ledger, and does not know it yet, answers with what it had then. Found by random faults: a
run took over at the moment when a paused broker went on, took 703 delivered records for missing, and sent them again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from shipper_tools.testing.memory_log import MemoryLog

from shipper.errors import Superseded
from shipper.ledger.codec import encode_attempt, encode_chunk, encode_generation
from shipper.ledger.log import LedgerLog
from shipper.ledger.records import CHUNKS, CONTROL, Attempt, ChunkKey, ChunkValue, Generation
from shipper.types import FileId, SplitId
from shipper.worker.attempt import TaskAttempt

SPLIT = SplitId(FileId("a.log", 100, 5), 0)
CHUNK = encode_chunk(
    "web",
    ChunkKey(SPLIT, 0, "t"),
    ChunkValue(last=10, end=True, records=10, bytes=100, checksum=1, digest="d", generation=1, run_id="r", window="w"),
)


@pytest.fixture
def topic() -> MemoryLog:
    topic = MemoryLog()
    topic.append("ledger", CONTROL, [encode_generation("web", Generation("r", 1, 1))])
    topic.append("ledger", CONTROL, [encode_attempt("web", 0, Attempt(0, 0, False))])
    return topic


def ledger_of(topic: MemoryLog) -> LedgerLog:
    cluster: Any = SimpleNamespace(name="c", ledger_topic=lambda pipeline: "ledger")
    return LedgerLog(topic, cluster, "web")  # type: ignore[arg-type]


def attempt_of(topic: MemoryLog) -> TaskAttempt:
    order: Any = SimpleNamespace(
        pipeline="web", generation=0, run_id="r", chunks_end=0, settings=SimpleNamespace(transaction_timeout_ms=1000)
    )
    return TaskAttempt(order, ledger_of(topic), 0, 0)


def test_what_was_committed_since_is_read_when_a_record_was_written(topic: MemoryLog) -> None:
    topic.replace_leader(CHUNKS)
    topic.append("ledger", CHUNKS, [CHUNK])
    ledger = ledger_of(topic)
    assert ledger.chunks(wait_seconds=1.0) == [], "the old leader's answer"
    ledger.barrier(CHUNKS)
    assert [record.key for record in ledger.chunks(wait_seconds=1.0) if record.value] == [CHUNK.key]
    assert ledger.state(["a.log"], wait_seconds=1.0).chunks.records_by_topic([SPLIT]) == {"t": 10}


def test_a_lane_that_was_opened_anew_knows_what_was_committed(topic: MemoryLog) -> None:
    topic.replace_leader(CHUNKS)
    topic.append("ledger", CHUNKS, [CHUNK])
    assert attempt_of(topic).committed_keys() == {CHUNK.key}


def test_a_run_that_was_taken_over_hears_of_it(topic: MemoryLog) -> None:
    attempt = attempt_of(topic)
    attempt.check()
    topic.replace_leader(CONTROL)
    topic.append("ledger", CONTROL, [encode_generation("web", Generation("s", 1, 1))])
    with pytest.raises(Superseded, match="taken over by run s"):
        attempt.check()
