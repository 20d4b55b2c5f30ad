"""The chunk partition, folded: which ordinals of which split are on the cluster, per topic. Pure.

A split of n records is complete when its end is known and the counts of its chunks add up to n. Which topic a record
goes to is decided by the transform, so an ordinal counts for the one topic that has it and is never missed by another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from shipper.ledger.records import ChunkKey, ChunkValue, Void, decode
from shipper.terms import FileId, LogRecord, SplitId


@dataclass
class SplitState:
    """What the ledger holds of one split."""

    chunks: dict[tuple[int, str], ChunkValue] = field(default_factory=dict)
    """(first ordinal, topic) → chunk."""
    end: int | None = None
    """Number of records in the split, once known."""

    @property
    def records(self) -> int:
        return sum(chunk.records for chunk in self.chunks.values())

    @property
    def complete(self) -> bool:
        return self.end is not None and self.records == self.end

    def intervals(self, topic: str) -> list[tuple[int, int]]:
        return [(first, chunk.last) for (first, of), chunk in self.chunks.items() if of == topic]


@dataclass
class Chunks:
    """Feed records in offset order. ``voids`` hides chunks of files that are shipped anew."""

    pipeline: str
    voids: Mapping[FileId, Void] = field(default_factory=dict)
    splits: dict[SplitId, SplitState] = field(default_factory=dict)
    digests: dict[FileId, set[str]] = field(default_factory=dict)
    """File → transform digests under which any of its chunks was shipped."""
    files_of_path: dict[str, set[FileId]] = field(default_factory=dict)

    def feed(self, records: Iterable[LogRecord]) -> Chunks:
        for record in records:
            match decode(self.pipeline, record):
                case (ChunkKey() as key, ChunkValue() as value):
                    self.add(key, value)
        return self

    def add(self, key: ChunkKey, value: ChunkValue) -> None:
        file = key.split.file
        void = self.voids.get(file)
        if void is not None and value.generation < void.generation:
            return
        state = self.splits.setdefault(key.split, SplitState())
        state.chunks[key.first, key.topic] = value
        if value.end:
            state.end = value.last
        self.digests.setdefault(file, set()).add(value.digest)
        self.files_of_path.setdefault(file.path, set()).add(file)

    def records_by_topic(self, splits: Iterable[SplitId]) -> Counter[str]:
        """Records of these splits that are on the cluster, per topic."""
        found: Counter[str] = Counter()
        for split in splits:
            if state := self.splits.get(split):
                for (_, topic), chunk in state.chunks.items():
                    if chunk.records:
                        found[topic] += chunk.records
        return found
