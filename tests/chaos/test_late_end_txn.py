"""A commit that arrives late, in the middle of the next transaction: see docs/adr on what Kafka
makes of it."""

import time

import pytest

from shipper.kafka.connection import connection
from shipper.kafka.producer import LaneSettings
from shipper.kafka.transaction import RightToShip, Transactions
from tests.chaos.world import END_TXN

pytestmark = [pytest.mark.kafka]


@pytest.mark.short
@pytest.mark.parametrize(
    "moment", ["flush", "commit"], ids=["between its batches", "before its commit"]
)
def test_a_late_end_txn_released_into_the_next_transaction(new_pipe, moment):
    """The lane's EndTxn is held; librdkafka gives the connection up, asks again on a new one, and
    the transaction is committed. The first EndTxn arrives when the next transaction is half
    written."""
    pipe = new_pipe(
        tasks=1,
        lanes=1,
        files=(0, 1),
        splits=1,
        pauses={moment: 1.5},
        properties={"socket.timeout.ms": 2000},
    )
    ship = pipe.ship()
    assert ship.wait_for("shipping"), ship.last_words()
    pipe.wait_until_shipped(1, ship)
    link = pipe.site.links[pipe.site.kafka.coordinator_of(pipe.lane_id())]
    link.hold_request(END_TXN)
    assert link.wait_held(60), ship.last_words()
    pipe.wait_until_shipped(pipe.in_ledger() + 1, ship)  # its second try went through
    end = pipe.uncommitted_end()
    pipe.site.kafka.wait_for(
        lambda: pipe.uncommitted_end() > end + 10, "the next transaction has written records"
    )
    time.sleep(0.3)
    assert link.release() == 1
    ship.wait()
    pipe.rerun()
    pipe.assert_exact()


@pytest.mark.short
def test_a_connection_that_breaks_again_with_the_same_words_is_heard(new_pipe):
    """librdkafka leaves an error out of its log if the broker's last one was the same and not 30 s
    ago."""
    pipe = new_pipe()
    settings = LaneSettings(connection(pipe.numbered().cluster), 100_000, "none", 20_000)
    transactions = Transactions(settings, pipe.lane_id(), [pipe.topic], RightToShip(lambda: None))
    soon = time.monotonic() + 120
    transactions.open(lambda: soon)
    producer = transactions._producer
    assert producer is not None
    link = pipe.site.links[pipe.site.kafka.coordinator_of(pipe.lane_id())]
    for _ in range(5):
        assert not producer.lost_connection()
        assert link.cut()
        pipe.site.kafka.wait_for(
            producer.lost_connection, "the lane hears that its coordinator hung up", 15
        )
        time.sleep(3)  # it is connected again, for so long that the next error has the same words
        producer.lost_connection()
        producer._log_listener.lost = False
    transactions.close(lambda: soon)
