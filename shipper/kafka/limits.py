"""How large a batch, and so a record, a topic takes: the one answer that sizing, sorting and the lanes share."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping

#: `max.message.bytes` of a topic that says nothing else.
DEFAULT_LIMIT_BYTES = 1_048_588
#: The broker's limit holds for the batch as it is stored: a header of 61 bytes comes on top of the records, and what a codec adds
#: to bytes that it cannot compress.
BATCH_OVERHEAD_BYTES = 2048
#: What a record costs in a batch beside its key and value: lengths, offset and timestamp differences (Kafka's record format, v2).
RECORD_OVERHEAD_BYTES = 20
_ASK_AGAIN_SECONDS = 5.0

#: Asks the cluster: topic → its max.message.bytes, of those that are there. Raises ClusterError.
Ask = Callable[[Collection[str]], Mapping[str, int]]


class TopicLimits:
    """``known``: topic → its max.message.bytes. Any other topic is asked for when somebody wants to know, and then known; one that is not
    there yet is taken for one with the default, and asked for again after a while. Safe to use from several threads."""

    def __init__(self, known: Mapping[str, int] | None = None, ask: Ask = lambda topics: {}) -> None:
        self._known = dict(known or {})
        self._ask = ask
        self._absent: dict[str, float] = {}
        """Topic → when (monotonic) the cluster did not have it."""

    def learn(self, topics: Collection[str]) -> None:
        """Asks for those that are not known, all at once. Raises ClusterError."""
        now = time.monotonic()
        unknown = [
            t for t in topics if t not in self._known and now - self._absent.get(t, -_ASK_AGAIN_SECONDS) >= _ASK_AGAIN_SECONDS
        ]
        if unknown:
            self._known.update(self._ask(unknown))
            self._absent.update(dict.fromkeys(unknown, now))

    def of(self, topic: str) -> int:
        """Most bytes of a batch, compressed. Raises ClusterError."""
        self.learn([topic])
        return self._known.get(topic, DEFAULT_LIMIT_BYTES)

    def known(self, topic: str) -> int | None:
        """As :meth:`of`, without asking anybody; None if nobody has asked yet."""
        return self._known.get(topic, DEFAULT_LIMIT_BYTES if topic in self._absent else None)

    def surely(self, topic: str) -> int:
        """Bytes of a batch that the topic takes whatever they compress to. Raises ClusterError."""
        return max(1, self.of(topic) - BATCH_OVERHEAD_BYTES)

    def surely_by_now(self, topic: str) -> int:
        """Ask the cluster anew, as the limit may have been lowered, and return the limit like :meth:`surely`. Raises ClusterError.

        Compare the answer with what a batch was built by, and not with what was known: those who share this object learn from each other.
        """
        self._known.update(self._ask([topic]))
        return self.surely(topic)
