"""A commit that arrives late, in the middle of the next transaction: see docs/adr on what Kafka makes of it."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.chaos.world import END_TXN, Pipe

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]


@pytest.mark.short
@pytest.mark.parametrize("moment", ["flush", "commit"], ids=["between its batches", "before its commit"])
def test_a_late_end_txn_released_into_the_next_transaction(new_pipe: Callable[..., Pipe], moment: str):
    """The lane's EndTxn is held; librdkafka gives the connection up, asks again on a new one, and the transaction is
    committed. The first EndTxn arrives when the next transaction is half written."""
    pipe = new_pipe(
        tasks=1, lanes=1, files=(0, 1), splits=1, pauses={moment: 1.5}, properties={"socket.timeout.ms": 2000},
    )  # fmt: skip
    ship = pipe.ship()
    assert ship.wait_for("shipping"), ship.last_words()
    pipe.wait_until_shipped(1, ship)
    link = pipe.site.links[pipe.site.kafka.coordinator_of(pipe.lane_id())]
    link.hold_request(END_TXN)
    assert link.wait_held(60), ship.last_words()
    pipe.wait_until_shipped(pipe.in_ledger() + 1, ship)  # its second try went through
    end = pipe.uncommitted_end()
    pipe.site.kafka.wait_for(lambda: pipe.uncommitted_end() > end + 10, "the next transaction has written records")
    time.sleep(0.3)
    assert link.release() == 1
    ship.wait()
    pipe.rerun()
    pipe.assert_exact()
