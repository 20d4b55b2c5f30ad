"""What a file is by its first bytes. Its name says only what somebody meant it to be.

A reader that trusts the name reads another tool's container as its own, and loses lines without a word; so what neither the bytes nor
the name make certain is refused, by name and with the remedy.
"""

from __future__ import annotations

from dataclasses import dataclass

#: So many first bytes of a file decide.
HEAD_BYTES = 16

PLAIN, GZIP, BZIP2, ZSTD, LZ4 = "plain", "gzip", "bzip2", "zstd", "lz4"
#: No format, but what the reader takes for a file that is quarantined whole: one row, and no look at the file.
UNREADABLE = "unreadable"
#: What the reader unpacks.
READABLE = frozenset({PLAIN, GZIP, BZIP2, ZSTD, LZ4})

_BZIP2_BLOCKS = (b"\x31\x41\x59\x26\x53\x59", b"\x17\x72\x45\x38\x50\x90")  # a block, or the end of a stream without any
_MAGIC = (
    (b"\x1f\x8b", GZIP),
    (b"\x28\xb5\x2f\xfd", ZSTD),
    (b"\x04\x22\x4d\x18", LZ4),
    (b"\x02\x21\x4c\x18", "lz4 (legacy frames)"),
    (b"\xff\x06\x00\x00sNaPpY", "snappy"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"\x89LZO\x00\r\n\x1a\n", "lzop"),
    (b"\x1f\x9d", "compress"),
    (b"PK\x03\x04", "zip"),
    (b"7z\xbc\xaf\x27\x1c", "7-Zip"),
    (b"LZIP\x01", "lzip"),
)
_SUFFIXES = {
    ".gz": GZIP,
    ".bz2": BZIP2,
    ".zst": ZSTD,
    ".lz4": LZ4,
    ".snappy": "snappy",
    ".sz": "snappy",
    ".deflate": "deflate",
    ".xz": "xz",
    ".lzma": "lzma",
    ".br": "brotli",
    ".lzo": "lzop",
    ".z": "compress",
    ".zip": "zip",
    ".7z": "7-Zip",
    ".lz": "lzip",
}
_ADVICE = "pack it with gzip, bzip2, zstd or lz4, or not at all"


@dataclass(frozen=True)
class Recognised:
    """A file's format, and why it cannot be read, if it cannot."""

    format: str
    problem: str = ""


def recognise(name: str, head: bytes) -> Recognised:
    """``head``: the file's first HEAD_BYTES, or all if it has fewer."""
    named = next((format for suffix, format in _SUFFIXES.items() if name.lower().endswith(suffix)), PLAIN)
    found = _by_magic(head)
    if not head:
        return Recognised(PLAIN)
    if found not in READABLE:
        return Recognised(found, f"it is a file of {found}, which shipper does not read: {_ADVICE}")
    if named not in READABLE:
        return Recognised(
            found, f"its name says {named}, which shipper does not read: {_ADVICE}, or rename it if it is something else"
        )
    if found == PLAIN != named:
        return Recognised(
            found,
            f"its name says {named}, and it does not begin as a file of {named} does: it is damaged, cut off, or something else",
        )
    return Recognised(found)


def _by_magic(head: bytes) -> str:
    if head[:3] == b"BZh" and head[3:4] in b"123456789" and head[4:10] in _BZIP2_BLOCKS:
        return BZIP2
    if head[1:4] == b"\x2a\x4d\x18" and head[:1] and head[0] & 0xF0 == 0x50:
        return ZSTD  # a skippable frame, with which pzstd begins; lz4 writes none
    return next((format for magic, format in _MAGIC if head.startswith(magic)), PLAIN)
