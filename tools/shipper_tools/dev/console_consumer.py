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

from shipper.config.records import LINES_HEADER
from shipper_tools.dev.errors import DevServerError
from shipper_tools.dev.kafka_tools import run_kafka_tool

_TOOLS = "org.apache.kafka.tools"
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

    def nullable(self, data: bytes) -> bytes | None:
        return None if data == self.null else data


def read_topic(bootstrap: str, topic: str, timeout_seconds: float = 120.0) -> list[bytes]:
    """Every committed value of ``topic`` up to its present end, byte for byte; in order within each
    partition.

    Raises:
        ValueError: a record has no value (null, a tombstone); :func:`read_records` can tell it from
        an empty one. DevServerError: there is no such topic, a tool failed, or the end was not
        reached within ``timeout_seconds``,
            as happens while a transaction is open in the topic.
    """
    marks = _Marks()
    values = list(_read(bootstrap, topic, marks, ["value"], timeout_seconds))
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
    fields = ["timestamp", "partition", "offset", "headers", "key", "value"]
    return [
        _record(line, marks) for line in _read(bootstrap, topic, marks, fields, timeout_seconds)
    ]


def unbundle(
    value: bytes | None, headers: Iterable[tuple[str, bytes | None]]
) -> list[bytes | None]:
    """The lines of one Kafka record, as a consumer takes them
    (docs/reference/consumer-contract.md): of a bundle as many as its header says; any other
    record is one line.

    Raises ValueError if the value does not hold that many.
    """
    count = int(dict(headers).get(LINES_HEADER) or 1)
    lines: list[bytes | None] = [value] if value is None or count == 1 else [*value.split(b"\n")]
    if len(lines) != count:
        raise ValueError(f"{LINES_HEADER} says {count} lines, and the value holds {len(lines)}")
    return lines


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
    bootstrap: str, topic: str, marks: _Marks, fields: list[str], timeout_seconds: float
) -> Iterator[bytes]:
    """Run the consumer until its group has passed the end of every partition that was there at the
    beginning.

    A record count would not do: control records and aborted ones take offsets too. Silence would
    not do either: on a busy machine the consumer may be late. So the consumer commits its position
    (which moves past control records) when it goes quiet, and is started again, in the same group,
    until the position says that nothing is left.
    """
    deadline = time.monotonic() + timeout_seconds
    ends = _offsets(
        _tool(bootstrap, f"{_TOOLS}.GetOffsetShell", ["--topic", topic], deadline), topic
    )
    if not ends:
        raise DevServerError(f"There is no topic {topic} at {bootstrap}.")
    group = f"shipper-read-{secrets.token_hex(8)}"
    passed: dict[int, int] = {}
    idle_ms = _IDLE_MS
    while any(passed.get(partition, 0) < end for partition, end in ends.items()):
        if time.monotonic() > deadline:
            raise DevServerError(
                f"Topic {topic} at {bootstrap} was not read to its end within "
                f"{timeout_seconds:.0f} s: got to {passed} of {ends} (partition: offset). A "
                "transaction may be open there, which holds readers back."
            )
        out = _consume(bootstrap, topic, group, marks, fields, idle_ms, deadline)
        yield from out.split(marks.record)[:-1]
        # Over a bad link joining the group alone may take longer than that.
        idle_ms = min(2 * idle_ms, _LONGEST_IDLE_MS)
        passed = _positions(bootstrap, topic, group, deadline)


def _consume(
    bootstrap: str,
    topic: str,
    group: str,
    marks: _Marks,
    fields: list[str],
    idle_ms: int,
    deadline: float,
) -> bytes:
    options = {f"print.{field}": "true" for field in fields} | {
        "line.separator": marks.record.decode(),
        "key.separator": marks.field.decode(),
        "headers.separator": marks.header.decode(),
        "null.literal": marks.null.decode(),
    }
    words = f"--group {group} --from-beginning --isolation-level read_committed"
    arguments = [*words.split(), "--timeout-ms", str(idle_ms), "--topic", topic]
    for name, value in options.items():
        arguments += ["--formatter-property", f"{name}={value}"]
    return _tool(bootstrap, f"{_TOOLS}.consumer.ConsoleConsumer", arguments, deadline)


def _positions(bootstrap: str, topic: str, group: str, deadline: float) -> dict[int, int]:
    arguments = ["--describe", "--offsets", "--group", group]
    out = _tool(bootstrap, f"{_TOOLS}.consumer.group.ConsumerGroupCommand", arguments, deadline)
    rows = [line.split() for line in out.decode().splitlines()]
    return {
        int(row[2]): int(row[3])
        for row in rows
        if len(row) > 3 and row[:2] == [group, topic] and row[3].isdigit()
    }


def _offsets(out: bytes, topic: str) -> dict[int, int]:
    """Partition to end offset, from lines ``topic:partition:offset``."""
    rows = [line.rsplit(":", 2) for line in out.decode().splitlines()]
    return {int(row[1]): int(row[2]) for row in rows if len(row) == 3 and row[0] == topic}


def _tool(bootstrap: str, main_class: str, arguments: list[str], deadline: float) -> bytes:
    # A deadline ends the asking, never a tool in the middle of its answer.
    left = max(_TOOL_SECONDS, deadline - time.monotonic())
    return run_kafka_tool(
        main_class, ["--bootstrap-server", bootstrap, *arguments], timeout_seconds=left
    ).out
