"""The lane pool: N transactional producers side by side, and the chunks that wait for a topic.

A pipeline over a long link is made of lanes, since librdkafka keeps one request per partition in flight when it is exactly-once.
Usable on its own::

    settings = LaneSettings(connection={"bootstrap.servers": "…"}, batch_size_bytes=500_000, compression="zstd",
                            transaction_timeout_ms=60_000)
    options = LaneOptions(settings, ledger_topic="_my.ledger", ledger_partition=0, deadline_seconds=60)
    with LanePool(options, ["my-job.0", "my-job.1"], settle=lambda: keys_in_my_ledger()) as pool:
        pool.open()
        pool.submit([Chunk("logs", [b"a", b"b"], 2, b"file-1:0", lambda partition: b"2 records", "file-1")])
        pool.drain()
    print(pool.close(10))

``settle`` returns the ledger keys that are committed; it is asked after every fault, when the lane that failed has been fenced.
"""

from __future__ import annotations

import bisect
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from types import TracebackType

from shipper.errors import TopicMissing
from shipper.producer.chunk import BATCH_OVERHEAD_BYTES, Chunk
from shipper.producer.client import LaneSettings, Sent, TopicLookup
from shipper.producer.lane import Lane, LaneState, LaneWork
from shipper.producer.rate import NoLimit, RateLimit
from shipper.producer.topics import Topics

log = logging.getLogger("shipper.pool")

#: The ledger keys whose chunks are committed. Raises Superseded if the caller may not send any more.
Settle = Callable[[], "frozenset[bytes] | set[bytes]"]

_DEFAULT_MAX_MESSAGE_BYTES = 1_048_588  # the broker's default
_LEARN_SECONDS = 5.0
_LOOK_SECONDS = 0.1
_NEVER = float("inf")


@dataclass
class Counts:
    """What the lanes of a pool did and waited for."""

    transactions: int = 0
    buffer_wait_seconds: float = 0.0
    """Waiting for room in librdkafka's queue."""
    lane_wait_seconds: float = 0.0
    """The caller of ``submit`` waiting for a lane."""
    retried_records: int = 0
    """Sent again after a fault."""

    def note_retry(self, chunks: Sequence[Chunk]) -> None:
        self.retried_records += sum(chunk.counted for chunk in chunks)


@dataclass(frozen=True)
class LaneOptions:
    """What the lanes of a pool have in common."""

    settings: LaneSettings
    ledger_topic: str
    ledger_partition: int
    deadline_seconds: float
    """How long one transaction may be tried, and how long a chunk may wait for its topic."""
    init_timeout_seconds: float = 60.0
    limits: Mapping[str, int] = field(default_factory=dict)
    """Topic → its max.message.bytes."""
    batch_bytes: int | None = None
    """What goes to a partition at a time, uncompressed; ``settings.batch_size_bytes`` if None."""
    parking_bytes: int = 64_000_000
    """Most bytes of chunks that wait in memory for their topics."""
    partitions: tuple[int, ...] | None = None
    """Only these, for records without a key; all if None."""
    share_partitions: bool = False
    """Each lane keeps to its own share of the partitions."""
    first_partition: int = 0
    """Where the rotation begins, so that tasks side by side do not all write to the same one."""
    rate: RateLimit | NoLimit = field(default_factory=NoLimit)

    def limit(self, topic: str) -> int:
        """A batch of so many bytes fits the topic, whatever it compresses to."""
        return max(1, self.limits.get(topic, _DEFAULT_MAX_MESSAGE_BYTES) - BATCH_OVERHEAD_BYTES)


@dataclass
class Delivery:
    """Every chunk that was submitted, by what became of it."""

    delivered: list[Chunk] = field(default_factory=list)
    """Certainly in Kafka; their records are dropped to free memory."""
    not_delivered: list[Chunk] = field(default_factory=list)
    """Certainly not there."""
    unknown: list[Chunk] = field(default_factory=list)
    """A commit was under way when the time was over: the ledger will tell."""
    failure: BaseException | None = None


class LanePool:
    """``open`` → ``submit`` … → ``drain`` → ``close``. One thread submits; a lane that fails makes its next call raise.

    At most ``len(producer_ids)`` transactions are in flight; one more may be ready. Memory: those, and ``parking_bytes``.
    A chunk whose topic cannot be written to is parked and holds up nothing else. It is sent as soon as the topic can be
    written to; when ``deadline_seconds`` are over it counts as not delivered, and so it does (at once) when the parking is full.
    """

    def __init__(self, options: LaneOptions, producer_ids: Sequence[str], settle: Settle) -> None:
        self.options = options
        self.settle = settle
        self.counts = Counts()
        self.stop_at = self.give_up_at = _NEVER
        """When (monotonic) lanes stop sending, and when they stop waiting for the answer to a commit."""
        self.parked_records: dict[str, int] = {}
        """Topic → records that were parked at some time, whatever became of them."""
        self.lowered: dict[str, int] = {}
        """Topic → bytes in a batch, where batches turned out too large."""
        self._sent_by_closed = Sent()
        self._news = threading.Condition()
        self._ready: deque[list[Chunk]] = deque()
        self._parked: dict[str, list[tuple[int, Chunk]]] = {}
        self._parked_bytes = 0
        self._probes: set[int] = set()
        self._serial = 0
        self._serials: dict[int, int] = {}
        self._given_up: set[str] = set()
        self._delivered: list[Chunk] = []
        self._not_delivered: list[Chunk] = []
        self._failures: list[BaseException] = []
        self._permission = threading.Event()
        self._open_lanes = 0
        self._ended_lanes = 0
        self._topics = Topics(TopicLookup(options.settings), self._tend_parking)
        self._lanes = [Lane(self, index, producer_id) for index, producer_id in enumerate(producer_ids)]
        self.lanes_count = len(self._lanes)

    def __enter__(self) -> LanePool:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close(self.options.settings.transaction_timeout_ms / 1000)

    # What the caller does.

    def open(self, topics: Sequence[str] = (), announce: Callable[[], object] = lambda: None) -> None:
        """Opens all lanes at once: initialising costs some ten round trips each. Returns when every one has fenced its past.

        ``announce`` is what must have happened before the first of them may fence anybody; they connect meanwhile. ``topics``:
        those that are known already are looked up, too."""
        self._topics.start()
        for lane in self._lanes:
            lane.start()
        announce()
        self._permission.set()
        self._topics.learn(topics, _LEARN_SECONDS)
        with self._news:
            self._news.wait_for(lambda: self._failures or self._open_lanes == self.lanes_count or self._ended_lanes)
            self._raise_failure()

    def submit(self, chunks: list[Chunk]) -> None:
        """Hands over the chunks of one transaction. Never waits for metadata; blocks while every lane is busy, or while no topic
        at all can be written to and the parking is full. Raises what made a lane fail."""
        with self._news:
            for chunk in chunks:
                self._serials[id(chunk)] = self._serial = self._serial + 1
            ready = [chunk for chunk in chunks if not self._must_park(chunk)]
            for chunk in chunks:
                if chunk not in ready:
                    self._wait_for_parking(chunk)
                    self._park(chunk)
            if ready:
                began = time.monotonic()
                self._news.wait_for(lambda: self._failures or self._has_room_for(ready))
                self.counts.lane_wait_seconds += time.monotonic() - began
                self._ready.append(ready)
                self._news.notify_all()
            self._raise_failure()

    def drain(self) -> None:
        """Returns when everything submitted is delivered, or dropped since its topic stayed unusable or the parking was full.
        Raises what made a lane fail."""
        with self._news:
            self._news.wait_for(lambda: self._failures or not (self._ready or self._parked or self._busy()))
            self._raise_failure()

    def close(self, timeout_seconds: float) -> Delivery:
        """Stops sending, and returns in ``timeout_seconds`` at the latest, in which commits under way may still be answered."""
        now = time.monotonic()
        with self._news:
            self.stop_at, self.give_up_at = now, now + max(0.0, timeout_seconds - 0.5)
            self._news.notify_all()
        for lane in self._lanes:
            if lane.ident is not None:
                lane.join(max(0.0, now + timeout_seconds - time.monotonic()))
        self._topics.stop(max(0.0, now + timeout_seconds - time.monotonic()))
        with self._news:
            return self._delivery()

    @property
    def delivered(self) -> list[Chunk]:
        """What is certainly in Kafka until now."""
        return self._delivered

    @property
    def reopened(self) -> int:
        """How often a lane was thrown away and opened anew."""
        return sum(lane.work.reopened for lane in self._lanes)

    def work(self) -> list[LaneWork]:
        """What each lane did until now."""
        return [lane.work for lane in self._lanes]

    def states(self) -> dict[str, LaneState]:
        return {lane.name: lane.state for lane in self._lanes}

    def in_flight_bytes(self) -> int:
        """Of transactions that are under way."""
        return sum(chunk.size_bytes for lane in self._lanes for chunk in lane.current)

    def parked(self) -> dict[str, int]:
        """Topic → records that wait in memory for it."""
        with self._news:
            return {topic: sum(chunk.counted for _, chunk in chunks) for topic, chunks in self._parked.items()}

    def sent(self) -> Sent:
        """By librdkafka's count, a second ago."""
        return reduce(Sent.plus, (lane.sent() for lane in self._lanes), self._sent_by_closed)

    def sample(self) -> list[float]:
        """[seconds since the epoch, bytes in flight, bytes on the wire until now, lanes at work, seconds that the reader waited
        for a lane until now, records parked now, lanes opened anew until now]."""
        busy = sum(1 for lane in self._lanes if lane.current)
        wait = self.counts.lane_wait_seconds + self.counts.buffer_wait_seconds
        parked = sum(self.parked().values())
        return [time.time(), self.in_flight_bytes(), self.sent().wire_bytes, busy, wait, parked, self.reopened]

    def dropped(self) -> dict[str, int]:
        """Topic → records that were not delivered since it could not be written to: given up, or no room to wait for it."""
        with self._news:
            found: dict[str, int] = {}
            for chunk in self._not_delivered:
                found[chunk.topic] = found.get(chunk.topic, 0) + chunk.counted
            return found

    def raise_given_up(self) -> None:
        """Raises TopicMissing if a topic could not be written to for ``deadline_seconds``."""
        if self._given_up:
            raise TopicMissing(self._missing_message())

    def _missing_message(self) -> str:
        reasons = "; ".join(f"{topic}: {self._topics.unusable(topic)[1]}" for topic in sorted(self._given_up))
        others = {topic: count for topic, count in self.dropped().items() if topic not in self._given_up}
        left = (
            f"Not sent either, since there was no room to let them wait: {sum(others.values()):,} records of {', '.join(others)}. "
            if others
            else ""
        )
        return (
            f"topic {', '.join(sorted(self._given_up))} could not be written to within {self.options.deadline_seconds:g} s "
            f"(`delivery.metadata_wait`): {reasons}. {left}Everything else was sent. Create it, or check its name and the ACLs; "
            "then run again: only what is left will be sent."
        )

    # What the lanes do.

    def wait_for_permission(self) -> None:
        """Until it is announced that this pool's lanes fence others, or the pool closes."""
        while not self._permission.wait(_LOOK_SECONDS) and self.stop_at == _NEVER:
            pass

    def lane_is_open(self) -> None:
        with self._news:
            self._open_lanes += 1
            self._news.notify_all()

    def lane_ended(self) -> None:
        with self._news:
            self._ended_lanes += 1
            self._news.notify_all()

    def next_transaction(self, lane: Lane) -> list[Chunk] | None:
        """Waits for work for ``lane``; None when the pool is closing."""
        with self._news:
            lane.state = LaneState.IDLE
            lane.current = ()
            self._news.notify_all()
            while True:
                if self._failures or self.stop_at != _NEVER:
                    return None
                for index, chunks in enumerate(self._ready):
                    if self._lane_of(chunks) in (None, lane.index):
                        del self._ready[index]
                        lane.state, lane.current = LaneState.SENDING, chunks
                        return chunks
                self._news.wait()

    def partitions_for(self, lane: Lane, chunk: Chunk) -> tuple[int, ...]:
        """Where ``lane`` may send the chunk; nothing if its topic cannot be written to."""
        probing = id(chunk) in self._probes
        found = self._topics.known_partitions(chunk.topic) if probing else self._topics.partitions(chunk.topic)
        if self.options.partitions is not None:
            found = tuple(partition for partition in found if partition in self.options.partitions)
        if self.options.share_partitions and len(found) >= self.lanes_count:
            found = found[lane.index :: self.lanes_count]
        return found

    def batch_bytes(self, topic: str) -> int:
        """Uncompressed bytes that go to a partition of ``topic`` at a time."""
        return self.lowered.get(topic) or self.options.batch_bytes or self.options.settings.batch_size_bytes

    def lower_batch_bytes(self, topic: str) -> bool:
        """Halves the batches of ``topic``; false if they are so small already that they fit whatever they hold."""
        with self._news:
            fits = self.options.limit(topic)
            if self.batch_bytes(topic) <= fits:
                return False
            self.lowered[topic] = max(fits, self.batch_bytes(topic) // 2)
            return True

    def done(self, chunks: Sequence[Chunk]) -> None:
        """They are certainly in Kafka."""
        with self._news:
            self.counts.transactions += 1
            for chunk in chunks:
                chunk.drop_records()
                self._probes.discard(id(chunk))
                self._serials.pop(id(chunk), None)
            self._delivered.extend(chunks)
        for topic in {chunk.topic for chunk in chunks}:
            self._topics.delivered(topic)

    def block(self, topic: str, reason: str) -> None:
        self._topics.block(topic, reason)

    def park(self, chunk: Chunk) -> None:
        """A lane hands a chunk back, since its topic cannot be written to right now. Never blocks."""
        with self._news:
            self._probes.discard(id(chunk))
            self._park(chunk)

    def fail(self, error: BaseException) -> None:
        with self._news:
            self._failures.append(error)
            self._news.notify_all()

    def keep_counts(self, sent: Sent) -> None:
        """Of a producer that is thrown away."""
        self._sent_by_closed = self._sent_by_closed.plus(sent)

    # The parking. All of it with the lock held.

    def _must_park(self, chunk: Chunk) -> bool:
        """Chunks of a topic that has parked ones wait behind them."""
        if not chunk.topic:
            return False
        return chunk.topic in self._given_up or chunk.topic in self._parked or not self._topics.partitions(chunk.topic)

    def _wait_for_parking(self, chunk: Chunk) -> None:
        """Reading on makes sense only while something can be sent. And while some of what is parked goes in a moment, since its topic
        may be usable, there is room soon."""
        self._news.wait_for(
            lambda: (
                self._failures
                or self._parked_bytes + chunk.size_bytes <= self.options.parking_bytes
                or not self._parked
                or (self._topics.any_usable() and not any(map(self._topics.may_be_usable, self._parked)))
            )
        )

    def _park(self, chunk: Chunk) -> None:
        topic = chunk.topic
        self.parked_records[topic] = self.parked_records.get(topic, 0) + chunk.counted
        full = self._parked_bytes + chunk.size_bytes > self.options.parking_bytes and self._parked
        if topic in self._given_up or full:
            self._drop(chunk)
            return
        bisect.insort(self._parked.setdefault(topic, []), (self._serials[id(chunk)], chunk), key=lambda entry: entry[0])
        self._parked_bytes += chunk.size_bytes

    def _drop(self, chunk: Chunk) -> None:
        chunk.drop_records()
        self._not_delivered.append(chunk)

    def _tend_parking(self) -> None:
        """Called by the topics' thread: lets chunks go whose topic can be written to, and gives up those that waited too long."""
        with self._news:
            for topic in list(self._parked):
                if self._topics.partitions(topic):
                    self._release(topic, len(self._parked[topic]))
                elif self._topics.unusable(topic)[0] > self.options.deadline_seconds:
                    self._give_up(topic)
                elif self._topics.probe(topic):
                    self._probes.add(id(self._parked[topic][0][1]))
                    self._release(topic, 1)
            self._news.notify_all()

    def _release(self, topic: str, count: int) -> None:
        going, staying = self._parked[topic][:count], self._parked[topic][count:]
        for _, chunk in going:
            self._ready.append([chunk])
            self._parked_bytes -= chunk.size_bytes
        if staying:
            self._parked[topic] = staying
        else:
            del self._parked[topic]

    def _give_up(self, topic: str) -> None:
        self._given_up.add(topic)
        for _, chunk in self._parked.pop(topic):
            self._parked_bytes -= chunk.size_bytes
            self._drop(chunk)

    # With the lock held.

    def _lane_of(self, chunks: Sequence[Chunk]) -> int | None:
        sequence = chunks[0].sequence
        return None if sequence is None else sequence % self.lanes_count

    def _has_room_for(self, chunks: Sequence[Chunk]) -> bool:
        wanted = self._lane_of(chunks)
        queued = sum(1 for waiting in self._ready if self._lane_of(waiting) == wanted)
        idle = sum(1 for lane in self._lanes if lane.state is LaneState.IDLE and wanted in (None, lane.index))
        return queued < idle

    def _busy(self) -> bool:
        return any(lane.current for lane in self._lanes)

    def _raise_failure(self) -> None:
        if self._failures:
            raise self._failures[0]

    def _delivery(self) -> Delivery:
        found = Delivery(list(self._delivered), list(self._not_delivered))
        found.failure = self._failures[0] if self._failures else None
        settled = {id(chunk) for chunk in found.delivered}
        for lane in self._lanes:
            open_commit = lane.state in (LaneState.COMMITTING, LaneState.RECOVERING)
            for chunk in lane.current:
                if id(chunk) not in settled:
                    (found.unknown if open_commit else found.not_delivered).append(chunk)
        found.not_delivered += [chunk for chunks in self._ready for chunk in chunks]
        found.not_delivered += [chunk for chunks in self._parked.values() for _, chunk in chunks]
        return found
