"""Frame for the sink, from the window's lines: columns, the decision about each line, and the
record. All of it is Spark SQL.

A line that is dropped is not filtered out: a chunk is an interval of ordinals, so every line must
be counted where the chunks are cut.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, ByteType, LongType, StringType, StructField, StructType

from shipper.config.pipeline import Pipeline
from shipper.config.record_mapping import UNROUTABLE, Parse, Route
from shipper.config.rules import (
    PathTime,
    pattern_of_source,
    regex_groups,
    reserved_topics,
    sql_column,
)
from shipper.driver.dispositions import fixed_topics, names, quarantine_checks
from shipper.worker.marks import (
    BLOCK,
    END,
    ENDS,
    HASHES,
    MARK,
    RECORDS,
    SIZES,
    SUM,
    SWALLOWED,
)
from spark_jobs.avro_column import AvroValues, header, struct_as_json
from spark_jobs.redact_column import redaction

#: Names that no column of a pipeline can have. The parsed line stands in a column of its own, so
#: that it is parsed once.
TOPIC_COLUMN, PARSED, _CORRUPT, _DISPOSITION = "topic!", "parsed!", "corrupt!", "disposition!"
#: Why the line is no JSON object; null if it is one.
_FAULT = "fault!"
#: With `records.avro`: the value as JSON, and what becomes of it.
_JSON, _ENCODED = "json!", "encoded!"
#: Why Spark does not ship a record, where it can say more than the disposition.
WHY = "why"
RESERVED = reserved_topics()
#: Columns that every line has unless the pipeline makes one by the same name: the first two of the
#: reader, the last by :func:`with_window`.
RECORD_NUMBER, SPLIT_START, WINDOW_START = "record_number", "split_start", "window_start"
#: Jackson has limits that JSON does not have. (A name of more than 50,000 characters stays
#: unreadable with a schema.)
_NO_LIMITS = dict.fromkeys(("maxNestingDepth", "maxNumLen", "maxStringLen"), str(2**31 - 1))
LINES = StructType(
    [
        StructField("value", StringType()),
        StructField("file_path", StringType()),
        StructField("file_name", StringType()),
        StructField("split", LongType()),
        StructField(MARK, ByteType()),
        StructField(RECORD_NUMBER, LongType()),
        StructField(SPLIT_START, LongType()),
        StructField(SIZES, StringType()),
        StructField(SWALLOWED, LongType()),
        StructField(BLOCK, BinaryType()),
        StructField(ENDS, BinaryType()),
        StructField(HASHES, BinaryType()),
        StructField(RECORDS, LongType()),
        StructField(SUM, LongType()),
    ]
)


def with_columns(frame: DataFrame, pipeline: Pipeline) -> DataFrame:
    """Add the columns of ``records.parse`` and ``records.columns``, in order; later ones may use
    earlier ones."""
    frame = with_parsed(frame, pipeline)
    for name, expression in pipeline.records.columns.items():
        frame = frame.withColumn(name, F.expr(expression))
    return frame


def gate_frame(frame: DataFrame, pipeline: Pipeline, *more: str) -> DataFrame:
    """Return the frame for the content checks of the source gate, of every line that `records.drop`
    leaves: the line, the named columns, the key if there is one, and the topic's name; of file_path
    and file_name those in ``more``. What no check asks for is not computed."""
    frame = with_columns(frame, pipeline)
    for condition in pipeline.records.drop.values():
        frame = frame.where(~F.coalesce(F.expr(condition), F.lit(False)))
    if pipeline.records.key is not None:
        frame = frame.withColumn("key", F.expr(pipeline.records.key))
    topics = _first_match(pipeline, lambda route: _topic_name(route, pipeline, RESERVED))
    given = (
        "split",
        MARK,
        SIZES,
        SWALLOWED,
        "file_path",
        "file_name",
        PARSED,
        _FAULT,
        WINDOW_START,
        RECORD_NUMBER,
        SPLIT_START,
    )
    unseen = [name for name in given if name not in (*more, *pipeline.records.named_columns)]
    return frame.withColumn(TOPIC_COLUMN, topics).drop(*unseen)


def records(
    frame: DataFrame,
    pipeline: Pipeline,
    dispositions: Observation | None = None,
    reserved: str = RESERVED,
    schema_ids: Mapping[str, int] | None = None,
) -> DataFrame:
    """Return the sink's columns: split, value, checksum, and topic, key, headers, timestamp (ms),
    disposition where the pipeline has them.

    Every column costs some 0.1 µs per record on the way from the JVM to Python, a string twice
    that. Hence there is no `topic` for a pipeline with one topic, an index for a pipeline with
    several fixed topics, and no `disposition` where every line is shipped. ``dispositions`` gets
    Spark's count of the dispositions. Dropped records travel without their value. ``reserved``: the
    cluster's `reserved_topics`. Shipped records are redacted only here. ``schema_ids``: subject →
    number of the schema of `records.avro`; without it values stay JSON, and WHY says why a value
    does not fit. Records that are not shipped are JSON in any case. WHY also says why a line is no
    JSON object, where such a line fails the ship or is shown.
    """
    frame = with_columns(frame, pipeline)
    mapping, decided = pipeline.records, disposition(pipeline)
    if mapping.key is not None and quarantine_checks(pipeline):
        frame = frame.withColumn("key", F.expr(mapping.key))
    leaving = _leaving(frame, pipeline)
    values = AvroValues(frame.sparkSession, mapping.avro) if mapping.avro is not None else None
    if values is not None:
        frame = frame.withColumn(_JSON, leaving(mapping.value))
        frame = frame.withColumn(_ENCODED, values.encoded(F.col(sql_column(_JSON))))
    if decided is not None:
        # A marked row's is decided already.
        frame = frame.withColumn(_DISPOSITION, F.when(F.col(sql_column(MARK)).isNull(), decided))
    value = leaving(mapping.value) if values is None else F.col(sql_column(_JSON))
    named = not fixed_topics(pipeline)
    if named:
        frame = frame.withColumn(TOPIC_COLUMN, topic(pipeline, reserved))
    if dispositions is not None and (
        counted := _counts(pipeline, F.col(sql_column(TOPIC_COLUMN)) if named else None)
    ):
        frame = frame.observe(dispositions, *counted)
    if mapping.avro is not None and schema_ids:
        first = header(mapping.avro, schema_ids, lambda: _topic_shown(pipeline))
        value = _with_header(pipeline, first)
    if mapping.drop:
        value = F.when(~F.coalesce(_is_dropped(pipeline), F.lit(False)), value)
    ends = F.col(sql_column(MARK)).eqNullSafe(END)
    sent = F.when(ends, F.col(sql_column(SIZES)).cast("binary")).otherwise(value)
    checksum = F.when(~ends, F.xxhash64(value))  # of lines alone, as Spark's sum
    columns = [F.col("split"), sent.alias("value"), checksum.alias("checksum")]
    columns += _of_the_record(pipeline, leaving, named=named)
    if decided is not None:
        columns.append(F.col(sql_column(_DISPOSITION)).alias("disposition"))
    whys = []
    fails_or_shown = pipeline.quarantine is None or dispositions is None
    if mapping.parse and mapping.parse.json_object and fails_or_shown:
        whys.append(F.col(sql_column(_FAULT)))
    if values is not None and not schema_ids:
        whys.append(values.misfit(F.col(sql_column(_JSON))))
    if whys:
        columns.append(F.coalesce(*whys).alias(WHY))
    return frame.select(*columns, *_of_the_line(pipeline))


def _of_the_line(pipeline: Pipeline) -> list[Column]:
    """Return what is told of the line that was read, where that is asked."""
    mapping, columns = pipeline.records, list[Column]()
    if pipeline.source.format == "csv" and pipeline.quarantine is not None:
        columns.append(F.col(sql_column(SWALLOWED)).alias("swallowed"))
    if not mapping.ships_lines or mapping.drop:
        # The lines that were read, for the sum of bytes; if values are lines and all of them
        # travel, the values serve for that.
        columns.append(F.octet_length(F.col("value")).alias("size"))
    return columns


def _of_the_record(
    pipeline: Pipeline, leaving: Callable[[str], Column], *, named: bool
) -> list[Column]:
    """Return topic, key, headers and timestamp, as far as the pipeline has them. ``named``: topics
    are in a column of the frame."""
    mapping, columns = pipeline.records, list[Column]()
    if len(fixed_topics(pipeline)) != 1:
        columns.append(
            (F.col(sql_column(TOPIC_COLUMN)) if named else topic(pipeline)).alias("topic")
        )
    if mapping.key is not None:
        columns.append(leaving(mapping.key).alias("key"))
    if mapping.headers:
        fields = [leaving(expression).alias(name) for name, expression in mapping.headers.items()]
        columns.append(F.struct(*fields).alias("headers"))
    if mapping.timestamp is not None:
        columns.append(
            F.unix_millis(F.expr(mapping.timestamp).cast("timestamp")).alias("timestamp")
        )
    return columns


def blocks(frame: DataFrame) -> DataFrame:
    """Select the sink's columns where no expression looks at a record: split, value, ends, hashes;
    and `checksum`, the sum of a block's hashes, for Spark's own sum. The worker leaves it alone."""
    column = {"value": BLOCK, "ends": ENDS, "hashes": HASHES, "checksum": SUM}
    return frame.select(
        "split", *[F.col(sql_column(of)).alias(name) for name, of in column.items()]
    )


def _leaving(frame: DataFrame, pipeline: Pipeline) -> Callable[[str], Column]:
    """Return a function from an expression to the bytes that leave."""
    redacted = redaction(frame.sparkSession, pipeline.records.redact)
    as_json = pipeline.records.avro is not None
    return lambda expression: redacted(_as_bytes(frame, expression, as_json))


def _as_bytes(frame: DataFrame, expression: str, as_json: bool) -> Column:
    """Return bytes. A cast of a number to binary would give its big-endian bytes, which no consumer
    expects in Kafka. ``as_json``: a struct, too."""
    column = F.expr(expression)
    kind = frame.select(column).schema[0].dataType
    if isinstance(kind, BinaryType):
        return column
    if isinstance(kind, StructType) and as_json:
        column = struct_as_json(column)
    return column.cast("string").cast("binary")


def topic(pipeline: Pipeline, reserved: str = RESERVED) -> Column:
    """Index into ``fixed_topics``, or the name; null where the record may go nowhere. First match
    wins; the last route has no condition (the config says so)."""
    fixed = fixed_topics(pipeline)
    return _first_match(
        pipeline,
        lambda route: (
            F.lit(fixed.index(route.topic)) if fixed else _topic_name(route, pipeline, reserved)
        ),
    )


def _with_header(pipeline: Pipeline, header: Column) -> Column:
    """Return the Avro value of shipped records, in the wire format; the JSON of all others."""
    shipped = (
        F.col(sql_column(_DISPOSITION)).isNull()
        & F.col(sql_column(MARK)).isNull()
        & header.isNotNull()
    )
    if not fixed_topics(pipeline):
        shipped &= F.col(sql_column(TOPIC_COLUMN)).isNotNull()
    return F.when(shipped, F.concat(header, F.col(sql_column(_ENCODED)))).otherwise(
        F.col(sql_column(_JSON))
    )


def _topic_shown(pipeline: Pipeline) -> Column:
    """Return the topic's name, also where topics are an index."""
    if not fixed_topics(pipeline):
        return F.col(sql_column(TOPIC_COLUMN))
    return _first_match(pipeline, lambda route: F.lit(route.topic))


def _first_match(pipeline: Pipeline, target: Callable[[Route], Column]) -> Column:
    *conditional, last = pipeline.routes
    chosen = target(last)
    for route in reversed(conditional):
        chosen = F.when(F.expr(str(route.when)), target(route)).otherwise(chosen)
    return chosen


def _topic_name(route: Route, pipeline: Pipeline, reserved: str) -> Column:
    """Return the topic's name; null for a name that the route does not allow. Decided here and
    nowhere else, so that Spark's count of such records and the sink's are of the same ones."""
    parts = re.split(r"\{(\w+)\}", route.topic)
    columns = [
        F.col(part).cast("string") if index % 2 else F.lit(part)
        for index, part in enumerate(parts)
        if part
    ]
    name = F.concat(*columns)
    if not route.columns:
        return name
    if route.matching is None:
        return F.when(name.isin(*route.topics), name)
    not_these = "|".join(
        [
            reserved,
            r"\.\.?",
            *([re.escape(pipeline.quarantine.topic)] if pipeline.quarantine else []),
        ]
    )
    return F.when(
        name.rlike(rf"\A(?!(?:{not_these})\z)(?=[a-zA-Z0-9._-]{{1,249}}\z)(?:{route.matching})\z"),
        name,
    )


# What is decided about each line


def disposition(pipeline: Pipeline) -> Column | None:
    """Return the disposition as a byte: null, ship it; else an index into ``rules`` and, after
    them, ``reasons``. The first that holds counts. None: every line is shipped."""
    conditions = [F.expr(condition) for condition in pipeline.records.drop.values()]
    if pipeline.records.parse is not None:
        conditions.append(~is_parsed(pipeline.records.parse))
    if pipeline.records.avro is not None:
        conditions.append(
            F.col(sql_column(_JSON)).isNotNull() & F.col(sql_column(_ENCODED)).isNull()
        )
    for right in quarantine_checks(pipeline).values():
        all_right = F.expr(" AND ".join(f"({condition})" for condition in right))
        conditions.append(~F.coalesce(all_right, F.lit(False)))
    if not conditions:
        return None
    chosen = F.lit(None).cast("tinyint")
    for index in reversed(range(len(conditions))):
        chosen = F.when(conditions[index], F.lit(index).cast("tinyint")).otherwise(chosen)
    return chosen


def _is_dropped(pipeline: Pipeline) -> Column:
    return F.col(sql_column(_DISPOSITION)) < len(pipeline.records.drop)


def _counts(pipeline: Pipeline, topic: Column | None) -> list[Column]:
    """Return aggregates for `observe`, named as in ``observed``. ``topic``: the column with its
    name, where that is not known before reading."""
    decided = F.col(sql_column(_DISPOSITION))
    found = [F.count_if(decided == index).alias(name) for index, name in enumerate(names(pipeline))]
    if topic is not None and pipeline.quarantine is not None:
        unmarked = F.col(sql_column(MARK)).isNull()
        free = decided.isNull() & unmarked if names(pipeline) else unmarked
        found.append(F.count_if(free & topic.isNull()).alias(f"quarantined: {UNROUTABLE}"))
    return found


# The columns of `records.parse`


def with_parsed(frame: DataFrame, pipeline: Pipeline) -> DataFrame:
    """Add `window_start`, and the columns of `records.parse`, null in a line that cannot be parsed,
    and the column that :func:`is_parsed` uses."""
    frame = with_window(frame, pipeline)
    parse = pipeline.records.parse
    if parse is None:
        return frame
    if parse.regex is not None:
        jvm: Any = frame.sparkSession._jvm
        found = Column(jvm.shipper.lines.Groups(parse.regex).found(F.col("value")._jc))
        frame = frame.withColumn(PARSED, found)
        names = enumerate(regex_groups(parse.regex))
        return frame.withColumns(
            {name: F.col(PARSED)[index] for index, name in names if name is not None}
        )
    json_object: Any = frame.sparkSession._jvm.shipper.lines.JsonObject  # type: ignore[union-attr]
    fault = Column(json_object.fault(F.col("value").cast("binary")._jc))
    frame = frame.withColumn(_FAULT, fault)
    if not isinstance(parse.json_object, str):
        return frame.withColumn(PARSED, F.col(sql_column(_FAULT)).isNull())
    options = {"columnNameOfCorruptRecord": _CORRUPT, **_NO_LIMITS}
    schema = f"{parse.json_object}, `{_CORRUPT}` STRING"
    read = F.when(F.col(sql_column(_FAULT)).isNull(), F.from_json("value", schema, options))
    frame = frame.withColumn(PARSED, F.when(read[_CORRUPT].isNull(), read))
    return frame.withColumns({name: F.col(PARSED)[name] for name in parse.columns})


def with_window(frame: DataFrame, pipeline: Pipeline) -> DataFrame:
    """Add `window_start`: the time for which the source's `{window_start:…}` stands in the path of
    a line's file, null if it is no date. No such column if the source's path names no whole date.
    Of the path and not of the run, since a file may be begun by one run and finished by one over
    another window."""
    pattern = pattern_of_source(pipeline.source.path)
    try:
        regex, form = PathTime(pattern or "").in_spark
    except ValueError:
        return frame
    groups = range(1, form.count("-") + 2)
    parts = [
        F.try_element_at(F.regexp_extract_all("file_path", F.lit(regex), F.lit(group)), F.lit(-1))
        for group in groups
    ]
    return frame.withColumn(WINDOW_START, F.try_to_timestamp(F.concat_ws("-", *parts), F.lit(form)))


def is_parsed(parse: Parse) -> Column:
    """Return whether the line could be parsed; never null."""
    parsed = F.col(sql_column(PARSED))
    return parsed if parse.json_object is True else parsed.isNotNull()
