from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from shipper_tools.dev.errors import DevServerError, ServerDied
from shipper_tools.dev.kafka import KafkaServer, answers, new_cluster_id


def test_a_cluster_id_is_never_taken_for_an_option() -> None:
    names = {new_cluster_id() for _ in range(5000)}
    assert len(names) == 5000
    assert {len(name) for name in names} == {22}
    assert not [name for name in names if name.startswith("-")]


def test_a_server_that_was_not_started_has_neither_address_nor_process(tmp_path: Path) -> None:
    server = KafkaServer(tmp_path)
    assert (server.running, server.processes) == (False, ())
    with pytest.raises(ServerDied, match="before its first start"):
        _ = server.bootstrap
    with pytest.raises(DevServerError, match="is not running"):
        _ = server.pid
    server.stop()
    assert list(tmp_path.iterdir()) == []


def test_a_server_with_a_given_port_knows_its_address_beforehand(tmp_path: Path) -> None:
    assert KafkaServer(tmp_path, port=19092).bootstrap == "127.0.0.1:19092"


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
