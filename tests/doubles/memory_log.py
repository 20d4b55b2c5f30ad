"""A topic in memory that reads and writes as ClusterClient does: for tests of what is concluded
from a log, without a broker.

It compacts, is deleted and made anew, and holds open transactions on demand.
"""

import random
import secrets
from collections.abc import Callable, Generator, Iterable

from shipper.errors import OutcomeUnknown
from shipper.kafka.admin import LogFacts, TopicIds
from shipper.types import LogRecord

_BATCH_RECORDS = 7


class MemoryLog:
    """One topic of a cluster of its own. Pass it where a ClusterClient is expected."""

    def __init__(self, partitions: int = 2):
        self._partitions = partitions
        self.reads = 0
        """Records handed out."""
        self.recreate()

    def recreate(self):
        """Deleted, and made anew under the same name."""
        self.topic_id = secrets.token_urlsafe(16)
        self._records: list[list[LogRecord]] = [[] for _ in range(self._partitions)]
        self._ends = [0] * self._partitions
        self._open_from: list[int | None] = [None] * self._partitions
        self._old_ends: list[int | None] = [None] * self._partitions

    def append(
        self,
        topic: str,
        partition: int,
        records: Iterable[tuple[bytes, bytes | None]],
        sent: Callable[[], object] = lambda: None,
    ) -> list[int]:
        offsets = []
        for key, value in records:
            offsets.append(self._ends[partition])
            self._records[partition].append(
                LogRecord(self._ends[partition], self._ends[partition] * 1000, key, value)
            )
            self._ends[partition] += 1
        return offsets

    def skip(self, partition: int, offsets: int = 1):
        """Offsets without a record: commit markers, aborted transactions."""
        self._ends[partition] += offsets

    def replace_leader(self, partition: int):
        """What is written from here on is not in the answers of the broker that led the partition
        and is still asked."""
        self._old_ends[partition] = self._ends[partition]

    def hold_transaction(self, partition: int):
        """What is written from here on cannot be read until :meth:`release`."""
        self._open_from[partition] = self._ends[partition]

    def release(self, partition: int):
        self._open_from[partition] = None

    def compact(self, chance: random.Random):
        """Removes some of the records that a later one of the same key replaces, as Kafka does:
        never because of what an open transaction holds back, and tombstones stay (there, for a
        day)."""
        for partition, records in enumerate(self._records):
            open_from = self._open_from[partition]
            stable = [r for r in records if open_from is None or r.offset < open_from]
            latest = {record.key: record.offset for record in stable}
            kept = [r for r in stable if latest[r.key] == r.offset or chance.random() < 0.5]
            self._records[partition] = kept + records[len(stable) :]

    def log_facts(self, topic: str) -> LogFacts:
        return LogFacts("memory", self.topic_id, [0] * self._partitions, list(self._ends))

    def topic_ids(self, topic: str) -> TopicIds:
        return TopicIds("memory", self.topic_id)

    def end_offset(self, topic: str, partition: int) -> int:
        return self._ends[partition]

    def read(
        self,
        topic: str,
        partition: int,
        start: int,
        *,
        wait_seconds: float | None,
        least_end: Callable[[], int] = lambda: 0,
    ) -> list[LogRecord]:
        return [
            record
            for batch in self.batches(
                topic, partition, start, wait_seconds=wait_seconds, least_end=least_end
            )
            for record in batch
        ]

    def batches(
        self,
        topic: str,
        partition: int,
        start: int,
        *,
        wait_seconds: float | None,
        least_end: Callable[[], int] = lambda: 0,
    ) -> Generator[list[LogRecord]]:
        least = least_end() if wait_seconds is not None else 0
        open_from, old_end = self._open_from[partition], self._old_ends[partition]
        if old_end is not None and least <= old_end:
            open_from = min(old_end, self._ends[partition] if open_from is None else open_from)
        found = [
            r
            for r in self._records[partition]
            if r.offset >= start and (open_from is None or r.offset < open_from)
        ]
        self.reads += len(found)
        for first in range(0, len(found), _BATCH_RECORDS):
            yield found[first : first + _BATCH_RECORDS]
        if self._open_from[partition] is not None and wait_seconds is not None:
            raise OutcomeUnknown("a transaction is still open")
