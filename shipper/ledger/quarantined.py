"""Records in quarantine, by the ledger. The records themselves are in the quarantine topics, with
the headers of :mod:`shipper.ledger.quarantine_headers`."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain

from shipper.ledger.fold import LedgerRecords
from shipper.ledger.intervals import decode_ordinals
from shipper.ledger.inventory import entries
from shipper.ledger.records import ChunkKey, Entry, spark_hash
from shipper.ledger.roots import Roots


@dataclass(frozen=True)
class RecordPosition:
    """Position of a record, as the headers of the quarantine topic give it."""

    file: str
    split: int
    """Byte at which its split starts."""
    record: int
    """Number of the record in the split, from 1."""

    def __str__(self) -> str:
        return f"{self.file} (split at byte {self.split}), record {self.record}"


@dataclass
class InQuarantine:
    """Records in one pipeline's quarantine on one cluster, by the ledger."""

    chunks: list[Entry] = field(default_factory=list)
    """Chunks, each of records of one split that were quarantined in one transaction."""
    roots: Roots = field(default_factory=Roots)
    _of_split: dict[tuple[str, int], list[Entry]] = field(default_factory=dict, repr=False)

    def add(self, chunk: Entry) -> None:
        self.chunks.append(chunk)
        split = chunk.key.split
        self._of_split.setdefault((split.file.path, split.start), []).append(chunk)

    @property
    def topics(self) -> list[str]:
        return sorted({chunk.key.topic for chunk in self.chunks})

    def find(self, place: RecordPosition) -> Entry | None:
        """Return the chunk with which the record was quarantined; the latest, if the file was
        replaced or re-shipped since."""
        ordinal = place.record - 1
        hits = [
            chunk
            for chunk in self._of_split.get((self.roots.now(place.file), place.split), ())
            if any(
                part.first <= ordinal < part.end
                for part in decode_ordinals(chunk.value.ordinals or "")
            )
        ]
        return max(hits, key=lambda chunk: chunk.value.generation, default=None)


def in_quarantine(read: LedgerRecords) -> InQuarantine:
    """Return what the ledger says of records in quarantine. Files that were re-shipped since do not
    count."""
    found = InQuarantine(roots=read.roots)
    for chunk in chain.from_iterable(entries(read)):
        if chunk.value.reasons is not None and not chunk.invalidated:
            found.add(chunk)
    return found


class KeptValues:
    """Check that the quarantine topic holds the records that were sent to it. Any client that may
    write to it can forge shipper's headers, and a person corrects its records and ships them; the
    ledger, which fewer clients may write to, has a checksum of each chunk's values."""

    def __init__(self) -> None:
        self._hashes: dict[tuple[ChunkKey, int], dict[int, int]] = {}
        self._wrong: dict[tuple[ChunkKey, int], None] = {}

    def add(self, chunk: Entry, place: RecordPosition, value: bytes | None) -> None:
        which, found = (chunk.key, chunk.value.generation), spark_hash(value)
        hashes = self._hashes.setdefault(which, {})
        if place.record in hashes:
            right = hashes[place.record] == found  # at least once may put the same one there twice
        else:
            hashes[place.record] = found
            right = (
                len(hashes) < chunk.value.records
                or sum(hashes.values()) % 2**64 == chunk.value.checksum
            )
        if not right:
            self._wrong[which] = None

    def wrong(self) -> list[str]:
        """Return a sentence for each chunk that holds something else. One of which retention has
        removed a record cannot be judged."""
        return [
            f"{key.split.file.path} (split at byte {key.split.start}): by the ledger's checksum, "
            f"topic {key.topic} has other values than were sent: another producer writes to it. "
            "Take the records from the file itself."
            for key, _ in self._wrong
        ]
