"""The control partition, folded: who holds the lease, which generation may ship. Pure.

Which files are void is part of what the ledger says of files: see :mod:`shipper.ledger.fold`.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from shipper.errors import LedgerDamaged
from shipper.ledger.codec import decode
from shipper.ledger.records import (
    CONTROL,
    MOST_LEASE_SECONDS,
    Attempt,
    Begun,
    Generation,
    GenerationKey,
    Lease,
    PassedOver,
    SourceRoot,
)
from shipper.types import LogRecord, PartitionOffset


class LaneCounts(NamedTuple):
    """Which lanes there may be: of the tasks from 0 to ``tasks``, those from 0 to ``lanes``."""

    tasks: int
    lanes: int
    """Of each task."""


NO_LANES = LaneCounts(0, 0)

#: Name of the cluster → lanes of earlier runs there.
ToFence = dict[str, LaneCounts]


def covering(found: ToFence, cluster: str, tasks: int, lanes: int) -> None:
    """Makes ``found`` cover these as well."""
    known = found.get(cluster, NO_LANES)
    if tasks and lanes:
        found[cluster] = LaneCounts(max(known.tasks, tasks), max(known.lanes, lanes))


class Claim(NamedTuple):
    """A lease that was not released."""

    renewed_ms: int
    """The broker's time of the last renewal, milliseconds since the epoch."""
    lease: Lease


class FencedLanes(NamedTuple):
    """The word that every lane before a generation is fenced for good."""

    cluster: str
    """As its file called it then."""
    own: Generation
    """Which lanes that generation itself has."""


@dataclass
class Control:
    """Feed records in offset order; a later one of the same key replaces the earlier one."""

    pipeline: str
    generation: int = -1
    """Offset of the latest generation record; -1 before the first ship."""
    generations: dict[int, Generation] = field(default_factory=dict)
    """Offset → every generation that compaction has left."""
    fences: dict[int, FencedLanes] = field(default_factory=dict)
    """By the generation before which every lane is fenced for good."""
    _names: dict[int, str | None] = field(default_factory=dict)
    attempts: dict[int, list[int]] = field(default_factory=dict)
    """Spark task → its attempts in the current generation, the latest last."""
    ended: set[int] = field(default_factory=set)
    """Attempts that send nothing more."""
    passed_over: dict[PartitionOffset, PassedOver] = field(default_factory=dict)
    """Damaged record → why it is passed over."""
    sources: list[str] = field(default_factory=list)
    """Roots under which files lay when they were shipped, the present one last."""
    begun: Begun | None = None
    """By whom it was begun, if in place of another one."""
    _leases: dict[str, tuple[int, int, Lease]] = field(default_factory=dict)

    def feed(self, records: Iterable[LogRecord]) -> Control:
        records = list(records)
        self.passed_over.update(passed_over_in(self.pipeline, records))
        for record in records:
            match readable(self.pipeline, record, CONTROL, self.passed_over):
                case (GenerationKey(fenced=int() as fenced, cluster=cluster), generation):
                    if generation is None:
                        self.fences.pop(fenced, None)
                    elif fenced < record.offset:  # else it speaks of what was not there yet, and is not shipper's
                        self.fences[fenced] = FencedLanes(str(cluster), generation)
                case (GenerationKey(cluster=cluster), Generation() as generation):
                    self.generation = record.offset
                    self.generations[record.offset] = generation
                    self._names[record.offset] = cluster
                    self.attempts.clear()
                    self.ended.clear()
                case (str() as root, SourceRoot()):
                    self.sources = [*(each for each in self.sources if each != root), root]
                case (_, Begun() as begun):
                    self.begun = begun
                case (int() as task, Attempt() as attempt):
                    # One of an earlier generation is a zombie's: it says nothing about this one's tasks.
                    if attempt.generation == self.generation:
                        self._note(task, attempt)
                case (str() as run_id, None):
                    self._leases.pop(run_id, None)
                case (str() as run_id, Lease() as lease):
                    self._leases[run_id] = (record.offset, record.timestamp_ms, lease)
        return self

    def _note(self, task: int, attempt: Attempt) -> None:
        known = self.attempts.setdefault(task, [])
        if attempt.attempt not in known:
            # In a compacted topic, that it has ended replaces that it had begun. Spark's numbers then say when it did.
            later = [place for place, number in enumerate(known) if attempt.ended and number > attempt.attempt]
            known.insert(min(later, default=len(known)), attempt.attempt)
        if attempt.ended:
            self.ended.add(attempt.attempt)

    def active_tasks(self) -> int:
        """Tasks of the current generation that have begun and not said that they are done."""
        return sum(1 for attempts in self.attempts.values() if attempts[-1] not in self.ended)

    def to_fence(self, cluster: str, generation: int | None = None) -> ToFence:
        """What covers every lane of the generations before ``generation`` (all, if None) that may still be open. ``cluster``: what those
        that do not say are taken for."""
        found: ToFence = {}
        since = max(self.fences, default=-1)
        if since >= 0 and (generation is None or since < generation):
            known = self.fences[since]
            covering(found, known.cluster, known.own.tasks, known.own.lanes)
        for offset, of in self.generations.items():
            if offset > since and (generation is None or offset < generation):
                covering(found, self._names[offset] or cluster, of.tasks, of.lanes)
        return found

    def claims(self) -> list[Claim]:
        """Of every run that has not released its own, in the order of their last renewals."""
        return [Claim(renewed_ms, lease) for _, renewed_ms, lease in sorted(self._leases.values(), key=lambda entry: entry[0])]

    def holder(self, asking_run_id: str) -> Lease | None:
        """Who holds the lease at the moment when ``asking_run_id`` wrote its claim; that run itself if nobody else does.

        All times are the broker's (the topic appends its own), so clocks of the machines do not matter. A lease that was
        not renewed for its own length has lapsed. Among mere claims the earliest wins, so that of two runs that ask at
        once exactly one goes on.
        """
        asked = self._leases.get(asking_run_id)
        if asked is None:
            return None
        live = [
            entry for entry in self._leases.values() if asked[1] - entry[1] <= min(entry[2].seconds, MOST_LEASE_SECONDS) * 1000
        ]
        held = [entry for entry in live if entry[2].held]
        return max(held)[2] if held else min(live)[2]


def passed_over_in(pipeline: str, records: Iterable[LogRecord]) -> dict[PartitionOffset, PassedOver]:
    """Looked for before anything else is read, since the record that says so comes behind the one that it is about."""
    found: dict[PartitionOffset, PassedOver] = {}
    for record in records:
        if record.key.startswith(b'["dropped"') and record.value is not None:
            try:
                entry = decode(pipeline, record)
            except LedgerDamaged:
                continue  # met again, and said, by who reads all
            match entry:
                case (PartitionOffset() as place, PassedOver() as passed_over):
                    found[place] = passed_over
    return found


def readable(
    pipeline: str, record: LogRecord, partition: int, passed_over: Container[PartitionOffset], *, by: Callable[..., Any] = decode
) -> Any:
    """What ``by`` (:func:`decode` or ``peek_key``) makes of the record; None for a damaged one that is passed over. Raises LedgerDamaged."""
    try:
        return by(pipeline, record)
    except LedgerDamaged as damage:
        if PartitionOffset(partition, record.offset) in passed_over:
            return None
        raise LedgerDamaged.at(pipeline, partition, record.offset, damage.why) from damage


def live_records(pipeline: str, records: Iterable[LogRecord]) -> list[LogRecord]:
    """Those of ``records`` that a snapshot has to keep, so that what is read after it adds up to the same. Few, whatever came before:
    leases that were not released, attempts of the latest generation, the generations whose lanes are not fenced and no later one covers,
    which damaged records are passed over, where the files lay, and by whom the ledger was begun.

    Not the latest record of each key: that would let a generation that covers less hide one that covers more, and a zombie's
    attempt hide one of the present run.
    """
    generations: list[tuple[LogRecord, str | None, Generation]] = []
    fences: dict[int, LogRecord] = {}
    attempts: dict[tuple[int, int, bool], LogRecord] = {}
    leases: dict[str, LogRecord] = {}
    records = list(records)
    passed_over = passed_over_in(pipeline, records)
    says_so: dict[PartitionOffset, LogRecord] = {}
    begun: list[LogRecord] = []
    sources: dict[str, LogRecord] = {}
    for record in records:
        match readable(pipeline, record, CONTROL, passed_over):
            case (GenerationKey(fenced=int() as fenced), generation):
                if generation is None:
                    fences.pop(fenced, None)
                elif fenced < record.offset:
                    fences[fenced] = record
            case (GenerationKey(cluster=cluster), Generation() as latest):
                uncovered = [
                    (r, name, g)
                    for r, name, g in generations
                    if name != cluster or g.tasks > latest.tasks or g.lanes > latest.lanes
                ]
                generations = [*uncovered, (record, cluster, latest)]
                attempts.clear()
            case (int() as task, Attempt() as attempt):
                if generations and attempt.generation == generations[-1][0].offset:
                    attempts.setdefault((task, attempt.attempt, attempt.ended), record)
            case (str() as run_id, None):
                leases.pop(run_id, None)
            case (str() as run_id, Lease()):
                leases[run_id] = record
            case (PartitionOffset() as place, PassedOver()):
                says_so[place] = record
            case (str() as root, SourceRoot()):
                sources[root] = record
            case (_, Begun()):
                begun = [record]
    since = max(fences, default=-1)
    may_be_open = [record for record, _, _ in generations[:-1] if record.offset > since]
    kept = [*may_be_open, *(record for record, _, _ in generations[-1:]), *fences.values()]
    kept += [*attempts.values(), *leases.values(), *says_so.values(), *begun, *sources.values()]
    return sorted(kept, key=lambda record: record.offset)
