"""The only way to a transaction: who begins one has the right to ship, and an epoch that no late
commit can hit.

Two rules, which a caller cannot forget since :meth:`Transactions.begin` keeps them:

* *The right to ship is checked after a producer is opened, and before its first record*
  (docs/adr/0002). A producer that is opened may have fenced somebody who is newer; only what is
  read afterwards tells. :class:`RightToShip` remembers which openings a read covers, so that many
  producers opened side by side share one read.
* *A new epoch after a lost connection* (docs/adr/0006). librdkafka sends EndTxn again when its
  connection broke or the answer was late, and the commit then succeeds; the first copy may still
  arrive, and would end the next transaction of that epoch half written. So a producer that lost a
  connection since it was opened is thrown away, and another one begins.

What the producer hears of its connections does not depend on what a user sets: see
:mod:`shipper.kafka.producer`.

Nobody else calls ``init_transactions``, ``begin_transaction``, ``commit_transaction`` or
``abort_transaction``: tests/unit/test_transaction.py.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from shipper import runtime
from shipper.kafka.connection import KafkaFault, Until, call, slice_of
from shipper.kafka.outcomes import Action, policy_for
from shipper.kafka.producer import PURGED, LaneProducer, LaneSettings, SentBytes
from shipper.types import Decided

log = logging.getLogger("shipper.transaction")

T = TypeVar("T")

#: Longest time for one attempt to open.
_OPEN_SECONDS = 60.0
#: Second request, which a new connection needs anyway; each further one would take a round trip.
_MOST_LOOKED_UP = 1
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.1, 5.0
_LOOK_SECONDS = 0.02


class RightToShip(Generic[T]):
    """Permission of the caller to send, by what ``read`` finds now (in the ledger's control
    partition).

    Sequence, for two producers A and B that open in parallel: A is open (1), B is open (2), a
    reading finds no later run: that covers 2, so both may begin without another reading. If B
    opened while the reading was under way, B would get number 3 and need a reading of its own.
    """

    def __init__(self, read: Callable[[], Decided[T]]) -> None:
        """Start without a reading. ``read`` raises Superseded if a later run, or a later attempt of
        the same task, has announced itself."""
        self._read = read
        self._numbers, self._reading = runtime.Lock(), runtime.Lock()
        self._opened = self._covered = 0

    def opened(self) -> int:
        """Note that a producer was initialised: earlier readings say nothing about it. Returns the
        opening's number."""
        with self._numbers:
            self._opened += 1
            return self._opened

    def check(self) -> Decided[T]:
        """Read now. Raises Superseded."""
        with self._numbers:
            covers = self._opened
        found = self._read()
        with self._numbers:
            self._covered = max(self._covered, covers)
        return found

    def confirm(self, opening: int) -> None:
        """Read, unless a reading has begun after that opening. Raises Superseded."""
        with self._reading:
            if self._covered < opening:
                self.check()


class _TransactionalProducer(LaneProducer):
    """A producer's own part of the protocol. Private, since each of these calls is right at one
    moment only."""

    def init(self, until: Until) -> None:
        """Fence every earlier producer with this transactional.id and end its open transaction.
        Raises KafkaFault."""
        if self._transactional:
            self._resume(self._client.init_transactions, until)
        self._serve()
        self._log_listener.lost = False

    def lost_connection(self) -> bool:
        """Return True if a connection broke since the producer was initialised: a copy of an
        earlier commit may then still be under way."""
        sound = self._serve()
        return self._transactional and (self._log_listener.lost or not sound)

    def begin(self) -> None:
        self._failed = None
        if self._transactional:
            call(self._client.begin_transaction)
            self._ends_at = runtime.monotonic() + self._timeout_seconds

    def commit(self, until: Until) -> None:
        """Commit. A commit that timed out is resumed until the end, because the first request may
        or may not have arrived."""
        if self._transactional:
            self._resume(self._client.commit_transaction, until)

    def abort(self, until: Until) -> None:
        """Abort an open transaction, if the broker answers in time: left open it would hold up
        read_committed consumers until its timeout. Never raises; there is nothing that could be
        done about it."""
        if not self._transactional:
            return
        try:
            call(self._client.purge, True, True, True)
            self._resume(self._client.abort_transaction, until)
        except KafkaFault as error:
            log.debug("abort before leaving: %s", error)

    def wait_for_refusal(self, seconds: float) -> None:
        """Raise KafkaFault if the transaction is refused within so long."""
        ends = runtime.monotonic() + seconds
        while runtime.monotonic() < ends:
            self._serve()
            if self._failed is not None:
                raise self._cause(self._failed)
            runtime.sleep(_LOOK_SECONDS)

    def _cause(self, fault: KafkaFault) -> KafkaFault:
        """Return the cause. When a transaction becomes abortable, librdkafka purges its records;
        only the next call to the transaction says why. It is safe to ask by committing, since a
        transaction in that state cannot commit."""
        if not self._transactional or fault.name not in (*PURGED, "_STATE"):
            return fault
        try:
            call(self._client.commit_transaction, 0.1)
        except KafkaFault as cause:
            return KafkaFault(cause.name, cause.text, retriable=cause.retriable)
        return fault

    def _resume(self, operation: Any, until: Until) -> None:
        """Call an operation of the transaction in short slices: called again after a timeout, it
        continues where it was."""
        while True:
            try:
                call(operation, slice_of(until))
                return
            except KafkaFault as fault:
                # After a fatal error every call returns _CONFLICT, and is called retriable.
                if (
                    not fault.retriable
                    or fault.name == "_CONFLICT"
                    or runtime.monotonic() >= until()
                ):
                    raise self._client_errors.explained(fault) from fault
                log.debug("resumed after %s", fault)


class Fence:
    """Fence of a transactional.id: it ends the open transaction of the earlier producer, and makes
    that producer useless. Connecting fences nobody, and may be done long before."""

    def __init__(self, settings: LaneSettings, transactional_id: str, topic: str) -> None:
        """Make the producer. ``topic``: any that exists."""
        self._producer = _TransactionalProducer(settings, transactional_id)
        self._topic = topic
        self._connected = False

    def connect(self, until: Until) -> None:
        """Bring a connection up. Raises KafkaFault."""
        self._producer.connect(until, self._topic)
        self._connected = True

    def close(self, until: Until) -> None:
        """Fence the id. On return, every earlier producer with this transactional.id is fenced.
        Raises KafkaFault."""
        if not self._connected:
            self.connect(until)
        self._producer.init(until)

    def discard(self) -> None:
        self._producer.discard()


def try_transaction(
    settings: LaneSettings,
    transactional_id: str,
    any_topic: str,
    topics: Sequence[str],
    wait_seconds: Callable[[], float],
    until: Until,
) -> None:
    """Initialise a producer, begin a transaction over partition 0 of the topics, if there are any,
    wait so long for a refusal, and abort it. No record is sent: each waits for its batch
    (`linger.ms`) until it is dropped. ``any_topic``: one that exists. Raises KafkaFault."""
    producer = _TransactionalProducer(settings, transactional_id)
    try:
        producer.connect(until, any_topic, *topics)
        producer.init(until)
        if not topics:
            return
        producer.begin()
        with producer.faults():
            for topic in topics:
                producer.produce(topic, b"", None, 0)
        producer.wait_for_refusal(wait_seconds())
        producer.abort(until)
    finally:
        producer.discard()


def _nothing() -> None:
    pass


class Transactions:
    """Transactions of one transactional.id, one at a time: (``begin`` → records → ``commit``) … →
    ``close``. Without transactions (at least once), the same sequence. For one thread; others may
    only ask ``sent``.

    After any fault the caller discards: the outcome is what the ledger says once the id is open
    again.
    """

    def __init__(
        self,
        settings: LaneSettings,
        transactional_id: str,
        topics: Sequence[str],
        right: RightToShip[Any],
        *,
        before_fencing: Callable[[], None] = _nothing,
        stop: Callable[[], None] = _nothing,
    ) -> None:
        """Make the lane's producer. Args: topics: those that will be written to, as far as known;
        the first exists. before_fencing: called when connected, before anybody is fenced; may
        wait. stop: raises if the caller is to stop; asked between retries."""
        self._settings = settings
        self._id = transactional_id
        self._topics = tuple(topics[: 1 + _MOST_LOOKED_UP])
        self._right = right
        self._before_fencing = before_fencing
        self._stop = stop
        self._producer: _TransactionalProducer | None = None
        self._opening = 0
        self._begun = self._committing = False
        self._sent_before = SentBytes()
        self.openings = 0
        """Number of producers that were opened."""

    @property
    def sent(self) -> SentBytes:
        """Bytes sent by all producers so far."""
        producer = self._producer
        return self._sent_before.plus(producer.sent) if producer else self._sent_before

    def open(self, until: Until) -> None:
        """Open a fresh, initialised producer. On return, every earlier one with this id is fenced.
        Retries until the time is over, then raises KafkaFault. Raises at once for a fault that no
        retry cures."""
        self.discard()
        pause = _FIRST_PAUSE_SECONDS
        while True:
            self._stop()
            ends = runtime.monotonic() + _OPEN_SECONDS
            try:
                self._open(lambda ends=ends: min(ends, until()))  # type: ignore[misc]
                return
            except KafkaFault as fault:
                self.discard()
                self._stop()
                if policy_for(fault.name).action is Action.FAIL or runtime.monotonic() > until():
                    raise
                log.info("%s: %s; opening it again", self._id, fault)
            runtime.sleep(max(0.0, min(pause, until() - runtime.monotonic())))
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    def _open(self, until: Until) -> None:
        producer = self._producer = _TransactionalProducer(self._settings, self._id)
        producer.connect(until, *self._topics)
        self._before_fencing()
        self._stop()
        producer.init(until)
        self._opening = self._right.opened()
        self.openings += 1

    def begin(self, until: Until) -> LaneProducer:
        """Begin a transaction, and return the producer to write with. Opens first if that was not
        done, or if the producer lost a connection. Raises KafkaFault, and Superseded if a later run
        or attempt may ship."""
        if self._begun:
            raise KafkaFault(
                "_STATE",
                "the transaction before was not committed; its outcome is the ledger's to tell",
            )
        if self._producer is not None and self._producer.lost_connection():
            log.info("%s: opened anew, since it lost a connection", self._id)
            self.discard()
        if self._producer is None:
            self.open(until)
        assert self._producer is not None
        self._right.confirm(self._opening)
        self._producer.begin()
        self._begun = True
        return self._producer

    def commit(self, until: Until) -> None:
        """Commit. Raises KafkaFault: then only the ledger knows whether the transaction is
        committed."""
        assert self._producer is not None
        assert self._begun
        self._committing = True
        self._producer.commit(until)
        self._begun = self._committing = False

    def discard(self) -> None:
        """Discard the producer; an open transaction ends when its id is fenced or its timeout is
        over."""
        producer, self._begun, self._committing = self._producer, False, False
        if producer is not None:
            sent = self._sent_before.plus(producer.count_sent())
            self._producer, self._sent_before = None, sent
            producer.discard()

    def close(self, until: Until) -> None:
        """Abort an open transaction, and close. A transaction that may be committed is not aborted:
        only its commit may end it."""
        if self._producer is not None and self._begun and not self._committing:
            self._producer.abort(until)
        self.discard()
