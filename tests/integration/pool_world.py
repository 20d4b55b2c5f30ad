"""A lane pool on a real broker, from plain Python, and an independent reader of what it wrote."""

from collections import Counter

from shipper_tools.dev.kafka import KafkaServer

from shipper.config.cluster import Cluster
from shipper.kafka.client import ClusterClient
from shipper.kafka.connection import connection
from shipper.kafka.producer import LaneSettings
from shipper.types import Decided
from shipper.worker.chunk import Chunk
from shipper.worker.lane import ResolveOutcome
from shipper.worker.order import LaneOptions
from shipper.worker.pool import LanePool

from .committed import read_committed

LEDGER = "ledger"


class Ledger:
    """Read back as a read_committed consumer sees it."""

    def __init__(self, broker: KafkaServer):
        self.cluster = Cluster(name="c", bootstrap=broker.bootstrap)
        self.client = ClusterClient(self.cluster)
        self.client.create_topics({LEDGER: 1}, replication_factor=1)

    def keys(self) -> Decided[set[bytes]]:
        return Decided({record.key for record in self.client.read(LEDGER, 0, 0, wait_seconds=60)})

    def create(self, **topics: int):
        self.client.create_topics(topics, replication_factor=1)

    def options(self, deadline_seconds: float = 60, **changes) -> LaneOptions:
        guarantee = changes.pop("transactional", True)
        batch, timeout_ms = (
            changes.pop("batch", 100_000),
            changes.pop("transaction_timeout_ms", 30_000),
        )
        settings = LaneSettings(connection(self.cluster), batch, "zstd", timeout_ms, guarantee)
        return LaneOptions(settings, LEDGER, 0, deadline_seconds, **changes)

    def values(self, topic: str, partitions: int = 1) -> list[bytes]:
        """In partition order."""
        return [
            v for p in range(partitions) for v in read_committed(self.cluster.bootstrap, topic, p)
        ]


class Pool(LanePool):
    """Remembers what was delivered."""

    def __init__(
        self, options: LaneOptions, producer_ids: list[str], resolve_outcome: ResolveOutcome
    ):
        self.delivered: list[Chunk] = []
        super().__init__(options, producer_ids, resolve_outcome, self.delivered.extend)


def chunk(
    topic: str, name: str, records: int = 100, size: int = 20, sequence: int | None = None
) -> Chunk:
    values = [f"{name} {index} ".encode().ljust(size, b".") for index in range(records)]
    key = f"{topic}/{name}".encode()
    return Chunk(
        topic,
        values,
        sum(map(len, values)),
        key,
        lambda p, topic_id: b"%d records, partition %d" % (records, p or 0),
        name,
        sequence=sequence,
    )


def values_of(*chunks: Chunk) -> Counter[bytes]:
    return Counter(value for chunk in chunks for value in chunk.values)
