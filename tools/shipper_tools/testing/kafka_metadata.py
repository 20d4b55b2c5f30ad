"""Who leads which partition, asked of one broker with a raw Metadata request: in a millisecond, and by no client's cache.

A test that kills the leader must know it now; a client library tells what it learned some time ago, and Kafka's own tools
take two seconds to start. (Protocol: https://kafka.apache.org/protocol, Metadata version 1, request header version 1.)
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from shipper_tools.dev.errors import DevServerError

_METADATA_KEY, _VERSION = 3, 1
_CLIENT = b"shipper-test"
NO_LEADER = -1


@dataclass(frozen=True)
class PartitionState:
    """Broker ids. ``leader`` is :data:`NO_LEADER` while there is none."""

    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


def partitions_of(host: str, port: int, topic: str, timeout_seconds: float = 5.0) -> dict[int, PartitionState]:
    """Partition → state, as the broker at ``host:port`` has heard of it; empty if there is no such topic.

    Raises:
        OSError: the broker does not answer.
        DevServerError: it went away in the middle of its answer.
    """
    body = struct.pack(f">hhih{len(_CLIENT)}s", _METADATA_KEY, _VERSION, 1, len(_CLIENT), _CLIENT)
    name = topic.encode()
    body += struct.pack(f">ih{len(name)}s", 1, len(name), name)
    with socket.create_connection((host, port), timeout_seconds) as connection:
        connection.sendall(struct.pack(">i", len(body)) + body)
        (size,) = struct.unpack(">i", _receive(connection, 4))
        return dict(_topic_partitions(_Reader(_receive(connection, size))))


def transaction_partition(transactional_id: str, partitions: int) -> int:
    """The partition of ``__transaction_state`` that keeps a transactional.id: Java's ``String.hashCode``, its absolute value, modulo.

    Its leader is the id's coordinator (kafka.coordinator.transaction.TransactionStateManager.partitionFor).
    """
    value = 0
    units = transactional_id.encode("utf-16-be")
    for (unit,) in struct.iter_unpack(">H", units):
        value = (31 * value + unit) & 0xFFFFFFFF
    signed = value - (1 << 32) if value >= 1 << 31 else value
    return 0 if signed == -(1 << 31) else abs(signed) % partitions


def _topic_partitions(answer: _Reader) -> Iterator[tuple[int, PartitionState]]:
    answer.int32()  # correlation id
    for _ in range(answer.int32()):
        answer.int32(), answer.text(), answer.int32(), answer.text()  # a broker: id, host, port, rack
    answer.int32()  # controller
    for _ in range(answer.int32()):
        answer.int16(), answer.text(), answer.int8()  # error, name, internal
        for _ in range(answer.int32()):
            answer.int16()  # error
            yield answer.int32(), PartitionState(answer.int32(), answer.int32s(), answer.int32s())


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def _number(self, code: str) -> int:
        (value,) = struct.unpack_from(f">{code}", self._data, self._at)
        self._at += struct.calcsize(f">{code}")
        return int(value)

    def int8(self) -> int:
        return self._number("b")

    def int16(self) -> int:
        return self._number("h")

    def int32(self) -> int:
        return self._number("i")

    def int32s(self) -> tuple[int, ...]:
        return tuple(self.int32() for _ in range(self.int32()))

    def text(self) -> str:
        size = max(0, self.int16())  # -1 for null
        self._at += size
        return self._data[self._at - size : self._at].decode()


def _receive(connection: socket.socket, size: int) -> bytes:
    got = b""
    while len(got) < size:
        received = connection.recv(size - len(got))
        if not received:
            raise DevServerError("The broker closed the connection in the middle of its answer.")
        got += received
    return got
