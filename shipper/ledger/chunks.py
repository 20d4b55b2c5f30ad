"""The chunk partition, folded: which ordinals of which split are on the cluster, per topic. Pure.

A split of n lines is complete when its end is known and the counts of its chunks add up to n. Which topic a record
goes to is decided by the transform, so an ordinal counts for the one topic that has it and is never missed by another. Dropped lines count
in chunks that have no topic.

What goes to quarantine is not decided by the transform alone: a topic's limit may be raised between two runs, a check made stricter. So
there the ledger has every ordinal: a chunk of a quarantine topic says which ones it has, and a chunk of the topic that they would have
gone to, that it does not have them (ADR 9).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from shipper.ledger.ordinals import decode_ordinals
from shipper.ledger.records import ChunkKey, ChunkValue, Doubt, Void, decode
from shipper.types import FileId, LogRecord, SplitId


def covered(first: int, value: ChunkValue) -> list[tuple[int, int]]:
    """Intervals in which every record of the chunk's topic is in that topic."""
    if value.ordinals is not None:
        return decode_ordinals(value.ordinals)
    found = []
    for gap, behind in decode_ordinals(value.without or ""):
        found.append((first, gap))
        first = behind
    return [(start, stop) for start, stop in [*found, (first, value.last)] if start < stop]


@dataclass
class SplitState:
    """What the ledger holds of one split."""

    chunks: dict[tuple[int, str], ChunkValue] = field(default_factory=dict)
    """(first ordinal, topic) → chunk."""
    end: int | None = None
    """Number of lines in the split, once known."""

    @property
    def lines(self) -> int:
        """Accounted for: on the cluster, or dropped."""
        return sum(chunk.records for chunk in self.chunks.values())

    @property
    def records(self) -> int:
        """On the cluster, in quarantine topics too."""
        return sum(chunk.records for (_, topic), chunk in self.chunks.items() if topic)

    @property
    def complete(self) -> bool:
        return self.end is not None and self.lines == self.end

    def intervals(self, topic: str) -> list[tuple[int, int]]:
        """In which every record of ``topic`` is there."""
        return [part for (first, of), chunk in self.chunks.items() if of == topic for part in covered(first, chunk)]

    def partition(self, topic: str) -> int | None:
        """Where the latest of its records lie that all went to one partition of ``topic``."""
        known = [
            (first, chunk.partition) for (first, of), chunk in self.chunks.items() if of == topic and chunk.partition is not None
        ]
        return max(known)[1] if known else None

    @property
    def quarantines(self) -> frozenset[str]:
        """Topics in which records of the split are in quarantine."""
        return frozenset(topic for (_, topic), chunk in self.chunks.items() if chunk.reasons is not None)


def complete_as_cut(states: Collection[SplitState], otherwise: int | None) -> bool:
    """Whether all of a file is there, by the splits that its ship cut it into: a pipeline's `split_size` and `ordering` may be others by now.
    ``otherwise``: into how many it was cut, if its chunks do not say so, as older ones do not; None: then nobody knows."""
    counts = {chunk.splits for state in states for chunk in state.chunks.values()} - {None} or {otherwise}
    return counts == {len(states)} and all(state.complete for state in states)


@dataclass
class Chunks:
    """Feed records in offset order. ``voids`` hides chunks of files that are shipped anew."""

    pipeline: str
    voids: Mapping[FileId, Void] = field(default_factory=dict)
    splits: dict[SplitId, SplitState] = field(default_factory=dict)
    digests: dict[FileId, set[str]] = field(default_factory=dict)
    """File → transform digests under which any of its chunks was shipped."""
    sparks: dict[FileId, set[str]] = field(default_factory=dict)
    """File → Spark's minor versions under which any of its chunks was shipped; older chunks do not say."""
    files_of_path: dict[str, set[FileId]] = field(default_factory=dict)
    doubts: dict[FileId, Doubt] = field(default_factory=dict)
    """Files of which other bytes were read than they have."""

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
        if value.spark is not None:
            self.sparks.setdefault(file, set()).add(value.spark)
        self.files_of_path.setdefault(file.path, set()).add(file)

    def void(self, voids: Mapping[FileId, Void]) -> None:
        """Forgets all that is known of these files: their chunks no longer count, but for those that later generations write."""
        self.voids = {**self.voids, **voids}
        for split in [split for split in self.splits if split.file in voids]:
            del self.splits[split]
        for file in voids:
            self.digests.pop(file, None)
            self.sparks.pop(file, None)
            self.doubts.pop(file, None)
            self.files_of_path.get(file.path, set()).discard(file)

    def splits_of(self, files: Collection[FileId]) -> dict[FileId, list[SplitId]]:
        """The splits of each of them that are known, as they were cut then. One pass over all; ``files``: a set, or the keys of a dict."""
        found: dict[FileId, list[SplitId]] = {file: [] for file in files}
        for split in self.splits:
            if split.file in files:
                found[split.file].append(split)
        return found

    def records_by_topic(self, splits: Iterable[SplitId]) -> Counter[str]:
        """Records of these splits that are on the cluster, per topic."""
        found: Counter[str] = Counter()
        for split in splits:
            if state := self.splits.get(split):
                for (_, topic), chunk in state.chunks.items():
                    if chunk.records and topic:
                        found[topic] += chunk.records
        return found

    def records_of_run(self, run_id: str) -> int:
        """Records on the cluster that this run sent, in any of its attempts."""
        chunks = (chunk for state in self.splits.values() for (_, topic), chunk in state.chunks.items() if topic)
        return sum(chunk.records for chunk in chunks if chunk.run_id == run_id)

    def filtered_by_rule(self, splits: Iterable[SplitId]) -> Counter[str]:
        """Lines of these splits that rules of `records.drop` took."""
        return self._counts(splits, lambda chunk: chunk.filtered)

    def quarantined_by_reason(self, splits: Iterable[SplitId]) -> Counter[str]:
        """Records of these splits that are in quarantine."""
        return self._counts(splits, lambda chunk: chunk.reasons)

    def _counts(self, splits: Iterable[SplitId], of: Callable[[ChunkValue], Mapping[str, int] | None]) -> Counter[str]:
        found: Counter[str] = Counter()
        for split in splits:
            for chunk in self.splits[split].chunks.values() if split in self.splits else ():
                found.update(of(chunk) or {})
        return found
