"""What a task returns to the driver: what it read, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from shipper.worker.pool import LaneSample


@dataclass
class SplitReceipt:
    """What a task did with one split."""

    records: int = 0
    before: int = 0
    """On the cluster already, in quarantine too."""
    delivered: int = 0
    checksums: dict[str, int] = field(default_factory=dict)
    """Topic → sum of xxhash64(value) over the records delivered there, modulo 2^64."""
    adjusted: int = 0
    """What the checksum of the values as shipped has beyond that of the values as Spark read them, modulo 2^64; of all records, those
    that were there before too."""
    filtered: dict[str, int] = field(default_factory=dict)
    """Rule → lines that it took."""
    quarantined: dict[str, int] = field(default_factory=dict)
    """Reason → records that were sent to quarantine."""
    settled: dict[str, int] = field(default_factory=dict)
    """Reason → records that belong into quarantine and were dealt with before: they are there, or were shipped when it was decided
    otherwise."""
    read: int | None = 0
    """Bytes of its lines as they were read, each with its end; None if one was too long to be read whole."""
    seconds: float = 0.0
    """From the chunk before its first one to its last one: reading, and waiting for a free lane."""

    def add_read(self, size: int | None) -> None:
        self.read = None if size is None or self.read is None else self.read + size

    def count_filtered(self, rule: str, lines: int) -> None:
        self.filtered[rule] = self.filtered.get(rule, 0) + lines

    def count_quarantined(self, reason: str, records: int) -> None:
        self.quarantined[reason] = self.quarantined.get(reason, 0) + records

    def count_settled(self, reason: str, records: int) -> None:
        self.settled[reason] = self.settled.get(reason, 0) + records

    def add_checksum(self, topic: str, checksum: int) -> None:
        self.checksums[topic] = (self.checksums.get(topic, 0) + checksum) % (1 << 64)


@dataclass
class TopicReceipt:
    delivered: int = 0
    bytes: int = 0
    before: int = 0


@dataclass
class Receipt:
    """What a task returns. With ``error`` set the rest says what was done until then."""

    task: int
    retries: int = 0
    """Attempts of this task before this one."""
    splits: dict[int, SplitReceipt] = field(default_factory=dict)
    topics: dict[str, TopicReceipt] = field(default_factory=dict)
    lane_reopened: int = 0
    parked: dict[str, int] = field(default_factory=dict)
    """Topic → records that had to wait for it at some time."""
    dropped: dict[str, int] = field(default_factory=dict)
    """Topic → records that were read but not sent, since it could not be written to; a later pass, or run, sends them."""
    lowered: dict[str, int] = field(default_factory=dict)
    """Topic → bytes in a batch, where batches turned out too large."""
    possible_duplicates: int = 0
    """At least once: records that were sent again after a fault."""
    wire_bytes: int = 0
    samples: list[LaneSample] = field(default_factory=list)
    """One a second."""
    lanes: list[list[float]] = field(default_factory=list)
    """For each lane: [transactions, bytes, seconds with one under way, times it was opened anew]."""
    first_at: float | None = None
    """Seconds since the epoch when the task began."""
    last_at: float | None = None
    """When the last transaction was committed."""
    error: str | None = None
    error_kind: str | None = None
    """Class name in shipper.errors."""

    def split(self, split: int) -> SplitReceipt:
        return self.splits.setdefault(split, SplitReceipt())

    def topic(self, topic: str) -> TopicReceipt:
        return self.topics.setdefault(topic, TopicReceipt())
