"""Beginnings of files, by which a file is recognised under another name. Pure.

A head finds candidates; it proves nothing. Whether two files hold the same records is what the
checksums of their chunks say (docs/adr/0030).
"""

from __future__ import annotations

import re
import struct
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import xxhash

from shipper.errors import LedgerDamaged
from shipper.ledger.codec import Unsound, decode, file_of, names_moved
from shipper.ledger.records import MovedKey, MovedValue
from shipper.ledger.roots import Roots
from shipper.types import FileId, LogRecord

#: Bytes of a file's unpacked content that a head is made of; all, if it has fewer.
HEAD_BYTES = 1024
_IN_VALUE = re.compile(rb'"head":"(\d{1,4}:[0-9a-f]{16})"')


def head_of(beginning: bytes) -> str:
    """Return the head of a file that begins so: ``LENGTH:XXH64``; empty for an empty file."""
    beginning = beginning[:HEAD_BYTES]
    return f"{len(beginning)}:{xxhash.xxh64_hexdigest(beginning)}" if beginning else ""


_ENTRY = struct.Struct("<HI")
_RENAMED_IN_IT = b"*"


def index_of(records: Iterable[LogRecord]) -> bytes:
    """Return by which heads these records are found: six bytes for each, its length and the first
    half of its hash. Of records about a file that was renamed there is no index, so they are found
    by all."""
    found = set[tuple[int, int]]()
    for record in records:
        if names_moved(record):
            return _RENAMED_IN_IT
        if head := _IN_VALUE.search(record.value or b""):
            length, _, digest = head[1].partition(b":")
            found.add((int(length), int(digest[:8], 16)))
    return b"".join(_ENTRY.pack(*each) for each in sorted(found))


@dataclass
class Heads:
    """Files of a ledger that begin like some wanted files. It keeps what begins so, however long
    the ledger is."""

    pipeline: str
    beginnings: Mapping[FileId, bytes] = field(default_factory=dict)
    """The first HEAD_BYTES bytes of the files that are looked for; all bytes of a shorter one."""
    roots: Roots = field(default_factory=Roots)
    lengths: dict[int, array[int]] = field(default_factory=dict)
    """Length of a head in the ledger → the sorted hashes of that many bytes of the wanted files, 8
    bytes each."""
    found: dict[str, set[FileId]] = field(default_factory=dict)
    """Head that one of them has → the files of the ledger that begin so."""
    renamed: set[FileId] = field(default_factory=set)
    """Files whose records count for another file as well, which is the same file under another name
    or when it had grown."""
    elsewhere: set[FileId] = field(default_factory=set)
    """Files whose content was recognised at another path. The file at the path of one of these is a
    new file."""
    heirs: dict[FileId, set[FileId]] = field(default_factory=dict)
    """File in ``renamed`` → the files that it became."""
    end: int = 0
    """Offset up to which the chunk partition was read."""

    def feed(self, records: Iterable[LogRecord]) -> Heads:
        """Take in records of the chunk partition. Damaged records are skipped: a deciding read
        reads them again."""
        for record in records:
            if names_moved(record):
                with suppress(LedgerDamaged):
                    match decode(self.pipeline, record):
                        case (MovedKey() as key, MovedValue() as value):
                            self._add_moved(key.split.file, value)
            if (head := _IN_VALUE.search(record.value or b"")) and self._is_wanted(
                head[1].decode()
            ):
                with suppress(Unsound):
                    if file := file_of(self.pipeline, record.key):
                        self.add(head[1].decode(), file)
        return self

    def add(self, head: str, file: FileId) -> None:
        """Add a file of the ledger that begins with ``head``."""
        if self._is_wanted(head):
            self.found.setdefault(head, set()).add(file)

    def _is_wanted(self, head: str) -> bool:
        length, _, digest = head.partition(":")
        hashes, wanted = self._hashes(int(length)), int(digest, 16)
        at = bisect_left(hashes, wanted)
        return at < len(hashes) and hashes[at] == wanted

    def may_be_in(self, index: bytes) -> bool:
        """Return True if records with this index may have one of the heads, or name files that were
        renamed. ``index``: by :func:`index_of`."""
        if index == _RENAMED_IN_IT:
            return True
        for length, front in _ENTRY.iter_unpack(index):
            hashes = self._hashes(length)
            at = bisect_left(hashes, front << 32)
            if at < len(hashes) and hashes[at] >> 32 == front:
                return True
        return False

    def _hashes(self, length: int) -> array[int]:
        if length not in self.lengths:
            some = {
                xxhash.xxh64_intdigest(one[:length])
                for one in self.beginnings.values()
                if len(one) >= length
            }
            self.lengths[length] = array("Q", sorted(some))
        return self.lengths[length]

    def now(self, file: FileId) -> FileId:
        """Return the file as it is known since its source was moved."""
        return file._replace(path=self.roots.now(file.path))

    def became(self, file: FileId) -> set[FileId]:
        """Return the files that hold what ``file`` held, and the renames that led there. ``file``:
        as it is known now."""
        found, next_ = set[FileId](), {file}
        while next_ := {heir for one in next_ for heir in self.heirs.get(one, ())} - found:
            found |= next_
        return found - {file}

    def _add_moved(self, file: FileId, value: MovedValue) -> None:
        self.renamed.add(self.now(value.original))
        self.heirs.setdefault(self.now(value.original), set()).add(self.now(file))
        if value.path != file.path:
            self.elsewhere.add(self.now(value.original))
            if (
                value.head is None
            ):  # nothing was sent under this name: the file passed by, and goes on to the next name
                self.elsewhere.add(self.now(file))

    def like(self, file: FileId) -> set[FileId]:
        """Return the files of the ledger that begin like ``file``, or that it begins with.
        ``file``: one of the wanted ones."""
        beginning = self.beginnings[file]
        of_it = (head_of(beginning[:length]) for length in self.lengths if length <= len(beginning))
        return set[FileId]().union(*(self.found.get(head, ()) for head in of_it)) - {file}
