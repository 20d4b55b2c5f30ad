"""A TCP link that can be long, narrow, uneven or broken: the inside of the proxy's process.

Bytes are stamped when they arrive and handed on when they are due, so latency never limits the
rate: what is under way waits in a queue. Sockets are read and written without asyncio's streams,
which copy more than once; at 140 ms and 150 MB/s this costs about a tenth of a core.
"""

from __future__ import annotations

import asyncio
import math
import random
import socket
import struct
from collections import deque
from dataclasses import asdict, dataclass, replace
from typing import Any

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
class _Item:
    due: float
    """On the loop's clock; infinite while it is held."""
    data: memoryview | None
    """None: the end of the stream."""
    buffer: memoryview | None = None
    """Free for the next read when this item is gone."""


#: API keys of what a broker acknowledges once it is stored: Produce, EndTxn.
_STORED = (0, 26)
CONNECTING = -1
"""In place of an API key: a connection's handshake."""


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
        self.accepted = self.bytes_up = 0
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
            connection.opening = loop.create_task(connection.open())

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
        return {"open": len(self.connections), "held": held, "bytes_up": self.bytes_up}

    def stall(self) -> None:
        """Nothing moves any more, and nobody is told."""
        self.stalled = True
        for pipe in self._pipes():
            pipe.pause()

    def resume(self) -> None:
        self.stalled = False
        for pipe in self._pipes():
            pipe.wake()

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

    def __init__(self, link: FaultLink, near: socket.socket) -> None:
        self.link = link
        self.near = near
        self.far = socket.socket()
        self.pipes: tuple[Pipe, ...] = ()
        self.number = link.accepted
        self.awaited: int | None = None
        """Correlation id of the response to hold."""
        self.asked: dict[int, Exchange] = {}
        """By correlation id."""
        self.stored_at: dict[int, float] = {}
        """Correlation id → when its answer may go, on the loop's clock."""
        self.opening: asyncio.Task[None] | None = None
        self._closed = False

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        for end in (self.near, self.far):
            end.setblocking(False)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            await loop.sock_connect(self.far, self.link.target)
        except OSError:
            self.close(reset=True)
            return
        began = loop.time()
        # A real handshake takes a round trip; this one ended on loopback, before any byte could be
        # delayed.
        await asyncio.sleep(2 * self.link.shape.one_way_seconds)
        if self.link.exchanges is not None:
            self.link.exchanges.append(Exchange(self.number, CONNECTING, began, loop.time()))
        up = Pipe(self, self.near, self.far, "up", FrameReader(REQUEST_HEAD))
        down = Pipe(self, self.far, self.near, "down", FrameReader(RESPONSE_HEAD))
        self.pipes = (up, down)
        for pipe in self.pipes:
            pipe.wake()

    def finished(self) -> None:
        if all(pipe.done for pipe in self.pipes):
            self.close()

    def broke(self, end: socket.socket) -> None:
        """An error on one end: nothing more comes from it, nothing more can go to it."""
        for pipe in self.pipes:
            if pipe.source is end:
                pipe.end_of_stream()
            else:
                pipe.give_up()

    def close(self, *, reset: bool = False) -> None:
        if self._closed:
            return
        self._closed = True
        if self.opening is not None and not self.pipes:
            self.opening.cancel()
        for pipe in self.pipes:
            pipe.pause()
            pipe.done = True
        for end in (self.near, self.far):
            if reset:
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            end.close()
        self.link.connections.discard(self)


class Pipe:
    """One direction of a connection."""

    def __init__(
        self,
        connection: Connection,
        source: socket.socket,
        sink: socket.socket,
        direction: str,
        frames: FrameReader,
    ) -> None:
        self.source = source
        self.done = False
        self.held = 0
        self._connection = connection
        self._link = connection.link
        self._sink = sink
        self._direction = direction
        self._frames = frames
        self._loop = asyncio.get_running_loop()
        self._queue: deque[_Item] = deque()
        self._queued_bytes = 0
        self._request_free_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._reopener: asyncio.TimerHandle | None = None
        self._reading = self._writing = self._ended = False

    def wake(self) -> None:
        """Reads and writes again, if it may."""
        self._read_on()
        self._pump()

    def pause(self) -> None:
        self._read_off()
        self._write_off()
        for timer in (self._timer, self._reopener):
            if timer is not None:
                timer.cancel()
        self._timer = self._reopener = None

    # Reading: stamp and queue.

    def _read_on(self) -> None:
        self._reopener = None
        if (
            not (self._reading or self._ended or self.done or self._link.stalled)
            and self._queued_bytes < _MOST_QUEUED_BYTES
        ):
            self._reading = True
            self._loop.add_reader(self.source, self._read)

    def _read_off(self) -> None:
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self.source)

    def _read(self) -> None:
        limit = self._link.shape.bytes_per_second
        now = self._loop.time()
        backlog = self._link.free_at[self._direction] - now
        if limit and backlog > _NARROW_QUEUE_SECONDS:
            self._read_off()
            self._reopener = self._loop.call_later(backlog - _NARROW_QUEUE_SECONDS, self._read_on)
            return
        buffer = (
            self._link.buffers.pop() if self._link.buffers else memoryview(bytearray(_READ_BYTES))
        )
        try:
            # A narrow link takes about a hundredth of a second's worth at a time, else it would
            # pass on in bursts.
            size = self.source.recv_into(
                buffer, max(1500, min(_READ_BYTES, int(limit / 100))) if limit else 0
            )
        except (BlockingIOError, InterruptedError):
            self._link.buffers.append(buffer)
            return
        except OSError:
            self._link.buffers.append(buffer)
            self._connection.broke(self.source)
            return
        if size < _SMALL_BYTES:
            self._link.buffers.append(buffer)
            if not size:
                self.end_of_stream()
                return
            self._take(memoryview(bytes(buffer[:size])), None, now)
        else:
            self._take(buffer[:size], buffer, now)
        if self._queued_bytes >= _MOST_QUEUED_BYTES:
            self._read_off()
        if self._timer is None and not self._writing:
            self._pump()

    def end_of_stream(self) -> None:
        """The source is at its end; its last bytes are still to be handed on."""
        self._read_off()
        if not (self._ended or self.done):
            self._ended = True
            self._queue.append(_Item(self._loop.time() + self._link.shape.one_way_seconds, None))
            if self._timer is None and not self._writing:
                self._pump()

    def _take(self, data: memoryview, buffer: memoryview | None, now: float) -> None:
        """Cuts what was read into items. ``buffer``, if it is to be used again, goes with the last
        of them."""
        due = self._due(len(data), now)
        cut = 0
        for part in self._frames.parts(data):
            # Cut only where a time changes: most often all that was read is one item.
            stored_at = self._stored_at(part.head, now) if part.head is not None else 0.0
            if stored_at > due:
                if part.start > cut:
                    self._put(data[cut : part.start], due)
                    cut = part.start
                due = stored_at
            if part.head is not None and self._link.exchanges is not None:
                self._note(part.head, self._link.exchanges)
            hold = part.head is not None and self._wants_to_hold(part.head)
            slow = part.ends and self._direction == "up" and self._link.shape.request_delay_ms > 0
            if hold and part.start > cut:
                self._put(data[cut : part.start], due)
                cut = part.start
            if slow:
                self._request_free_at = (
                    max(due, self._request_free_at) + self._link.shape.request_delay_ms / 1000
                )
            if hold or slow:
                self._put(data[cut : part.stop], math.inf if hold else self._request_free_at)
                self.held += hold
                cut = part.stop
        if cut < len(data):
            self._put(data[cut:], due)
        self._queue[-1].buffer = buffer

    def _due(self, size: int, now: float) -> float:
        shape = self._link.shape
        leaves = now
        if shape.bytes_per_second:
            leaves = max(now, self._link.free_at[self._direction]) + size / shape.bytes_per_second
            self._link.free_at[self._direction] = leaves
        jitter = self._link.random.uniform(0, shape.jitter_ms / 1000) if shape.jitter_ms else 0.0
        return leaves + shape.one_way_seconds + jitter

    def _stored_at(self, head: tuple[int, ...], now: float) -> float:
        """Return when an answer may go; 0 if nothing holds it back."""
        if self._direction == "down":
            return self._connection.stored_at.pop(head[1], 0.0)
        if self._link.shape.ack_ms and head[1] in _STORED:
            delay = self._link.shape.ack_seconds(self._link.random)
            self._connection.stored_at[head[3]] = now + delay
        return 0.0

    def _wants_to_hold(self, head: tuple[int, ...]) -> bool:
        """Looks at the head of a request or response; a hold is for one only."""
        link = self._link
        if self._direction == "down":
            if self._connection.awaited is None or head[1] != self._connection.awaited:
                return False
            self._connection.awaited = None
            return True
        api_key, correlation_id = head[1], head[3]
        if link.response_to_hold == api_key:
            link.response_to_hold = None
            self._connection.awaited = correlation_id
        if link.request_to_hold != api_key:
            return False
        link.request_to_hold = None
        return True

    def _note(self, head: tuple[int, ...], exchanges: list[Exchange]) -> None:
        now = self._loop.time()
        if self._direction == "down":
            if (asked := self._connection.asked.pop(head[1], None)) is not None:
                asked.answered = now + self._link.shape.one_way_seconds
        else:
            self._connection.asked[head[3]] = found = Exchange(
                self._connection.number, head[1], now
            )
            exchanges.append(found)

    def _put(self, data: memoryview, due: float) -> None:
        self._queue.append(_Item(due, data))
        self._queued_bytes += len(data)

    # Writing: what is due, in order.

    def _pump(self) -> None:
        self._timer = None
        while self._queue and not self._link.stalled and not self.done:
            item = self._queue[0]
            if item.due > self._loop.time() + _EARLY_SECONDS:
                if item.due != math.inf:
                    self._timer = self._loop.call_at(item.due - _EARLY_SECONDS, self._pump)
                break
            if not self._send(item):
                return
        self._write_off()
        if not (self._reading or self._reopener):
            self._read_on()

    def _send(self, item: _Item) -> bool:
        """Whether the item is off the queue; if not, the pump goes on when the sink can take more,
        or never."""
        try:
            if item.data is None:
                self._sink.shutdown(socket.SHUT_WR)
                self._queue.clear()
                self._finish()
                return False
            sent = self._sink.send(item.data)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError:
            self._connection.broke(self._sink)
            return False
        self._queued_bytes -= sent
        if self._direction == "up":
            self._link.bytes_up += sent
        if item.data is not None and sent < len(item.data):
            item.data = item.data[sent:]
            if not self._writing:
                self._writing = True
                self._loop.add_writer(self._sink, self._pump)
            return False
        if item.buffer is not None:
            self._link.buffers.append(item.buffer)
        self._queue.popleft()
        return True

    def _write_off(self) -> None:
        if self._writing:
            self._writing = False
            self._loop.remove_writer(self._sink)

    def release(self) -> int:
        released, self.held = self.held, 0
        for item in self._queue:
            if item.due == math.inf:
                item.due = self._loop.time()
        if released:
            self._pump()
        return released

    def give_up(self) -> None:
        """The sink is gone: what is queued has nowhere to go."""
        self._queue.clear()
        self._queued_bytes = self.held = 0
        self.pause()
        self._finish()

    def _finish(self) -> None:
        if not self.done:
            self.done = True
            self._write_off()
            self._connection.finished()
