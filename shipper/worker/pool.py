"""The lane pool: N transactional producers side by side, and the chunks that wait for a topic.

A pipeline over a long link is made of lanes, since librdkafka keeps one request per partition in
flight when it is exactly-once. Usable on its own::

    settings = LaneSettings(connection={"bootstrap.servers": "…"}, batch_size_bytes=500_000, compression="zstd",
                            transaction_timeout_ms=60_000)
    options = LaneOptions(settings, ledger_topic="_my.ledger", ledger_partition=0, deadline_seconds=60)
    with LanePool(options, ["my-job.0", "my-job.1"], resolve_outcome=ask_my_ledger) as pool:
        pool.open()
        pool.submit([Chunk("logs", [b"a", b"b"], 2, b"file-1:0", lambda partition, topic_id: b"2 records", "file-1")])
        pool.drain()
    print(pool.close(10), pool.unsent())

``resolve_outcome`` returns the ledger keys that are committed (a Decided, see shipper.types). It is asked
after every fault, when the lane that failed has been fenced.
"""  # noqa: E501

from __future__ import annotations

import itertools
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

from shipper import runtime
from shipper.kafka.producer import SentBytes
from shipper.kafka.topics import TopicLookup, Topics
from shipper.kafka.transaction import RightToShip
from shipper.worker.chunk import Chunk
from shipper.worker.lane import Lane, LaneState, ResolveOutcome
from shipper.worker.order import LaneOptions
from shipper.worker.parking import Admission
from shipper.worker.rate import BrokerRate
from shipper.worker.tuning import Following, Tuning
from shipper.worker.wire_size import WireSize

log = logging.getLogger("shipper.pool")

#: Called with chunks once their transaction has committed; with the pool's lock held, by the lane
#: that sent them.
Delivered = Callable[[Sequence[Chunk]], object]

_LEARN_SECONDS = 5.0
_LOOK_SECONDS = 0.1
_NEVER = float("inf")


@dataclass
class ClosedPool:
    """Outcome of the chunks that were submitted, but for those that stayed unsent (see
    :meth:`LanePool.unsent`)."""

    delivered: int = 0
    """Chunks that are certainly in Kafka."""
    not_delivered: list[Chunk] = field(default_factory=list)
    """Chunks that are certainly not committed."""
    unknown: list[Chunk] = field(default_factory=list)
    """A commit was under way when the time was over: the ledger will tell."""
    failure: BaseException | None = None


class LanePool:
    """``open`` → ``submit`` … → ``drain`` → ``close``. One thread submits; a lane that fails makes
    its next call raise.

    At most ``len(producer_ids)`` transactions are in flight; one more may be ready. Memory: those,
    and ``parking_bytes``. A chunk whose topic cannot be written to is parked and holds up nothing
    else. It is sent as soon as the topic can be written to; when ``deadline_seconds`` are over it
    stays unsent, and so it does (at once) when the parking is full.

    Chunks of a sequence keep their order: one lane sends them, to one partition. While that has no
    leader they are parked, and behind one that stayed unsent all of its topic do.
    """

    def __init__(
        self,
        options: LaneOptions,
        producer_ids: Sequence[str],
        resolve_outcome: ResolveOutcome,
        delivered: Delivered = lambda chunks: None,
        *,
        right: RightToShip[Any] | None = None,
        sizes: Following | None = None,
    ) -> None:
        """Make the pool. ``right``: asked by each lane between its opening and its first record;
        ``resolve_outcome``, if None. ``sizes``: None: as the settings say."""
        batch_bytes = options.settings.batch_size_bytes
        self.sizes = sizes or Following(Tuning(len(producer_ids), batch_bytes, batch_bytes))
        self._followed_at, self._waited_before = runtime.monotonic(), 0.0
        self.options = options
        self.right = right or RightToShip(resolve_outcome)
        self.resolve_outcome = resolve_outcome
        self._tell_delivered = delivered
        self.rate = BrokerRate(options.rate)
        self.wire_size = WireSize(options.settings.compression)
        self.stop_at = _NEVER
        """Time (monotonic) when lanes stop sending."""
        self.give_up_at = _NEVER
        """Time (monotonic) when lanes stop waiting for the answer to a commit."""
        self.places = itertools.count(options.first_partition)
        """Numbers by which chunks go to partitions in turn: those of one transaction lie side by
        side."""
        self.lowered: dict[str, int] = {}
        """Topic → bytes in a batch, where batches turned out too large."""
        self._changed = runtime.Condition()
        self._ready: deque[list[Chunk]] = deque()
        self._serial = 0
        self._delivered = 0
        self._lane_wait_seconds = 0.0
        """The caller of ``submit`` waiting for a lane."""
        self._closed = False
        self._failures: list[BaseException] = []
        self._permission = runtime.Event()
        self._open_lanes = 0
        self._ended_lanes = 0
        self._topics = Topics(
            TopicLookup(options.settings), self._send_parked, self.fail, options.partitions
        )
        self._admission = Admission(self._topics, options.parking_bytes, options.deadline_seconds)
        self._parking = self._admission.parking
        self._lanes = [
            Lane(self, index, producer_id) for index, producer_id in enumerate(producer_ids)
        ]
        self.lanes_count = len(self._lanes)

    def __enter__(self) -> LanePool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close(self.options.settings.transaction_timeout_ms / 1000)

    # What the caller does.

    def open(
        self, topics: Sequence[str] = (), announce: Callable[[], object] = lambda: None
    ) -> None:
        """Open all lanes at once: initialising costs some ten round trips each. Returns when every
        lane has fenced its predecessors.

        ``announce`` must have returned before the first lane may fence anybody; the lanes connect
        meanwhile. ``topics``: known topics, which are looked up too.
        """
        self._topics.start()
        for lane in self._lanes:
            lane.thread.start()
        announce()
        self._permission.set()
        self._topics.learn(topics, _LEARN_SECONDS)
        with self._changed:
            self._wait_until(lambda: self._open_lanes == self.lanes_count or self._ended_lanes > 0)
            self._raise_failure()

    def submit(self, chunks: list[Chunk]) -> None:
        """Hand over the chunks of one transaction. Never waits for metadata; blocks while every
        lane is busy, or while no topic at all can be written to and the parking is full. Raises
        what made a lane fail."""
        with self._changed:
            for chunk in chunks:
                chunk.serial = self._serial = self._serial + 1
            self._follow()
            going = self._admission.admit(chunks, self._wait_until)
            while going and not self._failures:
                self._wait_for_lane(going)
                asked, going = going, self._admission.admit(going, self._wait_until)
                if len(asked) == len(going):
                    self._ready.append(going)
                    self._changed.notify_all()
                    break
            self._raise_failure()

    def _follow(self) -> None:
        """Let the sizes follow the delay that the lanes meet."""
        now, waited = runtime.monotonic(), self._lane_wait_seconds
        share = (waited - self._waited_before) / max(1e-3, now - self._followed_at)
        if self.sizes.follow(share):
            log.info("%s", self.sizes.tuning.why)
            self._followed_at, self._waited_before = now, waited

    def _wait_for_lane(self, chunks: list[Chunk]) -> None:
        began = runtime.monotonic()
        self._wait_until(lambda: self._has_room_for(chunks))
        self._lane_wait_seconds += runtime.monotonic() - began

    def _wait_until(self, holds: Callable[[], bool]) -> None:
        """Wait until ``holds`` is true, or until a lane fails."""
        self._changed.wait_for(lambda: self._failures or holds())

    def drain(self) -> None:
        """Wait until everything submitted is delivered, or left unsent because its topic stayed
        unusable or the parking was full. Raises what made a lane fail."""
        with self._changed:
            self._wait_until(
                lambda: (
                    not (self._ready or self._parking or any(lane.current for lane in self._lanes))
                )
            )
            self._raise_failure()

    def close(self, timeout_seconds: float) -> ClosedPool:
        """Stop sending, and return within ``timeout_seconds``, in which commits under way may still
        be answered."""
        now = runtime.monotonic()
        with self._changed:
            self.stop_at, self.give_up_at = now, now + max(0.0, timeout_seconds - 0.5)
            self._changed.notify_all()
        for lane in self._lanes:
            if lane.thread.ident is not None:
                lane.thread.join(max(0.0, now + timeout_seconds - runtime.monotonic()))
        self._topics.stop(max(0.0, now + timeout_seconds - runtime.monotonic()))
        with self._changed:
            return self._closing()

    @property
    def reopened(self) -> int:
        """Number of times that a lane was reopened."""
        return sum(lane.reopened for lane in self._lanes)

    @property
    def retried_records(self) -> int:
        """Number of records that were sent again after a fault."""
        return sum(lane.retried_records for lane in self._lanes)

    def retried(self) -> list[str]:
        """Return the names of the first of their chunks."""
        return [label for lane in self._lanes for label in lane.retried]

    def parked(self) -> dict[str, int]:
        """Return topic → number of records that wait in memory for it."""
        with self._changed:
            return self._parking.records()

    @property
    def parked_records(self) -> dict[str, int]:
        """Topic → records that were ever parked."""
        return self._parking.parked_records

    def sent(self) -> SentBytes:
        """Return the bytes sent, by librdkafka's count: of an open lane, as of a second ago."""
        return reduce(SentBytes.plus, (lane.sent() for lane in self._lanes), SentBytes())

    @property
    def waited_seconds(self) -> float:
        """Seconds for which the reader waited for a lane, or a lane for room in librdkafka."""
        return self._lane_wait_seconds + sum(lane.buffer_wait_seconds for lane in self._lanes)

    def unsent(self) -> dict[str, int]:
        """Return topic → number of records that were not delivered because the topic could not be
        written to: given up, or without room to wait."""
        with self._changed:
            return dict(self._parking.unsent)

    def raise_given_up(self) -> None:
        """Raise TopicMissing if a topic could not be written to for ``deadline_seconds``, or
        ClusterRefuses if an ACL forbids it."""
        with self._changed:
            self._admission.raise_given_up()

    # What the lanes ask and tell. Any lane may call at any time.

    def wait_for_permission(self) -> None:
        """Wait until it is announced that this pool's lanes fence others, or the pool closes."""
        while not self._permission.wait(_LOOK_SECONDS) and self.stop_at == _NEVER:
            pass

    def lane_is_open(self) -> None:
        with self._changed:
            self._open_lanes += 1
            self._changed.notify_all()

    def lane_ended(self) -> None:
        with self._changed:
            self._ended_lanes += 1
            self._changed.notify_all()

    def next_transaction(self, lane: Lane) -> list[Chunk] | None:
        """Wait for work for ``lane``; None when there will be none."""
        with self._changed:
            lane.state = LaneState.IDLE
            lane.current = ()
            self._changed.notify_all()
            while True:
                if self._failures or self.stop_at != _NEVER:
                    return None
                for index, chunks in enumerate(self._ready):
                    if self._lane_of(chunks) in (None, lane.index):
                        del self._ready[index]
                        lane.state, lane.current = LaneState.SENDING, chunks
                        return chunks
                self._changed.wait()

    def partitions_for(self, chunk: Chunk) -> tuple[int, ...]:
        """Return where the chunk may be sent right now; nothing if it has to wait."""
        with self._changed:
            return self._admission.may_go_to(chunk)

    def batch_bytes(self, topic: str) -> int:
        """Return the uncompressed bytes that go to a partition of ``topic`` at a time."""
        return self.lowered.get(topic) or self.sizes.tuning.batch_bytes

    def round_bytes(self, chunk: Chunk) -> int:
        """Return the uncompressed bytes of such records that are flushed together. Records with
        keys spread over the partitions."""
        spread = chunk.keys is not None and chunk.topic not in self.lowered
        return self.batch_bytes(chunk.topic) * (self.sizes.tuning.side_by_side if spread else 1)

    def lower_batch_bytes(self, topic: str) -> bool:
        """Halve the batches of ``topic``; return False if they are so small already that they
        always fit."""
        fits = self.options.limits.limit(topic).uncompressed_bytes
        with self._changed:
            if self.batch_bytes(topic) <= fits:
                return False
            self.lowered[topic] = max(fits, self.batch_bytes(topic) // 2)
            return True

    def done(self, chunks: Sequence[Chunk]) -> None:
        """Take note of chunks that are certainly in Kafka."""
        with self._changed:
            if self._closed:
                return  # it was reported as unknown, and the ledger tells
            self._delivered += len(chunks)
            self._tell_delivered(chunks)
            for chunk in chunks:
                chunk.delivered = True
                chunk.drop_records()
            self._admission.delivered(chunks)
        for topic in {chunk.topic for chunk in chunks}:
            self._topics.delivered(topic)

    def block(self, topic: str, reason: str, *, forbidden: bool) -> None:
        """Take note that the topic cannot be written to. ``forbidden``: for want of an ACL."""
        self._topics.block(topic, reason, forbidden=forbidden)

    def park(self, chunk: Chunk) -> None:
        """Take a chunk back, since it cannot be sent right now. Never blocks."""
        with self._changed:
            self._admission.park(chunk)
            if chunk.sequence is not None:
                self._call_back(chunk.topic, chunk.sequence)

    def _call_back(self, topic: str, sequence: int) -> None:
        """Call back ready chunks. A chunk that must not overtake one that has just been parked is
        parked behind it."""
        for chunks in list(self._ready):
            for chunk in [
                chunk for chunk in chunks if (chunk.topic, chunk.sequence) == (topic, sequence)
            ]:
                chunks.remove(chunk)
                self._admission.park(chunk)
            if not chunks:
                self._ready.remove(chunks)

    def fail(self, error: BaseException) -> None:
        with self._changed:
            self._failures.append(error)
            self._changed.notify_all()

    def _send_parked(self) -> bool:
        """Send parked chunks; called by the topics' thread. Return True if any are left."""
        with self._changed:
            if self._parking:  # otherwise nobody waits for a topic
                self._ready.extend([chunk] for chunk in self._admission.let_go())
                self._changed.notify_all()
            return bool(self._parking)

    # With the lock held.

    def _lane_of(self, chunks: Sequence[Chunk]) -> int | None:
        sequence = chunks[0].sequence
        return None if sequence is None else sequence % self.lanes_count

    def _has_room_for(self, chunks: Sequence[Chunk]) -> bool:
        wanted = self._lane_of(chunks)
        queued = sum(1 for waiting in self._ready if self._lane_of(waiting) == wanted)
        idle = sum(
            1
            for lane in self._lanes
            if lane.state is LaneState.IDLE and wanted in (None, lane.index)
        )
        busy = len(self._lanes) - idle if wanted is None else 0
        return queued < idle and queued + busy < max(self.sizes.tuning.lanes, 1)

    def _raise_failure(self) -> None:
        if self._failures:
            raise self._failures[0]

    def _closing(self) -> ClosedPool:
        self._closed = True
        found = ClosedPool(self._delivered)
        found.failure = self._failures[0] if self._failures else None
        for lane in self._lanes:
            open_commit = lane.state in (LaneState.COMMITTING, LaneState.RECOVERING)
            left = [chunk for chunk in lane.current if not chunk.delivered]
            (found.unknown if open_commit else found.not_delivered).extend(left)
        found.not_delivered += [chunk for chunks in self._ready for chunk in chunks]
        found.not_delivered += self._parking.waiting()
        return found
