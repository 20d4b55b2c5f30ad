"""Sizes of lanes and batches: arithmetic on the link's measurements. Pure.

A lane fills and flushes a transaction round by round, with one batch for each partition that it
writes to. A transaction of r rounds waits twice for an answer from memory (a partition joins the
transaction, and that of the ledger does), and r + 2 times for what is stored: each round, the
ledger's record, the commit. Over a distance both take a round trip. A Kafka on object storage
answers the first in a millisecond, and acknowledges what it stored after 250 ms to 2 s. Lanes make
up for the time, and for half of it again, which goes into filling, compressing and the broker's
work where a link is full (measured: 1.8 s instead of 1.15 s for 4 batches over 140 ms)::

    lanes × transaction  ≥  rate × (2 round trips + (r + 2) acknowledgements) × 1.5

Where there cannot be as many lanes, transactions become larger: the waits for the ledger's record
and the commit then count for more bytes.

A transaction of some batches goes to as many partitions at once where the topic has them: at 400 ms
that sent 1.5 times as much as the same lanes with one batch after the other, and as much as three
times as many lanes of one batch, with a third of the connections (docs/understand/sizing.md).

Figures that are not arithmetic were measured on two cores with 137-byte log lines, zstd
(bench/results).
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field, replace

from shipper.kafka.limits import TopicLimit

SHORT_LINK_SECONDS, SHORT_ACK_SECONDS = 0.010, 0.025
#: Below these the processor is the limit, and small batches use its cache better: 0.83 CPU s per
#: million lines with 0.5 MB, 1.2 with 4 MB. A transaction costs the same whatever it holds, so 16
#: MB take 4 % less time than 8 MB (docs/adr/0035).
SHORT_BATCH_BYTES, SHORT_CHUNK_BYTES, SHORT_LANES = 500_000, 16_000_000, 2
LONG_BATCH_BYTES = 2_000_000
_BATCHES_PER_TRANSACTION = 3
#: Rounds of a transaction that makes up for lanes that there are not: it stays short beside the
#: transaction's timeout, also where each acknowledgement takes 2 s.
_MOST_ROUNDS = 8
#: Sizes follow the delay within a run when it has become so many times longer, and the reader
#: waited for a lane for such a share of the time (otherwise more in flight does not help); or when
#: it has become so many times shorter, which only spares the processor.
_SLOWER, _WAITED_SHARE, _FASTER = 2.0, 0.2, 4.0
#: Waits for acknowledgements that tell the delay, and how many are enough.
_WAITS, _LEAST_WAITS = 32, 8
_WORK = 1.5
#: Most that a task (one core) produces, uncompressed, so more need not be in flight.
_TASK_BYTES_PER_SECOND = 80_000_000
#: Up to so many bytes per second of a task, uncompressed, zstd's level 9 takes a quarter of a core
#: at most: 63 MB/s in place of level 3's 312, for 10 % fewer bytes on the wire (an access log).
_HIGH_LEVEL, _HIGH_LEVEL_BYTES_PER_SECOND = 9, 15_000_000
#: A batch may be so much larger than its size, where a small one would be left for the end.
LARGEST_BATCH = 1.1
#: Compression of a batch varies around the sample's; a batch that is too large costs a transaction.
_RATIO_MARGIN = 0.6
#: What a window seems to unpack to may be half of what it does.
_MORE_THAN_IT_SEEMS = 2
#: Smallest transaction under a cap. Less would cost more than the records themselves.
_LEAST_CHUNK_BYTES = 16_000


@dataclass(frozen=True)
class LinkProfile:
    """Measurements of the way to a cluster."""

    rtt_seconds: float
    """Round trip of a request that a broker answers from memory."""
    bandwidth_bytes_per_second: float
    ratio: float
    """Uncompressed bytes per byte on the wire, of a sample."""
    limit_bytes: int
    """Smallest max.message.bytes of the topics."""
    cap_bytes_per_second: int | None = None
    """`rate_limit`: bytes per second on the wire, of all tasks."""
    cap_seconds: float = 0.0
    """Longest time for which an open transaction may wait for the cap."""
    ack_seconds: float = 0.0
    """Time until a record is acknowledged; 0: not measured, so that it is taken for a round
    trip."""
    partitions: int = 1
    """Partitions that the batches of one transaction may go to."""

    @property
    def delay_seconds(self) -> float:
        return max(self.rtt_seconds, self.ack_seconds)

    @property
    def wire_bytes_per_second(self) -> float:
        """Most that link and cap let through."""
        cap = self.cap_bytes_per_second or math.inf
        return min(self.bandwidth_bytes_per_second, cap)

    @property
    def is_short(self) -> bool:
        return self.rtt_seconds < SHORT_LINK_SECONDS and self.delay_seconds < SHORT_ACK_SECONDS

    def transaction_seconds(self, batches: float) -> float:
        """Return the seconds that a transaction of so many batches waits."""
        rounds = max(1.0, batches / self.side_by_side)
        return 2 * self.rtt_seconds + (rounds + 2) * self.delay_seconds

    @property
    def side_by_side(self) -> int:
        """Number of batches in flight at a time in a lane."""
        return 1 if self.is_short else max(1, min(_BATCHES_PER_TRANSACTION, self.partitions))


@dataclass(frozen=True)
class Tuning:
    """Sizes of each Spark task's lanes."""

    lanes: int
    batch_bytes: int
    chunk_bytes: int
    """Bytes of a transaction."""
    side_by_side: int = 1
    """Batches in flight at a time in a lane."""
    keyed: bool = False
    """Keys spread the records of each slice over the partitions."""
    level: int = -1
    """Level of compression; -1: the codec's own."""
    why: str = ""
    """One paragraph for people."""

    @property
    def in_flight_bytes(self) -> int:
        return self.lanes * min(self.chunk_bytes, self.side_by_side * self.batch_bytes)

    @property
    def slice_bytes(self) -> int:
        """Bytes of the slices of which a transaction is made: each goes to one partition, unless
        its records have keys."""
        if self.keyed:
            return self.chunk_bytes
        return max(self.batch_bytes, math.ceil(self.chunk_bytes / self.side_by_side))


@dataclass(frozen=True)
class Sizing:
    """All that decides the sizes of each of ``tasks`` tasks. The ship sizes again when it knows the
    delay of acknowledgements."""

    link: LinkProfile
    tasks: int
    memory_bytes: int
    """Most bytes of chunks under way in a task."""
    lanes: int | None = None
    """Set by hand, as the following two; None: to be computed."""
    batch_bytes: int | None = None
    chunk_bytes: int | None = None
    bytes_to_send: int = 0
    """Bytes of all tasks, uncompressed, as far as known; 0: unknown."""
    keyed: bool = False
    chooses_level: bool = False
    """True if the level of compression goes by what the link leaves to the processor."""
    most_lanes: int = 128
    """Lanes that there can be: in a run, those that were announced and opened."""

    def with_ack(self, seconds: float | None) -> Sizing:
        """Return the same with another delay of acknowledgements."""
        return replace(self, link=replace(self.link, ack_seconds=seconds or 0.0))

    def acknowledged_bytes_per_second(self, sizes: Tuning) -> float:
        """Return how much all tasks send if nothing but acknowledgements limits them."""
        waits = self.link.transaction_seconds(sizes.chunk_bytes / sizes.batch_bytes) * _WORK
        return self.tasks * sizes.lanes * sizes.chunk_bytes / waits

    def tune(self) -> Tuning:
        """Size the lanes so that the link is full, or what a cap leaves of it. A small window is
        divided among all lanes, or among as many as it has batches for."""
        link, tasks = self.link, self.tasks
        unpacked = max(1 / LARGEST_BATCH, link.ratio * _RATIO_MARGIN)
        fits = max(1, int(TopicLimit(link.limit_bytes).uncompressed_bytes * unpacked))
        batch = self.batch_bytes or min(
            SHORT_BATCH_BYTES if link.is_short else LONG_BATCH_BYTES, fits, self.chunk_bytes or fits
        )
        rate = min(link.bandwidth_bytes_per_second * link.ratio / tasks, _TASK_BYTES_PER_SECOND)
        most = self.memory_bytes
        if link.cap_bytes_per_second:
            # The last task at work has all of the cap, but no task may hold a transaction open for
            # longer than its share takes, also if its records do not compress as the sample did.
            rate = min(rate, link.cap_bytes_per_second * link.ratio)
            share = link.cap_bytes_per_second / tasks
            most = max(_LEAST_CHUNK_BYTES, int(share * link.cap_seconds))
            batch = self.batch_bytes or min(batch, most)
        chunk = self.chunk_bytes or max(
            batch, SHORT_CHUNK_BYTES if link.is_short else _BATCHES_PER_TRANSACTION * batch
        )
        chunk = self.chunk_bytes or max(batch, min(chunk, most))
        needed = _lanes(link, rate, batch, chunk)
        lanes = self.lanes or max(1, min(needed, self.most_lanes, self.memory_bytes // chunk))
        if not self.chunk_bytes:
            if lanes < needed and not (link.is_short or link.cap_bytes_per_second):
                chunk = max(chunk, _MOST_ROUNDS * link.side_by_side * batch)
            if lanes * chunk > self.memory_bytes:
                chunk = max(batch, self.memory_bytes // lanes)
        if self.bytes_to_send and not link.cap_bytes_per_second:
            lanes, chunk = self._divided(lanes, batch, chunk)
        found = Tuning(lanes, batch, chunk, link.side_by_side, self.keyed, self._level())
        return replace(found, why=_why(link, tasks, rate, found))

    def _level(self) -> int:
        needed = self.link.wire_bytes_per_second * self.link.ratio / self.tasks
        idle = self.chooses_level and needed <= _HIGH_LEVEL_BYTES_PER_SECOND
        return _HIGH_LEVEL if idle else -1

    def _divided(self, lanes: int, batch: int, chunk: int) -> tuple[int, int]:
        """Return lanes and bytes of a transaction for a window that may be smaller than one
        transaction of each lane."""
        share = math.ceil(self.bytes_to_send / self.tasks)
        # Over a distance, a share that memory can hold goes in one transaction of each lane.
        whole = not self.link.is_short and share <= self.memory_bytes
        largest = max(chunk, self.memory_bytes // lanes) if whole else chunk
        rounds = math.ceil(share / (lanes * largest))
        batches = math.ceil(share / (lanes * rounds * batch))
        chunk = self.chunk_bytes or min(largest, batches * batch)
        most_chunks = math.ceil(_MORE_THAN_IT_SEEMS * share / chunk)
        return self.lanes or max(min(SHORT_LANES, lanes), min(lanes, most_chunks)), chunk


@dataclass
class Following:
    """Sizes of a task's lanes, which follow the delay that the lanes meet.

    The protocol knows nothing of it: the lanes that a run may ever use were announced before it
    began, and a takeover fences all of them. Of these fewer may be used, and what is in flight in
    each may change."""

    tuning: Tuning
    sizing: Sizing | None = None
    """Input of the sizes; None: they stay."""
    _waits: deque[float] = field(default_factory=lambda: deque(maxlen=_WAITS))

    def note(self, seconds: float) -> None:
        """Note how long a lane waited for an acknowledgement. Any thread may call."""
        self._waits.append(seconds)

    @property
    def ack_seconds(self) -> float:
        """Delay of acknowledgements: the lower quartile of the latest waits, which have least of
        the work on both sides in them, and nothing of the few that take far longer than the others.
        0: too few are known."""
        waits = sorted(self._waits)
        return waits[len(waits) // 4] if len(waits) >= _LEAST_WAITS else 0.0

    def follow(self, waited_share: float) -> bool:
        """Return True if the sizes have changed. ``waited_share``: share of the time since they
        last changed in which the reader waited for a lane."""
        found = self.ack_seconds
        if self.sizing is None or self.sizing.link.cap_bytes_per_second or not found:
            return False
        sized = self.sizing.link.delay_seconds
        grows = found > _SLOWER * sized and waited_share >= _WAITED_SHARE
        if not grows and found * _FASTER > sized:
            return False
        self.sizing = self.sizing.with_ack(found)
        before, self.tuning = self.tuning, self.sizing.tune()
        return self.tuning != before


def _lanes(link: LinkProfile, rate: float, batch: int, chunk: int) -> int:
    needed = rate * link.transaction_seconds(chunk / batch) * _WORK / chunk
    return max(SHORT_LANES, math.ceil(needed))


def _why(link: LinkProfile, tasks: int, rate: float, found: Tuning) -> str:
    acks = (
        f"acknowledgement {link.ack_seconds * 1000:.1f} ms"
        if link.ack_seconds
        else "acknowledgement not measured"
    )
    beside = f", {found.side_by_side} at a time" if found.side_by_side > 1 else ""
    return (
        f"round trip {link.rtt_seconds * 1000:.1f} ms, {acks}, a sample compresses "
        f"{link.ratio:.1f} : 1, topics take batches of {link.limit_bytes:,} bytes; {tasks} × "
        f"{found.lanes} lanes × {found.batch_bytes / 1e6:.2f} MB{beside} are "
        f"{tasks * found.in_flight_bytes / 1e6:.1f} MB in flight (uncompressed) for "
        f"{tasks * rate / 1e6:.0f} MB/s × {link.delay_seconds * 1000:.1f} ms = "
        f"{tasks * rate * link.delay_seconds / 1e6:.1f} MB; {found.chunk_bytes / 1e6:.1f} MB a "
        "transaction"
    ) + (f"; zstd at level {found.level}, since the link is narrow" if found.level > 0 else "")
