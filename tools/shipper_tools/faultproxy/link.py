"""A TCP link that can be long, narrow, uneven or broken: the inside of the proxy's process.

Bytes are stamped when they arrive and handed on when they are due, so latency never limits the
rate: what is under way waits in a queue. Sockets are read and written without asyncio's streams,
which copy more than once.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
import socket
import struct
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

from shipper_tools.faultproxy.frames import REQUEST_HEAD, RESPONSE_HEAD, FrameReader

_READ_BYTES = 1 << 18
#: Less than this is copied out of its buffer, so that thousands of small messages under way do not
#: hold a buffer each.
_SMALL_BYTES = 1 << 15
#: As much as may be under way in one direction of one connection: 900 MB/s at 70 ms one way.
_MOST_QUEUED_BYTES = 64_000_000
#: epoll waits whole milliseconds, rounded up: half of one early is right on average.
_EARLY_SECONDS = 0.0005
#: A narrow link queues no more than this before it stops reading, as a router with a short buffer.
_NARROW_QUEUE_SECONDS = 0.05
_RESET = struct.pack("ii", 1, 0)
#: Standard deviations from the median to the 99th percentile of a normal distribution.
_P99 = 2.326
#: API keys of what a broker acknowledges once it is stored: Produce, EndTxn.
_STORED = (0, 26)
#: In place of an API key: a connection's handshake.
CONNECTING = -1


@dataclass
class Conditions:
    """What the link is like; 0: no limit, no delay. All of it may change while connections are
    open; bytes under way keep their times."""

    rtt_ms: float = 0.0
    """Round trip: half of it each way. A connection's handshake takes one as well."""
    jitter_ms: float = 0.0
    """Added to each read, uniformly between 0 and this, each way; the order of bytes is kept."""
    bytes_per_second: float = 0.0
    """In each direction, over all connections."""
    request_delay_ms: float = 0.0
    """Kafka requests are handed on one after the other, each after this: a broker that is slow per
    request, per connection."""
    ack_ms: float = 0.0
    """Answers to Produce and EndTxn come so long after their requests at least, all others at once:
    a Kafka on object storage. Requests of one connection wait side by side."""
    ack_p99_ms: float = 0.0
    """99th percentile of these times, which have a long tail then, and `ack_ms` as their median;
    answers of one connection keep their order. 0: all take `ack_ms`."""

    @property
    def one_way_seconds(self) -> float:
        return self.rtt_ms / 2000

    def ack_seconds(self, draw: random.Random) -> float:
        tail = math.log(max(1.0, self.ack_p99_ms / self.ack_ms)) / _P99
        return self.ack_ms / 1000 * math.exp(draw.gauss(0.0, tail))


@dataclass
class Exchange:
    """A request and its answer, or the opening of a connection, as the client sees them. Times are
    of the machine's monotonic clock."""

    connection: int
    api_key: int
    asked: float
    answered: float | None = None
    """None: not yet, or the answer is not wanted (acks=0)."""


class FaultLink:
    """Accepts connections and joins each with one to ``target``."""

    def __init__(self, target: tuple[str, int]) -> None:
        self.target = target
        self.shape = Conditions()
        self.stalled = False
        self.accepted = 0
        self.random = random.Random(0)
        self.connections: set[Connection] = set()
        self.request_to_hold: int | None = None
        """API key."""
        self.response_to_hold: int | None = None
        """API key of its request."""
        self.exchanges: list[Exchange] | None = None
        """All since it was asked to note them; None: it was not."""
        self.buffers: list[memoryview] = []
        """Used once and to be used again: memory that the process has touched already costs no page
        faults (measured at 140 ms: half of all CPU)."""
        self.passed_bytes = {"up": 0, "down": 0}
        self.free_at = {"up": 0.0, "down": 0.0}
        """When a narrow link will have passed on all that it took, by direction."""

    async def serve(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        listener.setblocking(False)
        while True:
            near, _ = await loop.sock_accept(listener)
            self.accepted += 1
            connection = Connection(self, near)
            self.connections.add(connection)
            connection.life = loop.create_task(connection.live())

    def cut(self, *, reset: bool = False) -> int:
        """Closes every connection; what was under way is lost. Returns how many there were.
        ``reset``: both ends see a connection reset."""
        connections = list(self.connections)
        for connection in connections:
            connection.close(reset=reset)
        return len(connections)

    def reshape(self, **shape: float) -> None:
        self.shape = replace(self.shape, **shape)

    def hold_request(self, api_key: int) -> None:
        self.request_to_hold = api_key

    def hold_response(self, api_key: int) -> None:
        self.response_to_hold = api_key

    def note(self) -> None:
        """Note every exchange from now on."""
        self.exchanges = []

    def exchanged(self) -> list[dict[str, Any]]:
        """Return what was noted since this was asked before."""
        found, self.exchanges = self.exchanges or [], []
        return [asdict(exchange) for exchange in found]

    def count(self) -> dict[str, int]:
        held = sum(pipe.held for pipe in self._pipes())
        return {"open": len(self.connections), "held": held, "bytes_up": self.passed_bytes["up"]}

    def stall(self) -> None:
        """Nothing moves any more, and nobody is told."""
        self.stalled = True

    def resume(self) -> None:
        self.stalled = False
        for pipe in self._pipes():
            pipe.changed.set()

    def release(self) -> int:
        """Lets everything go that is held; nothing further will be held. Returns how many requests
        or responses it were."""
        self.request_to_hold = self.response_to_hold = None
        return sum(pipe.release() for pipe in self._pipes())

    def _pipes(self) -> list[Pipe]:
        return [pipe for connection in self.connections for pipe in connection.pipes]


class Connection:
    """Two sockets and a pipe in each direction. It lives until both pipes are done: a request that
    is held reaches the broker also when its client gave up long before."""

    life: asyncio.Task[None]

    def __init__(self, link: FaultLink, near: socket.socket) -> None:
        self.link = link
        self.number = link.accepted
        self.awaited: int | None = None
        """Correlation id of the response to hold."""
        self.asked: dict[int, Exchange] = {}
        """By correlation id."""
        self.stored_at: dict[int, float] = {}
        """Correlation id → when its answer may go, on the loop's clock."""
        self._near, self._far = near, socket.socket()
        up, down = _Requests(self, near, self._far), _Responses(self, self._far, near)
        self.pipes: tuple[Pipe, ...] = (up, down)

    async def live(self) -> None:
        try:
            await self._open()
            async with asyncio.TaskGroup() as both:
                for pipe in self.pipes:
                    pipe.task = both.create_task(pipe.run())
        except OSError:
            self.close(reset=True)
        finally:  # later than whoever waited for the sockets
            self._near.close()
            self._far.close()
            self.link.connections.discard(self)

    async def _open(self) -> None:
        loop = asyncio.get_running_loop()
        for end in (self._near, self._far):
            end.setblocking(False)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await loop.sock_connect(self._far, self.link.target)
        began = loop.time()
        # A real handshake takes a round trip; this one ended on loopback, before any byte could be
        # delayed.
        await asyncio.sleep(2 * self.link.shape.one_way_seconds)
        if self.link.exchanges is not None:
            self.link.exchanges.append(Exchange(self.number, CONNECTING, began, loop.time()))

    def broke(self, end: socket.socket) -> None:
        """An end was lost: what is on its way there has nowhere to go."""
        for pipe in self.pipes:
            if pipe.sink is end:
                pipe.held = 0
                pipe.task.cancel()

    def close(self, *, reset: bool) -> None:
        if reset:
            for end in (self._near, self._far):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.link.connections.discard(self)
        self.life.cancel()


@dataclass
class _Item:
    due: float
    """Time on the loop's clock; infinite while it is held."""
    data: memoryview
    """Empty: the end of the stream."""
    buffer: memoryview | None = None
    """Free for the next read when this item is gone."""


class Pipe(ABC):
    """One direction of a connection."""

    direction: ClassVar[str]
    head: ClassVar[struct.Struct]
    task: asyncio.Task[None]

    def __init__(self, connection: Connection, source: socket.socket, sink: socket.socket) -> None:
        self.sink = sink
        self.held = 0
        self.changed = asyncio.Event()
        """Set when what is read or written next may no longer have to wait."""
        self._source = source
        self._connection = connection
        self._link = connection.link
        self._loop = asyncio.get_running_loop()
        self._frames = FrameReader(self.head)
        self._queue: deque[_Item] = deque()
        self._queued_bytes = 0

    @abstractmethod
    def _due_of(self, head: tuple[int, ...], due: float, now: float) -> float:
        """Return when a frame that would be due then may go; infinite to hold it."""

    async def run(self) -> None:
        """Hand on all that comes, to the end of the stream, or until the sink is gone."""
        reading = self._loop.create_task(self._read())
        try:
            await self._write()
        except OSError:
            self.held = 0
        finally:
            reading.cancel()

    async def _until(self, seconds_left: Callable[[], float]) -> None:
        while (seconds := seconds_left()) > 0:
            self.changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if seconds == math.inf else seconds):
                    await self.changed.wait()

    # Reading: stamp and queue.

    async def _read(self) -> None:
        size = 1
        while size:
            await self._until(self._before_read)
            limit, buffers = self._link.shape.bytes_per_second, self._link.buffers
            buffer = buffers.pop() if buffers else memoryview(bytearray(_READ_BYTES))
            # A narrow link takes about a hundredth of a second's worth at a time, else it would
            # pass on in bursts.
            room = max(1500, min(_READ_BYTES, int(limit / 100))) if limit else _READ_BYTES
            try:
                size = await self._loop.sock_recv_into(self._source, buffer[:room])
            except OSError:
                size = 0
                self._connection.broke(self._source)
            if size < _SMALL_BYTES:
                buffers.append(buffer)
                self._take(memoryview(bytes(buffer[:size])), None)
            else:
                self._take(buffer[:size], buffer)

    def _before_read(self) -> float:
        if self._link.stalled or self._queued_bytes >= _MOST_QUEUED_BYTES:
            return math.inf
        backlog = self._link.free_at[self.direction] - self._loop.time()
        return backlog - _NARROW_QUEUE_SECONDS if self._link.shape.bytes_per_second else 0.0

    def _take(self, data: memoryview, buffer: memoryview | None) -> None:
        """Queue what was read, cut only where a time changes: most often it is one item. The last
        item has the ``buffer``, if that is to be used again."""
        now = self._loop.time()
        due, cut = self._due(len(data), now), 0
        for start, head in self._frames.heads(data):
            later = self._due_of(head, due, now)
            if later > due and start > cut:
                self._queue.append(_Item(due, data[cut:start]))
                cut = start
            due = later
        self._queue.append(_Item(due, data[cut:], buffer))
        self._queued_bytes += len(data)
        self.changed.set()

    def _due(self, size: int, now: float) -> float:
        shape = self._link.shape
        leaves = now
        if shape.bytes_per_second:
            leaves = max(now, self._link.free_at[self.direction]) + size / shape.bytes_per_second
            self._link.free_at[self.direction] = leaves
        jitter = self._link.random.uniform(0, shape.jitter_ms / 1000) if shape.jitter_ms else 0.0
        return leaves + shape.one_way_seconds + jitter

    # Writing: what is due, in order.

    async def _write(self) -> None:
        while True:
            await self._until(self._before_write)
            item = self._queue.popleft()
            if not item.data:
                self.sink.shutdown(socket.SHUT_WR)
                return
            await self._loop.sock_sendall(self.sink, item.data)
            self._link.passed_bytes[self.direction] += len(item.data)
            self._queued_bytes -= len(item.data)
            self.changed.set()
            if item.buffer is not None:
                self._link.buffers.append(item.buffer)

    def _before_write(self) -> float:
        if self._link.stalled or not self._queue:
            return math.inf
        return self._queue[0].due - self._loop.time() - _EARLY_SECONDS

    def release(self) -> int:
        released, self.held = self.held, 0
        for item in self._queue:
            item.due = self._loop.time() if item.due == math.inf else item.due
        self.changed.set()
        return released


class _Requests(Pipe):
    direction = "up"
    head = REQUEST_HEAD
    _free_at = 0.0
    """Time when a broker that is slow for each request has taken the last one."""

    def _due_of(self, head: tuple[int, ...], due: float, now: float) -> float:
        link, connection = self._link, self._connection
        _, api_key, _, correlation_id = head
        if link.exchanges is not None:
            connection.asked[correlation_id] = Exchange(connection.number, api_key, now)
            link.exchanges.append(connection.asked[correlation_id])
        if link.shape.ack_ms and api_key in _STORED:
            connection.stored_at[correlation_id] = now + link.shape.ack_seconds(link.random)
        if link.response_to_hold == api_key:
            link.response_to_hold = None
            connection.awaited = correlation_id
        if link.request_to_hold == api_key:
            link.request_to_hold = None
            self.held += 1
            return math.inf
        if due < math.inf and link.shape.request_delay_ms:
            self._free_at = max(due, self._free_at) + link.shape.request_delay_ms / 1000
            return self._free_at
        return due


class _Responses(Pipe):
    direction = "down"
    head = RESPONSE_HEAD

    def _due_of(self, head: tuple[int, ...], due: float, now: float) -> float:
        connection, (_, correlation_id) = self._connection, head
        if (asked := connection.asked.pop(correlation_id, None)) is not None:
            asked.answered = now + self._link.shape.one_way_seconds
        if connection.awaited == correlation_id:
            connection.awaited = None
            self.held += 1
            return math.inf
        return max(due, connection.stored_at.pop(correlation_id, 0.0))
