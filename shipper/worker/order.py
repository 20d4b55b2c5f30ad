"""Orders that the driver gives every task of a ship, or of a proof: the splits, what is already
committed, and the generation.

Loads no Arrow: the driver's steps import it.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from shipper.kafka.limits import TopicLimit, TopicLimits
from shipper.kafka.producer import LaneSettings
from shipper.kafka.topic_ids import TopicIdWatch
from shipper.ledger.intervals import Interval
from shipper.types import SplitId
from shipper.worker.rate import RateLimit
from shipper.worker.receipt import new_seal
from shipper.worker.tuning import Sizing, Tuning

_ROOT = Path(__file__).resolve().parents[1]
#: Parts of shipper that tasks run.
_TASK_CODE = (
    "cloud_login.py",
    "complaints.py",
    "error_codes.py",
    "errors.py",
    "finding.py",
    "runtime.py",
    "types.py",
    "whole_files.py",
    "config/*.py",
    "kafka/*.py",
    "ledger/*.py",
    "worker/*.py",
)


@dataclass(frozen=True)
class OrderedSplit:
    """A split that the run reads, and what the ledger held of it when the run took over."""

    id: SplitId
    bom: bool = False
    """The file begins with a UTF-8 byte order mark, which Hadoop's line reader drops; the sink puts
    it back."""
    there: dict[str, list[Interval]] = field(default_factory=dict)
    """Topic → ordinals that are on the cluster; for no topic, those whose dropped lines the ledger
    has."""
    partitions: dict[str, int] = field(default_factory=dict)
    """Topic → the partition that its latest records there went to; for ``in_order``."""
    quarantines: frozenset[str] = frozenset()
    """Topics among these in which records of the split are in quarantine."""
    counts_bytes: bool = False
    """True if the bytes of its lines are the file's own: plain text, line by line. Otherwise the
    reader reports what it took from the file."""
    skipped_bytes: int = 0
    """Bytes of the file that are in no line: those of a byte order mark."""
    end_known: bool = False
    of: int = 1
    """Number of splits of its file."""
    etag: str | None = None
    """ETag of the split's file, in an object store."""
    head: str | None = None
    """Head of the split's file: how the content begins."""
    window: str | None = None
    """Window of the file, if that is not the run's."""


@dataclass(frozen=True)
class LaneOptions:
    """Options that the lanes of a pool have in common. What only the task knows has a default,
    which an order keeps."""

    settings: LaneSettings
    ledger_topic: str
    ledger_partition: int
    deadline_seconds: float
    """Longest time for one transaction with its retries, and for a chunk to wait for its topic."""
    limits: TopicLimits = field(default_factory=TopicLimits)
    parking_bytes: int = 64_000_000
    """Most bytes of chunks that wait in memory for their topics."""
    partitions: tuple[int, ...] | None = None
    """Partitions for records without a key; None: all."""
    share_partitions: bool = False
    """Each lane keeps to its own share of the partitions; not for chunks with a sequence, which
    have a partition of their own."""
    first_partition: int = 0
    """Partition where the rotation begins, so that parallel tasks do not all write to the same
    one."""
    in_order: bool = False
    """Records of a file keep their order in a partition."""
    rate: RateLimit | None = None
    topics: tuple[str, ...] = ()
    """Topics that will be written to, as far as known."""
    topic_ids: TopicIdWatch | None = None
    """Watch of topic ids; None: ledger records name no incarnation of their topics."""
    gone_ids: Mapping[str, Collection[str]] = field(default_factory=dict)
    """Topic → ids of earlier incarnations, whose records this pool sends again: the present topic
    must be none of them."""


@dataclass(frozen=True)
class QuarantineOrder:
    """Settings of the quarantine for records that cannot be shipped."""

    topic: str
    keep_bytes: int
    """Bytes to keep of each value."""


@dataclass(frozen=True)
class ShipOrder:
    """Picklable: it travels with the writer to Spark's workers. Holds secrets in ``lane_options``:
    never log it."""

    pipeline: str
    cluster: str
    run_id: str
    window: str
    digest: str
    generation: int
    chunks_end: int
    """Offset in the ledger's chunk partition up to which ``OrderedSplit.there`` is true."""
    lane_options: LaneOptions
    limits: Mapping[str, TopicLimit]
    """Topic → its limits, as far as the driver knows them."""
    tuning: Tuning
    """Sizes of each task's lanes when it begins."""
    topics: tuple[str, ...]
    """The frame's `topic` column holds an index into this; a single topic needs no column. Empty:
    the column holds names."""
    splits: dict[int, OrderedSplit]
    """Spark's hash of the split (see shipper.driver.files.split_hash) → split."""
    rules: tuple[str, ...] = ()
    """Rules of `records.drop`. The frame's `disposition` column, if there is one, holds an index
    into these and ``reasons`` behind them."""
    reasons: tuple[str, ...] = ()
    """Reasons for which Spark sends a record to quarantine."""
    quarantine: QuarantineOrder | None = None
    """Settings of the quarantine; None: a record that cannot be shipped fails the ship."""
    tasks: int = 1
    doubtful_bytes: float = 0.0
    """Bytes of chunks at the beginning of a task, in the order of reading, that may be there though
    the ledger does not know: after a run without transactions that did not end."""
    memory_bytes: int = 0
    """Most bytes of chunks that a task has under way."""
    sizing: Sizing | None = None
    """Input of ``tuning``, so that it can follow the delay; None: it stays."""
    stall_seconds: float = 1800.0
    """A ship that makes no progress for so long is stopped."""
    rate_limit_bytes: int | None = None
    """Limit in bytes per second, on the wire, over all tasks."""
    spark: str | None = None
    """Spark's minor version, for the ledger."""
    ratio: float = 1.0
    """Uncompressed bytes per byte on the wire, of the sample."""
    listed: frozenset[str] = frozenset()
    """Topics that the configuration names."""
    max_topics: int = 1_000
    """Most others that a task takes from lines."""
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    """Topic → its id when the run took over."""
    schema_ids: Mapping[str, int] = field(default_factory=dict)
    """Subject → number of the schema of `records.avro` there."""
    seal: str = field(default_factory=new_seal)
    """Marks the errors of this order's tasks; see shipper.worker.receipt."""


@functools.cache
def code_digest() -> str:
    """Return 12 hex digits over the sources that tasks run; takes some 5 ms, once in a process.

    Executors get their sources another way than the driver, from an archive or a folder of their
    own, and an older worker would silently drop fields of an order that it does not know.
    """
    digest = hashlib.sha256()
    for path in sorted(path for part in _TASK_CODE for path in _ROOT.glob(part)):
        digest.update(
            f"{path.relative_to(_ROOT).as_posix()}\0".encode() + path.read_bytes() + b"\0"
        )
    return digest.hexdigest()[:12]
