"""Fold of the control partition: who holds the lease, which generation may ship. Pure.

Invalidations belong to the ledger's entries about files: see :mod:`shipper.ledger.fold`.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from shipper.ledger.codec import Damage, decode_sound
from shipper.ledger.records import (
    CONTROL,
    MOST_LEASE_SECONDS,
    Attempt,
    AttemptKey,
    Generation,
    GenerationKey,
    Identity,
    Lease,
    NamedSnapshot,
)
from shipper.types import LogRecord


class LaneCounts(NamedTuple):
    """Lanes that may exist: of the tasks from 0 to ``tasks``, the lanes from 0 to ``lanes``."""

    tasks: int
    lanes: int
    """Number of lanes of each task."""


NO_LANES = LaneCounts(0, 0)

#: Name of the cluster → lanes of earlier runs there.
ToFence = dict[str, LaneCounts]


def cover(found: ToFence, cluster: str, tasks: int, lanes: int) -> None:
    """Make ``found`` cover these lanes as well."""
    known = found.get(cluster, NO_LANES)
    if tasks and lanes:
        found[cluster] = LaneCounts(max(known.tasks, tasks), max(known.lanes, lanes))


class Claim(NamedTuple):
    """A lease that was not released."""

    renewed_ms: int
    """The broker's time of the last renewal, milliseconds since the epoch."""
    lease: Lease
    offset: int
    """Offset of the last renewal."""


@dataclass
class Control:
    """State of the control partition. Feed records in offset order; a later one of the same key
    replaces the earlier one.

    One fold serves readers and snapshots: it keeps the records that its state rests on, and
    :meth:`standing` returns them."""

    pipeline: str
    generation: int = -1
    """Offset of the latest generation record; -1 before the first ship."""
    generations: dict[int, Generation] = field(default_factory=dict)
    """Offset → every generation whose lanes may still be open, and the latest."""
    attempts: dict[int, list[int]] = field(default_factory=dict)
    """Spark task → its attempts in the current generation, in the order in which Spark began
    them."""
    ended: set[int] = field(default_factory=set)
    """Attempts that send nothing more."""
    identity: Identity | None = None
    """Identity of the ledger, set if a person began this ledger instead of another one."""
    snapshots: frozenset[str] = frozenset()
    """SHA-256 of the manifests of the snapshots that it names."""
    damaged: dict[bytes, Damage] = field(default_factory=dict)
    """Key → damaged record behind which no sound record of the key came."""
    _keys: dict[int, GenerationKey] = field(default_factory=dict)
    """Offset of a generation → its key."""
    _offsets: dict[GenerationKey, int] = field(default_factory=dict)
    _leases: dict[str, Claim] = field(default_factory=dict)
    _records: dict[tuple[object, ...], LogRecord] = field(default_factory=dict)
    """Part of the state → the record that it rests on."""

    def feed(self, records: Iterable[LogRecord]) -> Control:
        """Fold records in. Never raises: damaged records stand in ``damaged``."""
        for record, entry in decode_sound(self.pipeline, CONTROL, records, self.damaged):
            match entry:
                case (GenerationKey() as key, None):
                    self._forget(key)
                case (GenerationKey() as key, Generation() as generation):
                    self._begin(key, generation, record)
                case (None, Identity() as identity):
                    self.identity = identity
                    self._records["identity",] = record
                case (None, NamedSnapshot() as named):
                    self.snapshots |= {named.sha256}
                case (AttemptKey() as attempt, Attempt()):
                    # An attempt of an earlier generation belongs to a stale run: it says nothing
                    # about this generation's tasks.
                    if attempt.generation == self.generation:
                        self._note(attempt)
                        self._records.setdefault(("attempt", attempt), record)
                case (str() as run_id, None):
                    self._leases.pop(run_id, None)
                    self._records.pop(("lease", run_id), None)
                case (str() as run_id, Lease() as lease):
                    self._leases[run_id] = Claim(record.timestamp_ms, lease, record.offset)
                    self._records["lease", run_id] = record
        return self

    def copy(self) -> Control:
        """Return a copy that later records do not change. The records themselves are shared."""
        return replace(
            self,
            generations=dict(self.generations),
            attempts={task: list(numbers) for task, numbers in self.attempts.items()},
            ended=set(self.ended),
            damaged=dict(self.damaged),
            _keys=dict(self._keys),
            _offsets=dict(self._offsets),
            _leases=dict(self._leases),
            _records=dict(self._records),
        )

    def _begin(self, key: GenerationKey, generation: Generation, record: LogRecord) -> None:
        for over in [part for part in self._records if part[0] == "attempt"]:
            del self._records[over]
        self.attempts.clear()
        self.ended.clear()
        self.generation = record.offset
        self.generations[record.offset], self._keys[record.offset] = generation, key
        self._offsets[key] = record.offset
        self._records["generation", record.offset] = record

    def _forget(self, key: GenerationKey) -> None:
        """Forget a generation whose lanes are fenced. The latest generation stays: another writer's
        tombstone must not take the right to ship from it."""
        offset = self._offsets.get(key, self.generation)
        if offset != self.generation:
            del (
                self._offsets[key],
                self._keys[offset],
                self.generations[offset],
                self._records["generation", offset],
            )

    @property
    def sources(self) -> list[str]:
        """Roots under which files lay when they were shipped, the present one last."""
        found: dict[str, None] = {}
        for _, generation in sorted(self.generations.items()):
            for root in generation.roots:
                found.pop(root, None)
                found[root] = None
        return list(found)

    def earlier(self, generation: int, roots: Collection[str]) -> list[GenerationKey]:
        """Return the keys of the generations before ``generation`` that know no other roots than
        ``roots``."""
        return [
            self._keys[offset]
            for offset, other in self.generations.items()
            if offset < generation and set(other.roots) <= set(roots)
        ]

    def attempt_keys(self) -> list[AttemptKey]:
        """Return the keys of the current generation's attempts."""
        return [key for _, *keys in self._records for key in keys if isinstance(key, AttemptKey)]

    def standing(self) -> list[LogRecord]:
        """Return the records that a snapshot must keep, so that later records add up to the same;
        in offset order.

        These are few, however long the ledger is: leases that were not released, attempts of the
        latest generation, the identity, and the generations whose lanes are not fenced yet.
        """
        return sorted(self._records.values(), key=lambda record: record.offset)

    def _note(self, attempt: AttemptKey) -> None:
        known = self.attempts.setdefault(attempt.task, [])
        if attempt.number not in known:
            insort(known, attempt.number)
        if attempt.ended:
            self.ended.add(attempt.number)

    def active_since(self) -> dict[int, int]:
        """Return the current generation's tasks that have begun and have not reported their end,
        each with the broker's time (milliseconds since the epoch) at which its latest attempt
        began."""
        began = {
            (key.task, key.number): record.timestamp_ms
            for (_, *keys), record in self._records.items()
            for key in keys
            if isinstance(key, AttemptKey) and not key.ended
        }
        return {
            task: began.get((task, attempts[-1]), 0)
            for task, attempts in self.attempts.items()
            if attempts[-1] not in self.ended
        }

    def to_fence(self, generation: int | None = None) -> ToFence:
        """Return what covers every lane of the generations before ``generation`` (all, if None)
        that may still be open."""
        found: ToFence = {}
        for offset, lanes in self.generations.items():
            if generation is None or offset < generation:
                cover(found, self._keys[offset].cluster, lanes.tasks, lanes.lanes)
        return found

    def claims(self) -> list[Claim]:
        """Return the claims of every run that has not released its own, in the order of their last
        renewals."""
        return sorted(self._leases.values(), key=lambda claim: claim.offset)

    def holder(self, asking_run_id: str, lapsed: Collection[str] = ()) -> Lease | None:
        """Return who held the lease when ``asking_run_id`` wrote its claim; that run itself if
        nobody else did. ``lapsed``: runs whose claims did not change while they were watched for
        their own length.

        All times are the broker's (the topic appends its own), so clocks of the machines do not
        matter. A lease that was not renewed for its own length has lapsed. Among mere claims the
        earliest wins, so that of two runs that ask at once exactly one goes on.
        """
        asked = self._leases.get(asking_run_id)
        if asked is None:
            return None
        live = [
            claim
            for claim in self.claims()
            if claim.lease.run_id not in lapsed
            and asked.renewed_ms - claim.renewed_ms
            <= min(claim.lease.seconds, MOST_LEASE_SECONDS) * 1000
        ]
        held = [claim.lease for claim in live if claim.lease.held]
        return held[-1] if held else live[0].lease
