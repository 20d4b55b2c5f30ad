"""Who may begin a transaction, and when: both rules, without a broker. With one:
tests/chaos/test_late_end_txn.py."""

from __future__ import annotations

import ast
import time
from pathlib import Path

import pytest

from shipper.kafka import transaction
from shipper.kafka.connection import KafkaFault
from shipper.kafka.producer import LaneSettings, SentBytes
from shipper.kafka.transaction import RightToShip, Transactions

_ROOT = Path(__file__).resolve().parents[2]
_SETTINGS = LaneSettings({}, 1000, "none", 10_000)
_OF_A_TRANSACTION = {
    "init_transactions",
    "begin_transaction",
    "commit_transaction",
    "abort_transaction",
    "send_offsets_to_transaction",
    "_TransactionalProducer",
}


def _sources():
    for folder in ("shipper", "spark_jobs", "shipper_airflow"):
        yield from (_ROOT / folder).rglob("*.py")


def test_only_one_module_begins_and_commits_transactions():
    users = {
        str(path.relative_to(_ROOT))
        for path in _sources()
        if any(name in (source := path.read_text()) for name in _OF_A_TRANSACTION)
        for node in ast.walk(ast.parse(source))
        if (getattr(node, "attr", None) or getattr(node, "id", None) or getattr(node, "name", None))
        in _OF_A_TRANSACTION
    }
    # The bench's other contenders are what shipper is compared with: they promise nothing.
    assert {user for user in users if not user.startswith("tools/shipper_tools/bench/")} == {
        "shipper/kafka/transaction.py"
    }


class Scripted:
    """A producer that says what it is told to: which of its calls fail, and whether it lost a
    connection."""

    made: list[Scripted]
    events: list[str]

    def __init__(self, settings, transactional_id):
        self.sent = SentBytes(1, 1)
        self.lost = False
        self.made.append(self)

    def count_sent(self):
        return self.sent

    def connect(self, until, topic):
        self.events.append("connect")

    def init(self, until):
        self.events.append("init")

    def lost_connection(self):
        return self.lost

    def begin(self):
        self.events.append("begin")

    def commit(self, until):
        self.events.append("commit")

    def abort(self, until):
        self.events.append("abort")

    def discard(self):
        self.events.append("discard")


@pytest.fixture
def producers(monkeypatch):
    class Here(Scripted):
        pass

    Here.made, Here.events = [], []
    monkeypatch.setattr(transaction, "_TransactionalProducer", Here)
    return Here


def soon():
    return time.monotonic() + 5


def noting(producers):
    return RightToShip(lambda: producers.events.append("read"))


def test_a_producer_that_lost_a_connection_begins_nothing_more(producers):
    transactions = Transactions(_SETTINGS, "lane", ["ledger"], noting(producers))
    transactions.begin(soon)
    transactions.commit(soon)
    producers.made[0].lost = True
    transactions.begin(soon)
    assert producers.events[-6:] == ["commit", "discard", "connect", "init", "read", "begin"]
    assert (transactions.openings, transactions.sent) == (2, SentBytes(2, 2))


def test_after_a_transaction_that_was_not_committed_only_the_ledger_knows(producers):
    transactions = Transactions(_SETTINGS, "lane", ["ledger"], noting(producers))
    transactions.begin(soon)
    with pytest.raises(KafkaFault, match="_STATE"):
        transactions.begin(soon)
    transactions.close(soon)
    assert producers.events[-2:] == ["abort", "discard"]


def test_a_transaction_that_may_be_committed_is_not_aborted(producers, monkeypatch):
    transactions = Transactions(_SETTINGS, "lane", ["ledger"], noting(producers))
    transactions.begin(soon)

    def commit(until):
        raise KafkaFault("_TIMED_OUT", "no answer")

    monkeypatch.setattr(producers.made[0], "commit", commit)
    with pytest.raises(KafkaFault):
        transactions.commit(soon)
    transactions.close(soon)
    assert "abort" not in producers.events


def test_opening_is_tried_again_but_not_for_what_no_retry_mends(producers, monkeypatch):
    faults = [
        KafkaFault("COORDINATOR_NOT_AVAILABLE", "moving"),
        KafkaFault("INVALID_TRANSACTION_TIMEOUT", "too long"),
    ]

    def init(self, until):
        raise faults.pop(0)

    monkeypatch.setattr(producers, "init", init)
    with pytest.raises(KafkaFault, match="INVALID_TRANSACTION_TIMEOUT"):
        Transactions(_SETTINGS, "lane", ["ledger"], noting(producers)).open(soon)
    assert not faults
