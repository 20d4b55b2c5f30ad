"""A broker that answers some requests itself, as brokers of certain vendors do, and hands on the
others to a real one: a proxy of Kafka's frames on loopback."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from shipper_tools.dev.ports import LOOPBACK


@dataclass(frozen=True)
class Request:
    """A request, as a client sent it."""

    connection: int
    """Number of the connection."""
    api_key: int
    version: int
    body: bytes
    """Everything behind the correlation id."""


#: Returns the answer behind its correlation id; None to ask the broker; raises ConnectionError to
#: close the connection.
Answer = Callable[[Request], bytes | None]


class BrokerDouble:
    """::

    with KafkaServer(folder, far_port=port) as kafka, BrokerDouble(kafka.far_listener, port, answer):
        ...  # clients of kafka.far_bootstrap
    """  # noqa: E501

    def __init__(self, target: str, port: int, answer: Answer):
        host, _, target_port = target.rpartition(":")
        self._target = host, int(target_port)
        self._answer = answer
        self._listener = socket.create_server((LOOPBACK, port), backlog=200)
        self._open: set[socket.socket] = set()
        self._accepted = 0

    def __enter__(self):
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, kind, error, trace):
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for end in list(self._open):
            _close(end)

    def _accept(self):
        while True:
            try:
                near, _ = self._listener.accept()
                far = socket.create_connection(self._target)
            except OSError:
                return
            self._accepted += 1
            self._open |= {near, far}
            ends, lock = (near, far), threading.Lock()
            for serve in (partial(self._up, self._accepted), self._down):
                threading.Thread(
                    target=_until_closed, args=(partial(serve, *ends, lock), *ends), daemon=True
                ).start()

    def _up(self, number, near, far, lock):
        while frame := _frame(near):
            api_key, version, correlation = struct.unpack_from(">hhi", frame)
            found = self._answer(Request(number, api_key, version, frame[8:]))
            if found is None:
                far.sendall(struct.pack(">i", len(frame)) + frame)
            else:
                with lock:
                    near.sendall(struct.pack(">ii", len(found) + 4, correlation) + found)

    def _down(self, near, far, lock):
        while frame := _frame(far):
            with lock:
                near.sendall(struct.pack(">i", len(frame)) + frame)


def _until_closed(serve, *ends):
    with contextlib.suppress(OSError):
        serve()
    for end in ends:
        _close(end)


def _close(end):
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()


def _frame(end):
    size = _exactly(end, 4)
    return _exactly(end, struct.unpack(">i", size)[0]) if size else b""


def _exactly(end, size):
    found = bytearray()
    while len(found) < size:
        part = end.recv(size - len(found))
        if not part:
            return b""
        found += part
    return bytes(found)
