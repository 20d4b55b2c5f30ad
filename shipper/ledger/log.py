"""The ledger of one pipeline on one cluster, as a log that can be read and written.

Every read returns a prefix of the log, from its beginning. With a folder
(:mod:`shipper.ledger.snapshot`) the first part of it may come from a snapshot, and only the rest,
the *tail*, from the cluster; the caller cannot tell the difference.

There are two ways to ask the same questions:

* :meth:`LedgerLog.decide` for whoever then sends, or leaves something out. A broker that was
  replaced as a partition's leader and does not know it yet (it was paused, or cut off from the
  others) answers with what it had then; but it cannot acknowledge a record. So ``decide`` writes a
  record and reads until it meets that record, whoever answers (docs/adr/0027). Both go out at once:
  where the read begins does not matter. It waits for the ledger as long as `delivery.metadata_wait`
  allows for any topic, and reads only what is new since it was last asked.
* :meth:`LedgerLog.look` for plans, people and pictures. It writes nothing and waits for nobody.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from hashlib import blake2b
from itertools import chain
from typing import Generic, NamedTuple, TypeVar

from shipper import runtime
from shipper.config.cluster import Cluster
from shipper.config.units import plural
from shipper.errors import (
    ClusterError,
    ClusterRefuses,
    LedgerDamaged,
    LedgerGone,
    LedgerOutdated,
    OutcomeUnknown,
    TopicMissing,
)
from shipper.finding import Finding, warn
from shipper.kafka.admin import LogFacts, TopicFacts, TopicIds
from shipper.kafka.client import ClusterClient
from shipper.kafka.outcomes import GRANT_SECONDS
from shipper.ledger.codec import (
    FORMER_FORMAT,
    Damage,
    decode_sound,
    encode_named_snapshot,
)
from shipper.ledger.control import Control
from shipper.ledger.fold import FileRecords, LedgerRecords, LedgerState, add_up
from shipper.ledger.heads import Heads
from shipper.ledger.records import (
    CHUNKS,
    CONTROL,
    PARTITIONS,
    Archive,
    ChunkKey,
    ChunkValue,
    Entry,
    NamedSnapshot,
)
from shipper.ledger.roots import Roots
from shipper.ledger.snapshot import LedgerFolder, Manifest, Origin, SnapshotUnusable, StoredManifest
from shipper.types import Decided, EncodedRecord, LogRecord, PartitionOffset

log = logging.getLogger("shipper.ledger")

#: A tail with fewer records is read so quickly (some 30 ms) that a new snapshot is not worth
#: writing.
LONG_TAIL_RECORDS = 2_000
#: Records held in memory at once while a snapshot is made.
_SLICE_RECORDS = 200_000

#: With three replicas, one broker may be lost and another one be restarted.
_REPLICAS = 3
SETTINGS = {"cleanup.policy": "compact", "message.timestamp.type": "LogAppendTime"}


#: A tombstone whose key is not a ledger's means nothing to any version, and compaction removes it.
_BARRIER = EncodedRecord(b"barrier", None)
_CONTROL_SECONDS = 15.0
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.1, 5.0

_NOT_NAMED = "the ledger does not name it: its writer was stopped, or another program wrote it"

T = TypeVar("T")


@dataclass(frozen=True)
class Patience:
    """Time limits of a deciding read, in seconds."""

    transactions: float = 60.0
    """Wait for transactions that are open below the barrier: at most their timeout."""
    ledger: float = 0.0
    """Wait for the ledger's topic to be readable and writable again: `delivery.metadata_wait`, as
    for any other topic."""

    @classmethod
    def of(cls, transaction_timeout_seconds: float, metadata_wait_seconds: float) -> Patience:
        return cls(transaction_timeout_seconds + 15, metadata_wait_seconds)


class CommittedKeys:
    """Keys of the chunks that are on the cluster. Only grows. A key is kept as 16 bytes of its
    BLAKE2b hash: a ship of 10 TB has a million."""

    def __init__(self) -> None:
        self._hashes: set[bytes] = set()

    def add(self, records: Iterable[LogRecord]) -> None:
        self._hashes.update(_hash(record.key) for record in records if record.value is not None)

    def __contains__(self, key: object) -> bool:
        return isinstance(key, bytes) and _hash(key) in self._hashes


def _hash(key: bytes) -> bytes:
    return blake2b(key, digest_size=16).digest()


class Written(NamedTuple):
    """Proof that this process wrote to a partition: a read that reaches these offsets needs no
    other barrier."""

    partition: int
    offsets: list[int]


@dataclass(frozen=True)
class LedgerQuestion(Generic[T]):
    """Question to a ledger, see :meth:`LedgerLog.decide` and :meth:`LedgerLog.look`."""

    partitions: tuple[int, ...]
    """Partitions that the answer is read from."""
    answer: Callable[[LedgerLog, float | None], T]
    """Function that answers it. For the seconds to wait see ClusterClient.batches."""


#: Who holds the lease, and which generation and attempts may ship.
CONTROL_NOW = LedgerQuestion((CONTROL,), lambda ledger, _: ledger._control_now())


def ask_committed(start: int) -> LedgerQuestion[list[Entry]]:
    """Ask which chunks were committed from an offset on."""
    return LedgerQuestion((CHUNKS,), lambda ledger, wait: ledger._committed_since(start, wait))


def ask_committed_keys(start: int) -> LedgerQuestion[CommittedKeys]:
    """Ask for the chunks' keys alone. Asked again, the ledger reads only what is new, and decodes
    nothing."""
    return LedgerQuestion((CHUNKS,), lambda ledger, wait: ledger._committed_keys(start, wait))


def ask_files(
    paths: Collection[str] | None = None, heads: Collection[str] = frozenset()
) -> LedgerQuestion[LedgerRecords]:
    """Ask for all records about some files (None: about all), and which files, of all, have one of
    ``heads``."""
    return LedgerQuestion(
        (CONTROL, CHUNKS), lambda ledger, wait: ledger._records_of(paths, heads, wait)
    )


def ask_state(
    paths: Collection[str] | None = None, heads: Collection[str] = frozenset()
) -> LedgerQuestion[LedgerState]:
    """Ask for the sum of what :func:`ask_files` asks for."""
    files = ask_files(paths, heads)
    return LedgerQuestion(files.partitions, lambda ledger, wait: add_up(files.answer(ledger, wait)))


def ask_heads(wanted: Collection[str]) -> LedgerQuestion[Heads]:
    """Ask which files of the ledger have one of these heads."""
    files = ask_files((), wanted)
    return LedgerQuestion(files.partitions, lambda ledger, wait: files.answer(ledger, wait).alike)


def ask_partition(partition: int) -> LedgerQuestion[list[LogRecord]]:
    """Ask for every committed record of a partition as it lies there, damaged ones included."""
    return LedgerQuestion((partition,), lambda ledger, wait: ledger._read(partition, 0, wait))


class LedgerLog:
    """Log of a ledger: reads and writes; what the records mean is :mod:`shipper.ledger`'s."""

    def __init__(
        self,
        client: ClusterClient,
        cluster: Cluster,
        pipeline: str,
        folder: LedgerFolder | None = None,
        generation: int = 0,
        patience: Patience | None = None,
    ) -> None:
        """Make the log. ``generation``: the one that asks; the control partition is then read from
        there on."""
        self._client = client
        self.cluster = cluster
        self.folder = folder
        self.pipeline = pipeline
        self.topic = cluster.ledger_topic(pipeline)
        self._patience = patience or Patience()
        self._hurried = runtime.Event()
        self._facts: dict[str, TopicFacts] = {}
        self._lock, self._control_lock = runtime.Lock(), runtime.Lock()
        self._ends_lock = runtime.Lock()
        self._looked_for_snapshot = False
        self._snapshot: StoredManifest | None = None
        self._unusable: dict[str, str] = {}
        """Name of a snapshot's manifest → reason why it cannot be used."""
        self._control: Control | None = None
        self._generation = generation
        self._control_end = 0
        self._keys_lock = runtime.Lock()
        self._keys, self._keys_end = CommittedKeys(), 0
        self._least_ends = dict.fromkeys(range(PARTITIONS), 0)
        """Partition → lower bound of its end, from records written to it."""
        self._being_written: list[tuple[int, runtime.Future[list[int]]]] = []
        """Writes under way, each with its partition."""
        self.ack_seconds: float | None = None
        """Shortest time in which a write was acknowledged; None: nothing was written."""
        self._seen: int | None = None
        """Records that were read from the topic so far, by their offsets; None: nothing was
        read."""
        self._ignored: frozenset[PartitionOffset] = frozenset()
        self.root: str | None = None
        self._formerly: Sequence[str] | None = None

    def lies_at(self, root: str | None, formerly: Sequence[str] | None) -> None:
        """Tell where the source's files lie, and lay by the configuration (None: by the ledger
        itself). Paths that are asked for and given are those under ``root``. Without it they are
        those under the latest root that the ledger has."""
        self.root, self._formerly = root or None, formerly

    def reaches(self, chunks_end: int) -> None:
        """Tell that the chunk partition is known to end there or later: a read that waits goes so
        far."""
        with self._ends_lock:
            self._least_ends[CHUNKS] = max(self._least_ends[CHUNKS], chunks_end)

    def ignoring(self, places: Iterable[PartitionOffset]) -> LedgerLog:
        """Return the same ledger, which skips these damaged records: to look for damage, or to
        repair it."""
        other = LedgerLog(
            self._client, self.cluster, self.pipeline, self.folder, patience=self._patience
        )
        other._ignored = frozenset(places)
        other.lies_at(self.root, self._formerly)
        return other

    def of_generation(self, generation: int) -> LedgerLog:
        """Return the same ledger for a question of the run that took over with this generation:
        nothing is known of it yet, and its control partition is read from the run's own record on.
        A topic that was made anew meanwhile does not hold that."""
        other = LedgerLog(
            self._client, self.cluster, self.pipeline, None, generation, self._patience
        )
        other._hurried = self._hurried
        return other

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Name the cluster and the topic in errors about records."""
        try:
            yield
        except LedgerDamaged as found:
            raise found.in_ledger(self.cluster.name, self.topic) from found
        except LedgerOutdated as found:
            raise LedgerOutdated.of(
                self.pipeline, cluster=self.cluster.name, topic=self.topic
            ) from found

    def _refuse(self, damaged: Mapping[bytes, Damage], control: Control | None = None) -> None:
        """Raise LedgerDamaged for the first record that is not repaired. A later sound record of
        the same key, or a tombstone, repairs it. Raises LedgerOutdated if a development version
        wrote the whole ledger: no run of this format has begun."""
        for one in damaged.values():
            if one.place not in self._ignored:
                if control is not None and control.generation < 0 and one.why == FORMER_FORMAT:
                    raise LedgerOutdated.of(self.pipeline)
                raise LedgerDamaged.at(self.pipeline, *one.place, one.why)

    # Asking.

    def decide(self, question: LedgerQuestion[T], after: Written | None = None) -> Decided[T]:
        """Answer for a decision what is sent, see the module's docstring. This is the only read
        that a decision can rest on.

        ``after``: a record that this process wrote a moment ago, instead of a barrier. Raises
        ClusterError or OutcomeUnknown when `delivery.metadata_wait` is over, and at once for errors
        that waiting does not change: LedgerDamaged, LedgerOutdated, LedgerGone. A missing right
        is waited for as long as one that a lane lacks (GRANT_SECONDS).
        """
        began, pause = runtime.monotonic(), _FIRST_PAUSE_SECONDS
        while True:
            try:
                barriers = {
                    part: [_BARRIER]
                    for part in question.partitions
                    if after is None or part != after.partition
                }
                with self.writing(barriers), self._named():
                    return Decided(question.answer(self, self._patience.transactions))
            except (ClusterError, OutcomeUnknown) as error:
                refused = type(error) is ClusterRefuses
                patience = (
                    min(GRANT_SECONDS, self._patience.ledger) if refused else self._patience.ledger
                )
                over = runtime.monotonic() + pause > began + patience
                if over or self._hurried.is_set() or not (error.retriable or refused):
                    raise
                log.info("the ledger %s cannot be read for a decision yet: %s", self.topic, error)
            self._hurried.wait(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    def look(self, question: LedgerQuestion[T], wait_seconds: float | None = None) -> T:
        """Answer for a plan, a person or a picture: what can be read now. Nothing may be sent or
        left out by it. See ClusterClient.batches for ``wait_seconds``. Raises ClusterError,
        OutcomeUnknown, LedgerGone, LedgerDamaged, LedgerOutdated."""
        with self._named():
            return question.answer(self, wait_seconds)

    def hurry(self) -> None:
        """Make every :meth:`decide`, now and later, raise instead of waiting for the ledger: its
        caller is to stop."""
        self._hurried.set()

    @contextmanager
    def writing(self, records: Mapping[int, Iterable[EncodedRecord]]) -> Iterator[None]:
        """Write records, by partition, while the ``with`` block reads: each takes a round trip. A
        read that waits meets them. Raises the fault of a write, whatever the block raises."""
        with runtime.ThreadPoolExecutor(PARTITIONS, thread_name_prefix="write") as together:

            def begin(
                partition: int, several: Iterable[EncodedRecord]
            ) -> runtime.Future[list[int]]:
                # A fetch that comes before the record finds nothing, and takes two round trips.
                sent = runtime.Event()
                done = together.submit(self._append, partition, several, sent.set)
                done.add_done_callback(lambda _: sent.set())
                sent.wait()
                return done

            begun = [
                (partition, begin(partition, several)) for partition, several in records.items()
            ]
            with self._ends_lock:
                self._being_written = [*self._being_written, *begun]
            try:
                yield
            finally:
                with self._ends_lock:
                    self._being_written = [one for one in self._being_written if one not in begun]
                for _, done in begun:
                    done.result()

    def _least_end(self, partition: int) -> int:
        """Return the offset up to which a read that waits must go, once all is written that is
        being written. Whoever writes hears of faults."""
        with self._ends_lock:
            begun = [done for each, done in self._being_written if each == partition]
        for done in begun:
            done.exception()
        return self._least_ends[partition]

    def exists(self) -> bool:
        """Return True if the topic exists. Raises ClusterError if it is there but cannot serve as a
        ledger."""
        return self.exists_by(self._client.facts([self.topic]))

    def exists_by(self, known: dict[str, TopicFacts]) -> bool:
        """Return what :meth:`exists` returns, by what the cluster was asked already;
        :meth:`weaknesses` compares the ledger with the other topics in ``known``."""
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
            faults.append(f"it has {plural(facts.partitions, 'partition')}, not {PARTITIONS}")
        if faults:
            raise ClusterRefuses(
                f"cluster {self.cluster.name}: topic {self.topic} cannot be the ledger of "
                f"{self.pipeline}: {'; '.join(faults)}. Nothing was sent. Alter the topic, or "
                "name another one in `ledger.topic`.",
                code="SHIP-505",
            )
        return True

    def weaknesses(self) -> list[Finding]:
        """Return in what the ledger is less durable than the data that it accounts for, by the
        answers to :meth:`exists_by`. If the ledger is lost, everything is sent again."""
        facts = self._facts.get(self.topic)
        beside = [each for topic, each in self._facts.items() if topic != self.topic]
        if facts is None:
            return []
        found = []
        most = max((each.replication for each in beside), default=0)
        if facts.replication < most or (facts.replication == 1 and facts.brokers >= _REPLICAS):
            than = (
                f"topics of this pipeline have {most}"
                if facts.replication < most
                else f"the cluster has {plural(facts.brokers, 'broker')}"
            )
            found.append(
                (
                    f"has replication factor {facts.replication}, and {than}",
                    "raise it (kafka-reassign-partitions)",
                )
            )
        most = min(max((each.min_insync for each in beside), default=0), facts.replication)
        if facts.min_insync < most or (facts.min_insync == 1 and facts.replication >= _REPLICAS):
            wanted = max(most, 2)
            found.append(
                (
                    f"has min.insync.replicas={facts.min_insync}: an acknowledged record may be on "
                    "one broker only",
                    f"set {wanted} (kafka-configs --alter --add-config "
                    f"min.insync.replicas={wanted})",
                )
            )
        if facts.replication > 1 and facts.settings.get("unclean.leader.election.enable") == "true":
            found.append(
                (
                    "has unclean.leader.election.enable=true: a replica without its last records "
                    "may become leader, and those records are gone",
                    "set false (kafka-configs --alter --add-config "
                    "unclean.leader.election.enable=false)",
                )
            )
        lost = "If the ledger is lost, everything is sent again."
        return [
            warn(
                f"the ledger {self.topic} {fault}. {lost}", remedy,
                code="ledger", cluster=self.cluster.name, subject=self.topic,
            )
            for fault, remedy in found
        ]  # fmt: skip

    def create(self) -> None:
        """Create the topic if the cluster's configuration allows that. Raises ClusterError."""
        if not self.cluster.ledger.create:
            raise ClusterError(
                f"cluster {self.cluster.name}: the ledger topic {self.topic} is missing, and "
                "`ledger.create` is false. Nothing was sent. Create the topic with "
                f"{PARTITIONS} partitions and "
                f"{', '.join(f'{k}={v}' for k, v in SETTINGS.items())}.",
                code="SHIP-506",
            )
        # The broker's default is 1 unless somebody has changed it.
        replicas = self.cluster.ledger.replication_factor or min(_REPLICAS, self._client.brokers())
        durable = {"min.insync.replicas": "2"} if replicas >= _REPLICAS else {}
        self._client.create_topics({self.topic: PARTITIONS}, SETTINGS | durable, replicas)

    def connect(
        self, partitions: Sequence[int] = (CONTROL, CHUNKS), *, writes: bool = True
    ) -> None:
        """Connect, so that the first write and the first reads do not wait for connections.
        Optional; never raises."""
        self._client.connect(self.topic, partitions, writes=writes)

    def _control_now(self) -> Control:
        """Return the control partition to its end. Nothing in it is transactional, so this never
        waits for anybody.

        Asked again, it reads what is new. Safe to call from several threads; each gets a copy of
        its own.
        """
        with self._control_lock:
            if self._control is None:
                self._control, _, self._control_end = self._from_snapshot(
                    lambda stored: self._control_behind(stored, self._generation)
                )
            else:
                records = self._read_control(self._control_end)
                self._control.feed(records)
                self._control_end = _end_of(records, self._control_end)
                self._refuse(self._control.damaged, self._control)
            return self._control.copy()

    def _control_behind(
        self, stored: StoredManifest | None, start: int = 0
    ) -> tuple[Control, list[LogRecord], int]:
        """Return the control partition with the snapshot, the records behind that from ``start``
        on, and where they end. Raises SnapshotUnusable if none of them names the snapshot: a writer
        beside the runs may not be able to write there."""
        snapshot = stored.manifest if stored else None
        end = max(start, snapshot.control_end if snapshot else 0)
        records = self._read_control(end)
        control = Control(self.pipeline).feed(snapshot.standing if snapshot else ()).feed(records)
        if stored and stored.sha256 not in control.snapshots:
            raise SnapshotUnusable(_NOT_NAMED)
        self._refuse(control.damaged, control)
        return control, records, _end_of(records, end)

    def records_of_topic(self, *, wait_seconds: float | None) -> LedgerRecords:
        """Look at the topic from its first record on, whatever snapshot there is."""
        with self._named():
            return self._records(None, None, frozenset(), wait_seconds)

    def _records_of(
        self, paths: Collection[str] | None, heads: Collection[str], wait_seconds: float | None
    ) -> LedgerRecords:
        wanted, begin = None if paths is None else frozenset(paths), frozenset(heads)
        return self._from_snapshot(
            lambda stored: self._records(stored, wanted, begin, wait_seconds)
        )

    def _from_snapshot(self, read: Callable[[StoredManifest | None], T]) -> T:
        """Read with the latest snapshot that turns out to be usable, or with none."""
        while True:
            with self._lock:
                stored = self._find_snapshot()
            try:
                return read(stored)
            except SnapshotUnusable as why:
                if stored is None:
                    raise
                with self._lock:
                    self._pass_over(stored, str(why))

    def _records(
        self,
        stored: StoredManifest | None,
        paths: frozenset[str] | None,
        heads: frozenset[str],
        wait_seconds: float | None,
    ) -> LedgerRecords:
        """Read in one pass, which keeps no more than is asked for, however large the ledger is."""
        snapshot = stored.manifest if stored else None
        end = snapshot.chunks_end if snapshot else 0
        # Both partitions are asked at once: a far cluster takes its time for each.
        with _begun(self._batches(CHUNKS, end, wait_seconds)) as chunks:
            control, records, control_end = self._control_behind(stored)
            roots = Roots.of(self.root, control.sources, self._formerly)
            names = {} if paths is None else roots.names(paths)
            wanted = None if paths is None else names.keys()
            files = FileRecords(self.pipeline, wanted, ignored=self._ignored)
            alike = Heads(self.pipeline, heads, roots)
            if snapshot and self.folder:
                files.feed(snapshot.standing).feed(self.folder.snapshots.records(snapshot, wanted))
                alike.feed(self.folder.snapshots.beginning_like(snapshot, alike))
            files.feed(records, CONTROL)
            for batch in chunks:
                files.feed(batch, CHUNKS)
                alike.feed(batch)
                end = batch[-1].offset + 1
        self._refuse(files.damaged)
        self._seen = control_end + end
        archive = files.archived()
        archived = self._archived(archive, wanted)
        alike.feed(self._archived(archive, alike))
        told = self.cluster.name, self.topic
        return LedgerRecords(files, archived, alike, control, control_end, end, roots, names, *told)

    def snapshot(self) -> Manifest | None:
        """Return the snapshot with which reading begins; None: reading begins at the topic's first
        record."""
        with self._lock:
            stored = self._find_snapshot()
        return stored.manifest if stored else None

    def _read_control(self, start: int) -> list[LogRecord]:
        return self._read(CONTROL, start, _CONTROL_SECONDS)

    def _read(self, partition: int, start: int, wait_seconds: float | None) -> list[LogRecord]:
        return list(chain.from_iterable(self._batches(partition, start, wait_seconds)))

    def _batches(
        self, partition: int, start: int, wait_seconds: float | None
    ) -> Generator[list[LogRecord]]:
        """See ClusterClient.batches. What this process wrote is in there."""
        with self._there():
            yield from self._client.batches(
                self.topic,
                partition,
                start,
                wait_seconds=wait_seconds,
                least_end=lambda: self._least_end(partition),
            )

    @contextmanager
    def _there(self) -> Iterator[None]:
        try:
            yield
        except TopicMissing as error:
            raise LedgerGone.meanwhile(self.cluster.name, self.topic) from error

    def _archived(
        self, archive: Archive | None, wanted: Collection[str] | Heads | None
    ) -> list[LogRecord]:
        """Return records that were moved out of the topic: of the paths ``wanted``, of files with
        the heads ``wanted``, or all. They are never left out silently: they would be shipped again.
        """
        if archive is None:
            return []
        where = (
            f"{self.folder.archives.uri}/{archive.manifest}" if self.folder else archive.manifest
        )
        problem = (
            f"cluster {self.cluster.name}: the ledger of {self.pipeline} has "
            f"{plural(archive.entries, 'record')} in the archive {where}, and without them "
            "shipper would send their files again"
        )
        if self.folder is None:
            raise LedgerGone(f"{problem}. Nothing was sent.", code="SHIP-504")
        try:
            store = self.folder.archives
            manifest = store.named(archive.manifest, archive.sha256)
            return list(
                store.beginning_like(manifest, wanted)
                if isinstance(wanted, Heads)
                else store.records(manifest, wanted)
            )
        except SnapshotUnusable as why:
            raise LedgerGone(
                f"{problem}: {why}. Nothing was sent. Restore the folder from a backup, or let "
                "`runs_uri` name the place where it is.",
                code="SHIP-504",
            ) from why

    def _find_snapshot(self) -> StoredManifest | None:
        """Return the latest snapshot of this very topic, as far as is known; looked for once, and
        again when it turned out to be unusable."""
        if self._looked_for_snapshot or self.folder is None:
            return self._snapshot
        self._looked_for_snapshot = True
        if not self.folder.snapshots.any():
            return None
        facts = self._client.log_facts(self.topic)
        origin = self._origin(facts)
        self._snapshot, passed_over = self.folder.snapshots.newest(
            lambda name, found: self._unusable.get(name) or _mismatch(found, origin, facts),
            facts.topic_id,
        )
        for reason in passed_over:
            log.info("snapshot not used: %s", reason)
        if passed_over and self._snapshot is None:
            log.warning(
                "the ledger of %s is read whole, since its snapshot cannot be used: %s",
                self.pipeline,
                passed_over[0],
            )
        return self._snapshot

    def _pass_over(self, stored: StoredManifest, why: str) -> None:
        """Use the next older snapshot from now on."""
        self._unusable[stored.name] = why
        if self._snapshot is stored:
            self._snapshot, self._looked_for_snapshot = None, False

    def was_written(self) -> bool:
        """Return True if the topic has, or ever had, a record. Raises ClusterError."""
        return any(self._client.log_facts(self.topic).ends)

    def origin(self) -> Origin:
        """Return the topic's identity, beyond its name. Raises ClusterError."""
        return self._origin(self._client.topic_ids(self.topic))

    def _origin(self, of: LogFacts | TopicIds) -> Origin:
        return Origin(self.pipeline, self.cluster.name, self.topic, of.cluster_id, of.topic_id)

    def keep_snapshot(self, longer_than: int = LONG_TAIL_RECORDS) -> Manifest | None:
        """Write a new snapshot if more than ``longer_than`` records came after the last one.
        Returns it, or None if it was not worth it.

        May run beside a ship, or twice at once: each writes files of its own, and whichever is read
        later holds a prefix of the log. Raises ClusterError, OSError.
        """
        if self.folder is None:
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
        with self._named():
            written = self._from_snapshot(lambda stored: self._advance(stored, origin, facts))
        self.write_control(
            [encode_named_snapshot(self.pipeline, NamedSnapshot(written.name, written.sha256))]
        )
        with self._lock:
            self._snapshot = written
        self.folder.snapshots.clean_up(origin.topic_id)
        return written.manifest

    def _advance(
        self, stored: StoredManifest | None, origin: Origin, facts: LogFacts
    ) -> StoredManifest:
        """Write the snapshot ``stored`` with the tail on top. Stops at the first open transaction:
        later records are not decided yet. Raises SnapshotUnusable."""
        assert self.folder is not None
        folder, base = self.folder, stored.manifest if stored else None
        if base and (why := _mismatch(base, origin, facts)):
            raise SnapshotUnusable(why)
        control, records, control_end = self._control_behind(stored)
        files = FileRecords(self.pipeline).feed(base.standing if base else ())
        files.feed(records, CONTROL)
        end = base.chunks_end if base else 0

        def write() -> StoredManifest:
            self._refuse(files.damaged)
            stay = [*control.standing(), *([files.archive] if files.archive else [])]
            return folder.snapshots.write(base, files.by_path, origin, control_end, end, stay)

        for batch in self._batches(CHUNKS, end, None):
            files.feed(batch, CHUNKS)
            end = batch[-1].offset + 1
            if files.count >= _SLICE_RECORDS:
                base = write().manifest
                files = FileRecords(self.pipeline, archive=files.archive)
        return write()

    # Writing, outside any transaction.

    def write_control(self, records: Iterable[EncodedRecord]) -> Written:
        """Write records to the control partition. Raises ClusterError, OutcomeUnknown."""
        return Written(CONTROL, self._append(CONTROL, records))

    def _append(
        self,
        partition: int,
        records: Iterable[EncodedRecord],
        sent: Callable[[], object] = lambda: None,
    ) -> list[int]:
        began = runtime.monotonic()
        with self._there():
            offsets = self._client.append(self.topic, partition, records, sent)
        took = runtime.monotonic() - began
        self.ack_seconds = min(took, self.ack_seconds or took)
        with self._ends_lock:
            self._least_ends[partition] = max(
                [self._least_ends[partition], *(offset + 1 for offset in offsets)]
            )
        return offsets

    # What was committed since an offset.

    def _tail(self, start: int, wait_seconds: float | None) -> list[LogRecord]:
        records = self._read(CHUNKS, start, wait_seconds)
        if self._seen is not None:
            self._seen += _end_of(records, start) - start
        return records

    def _committed_since(self, start: int, wait_seconds: float | None) -> list[Entry]:
        damaged, found = dict[bytes, Damage](), list[Entry]()
        for record, entry in decode_sound(
            self.pipeline, CHUNKS, self._tail(start, wait_seconds), damaged
        ):
            match entry:
                case (ChunkKey() as key, ChunkValue() as value):
                    found.append(Entry(key, value, record.offset, record.timestamp_ms))
        self._refuse(damaged)
        return found

    def _committed_keys(self, start: int, wait_seconds: float | None) -> CommittedKeys:
        """Return the committed keys from ``start`` on. One thread reads at a time, and each later
        one reads only what is new."""
        with self._keys_lock:
            start = max(start, self._keys_end)
            records = self._tail(start, wait_seconds)
            self._keys.add(records)
            self._keys_end = _end_of(records, start)
            return self._keys


def _end_of(records: Sequence[LogRecord], start: int) -> int:
    """Return the offset to continue from, after reading ``records`` from ``start`` on."""
    return records[-1].offset + 1 if records else start


def _mismatch(found: Manifest, origin: Origin, facts: LogFacts) -> str | None:
    """Return why the snapshot is not one of this log as it is now; None if it is."""
    if not facts.topic_id:
        return (
            "the brokers give topics no id (Kafka before 2.8), so a recreated topic could not "
            "be told from the old one"
        )
    if found.origin != origin:
        theirs, ours = asdict(found.origin), asdict(origin)
        others = [
            f"{name} {theirs[name]}, not {ours[name]}"
            for name in ours
            if theirs[name] != ours[name]
        ]
        return f"it belongs to another log ({'; '.join(others)})"
    for partition, end in ((CONTROL, found.control_end), (CHUNKS, found.chunks_end)):
        if not facts.starts[partition] <= end <= facts.ends[partition]:
            held = f"holds offsets {facts.starts[partition]} to {facts.ends[partition]}"
            return f"it ends at offset {end} of partition {partition}, and the topic {held}"
    return None


@contextmanager
def _begun(batches: Generator[list[LogRecord]]) -> Iterator[Iterator[list[LogRecord]]]:
    """Ask for the first batch at once, in a thread of its own."""
    with closing(batches), runtime.ThreadPoolExecutor(1, thread_name_prefix="read") as meanwhile:
        first = meanwhile.submit(next, batches, None)

        def found() -> Iterator[list[LogRecord]]:
            if (batch := first.result()) is not None:
                yield batch
                yield from batches

        yield found()
