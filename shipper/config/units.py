"""Durations, sizes, rates and moments as people write them: ``10m``, ``1h30m``, ``50MB``,
``64MiB``, ``2026-11-01``."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, GetJsonSchemaHandler
from pydantic_core import CoreSchema

_MILLISECONDS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}
_BYTES = {
    "B": 1,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
}
# [0-9] and not \d: these are also the patterns of the JSON Schema, and Python's \d takes digits of
# every script.
DURATION_PATTERN = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h|d))+$"
SIZE_PATTERN = r"^[0-9]+(\.[0-9]+)? ?(B|kB|MB|GB|TB|KiB|MiB|GiB)$"
RATE_PATTERN = SIZE_PATTERN.removesuffix("$") + "/s$"
_LONGEST_DAYS = 36_500
_LARGEST_TB = 1_000_000


def parse_duration(value: Any) -> float:
    """Parse ``"1h30m"`` into 5400.0 seconds. A bare number is refused, since it shows no unit.
    Raises ValueError."""
    if not isinstance(value, str) or not re.fullmatch(DURATION_PATTERN, value):
        raise ValueError("a duration has a unit: 500ms, 30s, 10m, 2h, 1d or 1h30m")
    parts = re.findall(r"([0-9.]+)(ms|s|m|h|d)", value)
    milliseconds = sum(Decimal(number) * _MILLISECONDS[unit] for number, unit in parts)
    if (
        milliseconds > _LONGEST_DAYS * _MILLISECONDS["d"]
    ):  # beyond it, dates leave the range that Python has
        raise ValueError(f"the longest duration is {_LONGEST_DAYS}d")
    return float(milliseconds / 1000)


def parse_size(value: Any) -> int:
    """Parse ``"64MiB"`` into 67108864 bytes. A bare number is refused, since it shows no unit.
    Raises ValueError."""
    match = (
        re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?([A-Za-z]+)", value)
        if isinstance(value, str)
        else None
    )
    if match is None or match[2] not in _BYTES:
        raise ValueError("a size has a unit: 256B, 500kB, 50MB, 64MiB or 2GB")
    count = Decimal(match[1]) * _BYTES[match[2]]
    if count > _LARGEST_TB * _BYTES["TB"]:
        raise ValueError(f"the largest size is {_LARGEST_TB}TB")
    if count != int(count):
        raise ValueError("a size is a whole number of bytes")
    return int(count)


def write_duration(seconds: float) -> str:
    """Return the shortest text that :func:`parse_duration` reads as ``seconds``, to the
    millisecond: ``600.0`` → ``"10m"``."""
    rest, parts = round(seconds * 1000), []
    for unit, milliseconds in _MILLISECONDS.items():
        count, rest = divmod(rest, milliseconds)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def number(count: int | float) -> str:
    """Return ``1234567`` as ``"1,234,567"``."""
    return f"{round(count):,}"


def plural(count: int, one: str, many: str | None = None) -> str:
    """Return ``(1, "file")`` as ``"1 file"``, and ``(1200, "file")`` as ``"1,200 files"``."""
    return f"{number(count)} {one if count == 1 else many or one + 's'}"


def listed(items: Sequence[object], most: int = 5, mark: str = ", ") -> str:
    """Return ``a, b and 3 more``. ``mark``: between them, such as ``; ``."""
    more = f"{mark.rstrip(', ')} and {len(items) - most:,} more" if len(items) > most else ""
    return mark.join(map(str, items[:most])) + more


def write_size(count: int) -> str:
    """Return the shortest text that :func:`parse_size` reads as ``count``: ``8_000_000`` →
    ``"8MB"``, ``2**25`` → ``"32MiB"``."""
    return min(
        (f"{count // size}{unit}" for unit, size in _BYTES.items() if count % size == 0), key=len
    )


def format_bytes(count: float) -> str:
    """Return ``137_000_000`` as ``"137.0 MB"``; decimal units, as in the figures of networks and of
    Kafka."""
    for unit in ("B", "kB", "MB", "GB"):
        if round(abs(count), 1) < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def format_duration(seconds: float) -> str:
    """Return ``5400`` as ``"1h30m"``, and ``2.34`` as ``"2.3s"``. For people; see
    :func:`write_duration` for an exact text."""
    if round(seconds, 1) < 60:
        return f"{seconds:.1f}s".replace(".0s", "s")
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    parts = ((hours, "h"), (minutes, "m"), (rest, "s"))
    return "".join(f"{n}{unit}" for n, unit in parts if n) or "0s"


def parse_rate(value: Any) -> int:
    """Parse ``"50MB/s"`` into 50000000 bytes per second. Raises ValueError."""
    if not isinstance(value, str) or not re.fullmatch(RATE_PATTERN, value):
        raise ValueError("a rate has a unit: 500kB/s, 50MB/s or 1GB/s (bytes, not bits)")
    return parse_size(value.removesuffix("/s"))


def utc(moment: dt.datetime) -> dt.datetime:
    """Return ``moment`` in UTC; one without a zone is taken to be."""
    return moment.astimezone(dt.UTC) if moment.tzinfo else moment.replace(tzinfo=dt.UTC)


def _no_number(value: Any) -> Any:
    """Refuse a number, which pydantic takes for seconds since the epoch."""
    if isinstance(value, int | float) or (isinstance(value, str) and value.isdigit()):
        raise ValueError(
            "a date or time is written 2026-11-01, 2026-11-01T06:00 or 2026-11-01T06:00+01:00"
        )
    return value


@dataclass(frozen=True)
class Unit:
    """A kind of value that is written as text: the mark of a field that is one, in its annotation.
    The schema, the reference and the messages all go by it."""

    name: str
    pattern: str
    """Pattern of every text that the loader accepts. Amounts that are out of bounds satisfy it
    too."""
    examples: tuple[str, ...]
    write: Callable[[Any], str]
    """Function that writes a value as a user does; the loader reads it back."""

    def __get_pydantic_json_schema__(
        self, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Return the schema: text of this pattern. The number's bounds stay in it:
        shipper.config.schema tells them in words."""
        bounds = {
            key: value
            for key, value in handler(core_schema).items()
            if key not in ("type", "format")
        }
        return {
            **bounds,
            "type": "string",
            "pattern": self.pattern,
            "examples": list(self.examples),
        }


DURATION = Unit(
    "duration",
    DURATION_PATTERN,
    ("30s", "10m", "1h30m"),
    lambda value: write_duration(float(value)),
)
SIZE = Unit("size", SIZE_PATTERN, ("500kB", "64MiB", "2GB"), lambda value: write_size(int(value)))
RATE = Unit(
    "rate",
    RATE_PATTERN,
    ("500kB/s", "50MB/s", "1GB/s"),
    lambda value: f"{write_size(int(value))}/s",
)
MOMENT = Unit(
    "date or time", r"^[0-9]{4}-[0-9]{2}-[0-9]{2}", ("2026-11-01", "2026-11-01T06:00Z"), str
)
Seconds = Annotated[float, BeforeValidator(parse_duration), DURATION]
Bytes = Annotated[int, BeforeValidator(parse_size), SIZE]
BytesPerSecond = Annotated[int, BeforeValidator(parse_rate), RATE]
Moment = Annotated[dt.datetime, BeforeValidator(_no_number), AfterValidator(utc), MOMENT]
"""UTC."""


def written(value: Any, unit: Unit | None = None) -> str:
    """Return ``value`` as a user writes it in YAML: ``10m``, ``8MB``, ``true``, ``0.5``."""
    if unit is not None:
        return unit.write(value)
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)
