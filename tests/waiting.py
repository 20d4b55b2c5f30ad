"""Waiting for the world to be as a test wants it, on a machine of any speed."""

import time
from collections.abc import Callable
from typing import TypeVar

from shipper_tools.dev.server import slowness

__all__ = ["slowness", "wait_until"]

T = TypeVar("T")


def wait_until(
    holds: Callable[[], T],
    within_seconds: float = 300,
    *,
    every_seconds: float = 0.05,
    progress: Callable[[], object] = lambda: None,
) -> T:
    """Return the first true answer of ``holds``.

    The time runs at the machine's pace: with four processes for each core, a second counts for a
    quarter. It begins anew whenever ``progress`` has another answer than at its last end. Raises
    AssertionError when it is over.
    """
    left, seen, looked = within_seconds, progress(), time.monotonic()
    while not (found := holds()):
        now = time.monotonic()
        left, looked = left - (now - looked) / slowness(), now
        if left < 0:
            before, seen = seen, progress()
            assert seen != before, f"not within {within_seconds:.0f} s: {holds}"
            left = within_seconds
        time.sleep(every_seconds)
    return found
