"""From the window's files to the frame that the sink takes. All of it is Spark SQL."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from shipper.config.checks import InWindowCheck, MatchesCheck, RecordCheck
from shipper.config.models import Pipeline, Route
from shipper.config.sql import column
from shipper.errors import ConfigError
from spark_jobs.fates import FATE, counts, fate, is_dropped, quarantine_checks
from spark_jobs.listing import first_line
from spark_jobs.parsing import PARSED, parse_faults, with_parsed

#: Names that no column of a pipeline can have.
TOPIC_COLUMN = "topic!"
_GLOB_CHARACTERS = re.compile(r"([\\*?\[\]{}])")
_FILES = StructType([StructField("file_path", StringType()), StructField("file_name", StringType())])
_LINES = StructType([StructField("value", StringType()), *_FILES.fields, StructField("split", LongType())])


def lines(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """Every line of the files: value, file_path, file_name, and the split's hash (see shipper.plan.files.split_hash).

    A line ends at ``\\n`` alone, so a ``\\r`` stays. Paths are taken literally: Spark would read ``[``, ``{``, ``*`` in them as a
    glob, and with its globbing turned off it reads files twice as soon as a name holds such a character.
    """
    escaped = [_GLOB_CHARACTERS.sub(r"\\\1", path) for path in paths]
    frame = spark.read.option("lineSep", "\n").option("recursiveFileLookup", "true").text(escaped)
    of = [f"_metadata.{name}" for name in ("file_path", "file_size", "file_modification_time", "file_block_start")]
    return frame.select("value", "_metadata.file_path", "_metadata.file_name", F.xxhash64(*of).alias("split"))


def with_columns(frame: DataFrame, pipeline: Pipeline) -> DataFrame:
    """Adds those of ``records.parse`` and ``records.columns``, in order; later ones may use earlier ones."""
    frame = with_parsed(frame, pipeline)
    for name, expression in pipeline.records.columns.items():
        frame = frame.withColumn(name, F.expr(expression))
    return frame


def gate_frame(frame: DataFrame, pipeline: Pipeline) -> DataFrame:
    """What the content checks of the source gate look at, of every line that `records.drop` leaves: the line, the named columns, the key
    if there is one, and the topic's name. What no check asks for is not computed."""
    frame = with_columns(frame, pipeline)
    for condition in pipeline.records.drop.values():
        frame = frame.where(~F.coalesce(F.expr(condition), F.lit(False)))
    if pipeline.records.key is not None:
        frame = frame.withColumn("key", F.expr(pipeline.records.key))
    names = _first_match(pipeline, _topic_name)
    return frame.withColumn(TOPIC_COLUMN, names).drop("split", "file_path", "file_name", PARSED)


def records(frame: DataFrame, pipeline: Pipeline, fates: Observation | None = None) -> DataFrame:
    """The sink's columns: split, value, checksum, and topic, key, headers, timestamp (ms), fate where the pipeline has them.

    Every column costs the way from the JVM to Python some 0.1 µs per record, a string twice that; hence no `topic` for a pipeline
    with one, an index for one with several fixed ones, and no `fate` where every line is shipped. ``fates`` gets Spark's count of
    these. What is dropped travels without its value.
    """
    frame = with_columns(frame, pipeline)
    mapping, decided = pipeline.records, fate(pipeline)
    if mapping.key is not None and quarantine_checks(pipeline):
        frame = frame.withColumn("key", F.expr(mapping.key))
    if decided is not None:
        frame = frame.withColumn(FATE, decided)
    value = _as_bytes(frame, mapping.value)
    named = not fixed_topics(pipeline)
    if named:
        frame = frame.withColumn(TOPIC_COLUMN, topic(pipeline))
    if fates is not None and (counted := counts(pipeline, F.col(column(TOPIC_COLUMN)) if named else None)):
        frame = frame.observe(fates, *counted)
    if mapping.drop:
        value = F.when(~F.coalesce(is_dropped(pipeline), F.lit(False)), value)
    columns = [F.col("split"), value.alias("value"), F.xxhash64(value).alias("checksum")]
    if len(fixed_topics(pipeline)) != 1:
        columns.append((F.col(column(TOPIC_COLUMN)) if named else topic(pipeline)).alias("topic"))
    if mapping.key is not None:
        columns.append(_as_bytes(frame, mapping.key).alias("key"))
    if mapping.headers and mapping.bundle is None:
        fields = [_as_bytes(frame, expression).alias(name) for name, expression in mapping.headers.items()]
        columns.append(F.struct(*fields).alias("headers"))
    if mapping.timestamp is not None:
        columns.append(F.unix_millis(F.expr(mapping.timestamp).cast("timestamp")).alias("timestamp"))
    if decided is not None:
        columns.append(F.col(column(FATE)).alias("fate"))
    return frame.select(*columns)


def headers_of_files(spark: SparkSession, pipeline: Pipeline, uris: Sequence[str]) -> dict[str, tuple[tuple[str, bytes], ...]]:
    """URI → headers of the file's bundles; empty without bundles. Raises ConfigError for a header that depends on the line."""
    mapping = pipeline.records
    if mapping.bundle is None or not mapping.headers:
        return {}
    of_line, faults = _of_line(spark, pipeline)
    if faults:
        raise ConfigError("\n".join(f"config/pipelines/{pipeline.name}.yaml: {field}: {message}" for field, message in faults))
    named = [(uri, uri.rpartition("/")[2]) for uri in uris]  # as Spark names them in `_metadata`
    frame = spark.createDataFrame(named, _FILES)
    for name, expression in mapping.columns.items():
        frame = frame if name in of_line else frame.withColumn(name, F.expr(expression))
    fields = [_as_bytes(frame, expression).alias(f"{index}") for index, expression in enumerate(mapping.headers.values())]
    rows = frame.select("file_path", *fields).collect()
    return {
        uri: tuple((n, bytes(v)) for n, v in zip(mapping.headers, values, strict=True) if v is not None) for uri, *values in rows
    }


def _of_line(spark: SparkSession, pipeline: Pipeline) -> tuple[set[str], list[tuple[str, str]]]:
    """The columns that depend on the line and not on its file alone, and the faults of headers that do although a bundle holds
    many lines. Reads no data. Raises what Spark raises for an expression that it cannot analyse."""
    frame = with_parsed(spark.createDataFrame([], _LINES), pipeline)
    of_line = {"value", "split", *(pipeline.records.parse.columns if pipeline.records.parse else ())}
    for name, sql in pipeline.records.columns.items():
        if _uses(frame, sql, of_line):
            of_line.add(name)
        frame = frame.withColumn(name, F.expr(sql))
    message = (
        "`headers` and `bundle` contradict each other: {!r} depends on the line, and a bundle holds many. Use file_path, file_name "
        "and columns made of these only; or remove this header, or `bundle`"
    )
    headers = pipeline.records.headers.items()
    return of_line, [(f"records.headers.{name}", message.format(sql)) for name, sql in headers if _uses(frame, sql, of_line)]


def _uses(frame: DataFrame, sql: str, columns: set[str]) -> bool:
    """Whether the expression uses any of ``columns``, or may give something else each time (as input_file_name() does). Asked of
    Spark, which alone knows that ``user`` is a function where there is no such column."""
    plan = frame.select(F.expr(sql))._jdf.queryExecution().analyzed()  # type: ignore[operator]
    used = plan.references().toSeq()
    return not plan.deterministic() or any(used.apply(index).name() in columns for index in range(used.size()))


def _as_bytes(frame: DataFrame, expression: str) -> Column:
    """A cast of a number to binary would give its big-endian bytes, which nobody expects in Kafka."""
    column = F.expr(expression)
    if isinstance(frame.select(column).schema[0].dataType, BinaryType):
        return column
    return column.cast("string").cast("binary")


def fixed_topics(pipeline: Pipeline) -> tuple[str, ...]:
    """The pipeline's topics if all of them are known before reading; else nothing."""
    return () if any(route.columns for route in pipeline.routes) else tuple(pipeline.fixed_topics())


def topic(pipeline: Pipeline) -> Column:
    """Index into ``fixed_topics``, or the name. First match wins; the last route has no condition (the config says so)."""
    fixed = fixed_topics(pipeline)
    return _first_match(pipeline, lambda route: F.lit(fixed.index(route.topic)) if fixed else _topic_name(route))


def _first_match(pipeline: Pipeline, target: Callable[[Route], Column]) -> Column:
    *conditional, last = pipeline.routes
    chosen = target(last)
    for route in reversed(conditional):
        chosen = F.when(F.expr(str(route.when)), target(route)).otherwise(chosen)
    return chosen


def _topic_name(route: Route) -> Column:
    parts = re.split(r"\{(\w+)\}", route.topic)
    columns = [F.col(part).cast("string") if index % 2 else F.lit(part) for index, part in enumerate(parts) if part]
    return F.concat(*columns)


@dataclass(frozen=True)
class Expression:
    """One SQL expression of a pipeline, with the field that holds it."""

    field: str
    sql: str
    kind: str = "value"
    """``value``, ``condition`` (must be boolean) or ``timestamp``."""


def expressions(pipeline: Pipeline) -> Iterator[Expression]:
    """All SQL of a pipeline but ``records.columns``, which build on each other."""
    mapping = pipeline.records
    for name, sql in mapping.drop.items():
        yield Expression(f"records.drop.{name}", sql, "condition")
    yield Expression("records.value", mapping.value)
    if mapping.key is not None:
        yield Expression("records.key", mapping.key)
    for name, sql in mapping.headers.items():
        yield Expression(f"records.headers.{name}", sql)
    if mapping.timestamp is not None:
        yield Expression("records.timestamp", mapping.timestamp, "timestamp")
    for index, route in enumerate(pipeline.routes):
        if route.when is not None:
            yield Expression(f"routes[{index}].when", route.when, "condition")
    for index, check in enumerate(pipeline.gates.source):
        if isinstance(check, RecordCheck):
            yield Expression(f"gates.source[{index}].{check.sql_field}", check.condition(), "condition")
        if isinstance(check, InWindowCheck):
            yield Expression(f"gates.source[{index}].column", column(check.column), "timestamp")


def _regex_faults(spark: SparkSession, pipeline: Pipeline) -> Iterator[tuple[str, str]]:
    """Spark compiles a regex when it meets the first record."""
    for index, check in enumerate(pipeline.gates.source):
        if isinstance(check, MatchesCheck):
            try:
                spark._jvm.java.util.regex.Pattern.compile(check.regex)
            except Exception as error:
                yield f"gates.source[{index}].regex", f"{check.regex!r} is no Java regular expression: {first_line(error)}"


def sql_faults(spark: SparkSession, pipeline: Pipeline) -> list[tuple[str, str]]:
    """(field, message) for every expression that Spark cannot analyse, all at once. Reads no data."""
    frame = spark.createDataFrame([], _LINES)
    parse = pipeline.records.parse
    faults = parse_faults(spark, parse) if parse is not None else []
    if parse is not None and faults:
        frame = frame.withColumns({name: F.lit(None).cast("string") for name in parse.columns})
    else:
        frame = with_parsed(frame, pipeline)
    for name, sql in pipeline.records.columns.items():
        try:
            frame = frame.withColumn(name, F.expr(sql))
        except Exception as error:
            faults.append((f"records.columns.{name}", f"{sql!r}: {first_line(error)}"))
            frame = frame.withColumn(name, F.lit(None).cast("string"))
    if pipeline.records.key is not None:
        with suppress(Exception):  # shown as the fault of `records.key`
            frame = frame.withColumn("key", F.expr(pipeline.records.key))
    wanted = {"condition": "boolean", "timestamp": "timestamp"}
    for expression in expressions(pipeline):
        try:
            found = frame.select(F.expr(expression.sql)).schema[0].dataType.simpleString()
        except Exception as error:
            faults.append((expression.field, f"{expression.sql!r}: {first_line(error)}"))
            continue
        want = wanted.get(expression.kind)
        if want and found != want and not (want == "timestamp" and found in ("string", "timestamp_ntz", "date")):
            faults.append((expression.field, f"{expression.sql!r} is of type {found}; it must be {want}"))
    faults += _regex_faults(spark, pipeline)
    if pipeline.records.bundle is not None and not faults:
        faults = _of_line(spark, pipeline)[1]
    return faults
