"""A cap on bytes per second."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

#: How much of a transaction's timeout may pass with waiting for a cap. The rest is for the cluster, which ends one that is open for longer.
PACED_SHARE = 0.25

_LOOKS_EVERY_SECONDS = 0.5


@dataclass(frozen=True)
class Pace:
    """When the bytes of one transaction may go: evenly, from ``begins`` (monotonic seconds) on for ``seconds``."""

    begins: float
    seconds: float
    size_bytes: int

    def after(self, sent_bytes: int) -> float:
        """When more may go than ``sent_bytes``."""
        return self.begins + self.seconds * sent_bytes / max(1, self.size_bytes)

    def begin_at(self, most_seconds: float) -> float:
        """When to begin, so that what is sent evenly takes no more than that. Where it would, what comes first goes at once."""
        return self.begins + max(0.0, self.seconds - most_seconds)


class NoLimit:
    def turn(self, size_bytes: int, until: Callable[[], float]) -> Pace:
        """At once."""
        return Pace(0.0, 0.0, size_bytes)


class RateLimit:
    """Lets ``bytes_per_second()`` pass, shared by all threads that ask.

    They take turns, each for as long as its bytes take: so none has a transaction open while others send. What was not used is kept for a tenth of a
    second only, so that a pause is not made up for by a burst. ``bytes_per_second`` is asked when a turn comes: it may change while it runs.
    """

    _KEPT_SECONDS = 0.1

    def __init__(self, bytes_per_second: Callable[[], float]) -> None:
        self._bytes_per_second = bytes_per_second
        self._next = threading.Lock()
        """Held by whoever is the next."""
        self._free_at = 0.0

    def turn(self, size_bytes: int, until: Callable[[], float]) -> Pace:
        """Waits until all that was asked for before may have been sent, or the time (monotonic seconds) is over."""
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


def wait_until(at: Callable[[], float]) -> None:
    """``at``: monotonic seconds; may become less while it is waited for."""
    while (left := at() - time.monotonic()) > 0:
        time.sleep(min(left, _LOOKS_EVERY_SECONDS))
