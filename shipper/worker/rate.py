"""A cap on bytes per second."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

#: How much of a transaction's timeout may pass with waiting for a cap. The rest is for the cluster, which ends one that is open for longer.
PACED_SHARE = 0.25


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
    def book(self, size_bytes: int) -> Pace:
        """At once."""
        return Pace(0.0, 0.0, size_bytes)


class RateLimit:
    """Lets ``bytes_per_second()`` pass, shared by all threads that ask.

    Whoever asks books the time that its bytes take, all of it behind what was booked before: so lanes take turns, and none has a transaction
    open while others send. What was not used is kept for a tenth of a second only, so that a pause is not made up for by a burst.
    ``bytes_per_second`` is asked every time: it may change while it runs.
    """

    _KEPT_SECONDS = 0.1

    def __init__(self, bytes_per_second: Callable[[], float]) -> None:
        self._bytes_per_second = bytes_per_second
        self._lock = threading.Lock()
        self._free_at = 0.0

    def book(self, size_bytes: int) -> Pace:
        with self._lock:
            begins = max(self._free_at, time.monotonic() - self._KEPT_SECONDS)
            seconds = size_bytes / self._bytes_per_second()
            self._free_at = begins + seconds
        return Pace(begins, seconds, size_bytes)
