"""A Kafka cluster as the protocol sees it.

Topics have ids, partitions, and a log with a start, a high watermark and a last stable offset. The
coordinator knows the epoch and the state of each transactional.id, and aborts what times out. A
batch that comes twice is written once. What ``model/README.md`` says under "How Kafka is modelled"
is what this module does. The network in front of it is :mod:`tests.sim.clients`.
"""

import base64
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from tests.sim.world import EPOCH

_DEFAULTS = {
    "cleanup.policy": "delete",
    "message.timestamp.type": "CreateTime",
    "max.message.bytes": "1048588",
    "min.insync.replicas": "1",
    "retention.ms": "604800000",
}


#: Time over which brokers measure a quota.
_QUOTA_SECONDS = 10.0


def failed(name, text="", *, fatal=False, retriable=False):
    """Return the exception that confluent-kafka raises for the error ``name``."""
    code = getattr(KafkaError, name)
    return KafkaException(KafkaError(code, text or name, fatal, retriable))


@dataclass
class Record:
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Any = None
    producer: int | None = None
    """Number of the transactional producer that wrote it; None: no transaction."""
    aborted: bool = False
    is_plain: bool = False
    """True if it was written without a transaction."""


@dataclass
class Batch:
    """Records that go to one partition in one request."""

    topic: str
    partition: int
    records: list[tuple[bytes | None, bytes | None, Any, int | None]]
    producer: int | None
    epoch: int
    number: int
    """Number of the batch of its producer, by which the broker knows it again."""
    sender: int = 0
    """Number of an idempotent producer without transactions; 0: none."""

    @property
    def kind(self):
        """Kind of the first record: a word of the ledger's, or ``batch``."""
        key = self.records[0][0]
        return key.decode().split('"')[1] if key and b'"' in key else "batch"


class Partition:
    """A log. ``open`` has the first offset of each open transaction."""

    def __init__(self):
        self.records = []
        self.start = self.end = 0
        self.open = {}
        self.epochs = {}
        self.taken = {}
        self.has_leader = True
        self.stale = None
        """A deposed leader that answers until a time with an old end and last stable offset."""

    @property
    def stable(self):
        """The last stable offset."""
        return min(self.open.values(), default=self.end)

    def append(self, batch, now_ms, *, append_time):
        """Write a batch; return its first offset. Raises KafkaException for an old epoch."""
        if batch.producer is not None:
            if batch.epoch < self.epochs.get(batch.producer, -1):
                raise failed("INVALID_PRODUCER_EPOCH", "Producer has an old epoch")
            self.epochs[batch.producer] = batch.epoch
        known = (batch.producer or batch.sender, batch.epoch, batch.number)
        if known in self.taken:
            return self.taken[known]
        first = self.end
        for key, value, headers, timestamp in batch.records:
            at = now_ms if append_time or timestamp is None else timestamp
            record = Record(self.end, at, key, value, headers, batch.producer)
            record.is_plain = batch.producer is None
            self.records.append(record)
            self.end += 1
        if batch.producer is not None:
            self.open.setdefault(batch.producer, first)
        if batch.producer is not None or batch.sender:
            self.taken[known] = first
        return first

    def mark(self, producer, epoch, *, commit):
        """Write the marker that ends a producer's transaction here."""
        self.epochs[producer] = max(epoch, self.epochs.get(producer, -1))
        first = self.open.pop(producer, None)
        if first is None:
            return
        if not commit:
            for record in self.records:
                if record.offset >= first and record.producer == producer:
                    record.aborted = True
        for record in self.records:
            if record.offset >= first and record.producer == producer:
                record.producer = None
        self.end += 1

    def ended(self):
        """Return the records whose transaction has committed, also behind one that is open."""
        return [each for each in self.records if each.producer is None and not each.aborted]

    def committed(self, start, stable, most):
        found = []
        for record in self.records:
            if start <= record.offset < stable and not record.aborted:
                found.append(record)
                if len(found) == most:
                    break
        return found

    def compact(self, world):
        """Remove some of the records that a later committed one of the same key replaces, and
        tombstones that replace nothing any more."""
        stable = self.stable
        latest = {r.key: r.offset for r in self.records if r.offset < stable and not r.aborted}
        self.records = [
            r
            for r in self.records
            if r.offset >= stable
            or (not r.aborted and (latest[r.key] == r.offset or world.chance(0.3)))
        ]
        of_key = Counter(r.key for r in self.records)
        self.records = [
            r
            for r in self.records
            if r.value is not None or r.offset >= stable or of_key[r.key] > 1 or world.chance(0.5)
        ]


@dataclass
class Topic:
    id: str
    partitions: list[Partition]
    settings: dict[str, str]
    forbidden: bool = False
    """True while an ACL is missing."""

    @property
    def append_time(self):
        return self.settings["message.timestamp.type"] == "LogAppendTime"


@dataclass
class Transaction:
    """What the coordinator knows of one transactional.id."""

    producer: int
    epoch: int = -1
    state: str = "Empty"
    commits: bool = False
    partitions: set[tuple[str, int]] = field(default_factory=set)
    """By name: those of a topic that was made anew meanwhile count as the old one's."""
    timeout: float = 60.0
    began: int = 0
    """Number of the transaction, by which an old timer is told from a present one."""


class SimCluster:
    """One cluster, with three brokers."""

    def __init__(self, world, name, marker_seconds=0.01):
        self.world = world
        self.name = name
        self.id = f"cluster-{name}"
        self.topics = {}
        self.transactions = {}
        self.marker_seconds = marker_seconds
        self.down_until = 0.0
        """Nobody gets an answer before."""
        self.compacts = 0.0
        """Share of the batches after which a topic is compacted at once."""
        self.quota = 0.0
        """Bytes per second that all producers may write; 0: no limit."""
        self._quota_used = deque()
        self._producers = 0

    # Topics.

    def create(self, name, partitions=1, settings=None):
        if name in self.topics:
            raise failed("TOPIC_ALREADY_EXISTS", f"Topic '{name}' already exists.")
        topic_id = base64.urlsafe_b64encode(self.world.random.randbytes(16)).decode().rstrip("=")
        self.topics[name] = Topic(
            topic_id, [Partition() for _ in range(partitions)], _DEFAULTS | (settings or {})
        )
        self.world.tell(f"{self.name}: topic {name} is created, {partitions} partitions")

    def delete(self, name):
        self.world.tell(f"{self.name}: topic {name} is deleted")
        del self.topics[name]

    def grow(self, name):
        self.world.tell(f"{self.name}: topic {name} gets a partition")
        self.topics[name].partitions.append(Partition())

    def known(self, name):
        """Return a topic. Raises KafkaException if it is not there, or an ACL is missing."""
        found = self.topics.get(name)
        if found is None:
            raise failed("UNKNOWN_TOPIC_OR_PART", "Broker: Unknown topic or partition")
        if found.forbidden:
            raise failed("TOPIC_AUTHORIZATION_FAILED", "Broker: Topic authorization failed")
        return found

    def partition(self, topic, number):
        """Return a partition. Raises KafkaException if it is not there or has no leader."""
        known = self.known(topic)
        if number >= len(known.partitions):
            raise failed("UNKNOWN_TOPIC_OR_PART", "Broker: Unknown topic or partition")
        found = known.partitions[number]
        if not found.has_leader:
            raise failed("LEADER_NOT_AVAILABLE", "Broker: Leader not available")
        return found

    # Writing.

    def write(self, batch):
        """Append a batch; return its first offset. Raises KafkaException."""
        where = self.partition(batch.topic, batch.partition)
        topic = self.topics[batch.topic]
        most = int(topic.settings["max.message.bytes"])
        if sum(len(key or b"") + len(value or b"") for key, value, *_ in batch.records) > most:
            raise failed("MSG_SIZE_TOO_LARGE", "Broker: Message size too large")
        if batch.producer is not None and not self._is_open(batch):
            # Brokers ask the coordinator before a partition's first batch (KIP-890, part one).
            raise failed("INVALID_TXN_STATE", "Broker: the partition is not in the transaction")
        now_ms = int((EPOCH + self.world.seconds) * 1000)
        end = where.end
        first = where.append(batch, now_ms, append_time=topic.append_time)
        if where.end == end and batch.producer is None and self.world.chance(0.5):
            return -1  # a broker remembers the offsets of a producer's latest batches alone
        if topic.settings["cleanup.policy"] == "compact" and self.world.chance(self.compacts):
            where.compact(self.world)
        return first

    def throttle(self, size):
        """Return the seconds for which a response to ``size`` bytes throttles, as
        ClientQuotaManager computes them: over ten seconds."""
        if not self.quota:
            return 0.0
        now, used = self.world.seconds, self._quota_used
        used.append((now, size))
        while used[0][0] < now - _QUOTA_SECONDS:
            used.popleft()
        rate = sum(each for _, each in used) / _QUOTA_SECONDS
        return max(0.0, (rate - self.quota) / self.quota * _QUOTA_SECONDS)

    def _is_open(self, batch):
        for one in self.transactions.values():
            if one.producer == batch.producer:
                if batch.epoch < one.epoch:
                    raise failed("INVALID_PRODUCER_EPOCH", "Producer has an old epoch")
                where = (batch.topic, batch.partition)
                return one.state == "Ongoing" and where in one.partitions
        return False

    # The coordinator.

    def new_producer(self):
        """Return the number of a producer that no other one has."""
        self._producers += 1
        return self._producers

    def initialise(self, transactional_id, timeout):
        """InitProducerId: fence, end what is open, and return producer and epoch."""
        one = self.transactions.get(transactional_id)
        if one is None:
            one = self.transactions[transactional_id] = Transaction(self.new_producer())
        if one.state == "Ongoing":
            one.epoch += 1
            self._prepare(one, commit=False)
        if one.state.startswith("Prepare"):
            raise failed("CONCURRENT_TRANSACTIONS", retriable=True)
        one.epoch += 1
        one.state, one.timeout = "Empty", timeout
        self.world.tell(f"{self.name}: {transactional_id} has epoch {one.epoch}")
        return one.producer, one.epoch

    def add(self, transactional_id, producer, epoch, parts):
        """AddPartitionsToTxn. Raises KafkaException."""
        one = self._of(transactional_id, producer, epoch)
        if one.state.startswith("Prepare"):
            raise failed("CONCURRENT_TRANSACTIONS", retriable=True)
        for topic, number in parts:
            self.partition(topic, number)
        if one.state != "Ongoing":
            one.state, one.partitions = "Ongoing", set()
            one.began += 1
            self._time_out_later(one, transactional_id)
        one.partitions.update(parts)

    def end(self, transactional_id, producer, epoch, *, commit):
        """EndTxn. A copy that comes late ends whatever transaction of its epoch is open then."""
        one = self._of(transactional_id, producer, epoch)
        if one.state == "Ongoing":
            how = "commits" if commit else "aborts"
            self.world.tell(f"{self.name}: {transactional_id} {how}, epoch {epoch}")
            self._prepare(one, commit=commit)
        elif one.commits != commit or one.state == "Empty":
            raise failed("INVALID_TXN_STATE", "Broker: the transaction is not open")

    def _of(self, transactional_id, producer, epoch):
        one = self.transactions[transactional_id]
        if (producer, epoch) != (one.producer, one.epoch):
            raise failed("INVALID_PRODUCER_EPOCH", "Producer has an old epoch", fatal=True)
        return one

    def _prepare(self, one, *, commit):
        one.state, one.commits = "PrepareCommit" if commit else "PrepareAbort", commit

        def mark():
            for topic, number in sorted(one.partitions):
                for part in (
                    self.topics[topic].partitions[number:][:1] if topic in self.topics else ()
                ):
                    part.mark(one.producer, one.epoch, commit=commit)
            one.state = "Complete"

        self.world.at(self.world.random.random() * self.marker_seconds, mark)

    def _time_out_later(self, one, transactional_id):
        number = one.began

        def time_out():
            if one.state == "Ongoing" and one.began == number:
                self.world.tell(f"{self.name}: {transactional_id} timed out")
                one.epoch += 1
                self._prepare(one, commit=False)

        self.world.at(one.timeout, time_out)

    # Faults.

    def depose(self, topic, number, seconds):
        """Replace a partition's leader; for so long the old one answers some of those who read."""
        found = self.topics[topic].partitions[number]
        self.world.tell(f"{self.name}: {topic}-{number} has another leader")
        found.stale = (self.world.seconds + seconds, found.end, found.stable)

    def lose_leader(self, topic, number, seconds):
        """Leave a partition without a leader for so long."""
        found = self.topics[topic].partitions[number]
        found.has_leader = False
        self.world.tell(f"{self.name}: {topic}-{number} has no leader")

        def elect():
            found.has_leader = True

        self.world.at(seconds, elect)

    def remake(self, name, seconds):
        """Delete a topic, and create it again after so long, if nobody else did."""
        before = self.topics[name]
        self.delete(name)

        def create():
            if name not in self.topics:
                self.create(name, len(before.partitions), before.settings)

        self.world.at(seconds, create)

    def deny(self, name, seconds):
        """Take the ACL of a topic away for so long."""
        found = self.topics[name]
        found.forbidden = True
        self.world.tell(f"{self.name}: {name} is forbidden for {seconds:.0f} s")

        def grant():
            found.forbidden = False

        self.world.at(seconds, grant)

    # For oracles.

    def values(self, topic):
        """Return the committed values of a topic, as an independent consumer reads them."""
        known = self.topics.get(topic)
        return [
            record.value or b""
            for part in (known.partitions if known else ())
            for record in part.committed(0, part.stable, 1 << 60)
        ]
