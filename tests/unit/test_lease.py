"""Who gives the lease back."""

import threading
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaException

from shipper.errors import ClusterRefuses
from shipper.ledger import lease as module
from shipper.ledger.codec import encode_lease
from shipper.ledger.control import Control
from shipper.ledger.lease import HeldLease
from shipper.ledger.records import CONTROL, Lease
from shipper.types import LogRecord


class Ledger:
    """What a lease asks of one; keeps what is written."""

    pipeline, topic = "web", "_shipper.web"

    def __init__(self):
        self.generation = 7
        self.written = []

    def look(self, question):
        return SimpleNamespace(
            generation=self.generation, holder=lambda run_id, lapsed: None, claims=list
        )

    def write_control(self, records):
        self.written += [value for _, value in records]

    @contextmanager
    def writing(self, records):
        self.write_control(records[CONTROL])
        yield


@pytest.mark.parametrize(("later", "released"), [(7, True), (8, False)])
def test_an_attempt_that_was_taken_over_leaves_the_lease_to_its_successor(later, released):
    ledger = Ledger()
    with HeldLease(ledger, "the-run", 30.0, 0.0, print) as lease:
        lease.generation = 7
        ledger.generation = later
    assert (ledger.written[-1] is None) == released


def test_who_waits_for_a_lease_says_so_once_for_each_that_holds_it():
    """And not each time that it asks."""
    holders = [
        Lease(run, "there", 1, held=True, seconds=0.03) for run in ("first",) * 5 + ("second",) * 5
    ]

    class Held(Ledger):
        def look(self, question):
            holder = holders.pop(0) if holders else None
            return SimpleNamespace(
                generation=self.generation, holder=lambda run_id, lapsed: holder, claims=list
            )

    said = []
    with HeldLease(Held(), "the-run", 30.0, 60.0, said.append):
        pass
    assert [words.split()[3] for words in said] == ["first", "second"]


def test_a_dead_runs_claim_of_a_broker_whose_clock_was_ahead_lapses_too():
    """C12: the broker that leads the ledger now writes earlier times than the claim has."""
    ahead = encode_lease("web", Lease("dead", "there", 1, held=True, seconds=0.05))

    class Failover(Ledger):
        def look(self, question):
            mine = encode_lease("web", Lease("me", "here", 2, held=False, seconds=30.0))
            records = LogRecord(0, 10**12, *ahead), LogRecord(9, 1_000, *mine)
            return Control("web").feed(records)

    with HeldLease(Failover(), "me", 30.0, 20.0, lambda text: None) as lease:
        assert lease.control is not None


def test_a_fault_of_any_kind_ends_neither_the_renewing_nor_the_looking_for_a_later_run():
    """What the client does not turn into an error of shipper's: the keeper would end, the lease
    lapse, and a later run go unnoticed."""

    class Faulty(Ledger):
        asked = 0

        def look(self, question):
            if threading.current_thread().name == "lease":
                self.asked += 1
                if self.asked == 1:
                    raise KafkaException("the broker answered what nobody has heard of")
            return super().look(question)

    ledger = Faulty()
    with HeldLease(ledger, "the-run", 0.06, 0.0, print) as lease:
        lease.generation, ledger.generation = 7, 8
        assert lease.superseded.wait(30)


def test_a_lease_that_cannot_be_given_back_does_not_change_how_the_ship_ended():
    class Faulty(Ledger):
        def write_control(self, records):
            if any(value is None for _, value in records):
                raise KafkaException("gone")

    with HeldLease(Faulty(), "the-run", 30.0, 0.0, print) as lease:
        lease.generation = 7


@pytest.mark.parametrize(("granted_again", "ends"), [(True, False), (False, True)])
def test_a_ledger_that_may_not_be_written_any_more_ends_the_ship_unless_that_is_mended_in_a_moment(
    granted_again, ends, monkeypatch
):
    """Lanes would notice only at the end of a transaction."""
    monkeypatch.setattr(module, "GRANT_SECONDS", 0.3)
    monkeypatch.setattr(module, "_ASK_AGAIN_SECONDS", 0.05)

    class Forbidding(Ledger):
        refuses = 0

        def write_control(self, records):
            if threading.current_thread().name == "lease" and (
                self.refuses < 2 or not granted_again
            ):
                self.refuses += 1
                raise ClusterRefuses("Topic authorization failed")
            super().write_control(records)

    ledger = Forbidding()
    with HeldLease(ledger, "the-run", 0.06, 0.0, print) as lease:
        lease.generation = 7
        assert lease.superseded.wait(30 if ends else 0.6) == ends
        assert bool(lease.refused) == ends
        assert ledger.refuses >= 2
