"""Sums of bytes, by which a file's content is known, whatever its name, its codec, and what a
pipeline makes of it. Pure.

The reader sums up the unpacked bytes of each split (``jvm/shipper/lines/Sum.java``): their number,
CRC-32 and CRC-32C. Of two contents one behind the other the sum follows from theirs. So a file has
one sum, however it was cut, and it is known of each beginning that a split ends.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

#: Reflected polynomials of CRC-32 and CRC-32C.
_CRC32, _CRC32C = 0xEDB88320, 0x82F63B78
_TEXT = re.compile(r"(\d{1,20}):([0-9a-f]{8})([0-9a-f]{8})")


class ByteSum(NamedTuple):
    length: int = 0
    """Bytes."""
    crc32: int = 0
    crc32c: int = 0

    @classmethod
    def parse(cls, text: str) -> ByteSum:
        """Parse ``LENGTH:CRC32CRC32C``, the sums in hexadecimal. Raises ValueError."""
        if (found := _TEXT.fullmatch(text)) is None:
            raise ValueError(f"{text[:40]!r} is no sum of bytes")
        return cls(int(found[1]), int(found[2], 16), int(found[3], 16))

    def __str__(self) -> str:
        return f"{self.length}:{self.crc32:08x}{self.crc32c:08x}"

    def followed_by(self, other: ByteSum) -> ByteSum:
        """Return the sum of both contents, one behind the other."""
        return ByteSum(
            self.length + other.length,
            _joined(self.crc32, other.crc32, other.length, _CRC32),
            _joined(self.crc32c, other.crc32c, other.length, _CRC32C),
        )


def sum_of(parts: Iterable[ByteSum]) -> ByteSum:
    """Return the sum of contents one behind the other."""
    found = ByteSum()
    for part in parts:
        found = found.followed_by(part)
    return found


def _joined(before: int, behind: int, length: int, polynomial: int) -> int:
    """Return the CRC of two contents by theirs: the first one times x^(8 · length), modulo the
    polynomial. Bit 31 is x^0."""
    power = 1 << 23
    while length and before:
        if length & 1:
            before = _product(power, before, polynomial)
        power = _product(power, power, polynomial)
        length >>= 1
    return before ^ behind


def _product(one: int, other: int, polynomial: int) -> int:
    found, bit = 0, 1 << 31
    while bit:
        if one & bit:
            found ^= other
        other = other >> 1 ^ polynomial if other & 1 else other >> 1
        bit >>= 1
    return found
