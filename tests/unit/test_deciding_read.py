"""The only read that a decision may rest on. A broker that was replaced as the leader of the
ledger, and does not know it yet, answers with what it had then. Found by random faults: a run took
over at the moment when a paused broker went on, took 703 delivered records for missing, and sent
them again."""

import threading
import time
from types import SimpleNamespace

import pytest

from shipper.errors import ClusterError, ClusterRefuses, OutcomeUnknown, Superseded
from shipper.ledger import log as module
from shipper.ledger.codec import encode_attempt, encode_chunk, encode_invalidation
from shipper.ledger.log import (
    CONTROL_NOW,
    LedgerLog,
    Patience,
    ask_committed,
    ask_committed_keys,
    ask_files,
    ask_state,
)
from shipper.ledger.records import (
    CHUNKS,
    CONTROL,
    Attempt,
    AttemptKey,
    ChunkKey,
    ChunkValue,
    Invalidation,
)
from shipper.ledger.writing import invalidate, right_of
from shipper.types import EncodedRecord, FileId, SplitId
from shipper.worker.task import TaskAttempt
from tests.doubles.memory_log import MemoryLog
from tests.samples.ledger import announced, chunk_value

FILE = FileId("a.log", 100, 5)
VALUE = chunk_value(generation=0)


def chunk(first=0, **fields):
    value = ChunkValue(**{**vars(VALUE), "last": first + 10, **fields})
    return encode_chunk("web", ChunkKey(SplitId(FILE, 0), first, "t"), value)


@pytest.fixture
def topic():
    topic = MemoryLog()
    topic.append("ledger", CONTROL, [announced("r")])
    topic.append("ledger", CONTROL, [encode_attempt("web", AttemptKey(0, 0, 0), Attempt())])
    return topic


def ledger_of(topic, **patience):
    cluster = SimpleNamespace(name="c", ledger_topic=lambda pipeline: "ledger")
    return LedgerLog(topic, cluster, "web", patience=Patience(1.0, **patience))


def attempt_of(topic, number=0):
    order = SimpleNamespace(
        pipeline="web", generation=0, run_id="r", chunks_end=0, tasks=1, splits={}
    )
    return TaskAttempt(order, ledger_of(topic).of_generation(0), 0, number)


def answer(found):
    """Return the part of an answer that tests can compare."""
    if hasattr(found, "generation"):
        return found.generation
    if hasattr(found, "files"):
        return len(found.files.by_path.get(FILE.path, {}))
    if hasattr(found, "splits") or hasattr(found, "chunks"):
        return found.chunks.records_by_topic(found.chunks.starts)["t"]
    return len(found) if isinstance(found, list) else chunk().key in found


@pytest.mark.parametrize(
    ("question", "old", "new"),
    [
        (CONTROL_NOW, 0, 2),
        (ask_committed(0), 0, 1),
        (ask_committed_keys(0), False, True),
        (ask_state([FILE.path]), 0, 10),
        (ask_files([FILE.path]), 0, 1),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_leader_that_was_replaced_is_believed_by_who_looks_and_by_nobody_who_decides(
    topic, question, old, new
):
    ledger = ledger_of(topic)
    for partition in (CONTROL, CHUNKS):
        topic.replace_leader(partition)
    topic.append("ledger", CONTROL, [announced("s")])
    topic.append("ledger", CHUNKS, [chunk()])
    assert answer(ledger_of(topic).look(question, 1.0)) == old
    assert answer(ledger.decide(question).answer) == new


def test_an_invalidation_that_the_old_leader_does_not_have_counts_for_a_takeover(topic):
    topic.append("ledger", CHUNKS, [chunk()])
    topic.replace_leader(CONTROL)
    topic.append("ledger", CONTROL, [encode_invalidation("web", FILE, 7, Invalidation("s"))])
    assert ledger_of(topic).decide(ask_state([FILE.path])).answer.chunks.splits == {}


def test_an_archive_or_repair_that_was_taken_over_hears_of_it(topic):
    """They ask for the right as lanes do, by a read that an old leader cannot answer."""
    right = right_of(ledger_of(topic), 0)
    right.check()
    topic.replace_leader(CONTROL)
    topic.append("ledger", CONTROL, [announced("s")])
    with pytest.raises(Superseded):
        right.check()


def test_a_reship_that_was_taken_over_invalidates_nothing(topic):
    topic.append("ledger", CONTROL, [announced("s")])
    with pytest.raises(Superseded):
        invalidate(ledger_of(topic), 0, "r", None, [FILE])
    assert ledger_of(topic).look(ask_state()).invalidated == {}


def test_a_run_that_was_taken_over_hears_of_it(topic):
    attempt = attempt_of(topic)
    attempt.check()
    topic.replace_leader(CONTROL)
    topic.append("ledger", CONTROL, [announced("s")])
    with pytest.raises(Superseded, match="taken over by run s"):
        attempt.check()


def test_a_ledger_that_was_made_anew_gives_no_right_to_those_who_read_the_one_before(topic):
    attempt, right = attempt_of(topic), right_of(ledger_of(topic), 0)
    attempt.check()
    right.check()
    topic.recreate()
    for asks in (attempt, right):
        with pytest.raises(Superseded):
            asks.check()
    topic.recreate()
    topic.append("ledger", CONTROL, [announced("of another run at the same offset")])
    topic.append("ledger", CONTROL, [encode_attempt("web", AttemptKey(0, 0, 0), Attempt())])
    with pytest.raises(Superseded):
        attempt.check()


def test_who_asks_again_after_a_fault_reads_only_what_is_new(topic):
    ledger = ledger_of(topic)
    topic.append("ledger", CHUNKS, [chunk(first) for first in range(0, 5000, 10)])
    assert chunk(4990).key in ledger.decide(ask_committed_keys(0)).answer
    topic.append("ledger", CHUNKS, [chunk(5000)])
    topic.reads = 0
    keys = ledger.decide(ask_committed_keys(0)).answer
    assert topic.reads < 5
    assert all(chunk(first).key in keys for first in (0, 4990, 5000))
    assert chunk(5010).key not in keys
    assert ledger.decide(ask_committed_keys(0)).answer is keys


def test_what_was_taken_back_is_not_committed(topic):
    topic.append("ledger", CHUNKS, [EncodedRecord(chunk().key, None)])
    assert chunk().key not in ledger_of(topic).decide(ask_committed_keys(0)).answer


class Away(MemoryLog):
    """A ledger whose partition has no leader for some time."""

    def __init__(self, error, times):
        super().__init__()
        self.error, self.times = error, times

    def append(self, *args, **options):
        if self.times > 0:
            self.times -= 1
            raise self.error
        return super().append(*args, **options)


@pytest.mark.parametrize(
    "error",
    [
        ClusterError("no leader"),
        OutcomeUnknown("not acknowledged"),
        ClusterRefuses("no right, for a moment"),
    ],
)
def test_a_ledger_that_is_away_is_waited_for_as_long_as_a_data_topic(error):
    topic = Away(error, times=3)
    assert ledger_of(topic, ledger=60.0).decide(CONTROL_NOW).answer.generation == -1
    assert topic.times == 0
    topic.times = 3
    with pytest.raises(type(error)):
        ledger_of(topic, ledger=0.0).decide(CONTROL_NOW)


def test_a_task_that_begins_while_the_ledger_is_away_waits_and_announces_itself_then():
    """Each of Spark's four attempts at a task gave up after 15 s, so a minute without a leader
    failed the ship."""
    topic = Away(ClusterError("no leader"), times=3)
    order = SimpleNamespace(
        pipeline="web", generation=0, run_id="r", chunks_end=0, tasks=1, splits={}
    )
    MemoryLog.append(topic, "ledger", CONTROL, [announced("r")])
    attempt = TaskAttempt(order, ledger_of(topic, ledger=60.0), 0, 0)
    attempt.announce()
    assert not topic.times, "it has waited until the ledger was back"
    assert attempt.check().answer == [0]


def test_a_right_that_is_not_granted_is_not_waited_for_as_long(monkeypatch):
    monkeypatch.setattr(module, "GRANT_SECONDS", 0.2)
    with pytest.raises(ClusterRefuses):
        ledger_of(Away(ClusterRefuses("no right"), times=10**9), ledger=3600.0).decide(CONTROL_NOW)


def test_who_is_to_stop_waits_no_longer():
    ledger = ledger_of(Away(ClusterError("no leader"), times=10**9), ledger=3600.0)
    began = time.monotonic()
    threading.Timer(0.3, ledger.hurry).start()
    with pytest.raises(ClusterError):
        ledger.decide(CONTROL_NOW)
    assert time.monotonic() - began < 60
