"""What a task asks beside shipping: how its lanes do, how many tasks share the rate, and what was committed after a fault."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaException

from shipper.config.cluster import Cluster
from shipper.errors import WaitedInVain
from shipper.kafka.producer import LaneSettings
from shipper.ledger.codec import encode_attempt
from shipper.ledger.records import Attempt
from shipper.types import LogRecord
from shipper.worker import pool
from shipper.worker import task as module
from shipper.worker.attempt import TaskAttempt
from shipper.worker.order import ShipOrder
from shipper.worker.payload import Chunk
from shipper.worker.receipt import Receipt
from shipper.worker.task import TaskLanes


def test_a_fault_of_any_kind_ends_neither_the_samples_nor_the_share_of_the_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the client does not turn into an error of shipper's: the thread would end, the rate stay what it was for one task too many."""
    monkeypatch.setattr(module, "_SAMPLE_SECONDS", 0.01)
    monkeypatch.setattr(module, "_LOOK_AT_OTHER_TASKS_SECONDS", 0.0)
    done, faults = threading.Event(), [KafkaException("first"), KafkaException("second")]
    announced: list[bytes] = []
    order: Any = SimpleNamespace(rate_limit_bytes=1000, pipeline="web", generation=5)

    def sample() -> Any:
        if faults:
            raise faults.pop()
        return (0, 0)

    def control() -> SimpleNamespace:
        if len(faults) == 1:
            raise faults.pop()
        done.set()
        return SimpleNamespace(active_tasks=lambda: 3)

    def write(records: list[tuple[bytes, bytes]]) -> None:
        announced.extend(value for _, value in records)
        raise KafkaException("the last word cannot be written either")

    attempt = TaskAttempt(order, SimpleNamespace(control=control, write_control=write), 0, 1)  # type: ignore[arg-type]
    attempt.active_tasks = 8
    task: Any = SimpleNamespace(
        _done=done, pool=SimpleNamespace(sample=sample), _order=order, _attempt=attempt, _receipt=Receipt(0)
    )
    sampler = threading.Thread(target=TaskLanes._sample, args=(task,), daemon=True)
    sampler.start()
    sampler.join(30)
    assert not sampler.is_alive()
    assert attempt.active_tasks == 3
    assert announced == [encode_attempt("web", 0, Attempt(5, 1, ended=True))[1]]
    assert task._receipt.samples


def test_what_was_committed_is_known_by_its_keys_alone() -> None:
    """After each fault, on each lane: nothing is decoded for that, and what compaction has taken back is not there."""
    records = [LogRecord(5, 0, b"there", b"\xff no JSON"), LogRecord(6, 0, b"taken back", None)]
    asked: list[str] = []
    order: Any = SimpleNamespace(settings=SimpleNamespace(transaction_timeout_ms=1000), chunks_end=5)
    ledger: Any = SimpleNamespace(
        barrier=lambda partition: None, chunks=lambda start, wait_seconds: asked.append("read") or records
    )
    right = SimpleNamespace(check=lambda: asked.append("right"))
    task: Any = SimpleNamespace(_right=right, _attempt=TaskAttempt(order, ledger, 0, 1))
    assert TaskLanes._settle(task) == {b"there"}
    assert asked == ["right", "read"], "who may not ship any more must not read on"


def test_a_chunk_is_equal_to_itself_alone() -> None:
    """A transaction of a thousand topics was compared field by field, each chunk with each, while the pool was locked."""

    class Values(list[bytes]):
        def __eq__(self, other: object) -> bool:
            raise AssertionError("compared by what is in it")

        __hash__ = None  # type: ignore[assignment]

    one, other = (Chunk("t", Values([b"a"]), 1, b"key", lambda partition, topic_id: b"", "label") for _ in range(2))
    assert one != other
    assert other not in [one]
    assert len({one, other}) == 2


def test_a_cluster_that_stays_away_for_the_whole_wait_is_not_waited_for_by_another_attempt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A real lane, and nobody at the cluster's address. Spark would try the task three times more."""
    monkeypatch.setattr(pool, "_LEARN_SECONDS", 0.1)
    monkeypatch.setattr(TaskAttempt, "connect", lambda self: None)
    monkeypatch.setattr(TaskAttempt, "announce", lambda self, ended=False: None)
    cluster = Cluster.model_validate({"cluster": "far", "bootstrap": "127.0.0.1:1"})
    settings = LaneSettings({"bootstrap.servers": "127.0.0.1:1"}, 1000, "none", 10_000, cluster="far")
    order = ShipOrder(
        pipeline="web", cluster="far", run_id="r", window="w", digest="d", generation=1, chunks_end=0, ledger_topic="_shipper.web",
        settings=settings, limits={}, lanes=1, batch_bytes=1000, chunk_size_bytes=1000, deadline_seconds=1.0, topics=("t",), splits={},
    )  # fmt: skip
    receipt = module.ship_task(order, cluster, iter(()), task=0, attempt=1, tries_before=0)
    assert receipt.error_kind == "WaitedInVain", receipt.error
    assert "lane web.far.0.0 cannot be opened" in (receipt.error or "")
    assert WaitedInVain("").retriable, "the ship may be tried again"
