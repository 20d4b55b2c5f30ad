"""How lines become Kafka records: the part of a pipeline below `records`."""

from __future__ import annotations

import re

from pydantic import Field, ValidationInfo, field_validator

from shipper.config.base import THE_KEY, Model, refuse
from shipper.config.parsing import Parse
from shipper.config.rules import COLUMN_PATTERN, NAME_PATTERN, PATTERN_MEANINGS
from shipper.config.units import Bytes

#: Columns that every line has before `records.columns`. The last one is shipper's own: the split that the line lies in.
GIVEN_COLUMNS = ("value", "file_path", "file_name", "split")

#: Header of a bundle: how many lines it holds, in decimal digits.
LINES_HEADER = "shipper-lines"
#: Rules and reasons share a byte per record.
MOST_RULES = 60
_WHY_NOT_BUNDLED = {
    "key": "lines of a bundle may have different keys, and a record has one; remove `key`, or ship each line as a record",
    "timestamp": "lines of a bundle have different times, and a record has one; remove `timestamp`, or ship each line as a record",
}


class Bundle(Model):
    """Many lines in one Kafka record: joined by `\\n`, their number in the header `shipper-lines`. Lines without a key travel and are
    stored at a fraction of the cost; consumers must take the bundles apart (docs/consumer-contract.md says how). Everything is still
    counted in lines. May be changed, or removed, from run to run: it decides how lines are packed, not which."""

    max_bytes: Bytes = Field(default=64_000, ge=1_000, le=64_000_000)
    """Most bytes in a bundle, uncompressed, `\\n` included. A longer line, or a value without a line's form (null, or with a `\\n` in
    it), is a bundle of its own. Larger bundles than 64kB gain little; the topic's `max.message.bytes` is their limit, as for any record."""


class Records(Model):
    """How a line becomes a Kafka record. Everything here is a Spark SQL expression over `value` (the line), `file_path`,
    `file_name`, the columns of `parse` and those named before it."""

    parse: Parse | None = None
    """Columns from the line itself, by a regular expression or from JSON; the expressions below may use them."""
    columns: dict[str, str] = Field(default_factory=dict)
    """Named expressions, evaluated in order; later ones, `routes`, topics as `{name}` and gates may use them."""
    drop: dict[str, str] = Field(default_factory=dict, max_length=MOST_RULES, examples=[{"health_checks": "url = '/healthz'"}])
    """Name → condition. A line for which it is true is not shipped, and counted under the name of the first such rule, by Spark, by
    the tasks and in the ledger."""
    max_line_bytes: Bytes = Field(default=2**20, alias="max_line", ge=1_000, le=64 * 2**20)
    """Longest line in bytes that can become a record. A longer one is read past, never kept in memory: it goes to quarantine as `too_large`,
    with its beginning, and without `quarantine` it fails the run, which names its file and number. Lower it to bound memory: a task's batch of lines
    has up to 1 GiB, or 4,000 lines of this length if that is less."""
    value: str = "value"
    """The record's value. The default ships the line's bytes untouched; any string function reads them as UTF-8."""
    key: str | None = None
    """The record's key. Keyed records go to the partition that Java's default partitioner (murmur2) would choose."""
    headers: dict[str, str] = Field(default_factory=dict)
    """Header name → expression. A null leaves the header out of that record."""
    timestamp: str | None = None
    """The record's timestamp (type TIMESTAMP). Without it the producer's clock is used."""
    bundle: Bundle | None = None
    """Ship many lines in one Kafka record. Not with `key` or `timestamp`, which belong to one line. `headers` may then depend on
    the file only (`file_path`, `file_name`, columns made of these): a bundle never holds lines of two files."""

    @field_validator("parse")
    @classmethod
    def _parsed_columns_are_new(cls, value: Parse | None) -> Parse | None:
        taken = [name for name in (value.columns if value else ()) if name.lower() in (*GIVEN_COLUMNS, "key")]
        refuse(((), f"{name!r} is taken: every record has it; name this column otherwise") for name in taken)
        return value

    @field_validator("drop")
    @classmethod
    def _rules_can_be_named(cls, value: dict[str, str]) -> dict[str, str]:
        wrong = [name for name in value if not re.fullmatch(NAME_PATTERN, name)]
        refuse(((name, THE_KEY), PATTERN_MEANINGS[NAME_PATTERN]) for name in wrong)
        return value

    @field_validator("columns")
    @classmethod
    def _columns_can_be_named(cls, value: dict[str, str], info: ValidationInfo) -> dict[str, str]:
        faults: list[tuple[tuple[str, ...], str]] = []
        seen: dict[str, str] = {}
        parse: Parse | None = info.data.get("parse")
        parsed = {name.lower() for name in parse.columns} if parse else set()
        for name in value:
            first = seen.setdefault(name.lower(), name)
            if not re.fullmatch(COLUMN_PATTERN, name):
                faults.append(((name, THE_KEY), "a name has letters, digits and '_' only, and does not begin with a digit"))
            elif name.lower() in (*GIVEN_COLUMNS, "key"):
                faults.append(((name, THE_KEY), f"{name!r} is taken: every record has it; choose another name"))
            elif name.lower() in parsed:
                faults.append(((name, THE_KEY), f"{name!r} is a column of `records.parse` already; choose another name"))
            elif first != name:
                faults.append(((name, THE_KEY), f"differs from {first!r} in letter case only, which SQL does not tell apart"))
        refuse(faults)
        return value

    @field_validator("headers")
    @classmethod
    def _count_header_is_ours(cls, value: dict[str, str]) -> dict[str, str]:
        taken = [name for name in value if name == LINES_HEADER]
        refuse(
            ((name, THE_KEY), f"{name!r} is set by shipper: how many lines a bundle holds; choose another name") for name in taken
        )
        return value

    @field_validator("bundle")
    @classmethod
    def _bundled_lines_have_nothing_of_their_own(cls, value: Bundle | None, info: ValidationInfo) -> Bundle | None:
        if value is not None:
            own = [name for name in ("key", "timestamp") if info.data.get(name) is not None]
            refuse(((), f"`bundle` and `{name}` contradict each other: {_WHY_NOT_BUNDLED[name]}") for name in own)
        return value

    @property
    def named_columns(self) -> tuple[str, ...]:
        """What `parse` and `columns` make, in order."""
        return (*(self.parse.columns if self.parse else ()), *self.columns)
