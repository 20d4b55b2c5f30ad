"""What a task asks beside shipping: how its lanes do, how many tasks share the rate, and what was committed after a fault."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaException

from shipper.types import LogRecord
from shipper.worker import task as module
from shipper.worker.payload import Chunk
from shipper.worker.receipt import Receipt
from shipper.worker.task import TaskLanes


def test_a_fault_of_any_kind_ends_neither_the_samples_nor_the_share_of_the_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the client does not turn into an error of shipper's: the thread would end, the rate stay what it was for one task too many."""
    monkeypatch.setattr(module, "_SAMPLE_SECONDS", 0.01)
    monkeypatch.setattr(module, "_LOOK_AT_OTHER_TASKS_SECONDS", 0.0)
    done, faults = threading.Event(), [KafkaException("first"), KafkaException("second")]
    announced: list[str] = []

    def sample() -> Any:
        if faults:
            raise faults.pop()
        return (0, 0)

    def control() -> SimpleNamespace:
        if len(faults) == 1:
            raise faults.pop()
        done.set()
        return SimpleNamespace(active_tasks=lambda: 3)

    def write(records: list[str]) -> None:
        announced.extend(records)
        raise KafkaException("the last word cannot be written either")

    task: Any = SimpleNamespace(
        _done=done,
        pool=SimpleNamespace(sample=sample),
        _order=SimpleNamespace(rate_limit_bytes=1000),
        _ledger=SimpleNamespace(control=control, write_control=write),
        _announcement=lambda ended: "ended",
        _active_tasks=8,
        _receipt=Receipt(0),
    )
    sampler = threading.Thread(target=TaskLanes._sample, args=(task,), daemon=True)
    sampler.start()
    sampler.join(30)
    assert not sampler.is_alive()
    assert (task._active_tasks, announced) == (3, ["ended"])
    assert task._receipt.samples


def test_what_was_committed_is_known_by_its_keys_alone() -> None:
    """After each fault, on each lane: nothing is decoded for that, and what compaction has taken back is not there."""
    records = [LogRecord(5, 0, b"there", b"\xff no JSON"), LogRecord(6, 0, b"taken back", None)]
    asked: list[str] = []
    task: Any = SimpleNamespace(
        _right=SimpleNamespace(check=lambda: asked.append("right")),
        _records_since_takeover=lambda: asked.append("read") or records,
    )
    assert TaskLanes._settle(task) == {b"there"}
    assert asked == ["right", "read"], "who may not ship any more must not read on"


def test_a_chunk_is_equal_to_itself_alone() -> None:
    """A transaction of a thousand topics was compared field by field, each chunk with each, while the pool was locked."""

    class Values(list[bytes]):
        def __eq__(self, other: object) -> bool:
            raise AssertionError("compared by what is in it")

        __hash__ = None  # type: ignore[assignment]

    one, other = (Chunk("t", Values([b"a"]), 1, b"key", lambda partition: b"", "label") for _ in range(2))
    assert one != other
    assert other not in [one]
    assert len({one, other}) == 2
