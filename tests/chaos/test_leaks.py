"""What a long-lived process keeps after its brokers have restarted again and again."""

import gc
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Producer

from shipper.errors import ShipperError
from shipper.kafka.transaction import Transactions
from tests.chaos import ship_numbered
from tests.chaos.kafka_cluster import BROKERS

pytestmark = [pytest.mark.kafka]

_LANES = 4
#: Its own, three brokers', three for the addresses that it was given, its coordinator's.
_CONSUMER_THREADS = 8


@dataclass(frozen=True)
class Census:
    """What this process holds right now."""

    threads: int
    sockets: int
    producers: int

    @classmethod
    def now(cls):
        gc.collect()
        return cls(
            threads=sum(1 for _ in Path("/proc/self/task").iterdir()),
            sockets=sum(_is_socket(entry) for entry in Path("/proc/self/fd").iterdir()),
            producers=sum(type(found) is Producer for found in gc.get_objects()),
        )

    def within(self, other):
        return (
            self.threads <= other.threads
            and self.sockets <= other.sockets
            and self.producers <= other.producers
        )


def _is_socket(entry):
    try:
        return str(entry.readlink()).startswith("socket:")
    except OSError:
        return False


@pytest.mark.parametrize("restarts", [pytest.param(3, marks=pytest.mark.short), 20])
def test_broker_restarts_leave_no_thread_socket_or_producer_behind(new_pipe, monkeypatch, restarts):
    """One task with four lanes in this very process, which go on while one broker after the other
    is killed and comes back. Commits are slow, so that several transactions are in flight at any
    moment."""
    pipe = new_pipe(tasks=1, lanes=_LANES, splits=8)
    kafka = pipe.site.kafka
    hurry = threading.Event()
    run_here = _running_here(hurry)
    hurry.set()
    ship_numbered.ship(pipe.numbered(files=(0, 1), run_id="warm-up"), run_here)
    before = _settled(Census.now())
    hurry.clear()
    commit = Transactions.commit
    monkeypatch.setattr(
        Transactions, "commit", lambda self, *rest: (hurry.wait(1.0), commit(self, *rest))[1]
    )
    files = (0, 4 * restarts + 8)
    results = []
    spec = pipe.numbered(files=files, run_id="restarted")

    def ship_it():
        try:
            results.append(ship_numbered.ship(spec, run_here).error)
        except ShipperError as error:
            results.append(error)

    ship = threading.Thread(target=ship_it, daemon=True)
    ship.start()
    try:
        _wait(lambda: pipe.in_ledger() > 2 * spec.records * spec.splits // 2, ship)
        during = Census.now()
        for number in range(restarts):
            broker = BROKERS[number % len(BROKERS)]
            kafka.kill(broker)
            kafka.restart(broker)
            kafka.wait_until_in_sync(pipe.topic)
            there = pipe.in_ledger()
            _wait(lambda there=there: pipe.in_ledger() > there + 1000, ship)
            # N lanes are N producers, and theirs are the only threads: also while they are opened
            # anew. The one consumer that comes with the first of these reads the ledger.
            most = during.threads + _CONSUMER_THREADS
            _wait(
                lambda most=most: (
                    (now := Census.now()).producers <= during.producers and now.threads <= most
                ),
                ship,
                f"{during}",
            )
    finally:
        hurry.set()
    while ship.is_alive():
        there = pipe.in_ledger()
        ship.join(60)
        assert not ship.is_alive() or pipe.in_ledger() > there, "the ship stands still"
    assert results == [None]
    _wait(lambda: Census.now().within(before), None, f"back to {before}")
    pipe.assert_exact(files=files)


def _running_here(hurry):
    """The one task, in this process; it reads 500 records a second until it is told to hurry."""

    def run(numbered, order, cluster, cancelled):  # type: ignore[no-untyped-def]
        fast = ship_numbered.Numbered(**{**vars(numbered), "records_per_second": 1e9})
        made = ship_numbered.batches

        def paced(*arguments):
            for batch in made(fast, order, 0):
                yield batch
                hurry.wait(len(batch) / 500)

        ship_numbered.batches = paced  # type: ignore[assignment]
        try:
            return [ship_numbered.write(fast, order, cluster, 0, 0)], None
        finally:
            ship_numbered.batches = made

    return run


def _settled(census):
    """librdkafka's threads end a moment after their producer."""
    while True:
        time.sleep(2)
        now = Census.now()
        if now == census:
            return now
        census = now


def _wait(holds, ship, what="", timeout=120):
    deadline = time.monotonic() + timeout
    while not holds():
        assert ship is None or ship.is_alive(), "the ship ended"
        assert time.monotonic() < deadline, f"{what}: {Census.now()}"
        time.sleep(0.2)
