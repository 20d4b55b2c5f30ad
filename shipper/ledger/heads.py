"""Beginnings of files, by which a file is found under another name. Pure.

A head finds candidates; it proves nothing. Whether a file holds the content of another one is what
the sums of their bytes say (docs/adr/0037).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property

import xxhash

from shipper.ledger.codec import Unsound, file_of
from shipper.ledger.roots import Roots
from shipper.types import FileId, LogRecord

#: Bytes of a file's unpacked content that a head is made of; all, if it has fewer.
HEAD_BYTES = 1024
_IN_VALUE = re.compile(rb'"head":"(\d{1,4}:[0-9a-f]{16})"')


def head_of(beginning: bytes) -> str:
    """Return the head of a file that begins so: ``LENGTH:XXH64``; empty for an empty file."""
    beginning = beginning[:HEAD_BYTES]
    return f"{len(beginning)}:{xxhash.xxh64_hexdigest(beginning)}" if beginning else ""


def length_of(head: str) -> int:
    """Return the bytes that a head was made of."""
    return int(head.partition(":")[0] or 0)


_ENTRY = struct.Struct("<HI")


def index_of(records: Iterable[LogRecord]) -> bytes:
    """Return by which heads these records are found: six bytes for each, its length and the first
    half of its hash."""
    found = {
        _indexed(head[1].decode())
        for record in records
        if (head := _IN_VALUE.search(record.value or b""))
    }
    return b"".join(_ENTRY.pack(*each) for each in sorted(found))


def _indexed(head: str) -> tuple[int, int]:
    length, _, digest = head.partition(":")
    return int(length), int(digest[:8], 16)


@dataclass
class Heads:
    """Files of a ledger that have one of some heads. It keeps what has one, however long the ledger
    is."""

    pipeline: str
    wanted: frozenset[str] = frozenset()
    """Heads that are looked for."""
    roots: Roots = field(default_factory=Roots)
    found: dict[str, set[FileId]] = field(default_factory=dict)
    """Head → files of the ledger that have it, at their present paths."""

    def feed(self, records: Iterable[LogRecord]) -> Heads:
        """Take in records of the chunk partition. A record without a sound key is skipped: whoever
        reads the file's records raises for it."""
        for record in records if self.wanted else ():
            head = _IN_VALUE.search(record.value or b"")
            if head and (name := head[1].decode()) in self.wanted:
                with suppress(Unsound):
                    if file := file_of(self.pipeline, record.key):
                        now = file._replace(path=self.roots.now(file.path))
                        self.found.setdefault(name, set()).add(now)
        return self

    def may_be_in(self, index: bytes) -> bool:
        """Return True if records with this index may have one of the heads. ``index``: by
        :func:`index_of`."""
        return bool(self.wanted) and not self._indexed.isdisjoint(_ENTRY.iter_unpack(index))

    @cached_property
    def _indexed(self) -> frozenset[tuple[int, int]]:
        return frozenset(map(_indexed, self.wanted))
