"""Records that leave quarantine: repaired by a person, sent to their topic exactly once.

A replay is a run of its own that sends a few records: it takes the lease, announces a generation,
fences all earlier lanes, and then reads the ledger. Each sent record has a record in the ledger, in
the same transaction, under the quarantined record's key. The latest one says which value went to
which topic last. So a replay that was killed, or is started twice, sends the missing records and
reports the skipped ones. Another value, or the same value to another topic, is a correction: it is
sent too, and named.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from shipper.config.cluster import Cluster
from shipper.config.pipeline import Pipeline
from shipper.config.records import UNREADABLE
from shipper.config.units import plural
from shipper.driver.preflight import is_transactional
from shipper.errors import ClusterError, UsageError
from shipper.kafka.client import ClusterClient
from shipper.kafka.connection import KafkaFault
from shipper.kafka.transaction import Transactions
from shipper.ledger.codec import encode_chunk
from shipper.ledger.fold import LedgerRecords, invalidations_in, is_invalidated
from shipper.ledger.intervals import decode_ordinals
from shipper.ledger.log import LedgerLog, ask_files
from shipper.ledger.records import CHUNKS, ChunkKey, ChunkValue, Entry, spark_hash
from shipper.ledger.roots import Roots
from shipper.ledger.takeover import sole_run
from shipper.ledger.writing import first_lane, lane_settings, within
from shipper.types import Header

_BATCH_BYTES = 1_000_000
_MOST_RECORDS = 1_000
_LANE_SECONDS = 60.0
_ABORT_SECONDS = 5.0


@dataclass(frozen=True)
class RecordPosition:
    """Position of a record, as the headers of the quarantine topic give it."""

    file: str
    split: int
    """Byte at which its split starts."""
    record: int
    """Number of the record in the split, from 1."""

    def __str__(self) -> str:
        return f"{self.file} (split at byte {self.split}), record {self.record}"


@dataclass(frozen=True)
class Repaired:
    """Record to send."""

    place: RecordPosition
    topic: str
    value: bytes | None
    key: bytes | None = None
    headers: tuple[Header, ...] = ()
    timestamp_ms: int | None = None

    @property
    def size_bytes(self) -> int:
        return len(self.value or b"") + len(self.key or b"")


@dataclass
class InQuarantine:
    """Records in one pipeline's quarantine on one cluster, by the ledger."""

    chunks: list[Entry] = field(default_factory=list)
    """Each of records of one split that were quarantined in one transaction."""
    replays: dict[ChunkKey, Entry] = field(default_factory=dict)
    """Key of a record, without a topic → its latest replay."""
    roots: Roots = field(default_factory=Roots)
    _of_split: dict[tuple[str, int], list[Entry]] = field(default_factory=dict, repr=False)

    def add(self, chunk: Entry) -> None:
        self.chunks.append(chunk)
        split = chunk.key.split
        self._of_split.setdefault((split.file.path, split.start), []).append(chunk)

    @property
    def topics(self) -> list[str]:
        return sorted({chunk.key.topic for chunk in self.chunks})

    def find(self, place: RecordPosition) -> Entry | None:
        """Return the chunk with which the record was quarantined; the latest, if the file was
        replaced or re-shipped since."""
        ordinal = place.record - 1
        hits = [
            chunk
            for chunk in self._of_split.get((self.roots.now(place.file), place.split), ())
            if any(
                part.first <= ordinal < part.end
                for part in decode_ordinals(chunk.value.ordinals or "")
            )
        ]
        return max(hits, key=lambda chunk: chunk.value.generation, default=None)

    def replay_of(self, place: RecordPosition) -> ChunkValue | None:
        chunk = self.find(place)
        sent = self.replays.get(_key(chunk, place)) if chunk else None
        return sent.value if sent else None


def _key(chunk: Entry, place: RecordPosition) -> ChunkKey:
    return ChunkKey(chunk.key.split, place.record - 1, "")


class KeptValues:
    """Check that the quarantine topic holds the records that were sent to it. Any client that may
    write to it can forge shipper's headers, and a person repairs and replays its records; the
    ledger, which fewer clients may write to, has a checksum of each chunk's values."""

    def __init__(self) -> None:
        self._hashes: dict[tuple[ChunkKey, int], dict[int, int]] = {}
        self._wrong: dict[tuple[ChunkKey, int], None] = {}

    def add(self, chunk: Entry, place: RecordPosition, value: bytes | None) -> None:
        which, found = (chunk.key, chunk.value.generation), spark_hash(value)
        hashes = self._hashes.setdefault(which, {})
        if place.record in hashes:
            right = hashes[place.record] == found  # at least once may put the same one there twice
        else:
            hashes[place.record] = found
            right = (
                len(hashes) < chunk.value.records
                or sum(hashes.values()) % 2**64 == chunk.value.checksum
            )
        if not right:
            self._wrong[which] = None

    def wrong(self) -> list[str]:
        """Return a sentence for each chunk that holds something else. One of which retention has
        removed a record cannot be judged."""
        return [
            f"{key.split.file.path} (split at byte {key.split.start}): by the ledger's checksum, "
            f"topic {key.topic} has other values than were sent: another producer writes to it. "
            "Take the records from the file itself."
            for key, _ in self._wrong
        ]


def in_quarantine(read: LedgerRecords) -> InQuarantine:
    found = InQuarantine(roots=read.roots)
    for of_path in read.by_path():
        invalidated = invalidations_in(of_path)
        for record, decoded in of_path:
            match decoded:
                case (ChunkKey() as key, ChunkValue() as value):
                    if is_invalidated(key, value, invalidated):
                        continue
                    entry = Entry(key, value, record.offset, record.timestamp_ms)
                    if value.replay:
                        found.replays[replace(key, topic="")] = entry
                    elif value.reasons is not None:
                        found.add(entry)
    return found


@dataclass
class Replayed:
    sent: list[RecordPosition] = field(default_factory=list)
    skipped: dict[RecordPosition, str] = field(default_factory=dict)
    """Record → the replay that sent the same value before."""
    corrected: dict[RecordPosition, str] = field(default_factory=dict)
    """Records that were sent → the replay that sent another value before, or the same value to
    another topic."""
    generation: int = 0


def replay(
    ledger: LedgerLog,
    client: ClusterClient,
    cluster: Cluster,
    pipeline: Pipeline,
    wanted: Sequence[Repaired],
    run_id: str,
    say: Callable[[str], None],
) -> Replayed:
    """Send repaired records. Raises UsageError for a record that is not in quarantine, or a topic
    that does not belong to the pipeline; then nothing was sent. Raises ClusterError,
    Superseded, OutcomeUnknown; then the same replay, run again, sends the rest."""
    _check_topics(pipeline.on(cluster.name), cluster, client.topics(), wanted)
    transactional = is_transactional(client, cluster, pipeline, ledger.topic)
    settings = lane_settings(cluster, pipeline, _BATCH_BYTES, transactional=transactional)
    found = Replayed()
    with sole_run(ledger, settings, cluster, pipeline, run_id, say) as found.generation:
        paths = {repaired.place.file for repaired in wanted}
        known = in_quarantine(ledger.decide(ask_files(paths)).answer)
        chunks = _chunks(known, cluster.name, wanted)
        left, earlier = [], dict[RecordPosition, str]()
        for repaired in wanted:
            before = known.replays.get(_key(chunks[repaired.place], repaired.place))
            if before is not None and (before.key.topic, before.value.checksum) == (
                repaired.topic,
                spark_hash(repaired.value),
            ):
                found.skipped[repaired.place] = before.value.run_id
                continue
            left.append(repaired)
            if before is not None:
                earlier[repaired.place] = before.value.run_id
        transactions = first_lane(ledger, settings, found.generation)
        try:
            _send(ledger, transactions, pipeline, chunks, left, run_id, found)
        except KafkaFault as fault:
            raise ClusterError(
                f"cluster {cluster.name}: {len(found.sent)} of {plural(len(left), 'record')} "
                f"were sent, then the cluster failed: {fault}. Run the same command again: it "
                "sends only what is left.",
                code="SHIP-507",
            ) from fault
        finally:
            transactions.close(within(_ABORT_SECONDS))
    found.corrected = {place: earlier[place] for place in found.sent if place in earlier}
    return found


def _check_topics(
    pipeline: Pipeline, cluster: Cluster, known: Mapping[str, int], wanted: Iterable[Repaired]
) -> None:
    for topic in dict.fromkeys(repaired.topic for repaired in wanted):
        if re.fullmatch(cluster.reserved_topics, topic):
            raise UsageError(
                f"topic {topic!r} is a ledger, or Kafka's own, and takes no records. Nothing "
                "was sent. Name another topic.",
                code="SHIP-116",
            )
        if not any(route.matches(topic) for route in pipeline.routes) or (
            pipeline.quarantine and topic == pipeline.quarantine.topic
        ):
            raise UsageError(
                f"pipeline {pipeline.name} does not route to topic {topic!r}. Nothing was "
                "sent. Name a topic of the pipeline.",
                code="SHIP-116",
            )
        if topic not in known:
            raise UsageError(
                f"cluster {cluster.name} has no topic {topic!r}. Nothing was sent. Create the "
                "topic, or correct its name.",
                code="SHIP-116",
            )


def _chunks(
    known: InQuarantine, cluster: str, wanted: Iterable[Repaired]
) -> dict[RecordPosition, Entry]:
    found: dict[RecordPosition, Entry] = {}
    for repaired in wanted:
        place = repaired.place
        chunk = known.find(place)
        if chunk is None:
            raise UsageError(
                f"cluster {cluster}: by the ledger, {place} is not in quarantine. Nothing was "
                "sent. Leave the record out.",
                code="SHIP-111",
            )
        if UNREADABLE in (chunk.value.reasons or {}):
            raise UsageError(
                f"{place} stands for a whole file that could not be read, and is not a record "
                "to send. Nothing was sent. Repair the file and run its window again: the "
                "repaired file counts as a new one, and is shipped.",
                code="SHIP-111",
            )
        if place in found:
            raise UsageError(
                f"{place} is given twice. Nothing was sent. Leave one of them out.", code="SHIP-111"
            )
        found[place] = chunk
    return found


def _send(
    ledger: LedgerLog,
    transactions: Transactions,
    pipeline: Pipeline,
    chunks: Mapping[RecordPosition, Entry],
    left: Sequence[Repaired],
    run_id: str,
    found: Replayed,
) -> None:
    for batch in _batches(left):
        until = within(_LANE_SECONDS)
        lane = transactions.begin(until)
        with lane.faults():
            for repaired in batch:
                at = repaired.timestamp_ms or 0  # librdkafka reads 0 as "now"
                lane.produce_patiently(
                    until,
                    repaired.topic,
                    repaired.value,
                    repaired.key,
                    headers=[*repaired.headers],
                    timestamp=at,
                )
        lane.flush(until)
        with lane.faults():
            for repaired in batch:
                chunk = chunks[repaired.place]
                ordinal = repaired.place.record - 1
                value = ChunkValue(
                    last=ordinal + 1,
                    end=False,
                    records=1,
                    bytes=repaired.size_bytes,
                    checksum=spark_hash(repaired.value),
                    digest=chunk.value.digest,
                    generation=found.generation,
                    run_id=run_id,
                    window=chunk.value.window,
                    splits=chunk.value.splits,
                    replay=True,
                )
                key, encoded = encode_chunk(
                    pipeline.key, ChunkKey(chunk.key.split, ordinal, repaired.topic), value
                )
                lane.produce_patiently(until, ledger.topic, encoded, key, CHUNKS)
        lane.flush(until)
        transactions.commit(until)
        found.sent += [repaired.place for repaired in batch]


def _batches(left: Iterable[Repaired]) -> Iterator[list[Repaired]]:
    """Yield the records of one transaction each."""
    batch: list[Repaired] = []
    for repaired in left:
        if batch and (
            len(batch) == _MOST_RECORDS
            or sum(one.size_bytes for one in batch) + repaired.size_bytes > _BATCH_BYTES // 2
        ):
            yield batch
            batch = []
        batch.append(repaired)
    if batch:
        yield batch
