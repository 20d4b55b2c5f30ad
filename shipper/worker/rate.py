"""Rate limits in bytes per second: the user's, and those of the brokers' quotas."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from shipper.kafka.producer import Throttled

#: Share of a transaction's timeout that may pass in the rate limiter. The rest is for the cluster,
#: which aborts a transaction that is open for longer.
PACED_SHARE = 0.25

_LOOKS_EVERY_SECONDS = 0.5
#: Time over which a broker's quota is measured (`quota.window.num` - 1 windows of
#: `quota.window.size.seconds`, by default).
_QUOTA_WINDOW_SECONDS = 10.0
#: Shortest throttling that counts: a shorter one passes by itself, and occurs at the quota's own
#: rate. A quota on requests, which says nothing of bytes, throttles for one second at most.
_PASSING_SECONDS = 2.0
#: Factors of the learned rate: after a transaction that was not throttled, and after one that was.
_FASTER, _SLOWER = 1.1, 0.9


@dataclass(frozen=True)
class Pace:
    """Schedule of one transaction's bytes: evenly, from ``begins`` (monotonic seconds) on for
    ``seconds``."""

    begins: float
    seconds: float
    size_bytes: int

    def after(self, sent_bytes: int) -> float:
        """Return the time when more than ``sent_bytes`` may be sent."""
        return self.begins + self.seconds * sent_bytes / max(1, self.size_bytes)

    def begin_at(self, most_seconds: float) -> float:
        """Return the time to begin, so that an even pace takes no more than ``most_seconds``. If it
        would take more, the first bytes go at once."""
        return self.begins + max(0.0, self.seconds - most_seconds)


class RateLimit:
    """Rate limiter: lets ``bytes_per_second()`` pass, shared by all threads that ask.

    The threads take turns, each for as long as its bytes take, so no thread has a transaction open
    while others send. An unused rate is kept for a tenth of a second only, so that a pause is not
    followed by a burst. The rate is read when a turn starts: it may change while the limiter runs.
    """

    _KEPT_SECONDS = 0.1

    def __init__(self, bytes_per_second: Callable[[], float]) -> None:
        self._bytes_per_second = bytes_per_second
        self._next = threading.Lock()
        """Lock held by the thread whose turn is next."""
        self._free_at = 0.0

    def turn(self, size_bytes: int, until: Callable[[], float]) -> Pace:
        """Wait until all bytes of earlier turns may have been sent, or the time (monotonic seconds)
        is over."""
        while not self._next.acquire(timeout=_LOOKS_EVERY_SECONDS):
            if time.monotonic() >= until():
                return Pace(0.0, 0.0, size_bytes)
        try:
            wait_until(lambda: min(self._free_at, until()))
            begins = max(self._free_at, time.monotonic() - self._KEPT_SECONDS)
            seconds = size_bytes / self._bytes_per_second()
            self._free_at = begins + seconds
        finally:
            self._next.release()
        return Pace(begins, seconds, size_bytes)


class BrokerRate:
    """Rate that the brokers' quotas allow, learned from their throttling, on top of ``cap`` (None:
    no cap). Shared by the lanes of a task.

    A broker with a quota takes a request at once, and then reads nothing from the connection until
    the average of the last ten seconds fits the quota again. If all lanes send at once, their
    transactions are open meanwhile, time out, and are resent without end. So from the first
    throttling on the lanes take turns, as under a cap.

    The first guess is the broker's own arithmetic (ClientQuotaManager): it throttles until the
    bytes in the window fit the quota. So the bytes of this task, divided by the window and the
    throttling together, are the task's share, whoever else shares the quota. From then on the rate
    grows by a tenth with each turn without throttling, and shrinks with each turn with throttling.
    """

    def __init__(self, cap: RateLimit | None) -> None:
        self.throttled_seconds = 0.0
        """Time for which at least one connection was throttled, in seconds."""
        self._cap = cap
        self._learned = RateLimit(self._bytes_per_second)
        self._lock = threading.Lock()
        self._rate = math.inf
        self._guesses = True
        """True until the first turn at a learned rate."""
        self._sent: deque[tuple[float, int]] = deque()
        """Pairs of monotonic seconds and bytes sent, of the window and since the first
        throttling."""
        self._longest = 0.0
        """Throttling since the last turn, in seconds."""
        self._resume_at = self._throttled_until = 0.0

    def turn(self, size_bytes: int, until: Callable[[], float]) -> Pace:
        """Wait like :meth:`RateLimit.turn`, and also while the brokers throttle."""
        cap = self._cap.turn(size_bytes, until) if self._cap else Pace(0.0, 0.0, size_bytes)
        if math.isinf(self._rate):
            return cap
        wait_until(lambda: min(self._resume_at, until()))
        learned = self._learned.turn(size_bytes, until)
        return max(cap, learned, key=lambda pace: pace.begins + pace.seconds)

    def note_sent(self, size_bytes: int) -> None:
        """Note bytes. Call it before they are sent, because the broker counts bytes that are under
        way."""
        with self._lock:
            if self._guesses:
                now = time.monotonic()
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
                self._rate = min(self._rate, sum(size for _, size in sent) / (took + told.seconds))

    def _bytes_per_second(self) -> float:
        with self._lock:
            if self._guesses:
                self._guesses = False
                self._sent.clear()
            elif self._longest == 0:
                self._rate *= _FASTER
            elif self._longest > _PASSING_SECONDS:
                self._rate *= _SLOWER
            self._longest = 0.0
            return self._rate


def wait_until(at: Callable[[], float]) -> None:
    """Wait until ``at`` (monotonic seconds). The deadline is read again while waiting and may move
    earlier."""
    while (left := at() - time.monotonic()) > 0:
        time.sleep(min(left, _LOOKS_EVERY_SECONDS))
