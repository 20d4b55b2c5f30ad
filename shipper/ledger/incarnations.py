"""Topics that were deleted, or deleted and created again, since the ledger's chunks were delivered.
Pure.

A chunk has the id of the topic that took its records. Ids never come back, so a chunk whose id is
not its topic's present one is *gone*: its records are in a topic that does not exist any more. A
chunk without an id, and a topic whose id is unknown, are believed as they are.

A gone chunk is *lost* if its records are nowhere else. It is not lost once other chunks have its
records: those that a later run sent again. The new chunks need not begin where the old ones did, so
old records stay in the ledger under keys of their own, and readers leave them out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from shipper.ledger.fold import ChunkOfSplit, Chunks, SplitState, covered, standing_as_cut
from shipper.ledger.intervals import IntervalSet
from shipper.ledger.inventory import Entries
from shipper.ledger.records import ChunkKey, ChunkValue, Entry, Moved, MovedKey, MovedValue
from shipper.types import FileId, PresentIds, SplitId

GoneIds = Mapping[str, frozenset[str]]
"""Topic → ids that chunks have and the topic has no more."""


class Loss(NamedTuple):
    """Records of one incarnation of a topic, which are nowhere else."""

    topic: str
    before: str
    """Id of the topic that took them."""
    now: str | None
    """Present id of the topic; None: no topic has this name."""
    records: int
    files: int


@dataclass
class Losses:
    """Records that the ledger counts in topics that are gone."""

    gone: dict[str, frozenset[str]] = field(default_factory=dict)
    """Ids of the topics that are gone, from all chunks that were read, see :data:`GoneIds`."""
    found: list[Loss] = field(default_factory=list)
    files: dict[FileId, str] = field(default_factory=dict)
    """File of which records are lost → a topic that took some."""


def topics_with_ids(chunks: Chunks) -> set[str]:
    """Return the topics whose ids the chunks know."""
    return {of.topic for _, of, value in _each(chunks) if value.topic_id}


def is_gone(topic: str, value: ChunkValue, present: PresentIds) -> bool:
    """True if the topic that took the chunk's records does not exist any more."""
    if not value.topic_id or not topic or topic not in present:
        return False
    return present[topic] != "" and present[topic] != value.topic_id


def gone_ids(chunks: Chunks, present: PresentIds) -> dict[str, frozenset[str]]:
    """Return the ids of the topics that are gone, see :data:`GoneIds`."""
    found: dict[str, set[str]] = {}
    for _, of, value in _each(chunks):
        if value.topic_id and is_gone(of.topic, value, present):
            found.setdefault(of.topic, set()).add(value.topic_id)
    return {topic: frozenset(ids) for topic, ids in found.items()}


def without(chunks: Chunks, gone: GoneIds) -> Chunks:
    """Return the chunks whose topics still exist: ``chunks`` itself if none is gone."""
    if not gone:
        return chunks
    found = Chunks(chunks.pipeline, chunks.invalidated, committed_ms=dict(chunks.committed_ms))
    for split, of, value in _each(chunks):
        if value.topic_id not in gone.get(of.topic, ()):
            key = MovedKey if isinstance(value, MovedValue) else ChunkKey
            found.add(key(split, of.first, of.topic), value)
    return found


def losses(
    chunks: Chunks, present: PresentIds, *, files: Collection[FileId] | None = None
) -> Losses:
    """Return the losses of ``files``, a set or the keys of a dict (None: all files)."""
    found = Losses(gone_ids(chunks, present))
    if not found.gone:
        return found
    there = without(chunks, found.gone)
    touched = {
        split.file
        for split, of, value in _each(chunks)
        if value.topic_id in found.gone.get(of.topic, ())
    }
    sums: dict[tuple[str, str], tuple[int, set[FileId]]] = {}
    for file, splits in chunks.splits_of(
        touched if files is None else touched & set(files)
    ).items():
        left = [there.splits.get(split, SplitState()) for split in splits]
        if standing_as_cut(file, left) != "partial":
            continue
        for split, state in zip(splits, left, strict=True):
            for of, value, records in _lost(chunks.splits[split], state, found.gone):
                key = of.topic, value.topic_id or ""
                count, those = sums.setdefault(key, (0, set()))
                those.add(file)
                sums[key] = count + records, those
                found.files.setdefault(file, of.topic)
    found.found = [
        Loss(topic, before, present[topic], count, len(those))
        for (topic, before), (count, those) in sorted(sums.items())
    ]
    return found


def _each(chunks: Chunks) -> Iterator[tuple[SplitId, ChunkOfSplit, ChunkValue]]:
    for split, state in chunks.splits.items():
        for of, value in state.parts():
            yield split, of, value


def _lost(
    state: SplitState, there: SplitState, gone: GoneIds
) -> Iterable[tuple[ChunkOfSplit, ChunkValue, int]]:
    """Return the gone chunks of one split, with the number of records that no other chunk has.
    Records that were in several incarnations count for the last one. Where only a part of a chunk
    was sent again and its lines are shared with other topics, the number of records is an upper
    bound."""
    if there.complete:
        return
    elsewhere = {
        of.topic for of, value in state.parts() if value.topic_id in gone.get(of.topic, ())
    }
    covers = {topic: IntervalSet(there.intervals(topic)) for topic in elsewhere}
    for of, value in sorted(state.parts(), key=lambda entry: -entry[1].generation):
        if value.topic_id not in gone.get(of.topic, ()) or not value.records:
            continue
        gaps = [
            gap
            for part in covered(of.first, value)
            for gap in covers[of.topic].gaps(part.first, part.end)
        ]
        for gap in gaps:
            covers[of.topic].add(gap.first, gap.end)
        if gaps:
            yield of, value, min(value.records, sum(gap.end - gap.first for gap in gaps))


def entries_there(of_path: Entries, present: PresentIds) -> Entries:
    """Return the entries of one path whose topic still exists, and those that are invalidated
    anyway."""

    def counts(one: Entry | Moved) -> bool:
        return (isinstance(one, Entry) and one.invalidated) or not is_gone(
            one.key.topic, one.value, present
        )

    return of_path.chosen(counts)


def losses_of_entries(of_path: Sequence[Entry], pipeline: str, present: PresentIds) -> Losses:
    """Return the losses of one path."""
    chunks = Chunks(pipeline)
    for entry in of_path:
        if not entry.invalidated:
            chunks.add(entry.key, entry.value)
    return losses(chunks, present)


def sum_losses(found: Iterable[Loss]) -> list[Loss]:
    """Sum up losses: one for each incarnation of a topic. ``found``: of different files."""
    sums: dict[tuple[str, str], Loss] = {}
    for loss in found:
        before = sums.get((loss.topic, loss.before))
        sums[loss.topic, loss.before] = (
            loss._replace(records=loss.records + before.records, files=loss.files + before.files)
            if before
            else loss
        )
    return [sums[key] for key in sorted(sums)]
