"""Waiting for the world to be as a test wants it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(
    holds: Callable[[], T], within_seconds: float = 300, *, every_seconds: float = 0.05
) -> T:
    """Return the first true answer of ``holds``. Raises AssertionError if there is none in time."""
    deadline = time.monotonic() + within_seconds
    while not (found := holds()):
        assert time.monotonic() < deadline, f"not within {within_seconds:.0f} s: {holds}"
        time.sleep(every_seconds)
    return found
