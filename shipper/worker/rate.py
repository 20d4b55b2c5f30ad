"""A cap on bytes per second."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class NoLimit:
    def wait_for(self, size_bytes: int, until: Callable[[], float]) -> None:
        """Returns at once."""


class RateLimit:
    """Lets ``bytes_per_second()`` pass, shared by all threads that ask.

    Time is booked in advance: whoever asks is told when its bytes may go. What was not used is kept for a tenth of a second
    only, so that a pause is not made up for by a burst. ``bytes_per_second`` is asked every time: it may change while it runs.
    """

    _KEPT_SECONDS = 0.1

    def __init__(self, bytes_per_second: Callable[[], float]) -> None:
        self._bytes_per_second = bytes_per_second
        self._lock = threading.Lock()
        self._free_at = 0.0

    def wait_for(self, size_bytes: int, until: Callable[[], float]) -> None:
        """Returns when ``size_bytes`` may be sent, or when the time (monotonic seconds) is over."""
        with self._lock:
            start = max(self._free_at, time.monotonic() - self._KEPT_SECONDS)
            self._free_at = start + size_bytes / self._bytes_per_second()
        while (left := min(start, until()) - time.monotonic()) > 0:
            time.sleep(min(left, 0.5))
