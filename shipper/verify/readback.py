"""Topics as a ``read_committed`` consumer sees them: number of records, and sum of their hashes.

The read-back judges the producer, so it shares no code with it. Besides ``shipper.kafka`` it is the
only module that imports ``confluent_kafka``, and it imports nothing of ``shipper`` but the config,
the errors and librdkafka's complaints. The meaning of a record comes from
docs/reference/consumer-contract.md, as for any consumer.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import filterfalse, groupby, repeat
from typing import Any, TypeVar

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]
from xxhash import xxh64_intdigest

from shipper import runtime
from shipper.cloud_login import with_login
from shipper.complaints import ClientLog, Complaints, weakly
from shipper.config.cluster import Cluster, client_settings, refused, reveal
from shipper.errors import ClusterError, OutcomeUnknown

log = logging.getLogger("shipper.verify.readback")
C = TypeVar("C")

#: Stands for an offset that no broker could tell.
UNKNOWN = -1
REASON_HEADER, RUN_HEADER = "shipper-reason", "shipper-run"
_SEED = 42  # Spark's xxhash64; the hash of a null is the seed itself
_UINT64 = 1 << 64
_MOST_MESSAGES = 10_000
_POLL_SECONDS = 0.1
_NO_LEADER_YET = (
    "NOT_LEADER_FOR_PARTITION",
    "LEADER_NOT_AVAILABLE",
    "UNKNOWN_TOPIC_OR_PART",
    "_TIMED_OUT",
    "_TRANSPORT",
)

PartitionId = tuple[str, int]
"""Topic and partition."""


@dataclass(frozen=True)
class OffsetRange:
    """Offsets [start, end) of a partition."""

    start: int
    end: int


@dataclass
class SpanSums:
    """Records and checksum of one partition's span."""

    records: int = 0
    checksum: int = 0
    """Sum of xxhash64(value), seed 42, modulo 2^64."""
    reasons: Counter[str] = field(default_factory=Counter)
    """Reason → records, in a quarantine topic."""
    begins: int | None = None
    """First offset of the partition now, if that lies after the span's start: earlier records are
    deleted."""

    def take(self, values: list[bytes | None]) -> None:
        """Count and hash the values; the loop over the records runs in C."""
        nulls = values.count(None)
        there: Any = [value for value in values if value is not None] if nulls else values
        self._add(len(values), nulls * _SEED + sum(map(xxh64_intdigest, there, repeat(_SEED))))

    def add(self, other: SpanSums) -> None:
        """Add the counts of another partition."""
        self._add(other.records, other.checksum)
        self.reasons.update(other.reasons)

    def _add(self, records: int, checksum: int) -> None:
        self.records += records
        self.checksum = (self.checksum + checksum) % _UINT64


Taker = Callable[[SpanSums, list[Message]], None]
"""Function that adds messages to the sums."""


def take_records(seen: SpanSums, messages: list[Message]) -> None:
    """Take every record."""
    seen.take(list(map(Message.value, messages)))


def take_quarantined(run_id: str) -> Taker:
    """Take this run's records in a quarantine topic, each of which names its run and a reason; skip
    others."""

    def take(seen: SpanSums, messages: list[Message]) -> None:
        mine = [message for message in messages if _header(message, RUN_HEADER) == run_id.encode()]
        take_records(seen, mine)
        seen.reasons.update(
            (_header(message, REASON_HEADER) or b"").decode(errors="replace") for message in mine
        )

    return take


def _header(message: Message, name: str) -> bytes | None:
    found = dict(message.headers() or ()).get(name)
    return found.encode() if isinstance(found, str) else found


class ReadBack:
    """One cluster, asked from outside."""

    def __init__(
        self, cluster: Cluster, timeout_seconds: float = 15.0, *, committed: bool = True
    ) -> None:
        """Connect. ``committed``: False for records that were sent without transactions, by
        clusters whose topics may have none."""
        self._isolation = "read_committed" if committed else "read_uncommitted"
        self._name = cluster.name
        self._connection = {"client.id": "shipper-readback", **client_settings(cluster)}
        self._timeout = timeout_seconds
        self._complaints = Complaints(self._serve)
        self._admin = self._made(AdminClient)

    def _made(self, kind: Callable[..., C], ours: Mapping[str, Any] | None = None) -> C:
        """Make a client. Its own settings override the user's, because it judges. Raises
        ClusterRefuses."""
        try:
            ours = {"error_cb": weakly(self._complaints.hear), **(ours or {})}
            theirs = with_login(self._name, reveal(self._connection))
            return kind({**theirs, **ours}, logger=ClientLog())
        except (KafkaException, TypeError, ValueError) as error:
            fault = error.args[0] if error.args else error
            # The original holds values, and a traceback would show it.
            raise refused(
                self._name,
                self._connection,
                fault.str() if isinstance(fault, KafkaError) else str(fault),
            ) from None

    def _serve(self) -> None:
        self._admin.poll(0)

    def connect(self) -> None:
        """Connect, so that the first question does not wait for connections. Optional; never
        raises."""
        try:
            self._admin.list_topics(timeout=self._timeout)
        except KafkaException as error:
            log.info("not connected yet: %s", error)

    def ends(self, wanted: Callable[[str], bool]) -> dict[str, list[int]]:
        """Return topic → per partition, the offset after its last record, committed or not, for all
        wanted topics that exist. :data:`UNKNOWN` for a partition that has no leader. Raises
        ClusterError."""
        try:
            known = self._admin.list_topics(timeout=self._timeout).topics
        except KafkaException as error:
            raise self._failed("topics cannot be listed", error.args[0]) from error
        places = [
            (name, number)
            for name, topic in known.items()
            if wanted(name)
            for number in sorted(topic.partitions)
        ]
        offsets = self._offsets(places, OffsetSpec.latest())  # type: ignore[no-untyped-call]
        found: dict[str, list[int]] = {}
        for topic, number in places:
            found.setdefault(topic, []).append(offsets[topic, number])
        return found

    def starts(self, places: Iterable[PartitionId]) -> dict[PartitionId, int]:
        """Return the first offset that each partition still has. Raises ClusterError."""
        return self._offsets(list(places), OffsetSpec.earliest())  # type: ignore[no-untyped-call]

    def _offsets(self, places: list[PartitionId], spec: OffsetSpec) -> dict[PartitionId, int]:
        """Ask again for partitions without a leader, for as long as a leader election takes."""
        found: dict[PartitionId, int] = {}
        deadline = runtime.monotonic() + self._timeout
        while missing := [place for place in places if place not in found]:
            futures = self._admin.list_offsets(
                {TopicPartition(*place): spec for place in missing},
                isolation_level=IsolationLevel.READ_UNCOMMITTED,
                request_timeout=self._timeout,
            )
            for where, future in futures.items():
                try:
                    found[where.topic, where.partition] = int(future.result().offset)
                except KafkaException as error:
                    fault = error.args[0]
                    if fault.name() not in _NO_LEADER_YET or self._complaints.final:
                        raise self._failed(f"{where.topic}-{where.partition}", fault) from error
                    if runtime.monotonic() > deadline:
                        found[where.topic, where.partition] = UNKNOWN
            if len(found) < len(places):
                runtime.sleep(0.05)
        return found

    def read(
        self,
        spans: Mapping[PartitionId, OffsetRange],
        taker: Callable[[str], Taker],
        patience_seconds: float,
    ) -> dict[PartitionId, SpanSums]:
        """Read every span, with ``taker(topic)`` for its messages. Memory is bounded by
        librdkafka's own 64 MB of fetched messages.

        Records that were deleted meanwhile cannot be read: the rest of the span is read, and
        ``begins`` says from where on. Raises OutcomeUnknown when nothing came for
        ``patience_seconds``, ClusterError for anything else.
        """
        seen = {place: SpanSums() for place in spans}
        waiting = {place: span for place, span in spans.items() if span.start < span.end}
        begins = self.starts(waiting)
        positions = {place: max(span.start, begins[place]) for place, span in waiting.items()}
        for place, span in list(waiting.items()):
            if begins[place] > span.start:
                seen[place].begins = begins[place]
            if positions[place] >= span.end:
                del waiting[place]
        if not waiting:
            return seen
        consumer = self._made(Consumer, {**_SETTINGS, "isolation.level": self._isolation})
        try:
            consumer.assign([TopicPartition(*place, positions[place]) for place in waiting])
            self._drain(
                consumer,
                waiting,
                seen,
                {topic: taker(topic) for topic, _ in waiting},
                patience_seconds,
            )
        finally:
            consumer.close()
        return seen

    def _drain(
        self,
        consumer: Consumer,
        waiting: dict[PartitionId, OffsetRange],
        seen: dict[PartitionId, SpanSums],
        takers: Mapping[str, Taker],
        patience: float,
    ) -> None:
        """Yield messages until every span is read. An end of partition is reported at the last
        stable offset: after the span's end, or at a transaction that is still open, and then again
        when that has ended."""
        heard_at = runtime.monotonic()
        self._complaints.forget()
        while waiting:
            messages = _answer(consumer)
            if messages:
                self._complaints.forget()
            for place, run in _runs(filterfalse(Message.error, messages)):
                heard_at = runtime.monotonic()
                if place not in waiting:
                    continue
                end = waiting[place].end
                if int(run[-1].offset() or 0) >= end - 1:
                    del waiting[place]
                    consumer.incremental_unassign(
                        [TopicPartition(*place)]
                    )  # others may go on writing to it for ever
                    run = [message for message in run if int(message.offset() or 0) < end]
                takers[place[0]](seen[place], run)
            # The end of a partition comes after its records: it is reported when they have been
            # fetched, not when they have been counted.
            for event in filter(Message.error, messages):
                place = self._end_of_partition(event)
                if place in waiting and int(event.offset() or 0) >= waiting[place].end:
                    del waiting[place]
            where = ", ".join(f"{topic}-{number}" for topic, number in sorted(waiting)[:5])
            if waiting and (refused := self._complaints.final):
                raise ClusterError(
                    f"cluster {self._name}: {where} could not be read to the end: "
                    f"{self._remedied(refused.text)}"
                )
            if waiting and runtime.monotonic() - heard_at > patience:
                heard = f" ({last})" if (last := self._complaints.last) else ""
                raise OutcomeUnknown(
                    f"cluster {self._name}: {where} could not be read to its end: nothing came "
                    f"for {patience:g} s. Either a transaction is open there, which holds back "
                    "every read_committed consumer until its timeout, or the brokers do not "
                    f"answer{heard}. Run again."
                )

    def _failed(self, what: str, fault: KafkaError) -> ClusterError:
        """Return the error for ``fault``, with its cause: to a caller that waits for an answer,
        wrong credentials look like silence."""
        text = self._complaints.explain(fault.name(), fault.str())
        return ClusterError(
            f"cluster {self._name}: {what}: "
            f"{self._remedied(text) if self._complaints.final else text}"
        )

    def _remedied(self, text: str) -> str:
        return (
            f"{text}. Correct the login in clusters/{self._name}.yaml, then clear this gate or "
            "run again."
        )

    def _end_of_partition(self, event: Message) -> PartitionId:
        """Return the partition whose end was reached. Raises ClusterError for a real error."""
        error: Any = event.error()
        if error.code() != KafkaError._PARTITION_EOF:
            raise ClusterError(
                f"cluster {self._name}: {event.topic()}-{event.partition()} cannot be read: "
                f"{error.str()}"
            )
        return str(event.topic()), int(event.partition() or 0)


_SETTINGS: dict[str, Any] = {
    # nothing is committed to it; the same ACL as for the ledger
    "group.id": "shipper-reads-without-a-group",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    "check.crcs": True,
    "fetch.wait.max.ms": 10,
    "fetch.message.max.bytes": 4_000_000,
    "queued.max.messages.kbytes": 65_536,
}


def _answer(consumer: Consumer) -> list[Message]:
    """Return the messages that are available, as soon as there is one: `consume` alone waits for as
    many as it was asked for."""
    first = consumer.poll(_POLL_SECONDS)
    return [] if first is None else [first, *consumer.consume(_MOST_MESSAGES, 0)]


def _runs(messages: Iterable[Message]) -> Iterable[tuple[PartitionId, list[Message]]]:
    """Group messages by partition. Messages of one partition follow each other, since each fetch
    brings many."""
    for topic, of_topic in groupby(messages, Message.topic):
        for number, run in groupby(of_topic, Message.partition):
            yield (str(topic), int(number or 0)), list(run)
