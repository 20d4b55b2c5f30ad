"""The control partition, folded: who holds the lease, which generation may ship. Pure.

Which files are void is part of what the ledger says of files: see :mod:`shipper.ledger.state`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from shipper.ledger.records import Attempt, Generation, Lease, decode
from shipper.terms import LogRecord


@dataclass
class Control:
    """Feed records in offset order; a later one of the same key replaces the earlier one."""

    pipeline: str
    generation: int = -1
    """Offset of the latest generation record; -1 before the first ship."""
    generations: dict[int, Generation] = field(default_factory=dict)
    """Offset → every generation that compaction has left."""
    attempts: dict[int, list[int]] = field(default_factory=dict)
    """Spark task → its attempts in the current generation, the latest last."""
    ended: set[int] = field(default_factory=set)
    """Attempts that send nothing more."""
    _leases: dict[str, tuple[int, int, Lease]] = field(default_factory=dict)

    def feed(self, records: Iterable[LogRecord]) -> Control:
        for record in records:
            match decode(self.pipeline, record):
                case (_, Generation() as generation):
                    self.generation = record.offset
                    self.generations[record.offset] = generation
                    self.attempts.clear()
                    self.ended.clear()
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

    def most_before(self, generation: int | None = None) -> tuple[int, int]:
        """(tasks, lanes per task) that cover every lane of the generations before ``generation`` (all, if None)."""
        earlier = [of for offset, of in self.generations.items() if generation is None or offset < generation]
        return max((of.tasks for of in earlier), default=0), max((of.lanes for of in earlier), default=0)

    def claims(self) -> list[tuple[int, Lease]]:
        """(broker's time of the last renewal in milliseconds since the epoch, lease) of every run that has not released its own."""
        return [(renewed_ms, lease) for _, renewed_ms, lease in sorted(self._leases.values(), key=lambda entry: entry[0])]

    def holder(self, asking_run_id: str) -> Lease | None:
        """Who holds the lease at the moment when ``asking_run_id`` wrote its claim; that run itself if nobody else does.

        All times are the broker's (the topic appends its own), so clocks of the machines do not matter. A lease that was
        not renewed for its own length has lapsed. Among mere claims the earliest wins, so that of two runs that ask at
        once exactly one goes on.
        """
        asked = self._leases.get(asking_run_id)
        if asked is None:
            return None
        live = [entry for entry in self._leases.values() if asked[1] - entry[1] <= entry[2].seconds * 1000]
        held = [entry for entry in live if entry[2].held]
        return max(held)[2] if held else min(live)[2]


def standing(pipeline: str, records: Iterable[LogRecord]) -> list[LogRecord]:
    """Those of ``records`` that a snapshot has to keep, so that what is read after it adds up to the same. Few, whatever came before:
    leases that were not released, attempts of the latest generation, and the generations whose lanes no later one covers.

    Not the latest record of each key: that would let a generation that covers less hide one that covers more, and a zombie's
    attempt hide one of the present run.
    """
    generations: list[tuple[LogRecord, Generation]] = []
    attempts: dict[tuple[int, int, bool], LogRecord] = {}
    leases: dict[str, LogRecord] = {}
    for record in records:
        match decode(pipeline, record):
            case (_, Generation() as latest):
                uncovered = [(r, g) for r, g in generations if g.tasks > latest.tasks or g.lanes > latest.lanes]
                generations = [*uncovered, (record, latest)]
                attempts.clear()
            case (int() as task, Attempt() as attempt):
                if generations and attempt.generation == generations[-1][0].offset:
                    attempts.setdefault((task, attempt.attempt, attempt.ended), record)
            case (str() as run_id, None):
                leases.pop(run_id, None)
            case (str() as run_id, Lease()):
                leases[run_id] = record
    kept = [*(record for record, _ in generations), *attempts.values(), *leases.values()]
    return sorted(kept, key=lambda record: record.offset)
