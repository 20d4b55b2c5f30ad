"""Limits of a topic: the largest batch, and so the largest record, the accepted times, and whether
a key is needed. The one answer that sizing, sorting and lanes share."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from shipper import runtime

#: Default of `max.message.bytes`.
DEFAULT_LIMIT_BYTES = 1_048_588
#: The broker's limit holds for the batch as it is stored: a header of 61 bytes is added to the
#: records, and whatever a codec adds to incompressible bytes.
BATCH_OVERHEAD_BYTES = 2048
#: The batch's header alone.
BATCH_HEADER_BYTES = 61
#: What a record costs in a batch beside its key and value: lengths, offset and timestamp
#: differences (Kafka's record format, v2).
RECORD_OVERHEAD_BYTES = 20
_ASK_AGAIN_SECONDS = 5.0
_NO_BOUND = str(2**63 - 1)
_CREATE, _BEFORE, _AFTER = (
    "message.timestamp.type",
    "message.timestamp.before.max.ms",
    "message.timestamp.after.max.ms",
)
#: Settings of brokers older than 3.6, instead of the other two.
_DIFFERENCE = "message.timestamp.difference.max.ms"


class TopicLimit(NamedTuple):
    """Limits of a topic: the records that it accepts and keeps."""

    max_bytes: int = DEFAULT_LIMIT_BYTES
    """`max.message.bytes`."""
    max_age_ms: float = math.inf
    """Largest age of a record's own time. The broker refuses an older record, or deletes the record
    as soon as the record is written."""
    max_ahead_ms: float = math.inf
    """Longest time by which a record's own time may lie in the future."""
    takes_times: bool = True
    """False if the broker puts its own time in the place of each record's (`LogAppendTime`)."""
    needs_key: bool = False
    """True for a compacted topic."""

    @property
    def uncompressed_bytes(self) -> int:
        """Size of a batch that the topic accepts even if it does not compress. If the limit is
        small, half of it is enough for what a codec adds."""
        half = (self.max_bytes - BATCH_HEADER_BYTES) // 2
        return max(1, self.max_bytes - BATCH_OVERHEAD_BYTES, half)

    @classmethod
    def by(cls, settings: Mapping[str, str | None]) -> TopicLimit:
        """Return the limit that ``settings``, the topic's configuration, ask for."""
        max_bytes = int(settings.get("max.message.bytes") or DEFAULT_LIMIT_BYTES)
        policy = settings.get("cleanup.policy") or "delete"
        if settings.get(_CREATE) == "LogAppendTime":
            return cls(max_bytes, takes_times=False, needs_key="compact" in policy)
        before, after = (_bound(settings, name) for name in (_BEFORE, _AFTER))
        kept = _milliseconds(settings.get("retention.ms")) if "delete" in policy else math.inf
        return cls(max_bytes, min(before, kept), after, needs_key="compact" in policy)


def _bound(settings: Mapping[str, str | None], name: str) -> float:
    """Return a bound. Brokers from 3.6 to 3.9 have both settings, and use the older one if the
    newer one has no bound."""
    value = settings.get(name)
    return _milliseconds(settings.get(_DIFFERENCE) if value in (None, _NO_BOUND) else value)


def _milliseconds(value: str | None) -> float:
    return math.inf if value in (None, _NO_BOUND) or int(value) < 0 else int(value)


#: Asks the cluster: topic → its limit, of those that are there. Raises ClusterError.
Ask = Callable[[Collection[str]], Mapping[str, TopicLimit]]


class TopicLimits:
    """Limits of topics. ``known``: topic → its limit. The cluster is asked once for any other
    topic. A topic that does not exist yet gets the default limits, and is asked for again after a
    while. Safe to use from several threads."""

    def __init__(
        self, known: Mapping[str, TopicLimit] | None = None, ask: Ask | None = None
    ) -> None:
        self._known = dict(known or {})
        self._ask = ask
        """Function that asks the cluster; None: the cluster is not asked."""
        self._absent: dict[str, float] = {}
        """Topic → when (monotonic) the cluster did not have it."""

    def learn(self, topics: Collection[str]) -> None:
        """Ask for those topics that are not known, all at once. Raises ClusterError."""
        now = runtime.monotonic()
        unknown = [
            t
            for t in topics
            if t not in self._known
            and now - self._absent.get(t, -_ASK_AGAIN_SECONDS) >= _ASK_AGAIN_SECONDS
        ]
        if unknown and self._ask is not None:
            self._known.update(self._ask(unknown))
            self._absent.update(dict.fromkeys(unknown, now))

    def limit(self, topic: str) -> TopicLimit:
        """Return the topic's limit. Raises ClusterError."""
        self.learn([topic])
        return self._known.get(topic, TopicLimit())

    def known(self, topic: str) -> TopicLimit | None:
        """Return what :meth:`limit` returns, without asking; None if the topic's limit is not known
        yet."""
        return self._known.get(topic, TopicLimit() if topic in self._absent else None)

    def limit_by_now(self, topic: str) -> TopicLimit:
        """Ask the cluster again, as the limit may have been lowered. Raises ClusterError.

        Compare the answer with the limit that a batch was built by, and not with the known limit:
        another user of this object may have asked meanwhile.
        """
        if self._ask is not None:
            self._known.update(self._ask([topic]))
        return self.limit(topic)
