"""What a task asks beside shipping: how its lanes do, how many tasks share the rate, and what was
committed after a fault."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import NoReturn

import pytest
from confluent_kafka import KafkaException

from shipper.config.cluster import Cluster
from shipper.errors import DeliveryTimedOut
from shipper.kafka.limits import TopicLimits
from shipper.kafka.producer import LaneSettings
from shipper.ledger.codec import encode_attempt
from shipper.ledger.log import LedgerLog, LedgerQuestion
from shipper.ledger.records import Attempt, AttemptKey
from shipper.types import EncodedRecord
from shipper.worker import pool
from shipper.worker import task as module
from shipper.worker.order import LaneOptions
from shipper.worker.receipt import Receipt
from shipper.worker.task import TaskAttempt, TaskLanes
from tests.doubles.task import order_with

#: To a cluster at whose address nobody is.
ORDER = order_with(
    cluster="far",
    lane_options=LaneOptions(
        LaneSettings({"bootstrap.servers": "127.0.0.1:1"}, 1000, "none", 10_000, cluster="far"),
        "_shipper.web",
        0,
        1.0,
    ),
)


class Control:
    """A ledger that cannot be reached at first, and then says that three tasks are active. Nothing
    can be written to it."""

    def __init__(self) -> None:
        self.faults = [KafkaException("not now")]
        self.written: list[EncodedRecord] = []

    def look(self, question: LedgerQuestion[Control]) -> Control:
        if self.faults:
            raise self.faults.pop()
        return self

    def active_tasks(self) -> int:
        return 3

    def hurry(self) -> None:
        pass

    def write_control(self, records: list[EncodedRecord]) -> None:
        self.written += records
        raise KafkaException("the last word cannot be written either")


def test_a_fault_of_any_kind_ends_neither_the_samples_nor_the_share_of_the_rate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the client does not turn into an error of shipper's: the thread would end, the rate stay
    what it was for one task too many."""
    monkeypatch.setattr(module, "_SAMPLE_SECONDS", 0.01)
    monkeypatch.setattr(module, "_LOOK_AT_OTHER_TASKS_SECONDS", 0.0)
    order, ledger, receipt = replace(ORDER, rate_limit_bytes=1000), Control(), Receipt(0)
    attempt = TaskAttempt(order, ledger, 0, 1)  # type: ignore[arg-type]
    attempt.active_tasks = 8
    lanes = TaskLanes(order, attempt, TopicLimits(), receipt)
    sample, faults = lanes.pool.sample, [KafkaException("no sample")]
    monkeypatch.setattr(
        lanes.pool, "sample", lambda: sample() if not faults else _raise(faults.pop())
    )
    lanes._sampler.start()
    deadline = time.monotonic() + 20
    while not receipt.samples or attempt.active_tasks == 8:
        assert time.monotonic() < deadline, "the thread has ended"
        time.sleep(0.01)
    lanes.abandon()
    assert attempt.active_tasks == 3
    assert [record.value for record in ledger.written] == [
        encode_attempt("web", AttemptKey(1, 0, 1, True), Attempt())[1]
    ]


def _raise(error: BaseException) -> NoReturn:
    raise error


def test_a_cluster_that_stays_away_for_the_whole_wait_is_not_waited_for_by_another_attempt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A real lane, and nobody at the cluster's address. Spark would try the task three
    times more."""
    monkeypatch.setattr(pool, "_LEARN_SECONDS", 0.1)
    monkeypatch.setattr(LedgerLog, "connect", lambda self, partitions: None)
    monkeypatch.setattr(TaskAttempt, "announce", lambda self, ended=False: None)
    cluster = Cluster.model_validate({"cluster": "far", "bootstrap": "127.0.0.1:1"})
    receipt = module.ship_task(ORDER, cluster, iter(()), task=0, attempt=1, tries_before=0)
    assert receipt.error_kind == "DeliveryTimedOut", receipt.error
    assert "lane web.far.0.0 cannot be opened" in (receipt.error or "")
    assert DeliveryTimedOut("").retriable, "the ship may be tried again"
