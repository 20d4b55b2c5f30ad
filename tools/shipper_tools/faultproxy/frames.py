"""Where Kafka's requests and responses begin in a stream of bytes, without reading what is
in them."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

#: length, API key, API version, correlation id (https://kafka.apache.org/protocol, request header)
REQUEST_HEAD = struct.Struct(">ihhi")
#: length, correlation id (response header)
RESPONSE_HEAD = struct.Struct(">ii")

_LARGEST_FRAME_BYTES = 1 << 30


@dataclass(frozen=True)
class FramePart:
    """Bytes of one frame, as many of them as arrived together: [start, stop) of the data that were
    fed."""

    start: int
    stop: int
    head: tuple[int, ...] | None
    """The unpacked head, with the part that completes it."""
    ends: bool
    """Whether the frame's last byte is in it."""


class FrameReader:
    """Cuts a stream into frames as it arrives. Each begins with four bytes of length. Something
    that is no frame (a length that is no length) ends the cutting: all that follows is one part."""

    def __init__(self, head: struct.Struct) -> None:
        self._head = head
        self._begun = b""
        self._left = 0
        """Bytes of the current frame behind its head that have not arrived."""
        self._lost = False

    def parts(self, data: bytes | memoryview) -> Iterator[FramePart]:
        at, size = 0, len(data)
        while at < size:
            if self._lost:
                yield FramePart(at, size, None, False)
                return
            start, head = at, None
            if not self._left:
                missing = self._head.size - len(self._begun)
                self._begun += bytes(data[at : at + missing])
                at = min(size, at + missing)
                if len(self._begun) == self._head.size:
                    head = self._unpack()
            taken = min(self._left, size - at)
            self._left -= taken
            at += taken
            yield FramePart(start, at, head, not self._begun and not self._left)

    def _unpack(self) -> tuple[int, ...] | None:
        head: tuple[int, ...] = self._head.unpack(self._begun)
        self._begun = b""
        self._left = head[0] + 4 - self._head.size
        self._lost = not 0 <= self._left <= _LARGEST_FRAME_BYTES
        if self._lost:
            self._left = 0
        return None if self._lost else head
