"""A commit that arrives late, in the middle of the next transaction: see docs/adr on what Kafka
makes of it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import Producer
from shipper_tools.dev.console_consumer import read_topic

from shipper.driver.replay import RecordPosition, Repaired, Replayed, replay
from shipper.errors import ShipperError
from shipper.kafka.client import ClusterClient
from shipper.kafka.connection import connection
from shipper.kafka.producer import LaneProducer, LaneSettings
from shipper.kafka.transaction import RightToShip, Transactions
from shipper.ledger.codec import encode_chunk
from shipper.ledger.intervals import encode_ordinals
from shipper.ledger.log import LedgerLog
from shipper.ledger.records import CHUNKS, ChunkKey, ChunkValue
from shipper.types import FileId, SplitId
from tests.chaos.world import END_TXN, Pipe

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]


@pytest.mark.short
@pytest.mark.parametrize(
    "moment", ["flush", "commit"], ids=["between its batches", "before its commit"]
)
def test_a_late_end_txn_released_into_the_next_transaction(
    new_pipe: Callable[..., Pipe], moment: str
):
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


_REPAIRED = 2_500  # three transactions


@pytest.mark.short
def test_a_late_end_txn_released_into_the_next_transaction_of_a_replay(
    new_pipe: Callable[..., Pipe], monkeypatch: pytest.MonkeyPatch
):
    """As above, when records leave quarantine: the second batch would be committed without its
    ledger records, and sent again."""
    pipe = new_pipe(properties={"socket.timeout.ms": 2000})
    wanted = _quarantined(pipe)
    flush = LaneProducer.flush
    monkeypatch.setattr(
        LaneProducer, "flush", lambda lane, until: (time.sleep(1.5), flush(lane, until))[1]
    )
    # So that the lane has a coordinator, also when it is the first one of the cluster.
    Producer(
        {"bootstrap.servers": pipe.site.kafka.bootstrap, "transactional.id": pipe.lane_id()}
    ).init_transactions(60)
    link = pipe.site.links[pipe.site.kafka.coordinator_of(pipe.lane_id())]
    link.hold_request(END_TXN)
    with ThreadPoolExecutor(1) as beside:
        first = beside.submit(_replay, pipe, wanted, "first")
        assert link.wait_held(60), first
        end = pipe.uncommitted_end()
        pipe.site.kafka.wait_for(
            lambda: pipe.uncommitted_end() > end + 10 or first.done(), "the next batch is written"
        )
        time.sleep(0.3)
        assert link.release() == 1
        assert first.exception(120) is None or isinstance(first.exception(), ShipperError)
    monkeypatch.undo()
    _replay(pipe, wanted, "again")
    found = Counter(read_topic(pipe.site.kafka.bootstrap, pipe.topic))
    sent = {one.value for one in wanted}
    doubled = sum(1 for times in found.values() if times > 1)
    assert (len(sent - found.keys()), doubled, len(found.keys() - sent)) == (0, 0, 0), (
        f"lost, doubled, foreign; {first}"
    )


def _quarantined(pipe: Pipe) -> list[Repaired]:
    """A ledger that says that a split's records are all in quarantine, and the records as somebody
    repaired them."""
    ledger = _ledger_of(pipe)
    ledger.create()
    split = SplitId(FileId("broken.log", 1, 1), 0)
    value = ChunkValue(
        last=_REPAIRED,
        end=True,
        records=_REPAIRED,
        bytes=1,
        checksum=1,
        digest="d",
        generation=0,
        run_id="earlier",
        window="2026-11-01T00:00:00Z/2026-11-02T00:00:00Z",
        reasons={"unparseable": _REPAIRED},
        ordinals=encode_ordinals([(0, _REPAIRED)]),
    )
    ledger._append(CHUNKS, [encode_chunk(pipe.name, ChunkKey(split, 0, "quarantine"), value)])
    return [
        Repaired(RecordPosition("broken.log", 0, number + 1), pipe.topic, b"repaired %d" % number)
        for number in range(_REPAIRED)
    ]


def _ledger_of(pipe: Pipe) -> LedgerLog:
    cluster = pipe.numbered().cluster
    return LedgerLog(ClusterClient(cluster), cluster, pipe.name)


def _replay(pipe: Pipe, wanted: list[Repaired], run_id: str) -> Replayed:
    numbered = pipe.numbered()
    client = ClusterClient(numbered.cluster)
    ledger = LedgerLog(client, numbered.cluster, pipe.name)
    return replay(ledger, client, numbered.cluster, numbered.pipeline, wanted, run_id, print)


@pytest.mark.short
def test_a_connection_that_breaks_again_with_the_same_words_is_heard(new_pipe: Callable[..., Pipe]):
    """librdkafka leaves an error out of its log if the broker's last one was the same and not 30 s
    ago."""
    pipe = new_pipe()
    settings = LaneSettings(connection(pipe.numbered().cluster), 100_000, "none", 20_000)
    transactions = Transactions(settings, pipe.lane_id(), pipe.topic, RightToShip(lambda: None))
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
