"""The only source of time, threads, locks, events, queues and random tokens in the product.

In production every name is the standard library's own. Callers write ``runtime.sleep(1)``, never
``from shipper.runtime import sleep``, so that the simulated world (tests/sim) can put virtual time
and a seeded scheduler in the place of all of them. ``tests/unit/test_house.py`` keeps this module
the only one that imports these.
"""

from __future__ import annotations

import datetime as dt
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from queue import Full, Queue
from secrets import token_hex
from threading import (
    Condition,
    Event,
    Lock,
    RLock,
    Thread,
    Timer,
    current_thread,
    get_ident,
    main_thread,
)
from threading import enumerate as threads
from time import CLOCK_BOOTTIME, clock_gettime, monotonic, process_time, sleep, time, time_ns

__all__ = [
    "CLOCK_BOOTTIME",
    "Condition",
    "Event",
    "Full",
    "Future",
    "Lock",
    "Queue",
    "RLock",
    "Thread",
    "ThreadPoolExecutor",
    "Timer",
    "as_completed",
    "clock_gettime",
    "current_thread",
    "get_ident",
    "main_thread",
    "monotonic",
    "now",
    "process_time",
    "sleep",
    "threads",
    "time",
    "time_ns",
    "token_hex",
]


def now() -> dt.datetime:
    """Return the present moment, in UTC."""
    return dt.datetime.fromtimestamp(time(), dt.UTC)
