"""The ledger of one pipeline on one cluster, as a log that can be read and written.

What is read is always a prefix of the log, from its beginning. With a folder (:mod:`shipper.ledger.snapshot`) the first
part of it may come from a snapshot, and only the rest, the *tail*, from the cluster; who asks cannot tell the difference.
"""

from __future__ import annotations

import copy
import logging
import threading
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress

from shipper.config.cluster import Cluster
from shipper.errors import ArchiveMissing, ClusterError, LedgerDamaged
from shipper.kafka.admin import LogFacts, TopicFacts
from shipper.kafka.client import ClusterClient
from shipper.ledger.codec import decode, encode_named_snapshot, encode_source, peek_key
from shipper.ledger.control import Control, live_records, passed_over_in, readable
from shipper.ledger.fold import FileRecords, LedgerRecords, LedgerState, add_up
from shipper.ledger.records import CHUNKS, CONTROL, PARTITIONS, Archive, NamedSnapshot, SourceRoot
from shipper.ledger.roots import Roots
from shipper.ledger.snapshot import LedgerFolder, Manifest, Origin, SnapshotUnusable, StoredManifest
from shipper.types import EncodedRecord, LogRecord, PartitionOffset

log = logging.getLogger("shipper.ledger")

#: A tail of fewer records is read so quickly (some 30 ms) that a new snapshot is not worth its writing.
LONG_TAIL_RECORDS = 2_000
#: Records held in memory at once while a snapshot is made.
_SLICE_RECORDS = 200_000

#: With three, one broker may be lost and another one be restarted.
_REPLICAS = 3
SETTINGS = {"cleanup.policy": "compact", "message.timestamp.type": "LogAppendTime"}


#: A tombstone whose key is none of a ledger's says nothing to any version, and compaction takes it away.
_BARRIER = EncodedRecord(b"barrier", None)

_NOT_NAMED = "the ledger does not name it: it is from before ledgers did, its writer was stopped, or somebody else wrote it"


class LedgerLog:
    """Reading and writing; what the records mean is :mod:`shipper.ledger`'s."""

    def __init__(
        self, client: ClusterClient, cluster: Cluster, pipeline: str, folder: LedgerFolder | None = None, control_from: int = 0
    ) -> None:
        """``control_from``: a generation; :meth:`control` then leaves out what runs said of themselves before it."""
        self._client = client
        self._cluster = cluster
        self._folder = folder
        self.pipeline = pipeline
        self.topic = cluster.ledger_topic(pipeline)
        self._facts: dict[str, TopicFacts] = {}
        self._lock = threading.Lock()
        self._ends_lock = threading.Lock()
        self._looked_for_snapshot = False
        self._snapshot: Manifest | None = None
        self._snapshot_sha256 = ""
        self._control: Control | None = None
        self._control_from = control_from
        self._control_end = 0
        self._least_ends = dict.fromkeys(range(PARTITIONS), 0)
        """Partition → where it ends at least, by what was written to it."""
        self._seen: int | None = None
        """Records that were read from the topic so far, by their offsets; None: nobody has read it."""
        self._without: frozenset[PartitionOffset] = frozenset()
        self._root: str | None = None
        self._formerly: Sequence[str] | None = None

    def lies_at(self, root: str | None, formerly: Sequence[str] | None) -> None:
        """Where the source's files lie, and lay by the configuration (None: by the ledger itself). Paths that are asked for and given
        are those under ``root``. Without it they are those under the latest root that the ledger has."""
        self._root, self._formerly = root or None, formerly

    def root_record(self, control: Control, run_id: str) -> list[EncodedRecord]:
        """What is to be written, with the lease, so that the next run knows where the files lay, should they be moved: nothing if it is there."""
        if self._root and control.sources[-1:] != [self._root]:
            return [encode_source(self.pipeline, self._root, SourceRoot(run_id))]
        return []

    def without(self, places: Iterable[PartitionOffset]) -> LedgerLog:
        """The same ledger, read as if the records at these places were not there: for who looks for damage, or mends it."""
        other = LedgerLog(self._client, self._cluster, self.pipeline, self._folder)
        other._without = frozenset(places)
        other.lies_at(self._root, self._formerly)
        return other

    @contextmanager
    def naming_damage(self) -> Iterator[None]:
        """Errors about damaged records say of which cluster and topic."""
        try:
            yield
        except LedgerDamaged as found:
            raise LedgerDamaged.at(
                self.pipeline, found.partition, found.offset, found.why, cluster=self._cluster.name, topic=self.topic
            ) from found

    @property
    def cluster(self) -> str:
        return self._cluster.name

    def exists(self) -> bool:
        """Whether the topic is there. Raises ClusterError if it is there but cannot serve as a ledger."""
        return self.exists_by(self._client.facts([self.topic]))

    def exists_by(self, known: dict[str, TopicFacts]) -> bool:
        """As :meth:`exists`, by what the cluster was asked already; :meth:`weaknesses` compares the ledger with the other topics in it."""
        self._facts = known
        facts = known.get(self.topic)
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

    def weaknesses(self) -> list[str]:
        """In what the ledger is less durable than the data that it knows of, by what :meth:`exists_by` was told. Losing it means that
        everything is sent again."""
        facts, beside = self._facts.get(self.topic), [each for topic, each in self._facts.items() if topic != self.topic]
        if facts is None:
            return []
        found = []
        most = max((each.replication for each in beside), default=0)
        if facts.replication < most or (facts.replication == 1 and facts.brokers >= _REPLICAS):
            than = (
                f"topics of this pipeline have {most}" if facts.replication < most else f"the cluster has {facts.brokers} brokers"
            )
            found.append(f"has replication factor {facts.replication}, and {than}: raise it (kafka-reassign-partitions)")
        most = max((each.min_insync for each in beside), default=0)
        if facts.min_insync < most or (facts.min_insync == 1 and facts.replication >= _REPLICAS):
            wanted = max(most, 2)
            found.append(
                f"has min.insync.replicas={facts.min_insync}: an acknowledged record may be on one broker only; set {wanted} (kafka-configs --alter "
                f"--add-config min.insync.replicas={wanted})"
            )
        return [
            f"the ledger {self.topic} on {self._cluster.name} {fault}. If it is lost, everything is sent again."
            for fault in found
        ]

    def create(self) -> None:
        """Creates the topic if the cluster's config allows it. Raises ClusterError."""
        if not self._cluster.ledger.create:
            raise ClusterError(
                f"cluster {self._cluster.name}: the ledger topic {self.topic} is missing and `ledger.create` is false. Create it with "
                f"{PARTITIONS} partitions and {', '.join(f'{k}={v}' for k, v in SETTINGS.items())}."
            )
        # The broker's default is 1 unless somebody has changed it.
        replicas = self._cluster.ledger.replication_factor or min(_REPLICAS, self._client.brokers())
        durable = {"min.insync.replicas": "2"} if replicas >= _REPLICAS else {}
        self._client.create_topics({self.topic: PARTITIONS}, SETTINGS | durable, replicas)

    def connect(self, partitions: Sequence[int] = (CONTROL, CHUNKS), *, writes: bool = True) -> None:
        """So that the first write and the first reads do not wait for connections. Optional; never raises."""
        self._client.connect(self.topic, partitions, writes=writes)

    def control(self) -> Control:
        """The control partition to its end. Nothing in it is transactional, so this never waits for anybody.

        Asked again it reads what is new. Safe to call from several threads; each gets a copy of its own.
        """
        with self._lock:
            records = None
            if self._control is None:
                snapshot = self._find_snapshot()
                records = self._read_control(max(self._control_from, snapshot.control_end if snapshot else 0))
                if snapshot and not self._names(records):
                    self._give_up_snapshot(_NOT_NAMED)
                    snapshot, records = None, self._read_control(0)
                self._control = Control(self.pipeline).feed(snapshot.standing if snapshot else ())
                self._control_end = max(self._control_from, snapshot.control_end if snapshot else 0)
            records = self._read_control(self._control_end) if records is None else records
            with self.naming_damage():
                self._control.feed(records)
            self._control_end = _end_of(records, self._control_end)
            return copy.deepcopy(self._control)

    def state(self, paths: Collection[str] | None = None, *, wait_seconds: float | None) -> LedgerState:
        """What the ledger says of the files ``paths`` (None: of all). See ClusterClient.batches for ``wait_seconds``.

        Raises ClusterError, OutcomeUnknown, ArchiveMissing, LedgerDamaged.
        """
        with self.naming_damage():
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
        except SnapshotUnusable as why:
            self._forget_snapshot(str(why))
            return self._records(None, wanted, wait_seconds)

    def _records(self, snapshot: Manifest | None, paths: frozenset[str] | None, wait_seconds: float | None) -> LedgerRecords:
        control = Control(self.pipeline)
        control_end = snapshot.control_end if snapshot else 0
        end = snapshot.chunks_end if snapshot else 0
        # Both partitions are asked at once: a far cluster takes its time for each.
        least_end = self._least_ends[CHUNKS]
        with _begun(self._client.batches(self.topic, CHUNKS, end, wait_seconds=wait_seconds, least_end=least_end)) as chunks:
            records = self._read_control(control_end)
            if snapshot and self._folder:
                if not self._names(records):
                    raise SnapshotUnusable(_NOT_NAMED)
                control.feed(snapshot.standing)
            with self.naming_damage():
                control.feed(records)
            roots = Roots.of(self._root, control.sources, self._formerly)
            names = {} if paths is None else roots.names(paths)
            wanted = None if paths is None else names.keys()
            files = FileRecords(self.pipeline, wanted, passed_over=control.passed_over)
            if snapshot and self._folder:
                files.feed(snapshot.standing).feed(self._kept(self._folder.snapshots.records(snapshot, wanted)))
            with self.naming_damage():
                files.feed(records, CONTROL)
                control_end = _end_of(records, control_end)
                for batch in chunks:
                    files.feed(self._present(CHUNKS, batch), CHUNKS)
                    end = batch[-1].offset + 1
        self._seen = control_end + end
        return LedgerRecords(files, self._archived(files.archived(), wanted), control, control_end, end, roots, names)

    def topic_records(self, partition: int) -> Iterator[LogRecord]:
        """Every committed record of the partition as it lies there, unread ones and damaged ones included."""
        for batch in self._client.batches(self.topic, partition, 0, wait_seconds=None):
            yield from self._present(partition, batch)

    def snapshot(self) -> Manifest | None:
        """The snapshot that reading begins with; None: reading begins at the topic's first record."""
        with self._lock:
            return self._find_snapshot()

    def _read_control(self, start: int) -> list[LogRecord]:
        return self._present(
            CONTROL, self._client.read(self.topic, CONTROL, start, wait_seconds=15.0, least_end=self._least_ends[CONTROL])
        )

    def _present(self, partition: int, records: list[LogRecord]) -> list[LogRecord]:
        if not self._without:
            return records
        return [record for record in records if PartitionOffset(partition, record.offset) not in self._without]

    def _kept(self, records: Iterable[LogRecord]) -> Iterable[LogRecord]:
        """Of a snapshot."""
        if not self._without:
            return records
        return [
            r
            for r in records
            if (about := peek_key(self.pipeline, r)) and PartitionOffset(about.partition, r.offset) not in self._without
        ]

    def _archived(self, archive: Archive | None, paths: Collection[str] | None) -> list[LogRecord]:
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
        except SnapshotUnusable as why:
            raise ArchiveMissing(
                f"{problem}: {why}. Nothing was sent. Put the folder back from a backup, or let `runs_uri` name the place where it is."
            ) from why

    def _find_snapshot(self) -> Manifest | None:
        """The latest snapshot of this very topic; looked for once."""
        if self._looked_for_snapshot or self._folder is None:
            return self._snapshot
        self._looked_for_snapshot = True
        if not self._folder.snapshots.any():
            return None
        facts = self._client.log_facts(self.topic)
        origin = self._origin(facts)
        found, passed_over = self._folder.snapshots.newest(lambda found: _mismatch(found, origin, facts), facts.topic_id)
        if found:
            self._snapshot, self._snapshot_sha256 = found.manifest, found.sha256
        for reason in passed_over:
            log.info("snapshot not used: %s", reason)
        if passed_over and self._snapshot is None:
            log.warning("the ledger of %s is read whole, since its snapshot cannot be used: %s", self.pipeline, passed_over[0])
        return self._snapshot

    def _forget_snapshot(self, why: str) -> None:
        with self._lock:
            self._give_up_snapshot(why)

    def _give_up_snapshot(self, why: str) -> None:
        log.warning("the ledger of %s is read whole, since its snapshot cannot be used: %s", self.pipeline, why)
        self._snapshot = None

    def _names(self, control: Iterable[LogRecord]) -> bool:
        """Whether what came after the snapshot in the control partition names it. Who can write beside the runs cannot write there."""
        for record in control:
            if record.key.startswith(b'["kept"'):
                with suppress(LedgerDamaged):
                    match decode(self.pipeline, record):
                        case (None, NamedSnapshot() as named) if named.sha256 == self._snapshot_sha256:
                            return True
        return False

    def origin(self) -> Origin:
        """Which topic it is, beyond its name. Raises ClusterError."""
        return Origin(self.pipeline, self._cluster.name, self.topic, *self._client.topic_ids(self.topic))

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
        covered = base.read + 1 if base else 0  # one record says that there is the snapshot
        if self._seen is not None and self._seen - covered <= longer_than:
            return None  # without asking the cluster once more
        facts = self._client.log_facts(self.topic)
        origin = self._origin(facts)
        if base and _mismatch(base, origin, facts):
            base = None
        tail = sum(facts.ends) - (covered if base else 0)
        if not facts.topic_id or tail <= longer_than:
            return None
        with self.naming_damage():
            try:
                written = self._advance(self._folder, base, origin)
            except SnapshotUnusable as why:
                self._forget_snapshot(str(why))
                written = self._advance(self._folder, None, origin)
        self.write_control([encode_named_snapshot(self.pipeline, NamedSnapshot(written.name, written.sha256))])
        with self._lock:
            self._snapshot, self._snapshot_sha256 = written.manifest, written.sha256
        self._folder.snapshots.clean_up(origin.topic_id)
        return written.manifest

    def _advance(self, folder: LedgerFolder, base: Manifest | None, origin: Origin) -> StoredManifest:
        """``base`` with the tail on top. Stops at the first open transaction: what is behind it is not decided yet."""
        before = base.standing if base else ()
        control_end = base.control_end if base else 0
        records = self._read_control(control_end)
        if base and not self._names(records):
            raise SnapshotUnusable(_NOT_NAMED)
        control_end = _end_of(records, control_end)
        about_pipeline = live_records(self.pipeline, [*before, *records])
        passed_over = passed_over_in(self.pipeline, about_pipeline)
        files = FileRecords(self.pipeline, passed_over=passed_over).feed(before).feed(records, CONTROL)
        end = base.chunks_end if base else 0

        def write() -> StoredManifest:
            stay = [*about_pipeline, *([files.archive] if files.archive else [])]
            return folder.snapshots.write(base, files.by_path, origin, control_end, end, stay)

        for batch in self._client.batches(self.topic, CHUNKS, end, wait_seconds=None):
            files.feed(batch, CHUNKS)
            end = batch[-1].offset + 1
            if files.count >= _SLICE_RECORDS:
                base = write().manifest
                files = FileRecords(self.pipeline, archive=files.archive, passed_over=passed_over)
        return write()

    def write_control(self, records: Iterable[EncodedRecord]) -> list[int]:
        """Returns the records' offsets."""
        return self._append(CONTROL, records)

    def barrier(self, partition: int) -> None:
        """Before a read that decides what is sent. A broker that was replaced as the leader, and does not know it yet (it was paused, or cut off
        from the others), answers with what it had then; it cannot acknowledge a record. So one is written, which says nothing, and what is
        read afterwards goes as far as that, whoever answers. Raises ClusterError."""
        self._append(partition, [_BARRIER])

    def _append(self, partition: int, records: Iterable[EncodedRecord]) -> list[int]:
        offsets = self._client.append(self.topic, partition, records)
        with self._ends_lock:
            self._least_ends[partition] = max([self._least_ends[partition], *(offset + 1 for offset in offsets)])
        return offsets

    def chunks(self, start: int = 0, *, wait_seconds: float | None) -> list[LogRecord]:
        """Committed chunk records from offset ``start`` on, all of which can be decoded; see ClusterClient.read for ``wait_seconds``.
        Raises LedgerDamaged."""
        records = self._client.read(self.topic, CHUNKS, start, wait_seconds=wait_seconds, least_end=self._least_ends[CHUNKS])
        if self._seen is not None:
            self._seen += _end_of(records, start) - start
        found = []
        for record in records:
            try:
                decode(self.pipeline, record)
            except LedgerDamaged:
                with self.naming_damage():
                    readable(self.pipeline, record, CHUNKS, self.control().passed_over)
                continue
            found.append(record)
        return found

    def write_chunks(self, records: Iterable[EncodedRecord]) -> list[int]:
        """Records that stand for no data (a split without records), outside any transaction."""
        return self._append(CHUNKS, records)


def _end_of(records: Sequence[LogRecord], start: int) -> int:
    """The offset to go on from, after reading ``records`` from ``start`` on."""
    return records[-1].offset + 1 if records else start


def _mismatch(found: Manifest, origin: Origin, facts: LogFacts) -> str | None:
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


@contextmanager
def _begun(batches: Generator[list[LogRecord]]) -> Iterator[Iterator[list[LogRecord]]]:
    """Asks for the first one at once, in a thread of its own."""
    with closing(batches), ThreadPoolExecutor(1, thread_name_prefix="read") as meanwhile:
        first = meanwhile.submit(next, batches, None)

        def found() -> Iterator[list[LogRecord]]:
            if (batch := first.result()) is not None:
                yield batch
                yield from batches

        yield found()
