"""What the driver tells every task of a ship: which splits, what is there already, under which generation."""

from __future__ import annotations

from dataclasses import dataclass, field

from shipper.delivery.preflight import Preflight
from shipper.delivery.sealed import new_seal
from shipper.producer.pool import LaneSample
from shipper.terms import SplitId


@dataclass(frozen=True)
class OrderedSplit:
    """A split that the run reads, and what the ledger held of it when the run took over."""

    id: SplitId
    bom: bool = False
    """The file begins with a UTF-8 byte order mark, which Hadoop's line reader drops; the sink puts it back."""
    there: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    """Topic → ordinals [first, last) that are on the cluster; for no topic, those whose dropped lines the ledger has."""
    partitions: dict[str, int] = field(default_factory=dict)
    """Topic → the partition that its latest records there went to; for ``in_order``."""
    quarantines: frozenset[str] = frozenset()
    """Of these, the topics in which records of the split are in quarantine."""
    end_known: bool = False
    of: int | None = None
    """Number of splits of its file."""
    window: str | None = None
    """Of the file, if that is not the run's."""
    headers: tuple[tuple[str, bytes], ...] = ()
    """Headers of each of its bundles: with bundles they depend on the file alone."""


@dataclass(frozen=True)
class BundleOrder:
    """How lines are bundled."""

    max_bytes: int
    """Most bytes in a bundle, separators included."""
    all_lines: bool
    """Whether values are lines as they were read, so that none can hold a ``\\n``."""


@dataclass(frozen=True)
class QuarantineOrder:
    """What becomes of records that cannot be shipped."""

    topic: str
    keep_bytes: int
    """Of each value."""


@dataclass(frozen=True)
class ShipOrder:
    """Picklable: it travels with the writer to Spark's workers. Holds secrets in ``preflight``: never log it."""

    pipeline: str
    cluster: str
    run_id: str
    window: str
    digest: str
    generation: int
    chunks_end: int
    """Offset in the ledger's chunk partition up to which ``OrderedSplit.there`` is true."""
    ledger_topic: str
    preflight: Preflight
    deadline_seconds: float
    topics: tuple[str, ...]
    """The frame's `topic` column holds an index into this; a single topic needs no column. Empty: the column holds names."""
    splits: dict[int, OrderedSplit]
    """Spark's hash of the split (see shipper.plan.files.split_hash) → split."""
    bundle: BundleOrder | None = None
    """None: every line is a Kafka record."""
    rules: tuple[str, ...] = ()
    """Of `records.drop`. The frame's `fate` column, if there is one, holds an index into these and ``reasons`` behind them."""
    reasons: tuple[str, ...] = ()
    """Why Spark sends a record to quarantine."""
    quarantine: QuarantineOrder | None = None
    """None: a record that cannot be shipped fails the ship."""
    partitions: tuple[int, ...] | None = None
    """Where records without a key may go; all if None."""
    share_partitions: bool = False
    tasks: int = 1
    in_order: bool = False
    """Records of a file keep their order in a partition."""
    parking_bytes: int = 64_000_000
    """Most bytes of chunks that wait in a task's memory for their topics."""
    stall_seconds: float = 1800.0
    """A ship that makes no progress for so long is stopped."""
    rate_limit_bytes: int | None = None
    """Per second, on the wire, over all tasks."""
    spark: str | None = None
    """Spark's minor version, for the ledger."""
    ratio: float = 1.0
    """Uncompressed bytes per byte on the wire, of the sample."""
    listed: frozenset[str] = frozenset()
    """Topics that the configuration names."""
    max_topics: int = 1_000
    """Most others that a task takes from lines."""
    seal: str = field(default_factory=new_seal)
    """Marks the errors of this order's tasks; see shipper.delivery.sealed."""

    @property
    def chunk_size_bytes(self) -> int:
        return self.preflight.tuning.chunk_bytes

    @property
    def lanes(self) -> int:
        return self.preflight.tuning.lanes


@dataclass
class SplitReceipt:
    """What a task did with one split."""

    records: int = 0
    before: int = 0
    """On the cluster already, in quarantine too."""
    delivered: int = 0
    checksums: dict[str, int] = field(default_factory=dict)
    """Topic → sum of xxhash64(value) over the records delivered there, modulo 2^64."""
    adjusted: int = 0
    """What the checksum of the values as shipped has beyond that of the values as Spark read them, modulo 2^64; of all records, those
    that were there before too."""
    filtered: dict[str, int] = field(default_factory=dict)
    """Rule → lines that it took."""
    quarantined: dict[str, int] = field(default_factory=dict)
    """Reason → records that were sent to quarantine."""
    settled: dict[str, int] = field(default_factory=dict)
    """Reason → records that belong into quarantine and were dealt with before: they are there, or were shipped when it was decided
    otherwise."""
    read: int | None = 0
    """Bytes of its lines as they were read, each with its end; None if one was too long to be read whole."""
    seconds: float = 0.0
    """From the chunk before its first one to its last one: reading, and waiting for a free lane."""

    def add_read(self, size: int | None) -> None:
        self.read = None if size is None or self.read is None else self.read + size

    def count_filtered(self, rule: str, lines: int) -> None:
        self.filtered[rule] = self.filtered.get(rule, 0) + lines

    def count_quarantined(self, reason: str, records: int) -> None:
        self.quarantined[reason] = self.quarantined.get(reason, 0) + records

    def count_settled(self, reason: str, records: int) -> None:
        self.settled[reason] = self.settled.get(reason, 0) + records

    def add_checksum(self, topic: str, checksum: int) -> None:
        self.checksums[topic] = (self.checksums.get(topic, 0) + checksum) % (1 << 64)


@dataclass
class TopicReceipt:
    delivered: int = 0
    bytes: int = 0
    before: int = 0


@dataclass
class Receipt:
    """What a task returns. With ``error`` set the rest says what was done until then."""

    task: int
    retries: int = 0
    """Attempts of this task before this one."""
    splits: dict[int, SplitReceipt] = field(default_factory=dict)
    topics: dict[str, TopicReceipt] = field(default_factory=dict)
    lane_reopened: int = 0
    parked: dict[str, int] = field(default_factory=dict)
    """Topic → records that had to wait for it at some time."""
    dropped: dict[str, int] = field(default_factory=dict)
    """Topic → records that were read but not sent, since it could not be written to; a later pass, or run, sends them."""
    lowered: dict[str, int] = field(default_factory=dict)
    """Topic → bytes in a batch, where batches turned out too large."""
    possible_duplicates: int = 0
    """At least once: records that were sent again after a fault."""
    wire_bytes: int = 0
    samples: list[LaneSample] = field(default_factory=list)
    """One a second."""
    lanes: list[list[float]] = field(default_factory=list)
    """For each lane: [transactions, bytes, seconds with one under way, times it was opened anew]."""
    first_at: float | None = None
    """Seconds since the epoch when the task began."""
    last_at: float | None = None
    """When the last transaction was committed."""
    error: str | None = None
    error_kind: str | None = None
    """Class name in shipper.errors."""

    def split(self, split: int) -> SplitReceipt:
        return self.splits.setdefault(split, SplitReceipt())

    def topic(self, topic: str) -> TopicReceipt:
        return self.topics.setdefault(topic, TopicReceipt())
