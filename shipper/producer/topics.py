"""Which topics can be written to right now (after KIP-286: nobody who hands over a record waits for metadata).

A topic is *usable* when the cluster knows it and some of its partitions have a leader; chunks for any other are parked.
A topic that was refused when a lane wrote to it (an ACL, a leader that left) is *blocked* for a pause that doubles, and then
*probed*: one chunk is let through, and the rest follows only if it was delivered.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from shipper.producer.client import TopicState

log = logging.getLogger("shipper.topics")

_REFRESH_SECONDS = 5.0
_LOOKUP_SECONDS = 5.0
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.25, 5.0


@dataclass
class _Topic:
    state: TopicState | None = None
    blocked: str = ""
    """Why a lane could not write to it; metadata alone does not lift this."""
    probing: bool = False
    unusable_since: float | None = None
    pause: float = _FIRST_PAUSE_SECONDS
    look_at: float = 0.0
    """When to ask the cluster next (monotonic seconds)."""
    probe_at: float = 0.0

    @property
    def reason(self) -> str:
        return self.blocked or (self.state.reason if self.state else "not looked up yet")


def _closed(topics: Collection[str], timeout_seconds: float) -> dict[str, TopicState]:
    return dict.fromkeys(topics, TopicState(reason="no longer looked up"))


#: Asks the cluster about topics, for so many seconds at most.
Lookup = Callable[[Collection[str], float], Mapping[str, TopicState]]


class Topics:
    """Keeps what it was asked for up to date in a thread of its own. All methods return at once, but ``learn``."""

    def __init__(self, lookup: Lookup, changed: Callable[[], None]) -> None:
        self._lookup = lookup
        self._changed = changed
        self._topics: dict[str, _Topic] = {}
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="topics", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_seconds: float) -> None:
        self._stop.set()
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join(timeout_seconds)
        self._lookup = _closed  # lets go of its connections

    def learn(self, topics: Iterable[str], timeout_seconds: float) -> None:
        """Asks for ``topics`` and waits for the answers, at most so long."""
        names = set(topics)
        for name in names:
            self.partitions(name)
        deadline = time.monotonic() + timeout_seconds
        while time.monotonic() < deadline and not all(self._topics[name].state for name in names):
            time.sleep(0.002)

    def partitions(self, topic: str) -> tuple[int, ...]:
        """Partitions that can be written to; none while the topic is not usable, or only a probe may pass."""
        with self._lock:
            entry = self._topics.get(topic)
            if entry is None:
                self._topics[topic] = entry = _Topic()
                self._wake.set()
            if entry.state is None or entry.blocked:
                return ()
            return entry.state.partitions

    def probe(self, topic: str) -> bool:
        """Whether the caller may send one chunk to a blocked topic now. Then it must say ``delivered`` or ``block``."""
        with self._lock:
            entry = self._topics[topic]
            due = bool(entry.blocked and entry.state and entry.state.partitions) and time.monotonic() >= entry.probe_at
            if not due or entry.probing:
                return False
            entry.probing = True
            return True

    def known_partitions(self, topic: str) -> tuple[int, ...]:
        """As the cluster said last, blocked or not."""
        with self._lock:
            entry = self._topics.get(topic)
            return entry.state.partitions if entry and entry.state else ()

    def block(self, topic: str, reason: str) -> None:
        """A lane could not write to it."""
        with self._lock:
            entry = self._topics.setdefault(topic, _Topic())
            entry.blocked, entry.probing = reason, False
            entry.unusable_since = entry.unusable_since or time.monotonic()
            entry.probe_at = time.monotonic() + entry.pause
            entry.look_at = 0.0
            entry.pause = min(2 * entry.pause, _LONGEST_PAUSE_SECONDS)

    def delivered(self, topic: str) -> None:
        """A lane wrote to it."""
        entry = self._topics.get(topic)
        if entry is not None and (entry.blocked or entry.unusable_since):
            with self._lock:
                entry.blocked, entry.probing, entry.unusable_since, entry.pause = "", False, None, _FIRST_PAUSE_SECONDS
            self._changed()

    def any_usable(self) -> bool:
        with self._lock:
            return any(entry.state and entry.state.partitions and not entry.blocked for entry in self._topics.values())

    def may_be_usable(self, topic: str) -> bool:
        """Whether it is usable, or the cluster has yet to say."""
        with self._lock:
            entry = self._topics[topic]
            return not entry.blocked and (entry.state is None or bool(entry.state.partitions))

    def unusable(self, topic: str) -> tuple[float, str]:
        """(seconds since it is unusable, why); (0, "") for a usable one."""
        with self._lock:
            entry = self._topics.get(topic)
            if entry is None or entry.unusable_since is None:
                return 0.0, ""
            return time.monotonic() - entry.unusable_since, entry.reason

    def _watch(self) -> None:
        while not self._stop.is_set():
            for name, state in self._lookup(self._due(), _LOOKUP_SECONDS).items():
                self._learn(name, state)
            self._changed()
            self._wake.wait(0.1)
            self._wake.clear()

    def _due(self) -> list[str]:
        now = time.monotonic()
        with self._lock:
            return [name for name, entry in self._topics.items() if entry.look_at <= now]

    def _learn(self, name: str, state: TopicState) -> None:
        now = time.monotonic()
        with self._lock:
            entry = self._topics[name]
            entry.state = state
            if state.partitions:
                entry.look_at = now + _REFRESH_SECONDS
                if not entry.blocked:
                    entry.unusable_since, entry.pause = None, _FIRST_PAUSE_SECONDS
                return
            entry.unusable_since = entry.unusable_since or now
            entry.look_at = now + entry.pause
            entry.pause = min(2 * entry.pause, _LONGEST_PAUSE_SECONDS)
