"""The thread that looks at a task's lanes, and at how many tasks share the rate."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaException

from shipper.delivery import task as module
from shipper.delivery.order import Receipt
from shipper.delivery.task import TaskShipment


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
        _pool=SimpleNamespace(sample=sample),
        _order=SimpleNamespace(rate_limit_bytes=1000),
        _ledger=SimpleNamespace(control=control, write_control=write),
        _announcement=lambda ended: "ended",
        _active_tasks=8,
        receipt=Receipt(0),
    )
    sampler = threading.Thread(target=TaskShipment._sample, args=(task,), daemon=True)
    sampler.start()
    sampler.join(30)
    assert not sampler.is_alive()
    assert (task._active_tasks, announced) == (3, ["ended"])
    assert task.receipt.samples
