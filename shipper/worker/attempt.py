"""One attempt of a task, as the ledger knows it: whether it may still send, and what was committed since the run took over."""

from __future__ import annotations

from typing import NamedTuple

from shipper.errors import Superseded
from shipper.ledger.codec import decode, encode_attempt
from shipper.ledger.log import LedgerLog
from shipper.ledger.records import CHUNKS, CONTROL, Attempt, ChunkKey, ChunkValue
from shipper.types import LogRecord
from shipper.worker.order import ShipOrder


class Committed(NamedTuple):
    """A chunk that is on the cluster."""

    key: ChunkKey
    value: ChunkValue


class TaskAttempt:
    """``announce`` → ``check`` after each opening of a lane → ``committed``, or ``committed_keys`` after a fault."""

    def __init__(self, order: ShipOrder, ledger: LedgerLog, task: int, number: int) -> None:
        """``number``: of all attempts of all tasks."""
        self._order = order
        self._ledger = ledger
        self._task = task
        self._number = number
        self.active_tasks = 1
        """How many tasks share the rate limit, when somebody looked last."""

    def connect(self) -> None:
        """Never raises."""
        self._ledger.connect((CONTROL,))

    def announce(self, *, ended: bool = False) -> None:
        """Tells others that it begins, or has ``ended``. Raises ClusterError."""
        order = self._order
        self._ledger.write_control([encode_attempt(order.pipeline, self._task, Attempt(order.generation, self._number, ended))])

    def check(self) -> list[int]:
        """The task's attempts so far. Raises Superseded if a later run, or a later attempt of this task, has announced itself."""
        order = self._order
        self._ledger.barrier(CONTROL)
        control = self._ledger.control()
        if control.generation != order.generation:
            by = control.generations[control.generation].run_id
            raise Superseded(f"run {order.run_id} of pipeline {order.pipeline} was taken over by run {by}: it sends nothing more")
        attempts = control.attempts.get(self._task, [])
        if attempts[-1:] != [self._number]:
            raise Superseded(f"attempt {self._number} of task {self._task} was taken over by another one: {attempts}")
        self.active_tasks = max(1, control.active_tasks())
        return attempts

    def count_tasks(self) -> None:
        """Looks again at how many are active. Raises ClusterError."""
        self.active_tasks = max(1, self._ledger.control().active_tasks())

    def committed(self) -> list[Committed]:
        """Chunks of any task since the run took over, up to the transactions that are still open. Raises OutcomeUnknown."""
        entries = [decode(self._order.pipeline, record) for record in self._records()]
        return [Committed(e[0], e[1]) for e in entries if e and isinstance(e[0], ChunkKey) and isinstance(e[1], ChunkValue)]

    def committed_keys(self) -> set[bytes]:
        """The same by their keys alone: after each fault, on each lane, nothing is decoded."""
        return {record.key for record in self._records() if record.value is not None}

    def _records(self) -> list[LogRecord]:
        self._ledger.barrier(CHUNKS)
        wait_seconds = self._order.settings.transaction_timeout_ms / 1000 + 15
        return self._ledger.chunks(self._order.chunks_end, wait_seconds=wait_seconds)
