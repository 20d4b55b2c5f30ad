"""What the ledger says of a window and of one ship of it, as figures to hold against others'. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field

from shipper.ledger.chunks import Chunks
from shipper.ledger.records import ChunkValue
from shipper.types import FileId

_UINT64 = 1 << 64


@dataclass
class Tally:
    """Of some chunks."""

    records: int = 0
    """Lines."""
    kafka_records: int = 0
    """The same, or fewer where many lines share a bundle."""
    checksum: int = 0
    """Sum of xxhash64(value), modulo 2^64."""

    def add(self, value: ChunkValue) -> None:
        self.records += value.records
        self.kafka_records += value.records if value.bundles is None else value.bundles
        self.checksum = (self.checksum + value.checksum) % _UINT64

    def add_all(self, other: Tally) -> None:
        self.records += other.records
        self.kafka_records += other.kafka_records
        self.checksum = (self.checksum + other.checksum) % _UINT64


@dataclass
class OfFile:
    """One file of the window."""

    lines: int = 0
    """By the ordinals at which its splits end."""
    records: int = 0
    """In any topic, whoever sent them."""
    checksum: int = 0
    """Of all of these but the quarantined ones."""
    filtered: Counter[str] = field(default_factory=Counter)
    """Rule → lines that it took."""
    sent: dict[str, Tally] = field(default_factory=dict)
    """Topic → what this ship sent to it."""


@dataclass
class LedgerFigures:
    """Of one window, and of one ship (``generation``) of it."""

    files: dict[FileId, OfFile] = field(default_factory=dict)
    topics: Counter[str] = field(default_factory=Counter)
    """Topic → records, whoever sent them."""
    sent: dict[str, dict[int | None, Tally]] = field(default_factory=dict)
    """Topic → partition → what this ship sent there. None: the ledger does not know where (records with keys)."""
    reasons: Counter[str] = field(default_factory=Counter)
    """Reason → records that this ship sent to the quarantine topic."""

    def sent_to(self, topic: str) -> Tally:
        """All partitions together."""
        found = Tally()
        for tally in self.sent.get(topic, {}).values():
            found.add_all(tally)
        return found


def figures(chunks: Chunks, files: Collection[FileId], generation: int) -> LedgerFigures:
    """Of these files, however each was cut when it was shipped. Only chunks of ``generation`` count as sent by the ship."""
    found = LedgerFigures()
    for file, splits in chunks.splits_of(dict.fromkeys(files)).items():
        of_file = found.files.setdefault(file, OfFile())
        for split in splits:
            state = chunks.splits[split]
            of_file.lines += state.end or 0
            for (_, topic), value in state.chunks.items():
                if value.records and topic:
                    _add(found, of_file, topic, value, generation)
                of_file.filtered.update(value.filtered or {})
    return found


def _add(found: LedgerFigures, of_file: OfFile, topic: str, value: ChunkValue, generation: int) -> None:
    of_file.records += value.records
    if value.reasons is None:
        of_file.checksum = (of_file.checksum + value.checksum) % _UINT64
    found.topics[topic] += value.records
    if value.generation == generation:
        of_file.sent.setdefault(topic, Tally()).add(value)
        found.sent.setdefault(topic, {}).setdefault(value.partition, Tally()).add(value)
        found.reasons.update(value.reasons or {})
