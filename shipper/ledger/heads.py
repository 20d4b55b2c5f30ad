"""How a file begins, by which it is recognised under another name. Pure.

A head finds candidates; it proves nothing. Whether two files hold the same records is what the checksums of their chunks say
(docs/adr/0030).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise

import xxhash

from shipper.errors import LedgerDamaged
from shipper.ledger.codec import decode, names_moved
from shipper.ledger.records import ChunkKey, ChunkValue, MovedKey, MovedValue
from shipper.types import FileId, LogRecord

#: Bytes of a file's unpacked content that a head is made of; all, if it has fewer.
HEAD_BYTES = 1024
_IN_VALUE = re.compile(rb'"head":"(\d{1,4}:[0-9a-f]{16})"')


def head_of(beginning: bytes) -> str:
    """Return the head of a file that begins so: ``LENGTH:XXH64``; empty for an empty file."""
    beginning = beginning[:HEAD_BYTES]
    return f"{len(beginning)}:{xxhash.xxh64_hexdigest(beginning)}" if beginning else ""


def heads_within(beginning: bytes, lengths: Iterable[int]) -> list[str]:
    """Return the heads that the file had when it was as long as each of ``lengths``, longest first."""
    hashed, found = xxhash.xxh64(), []
    wanted = [0, *sorted(length for length in set(lengths) if length <= len(beginning))]
    for before, length in pairwise(wanted):
        hashed.update(beginning[before:length])
        found.append(f"{length}:{hashed.hexdigest()}")
    return found[::-1]


@dataclass
class Heads:
    """The heads of all files that a ledger has."""

    files: dict[str, set[FileId]] = field(default_factory=dict)
    """Head → files, as the ledger knows them."""
    renamed: set[FileId] = field(default_factory=set)
    """Files whose records count for a file of another name."""
    end: int = 0
    """Offset up to which the chunk partition was read."""

    def feed(self, pipeline: str, records: Iterable[LogRecord]) -> Heads:
        """Take in records of the chunk partition. What is damaged is passed over: whoever decides reads it again."""
        for record in records:
            head = _IN_VALUE.search(record.value or b"")
            if head or names_moved(record):
                with suppress(LedgerDamaged):
                    match decode(pipeline, record):
                        case (MovedKey(), MovedValue() as value):
                            self.renamed.add(value.original)
                        case (ChunkKey() as key, ChunkValue()) if head:
                            self.files.setdefault(head[1].decode(), set()).add(key.split.file)
        return self

    def matching(self, beginnings: Mapping[FileId, bytes]) -> dict[FileId, set[FileId]]:
        """Return, for each file by its first HEAD_BYTES bytes, the files that begin like it, or that it begins with."""
        lengths = {int(head.partition(":")[0]) for head in self.files}
        found = {}
        for file, beginning in beginnings.items():
            alike = set[FileId]().union(*(self.files.get(head, ()) for head in heads_within(beginning, lengths)))
            if alike - {file}:
                found[file] = alike - {file}
        return found
