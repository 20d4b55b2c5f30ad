"""The words that plan, ledger, producer and sink share. Tuples, since there may be millions of
them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

T_co = TypeVar("T_co", covariant=True)
U = TypeVar("U")


class FileId(NamedTuple):
    """A file with the bytes that it has now: one that is rewritten is another file."""

    path: str
    """Path as the file system's client prints it, with scheme: ``s3a://logs/web/a.gz``."""
    size_bytes: int
    modified_ms: int
    """Milliseconds since the epoch."""


class SplitId(NamedTuple):
    """A fixed byte range of one file: from ``start`` to the next split's start."""

    file: FileId
    start: int


#: Topic → its id; None: the topic is absent; empty: the brokers give topics no id. A topic whose id
#: is unknown is not in it.
PresentIds = Mapping[str, str | None]

#: Header of a Kafka record: name and value, as Kafka's clients take them.
Header = tuple[str, bytes]
#: Header as read: another program's may have no value.
ReadHeader = tuple[str, bytes | None]


class LogRecord(NamedTuple):
    """A record of a Kafka topic, as read."""

    offset: int
    timestamp_ms: int
    key: bytes
    value: bytes | None


class EncodedRecord(NamedTuple):
    """A record that is to be written to a Kafka topic."""

    key: bytes
    value: bytes | None
    """Value; None: a tombstone."""


class PartitionOffset(NamedTuple):
    """Place of a record in a Kafka topic."""

    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.partition}:{self.offset}"


class HeadedRecord(NamedTuple):
    """A record of a Kafka topic with all that it carries."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[ReadHeader, ...]


@dataclass(frozen=True)
class Decided(Generic[T_co]):
    """An answer of the ledger that a decision may rest on: "may I send?", "what is committed?",
    "what is left?".

    Only :meth:`shipper.ledger.log.LedgerLog.decide` makes one (tests/unit/test_house.py), and
    whoever decides asks for this type. So nobody can decide by a read that a deposed leader
    answered."""

    answer: T_co

    def map(self, conclude: Callable[[T_co], U]) -> Decided[U]:
        """Return what follows from the answer, which a decision may rest on as well."""
        return Decided(conclude(self.answer))
