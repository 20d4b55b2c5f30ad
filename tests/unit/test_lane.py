"""In which order a lane writes a transaction. The broker is scripted;
tests/chaos/test_late_end_txn.py has a real one."""

import contextlib
import itertools
import time

from shipper.kafka import transaction
from shipper.kafka.connection import KafkaFault
from shipper.kafka.producer import LaneSettings, SentBytes, Throttled
from shipper.kafka.transaction import RightToShip
from shipper.types import Decided
from shipper.worker.chunk import Chunk
from shipper.worker.lane import Lane
from shipper.worker.order import LaneOptions
from shipper.worker.rate import BrokerRate
from shipper.worker.tuning import Following, Tuning
from shipper.worker.wire_size import WireSize

LEDGER = "ledger"


class Broker:
    """A topic and a ledger, written by one transactional producer at a time."""

    def __init__(self, chunks):
        self.committed = []
        self.ledger = set()
        self.broken_promises = []
        self.answers_commits = True
        """If false, the next commit times out: its request is on its way until the producer is
        fenced."""
        self._chunks = {chunk.ledger_key: chunk for chunk in chunks}
        self._waiting = []
        self._open_data = []
        self._open_ledger = set()
        self._commit_is_under_way = False

    def fence(self):
        """End the open transaction: by its commit, if the request is on its way, and by an abort
        otherwise."""
        if self._commit_is_under_way:
            self._commit()
        self._waiting, self._open_data, self._open_ledger = [], [], set()

    def send(self, topic, content):
        self._waiting.append((topic, content))

    def acknowledge_all(self):
        """Write what waits. Partitions are independent of each other, so the ledger's may well be
        the first.

        A late EndTxn may commit the transaction at any moment, as it stands then (docs/adr/0006).
        So after each record, the transaction must hold what its ledger records promise.
        """
        for topic, content in sorted(self._waiting, key=lambda each: each[0] != LEDGER):
            if topic == LEDGER:
                self._open_ledger.add(content)
            else:
                self._open_data.append(content)
            promised = {key: self._chunks[key] for key in self._open_ledger}
            self.broken_promises += [
                c.label for c in promised.values() if not set(self._open_data).issuperset(c.values)
            ]
        self._waiting = []

    def commit(self):
        assert not self._waiting
        if not self.answers_commits:
            self.answers_commits, self._commit_is_under_way = True, True
            raise KafkaFault("_TIMED_OUT", "no answer")
        self._commit()

    def _commit(self):
        self._commit_is_under_way = False
        self.committed += self._open_data
        self.ledger |= self._open_ledger
        self._open_data, self._open_ledger = [], set()


def producer_of(broker):
    class Producer:
        """In the place of ``_TransactionalProducer``."""

        def __init__(self, settings, transactional_id):
            self.sent = SentBytes()

        def count_sent(self):
            return self.sent

        def connect(self, until, *topics):
            pass

        def init(self, until):
            broker.fence()

        def lost_connection(self):
            return False

        def begin(self):
            pass

        @contextlib.contextmanager
        def faults(self):
            yield

        def write(self, chunk, first, end, until):
            for value in chunk.values[first:end]:
                broker.send(chunk.topic, value or b"")
            return 0.0

        def produce(self, topic, value, key, partition):
            broker.send(topic, key)

        def flush(self, until):
            broker.acknowledge_all()

        def take_throttled(self):
            return Throttled()

        def commit(self, until):
            broker.commit()

        def discard(self):
            pass

    return Producer


class OneTransaction:
    """A pool with one lane and one transaction."""

    def __init__(self, chunks, broker):
        self.options = LaneOptions(
            LaneSettings({}, 1000, "none", 10_000), LEDGER, 0, deadline_seconds=30
        )
        self.right = RightToShip(lambda: Decided(None))
        self.sizes = Following(Tuning(1, 1000, 1000))
        self.rate = BrokerRate(None)
        self.wire_size = WireSize("none")
        self.resolve_outcome = lambda: Decided(set(broker.ledger))
        self.lanes_count = 1
        self.places = itertools.count()
        self.stop_at = self.give_up_at = time.monotonic() + 60
        self.delivered = []
        self.failure = None
        self._left = [chunks]

    def wait_for_permission(self):
        pass

    def lane_is_open(self):
        pass

    def lane_ended(self):
        pass

    def next_transaction(self, lane):
        return self._left.pop() if self._left else None

    def partitions_for(self, chunk):
        return (0,)

    def round_bytes(self, chunk):
        return 500

    def lower_batch_bytes(self, topic):
        return False

    def done(self, chunks):
        self.delivered += chunks

    def park(self, chunk):
        raise AssertionError("a topic that is there is not parked")

    def block(self, topic, reason, *, forbidden):
        raise AssertionError("a topic that is there is not blocked")

    def fail(self, error):
        self.failure = error


def chunk(topic, records):
    values = [f"{topic} {number} ".encode().ljust(20, b".") for number in range(records)]
    return Chunk(
        topic,
        values,
        20 * records,
        f"key of {topic}".encode(),
        lambda partition, topic_id: b"value",
        topic,
    )


def delivered(chunks, broker, monkeypatch):
    """Have one lane send ``chunks`` in one transaction; return those that it calls delivered."""
    monkeypatch.setattr(transaction, "_TransactionalProducer", producer_of(broker))
    pool = OneTransaction(chunks, broker)
    lane = Lane(pool, 0, "lane")
    lane.thread.start()
    lane.thread.join(30)
    assert pool.failure is None
    return pool.delivered


def test_a_transaction_that_ends_too_early_never_promises_what_was_not_sent(monkeypatch):
    chunks = [chunk("large", 100), chunk("small", 3)]
    broker = Broker(chunks)
    assert delivered(chunks, broker, monkeypatch) == chunks
    assert broker.broken_promises == []
    assert broker.ledger == {each.ledger_key for each in chunks}


def test_a_commit_that_arrives_when_its_answer_is_given_up_is_not_sent_again(monkeypatch):
    """Nobody knows the outcome before the producer's id is opened anew. What the ledger says
    earlier is not the last word."""
    chunks = [chunk("web", 10)]
    broker = Broker(chunks)
    broker.answers_commits = False
    assert delivered(chunks, broker, monkeypatch) == chunks
    assert broker.committed == list(chunks[0].values)
