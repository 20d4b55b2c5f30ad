"""The fault proxy, on real sockets: an echo server behind it, and what a client sees."""

import contextlib
import random
import select
import socket
import socketserver
import statistics
import struct
import threading
import time

import pytest
from shipper_tools.faultproxy.frames import REQUEST_HEAD, FrameReader
from shipper_tools.faultproxy.link import Conditions
from shipper_tools.faultproxy.proxy import FaultProxy

from tests.waiting import slowness

END_TXN, PRODUCE = 26, 0


class Echo(socketserver.BaseRequestHandler):
    """Sends back what it gets; remembers it too."""

    seen = bytearray()

    def handle(self):
        with contextlib.suppress(OSError):
            while data := self.request.recv(1 << 20):
                Echo.seen += data
                self.request.sendall(data)


class Threads(socketserver.ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 64


@pytest.fixture(scope="module")
def echo():
    with Threads(("127.0.0.1", 0), Echo) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.fixture(scope="module")
def shared(echo):
    with FaultProxy(echo) as proxy:
        yield proxy


@pytest.fixture
def link(shared):
    """A straight link, without connections."""
    Echo.seen.clear()
    yield shared
    shared.resume()
    shared.release()
    shared.shape(
        rtt_ms=0, jitter_ms=0, bytes_per_second=0, request_delay_ms=0, ack_ms=0, ack_p99_ms=0
    )
    shared.cut()


def connect(proxy):
    return socket.create_connection(("127.0.0.1", proxy.port), timeout=300)


def receive(connection, size):
    data = bytearray()
    while len(data) < size and (got := connection.recv(1 << 20)):
        data += got
    return bytes(data)


def round_trip_seconds(connection, data=b"x" * 20):
    began = time.monotonic()
    connection.sendall(data)
    assert receive(connection, len(data)) == data
    return time.monotonic() - began


def request(api_key, correlation_id, size=100):
    """A frame like Kafka's requests. The echo server's answer has the API key where a response has
    its correlation id."""
    return struct.pack(">ihhi", size + 8, api_key, 0, correlation_id) + b"r" * size


def silent(connection, seconds=0.15):
    return not select.select([connection], [], [], seconds)[0]


def test_a_round_trip_takes_the_latency_and_so_does_the_handshake(link):
    with connect(link) as connection:
        assert min(round_trip_seconds(connection) for _ in range(5)) < 0.05 * slowness()
    link.shape(rtt_ms=100)
    with connect(link) as connection:
        assert round_trip_seconds(connection) > 0.195
        assert 0.097 < min(round_trip_seconds(connection) for _ in range(3)) < 0.2 * slowness()


def test_what_is_stored_is_acknowledged_late_side_by_side_and_everything_else_at_once(link):
    """The echo's answer has the API key where a response has its correlation id."""
    link.shape(ack_ms=200)
    stored = [request(PRODUCE, PRODUCE), request(END_TXN, END_TXN)]
    with connect(link) as slow, connect(link) as fast:
        began = time.monotonic()
        slow.sendall(b"".join(stored))
        assert round_trip_seconds(fast, request(3, 3)) < 0.1 * slowness()
        assert receive(slow, 224) == b"".join(stored)
        assert 0.19 < time.monotonic() - began < 0.39 * slowness()


def test_acknowledgements_vary_around_their_median_with_a_long_tail(link):
    draw = random.Random(1)
    delays = Conditions(ack_ms=250, ack_p99_ms=1500)
    drawn = statistics.quantiles((delays.ack_seconds(draw) for _ in range(20_000)), n=100)
    assert 0.24 < drawn[49] < 0.26
    assert 1.35 < drawn[98] < 1.65
    link.shape(ack_ms=20, ack_p99_ms=100)
    with connect(link) as connection:
        took = [round_trip_seconds(connection, request(PRODUCE, PRODUCE)) for _ in range(30)]
    assert max(took) > 0.03


def test_a_held_request_holds_its_connection_alone(link):
    held, behind, other = request(END_TXN, 1), request(PRODUCE, 2), request(END_TXN, 3)
    with connect(link) as first, connect(link) as second:
        link.hold_request(END_TXN)
        first.sendall(request(PRODUCE, 0) + held + behind)
        assert receive(first, 112) == request(PRODUCE, 0)
        assert link.wait_held(300)
        second.sendall(other)
        assert receive(second, len(other)) == other
        assert silent(first)
        assert link.release() == 1
        assert receive(first, 224) == held + behind


def test_a_held_response_is_of_a_request_that_was_carried_out(link):
    # The echo's bytes 4 to 8, read as a correlation id, are those of the request's API key and
    # version.
    asked = struct.pack(">ihhi", 108, END_TXN, 0, END_TXN << 16) + b"r" * 100
    with connect(link) as connection:
        link.hold_response(END_TXN)
        connection.sendall(asked)
        assert link.wait_held(300)
        assert bytes(Echo.seen) == asked
        assert silent(connection)
        assert link.release() == 1
        assert receive(connection, len(asked)) == asked


@pytest.mark.parametrize("step", [1, 2, 3, 7, 11, 12, 13, 64, 1000])
def test_frames_are_found_however_the_stream_is_cut(step):
    frames = [request(n, n, size=n * 5) for n in range(20)]
    stream, reader, found = b"".join(frames), FrameReader(REQUEST_HEAD), []
    for at in range(0, len(stream), step):
        for start, head in reader.heads(stream[at : at + step]):
            found.append((at + start, head[1]))
    begins = [sum(map(len, frames[:n])) for n in range(20)]
    assert [key for _, key in found] == list(range(20))
    # A frame whose head came in several pieces counts from the last of them.
    last = REQUEST_HEAD.size - 1
    assert [at for at, _ in found] == [max(n, (n + last) // step * step) for n in begins]


def test_what_is_no_frame_ends_the_search():
    reader = FrameReader(REQUEST_HEAD)
    assert [head[1] for _, head in reader.heads(request(7, 1) + b"\xff" * 50)] == [7]
    assert list(reader.heads(request(8, 2))) == []
