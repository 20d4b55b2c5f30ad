"""What a consumer does with a bundle (docs/consumer-contract.md)."""

from __future__ import annotations

from collections.abc import Iterable

from shipper.config.records import LINES_HEADER


def unbundle(value: bytes | None, headers: Iterable[tuple[str, bytes | None]]) -> list[bytes | None]:
    """The lines of one Kafka record: of a bundle as many as its header says; any other record is one line.

    Raises ValueError if the value does not hold that many.
    """
    count = int(dict(headers).get(LINES_HEADER) or 1)
    lines: list[bytes | None] = [value] if value is None or count == 1 else [*value.split(b"\n")]
    if len(lines) != count:
        raise ValueError(f"{LINES_HEADER} says {count} lines, and the value holds {len(lines)}")
    return lines
