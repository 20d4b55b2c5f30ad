"""Recognition of a file's format by its first bytes. The name of a file only suggests its format.

A reader that trusts the name reads another tool's container as its own, and loses lines silently.
So a file whose format neither the bytes nor the name make certain is refused, with its name and the
remedy.
"""

from __future__ import annotations

from dataclasses import dataclass

from shipper.config.formats import TEXTS

#: Number of first bytes that decide the format.
HEAD_BYTES = 512

PLAIN, GZIP, BZIP2, ZSTD, LZ4, SNAPPY = "plain", "gzip", "bzip2", "zstd", "lz4", "snappy"
#: Codec without magic bytes: only `source.codec` can name it.
HADOOP_SNAPPY = "hadoop_snappy"
PARQUET, ORC, AVRO = "parquet", "orc", "avro"
#: Pseudo-format that the reader uses for a file that is quarantined whole: one row, and the file is
#: not opened.
UNREADABLE = "unreadable"
#: Frames that zstd and lz4 share, and nothing else in the first bytes: `source.codec` or the name
#: says which of the two it is.
SKIPPABLE = "skippable frames"
#: What the reader unpacks.
READABLE = frozenset({PLAIN, GZIP, BZIP2, ZSTD, LZ4, SNAPPY, HADOOP_SNAPPY})

_BZIP2_BLOCKS = (
    b"\x31\x41\x59\x26\x53\x59",
    b"\x17\x72\x45\x38\x50\x90",
)  # a block, or the end of a stream without any
_MAGIC = (
    (b"\x1f\x8b", GZIP),
    (b"\x28\xb5\x2f\xfd", ZSTD),
    (b"\x04\x22\x4d\x18", LZ4),
    (b"\x02\x21\x4c\x18", "lz4 (legacy frames)"),
    (b"\xff\x06\x00\x00sNaPpY", SNAPPY),
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
    ".snappy": SNAPPY,
    ".sz": SNAPPY,
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
_ADVICE = "pack it with gzip, bzip2, zstd, lz4 or snappy, or not at all"
#: First bytes with which no text begins.
_TABLES = ((b"Obj\x01", AVRO), (b"PAR1\x15", PARQUET))
#: Beginnings of text that only `source.encoding` can read: the longer ones first.
_MARKS = (
    (b"\xff\xfe\0\0", "UTF-32"),
    (b"\0\0\xfe\xff", "UTF-32"),
    (b"\xff\xfe", "UTF-16"),
    (b"\xfe\xff", "UTF-16"),
)
#: Of four bytes, those that are NUL in most of a text's characters.
_WIDE = {"x0x0": "UTF-16LE", "0x0x": "UTF-16BE", "x000": "UTF-32LE", "000x": "UTF-32BE"}
_FEW_BYTES = 8
_DAMAGED = "it is damaged, truncated, or not such a file"
_NAMES = {PARQUET: "Parquet", ORC: "ORC", AVRO: "Avro"}


@dataclass(frozen=True)
class Recognised:
    """A file's format, and why it cannot be read, if it cannot."""

    format: str
    problem: str = ""


def recognise(name: str, head: bytes, codec: str = "auto") -> Recognised:
    """Recognise the format. ``head``: the file's first HEAD_BYTES, or all if it has fewer;
    ``codec``: `source.codec`."""
    found = _by_magic(head)
    if found == SKIPPABLE:
        found = LZ4 if LZ4 in (codec, _by_name(name)) else ZSTD
    if not head or codec == "none":
        return Recognised(PLAIN)
    if codec == HADOOP_SNAPPY:
        return Recognised(HADOOP_SNAPPY)
    if codec not in ("auto", found):
        return Recognised(
            found,
            f"it does not begin as a file of {codec} does, and `source.codec` says {codec}: "
            f"{_DAMAGED}",
        )
    if found not in READABLE:
        return Recognised(
            found,
            f"it is a file of {found}, which shipper does not read: {_ADVICE}; `source.codec: "
            "none` takes its bytes as they are",
        )
    named = PLAIN if codec == found else _by_name(name)
    if named not in READABLE:
        return Recognised(
            found,
            f"its name says {named}, which shipper does not read: {_ADVICE}, or rename it if it "
            "is something else",
        )
    if found == PLAIN != named:
        advice = (
            "; if Hadoop wrote it, set `source.codec: hadoop_snappy`" if named == SNAPPY else ""
        )
        return Recognised(
            found,
            f"its name says {named}, and it does not begin as a file of {named} does: "
            f"{_DAMAGED}{advice}",
        )
    return Recognised(found)


def is_named_as_text(name: str) -> bool:
    """Return True if a file's name does not say that it is packed."""
    return _by_name(name) == PLAIN


def recognise_table(format: str, head: bytes, tail: bytes) -> Recognised:
    """Check a file that `source.format` says is Parquet, ORC or Avro, by its first and last
    HEAD_BYTES: a truncated file has no end. (An Avro file has none to be known by.)"""
    if format == PARQUET and tail[-4:] == b"PARE":
        return Recognised(format, "it is an encrypted Parquet file, which shipper does not read")
    begins = {PARQUET: b"PAR1", ORC: b"ORC", AVRO: b"Obj\x01"}[format]
    # The last byte of an ORC file is the length of the part before it, which ends with the name.
    ends = {PARQUET: tail[-4:] == b"PAR1", ORC: tail[-4:-1] == b"ORC", AVRO: True}[format]
    if head.startswith(begins) and ends:
        return Recognised(format)
    how = "begin" if not head.startswith(begins) else "end"
    return Recognised(format, f"it does not {how} as {_NAMES[format]} files do: {_DAMAGED}")


def table_in_text(head: bytes) -> str:
    """Return why a file cannot be read as text, if it begins as a table does; else empty."""
    found = next((format for magic, format in _TABLES if head.startswith(magic)), "")
    return (
        f"it is a file of {_NAMES[found]}: set `source.format: {found}`, in a pipeline of its own"
        if found
        else ""
    )


def content_problem(head: bytes, format: str, encoding: str) -> str:
    """Return why what a file holds, unpacked, cannot be read as `source.format` says, by its first
    HEAD_BYTES; empty if it can. ``encoding``: `source.encoding`."""
    if format != "whole_file" and head[257:262] == b"ustar" and b"\0" in head[:257]:
        return (
            "it is a tar archive, which is no text: its headers would be records. Unpack it before "
            "it is shipped; `source.format: whole_file` ships it as one record"
        )
    if format not in TEXTS:
        return ""
    mark, name = _mark(head), encoding.upper()
    if mark and not name.startswith(mark):
        return f"it begins with the byte order mark of {mark}: set `source.encoding: {mark}`"
    wide, found = name.startswith(("UTF-16", "UTF-32")), _wide_text(head)
    # Java takes text without a mark for big-endian
    read_as = f"{name}BE" if name in ("UTF-16", "UTF-32") and not mark else name
    if found and not found.startswith(read_as):
        without = "" if mark else " without a byte order mark"
        return f"its first bytes are {found}{without}: set `source.encoding: {found}`"
    if wide and not mark and len(head) >= _FEW_BYTES and b"\0" not in head:
        return f"its first bytes are no text in {encoding}, as `source.encoding` says: {_DAMAGED}"
    return ""


def wide_encoding(head: bytes) -> str:
    """Return the encoding of text that is no UTF-8, by its first HEAD_BYTES; empty if they tell of
    none."""
    return _mark(head) or _wide_text(head)


def _mark(head: bytes) -> str:
    return next((name for mark, name in _MARKS if head.startswith(mark)), "")


def _wide_text(head: bytes) -> str:
    """Return the encoding of text that has two or four bytes a character, by its bytes that are
    NUL; empty for any other text."""
    if len(head) < _FEW_BYTES:
        return ""
    places = [head[place::4] for place in range(4)]
    return _WIDE.get("".join("0" if 2 * at.count(0) > len(at) else "x" for at in places), "")


def _by_name(name: str) -> str:
    return next(
        (format for suffix, format in _SUFFIXES.items() if name.lower().endswith(suffix)), PLAIN
    )


def _by_magic(head: bytes) -> str:
    if head[:3] == b"BZh" and head[3:4] in b"123456789" and head[4:10] in _BZIP2_BLOCKS:
        return BZIP2
    at = 0
    while head[at + 1 : at + 4] == b"\x2a\x4d\x18" and head[at] & 0xF0 == 0x50:
        at += 8 + int.from_bytes(head[at + 4 : at + 8], "little")
    if at:  # zstd's frames and lz4's may stand behind such ones; pzstd begins so
        found = dict(_MAGIC).get(head[at : at + 4])
        return found if found in (ZSTD, LZ4) else SKIPPABLE
    return next((format for magic, format in _MAGIC if head.startswith(magic)), PLAIN)
