"""The ledger of one pipeline on one cluster, as a log that can be read and written."""

from __future__ import annotations

from collections.abc import Iterable

from shipper.config.models import Cluster
from shipper.errors import ClusterError
from shipper.ledger.control import Control
from shipper.ledger.records import CHUNKS, CONTROL, PARTITIONS
from shipper.producer.client import ClusterClient
from shipper.terms import LogRecord

SETTINGS = {"cleanup.policy": "compact", "message.timestamp.type": "LogAppendTime"}


class LedgerLog:
    """Reading and writing; what the records mean is :mod:`shipper.ledger`'s."""

    def __init__(self, client: ClusterClient, cluster: Cluster, pipeline: str) -> None:
        self._client = client
        self._cluster = cluster
        self.pipeline = pipeline
        self.topic = cluster.ledger_topic(pipeline)

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
        """Creates the topic if the cluster's config allows it. Raises ClusterError."""
        if self.exists():
            return
        if not self._cluster.ledger.create:
            raise ClusterError(
                f"cluster {self._cluster.name}: the ledger topic {self.topic} is missing and `ledger.create` is false. Create it with "
                f"{PARTITIONS} partitions and {', '.join(f'{k}={v}' for k, v in SETTINGS.items())}."
            )
        self._client.create_topics({self.topic: PARTITIONS}, SETTINGS, self._cluster.ledger.replication_factor)

    def control(self) -> Control:
        """The control partition to its end. Nothing in it is transactional, so this never waits for anybody."""
        return Control(self.pipeline).feed(self._client.read(self.topic, CONTROL, 0, wait_seconds=15.0))

    def write_control(self, records: Iterable[tuple[bytes, bytes | None]]) -> list[int]:
        """Returns the records' offsets."""
        return self._client.append(self.topic, CONTROL, records)

    def chunks(self, start: int = 0, *, wait_seconds: float | None) -> list[LogRecord]:
        """Committed chunk records from offset ``start`` on; see ClusterClient.read for ``wait_seconds``."""
        return self._client.read(self.topic, CHUNKS, start, wait_seconds=wait_seconds)

    def write_chunks(self, records: Iterable[tuple[bytes, bytes | None]]) -> list[int]:
        """Records that stand for no data (a split without records), outside any transaction."""
        return self._client.append(self.topic, CHUNKS, records)

    def chunks_end(self) -> int:
        return self._client.end_offset(self.topic, CHUNKS)
