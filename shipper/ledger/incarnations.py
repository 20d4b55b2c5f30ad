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

from pydantic import BaseModel, ConfigDict

from shipper.config.units import plural
from shipper.ledger.fold import ChunkOfSplit, Chunks, SplitState, covered
from shipper.ledger.intervals import IntervalSet
from shipper.ledger.inventory import Entries
from shipper.ledger.records import Alias, ChunkKey, ChunkValue, Entry
from shipper.types import FileId, PresentIds, SplitId

GoneIds = Mapping[str, frozenset[str]]
"""Topic → ids that chunks have and the topic has no more."""


class RecreatedTopic(BaseModel):
    """Topic that was deleted, or deleted and created again, with records in it."""

    model_config = ConfigDict(extra="forbid")

    topic: str
    before: str
    """Id of the topic that took the records."""
    now: str | None
    """Id of the topic that has its name now; None: there is none."""
    records: int
    """Records that were in the earlier topic and are in none now."""
    files: int
    """Files that the records are of."""
    resent: bool = False
    """True if this run sends the records again (`delivery.on_recreated: resend`)."""

    def __str__(self) -> str:
        again, now = (" and created again", f", and is {self.now}") if self.now else ("", "")
        return (
            f"topic {self.topic} was deleted{again} (its id was {self.before}{now}): "
            f"{plural(self.records, 'record')} of {plural(self.files, 'file')} that it held "
            f"{'is' if self.records == 1 else 'are'} in no topic now"
        )


@dataclass
class Incarnations:
    """Comparison of the ledger's chunks with the existing topics."""

    chunks: Chunks
    """Chunks whose topics still exist."""
    present: PresentIds = field(default_factory=dict)
    gone: GoneIds = field(default_factory=dict)
    """Ids of the topics that are gone, from all chunks that were read."""
    lost: list[RecreatedTopic] = field(default_factory=list)
    """Records that are lost with these topics, of the files that were judged."""
    lost_files: dict[FileId, str] = field(default_factory=dict)
    """File of which records are lost → a topic that took some."""

    @property
    def topic_ids(self) -> dict[str, str]:
        """Topic → id, of the existing topics that have an id."""
        return {topic: topic_id for topic, topic_id in self.present.items() if topic_id}

    def named(self, *, resent: bool = False) -> list[RecreatedTopic]:
        return [one.model_copy(update={"resent": resent}) for one in self.lost]


def topics_with_ids(chunks: Chunks) -> set[str]:
    """Return the topics whose ids the chunks know."""
    return {topic for topic, topic_id in _ids(chunks) if topic_id}


def is_gone(topic: str, topic_id: str | None, present: PresentIds) -> bool:
    """True if the topic that took records does not exist any more."""
    if not topic_id or not topic or topic not in present:
        return False
    return present[topic] != "" and present[topic] != topic_id


def is_alias_gone(alias: Alias, present: PresentIds) -> bool:
    """True if a topic that took records of the content does not exist any more."""
    return any(is_gone(topic, topic_id, present) for topic, topic_id in alias.topic_ids.items())


def gone_ids(chunks: Chunks, present: PresentIds) -> dict[str, frozenset[str]]:
    """Return the ids of the topics that are gone, see :data:`GoneIds`."""
    found: dict[str, set[str]] = {}
    for topic, topic_id in _ids(chunks):
        if topic_id and is_gone(topic, topic_id, present):
            found.setdefault(topic, set()).add(topic_id)
    return {topic: frozenset(ids) for topic, ids in found.items()}


def without(chunks: Chunks, gone: GoneIds) -> Chunks:
    """Return the chunks whose topics still exist: ``chunks`` itself if none is gone."""
    if not gone:
        return chunks
    found = Chunks(chunks.pipeline, chunks.invalidated, committed_ms=dict(chunks.committed_ms))
    found.succeeded |= chunks.succeeded
    for file, alias in chunks.aliases.items():
        if not _is_among(alias, gone):
            found.add_alias(file, alias)
    for split, of, value in _each(chunks):
        if value.topic_id not in gone.get(of.topic, ()):
            found.add(ChunkKey(split, of.first, of.topic), value)
    return found


def _is_among(alias: Alias, gone: GoneIds) -> bool:
    return any(topic_id in gone.get(topic, ()) for topic, topic_id in alias.topic_ids.items())


def compare(
    chunks: Chunks, present: PresentIds, *, files: Collection[FileId] | None = None
) -> Incarnations:
    """Compare the chunks with the topics. ``files``: those whose losses are looked for, a set or
    the keys of a dict (None: all files)."""
    gone = gone_ids(chunks, present)
    there = without(chunks, gone)
    found = Incarnations(there, present, gone)
    if not gone:
        return found
    touched = {
        split.file for split, of, value in _each(chunks) if value.topic_id in gone.get(of.topic, ())
    }
    sums: dict[tuple[str, str], tuple[int, set[FileId]]] = {}
    touched |= {file for file, alias in chunks.aliases.items() if _is_among(alias, gone)}

    def add(file: FileId, topic: str, topic_id: str, records: int) -> None:
        count, those = sums.setdefault((topic, topic_id), (0, set()))
        those.add(file)
        sums[topic, topic_id] = count + records, those
        found.lost_files.setdefault(file, topic)

    for file in touched if files is None else touched & set(files):
        if there.knows(file) and there.standing(file) != "partial":
            continue
        if file in chunks.aliases.keys() - there.aliases.keys():
            alias = chunks.aliases[file]
            for topic, topic_id in alias.topic_ids.items():
                if topic_id in gone.get(topic, ()):
                    add(file, topic, topic_id, alias.records.get(topic, 0))
        for split in chunks.splits_of(file):
            state = there.splits.get(split, SplitState())
            for of, value, records in _lost(chunks.splits[split], state, gone):
                add(file, of.topic, value.topic_id or "", records)
    found.lost = [
        RecreatedTopic(
            topic=topic, before=before, now=present[topic], records=count, files=len(those)
        )
        for (topic, before), (count, those) in sorted(sums.items())
    ]
    return found


def _each(chunks: Chunks) -> Iterator[tuple[SplitId, ChunkOfSplit, ChunkValue]]:
    for split, state in chunks.splits.items():
        for of, value in state.chunks.items():
            yield split, of, value


def _ids(chunks: Chunks) -> Iterator[tuple[str, str | None]]:
    """Yield topics with the ids under which they took records."""
    for _, of, value in _each(chunks):
        yield of.topic, value.topic_id
    for alias in chunks.aliases.values():
        yield from alias.topic_ids.items()


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
        of.topic for of, value in state.chunks.items() if value.topic_id in gone.get(of.topic, ())
    }
    covers = {topic: IntervalSet(there.intervals(topic)) for topic in elsewhere}
    for of, value in sorted(state.chunks.items(), key=lambda entry: -entry[1].generation):
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
    return of_path.chosen(
        lambda one: one.invalidated or not is_gone(one.key.topic, one.value.topic_id, present),
        lambda alias: not is_alias_gone(alias, present),
    )


def losses_of_entries(
    of_path: Sequence[Entry], pipeline: str, present: PresentIds
) -> list[RecreatedTopic]:
    """Return the losses of one path."""
    chunks = Chunks(pipeline)
    for entry in of_path:
        if not entry.invalidated:
            chunks.add(entry.key, entry.value)
    return compare(chunks, present).lost


def sum_losses(found: Iterable[RecreatedTopic]) -> list[RecreatedTopic]:
    """Sum up losses: one for each incarnation of a topic. ``found``: of different files."""
    sums: dict[tuple[str, str], RecreatedTopic] = {}
    for loss in found:
        sum_ = sums.setdefault(
            (loss.topic, loss.before), loss.model_copy(update={"records": 0, "files": 0})
        )
        sum_.records += loss.records
        sum_.files += loss.files
    return [sums[key] for key in sorted(sums)]
