"""A topic as an independent reader sees it: Java's console consumer, isolation read_committed.

It shares no code with the producer under test, neither shipper's nor librdkafka's. Slow (some four
seconds a read, and some 200,000 records a second) but sure: it ends when everything was read, not
when it has become quiet.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from shipper_tools.dev.errors import DevServerError
from shipper_tools.dev.kafka_tools import run_kafka_tool

_FIELDS = ("timestamp", "partition", "offset", "headers", "key", "value")
"""All of a record, in the order in which the consumer prints it."""
#: How long the consumer waits for one more record. Short, because a read that ended too early is
#: simply continued.
_IDLE_MS, _LONGEST_IDLE_MS = 2_000, 30_000
#: What one tool may take, whatever is left of the deadline: a JVM's start alone takes seconds on a
#: busy machine.
_TOOL_SECONDS = 60.0


@dataclass(frozen=True)
class ReadRecord:
    """One record as read. ``timestamp_ms`` is the record's own (CreateTime) or the broker's, as the
    topic has it."""

    partition: int
    offset: int
    timestamp_ms: int
    headers: tuple[tuple[str, bytes | None], ...]
    key: bytes | None
    value: bytes | None


class _Marks:
    """Separators that no record can hold by chance: 128 random bits each, made anew for
    every read."""

    def __init__(self) -> None:
        self.record, self.field, self.header, self.null = (
            f"<{secrets.token_hex(16)}>".encode() for _ in range(4)
        )

    def options(self, fields: Iterable[str]) -> list[str]:
        """Return the consumer's options that print the fields with these separators."""
        properties = {
            **{f"print.{field}": "true" for field in fields},
            "line.separator": self.record.decode(),
            "key.separator": self.field.decode(),
            "headers.separator": self.header.decode(),
            "null.literal": self.null.decode(),
        }
        return [
            word
            for name, value in properties.items()
            for word in ("--formatter-property", f"{name}={value}")
        ]

    def nullable(self, data: bytes) -> bytes | None:
        return None if data == self.null else data


def read_topic(bootstrap: str, topic: str, timeout_seconds: float = 120.0) -> list[bytes]:
    """Every committed value of ``topic`` up to its present end, byte for byte; in order within each
    partition.

    Raises:
        ValueError: a record has no value (null, a tombstone); :func:`read_records` can tell it from
        an empty one. DevServerError: there is no such topic, a tool failed, or the reader did not
        get on for ``timeout_seconds``,
            as happens while a transaction is open in the topic.
    """
    marks = _Marks()
    values = list(_read(bootstrap, topic, marks, ("value",), timeout_seconds))
    if marks.null in values:
        raise ValueError(f"Topic {topic} holds a record without a value (null).")
    return values


def read_records(bootstrap: str, topic: str, timeout_seconds: float = 120.0) -> list[ReadRecord]:
    """Every committed record of ``topic`` up to its present end, with all that belongs to it.
    Otherwise see above.

    Raises:
        DevServerError: as in :func:`read_topic`.
    """
    marks = _Marks()
    return [
        _record(line, marks) for line in _read(bootstrap, topic, marks, _FIELDS, timeout_seconds)
    ]


def _record(line: bytes, marks: _Marks) -> ReadRecord:
    timestamp, partition, offset, headers, key, value = line.split(marks.field)
    return ReadRecord(
        partition=int(partition.removeprefix(b"Partition:")),
        offset=int(offset.removeprefix(b"Offset:")),
        timestamp_ms=int(timestamp.partition(b":")[2]),
        headers=()
        if headers == b"NO_HEADERS"
        else tuple(_header(h, marks) for h in headers.split(marks.header)),
        key=marks.nullable(key),
        value=marks.nullable(value),
    )


def _header(text: bytes, marks: _Marks) -> tuple[str, bytes | None]:
    name, _, value = text.partition(b":")
    return name.decode(), marks.nullable(value)


def _read(
    bootstrap: str, topic: str, marks: _Marks, fields: Iterable[str], timeout_seconds: float
) -> Iterator[bytes]:
    """Run the consumer until its group has passed the end of every partition that was there at the
    beginning.

    A record count would not do: control records and aborted ones take offsets too. Silence would
    not do either: on a busy machine the consumer may be late. So the consumer commits its position
    (which moves past control records) when it goes quiet, and is started again, in the same group,
    until the position says that nothing is left.
    """
    deadline = time.monotonic() + timeout_seconds

    def tool(name: str, *arguments: str) -> bytes:
        # A deadline ends the asking, never a tool in the middle of its answer.
        left = max(_TOOL_SECONDS, deadline - time.monotonic())
        words = ["--bootstrap-server", bootstrap, *arguments]
        return run_kafka_tool(f"org.apache.kafka.tools.{name}", words, timeout_seconds=left)

    # Lines TOPIC:PARTITION:OFFSET
    rows = [row.rsplit(":", 2) for row in tool("GetOffsetShell", "--topic", topic).decode().split()]
    ends = {int(row[1]): int(row[2]) for row in rows if len(row) == 3 and row[0] == topic}
    if not ends:
        raise DevServerError(f"There is no topic {topic} at {bootstrap}.")
    group = f"shipper-read-{secrets.token_hex(8)}"
    passed: dict[int, int] = {}
    idle_ms = _IDLE_MS
    while any(passed.get(partition, 0) < end for partition, end in ends.items()):
        if time.monotonic() > deadline:
            raise DevServerError(
                f"Topic {topic} at {bootstrap} was not read to its end: nothing came for "
                f"{timeout_seconds:.0f} s at {passed} of {ends} (partition: offset). A "
                "transaction may be open there, which holds readers back."
            )
        words = f"--topic {topic} --group {group} --from-beginning --timeout-ms {idle_ms}"
        words += " --isolation-level read_committed"
        out = tool("consumer.ConsoleConsumer", *words.split(), *marks.options(fields))
        yield from out.split(marks.record)[:-1]
        # Over a bad link joining the group alone may take longer than that.
        idle_ms = min(2 * idle_ms, _LONGEST_IDLE_MS)
        words = f"--describe --offsets --group {group}"
        lines = tool("consumer.group.ConsumerGroupCommand", *words.split()).decode().splitlines()
        before, passed = (
            passed,
            {
                int(row[2]): int(row[3])
                for row in map(str.split, lines)
                if len(row) > 3 and row[:2] == [group, topic] and row[3].isdigit()
            },
        )
        if passed != before:
            deadline = time.monotonic() + timeout_seconds
