"""The checks of the source gate that look at lines, and the part of a pipeline below `gates`. All
that one scope (`sample`, `full`) has to answer is read in one scan."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    field_validator,
    model_validator,
)

from shipper.config.checks import (
    CountCheck,
    DeliveryCheck,
    FilesCheck,
    ListingCheck,
    PipelineFacts,
    SourceGateCheck,
    SumClosesCheck,
)
from shipper.config.rules import (
    COLUMN_PATTERN,
    THE_KEY,
    TOPIC_COLUMN,
    Fault,
    Model,
    check_ascending,
    named_twice,
    refuse,
    sql_array,
    sql_column,
    sql_literal,
    sql_time,
    suggestion,
)
from shipper.config.units import Bytes, Seconds, write_size

Column = Annotated[
    str, Field(min_length=1, description="`value`, `key`, or a column of `records.columns`.")
]


class ContentCheck(SourceGateCheck):
    """A check for which lines are read."""

    on: Literal["sample", "full"] = "sample"
    """`sample`: `gates.sample_files` pieces of the files that are about to be shipped, the same
    ones each time. `full`: all of them."""

    def faults(self, facts: PipelineFacts) -> Iterator[Fault]:
        column = getattr(self, "column", None)
        if facts.columns is not None and column is not None and column not in facts.columns:
            yield ("column",), f"no column {column!r}{suggestion(column, facts.columns)}"


class RateCheck(ContentCheck):
    """The share of records that are right."""

    min_rate: StrictFloat = Field(default=1.0, gt=0, le=1)
    """Smallest share of the records, 0–1."""


class RecordCheck(RateCheck):
    """A check that says of each single record whether it is right."""

    severity: Literal["block", "quarantine", "warn"] = "block"  # type: ignore[assignment]
    """`block`: a share below `min_rate` closes the gate. `warn`: it is only reported. `quarantine`:
    it is reported, and each record that is not right goes to the pipeline's quarantine topic
    instead, with the check as its reason."""

    whole: ClassVar[str] = ""
    sql_field: ClassVar[str] = "column"
    """The key that Spark's complaint about :meth:`condition` is shown at."""

    def condition(self) -> str:
        """Return Spark SQL, true for a record that is right (null: it is not), over `value`, `key`
        and the columns of `records.columns`."""
        raise NotImplementedError

    def faults(self, facts: PipelineFacts) -> Iterator[Fault]:
        yield from super().faults(facts)
        if self.severity == "quarantine" and facts.quarantines is False:
            yield (
                ("severity",),
                "`quarantine` needs a topic to go to: add `quarantine: {topic: …}` to the pipeline",
            )


class RowsCheck(CountCheck, ContentCheck):
    """The number of lines. A bound on an amount is held against all files (`on: full`), unless
    `on: sample` is written. That there is one line at all is looked up in a sample."""

    check: Literal["rows"]

    @model_validator(mode="before")
    @classmethod
    def _an_amount_is_of_all_files(cls, given: Any) -> Any:
        if isinstance(given, dict) and (given.get("min", 1) != 1 or given.get("max") is not None):
            return {"on": "full", **given}
        return given


class NotNullCheck(RecordCheck):
    """The share of records whose column is not null."""

    check: Literal["not_null"]
    column: Column

    def condition(self) -> str:
        return f"{sql_column(self.column)} IS NOT NULL"


class MatchesCheck(RecordCheck):
    """The share of records in whose column the regex is found. Bytes that are no UTF-8 are looked
    at as U+FFFD."""

    check: Literal["matches"]
    column: Column = "value"
    regex: str = Field(min_length=1, examples=[r"^\S+ "])
    """A Java regular expression. It may be found anywhere in the text: begin it with `^` and end it
    with `$` to match all of it."""

    sql_field: ClassVar[str] = "regex"

    def condition(self) -> str:
        return f"{sql_column(self.column)} RLIKE {sql_literal(self.regex)}"


class JsonCheck(RecordCheck):
    """The share of records whose column is one JSON object (RFC 8259), and nothing else."""

    check: Literal["json"]
    column: Column = "value"

    def condition(self) -> str:
        # jvm/shipper/lines/JsonObject.java
        return f"json_fault(CAST(CAST({sql_column(self.column)} AS STRING) AS BINARY)) IS NULL"


class AllowedCheck(RecordCheck):
    """The share of records whose column has one of some values."""

    check: Literal["allowed"]
    column: Column
    values: tuple[StrictStr | StrictInt, ...] = Field(min_length=1)
    """The values that are right, compared as text: `200` is the column's `200`, be it text or a
    whole number."""

    @field_validator("values")
    @classmethod
    def _values_differ(cls, values: tuple[str | int, ...]) -> tuple[str | int, ...]:
        refuse(named_twice([str(value) for value in values]))
        return values

    def condition(self) -> str:
        texts = ", ".join(sql_literal(str(value)) for value in self.values)
        return f"CAST({sql_column(self.column)} AS STRING) IN ({texts})"


class InWindowCheck(RateCheck):
    """The share of records whose time lies in the window, or near it. A text column is read as a
    time; a text that is no time, and null, is not in the window."""

    check: Literal["in_window"]
    column: str = Field(min_length=1)
    """A column of `records.columns`, of type TIMESTAMP, DATE or text such as
    `2026-11-01T06:00:00Z`. Without a zone it is UTC."""
    before_seconds: Seconds = Field(default=0.0, alias="before")
    """Allowed time before the window's start, for records that came late."""
    after_seconds: Seconds = Field(default=0.0, alias="after")
    """Allowed time after the window's end, for clocks that run ahead."""

    whole: ClassVar[str] = (
        "the records of a file would depend on the window that it is shipped in, and a rerun with "
        "a wider one would ship others"
    )

    def condition_in(self, start: dt.datetime, end: dt.datetime) -> str:
        """Return :meth:`RecordCheck.condition` for one window."""
        low = round((start.timestamp() - self.before_seconds) * 1000)
        high = round((end.timestamp() + self.after_seconds) * 1000)
        at = sql_time(self.column)
        return f"{at} >= timestamp_millis({low}) AND {at} < timestamp_millis({high})"


class MaxGapCheck(ContentCheck):
    """The longest time without a record, to the second: between two records, from the window's
    start to the first one, or from the last one to its end. Records outside the window do not
    count. Of a window that is shipped in part already it says nothing."""

    check: Literal["max_gap"]
    column: str = Field(min_length=1)
    """A column of `records.columns`, as of `in_window`."""
    max_seconds: Seconds = Field(alias="max", ge=1)
    """No time without a record is longer."""
    on: Literal["full"] = "full"
    """A sample has holes."""


class LineLengthCheck(ContentCheck):
    """The lengths of lines, in bytes without the line's end. Give one bound at least. `p50: 200B`
    says that at least 50 % of the lines have at most 200 bytes; so bounds on percentiles are
    checked exactly, without sorting."""

    check: Literal["line_length"]
    min_bytes: Bytes | None = Field(default=None, alias="min", ge=1)
    """No line is shorter."""
    p50_bytes: Bytes | None = Field(default=None, alias="p50")
    """The median is at most this."""
    p99_bytes: Bytes | None = Field(default=None, alias="p99")
    """99 % of the lines have at most this length."""
    max_bytes: Bytes | None = Field(default=None, alias="max")
    """No line is longer."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        bounds = {
            "min": self.min_bytes,
            "p50": self.p50_bytes,
            "p99": self.p99_bytes,
            "max": self.max_bytes,
        }
        check_ascending(bounds, write_size)
        return self


class Share(Model):
    """Bounds on a share, 0–1."""

    min: StrictFloat = Field(default=0.0, ge=0, le=1)
    """The smallest share that is right. 0: the topic may be empty."""
    max: StrictFloat = Field(default=1.0, gt=0, le=1)
    """The largest share that is right."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        check_ascending({"min": self.min, "max": self.max})
        return self


class RouteRateCheck(ContentCheck):
    """The share of each topic in the records, by `routes`: no topic falls silent, and none swallows
    the others. A topic whose name is known before reading must get a record at least, unless
    `topics` says otherwise; of topics with a `{column}` only those that `topics` names are looked
    at. A sample may miss a rare topic: use `on: full`, or `min: 0` for it."""

    check: Literal["route_rate"]
    min_share: StrictFloat = Field(default=0.0, ge=0, lt=1)
    """Smallest share of each topic whose name is known before reading. Even at 0 it must get a
    record."""
    topics: dict[str, Share] = Field(default_factory=dict)
    """Topic → bounds of its share, instead of `min_share`: `{errors.web: {min: 0.001, max: 0.05}}`;
    `min: 0` lets it be empty."""

    @field_validator("topics")
    @classmethod
    def _shares_fit(cls, topics: dict[str, Share]) -> dict[str, Share]:
        if (least := sum(share.min for share in topics.values())) > 1:
            raise ValueError(f"the smallest shares add up to {least:.12g}, more than 1")
        return topics

    def faults(self, facts: PipelineFacts) -> Iterator[Fault]:
        if facts.topics is None:
            return
        patterns = [
            ".*".join(re.escape(part) for part in TOPIC_COLUMN.split(topic)[::2])
            for topic in facts.topics
        ]
        for topic in self.topics:
            if not any(re.fullmatch(pattern, topic) for pattern in patterns):
                yield (
                    ("topics", topic, THE_KEY),
                    f"no route leads to topic {topic!r}{suggestion(topic, facts.topics)}",
                )
        if not self.topics and all(TOPIC_COLUMN.search(topic) for topic in facts.topics):
            yield (), "there is no topic to check: every route's topic depends on the record"


class SchemaCheck(RecordCheck):
    """The share of lines with the fields that are expected: of JSON objects (`fields`, at their top
    level), or of lines cut at a delimiter (`columns`). A field that is missing, a new one, and a
    line that is no JSON object are drift. Delimiters in quotes count."""

    check: Literal["schema"]
    column: Column = "value"
    fields: tuple[str, ...] = ()
    """Names of the fields that every JSON object has."""
    optional: tuple[str, ...] = ()
    """Further fields that it may have."""
    new_fields: Literal["fail", "allow"] = "fail"
    """`fail`: a field that is in neither list is drift. `allow`: it is not."""
    columns: StrictInt | None = Field(default=None, ge=2)
    """Number of columns of every line."""
    delimiter: str = Field(default=",", min_length=1)
    """Delimiter between two columns: one or more characters."""

    @model_validator(mode="after")
    def _one_format(self) -> Self:
        if bool(self.fields) == (self.columns is not None):
            raise ValueError("it needs either `fields` (of JSON objects) or `columns` (of lines)")
        of_json = [name for name in ("optional", "new_fields") if name in self.model_fields_set]
        if self.columns is not None and of_json:
            raise ValueError(f"`{of_json[0]}` and `columns` contradict each other")
        if self.fields and "delimiter" in self.model_fields_set:
            raise ValueError("`delimiter` and `fields` contradict each other")
        for _, why in named_twice((*self.fields, *self.optional)):
            raise ValueError(why)
        return self

    def condition(self) -> str:
        if self.columns is not None:
            column, delimiter = sql_column(self.column), sql_literal(self.delimiter)
            removed = f"octet_length({column}) - octet_length(replace({column}, {delimiter}, ''))"
            return f"{removed} = {(self.columns - 1) * len(self.delimiter.encode())}"
        return (
            self.has_all()
            if self.new_fields == "allow"
            else f"{self.has_all()} AND NOT {self.has_new()}"
        )

    def keys(self) -> str:
        """Return SQL for the names of the object's fields; null if it is no JSON object."""
        return f"json_object_keys({sql_column(self.column)})"

    def has_all(self) -> str:
        return f"(size(array_except({sql_array(self.fields)}, {self.keys()})) = 0)"

    def has_new(self) -> str:
        return (
            f"(size(array_except({self.keys()}, {sql_array((*self.fields, *self.optional))})) > 0)"
        )


class ConditionCheck(RecordCheck):
    """The share of records for which a Spark SQL condition is true. Null is not true."""

    check: Literal["condition"]
    name: str = Field(pattern=COLUMN_PATTERN, examples=["has_client"])
    """Name in reports."""
    sql: str = Field(min_length=1, examples=["status BETWEEN 100 AND 599"])
    """The condition, over `value`, `key` and the columns of `records.columns`."""

    sql_field: ClassVar[str] = "sql"

    def condition(self) -> str:
        return f"({self.sql})"

    @property
    def title(self) -> str:
        return f"condition({self.name})"


class UniqueCheck(RateCheck):
    """The share of records that have their value to themselves: distinct values / records. It finds
    files or lines that came twice. Counted exactly for up to some million records; beyond, on every
    n-th value by its hash, of which all copies are counted."""

    check: Literal["unique"]
    column: str = Field(default="value", min_length=1)
    """`value`, `key`, or a column of `records.columns`. Nulls do not count."""

    whole: ClassVar[str] = (
        "the check compares records with each other, and no single record is at fault"
    )


class ExpectationsCheck(ContentCheck):
    """A suite of Great Expectations 1.x of one's own, over the records themselves as a pandas
    frame: `value`, `key`, and the columns of `records.columns`. It holds if every expectation
    does."""

    check: Literal["expectations"]
    suite: str = Field(min_length=1, pattern=r"^(\w[\w.-]*/)*\w[\w.-]*\.json$")
    """The suite's JSON file, below the configuration's folder: `expectations/web.json`."""
    max_rows: StrictInt = Field(default=1_000_000, ge=1)
    """Most rows that are looked at, the first ones: all of them lie in the driver's memory, some
    hundred bytes and the line for each."""
    values: StrictBool = False
    """True if Great Expectations' document may hold values of records, as examples. By default it
    has figures alone."""

    @property
    def title(self) -> str:
        return f"expectations({self.suite})"


SourceCheck = Annotated[
    ListingCheck
    | RowsCheck
    | NotNullCheck
    | MatchesCheck
    | JsonCheck
    | AllowedCheck
    | InWindowCheck
    | MaxGapCheck
    | LineLengthCheck
    | RouteRateCheck
    | SchemaCheck
    | ConditionCheck
    | UniqueCheck
    | ExpectationsCheck,
    Field(discriminator="check"),
]


def is_count(check: SourceGateCheck) -> bool:
    """Return whether it is about a number of files or of rows, or about the listing: a comparison
    judges it. The others are Great Expectations' to judge (docs/adr/0018)."""
    return not isinstance(check, ContentCheck) or isinstance(check, RowsCheck)


class Gates(Model):
    """Checks that must hold before the first byte is sent and after the last one. Great
    Expectations judges the checks of records. All counts are compared directly."""

    sample_files: StrictInt = Field(default=4, ge=1)
    """Number of pieces of files in a `sample`: that many files, spread evenly over the list, or
    several pieces of each if there are fewer."""
    sample_piece_bytes: Bytes = Field(default=2_000_000, alias="sample_piece", ge=64 * 2**10)
    """Most bytes in a piece; a smaller file is one piece. Plain text and bzip2 are cut at any
    place, and pieces are spread over the file; of any other file that is larger, the piece is its
    first 20,000 lines."""
    source: tuple[SourceCheck, ...] = Field(
        default=(FilesCheck(check="files"), RowsCheck(check="rows")), min_length=1
    )
    """Checks before shipping. A gate without a check would always be open, so an empty list is
    refused."""
    delivery: tuple[DeliveryCheck, ...] = Field(
        default=(SumClosesCheck(check="sum_closes"),), min_length=1
    )
    """Checks after shipping, each kind once."""
    on_closed: Literal["fail", "ask"] = "fail"
    """What a closed source gate does. `fail`: the run fails. `ask`: the run waits for a person, in
    Airflow's *Required actions* or at the terminal of `shipper run`: ship all the same, skip the
    checks that failed, or leave it. Who decided, when and why is in the results."""
    answer_within_seconds: Seconds = Field(default=14_400.0, alias="answer_within", gt=0)
    """How long Airflow waits for the answer. Without one the run fails, as with `fail`."""

    @field_validator("delivery")
    @classmethod
    def _each_kind_once(cls, delivery: tuple[DeliveryCheck, ...]) -> tuple[DeliveryCheck, ...]:
        kinds = [check.check for check in delivery]
        refuse(
            (
                (index, kind, "check"),
                (
                    f"there is another {kind!r} above, and each looks at all records; keep one "
                    "of them"
                ),
            )
            for index, kind in enumerate(kinds)
            if kind in kinds[:index]
        )
        return delivery
