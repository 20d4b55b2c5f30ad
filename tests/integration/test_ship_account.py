"""What a ship says it did, when something goes wrong after its files were read. The ship step, the
sink's writer and the broker are real; Spark is not there (tests/chaos/ship_numbered)."""

import itertools
import os
from dataclasses import replace

import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient
from shipper_tools.dev.console_consumer import read_records, read_topic

from shipper.driver import ship as ship_step
from shipper.errors import ClusterError, Superseded
from shipper.kafka.client import ClusterClient
from shipper.ledger.log import LedgerLog
from shipper.worker.task import TaskAttempt
from tests.chaos import ship_numbered
from tests.chaos.numbered import Numbered, identity_of
from tests.waiting import wait_until

pytestmark = [pytest.mark.kafka]

_unique = itertools.count(1)
_RECORDS = 4000  # 2 files of 2 splits of 1,000 records


class Ship:
    """Ships numbered records in this process, from one task. Its second topic is deleted when a
    ship begins, and made anew when all records are read: by then the parking has overflowed."""

    def __init__(self, kafka, name, folder, monkeypatch):
        self.topics = f"{name}.early", f"{name}.late"
        self.numbered = Numbered(
            name,
            kafka.bootstrap,
            self.topics,
            str(folder),
            files=(0, 2),
            records=1000,
            records_per_second=1e9,
            tasks=1,
            parking_bytes=50_000,
        )
        self.bootstrap = kafka.bootstrap
        self.client = ClusterClient(self.numbered.cluster)
        self.client.create_topics(dict.fromkeys(self.topics, 2), replication_factor=1)
        self.admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        self.scans = 0
        made = ship_numbered.batches

        def batches(numbered, order, task):
            yield from made(numbered, order, task)
            self.client.create_topics(
                {self.topics[1]: 2}, replication_factor=1
            )  # does nothing if it is there

        monkeypatch.setattr(ship_numbered, "batches", batches)

    def run(self, **changes):
        return ship_numbered.ship(replace(self.numbered, **changes), self._tasks)

    def _tasks(self, numbered, order, cluster, cancelled):
        self.scans += 1
        if (
            len(order.topics) == 2
            and self.topics[1] in self.client.topics()
            and not self.client.end_offset(self.topics[1], 0)
        ):
            self.admin.delete_topics([self.topics[1]])[self.topics[1]].result()
            wait_until(lambda: self.topics[1] not in self.client.topics())
        return [ship_numbered.write(numbered, order, cluster, 0, 0)], None

    def there(self):
        return [len(read_topic(self.bootstrap, topic)) for topic in self.topics]


@pytest.fixture
def ship(kafka, tmp_path, monkeypatch):
    return Ship(kafka, f"account{next(_unique)}x{os.getpid()}", tmp_path, monkeypatch)


def test_a_reship_under_another_transform_goes_on_in_its_second_scan(ship):
    assert ship.run(topics=ship.topics[:1]).delivered == _RECORDS
    again = ship.run(run_id="again", reship=True)
    assert (again.error, again.delivered) == (None, _RECORDS)
    assert ship.scans == 3
    assert len(again.later_generations) == 1
    assert ship.there() == [_RECORDS + _RECORDS // 2, _RECORDS // 2]


def test_a_slow_attempt_of_the_first_pass_is_superseded_by_the_second(ship, monkeypatch):
    """Spark took it for dead. It would be its task's latest attempt, and send what another task of
    the second pass has in flight (found by model/attempts.pml: SCAN_WITHOUT_GENERATION)."""
    orders = []
    verdicts = []
    made = ship._tasks

    def tasks(numbered, order, cluster, cancelled):
        if orders:
            slow = TaskAttempt(orders[0], LedgerLog(ship.client, cluster, numbered.name), 0, 99)
            slow.announce()
            with pytest.raises(Superseded) as superseded:
                slow.check()
            verdicts.append(superseded.value.message)
        orders.append(order)
        return made(numbered, order, cluster, cancelled)

    monkeypatch.setattr(ship, "_tasks", tasks)
    result = ship.run()
    assert (result.error, len(verdicts), len(result.later_generations)) == (None, 1, 1)
    assert ship.there() == [_RECORDS // 2, _RECORDS // 2]


def refuse(*_, **__):
    raise ClusterError("the cluster went away")


_LONG = [
    pytest.param(where, marks=pytest.mark.long)
    for where in ("_check_that_all_is_there", "_next_scan", "_decide")
]


@pytest.mark.parametrize("where", ["_next_generation", *_LONG])
def test_what_was_delivered_before_an_error_is_accounted_for(ship, monkeypatch, where):
    decide, calls = ship_step.ClusterShip._decide, []

    def second_time(self, *arguments):
        calls.append(1)
        return decide(self, *arguments) if len(calls) == 1 else refuse()

    monkeypatch.setattr(ship_step.ClusterShip, where, second_time if where == "_decide" else refuse)
    result = ship.run()
    assert (result.status, result.error, result.final) == (
        "failed",
        "the cluster went away [SHIP-401]",
        False,
    )
    assert result.read == _RECORDS
    assert {topic.topic: topic.delivered for topic in result.topics} == dict(
        zip(ship.topics, ship.there(), strict=True)
    )
    assert result.delivered > _RECORDS // 2
    monkeypatch.undo()
    assert ship.run(run_id="rerun").before == result.delivered
    assert ship.there() == [_RECORDS // 2, _RECORDS // 2]


def test_what_an_earlier_attempt_of_the_same_run_sent_is_said_to_be_its(ship):
    """An orphan may finish the work; the attempt after it would say that all was there before."""
    first = ship.run(topics=ship.topics[:1])
    again = ship.run(topics=ship.topics[:1])
    assert (first.delivered, again.delivered, again.before) == (_RECORDS, 0, _RECORDS)
    assert [(one.earlier, one.earlier_bytes) for one in again.topics] == [
        (one.delivered, one.delivered_bytes) for one in first.topics
    ]
    assert (
        f"{_RECORDS:,} records of those already committed came from an earlier attempt"
        in " ".join(map(str, again.findings))
    )
    other = ship.run(topics=ship.topics[:1], run_id="another")
    assert "earlier attempt" not in " ".join(map(str, other.findings))


def test_a_ship_whose_ledger_cannot_be_read_at_the_end_is_not_green_and_keeps_its_account(
    ship, monkeypatch
):
    """Nobody has seen that all of it is there."""
    tasks = ship._tasks

    def tasks_and_then_no_ledger(*arguments):
        done = tasks(*arguments)
        monkeypatch.setattr(LedgerLog, "_tail", refuse)
        return done

    monkeypatch.setattr(ship, "_tasks", tasks_and_then_no_ledger)
    result = ship.run(topics=ship.topics[:1], delivery={"metadata_wait": "1s"})
    assert (result.status, result.delivered, result.final) == ("failed", _RECORDS, False)
    assert result.error == "the cluster went away [SHIP-401]"
    monkeypatch.undo()
    assert ship.run(topics=ship.topics[:1], run_id="rerun").before == _RECORDS


@pytest.mark.long
def test_many_small_files_that_keep_their_order_do_not_pile_up_in_memory(
    kafka, tmp_path, monkeypatch
):
    """Four hundred files of 100 kB make 40 MB; what is gathered for two lanes are two transactions
    of 1 MB."""
    name, files, records = f"small{next(_unique)}x{os.getpid()}", 400, 500
    numbered = Numbered(
        name,
        kafka.bootstrap,
        (name,),
        str(tmp_path),
        files=(0, files),
        splits=1,
        records=records,
        records_per_second=1e9,
        tasks=1,
        delivery={"ordering": "file", "chunk_size": "1MB", "batch_size": "200kB"},
    )
    ClusterClient(numbered.cluster).create_topics({name: 3}, replication_factor=1)
    made, most = ship_numbered.batches, [0]

    def batches(numbered, order, task):
        for batch in made(numbered, order, task):
            most[0] = max(most[0], pa.total_allocated_bytes())
            yield batch

    monkeypatch.setattr(ship_numbered, "batches", batches)
    before = pa.total_allocated_bytes()
    result = ship_numbered.ship(
        numbered,
        lambda given, order, *_: ([ship_numbered.write(given, order, given.cluster, 0, 0)], None),
    )
    assert (result.error, result.delivered) == (None, files * records)
    assert most[0] - before < 14_000_000
    found = {}
    for record in read_records(kafka.bootstrap, name):
        path, _, ordinal = identity_of(record.value or b"")
        found.setdefault((path, record.partition), []).append((record.offset, ordinal))
    assert len(found) == files, "a file lies in several partitions"
    assert all(
        [ordinal for _, ordinal in sorted(places)] == list(range(records))
        for places in found.values()
    )
