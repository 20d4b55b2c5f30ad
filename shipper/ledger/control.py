"""The control partition, folded: who holds the lease, which generation may ship, which files are void. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from shipper.ledger.records import Attempt, Generation, Lease, Void, decode
from shipper.terms import FileId, LogRecord


@dataclass
class Control:
    """Feed records in offset order; a later one of the same key replaces the earlier one."""

    pipeline: str
    generation: int = -1
    """Offset of the latest generation record; -1 before the first ship."""
    generations: dict[int, Generation] = field(default_factory=dict)
    """Offset → every generation that compaction has left."""
    voids: dict[FileId, Void] = field(default_factory=dict)
    """File → since when its earlier chunks do not count."""
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
                case (int() as task, Attempt() as attempt):
                    # One of an earlier generation is a zombie's: it says nothing about this one's tasks.
                    if attempt.generation == self.generation:
                        self._note(task, attempt)
                case (str() as run_id, None):
                    self._leases.pop(run_id, None)
                case (str() as run_id, Lease() as lease):
                    self._leases[run_id] = (record.offset, record.timestamp_ms, lease)
                case (FileId() as file, Void() as void):
                    self.voids[file] = void
        return self

    def _note(self, task: int, attempt: Attempt) -> None:
        if attempt.ended:
            self.ended.add(attempt.attempt)
        elif attempt.attempt not in (known := self.attempts.setdefault(task, [])):
            known.append(attempt.attempt)

    def active_tasks(self) -> int:
        """Tasks of the current generation that have begun and not said that they are done."""
        return sum(1 for attempts in self.attempts.values() if attempts[-1] not in self.ended)

    def most_before(self, generation: int | None = None) -> tuple[int, int]:
        """(tasks, lanes per task) that cover every lane of the generations before ``generation`` (all, if None)."""
        earlier = [of for offset, of in self.generations.items() if generation is None or offset < generation]
        return max((of.tasks for of in earlier), default=0), max((of.lanes for of in earlier), default=0)

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
