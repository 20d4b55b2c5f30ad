"""Values that pass between Python and Java in one call: see jvm/shipper/lines/Packed.java, the
other side."""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator

_NUMBER, _LENGTH = struct.Struct(">q"), struct.Struct(">i")


def number(value: int) -> bytes:
    return _NUMBER.pack(value)


def text(value: str) -> bytes:
    content = value.encode()
    return _LENGTH.pack(len(content)) + content


class Unpacker:
    """Reads what Java packed, in its order."""

    def __init__(self, packed: str) -> None:
        self._packed = base64.b64decode(packed)
        self._at = 0

    def number(self) -> int:
        (found,) = _NUMBER.unpack_from(self._packed, self._at)
        self._at += _NUMBER.size
        return int(found)

    def bytes(self) -> bytes:
        (length,) = _LENGTH.unpack_from(self._packed, self._at)
        start = self._at + _LENGTH.size
        self._at = start + length
        return self._packed[start : self._at]

    def text(self) -> str:
        return self.bytes().decode()

    def __iter__(self) -> Iterator[int]:
        """Count as many as the number that comes next says."""
        yield from range(self.number())
