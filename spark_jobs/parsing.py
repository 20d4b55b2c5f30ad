"""The columns of `records.parse`, in Spark SQL."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from shipper.config.pipeline import Pipeline
from shipper.config.records import Parse, regex_groups
from shipper.config.rules import sql_column
from spark_jobs.listing import first_line

#: Names that no column of a pipeline can have. The parsed line stands in a column of its own, so that it is parsed once.
PARSED = "parsed!"
_CORRUPT = "corrupt!"
_JSON_OBJECT = r"^\s*\{[\s\S]*\}\s*$"


def with_parsed(frame: DataFrame, pipeline: Pipeline) -> DataFrame:
    """Adds the columns of `records.parse`, null in a line that cannot be parsed, and what :func:`is_parsed` looks at."""
    parse = pipeline.records.parse
    if parse is None:
        return frame
    if parse.regex is not None:
        frame = frame.withColumn(PARSED, F.col("value").rlike(parse.regex))
        groups = {name: index for index, name in enumerate(regex_groups(parse.regex), 1) if name is not None}
        columns = {name: F.regexp_extract("value", parse.regex, index) for name, index in groups.items()}
        return frame.withColumns({name: F.when(F.col(PARSED), column) for name, column in columns.items()})
    if not isinstance(parse.json_object, str):
        return frame.withColumn(PARSED, _looks_like_object() & F.try_parse_json("value").isNotNull())
    options = {"columnNameOfCorruptRecord": _CORRUPT}
    schema = f"{parse.json_object}, `{_CORRUPT}` STRING"
    read = F.when(_looks_like_object(), F.from_json("value", schema, options))
    frame = frame.withColumn(PARSED, F.when(read[_CORRUPT].isNull(), read))
    return frame.withColumns({name: F.col(PARSED)[name] for name in parse.columns})


def is_parsed(parse: Parse) -> Column:
    """Whether the line could be parsed; never null."""
    parsed = F.col(sql_column(PARSED))
    return F.coalesce(parsed, F.lit(False)) if parse.regex is not None or parse.json_object is True else parsed.isNotNull()


def _looks_like_object() -> Column:
    """Spark also reads the first object of an array, and what stands before some other text."""
    return F.col("value").rlike(_JSON_OBJECT)


def parse_faults(spark: SparkSession, parse: Parse) -> list[tuple[str, str]]:
    """(field, message). Reads no data."""
    jvm = spark._jvm  # a regular expression is compiled when it is first used, which is too late
    try:
        if parse.regex is not None:
            jvm.java.util.regex.Pattern.compile(parse.regex)  # type: ignore[union-attr]
        elif isinstance(parse.json_object, str):
            spark.createDataFrame([], parse.json_object)
    except Exception as error:
        field = "regex" if parse.regex is not None else "json"
        return [(f"records.parse.{field}", f"{getattr(parse, 'regex', None) or parse.json_object!r}: {_reason(error)}")]
    return []


def _reason(error: Exception) -> str:
    java = getattr(error, "java_exception", None)
    return first_line(error) if java is None else str(java.getMessage()).splitlines()[0]
