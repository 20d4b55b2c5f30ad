"""One attempt of a task, as the ledger knows it: whether it may still send, and what was committed since the run took over."""

from __future__ import annotations

from shipper.errors import ClusterError, OutcomeUnknown, Superseded
from shipper.ledger.codec import encode_attempt
from shipper.ledger.log import CONTROL_NOW, AskCommitted, AskCommittedKeys, Committed, CommittedKeys, LedgerLog
from shipper.ledger.records import CONTROL, Attempt, AttemptKey
from shipper.types import Decided
from shipper.worker.order import ShipOrder


class TaskAttempt:
    """``announce`` → ``check`` after each opening of a lane → ``committed``, or ``committed_keys`` after a fault."""

    def __init__(self, order: ShipOrder, ledger: LedgerLog, task: int, number: int) -> None:
        """``number``: of all attempts of all tasks."""
        self._order = order
        self._ledger = ledger
        self._key = AttemptKey(order.generation, task, number)
        self.active_tasks = 1
        """How many tasks share the rate limit, when somebody looked last."""

    def connect(self) -> None:
        """Never raises."""
        self._ledger.connect((CONTROL,))

    def announce(self, *, ended: bool = False) -> None:
        """Tell others that it begins, or has ``ended``. Raises ClusterError, OutcomeUnknown.

        Where nobody acknowledged that it begins, the ledger is waited for as :meth:`check` does, so that an outage costs one of Spark's
        attempts at the task and not all. It is not written again: if the first copy came late, compaction would put this attempt behind a later one.
        """
        record = encode_attempt(self._order.pipeline, self._key._replace(ended=ended), Attempt())
        try:
            self._ledger.write_control([record])
        except (ClusterError, OutcomeUnknown):
            if ended or self._key.number not in self._ledger.decide(CONTROL_NOW).answer.attempts.get(self._key.task, []):
                raise

    def check(self) -> Decided[list[int]]:
        """Return the task's attempts so far. Raises Superseded if a later run, or a later attempt of this task, has announced itself."""
        order = self._order
        found = self._ledger.decide(CONTROL_NOW)
        control = found.answer
        if control.generation != order.generation:
            by = control.generations[control.generation].run_id
            raise Superseded(f"run {order.run_id} of pipeline {order.pipeline} was taken over by run {by}: it sends nothing more")
        attempts = control.attempts.get(self._key.task, [])
        if attempts[-1:] != [self._key.number]:
            raise Superseded(f"attempt {self._key.number} of task {self._key.task} was taken over by another one: {attempts}")
        self.active_tasks = max(1, control.active_tasks())
        return found.map(lambda _: attempts)

    def count_tasks(self) -> None:
        """Look again at how many are active. Raises ClusterError."""
        self.active_tasks = max(1, self._ledger.look(CONTROL_NOW).active_tasks())

    def committed(self) -> Decided[list[Committed]]:
        """Return the chunks of any task since the run took over. Raises ClusterError, OutcomeUnknown."""
        return self._ledger.decide(AskCommitted(self._order.chunks_end))

    def committed_keys(self) -> Decided[CommittedKeys]:
        """Return the same by their keys alone: after each fault each lane asks, reads what is new, and decodes nothing."""
        return self._ledger.decide(AskCommittedKeys(self._order.chunks_end))

    def hurry(self) -> None:
        """Wait for the ledger no longer: the task is to stop."""
        self._ledger.hurry()
