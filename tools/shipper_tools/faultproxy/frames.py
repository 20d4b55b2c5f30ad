"""Where Kafka's requests and responses begin in a stream of bytes, without reading what is
in them."""

from __future__ import annotations

import struct
from collections.abc import Iterator

#: length, API key, API version, correlation id (https://kafka.apache.org/protocol, request header)
REQUEST_HEAD = struct.Struct(">ihhi")
#: length, correlation id (response header)
RESPONSE_HEAD = struct.Struct(">ii")

_LARGEST_FRAME_BYTES = 1 << 30


class FrameReader:
    """Finds frames in a stream as it arrives. Each begins with four bytes of length. Something that
    is no frame (a length that is no length) ends the search."""

    def __init__(self, head: struct.Struct) -> None:
        self._head = head
        self._begun = b""
        self._left = 0
        """Bytes of the current frame behind its head that have not arrived."""
        self._lost = False

    def heads(self, data: bytes | memoryview) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Yield, for each head that is complete with ``data``, where in there its frame begins (0
        if it began before), and the unpacked head."""
        at = min(self._left, len(data))
        self._left -= at
        while at < len(data) and not self._lost:
            start, missing = at, self._head.size - len(self._begun)
            self._begun += bytes(data[at : at + missing])
            if len(self._begun) < self._head.size:
                return
            head: tuple[int, ...] = self._head.unpack(self._begun)
            self._begun = b""
            behind = head[0] + 4 - self._head.size
            self._lost = not 0 <= behind <= _LARGEST_FRAME_BYTES
            if not self._lost:
                yield start, head
                at = min(at + missing + behind, len(data))
                self._left = start + missing + behind - at
