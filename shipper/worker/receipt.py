"""Receipts that tasks return to the driver: what a task read, and what became of it, as JSON; or
its error.

An error comes through Spark's text, which quotes log lines. So it is marked by a seal, which no log
line can know.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cache

from pydantic import TypeAdapter

from shipper import runtime
from shipper.errors import ShipperError, error_named
from shipper.ledger.records import ChunkValue

#: Chunks that a receipt names.
MOST_NAMED = 20


@dataclass
class SplitReceipt:
    """Work of a task on one split."""

    records: int = 0
    already_committed: int = 0
    """Records already committed, in quarantine too."""
    delivered: int = 0
    checksums: dict[str, int] = field(default_factory=dict)
    """Topic → sum of xxhash64(value) over the records delivered there, modulo 2^64."""
    adjusted: int = 0
    """Difference between the checksum of the values as shipped and that of the values as Spark read
    them, modulo 2^64; over all records, already committed ones too."""
    filtered: dict[str, int] = field(default_factory=dict)
    """Rule → lines that it took."""
    quarantined: dict[str, int] = field(default_factory=dict)
    """Reason → records that were sent to quarantine."""
    already_quarantined: dict[str, int] = field(default_factory=dict)
    """Reason → records that belong into quarantine and were handled earlier: they are there, or
    were shipped when the decision was another one."""
    read: int | None = 0
    """Bytes of its lines as they were read, each with its end; None if one was too long to be read
    whole."""
    seconds: float = 0.0
    """Seconds from the chunk before its first one to its last one: reading, and waiting for a free
    lane."""

    def add_read(self, size: int | None) -> None:
        self.read = None if size is None or self.read is None else self.read + size

    def add_checksum(self, topic: str, checksum: int) -> None:
        self.checksums[topic] = (self.checksums.get(topic, 0) + checksum) % (1 << 64)


@dataclass
class TopicReceipt:
    """Records that a task sent to one topic."""

    delivered: int = 0
    bytes: int = 0
    already_committed: int = 0


@dataclass
class Receipt:
    """Result of a task. With ``error`` set, the other fields cover the work until then."""

    task: int
    retries: int = 0
    """Attempts of this task before this one."""
    splits: dict[int, SplitReceipt] = field(default_factory=dict)
    """Spark's hash of the split → receipt."""
    topics: dict[str, TopicReceipt] = field(default_factory=dict)
    lane_reopened: int = 0
    parked: dict[str, int] = field(default_factory=dict)
    """Topic → records that had to wait for it at some time."""
    unsent: dict[str, int] = field(default_factory=dict)
    """Topic → records that were read but not sent, since it could not be written to; a later scan,
    or run, sends them."""
    lowered: dict[str, int] = field(default_factory=dict)
    """Topic → bytes in a batch, where batches turned out too large."""
    unconfirmed: dict[str, str] = field(default_factory=dict)
    """Topic → why its id is unknown, if some chunks carry none."""
    possible_duplicates: int = 0
    """Records that may be there twice, at most, where something shipped at least once."""
    doubtful: list[str] = field(default_factory=list)
    """The first of their chunks, for people."""
    wire_bytes: int = 0
    cpu_seconds: float = 0.0
    """CPU time of the task's Python process, with its lanes' threads."""
    ack_seconds: float = 0.0
    """Delay of acknowledgements as its lanes met it at the end; 0: too few are known."""
    throttled_seconds: float = 0.0
    """Seconds for which brokers throttled this task's connections, for example by a quota."""
    waited_seconds: float = 0.0
    """Seconds for which the reader waited for a lane."""
    first_at: float | None = None
    """Seconds since the epoch when the task began."""
    last_at: float | None = None
    """Time when the last transaction was committed."""
    error: str | None = None
    error_kind: str | None = None
    """Class name in shipper.errors."""

    @property
    def seconds(self) -> float:
        """Seconds from its begin to the last commit."""
        return (self.last_at or 0.0) - (self.first_at or 0.0) if self.last_at else 0.0

    def split(self, split: int) -> SplitReceipt:
        return self.splits.setdefault(split, SplitReceipt())

    def topic(self, topic: str) -> TopicReceipt:
        return self.topics.setdefault(topic, TopicReceipt())

    def count_already_committed(self, split: int, topic: str, records: int) -> None:
        if records:
            self.split(split).already_committed += records
            self.topic(topic).already_committed += records

    def count_delivered(self, split: int, topic: str, chunk: ChunkValue) -> None:
        """Count ``chunk``, which is certainly in Kafka. Dropped lines (no topic) count when they
        are read."""
        if not topic:
            return
        mine, there = self.split(split), self.topic(topic)
        if chunk.reasons is None:
            mine.delivered += chunk.records
        for reason, count in (chunk.reasons or {}).items():
            add_to(mine.quarantined, reason, count)
        mine.add_checksum(topic, chunk.checksum)
        there.delivered += chunk.records
        there.bytes += chunk.bytes

    def take_over(self, split: int, topic: str, chunk: ChunkValue) -> None:
        """Count a chunk of this task's earlier attempts: already committed for this attempt, but
        delivered by this ship."""
        mine = self.splits.get(split)
        if mine is None or not chunk.records or not topic:
            # another task's split, one that this attempt did not get to, or dropped lines, which
            # count each time
            return
        there = self.topic(topic)
        moved = min(chunk.records, mine.already_committed, there.already_committed)
        mine.already_committed -= moved
        there.already_committed -= moved
        there.delivered += moved
        there.bytes += chunk.bytes
        for reason, count in (chunk.reasons or {}).items():
            add_to(mine.quarantined, reason, count)
            already = mine.already_quarantined.get(reason, 0)
            mine.already_quarantined[reason] = already - min(count, already)
        mine.delivered += moved if chunk.reasons is None else 0
        mine.add_checksum(topic, chunk.checksum)

    def to_json(self) -> str:
        return _adapter().dump_json(self).decode()

    @classmethod
    def from_json(cls, text: str) -> Receipt:
        return _adapter().validate_json(text)


@cache
def _adapter() -> TypeAdapter[Receipt]:
    return TypeAdapter(Receipt)


def add_to(counts: dict[str, int], name: str, count: int) -> None:
    counts[name] = counts.get(name, 0) + count


def new_seal() -> str:
    """Make the seal of one order, which its tasks alone know."""
    return runtime.token_hex(16)


def seal_error(error: ShipperError, seal: str) -> str:
    """Return ``error`` as text that :func:`unseal_error` finds in other text."""
    return f"shipper-error {seal} {json.dumps([type(error).__name__, error.message])}"


def unseal_error(text: str, seal: str) -> ShipperError | None:
    """Return the last error that was sealed with ``seal`` in ``text``; None if there is none."""
    _, mark, rest = text.rpartition(f"shipper-error {seal} ")
    if not mark:
        return None
    try:
        (kind, message), _ = json.JSONDecoder().raw_decode(rest)
    except ValueError:  # cut off by somebody who passed it on
        return None
    return error_named(kind, message)
