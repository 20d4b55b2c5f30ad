"""How a file begins, by which it is recognised under another name. Pure.

A head finds candidates; it proves nothing. Whether two files hold the same records is what the checksums of their chunks say
(docs/adr/0030).
"""

from __future__ import annotations

import re
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


@dataclass
class Heads:
    """How the files begin that a ledger has."""

    pipeline: str
    roots: Roots = field(default_factory=Roots)
    keys: dict[int, dict[int, list[bytes]]] = field(default_factory=dict)
    """Length and hash of a head → keys of records whose files begin so. Few of them are ever looked up, so they stay encoded."""
    renamed: set[FileId] = field(default_factory=set)
    """Files whose records count for another file as well, which is the same file under another name or when it had grown."""
    elsewhere: set[FileId] = field(default_factory=set)
    """Files whose content was recognised at another path. Of these, what lies at the path now is a new file."""
    heirs: dict[FileId, set[FileId]] = field(default_factory=dict)
    """File in ``renamed`` → the files that it became."""
    end: int = 0
    """Offset up to which the chunk partition was read."""

    def feed(self, records: Iterable[LogRecord]) -> Heads:
        """Take in records of the chunk partition. What is damaged is passed over: whoever decides reads it again."""
        for record in records:
            if names_moved(record):
                with suppress(LedgerDamaged):
                    match decode(self.pipeline, record):
                        case (MovedKey() as key, MovedValue() as value):
                            self._add_moved(key.split.file, value)
            if head := _IN_VALUE.search(record.value or b""):
                self.add(head[1].decode(), record.key)
        return self

    def add(self, head: str, key: bytes) -> None:
        """``key``: of a record about a file that begins so."""
        length, _, digest = head.partition(":")
        self.keys.setdefault(int(length), {}).setdefault(int(digest, 16), []).append(key)

    def now(self, file: FileId) -> FileId:
        """Return the file as it is known since its source was moved."""
        return file._replace(path=self.roots.now(file.path))

    def became(self, file: FileId) -> set[FileId]:
        """Return the files that hold what ``file`` held, and what those became. ``file``: as it is known now."""
        found, next_ = set[FileId](), {file}
        while next_ := {heir for one in next_ for heir in self.heirs.get(one, ())} - found:
            found |= next_
        return found - {file}

    def _add_moved(self, file: FileId, value: MovedValue) -> None:
        self.renamed.add(self.now(value.original))
        self.heirs.setdefault(self.now(value.original), set()).add(self.now(file))
        if value.path != file.path:
            self.elsewhere.add(self.now(value.original))
            if value.head is None:  # nothing was sent under this name: the file passed by, and goes on to the next name
                self.elsewhere.add(self.now(file))

    def matching(self, beginnings: Mapping[FileId, bytes]) -> dict[FileId, set[FileId]]:
        """Return, for each file by its first HEAD_BYTES bytes, the files that begin like it, or that it begins with."""
        lengths, found = sorted(self.keys), dict[FileId, set[FileId]]()
        for file, beginning in beginnings.items():
            hashed, before, keys = xxhash.xxh64(), 0, list[bytes]()
            for length in lengths:
                if length > len(beginning):
                    break
                hashed.update(beginning[before:length])
                keys += self.keys[length].get(hashed.intdigest(), ())
                before = length
            if keys and (alike := {*map(self._file_of, keys)} - {None, file}):
                found[file] = alike  # type: ignore[assignment]
        return found

    def _file_of(self, key: bytes) -> FileId | None:
        try:
            return file_of(self.pipeline, key)
        except Unsound:
            return None
