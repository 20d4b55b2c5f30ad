"""The ledger's records. How they lie in the topic is :mod:`shipper.ledger.codec`'s.

The ledger has two partitions. CONTROL holds what runs say of themselves (lease, generation, attempt, void); nothing in it is ever
transactional, so it can be read to its end at any moment. CHUNKS holds one record per (split, first ordinal, topic),
written in the transaction of the chunk's records, so a read_committed reader sees it exactly when those are there; and at most
one that names the archive.

Field names are those of the JSON in the topic: an old ledger has them, and they stay.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import xxhash

from shipper.types import FileId, PartitionOffset, SplitId

CONTROL, CHUNKS = 0, 1
PARTITIONS = 2
#: Of a generation. `runner.cores` and `delivery.lanes` allow no more.
MOST_TASKS, MOST_LANES = 4_096, 128
#: A lease is not believed to last longer, whatever it says. `delivery.lease` allows no more.
MOST_LEASE_SECONDS = 86_400.0
#: Of Spark's xxhash64, org.apache.spark.sql.catalyst.expressions.XxHash64; the hash of a null is the seed itself.
_SPARK_SEED = 42


def spark_hash(value: bytes | None, seed: int = _SPARK_SEED) -> int:
    """Spark's xxhash64 of a binary column, as an unsigned number. ``seed``: the hash of the column before it."""
    return seed if value is None else int(xxhash.xxh64_intdigest(value, seed))


@dataclass(frozen=True)
class ChunkKey:
    """Consecutive records of one split, of one topic."""

    split: SplitId
    first: int
    """Ordinal of the chunk's first record in its split."""
    topic: str
    """Empty for a record that only says where the split ends, or which lines were dropped."""


@dataclass(frozen=True)
class ChunkValue:
    """What was committed."""

    last: int
    """The exclusive end, as an ordinal: the chunk is [first, last)."""
    end: bool
    """Whether the split ends at ``last``."""
    records: int
    """Records of this topic in the interval: lines, also where many share a bundle; or lines that were dropped."""
    bytes: int
    """Bytes of their keys and values, uncompressed, without what joins the lines of a bundle."""
    checksum: int
    """Sum over the records of :func:`spark_hash` of their values, modulo 2^64: independent of order, partition and batch."""
    digest: str
    generation: int
    run_id: str
    window: str
    partition: int | None = None
    """Where all of them lie, if in one partition."""
    bundles: int | None = None
    """Kafka records that they were bundled into; None: each is a Kafka record of its own."""
    wire_bytes: int | None = None
    """About what it took on the wire, by the compression that its task saw until then."""
    topic_id: str | None = None
    """Id of the topic that took the records: a topic that is deleted and created anew gets another one. None: there is no topic, the brokers give
    topics no id (before Kafka 2.8), or nobody could tell."""
    parked: tuple[str, ...] | None = None
    """Topics for which other chunks of its task were waiting when it was sent; for who watches the run."""
    reasons: dict[str, int] | None = None
    """Reason → records, if the topic is a quarantine topic. Then ``ordinals`` are these records, and no others."""
    ordinals: str | None = None
    """As text, see :func:`shipper.ledger.intervals.encode_ordinals`."""
    without: str | None = None
    """Ordinals of the interval that would belong to this topic and are not in it, since they were taken for quarantine."""
    filtered: dict[str, int] | None = None
    """Rule of `records.drop` → lines that it took; with no topic, and no record in any."""
    splits: int | None = None
    """Into how many splits its ship cut the file; None: by a shipper that did not say."""
    spark: str | None = None
    """Spark's minor version, such as ``4.2``: another one may make other records of the same lines."""
    etag: str | None = None
    """Of the file, in an object store: an object that is overwritten within a millisecond by as many bytes is another file all the same. None: the
    file system has none, or a shipper that did not say."""


@dataclass(frozen=True)
class ReplayKey:
    """One record that was in quarantine. There is one replay of it at most."""

    split: SplitId
    ordinal: int


@dataclass(frozen=True)
class QuarantineReplay:
    """A record that left quarantine: a person repaired it and sent it to its topic."""

    topic: str
    bytes: int
    """Of key and value."""
    checksum: int
    """Spark's xxhash64 of the value that was sent."""
    generation: int
    """Of the replay: it is a run like any other that sends."""
    run_id: str
    window: str
    """Of the chunk that the record was quarantined with."""


@dataclass(frozen=True)
class Generation:
    """Says which run may ship. Its offset is the generation's number: unique and growing."""

    run_id: str
    tasks: int
    lanes: int
    """Most tasks, and most lanes per task, of this run and of those before it that are not fenced for good: what a later run has to fence."""


class GenerationKey(NamedTuple):
    """All that comes with it is in the key, so that what read the ledger before there was more than a generation still can: it takes each
    of them for a generation, which is late to it but never wrong."""

    cluster: str | None = None
    """As the cluster's file called it, which the transactional ids begin with. None: written before this was noted."""
    fenced: int | None = None
    """Set: not a generation, but the word that every lane of the generations before this one is fenced for good; the value then says
    which lanes that generation itself has."""


@dataclass(frozen=True)
class Lease:
    """One run's claim to be the only one. ``held`` is false while it only asks."""

    run_id: str
    host: str
    pid: int
    held: bool
    seconds: float


@dataclass(frozen=True)
class Attempt:
    """A Spark task attempt that opens its lanes now. A later one of the same task supersedes it. Each has a key of its own, so
    that compaction never hides that there was an earlier one."""

    generation: int
    attempt: int
    ended: bool = False
    """It sends nothing more, so its share of the rate limit is free."""


_VOIDS_REMEMBERED = 50


@dataclass(frozen=True)
class Void:
    """Chunks of a file below this generation no longer count: it is shipped anew."""

    generation: int
    run_id: str
    """Who asked for it: the run, or the reship that several runs may work at (:attr:`PlanResult.reship_id`). Asked for once more by the
    same, the file is not shipped a third time."""
    reason: str | None = None
    """Why, in the words of whoever asked."""
    earlier: str | None = None
    """Ids of those who asked before, with spaces between them: they too have had what they asked for. Only the latest record of a
    key is kept, so it must know them."""

    @property
    def asked_by(self) -> frozenset[str]:
        """Ids of all who have had the file shipped anew."""
        return frozenset([self.run_id, *(self.earlier or "").split()])

    def after(self, before: Void | None) -> Void:
        """As the file's next void, which remembers who asked before: the latest :data:`_VOIDS_REMEMBERED`."""
        if before is None:
            return self
        ids = dict.fromkeys([*(before.earlier or "").split(), before.run_id])
        ids.pop(self.run_id, None)
        return replace(self, earlier=" ".join(list(ids)[-_VOIDS_REMEMBERED:]) or None)


@dataclass(frozen=True)
class Doubt:
    """What was shipped of a file is not all of it, or more than it: other bytes than it has were read. It is not done, whatever its chunks say,
    until it is shipped anew (:class:`Void`, of a later generation) or somebody has looked and vouches for it."""

    why: str
    generation: int
    """Of the ship that found out."""
    run_id: str
    trusted: str | None = None
    """Who vouches for it after all, when and why."""


@dataclass(frozen=True)
class Archive:
    """Says that chunk records were moved from the topic to files beside the runs, which are part of the ledger from then on. Lies
    among the chunks, since it commits together with the tombstones of what was moved."""

    manifest: str
    """Name of the archive's manifest."""
    sha256: str
    """Of the manifest, which holds those of all other files: nothing else can be taken for the archive."""
    entries: int
    """Records in it, those of earlier archives included."""
    before: str
    """Windows that ended by then were moved. ISO 8601, UTC."""
    generation: int
    run_id: str


@dataclass(frozen=True)
class PassedOver:
    """A person has said of one record of the ledger, by partition and offset, that it is damaged and to be passed over. A record that
    can be read is never passed over, so this hides nothing that counts; and offsets are not used again, so when the
    broker has compacted the damaged record away, it says nothing any more."""

    by: str
    at: str
    """ISO 8601, UTC."""
    reason: str
    run_id: str


@dataclass(frozen=True)
class NamedSnapshot:
    """A snapshot was written beside the runs, where others may write too: only the one that the ledger itself names is believed."""

    manifest: str
    sha256: str
    """Of the manifest, which holds those of all other files."""


@dataclass(frozen=True)
class SourceRoot:
    """From this run on files lie under the root that the key names. See shipper.ledger.roots."""

    run_id: str


@dataclass(frozen=True)
class Begun:
    """A person has given an earlier ledger up: this one was begun in its place."""

    run_id: str
    at: str
    """ISO 8601, UTC."""
    instead_of: str
    """The earlier topic, with its id if that is known."""


Decoded = (
    tuple[ChunkKey, ChunkValue]
    | tuple[GenerationKey, Generation | None]
    | tuple[None, Archive | Begun | NamedSnapshot]
    | tuple[str, Lease | SourceRoot | None]
    | tuple[int, Attempt]
    | tuple[FileId, Void | Doubt]
    | tuple[ReplayKey, QuarantineReplay]
    | tuple[PartitionOffset, PassedOver]
)
"""A record as it is read: its key, as far as its kind has one of its own, and its value."""
