from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator

import pytest
from shipper_tools.dev.kafka import answers, new_cluster_id


def test_a_cluster_id_is_never_taken_for_an_option() -> None:
    names = {new_cluster_id() for _ in range(5000)}
    assert len(names) == 5000
    assert {len(name) for name in names} == {22}
    assert not [name for name in names if name.startswith("-")]


@contextlib.contextmanager
def listener(reply: bytes) -> Iterator[int]:
    """Something on a port that says ``reply`` to whatever it is told, and hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection = server.accept()[0]
            with connection:
                connection.recv(1000)
                connection.sendall(reply)

        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1]
        thread.join()


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (struct.pack(">iih", 10, 7, 0) + b"more", True),
        (struct.pack(">iih", 10, 8, 0), False),  # an answer to something else
        (struct.pack(">iih", 10, 7, 35), False),  # UNSUPPORTED_VERSION
        (b"HTTP/1.1 400 Bad Request", False),
        (b"", False),
    ],
)
def test_only_a_broker_counts_as_an_answer(reply: bytes, expected: bool) -> None:
    with listener(reply) as port:
        assert answers("127.0.0.1", port) is expected
