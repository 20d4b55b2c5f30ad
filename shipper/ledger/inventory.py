"""Sums of the ledger's chunks: for one ship and its window, for files and for windows; and checks
that the ledger agrees with itself. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from types import MappingProxyType

from shipper.config.units import listed, plural
from shipper.finding import Finding, fail, warn
from shipper.ledger.codec import peek_key
from shipper.ledger.fold import (
    ChunkOfSplit,
    Chunks,
    LedgerRecords,
    SplitState,
    bytes_fit,
    covered,
    invalidations_in,
    is_invalidated,
)
from shipper.ledger.intervals import Interval
from shipper.ledger.records import Alias, ChunkKey, ChunkValue, Entry
from shipper.types import FileId, LogRecord, SplitId

_UINT64 = 1 << 64

SplitStarts = Callable[[FileId], Sequence[int]]
"""File → first byte of each of its splits, as the pipeline would cut it now. Only for files whose
chunks do not say how they were cut."""


@dataclass
class Tally:
    """Sums of some chunks: those of a file, of a window, or of what one ship sent to a topic or a
    partition."""

    chunks: int = 0
    lines: int = 0
    """Lines of a file, by the ordinals at which its splits end; 0 for other subjects."""
    records: int = 0
    """Records in topics."""
    bytes: int = 0
    """Bytes of keys and values, uncompressed."""
    checksum: int = 0
    """Checksum as ChunkValue has it, modulo 2^64."""
    filtered: Counter[str] = field(default_factory=Counter)
    """Rule of `records.drop` → lines that it took; in no topic."""
    reasons: Counter[str] = field(default_factory=Counter)
    """Reason → of the records, those in quarantine."""
    archived: int = 0
    """Number of the chunks that are in the archive."""
    generation: int = -1
    run_id: str = ""
    """The latest run that shipped a part of it."""
    files: int = 0
    complete: int = 0
    """Files whose every record is delivered."""

    def add(self, topic: str, value: ChunkValue, *, archived: bool = False) -> None:
        """Add one chunk. ``topic``: empty for lines that are in none."""
        self.chunks += 1
        self.bytes += value.bytes
        self.archived += archived
        if topic:
            self.records += value.records
            self.checksum = (self.checksum + value.checksum) % _UINT64
        if value.filtered:
            self.filtered.update(value.filtered)
        if value.reasons:
            self.reasons.update(value.reasons)
        if value.generation > self.generation:
            self.generation, self.run_id = value.generation, value.run_id


@dataclass
class LedgerFigures:
    """The ledger's counts of one window's files, and of one ship of them."""

    files: dict[FileId, Tally] = field(default_factory=dict)
    """Records in any topic, whichever run sent them; checksum and ``filtered`` without quarantined
    ones."""
    topics: Counter[str] = field(default_factory=Counter)
    """Topic → records, whichever run sent them."""
    sent: dict[str, dict[int | None, Tally]] = field(default_factory=dict)
    """Topic → partition → records that this ship sent there. None: the ledger does not know the
    partition (records with keys)."""
    checksums: dict[FileId, Counter[str]] = field(default_factory=dict)
    """File → topic → checksum of the records that this ship sent there, not modulo 2^64."""
    has_later: bool = False
    """True if a later run has sent records of these files. At least once, nobody fences a run: both
    may have sent the same chunk, and the ledger then has that of one of them."""

    def sent_to(self, topic: str) -> Tally:
        """Return what this ship sent to all partitions of the topic together."""
        parts = self.sent.get(topic, {}).values()
        return Tally(
            records=sum(part.records for part in parts),
            checksum=sum(part.checksum for part in parts) % _UINT64,
        )

    @property
    def reasons(self) -> Counter[str]:
        """Reason → records that this ship sent to a quarantine topic."""
        return sum(
            (tally.reasons for parts in self.sent.values() for tally in parts.values()), Counter()
        )


def figures(
    chunks: Chunks, files: Collection[FileId], generations: Collection[int]
) -> LedgerFigures:
    """Add up the chunks of these files, however each was cut when it was shipped. Only those of
    ``generations`` count as sent by the ship."""
    found, last = LedgerFigures(), max(generations, default=-1)
    for file in dict.fromkeys(files):
        of_file = found.files.setdefault(file, Tally())
        if (alias := chunks.aliases.get(file)) is not None and alias.whole:
            of_file.records += sum(alias.records.values())
            found.topics.update(alias.records)
        for state in chunks.states(file):
            of_file.lines += state.end or 0
            for of, value in state.counted.items():
                if value.reasons is None:
                    of_file.add(of.topic, value)
                elif of.topic:
                    of_file.records += value.records
                if value.records and of.topic:
                    found.topics[of.topic] += value.records
            for of, value in state.chunks.items():
                topic = of.topic
                found.has_later |= bool(topic) and value.generation > last
                if value.records and topic and value.generation in generations:
                    found.checksums.setdefault(file, Counter())[topic] += value.checksum
                    found.sent.setdefault(topic, {}).setdefault(value.partition, Tally()).add(
                        topic, value
                    )
    return found


class Entries(list[Entry]):
    """Chunk records of one path."""

    aliases: Mapping[FileId, Alias] = MappingProxyType({})
    """Files of the path that were delivered as others. Sums of records leave them out."""

    def chosen(
        self, wanted: Callable[[Entry], bool], wanted_alias: Callable[[Alias], bool]
    ) -> Entries:
        """Return those that are wanted."""
        found = Entries(filter(wanted, self))
        found.aliases = {file: alias for file, alias in self.aliases.items() if wanted_alias(alias)}
        return found


def entries(read: LedgerRecords) -> Iterator[Entries]:
    """Yield all chunk records of a path, path by path."""
    live = {
        key
        for of_path in read.files.by_path.values()
        for key, record in of_path.items()
        if _live(record)
    }
    for of_path in read.by_path():
        invalidated = invalidations_in(of_path)
        found, aliases = Entries(), dict[FileId, Alias]()
        for record, entry in of_path:
            match entry:
                case (ChunkKey() as key, ChunkValue() as value):
                    hidden = is_invalidated(key.split.file, value, invalidated)
                    at = record.offset, record.timestamp_ms
                    found.append(Entry(key, value, *at, hidden, record.key not in live))
                case (FileId() as file, Alias() as value):
                    if not is_invalidated(file, value, invalidated):
                        aliases[file] = value
        if found or aliases:
            found.aliases = aliases
            yield found


def _live(record: LogRecord | None) -> bool:
    return record is not None and record.value is not None


@dataclass
class Inventory:
    """Contents of the ledger, file by file and window by window."""

    windows: dict[str, Tally] = field(default_factory=dict)
    """Window as START/END → records that were shipped under it. A file may have been shipped in
    parts under several."""
    files: dict[FileId, Tally] = field(default_factory=dict)

    def add(self, of_path: Entries, pipeline: str) -> None:
        chunks = Chunks(pipeline)
        seen: dict[FileId, set[str]] = {}
        for file, alias in of_path.aliases.items():
            chunks.add_alias(file, alias)
            self.files.setdefault(file, Tally(files=1))
            self.windows.setdefault(alias.window, Tally())
            seen.setdefault(file, set()).add(alias.window)
        for entry in of_path:
            if not entry.invalidated:
                file = entry.key.split.file
                chunks.add(entry.key, entry.value)
                for tally in (
                    self.files.setdefault(file, Tally(files=1)),
                    self.windows.setdefault(entry.value.window, Tally()),
                ):
                    tally.add(entry.key.topic, entry.value, archived=entry.archived)
                seen.setdefault(file, set()).add(entry.value.window)
        for file, windows in seen.items():
            complete = chunks.standing(file) == "complete"
            self.files[file].complete = int(complete)
            for window in windows:
                self.windows[window].files += 1
                self.windows[window].complete += complete


#: Left behind by a killed run, and completed by the next one.
GAP = "gap"


def _wrong(code: str, subject: str, text: str) -> Finding:
    return fail(text, code=code, subject=subject)


def _gap(subject: str, text: str) -> Finding:
    return warn(text, code=GAP, subject=subject)


def findings(of_path: Entries, split_starts: SplitStarts) -> Iterator[Finding]:
    """Yield contradictions among the records of one path."""
    live = [entry for entry in of_path if not entry.invalidated]
    by_split: dict[SplitId, list[Entry]] = {}
    by_file: dict[FileId, set[str]] = {}
    for entry in live:
        by_split.setdefault(entry.key.split, []).append(entry)
        by_file.setdefault(entry.key.split.file, set()).add(entry.value.digest)
    for file, digests in by_file.items():
        if len(digests) > 1:
            yield _wrong(
                "digests",
                file.path,
                f"shipped in parts under several transforms: {', '.join(sorted(digests))}",
            )
        there = {split.start for split in by_split if split.file == file}
        cut_into = {entry.value.splits for entry in live if entry.key.split.file == file}
        alias = of_path.aliases.get(file)
        yield from _findings_of_cut(file, there, cut_into, [] if alias else split_starts(file))
        yield from _findings_of_bytes(
            file,
            [entry for entry in live if entry.key.split.file == file],
            0 if alias is None else alias.read,
        )
    for split, of_split in by_split.items():
        where = f"{split.file.path} (split at byte {split.start})"
        yield from _findings_of_split(where, of_split)


def _findings_of_bytes(file: FileId, of_file: Sequence[Entry], before: int) -> Iterator[Finding]:
    """Compare the bytes that the splits account for with the file's size, once all splits have
    ended. ``before``: bytes that were delivered as another file's."""
    reads = {entry.key.split: entry.value.read for entry in of_file if entry.value.end}
    if len(reads) == max(entry.value.splits for entry in of_file) and not bytes_fit(
        file.size_bytes, [before, *reads.values()]
    ):
        read = before + sum(read or 0 for read in reads.values())
        text = (
            f"{read:,} bytes of it were read, and its size is {file.size_bytes:,}: re-ship it "
            "with --reship"
        )
        yield _wrong("bytes", file.path, text)


def _findings_of_cut(
    file: FileId, there: set[int], cut_into: set[int], today: Sequence[int]
) -> Iterator[Finding]:
    """Yield findings about the file's splits. ``there``: begin of each split that has chunks;
    ``cut_into``: numbers of splits, by these chunks; ``today``: begins of the splits as the
    pipeline would cut the file now, which tells where missing splits begin if the file was cut
    likewise."""
    count = max(cut_into)
    if there <= set(today) and count == len(today):
        if missing := [start for start in today if start not in there]:
            yield _gap(
                file.path,
                f"the ledger has nothing yet of the splits at bytes {listed(missing)}",
            )
    elif len(there) < count:
        text = (
            f"of {count - len(there)} of the {count} splits that it was cut into nothing is "
            "there yet"
        )
        yield _gap(file.path, text)


def _findings_of_split(where: str, of_split: Sequence[Entry]) -> Iterator[Finding]:
    """Yield findings about one split."""
    ends = sorted({entry.value.last for entry in of_split if entry.value.end})
    records = SplitState(
        {ChunkOfSplit(one.key.first, one.key.topic): one.value for one in of_split}
    ).lines
    if len(ends) > 1:
        yield _wrong("ends", where, f"it ends after record {listed(ends)}: only one can be right")
    yield from _overlaps(where, of_split)
    for entry in of_split:
        key, value = entry.key, entry.value
        if value.records > value.last - key.first:
            text = (
                f"chunk [{key.first}, {value.last}) of topic {key.topic} claims {value.records} "
                "records"
            )
            yield _wrong("count", where, text)
        if ends and value.last > ends[-1]:
            text = (
                f"chunk [{key.first}, {value.last}) of topic {key.topic} lies behind the end at "
                f"{ends[-1]}"
            )
            yield _wrong("ends", where, text)
    if ends and records > ends[-1]:
        yield _wrong(
            "count",
            where,
            f"the ledger holds {plural(records, 'record')}, and the split has only {ends[-1]}",
        )
    elif not ends or records < ends[-1]:
        of = f"of {ends[-1]}" if ends else "and nobody knows yet of how many"
        yield _gap(where, f"{records} records are there {of}")


def _overlaps(where: str, of_split: Sequence[Entry]) -> Iterator[Finding]:
    by_topic: dict[str, list[Interval]] = {}
    for entry in of_split:
        if entry.value.records:
            by_topic.setdefault(entry.key.topic, []).extend(covered(entry.key.first, entry.value))
    for topic, intervals in by_topic.items():
        for one, other in pairwise(sorted(intervals)):
            if other.first < one.end:
                text = (
                    f"chunks [{one.first}, {one.end}) and [{other.first}, {other.end}) of topic "
                    f"{topic} overlap"
                )
                yield _wrong("overlap", where, text)


def differences(snapshot: LedgerRecords, topic: LedgerRecords) -> Iterator[Finding]:
    """Yield differences between the ledger read from its snapshot on, and the ledger read
    afterwards from the topic alone."""
    ours, theirs = snapshot.control, topic.control
    nothing_new = snapshot.control_end == topic.control_end
    if nothing_new and (ours.generation, ours.attempts) != (theirs.generation, theirs.attempts):
        yield _wrong(
            "snapshot",
            "control",
            "generation or attempts differ between the topic and the snapshot",
        )
    archived = {record.key for record in topic.archived}
    for path in sorted(topic.files.by_path.keys() | snapshot.files.by_path.keys()):
        found, expected = snapshot.files.by_path.get(path, {}), topic.files.by_path.get(path, {})
        different = sum(
            _differ(found.get(key), expected.get(key), snapshot, key in archived)
            for key in found.keys() | expected.keys()
        )
        if different:
            yield _wrong(
                "snapshot",
                path,
                f"{plural(different, 'record')} differ between the topic and the snapshot",
            )


def _differ(
    found: LogRecord | None, expected: LogRecord | None, snapshot: LedgerRecords, archived: bool
) -> bool:
    if found == expected or not (_live(found) or _live(expected)):
        return False
    if expected is not None:
        about = peek_key(snapshot.files.pipeline, expected)
        end = (
            snapshot.control_end if about and about.kind == "invalidation" else snapshot.chunks_end
        )
        return expected.offset < end  # else it was written after the snapshot's side was read
    # The broker has dropped a record that was archived, and its tombstone, since the snapshot was
    # made. The record still counts once.
    return not archived


def absent_topics(
    of_path: Iterable[Entry], partitions: Callable[[str], int | None]
) -> Iterator[Finding]:
    """Yield one finding for each record of the ledger whose topic, or partition, is not on the
    cluster; the next such record gives the same finding again."""
    for entry in of_path:
        topic, where = entry.key.topic, entry.value.partition
        if entry.invalidated or not entry.value.records or not topic:
            continue
        count = partitions(topic)
        if count is None:
            yield _wrong(
                "topic",
                topic,
                "does not exist on the cluster, and by the ledger it has records",
            )
        elif where is not None and where >= count:
            text = (
                f"has {plural(count, 'partition')}, and by the ledger records are in partition "
                f"{where}"
            )
            yield _wrong("topic", topic, text)
