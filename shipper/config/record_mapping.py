"""Models of what becomes of a line: the parts of a pipeline below `records`, `routes` and
`quarantine`. What Spark makes of them is spark_jobs.parsing and spark_jobs.frame."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Literal

from pydantic import Field, StrictFloat, ValidationInfo, field_validator, model_validator

from shipper.config.avro import Avro
from shipper.config.redact import Redaction
from shipper.config.rules import (
    COLUMN_PATTERN,
    NAME_PATTERN,
    PATTERN_MEANINGS,
    THE_KEY,
    TOPIC_COLUMN,
    Fault,
    Model,
    check_topic,
    legal_topic,
    named_twice,
    refuse,
    regex_groups,
    reserved_topics,
    suggestion,
)
from shipper.config.units import Bytes, BytesPerSecond

#: Columns that every line has before `records.columns`. The last one is shipper's own: the split
#: that the line lies in.
GIVEN_COLUMNS = ("value", "file_path", "file_name", "split")
#: Rules and reasons share a byte per record.
MOST_RULES = 60
#: Reasons of records in quarantine, besides the names of checks with severity `quarantine`.
UNPARSEABLE, UNROUTABLE, TOO_LARGE, TOO_MANY_TOPICS = (
    "unparseable",
    "unroutable",
    "too_large",
    "too_many_topics",
)
#: A time that the topic refuses or would delete at once; no key, for a topic that needs one.
TIMESTAMP, WITHOUT_KEY = "timestamp", "without_key"
#: With `records.avro`: a value that does not fit the schema.
UNENCODABLE = "unencodable"
#: One record for a whole file, with `source.on_unreadable: quarantine`.
UNREADABLE = "unreadable"
QUARANTINE_REASONS = (
    UNPARSEABLE,
    UNENCODABLE,
    UNROUTABLE,
    TOO_MANY_TOPICS,
    TOO_LARGE,
    TIMESTAMP,
    WITHOUT_KEY,
    UNREADABLE,
)
_NAMED_AT_ALL = re.compile(r"\?P?<(?![=!])([^>]*)>")
_DDL_NAME = re.compile(r"\s*(`(?:[^`]|``)+`|[^\s:`]+)[\s:]+\S")


class Parse(Model):
    """Columns that are parsed from each line, for `records.columns`, `drop`, `routes`, keys,
    headers and gates. A line that cannot be parsed is `unparseable`: it goes to `quarantine`, or
    fails the run without one. Dropped lines need not be parseable. The value stays the line, byte
    for byte."""

    regex: str | None = Field(
        default=None, min_length=1, examples=[r"^(?<client>\S+) \S+ (?<status>\d{3})"]
    )
    """Java regular expression. Each named group, `(?<name>…)`, becomes a string column; a group
    that did not take part is empty. A line without a match is unparseable; `^` and `$` anchor the
    expression. Each group that is used costs another match of the line."""
    json_object: Literal[True] | str | None = Field(
        default=None, alias="json", examples=["service STRING, status INT"]
    )
    """`true` or a schema, for lines that are JSON objects. With a schema as in SQL (`service
    STRING, status INT`), its fields become columns, null if the object has no such field. A line
    that is not one object (RFC 8259), or has a value of another type, is unparseable. `true`: no
    columns; extract what you need in `records.columns` with `get_json_object(value, '$.status')`.
    """

    @field_validator("regex")
    @classmethod
    def _has_named_groups(cls, value: str | None) -> str | None:
        if value is None:
            return None
        groups = regex_groups(value)
        names = [name for name in groups if name is not None]
        wrong = [
            name
            for name in _NAMED_AT_ALL.findall(value)
            if not re.fullmatch(r"[A-Za-z][A-Za-z0-9]*", name)
        ]
        if wrong:
            raise ValueError(
                f"{wrong[0]!r} names no group: Java allows letters and digits, a letter first"
            )
        if "(?P<" in value:
            raise ValueError(
                "a named group is written (?<name>…) here, as in Java, not (?P<name>…)"
            )
        if not names:
            raise ValueError("no named group: write (?<name>…) around each column's part")
        refuse(((), why) for _, why in named_twice(names))
        return value

    @field_validator("json_object")
    @classmethod
    def _fields_can_be_named(cls, value: Literal[True] | str | None) -> Literal[True] | str | None:
        if isinstance(value, str):
            for name in ddl_names(value):
                if not re.fullmatch(COLUMN_PATTERN, name):
                    raise ValueError(f"field {name!r}: {PATTERN_MEANINGS[COLUMN_PATTERN]}")
        return value

    @model_validator(mode="after")
    def _one_way(self) -> Parse:
        given = [
            name
            for name, way in (("regex", self.regex), ("json", self.json_object))
            if way is not None
        ]
        if len(given) != 1:
            raise ValueError("`parse` has either `regex` or `json`")
        return self

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that it makes."""
        if self.regex is not None:
            return tuple(name for name in regex_groups(self.regex) if name is not None)
        return tuple(ddl_names(self.json_object)) if isinstance(self.json_object, str) else ()


def ddl_names(schema: str) -> list[str]:
    """Return the names of the fields of a schema written as in SQL. Raises ValueError for what has
    no name and type; the rest is Spark's to check."""
    names, part, depth = [], "", 0
    for character in schema + ",":
        depth += (character in "<(") - (character in ">)")
        if character == "," and depth == 0:
            found = _DDL_NAME.match(part)
            if found is None:
                raise ValueError(f"{part.strip()!r} is not a field such as `service STRING`")
            names.append(found[1].strip("`"))
            part = ""
        else:
            part += character
    for _, why in named_twice([name.lower() for name in names]):
        raise ValueError(f"field {why} (SQL does not tell upper from lower case)")
    return names


class Records(Model):
    """Rules that make a Kafka record of a line. Each rule is a Spark SQL expression over `value`
    (the line), `file_path`, `file_name`, `window_start` (the time in the file's path),
    `record_number` and `split_start` (the line's place), the columns of `parse`, and earlier
    columns."""

    starts_with: str | None = Field(default=None, min_length=1, examples=[r"\d{4}-\d\d-\d\d "])
    """Java regular expression for records of several lines, such as stack traces. A record begins
    at each line whose beginning matches, and continues up to the next one, line ends included. The
    lines before the first match are one record. Only for `source.format: text`. No record is longer
    than `max_line`: if the pattern never matches, a larger file is one record that is too long."""
    parse: Parse | None = Field(default=None, json_schema_extra={"type": ["object", "null"]})
    """Columns from the line itself, by a regular expression or from JSON. The expressions below may
    use them. With `source.format: jsonl` and `csv` the default is `{json: true}`. `null` also ships
    lines that are not objects."""
    columns: dict[str, str] = Field(
        default_factory=dict, json_schema_extra={"propertyNames": {"pattern": COLUMN_PATTERN}}
    )
    """Named expressions, evaluated in order; later ones, `routes`, topics as `{name}` and gates may
    use them."""
    drop: dict[str, str] = Field(
        default_factory=dict,
        max_length=MOST_RULES,
        examples=[{"health_checks": "url = '/healthz'"}],
    )
    """Name → condition. A line for which a condition is true is dropped, and counted under the name
    of the first such rule, by Spark, by the tasks and in the ledger."""
    max_line_bytes: Bytes = Field(default=2**20, alias="max_line", ge=1_000, le=64 * 2**20)
    """Longest line that can become a record. A longer line is skipped without being kept in memory:
    it goes to quarantine as `too_large`, with its beginning. Without `quarantine` it fails the run,
    which names the line's file and number. Lower the limit to bound memory: a task's batch of lines
    takes up to 1 GiB, or 4,000 lines of this length if that is less."""
    value: str = "value"
    """The record's value. The default ships the line's bytes untouched; any string function reads
    them as UTF-8."""
    avro: Avro | None = None
    """Ship values as Avro, by a schema that the cluster's Schema Registry knows."""
    redact: tuple[Redaction, ...] = Field(
        default=(), max_length=MOST_RULES, examples=[["email", "ipv4"]]
    )
    """Rules that redact everything that leaves in a record, one after the other: value, key and
    headers, in quarantine too, whatever they were made from. Expressions and checks see the line as
    it was read, and names of topics are made before redaction. All other bytes stay as they are."""
    key: str | None = None
    """Key of the record. A compacted topic takes no record without a key: a record whose key is
    null goes to quarantine as `without_key`, or fails the run without a quarantine. A record with a
    key goes to the partition that Java's default partitioner (murmur2) would choose."""
    headers: dict[str, str] = Field(default_factory=dict)
    """Header name → expression. A null leaves the header out of that record."""
    timestamp: str | None = None
    """Timestamp of the record (type TIMESTAMP). Without it, or if it is null, the record gets
    the time of sending; a check `not_null` refuses such lines. A topic bounds timestamps by
    `message.timestamp.before.max.ms`, `message.timestamp.after.max.ms` and `retention.ms`. A
    record outside of these bounds, or not after 1970-01-01, is not sent: it goes to quarantine
    as `timestamp`, or fails the run without a quarantine. A topic with
    `message.timestamp.type=LogAppendTime` has no such bounds, and the broker sets all
    timestamps."""

    @field_validator("starts_with")
    @classmethod
    def _not_every_line(cls, value: str | None) -> str | None:
        try:
            always = value is not None and re.match(value, "") is not None
        except re.error:  # Java's to judge
            always = False
        if always:
            raise ValueError("matches the empty text, so every line would begin a record")
        return value

    @field_validator("parse")
    @classmethod
    def _parsed_columns_are_new(cls, value: Parse | None) -> Parse | None:
        refuse(
            ((), f"{name!r} is taken: every record has it; name this column otherwise")
            for name in _columns_of(value)
            if name.lower() in (*GIVEN_COLUMNS, "key")
        )
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
        parse: Parse | None = info.data.get("parse")
        taken = dict.fromkeys((*GIVEN_COLUMNS, "key"), "a column that every record has")
        taken |= {name.lower(): "a column of `records.parse`" for name in _columns_of(parse)}
        faults: list[Fault] = []
        for name in value:
            other = taken.setdefault(name.lower(), f"the column {name!r}")
            if not re.fullmatch(COLUMN_PATTERN, name):
                faults.append(((name, THE_KEY), PATTERN_MEANINGS[COLUMN_PATTERN]))
            elif other != f"the column {name!r}":
                why = f"{name!r} is {other} already, by the case of SQL; choose another name"
                faults.append(((name, THE_KEY), why))
        refuse(faults)
        return value

    @property
    def ships_lines(self) -> bool:
        """True if values are lines as they were read."""
        return self.value == "value" and not self.redact and self.avro is None

    @property
    def named_columns(self) -> tuple[str, ...]:
        """Columns that `parse` and `columns` make, in order."""
        return (*_columns_of(self.parse), *self.columns)


def _columns_of(parse: Parse | None) -> tuple[str, ...]:
    return parse.columns if parse else ()


class Route(Model):
    """One line of the routing table; the first whose `when` holds takes the record."""

    topic: str = Field(min_length=1, examples=["logs.web", "logs.{service}"])
    """Topic name. `{column}` is filled in from each record (`file_name`, or a column of
    `records.columns`). The line then decides its topic, so `topics` or `matching` must list the
    allowed topics."""
    when: str | None = None
    """Spark SQL condition. The last route has none: it takes all other records."""
    topics: tuple[str, ...] = ()
    """Topics that a `topic` with a `{column}` may lead to, by their whole names. A record for
    another topic goes to quarantine as `unroutable`, or fails the run without a quarantine. May be
    extended at any time. A file that was shipped in part is not finished without the topics that
    took its records."""
    matching: str | None = Field(default=None, min_length=1, examples=["logs\\\\.[a-z]{1,20}"])
    """Java regular expression for the whole topic name, instead of `topics`. `limits.max_topics`
    bounds the number of topics. Names that Kafka does not accept, ledgers of shipper (`_shipper.…`)
    and internal topics (`__…`) never match."""

    @field_validator("topic")
    @classmethod
    def _legal_topic(cls, value: str) -> str:
        check_topic(TOPIC_COLUMN.sub("x", value))
        return value

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that the topic is made of; empty for a fixed topic."""
        return tuple(TOPIC_COLUMN.findall(self.topic))

    def faults(self) -> Iterator[Fault]:
        """Yield contradictions between the route's fields."""
        if not self.columns:
            for name in ("topics", "matching"):
                if getattr(self, name):
                    yield (name,), f"`{name}` is for a topic with a {{column}} in it; remove it"
        elif self.topics and self.matching is not None:
            yield ("matching",), "`topics` and `matching` contradict each other; keep one"
        elif not self.topics and self.matching is None:
            example = TOPIC_COLUMN.sub("a", self.topic)
            prefix = re.escape(TOPIC_COLUMN.split(self.topic)[0])
            yield (
                ("topic",),
                f"any line could choose any topic: list them, `topics: [{example}, …]`, or give a "
                f"pattern, `matching: '{prefix}[a-z0-9-]{{1,40}}'`",
            )
        for index, topic in enumerate(self.topics):
            try:
                check_topic(topic)
            except ValueError as error:
                yield ("topics", index), str(error)
            else:
                if self.columns and not self._made_from_columns(topic):
                    yield ("topics", index), f"{self.topic!r} never leads to {topic!r}"

    def _made_from_columns(self, topic: str) -> bool:
        parts = TOPIC_COLUMN.sub("{}", self.topic).split("{}")
        return re.fullmatch(".+".join(map(re.escape, parts)), topic) is not None

    def matches(self, topic: str) -> bool:
        """Return True if the route can lead to ``topic``. Of `matching`, what only Java understands
        is taken to match."""
        if (
            not legal_topic(topic)
            or re.fullmatch(reserved_topics(), topic)
            or not self._made_from_columns(topic)
        ):
            return False
        if self.topics:
            return topic in self.topics
        try:
            return self.matching is None or re.fullmatch(self.matching, topic) is not None
        except re.error:
            return True


def route_faults(routes: Sequence[Route], columns: Collection[str] | None) -> Iterator[Fault]:
    """Yield the faults of a routing table. ``columns``: names that a topic may be made of, None:
    unknown."""
    for index, route in enumerate(routes[:-1]):
        if route.when is None:
            yield (index,), f"the route to {route.topic!r} has no `when`, and hides those after it"
    if routes and routes[-1].when is not None:
        why = "the last route must have no `when`: it takes the records that match no other"
        yield (len(routes) - 1, "when"), why
    for index, route in enumerate(routes):
        unknown = [
            column for column in route.columns if columns is not None and column not in columns
        ]
        for column in unknown:
            yield (
                (index, "topic"),
                f"no column {column!r}{suggestion(column, columns or ())}; `records.columns` "
                "defines them",
            )
        if not unknown:
            yield from (((index, *path), why) for path, why in route.faults())


class Target(Model):
    """Overrides for one cluster; none, if it is only named."""

    routes: tuple[Route, ...] = ()
    """Routes that override the pipeline's `routes`. The source gate's checks use the pipeline's own
    routes."""
    rate_limit: BytesPerSecond | None = Field(default=None, ge=1)
    """Rate limit that overrides `delivery.rate_limit`."""


def as_targets(clusters: Any) -> Any:
    """Return a pipeline's `clusters` as name → section. Raises ValueError, ValidationError."""
    if not isinstance(clusters, dict | list | tuple):
        raise ValueError("expected a list, such as [a, b]")
    if not clusters:
        raise ValueError("the list is empty; it needs an entry at least")
    if isinstance(clusters, dict):
        return {name: {} if target is None else target for name, target in clusters.items()}
    refuse(
        ((index,), f"found {name}; expected text; put it into quotes")
        for index, name in enumerate(clusters)
        if not isinstance(name, str)
    )
    refuse(named_twice(clusters))
    return {name: {} for name in clusters}


class Quarantine(Model):
    """Topic for records that cannot be shipped, so that they do not fail the run: records that
    `records.parse` cannot parse, without a legal topic, too large for their topic, or failing a
    check with severity `quarantine`. Each arrives exactly once, in the transaction of its
    neighbours, with headers for its reason and origin (docs/reference/consumer-contract.md). May be
    added, changed or removed at any time: the ledger knows each quarantined record."""

    topic: str = Field(min_length=1, examples=["quarantine.web"])
    """The topic, on every cluster of the pipeline. No route's topic; several pipelines may share
    it."""
    max_rate: StrictFloat = Field(default=0.01, ge=0, le=1)
    """Largest share, 0–1, of a run's records in quarantine (dropped lines do not count). A run with
    more fails after everything is sent: then the source has changed. An unreadable file counts as
    many records as its bytes would hold. A CSV row that is too long, or has other fields than the
    header, counts as many records as it has lines, because one stray quote joins many rows. Any
    other record counts as one, however long it is."""
    keep_bytes: Bytes = Field(default=256, alias="keep", ge=0, le=512_000)
    """Number of bytes to keep of each record's value, from its beginning. Key and headers are kept
    if none of them is longer. `0B` keeps nothing."""

    @field_validator("topic")
    @classmethod
    def _legal_topic(cls, value: str) -> str:
        check_topic(value)
        return value
