"""Topics that can be written to right now (after KIP-286: handing over a record never waits for
metadata).

A topic is *usable* when the cluster knows it and some of its partitions have a leader; chunks for
any other are parked. A topic that was refused when a lane wrote to it (an ACL, a leader that left)
is *blocked* for a pause that doubles, and then *probed*: one chunk is let through, and the rest
follows only if it was delivered.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from shipper import runtime
from shipper.config.units import plural
from shipper.kafka.connection import ClientOwner, to_fault
from shipper.kafka.outcomes import GRANT_SECONDS
from shipper.kafka.producer import LaneSettings
from shipper.kafka.topic_ids import Looked, read_answers

log = logging.getLogger("shipper.kafka")

FORBIDDEN = "TOPIC_AUTHORIZATION_FAILED"
_REFRESH_SECONDS = 5.0
#: Between two calls of ``changed`` while somebody waits for a topic.
_TICK_SECONDS = 0.1
_LOOKUP_SECONDS = 5.0
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.25, 5.0


@dataclass(frozen=True)
class TopicState:
    """State of a topic, as the cluster reports it."""

    partitions: tuple[int, ...] = ()
    """Partitions that have a leader."""
    reason: str = ""
    """Reason why no partition has a leader."""
    existing: tuple[int, ...] = ()
    """All partitions, with or without a leader."""
    forbidden: bool = False
    """An ACL is the reason."""
    answered: bool = True
    """False: no broker said anything, and ``reason`` is why. That is no news of a topic that is
    already known."""


class TopicLookup(ClientOwner):
    """Lookup of topics, with a connection of its own."""

    def __init__(self, settings: LaneSettings) -> None:
        super().__init__(AdminClient, settings.cluster, settings.connection)

    def __call__(self, topics: Collection[str], timeout_seconds: float) -> dict[str, TopicState]:
        """Ask for all topics in one request. Never raises: an error becomes the reason why a topic
        has no partitions right now."""
        named = [topic for topic in topics if topic]
        unnamed = dict.fromkeys(
            set(topics) - set(named), TopicState(reason="a topic's name cannot be empty")
        )
        if not named:
            return unnamed
        asked = self._ask(named, timeout_seconds)
        return unnamed | {topic: self._state(answer) for topic, answer in asked.items()}

    def ids(self, topics: Collection[str], timeout_seconds: float) -> Looked:
        """Ask for the topics' ids; see :data:`shipper.kafka.topic_ids.Look`."""
        return read_answers(self._ask(topics, timeout_seconds), self._client_errors.explained)

    def _ask(self, topics: Collection[str], timeout_seconds: float) -> dict[str, Any]:
        asked: dict[str, Any] = self._client.describe_topics(
            TopicCollection([*topics]), request_timeout=timeout_seconds
        )
        return asked

    def _state(self, answer: runtime.Future[Any]) -> TopicState:
        try:
            partitions = answer.result().partitions
        except KafkaException as error:
            fault = error.args[0]
            why = self._client_errors.explained(to_fault(fault)).text
            return TopicState(
                reason=why, forbidden=fault.name() == FORBIDDEN, answered=fault.code() >= 0
            )
        self._client_errors.forget()
        led = tuple(
            sorted(
                partition.id
                for partition in partitions
                if partition.leader is not None and partition.leader.id >= 0
            )
        )
        existing = tuple(sorted(partition.id for partition in partitions))
        return TopicState(led, "" if led else "none of its partitions has a leader", existing)


def wait_for(lookup: Lookup, topics: Collection[str], deadline: float) -> dict[str, TopicState]:
    """Wait until each topic has a partition with a leader, or until ``deadline`` (monotonic). The
    wait for a topic that the user may not see is shorter. Return the topics that have no such
    partition, or whose state is unknown."""
    grant_by = runtime.monotonic() + GRANT_SECONDS
    while missing := {
        topic: state
        for topic, state in lookup(topics, _LOOKUP_SECONDS).items()
        if not state.partitions
    }:
        if any(state.forbidden for state in missing.values()):
            deadline = min(deadline, grant_by)
        if runtime.monotonic() > deadline:
            break
        runtime.sleep(1.0)
    return missing


@dataclass
class _Topic:
    state: TopicState | None = None
    listed: tuple[int, ...] = ()
    """Partitions that have a leader and that records may go to."""
    at_first: tuple[int, ...] = ()
    """All partitions that records may go to, as they were when the topic was first seen."""
    blocked: str = ""
    """Reason why a lane could not write to the topic; metadata alone does not remove it."""
    probing: bool = False
    unusable_since: float | None = None
    forbidden_since: float | None = None
    """Time since when an ACL is missing."""
    pause: float = _FIRST_PAUSE_SECONDS
    look_at: float = 0.0
    """Time of the next question to the cluster (monotonic seconds)."""
    probe_at: float = 0.0
    why: str = "not looked up yet"
    """Reason why ``listed`` is empty."""

    def note_usable(self) -> None:
        """Note that the topic can be written to."""
        self.unusable_since = self.forbidden_since = None
        self.pause = _FIRST_PAUSE_SECONDS

    def led(self, partition: int | None) -> tuple[int, ...]:
        """Return the partitions that can be written to, by the cluster's last answer; or only
        ``partition``, if it can."""
        if partition is None or self.state is None:
            return self.listed
        return (partition,) if partition in self.state.partitions else ()


def _seconds_since(moment: float | None) -> float:
    return 0.0 if moment is None else runtime.monotonic() - moment


def _closed(topics: Collection[str], timeout_seconds: float) -> dict[str, TopicState]:
    return dict.fromkeys(topics, TopicState(reason="its state is no longer looked up"))


#: Asks the cluster about topics, for so many seconds at most.
Lookup = Callable[[Collection[str], float], Mapping[str, TopicState]]


class Topics:
    """State of the topics that were asked for, kept up to date by a thread of its own. All methods
    return at once, but ``learn``.

    ``changed``: called after every look, from that thread; True if somebody waits for a topic, and
    wants to be called again soon. ``failed``: called with what ended the
    thread before its time. ``only``: the partitions that records may go to; all, if None. Where a
    method takes a ``partition``, the question is about that one alone.
    """

    def __init__(
        self,
        lookup: Lookup,
        changed: Callable[[], object],
        failed: Callable[[BaseException], None],
        only: Collection[int] | None = None,
    ) -> None:
        self._lookup = lookup
        self._changed = changed
        self._failed = failed
        self._only = only
        self._topics: dict[str, _Topic] = {}
        self._lock = runtime.Lock()
        self._learned = runtime.Condition(self._lock)
        self._wake = runtime.Event()
        self._stop = runtime.Event()
        self._thread = runtime.Thread(target=self._watch, name="topics", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_seconds: float) -> None:
        self._stop.set()
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join(timeout_seconds)
        self._lookup = _closed  # lets go of its connections

    def learn(self, topics: Iterable[str], timeout_seconds: float) -> None:
        """Ask for ``topics`` and wait for the answers, at most ``timeout_seconds``."""
        names = set(topics)
        for name in names:
            self.partitions(name)
        with self._learned:
            self._learned.wait_for(
                lambda: all(self._topics[name].state for name in names), timeout_seconds
            )

    @contextmanager
    def _entry(self, topic: str) -> Iterator[_Topic]:
        """Hold the lock, and yield the topic's entry. A topic without an entry gets one, and is
        looked up from then on."""
        with self._lock:
            if topic not in self._topics:
                self._topics[topic] = _Topic()
                self._wake.set()
            yield self._topics[topic]

    def partitions(self, topic: str, partition: int | None = None) -> tuple[int, ...]:
        """Return the partitions that can be written to; none while the topic is not usable, or
        while only a probe may pass."""
        with self._entry(topic) as entry:
            return () if entry.state is None or entry.blocked else entry.led(partition)

    def sticky_partition(self, topic: str, sequence: int, earlier: int | None) -> int | None:
        """Return the one partition of a sequence of chunks: the ``earlier`` one, if the topic has
        it. Otherwise return one of all partitions that the topic had when it was first seen, even
        if it has no leader right now. None while the cluster has not said which there are."""
        with self._entry(topic) as entry:
            if entry.state is not None and earlier in entry.state.existing:
                return earlier
            return entry.at_first[sequence % len(entry.at_first)] if entry.at_first else None

    def probe(self, topic: str, partition: int | None = None) -> bool:
        """Return True if the caller may send one chunk to a blocked topic now. Then it must say
        ``delivered``, ``block`` or ``not_probed``."""
        with self._entry(topic) as entry:
            due = (
                bool(entry.blocked and entry.led(partition))
                and runtime.monotonic() >= entry.probe_at
            )
            if not due or entry.probing:
                return False
            entry.probing = True
            return True

    def not_probed(self, topic: str) -> None:
        """Report that the probe's chunk came back unsent: another one may go."""
        with self._entry(topic) as entry:
            entry.probing = False

    def known_partitions(self, topic: str, partition: int | None = None) -> tuple[int, ...]:
        """Return the partitions as the cluster said last, blocked or not."""
        with self._entry(topic) as entry:
            return entry.led(partition)

    def block(self, topic: str, reason: str, *, forbidden: bool = False) -> None:
        """Report that a lane could not write to the topic. ``forbidden``: since an ACL is
        missing."""
        with self._lock:
            entry = self._topics.setdefault(topic, _Topic())
            entry.blocked, entry.probing = reason, False
            entry.unusable_since = entry.unusable_since or runtime.monotonic()
            entry.forbidden_since = (
                (entry.forbidden_since or runtime.monotonic()) if forbidden else None
            )
            entry.probe_at = runtime.monotonic() + entry.pause
            entry.look_at = 0.0
            self._wake.set()
            entry.pause = min(2 * entry.pause, _LONGEST_PAUSE_SECONDS)

    def delivered(self, topic: str) -> None:
        """Report that a lane wrote to the topic."""
        entry = self._topics.get(topic)
        if entry is not None and (entry.blocked or entry.unusable_since):
            with self._lock:
                entry.blocked, entry.probing = "", False
                entry.note_usable()
            self._changed()

    def wake(self) -> None:
        """Report that somebody waits for a topic from now on."""
        self._wake.set()

    def any_usable(self) -> bool:
        with self._lock:
            return any(entry.listed and not entry.blocked for entry in self._topics.values())

    def may_be_usable(self, topic: str, partition: int | None = None) -> bool:
        """Return True if the topic is usable, or the cluster has not answered yet."""
        with self._entry(topic) as entry:
            return not entry.blocked and (entry.state is None or bool(entry.led(partition)))

    def unusable_seconds(self, topic: str) -> float:
        """Return for how many seconds the topic has been unusable; 0 for a usable one."""
        with self._entry(topic) as entry:
            return _seconds_since(entry.unusable_since)

    def forbidden_seconds(self, topic: str) -> float:
        """Return for how many seconds the topic could not be written to, or not even be seen,
        because an ACL is missing; 0 for any other topic."""
        with self._entry(topic) as entry:
            return _seconds_since(entry.forbidden_since)

    def why_unusable(self, topic: str, partition: int | None = None) -> str:
        with self._entry(topic) as entry:
            if entry.blocked or not entry.listed or partition is None:
                return entry.blocked or entry.why
            return "" if entry.led(partition) else f"partition {partition} has no leader"

    def _watch(self) -> None:
        """Look topics up until stopped. Only this thread ends the waiting of parked chunks: if it
        cannot go on, everybody must be told."""
        try:
            while not self._stop.is_set():
                for name, state in self._lookup(self._due(), _LOOKUP_SECONDS).items():
                    self._learn(name, state)
                pause = _TICK_SECONDS if self._changed() else self._seconds_to_next_look()
                self._wake.wait(pause)
                self._wake.clear()
        except BaseException as error:
            log.exception("topics are no longer looked up")
            self._failed(error)

    def _seconds_to_next_look(self) -> float:
        with self._lock:
            next_look = min((e.look_at for e in self._topics.values()), default=math.inf)
        return min(max(0.0, next_look - runtime.monotonic()), _REFRESH_SECONDS)

    def _due(self) -> list[str]:
        now = runtime.monotonic()
        with self._lock:
            return [name for name, entry in self._topics.items() if entry.look_at <= now]

    def _learn(self, name: str, state: TopicState) -> None:
        now = runtime.monotonic()
        with self._lock:
            entry = self._topics[name]
            if not state.answered and entry.state is not None and entry.state.answered:
                # librdkafka asks one broker, the controller. While the controller is away, the
                # others still lead their partitions.
                entry.look_at = now + _FIRST_PAUSE_SECONDS
                return
            entry.state, entry.why = state, self._why(state)
            self._learned.notify_all()
            entry.listed = self._allowed(state.partitions)
            existing = self._allowed(state.existing or state.partitions)
            if existing and not set(entry.at_first) <= set(existing):
                entry.at_first = ()  # recreated, with fewer partitions
            entry.at_first = entry.at_first or existing
            if entry.listed:
                entry.look_at = now + _REFRESH_SECONDS
                if not entry.blocked:
                    entry.note_usable()
                return
            entry.unusable_since = entry.unusable_since or now
            if state.forbidden or not entry.blocked:
                entry.forbidden_since = (entry.forbidden_since or now) if state.forbidden else None
            entry.look_at = now + entry.pause
            entry.pause = min(2 * entry.pause, _LONGEST_PAUSE_SECONDS)

    def _allowed(self, partitions: tuple[int, ...]) -> tuple[int, ...]:
        return (
            partitions
            if self._only is None
            else tuple(number for number in partitions if number in self._only)
        )

    def _why(self, state: TopicState) -> str:
        if self._only is None or not state.existing:
            return state.reason
        listed = ", ".join(map(str, self._only))
        if not self._allowed(state.existing):
            return (
                f"it has {plural(len(state.existing), 'partition')}, and none of {listed} "
                "(`delivery.partitions`)"
            )
        return f"none of its partitions {listed} (`delivery.partitions`) has a leader"
