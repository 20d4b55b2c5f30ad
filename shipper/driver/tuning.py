"""Sizes of lanes and batches: arithmetic on the link's measurements. Pure.

A lane has one batch per partition in flight, and a transaction of n batches takes n + 4 round trips
(the partition joins the transaction; each batch; the same for the ledger's record; the commit), and
half as long again for filling, compressing and the broker's work where a link is full (measured:
1.8 s instead of 1.15 s for 4 batches over 140 ms). So lanes make up for the rest::

    in flight = lanes × batch  ≥  rate × round trip × 1.5 × (n + 4) / n

For a given memory most bytes flow with three or four batches in a transaction: with one, librdkafka
holds a copy of the whole of it.

Figures that are not arithmetic were measured on two cores with 137-byte log lines, zstd
(bench/results).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from shipper.kafka.limits import BATCH_OVERHEAD_BYTES

SHORT_LINK_SECONDS = 0.003
#: Below this round trip the processor is the limit, and small batches use its cache better: 0.83
#: CPU s per million lines with 0.5 MB, 1.2 with 4 MB. A transaction costs the same whatever it
#: holds, so 16 MB take 4 % less time than 8 MB (docs/adr/0035).
SHORT_BATCH_BYTES, SHORT_CHUNK_BYTES, SHORT_LANES = 500_000, 16_000_000, 2
_LONG_BATCH_BYTES = 2_000_000
_BATCHES_PER_TRANSACTION = 3
_WORK = 1.5
#: Most that a task (one core) produces, uncompressed, so more need not be in flight.
_TASK_BYTES_PER_SECOND = 80_000_000
#: Compression of a batch varies around the sample's; a batch that is too large costs a transaction.
_RATIO_MARGIN = 0.6
_MOST_LANES = 128
#: What a window seems to unpack to may be half of what it does.
_MORE_THAN_IT_SEEMS = 2
#: Smallest transaction under a cap. Less would cost more than the records themselves.
_LEAST_CHUNK_BYTES = 16_000


@dataclass(frozen=True)
class LinkProfile:
    """Measurements of the way to a cluster."""

    rtt_seconds: float
    bandwidth_bytes_per_second: float
    ratio: float
    """Uncompressed bytes per byte on the wire, of a sample."""
    limit_bytes: int
    """Smallest max.message.bytes of the topics."""
    cap_bytes_per_second: int | None = None
    """`rate_limit`: bytes per second on the wire, of all tasks."""
    cap_seconds: float = 0.0
    """Longest time for which an open transaction may wait for the cap."""


@dataclass(frozen=True)
class Tuning:
    """Sizes of each Spark task's lanes."""

    lanes: int
    batch_bytes: int
    chunk_bytes: int
    why: str
    """One paragraph for people."""

    @property
    def in_flight_bytes(self) -> int:
        return self.lanes * self.batch_bytes


def tune(
    link: LinkProfile,
    tasks: int,
    memory_bytes: int,
    *,
    lanes: int | None = None,
    batch_bytes: int | None = None,
    chunk_bytes: int | None = None,
    bytes_to_send: int = 0,
) -> Tuning:
    """Size each of ``tasks`` tasks so that the link is full, or what a cap leaves of it. A small
    window is divided among all lanes, or among as many as it has batches for.

    Args:
        memory_bytes: most bytes of chunks under way in a task. lanes, batch_bytes, chunk_bytes: set
        by hand, or None: to be computed. bytes_to_send: of all tasks, uncompressed, as far as
        known; 0: unknown.
    """
    by_hand = lanes
    short = link.rtt_seconds < SHORT_LINK_SECONDS
    fits = int(
        max(1, link.limit_bytes - BATCH_OVERHEAD_BYTES) * max(1.0, link.ratio * _RATIO_MARGIN)
    )
    batch = batch_bytes or min(
        SHORT_BATCH_BYTES if short else _LONG_BATCH_BYTES, fits, chunk_bytes or fits
    )
    rate = min(link.bandwidth_bytes_per_second * link.ratio / tasks, _TASK_BYTES_PER_SECOND)
    most = memory_bytes
    if link.cap_bytes_per_second:
        # The last task at work has all of the cap, but no task may hold a transaction open for
        # longer than its share takes, also if its records do not compress as the sample did.
        rate = min(rate, link.cap_bytes_per_second * link.ratio)
        share = link.cap_bytes_per_second / tasks
        most = max(_LEAST_CHUNK_BYTES, int(share * link.cap_seconds))
        batch = batch_bytes or min(batch, most)
    chunk = chunk_bytes or max(
        batch, SHORT_CHUNK_BYTES if short else _BATCHES_PER_TRANSACTION * batch
    )
    chunk = chunk_bytes or max(batch, min(chunk, most))
    lanes = lanes or max(1, min(_lanes(link, rate, batch, chunk), memory_bytes // chunk))
    if not chunk_bytes and lanes * chunk > memory_bytes:
        chunk = max(batch, memory_bytes // lanes)
    if bytes_to_send and not link.cap_bytes_per_second:
        share = math.ceil(bytes_to_send / tasks)
        # Over a distance, a share that memory can hold goes in one transaction of each lane.
        whole = not short and share <= memory_bytes
        largest = max(chunk, memory_bytes // lanes) if whole else chunk
        rounds = math.ceil(share / (lanes * largest))
        batches = math.ceil(share / (lanes * rounds * batch))
        chunk = chunk_bytes or min(largest, batches * batch)
        most_chunks = math.ceil(_MORE_THAN_IT_SEEMS * share / chunk)
        lanes = by_hand or max(SHORT_LANES, min(lanes, most_chunks))
    return Tuning(lanes, batch, chunk, _why(link, tasks, rate, Tuning(lanes, batch, chunk, "")))


def _lanes(link: LinkProfile, rate: float, batch: int, chunk: int) -> int:
    batches = max(1.0, chunk / batch)
    needed = rate * link.rtt_seconds * _WORK * (batches + 4) / batches / batch
    return max(SHORT_LANES, min(_MOST_LANES, math.ceil(needed)))


def _why(link: LinkProfile, tasks: int, rate: float, found: Tuning) -> str:
    return (
        f"round trip {link.rtt_seconds * 1000:.1f} ms, a sample compresses {link.ratio:.1f} : 1, "
        f"topics take batches of {link.limit_bytes:,} bytes; {tasks} × {found.lanes} lanes × "
        f"{found.batch_bytes / 1e6:.2f} MB are {tasks * found.in_flight_bytes / 1e6:.1f} MB in "
        f"flight (uncompressed) for {tasks * rate / 1e6:.0f} MB/s × round trip = "
        f"{tasks * rate * link.rtt_seconds / 1e6:.1f} MB; {found.chunk_bytes / 1e6:.1f} MB a "
        "transaction"
    )
