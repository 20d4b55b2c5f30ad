"""The ledger of one pipeline on one cluster, as a log that can be read and written.

What is read is always a prefix of the log, from its beginning. With a folder (:mod:`shipper.delivery.ledger_folder`) the first
part of it may come from a snapshot, and only the rest, the *tail*, from the cluster; who asks cannot tell the difference.
"""

from __future__ import annotations

import copy
import logging
import threading
from collections.abc import Collection, Iterable, Sequence

from shipper.config.models import Cluster
from shipper.delivery.ledger_folder import LedgerFolder
from shipper.errors import ArchiveMissing, ClusterError
from shipper.ledger.control import Control, standing
from shipper.ledger.records import CHUNKS, CONTROL, PARTITIONS, Archive
from shipper.ledger.shards import Manifest, Origin, Unusable
from shipper.ledger.state import FileRecords, LedgerRecords, LedgerState, add_up
from shipper.producer.client import ClusterClient, LogFacts
from shipper.terms import LogRecord

log = logging.getLogger("shipper.ledger")

#: A tail of fewer records is read so quickly (some 30 ms) that a new snapshot is not worth its writing.
LONG_TAIL_RECORDS = 2_000
#: Records held in memory at once while a snapshot is made.
_SLICE_RECORDS = 200_000

SETTINGS = {"cleanup.policy": "compact", "message.timestamp.type": "LogAppendTime"}


class LedgerLog:
    """Reading and writing; what the records mean is :mod:`shipper.ledger`'s."""

    def __init__(self, client: ClusterClient, cluster: Cluster, pipeline: str, folder: LedgerFolder | None = None) -> None:
        self._client = client
        self._cluster = cluster
        self._folder = folder
        self.pipeline = pipeline
        self.topic = cluster.ledger_topic(pipeline)
        self._lock = threading.Lock()
        self._looked_for_snapshot = False
        self._snapshot: Manifest | None = None
        self._control: Control | None = None
        self._control_end = 0
        self._seen: int | None = None
        """Records that were read from the topic so far, by their offsets; None: nobody has read it."""

    def exists(self) -> bool:
        """Whether the topic is there. Raises ClusterError if it is there but cannot serve as a ledger."""
        facts = self._client.facts([self.topic]).get(self.topic)
        if facts is None:
            return False
        faults = [
            f"{key} is {facts.settings.get(key)!r}, not {want!r}"
            for key, want in SETTINGS.items()
            if facts.settings.get(key) != want
        ]
        if facts.partitions != PARTITIONS:
            faults.append(f"it has {facts.partitions} partitions, not {PARTITIONS}")
        if faults:
            raise ClusterError(
                f"cluster {self._cluster.name}: topic {self.topic} cannot be the ledger of {self.pipeline}: {'; '.join(faults)}. "
                "Alter the topic, or name another one in `ledger.topic`."
            )
        return True

    def ensure(self) -> None:
        """Creates the topic if it is not there. Raises ClusterError."""
        if not self.exists():
            self.create()

    def create(self) -> None:
        """Creates the topic if the cluster's config allows it. Raises ClusterError."""
        if not self._cluster.ledger.create:
            raise ClusterError(
                f"cluster {self._cluster.name}: the ledger topic {self.topic} is missing and `ledger.create` is false. Create it with "
                f"{PARTITIONS} partitions and {', '.join(f'{k}={v}' for k, v in SETTINGS.items())}."
            )
        self._client.create_topics({self.topic: PARTITIONS}, SETTINGS, self._cluster.ledger.replication_factor)

    def connect(self, partitions: Sequence[int] = (CONTROL, CHUNKS)) -> None:
        """So that the first write and the first reads do not wait for connections. Optional; never raises."""
        self._client.connect(self.topic, partitions)

    def control(self) -> Control:
        """The control partition to its end. Nothing in it is transactional, so this never waits for anybody.

        Asked again it reads what is new. Safe to call from several threads; each gets a copy of its own.
        """
        with self._lock:
            if self._control is None:
                snapshot = self._find_snapshot()
                self._control = Control(self.pipeline).feed(snapshot.standing if snapshot else ())
                self._control_end = snapshot.control_end if snapshot else 0
            records = self._read_control(self._control_end)
            self._control.feed(records)
            self._control_end = _behind(records, self._control_end)
            return copy.deepcopy(self._control)

    def state(self, paths: Collection[str] | None = None, *, wait_seconds: float | None) -> LedgerState:
        """What the ledger says of the files ``paths`` (None: of all). See ClusterClient.batches for ``wait_seconds``.

        Raises ClusterError, OutcomeUnknown, ArchiveMissing.
        """
        return add_up(self.records(paths, wait_seconds=wait_seconds))

    def records_of_topic(self, *, wait_seconds: float | None) -> LedgerRecords:
        """Read from the topic's first record on, whatever snapshot there is."""
        return self._records(None, None, wait_seconds)

    def records(self, paths: Collection[str] | None = None, *, wait_seconds: float | None) -> LedgerRecords:
        """What :meth:`state` adds up."""
        wanted = None if paths is None else frozenset(paths)
        snapshot = self.snapshot()
        try:
            return self._records(snapshot, wanted, wait_seconds)
        except Unusable as why:
            self._forget_snapshot(str(why))
            return self._records(None, wanted, wait_seconds)

    def _records(self, snapshot: Manifest | None, paths: frozenset[str] | None, wait_seconds: float | None) -> LedgerRecords:
        control = Control(self.pipeline)
        files = FileRecords(self.pipeline, paths)
        if snapshot and self._folder:
            control.feed(snapshot.standing)
            files.feed(snapshot.standing).feed(self._folder.snapshots.records(snapshot, paths))
        control_end = snapshot.control_end if snapshot else 0
        records = self._read_control(control_end)
        control.feed(records)
        files.feed(records)
        control_end = _behind(records, control_end)
        end = snapshot.chunks_end if snapshot else 0
        for batch in self._client.batches(self.topic, CHUNKS, end, wait_seconds=wait_seconds):
            files.feed(batch)
            end = batch[-1].offset + 1
        self._seen = control_end + end
        return LedgerRecords(files, self._archived(files.archived(), paths), control, control_end, end)

    def snapshot(self) -> Manifest | None:
        """The snapshot that reading begins with; None: reading begins at the topic's first record."""
        with self._lock:
            return self._find_snapshot()

    def _read_control(self, start: int) -> list[LogRecord]:
        return self._client.read(self.topic, CONTROL, start, wait_seconds=15.0)

    def _archived(self, archive: Archive | None, paths: frozenset[str] | None) -> list[LogRecord]:
        """Records that were moved out of the topic. Never left out silently: they would be shipped again."""
        if archive is None:
            return []
        where = f"{self._folder.archives.uri}/{archive.manifest}" if self._folder else archive.manifest
        problem = (
            f"cluster {self._cluster.name}: the ledger of {self.pipeline} has {archive.entries} records in the archive {where}, "
            "and without them shipper would send their files again"
        )
        if self._folder is None:
            raise ArchiveMissing(f"{problem}. Nothing was sent.")
        try:
            store = self._folder.archives
            return list(store.records(store.named(archive.manifest, archive.sha256), paths))
        except Unusable as why:
            raise ArchiveMissing(
                f"{problem}: {why}. Nothing was sent. Put the folder back from a backup, or let `runs_uri` name the place where it is."
            ) from why

    def _find_snapshot(self) -> Manifest | None:
        """The latest snapshot of this very topic; looked for once."""
        if self._looked_for_snapshot or self._folder is None:
            return self._snapshot
        self._looked_for_snapshot = True
        facts: LogFacts | None = None

        def misfit(found: Manifest) -> str | None:
            nonlocal facts
            facts = facts or self._client.log_facts(self.topic)
            return _misfit(found, self._origin(facts), facts)

        self._snapshot, passed_over = self._folder.snapshots.newest(misfit)
        for reason in passed_over:
            log.info("snapshot not used: %s", reason)
        if passed_over and self._snapshot is None:
            log.warning("the ledger of %s is read whole, since its snapshot cannot be used: %s", self.pipeline, passed_over[0])
        return self._snapshot

    def _forget_snapshot(self, why: str) -> None:
        log.warning("the ledger of %s is read whole, since its snapshot cannot be used: %s", self.pipeline, why)
        with self._lock:
            self._snapshot = None

    def origin(self) -> Origin:
        """Which topic it is, beyond its name."""
        return self._origin(self._client.log_facts(self.topic))

    def _origin(self, facts: LogFacts) -> Origin:
        return Origin(self.pipeline, self._cluster.name, self.topic, facts.cluster_id, facts.topic_id)

    def keep_snapshot(self, longer_than: int = LONG_TAIL_RECORDS) -> Manifest | None:
        """Writes a new snapshot if more records than that came after the last one. Returns it, or None if it was not worth it.

        May run beside a ship, or twice at once: each writes files of its own, and whichever is read later holds a prefix of the
        log. Raises ClusterError, OSError.
        """
        if self._folder is None:
            return None
        base = self.snapshot()
        if self._seen is not None and self._seen - (base.read if base else 0) <= longer_than:
            return None  # without asking the cluster once more
        facts = self._client.log_facts(self.topic)
        origin = self._origin(facts)
        if base and _misfit(base, origin, facts):
            base = None
        tail = sum(facts.ends) - (base.read if base else 0)
        if not facts.topic_id or tail <= longer_than:
            return None
        try:
            written = self._advance(self._folder, base, origin)
        except Unusable as why:
            self._forget_snapshot(str(why))
            written = self._advance(self._folder, None, origin)
        with self._lock:
            self._snapshot = written
        self._folder.snapshots.clean_up()
        return written

    def _advance(self, folder: LedgerFolder, base: Manifest | None, origin: Origin) -> Manifest:
        """``base`` with the tail on top. Stops at the first open transaction: what is behind it is not decided yet."""
        before = base.standing if base else ()
        control_end = base.control_end if base else 0
        records = self._read_control(control_end)
        control_end = _behind(records, control_end)
        about_pipeline = standing(self.pipeline, [*before, *records])
        files = FileRecords(self.pipeline).feed(before).feed(records)
        end = base.chunks_end if base else 0

        def write() -> Manifest:
            stay = [*about_pipeline, *([files.archive] if files.archive else [])]
            return folder.snapshots.write(base, files.by_path, origin, control_end, end, stay)[2]

        for batch in self._client.batches(self.topic, CHUNKS, end, wait_seconds=None):
            files.feed(batch)
            end = batch[-1].offset + 1
            if files.count >= _SLICE_RECORDS:
                base = write()
                files = FileRecords(self.pipeline, archive=files.archive)
        return write()

    def write_control(self, records: Iterable[tuple[bytes, bytes | None]]) -> list[int]:
        """Returns the records' offsets."""
        return self._client.append(self.topic, CONTROL, records)

    def chunks(self, start: int = 0, *, wait_seconds: float | None) -> list[LogRecord]:
        """Committed chunk records from offset ``start`` on; see ClusterClient.read for ``wait_seconds``."""
        records = self._client.read(self.topic, CHUNKS, start, wait_seconds=wait_seconds)
        if self._seen is not None:
            self._seen += _behind(records, start) - start
        return records

    def write_chunks(self, records: Iterable[tuple[bytes, bytes | None]]) -> list[int]:
        """Records that stand for no data (a split without records), outside any transaction."""
        return self._client.append(self.topic, CHUNKS, records)


def _behind(records: Sequence[LogRecord], start: int) -> int:
    """The offset to go on from, after reading ``records`` from ``start`` on."""
    return records[-1].offset + 1 if records else start


def _misfit(found: Manifest, origin: Origin, facts: LogFacts) -> str | None:
    """Why the snapshot is not one of this log as it is now; None if it is."""
    if not facts.topic_id:
        return (
            "the brokers give topics no id (Kafka before 2.8), so a topic that was made anew could not be told from the old one"
        )
    if found.origin != origin:
        return f"it is of another log: {found.origin}, and this is {origin}"
    for partition, end in ((CONTROL, found.control_end), (CHUNKS, found.chunks_end)):
        if not facts.starts[partition] <= end <= facts.ends[partition]:
            held = f"holds offsets {facts.starts[partition]} to {facts.ends[partition]}"
            return f"it ends at offset {end} of partition {partition}, and the topic {held}"
    return None
