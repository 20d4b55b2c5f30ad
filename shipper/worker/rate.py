"""Rate limits in bytes per second: the user's, and those of the brokers' quotas.

Nothing here waits: what has to wait yields the seconds until it may look again, so that the
arithmetic can be tested in virtual time.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from shipper import runtime
from shipper.kafka.producer import Throttled

#: Share of a transaction's timeout that may pass in the rate limiter. The rest is for the cluster,
#: which aborts a transaction that is open for longer.
PACED_SHARE = 0.25
#: Most of the rate that goes at once, in seconds: a batch, and what a pause leaves to be made up
#: for. So in any ten seconds no more is sent than the rate allows in 10.3.
BURST_SECONDS = 0.3

#: Time over which a broker's quota is measured (`quota.window.num` - 1 windows of
#: `quota.window.size.seconds`, by default).
_QUOTA_WINDOW_SECONDS = 10.0
#: Shortest throttling that counts: a shorter one passes by itself, and occurs at the quota's own
#: rate. A quota on requests, which says nothing of bytes, throttles for one second at most.
_PASSING_SECONDS = 2.0
#: Factors of the learned rate: after a transaction that was not throttled, and after one that was.
_FASTER, _SLOWER = 1.1, 0.9
_SHORTEST_WAIT_SECONDS = 0.02

Clock = Callable[[], float]


class RateLimit:
    """Rate limiter of ``bytes_per_second()``, shared by the lanes of a task.

    Bytes are paid for before they are sent. The rate gives credit; whoever is to send waits for
    what its bytes need, and of several that wait the transaction that began first is served first.
    So no transaction is held open by those behind it. The rate may change while the limiter runs. A
    guess of the size is corrected once the bytes are known.
    """

    def __init__(self, bytes_per_second: Callable[[], float], clock: Clock = runtime.monotonic):
        self.bytes_per_second = bytes_per_second
        self._clock = clock
        self._lock = runtime.Lock()
        self._at: float | None = None
        """Time until which credit was given; None before the first transaction."""
        self._credit = 0.0
        """Bytes that may be sent now; below 0: bytes that were sent without."""
        self._queue: list[object] = []
        """Transactions that wait for their beginning."""
        self._open: dict[object, float] = {}
        """Transactions under way, in the order in which they began → bytes they have yet to
        send."""
        self._needs: dict[object, float] = {}
        """Those of them that wait → bytes that they wait for."""

    def _pass_time(self) -> float:
        """Give credit for the time; return the rate. Credit that nobody uses is kept for a moment
        only, so that a pause is not followed by a burst."""
        now, rate = self._clock(), self.bytes_per_second()
        first = next((self._needs[each] for each in self._open if each in self._needs), 0.0)
        given = rate * (now - (now if self._at is None else self._at))
        self._at = now
        self._credit = min(self._credit + given, max(BURST_SECONDS * rate, first))
        return rate

    def queue(self, transaction: object) -> None:
        """Queue a transaction. Those that wait begin in this order."""
        with self._lock:
            self._queue.append(transaction)

    def wait_to_begin(self, transaction: object, size_bytes: float, most_seconds: float) -> float:
        """Return the seconds after which to ask again whether the queued transaction may begin; 0
        if it has begun now: then the rate lets all transactions under way through within
        ``most_seconds``, or it is the only one."""
        with self._lock:
            rate = self._pass_time()
            excess = sum(self._open.values()) + size_bytes - rate * most_seconds
            if self._queue[0] is not transaction or (self._open and excess > 0):
                return max(_SHORTEST_WAIT_SECONDS, excess / rate)
            self._queue.pop(0)
            self._open[transaction] = size_bytes
            return 0.0

    def leave(self, transaction: object) -> None:
        """End a transaction, or give up its place in the queue."""
        with self._lock:
            if transaction in self._queue:
                self._queue.remove(transaction)
            self._open.pop(transaction, None)
            self._needs.pop(transaction, None)

    def need(self, transaction: object, size_bytes: float) -> None:
        """Ask for credit, for :meth:`wait_seconds`."""
        with self._lock:
            self._pass_time()
            self._needs[transaction] = size_bytes

    def wait_seconds(self, transaction: object) -> float:
        """Return the seconds until the transaction will have the credit that it asked for, at the
        present rate; 0 if it has it now."""
        with self._lock:
            rate = self._pass_time()
            needed = 0.0
            for each in self._open:
                needed += self._needs.get(each, 0.0)
                if each is transaction:
                    break
            if needed - self._credit >= 1:
                return (needed - self._credit) / rate
            self._credit -= self._needs.pop(transaction, 0.0)
            return 0.0

    def note_sent(self, transaction: object, size_bytes: float) -> None:
        """Note bytes of a transaction as sent."""
        with self._lock:
            if transaction in self._open:
                self._open[transaction] -= size_bytes

    def hold(self, seconds: float) -> None:
        """Let nothing through for so long."""
        with self._lock:
            self._credit -= seconds * self._pass_time()

    def correct(self, by_bytes: float) -> None:
        """Take back the credit for bytes that were sent without, or give it back."""
        with self._lock:
            self._credit -= by_bytes


class SendSize(NamedTuple):
    """Size of a batch."""

    record_bytes: int
    wire_bytes: float
    """Estimate of the bytes on the wire."""
    uncorrected_bytes: float = 0.0
    """The same before it was multiplied by what earlier batches have shown."""


class _Passage:
    """Passage of one transaction's batches through one limiter."""

    def __init__(self, limit: RateLimit, sizes: Sequence[float], most_seconds: float) -> None:
        self._limit, self._sizes, self._most_seconds = limit, sizes, most_seconds
        self._whole, self._paid = float(sum(sizes)), 0.0

    def begin(self) -> Iterator[float]:
        """Wait for the transactions under way. Then wait for the first batch, and for what would
        keep the transaction open for longer than ``most_seconds``: those bytes go at once when it
        begins, which only a record or a chunk that is too large for the rate makes necessary."""
        limit = self._limit
        limit.queue(self)
        while (seconds := limit.wait_to_begin(self, self._whole, self._most_seconds)) > 0:
            yield seconds
        too_much = self._whole - limit.bytes_per_second() * self._most_seconds
        self._paid = max(self._sizes[0] if self._sizes else 0.0, too_much)
        yield from self._wait_for(self._paid)

    def _wait_for(self, size_bytes: float) -> Iterator[float]:
        self._limit.need(self, size_bytes)
        while (seconds := self._limit.wait_seconds(self)) > 0:
            yield seconds

    def send(self, number: int) -> Iterator[float]:
        """Wait until the batch may be sent."""
        size = self._sizes[number]
        if size > self._paid:
            missing, self._paid = size - self._paid, size
            yield from self._wait_for(missing)
        self._paid -= size
        self._limit.note_sent(self, size)

    def close(self) -> None:
        self._limit.leave(self)


class PacedTransaction:
    """Pace of one transaction: ``begin`` → ``send`` for each batch → ``close``. The first two yield
    the seconds to wait before the next look."""

    def __init__(self, rate: BrokerRate, sizes: Sequence[SendSize], most_seconds: float) -> None:
        self._rate, self._sizes, self._most_seconds = rate, sizes, most_seconds
        self._passages: list[_Passage] = []

    def begin(self) -> Iterator[float]:
        """Wait until the transaction may begin."""
        if self._rate.cap:
            yield from self._enter(self._rate.cap, [size.wire_bytes for size in self._sizes])
        if learned := self._rate.learned:
            while (seconds := self._rate.throttled_for()) > 0:
                yield seconds
            self._rate.adapt()
            yield from self._enter(learned, [size.record_bytes for size in self._sizes])

    def _enter(self, limit: RateLimit, sizes: Sequence[float]) -> Iterator[float]:
        self._passages.append(_Passage(limit, sizes, self._most_seconds))
        yield from self._passages[-1].begin()

    def send(self, number: int) -> Iterator[float]:
        """Wait until batch ``number`` may be sent."""
        for passage in self._passages:
            yield from passage.send(number)
        self._rate.note_sent(self._sizes[number].record_bytes)

    def close(self) -> None:
        """End the transaction, whatever became of it."""
        for passage in self._passages:
            passage.close()


class BrokerRate:
    """Rate that the brokers' quotas allow, learned from their throttling, beside ``cap`` (None: no
    cap). Shared by the lanes of a task.

    A broker with a quota takes a request at once, and then reads nothing from the connection until
    the average of the last ten seconds fits the quota again. If all lanes send at once, their
    transactions are open meanwhile, time out, and are resent without end. So from the first
    throttling on the lanes take turns, as under a cap.

    The first guess is the broker's own arithmetic (ClientQuotaManager): it throttles until the
    bytes in the window fit the quota. So the bytes of this task, divided by the window and the
    throttling together, are the task's share, whoever else shares the quota. From then on the rate
    grows by a tenth with each transaction without throttling, and shrinks with each one with
    throttling.
    """

    def __init__(self, cap: RateLimit | None, clock: Clock = runtime.monotonic) -> None:
        self.cap = cap
        """Limit in bytes on the wire."""
        self.learned: RateLimit | None = None
        """Limit in bytes of records; None: no broker has throttled for long."""
        self.throttled_seconds = 0.0
        """Time for which at least one connection was throttled, in seconds."""
        self._clock = clock
        self._lock = runtime.Lock()
        self._rate = math.inf
        self._guesses = True
        """True until the first transaction at a learned rate."""
        self._sent: deque[tuple[float, int]] = deque()
        """Pairs of monotonic seconds and bytes sent, of the window and since the first
        throttling."""
        self._longest = 0.0
        """Throttling since the last transaction, in seconds."""
        self._resume_at = self._throttled_until = 0.0

    def transaction(self, sizes: Sequence[SendSize], most_seconds: float) -> PacedTransaction:
        """Return the pace of a transaction whose batches have these sizes. It is open for
        ``most_seconds`` at most on account of the limits."""
        return PacedTransaction(self, sizes, most_seconds)

    def throttled_for(self) -> float:
        """Return for how many seconds the brokers still throttle."""
        return max(0.0, self._resume_at - self._clock())

    def note_sent(self, size_bytes: int) -> None:
        """Note bytes. Call it before they are sent, because the broker counts bytes that are under
        way."""
        with self._lock:
            if self._guesses:
                now = self._clock()
                self._sent.append((now, size_bytes))
                while math.isinf(self._rate) and self._sent[0][0] < now - _QUOTA_WINDOW_SECONDS:
                    self._sent.popleft()

    def note_throttled(self, told: Throttled) -> None:
        """Note the throttling that a producer was told of since the last call."""
        if told.seconds <= 0:
            return
        with self._lock:
            at = told.until - told.seconds
            self.throttled_seconds += max(0.0, told.until - max(at, self._throttled_until))
            self._throttled_until = max(self._throttled_until, told.until)
            self._longest = max(self._longest, told.seconds)
            if told.seconds <= _PASSING_SECONDS:
                return
            self._resume_at = max(self._resume_at, told.until)
            if self._guesses and (sent := [each for each in self._sent if each[0] <= at]):
                took = max(_QUOTA_WINDOW_SECONDS, at - sent[0][0])
                share = max(1, sum(size for _, size in sent)) / (took + told.seconds)
                self._rate = min(self._rate, share)
                self.learned = self.learned or RateLimit(lambda: self._rate, self._clock)

    def adapt(self) -> None:
        """Adapt the learned rate before a transaction at it."""
        with self._lock:
            if self._guesses:
                self._guesses = False
                self._sent.clear()
            elif self._longest == 0:
                self._rate *= _FASTER
            elif self._longest > _PASSING_SECONDS:
                self._rate *= _SLOWER
            self._longest = 0.0
