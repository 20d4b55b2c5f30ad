"""SQL of a pipeline, all of it, and its faults. Spark analyses every expression over no lines at
all; nothing is read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from shipper.config.content_checks import InWindowCheck, JsonCheck, MatchesCheck, RecordCheck
from shipper.config.load import locate
from shipper.config.pipeline import Pipeline
from shipper.config.record_mapping import Parse
from shipper.config.rules import original, sql_column
from shipper.errors import ConfigError
from spark_jobs.avro_column import schema_fault
from spark_jobs.frame import LINES, with_window
from spark_jobs.reason import first_line
from spark_jobs.sql_rules import Analysed, regex_fault, why_not_analysed

_TYPES = {
    "condition": ("boolean",),
    "timestamp": ("timestamp", "timestamp_ntz", "date"),
    "time": ("timestamp", "timestamp_ntz", "date", "string"),
}


@dataclass(frozen=True)
class Expression:
    """One SQL expression of a pipeline, with the field that holds it."""

    field: str
    sql: str
    kind: str = "value"
    """``value``, ``condition`` (must be boolean), ``timestamp``, or ``time``, which may be text as
    well."""


@dataclass(frozen=True)
class SqlFault:
    field: str
    message: str
    refused: bool = False
    """True if Spark would accept it, but the promises would not hold: a run with it is refused too,
    not only `validate`."""


def expressions(pipeline: Pipeline) -> Iterator[Expression]:
    """Yield all SQL of a pipeline but ``records.columns``, which build on each other."""
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
    for place, route in pipeline.all_routes():
        if route.when is not None:
            yield Expression(f"{place}.when", route.when, "condition")
    for index, check in enumerate(pipeline.gates.source):
        # The SQL of `json` is shipper's own.
        if isinstance(check, RecordCheck) and not isinstance(check, JsonCheck):
            yield Expression(
                f"gates.source[{index}].{check.sql_field}", check.condition(), "condition"
            )
        if isinstance(check, InWindowCheck):
            yield Expression(f"gates.source[{index}].column", sql_column(check.column), "time")


def sql_faults(spark: SparkSession, pipeline: Pipeline) -> list[SqlFault]:
    """Return the faults of each expression, all at once. Reads no data."""
    frame = spark.createDataFrame([], LINES)
    parse = pipeline.records.parse
    faults = _parse_faults(spark, parse) if parse is not None else []
    frame = with_window(frame, pipeline)
    if parse is not None:
        # The values do not matter to an expression, and shipper's own functions for them may not
        # be called by one.
        schema = None if faults else parse.json_object
        read = F.from_json("value", schema) if isinstance(schema, str) else None
        frame = frame.withColumns(
            {
                name: F.lit(None).cast("string") if read is None else read[name]
                for name in parse.columns
            }
        )
    for name, sql in pipeline.records.columns.items():
        fault = _fault(spark, frame, Expression(f"records.columns.{name}", sql))
        faults += [fault] if fault else []
        # A refused column is not added: expressions that use it would be refused again for it.
        frame = frame.withColumn(name, F.lit(None).cast("string") if fault else F.expr(sql))
    if (key := pipeline.records.key) is not None:  # its fault is found below
        faulty = _fault(spark, frame, Expression("records.key", key))
        frame = frame.withColumn("key", F.lit(None).cast("string") if faulty else F.expr(key))
    patterns = {
        f"{place}.matching": route.matching
        for place, route in pipeline.all_routes()
        if route.matching is not None
    }
    rules = enumerate(pipeline.records.redact)
    patterns |= {
        f"records.redact[{index}].regex": rule.regex
        for index, rule in rules
        if rule.regex is not None
    }
    if pipeline.records.starts_with is not None:
        patterns["records.starts_with"] = pipeline.records.starts_with
    if pipeline.records.avro is not None and (unfit := schema_fault(spark, pipeline.records.avro)):
        faults.append(SqlFault("records.avro.schema", unfit, refused=True))
    checks = enumerate(pipeline.gates.source)
    patterns |= {
        f"gates.source[{index}].regex": check.regex
        for index, check in checks
        if isinstance(check, MatchesCheck)
    }
    wrong = {
        place: why for place, pattern in patterns.items() if (why := regex_fault(spark, pattern))
    }
    faults += [SqlFault(place, why) for place, why in wrong.items()]
    sound = (
        expression for expression in expressions(pipeline) if expression.field not in wrong
    )  # a check's own pattern is in its SQL
    faults += filter(None, (_fault(spark, frame, expression) for expression in sound))
    return faults


def _parse_faults(spark: SparkSession, parse: Parse) -> list[SqlFault]:
    """Return the faults of `records.parse`. Reads no data."""
    if parse.regex is not None:
        why = regex_fault(spark, parse.regex)
        return [SqlFault("records.parse.regex", why)] if why else []
    try:
        if isinstance(parse.json_object, str):
            spark.createDataFrame([], parse.json_object)
    except Exception as error:
        return [SqlFault("records.parse.json", f"{parse.json_object!r}: {first_line(error)}")]
    return []


def refuse_unsafe_sql(spark: SparkSession, pipeline: Pipeline, config_dir: Path) -> None:
    """Raise ConfigError for expressions that Spark would accept and that would break the promises.
    Called before anything is read by them or sent, since it is unknown whether the pipeline was
    validated. Costs some 10 ms an expression."""
    if not _has_any(pipeline):
        return
    refused = [fault for fault in sql_faults(spark, pipeline) if fault.refused]
    if refused:
        raise ConfigError(
            "\n".join(
                str(locate(config_dir, original(pipeline.name), fault.field, fault.message))
                for fault in refused
            ),
            code="SHIP-205",
        )


def _has_any(pipeline: Pipeline) -> bool:
    mapping = pipeline.records
    return (
        any((one.field, one.sql) != ("records.value", "value") for one in expressions(pipeline))
        or bool(mapping.columns)
        or mapping.parse is not None
        or mapping.avro is not None
    )


def _fault(spark: SparkSession, frame: DataFrame, expression: Expression) -> SqlFault | None:
    try:
        found = Analysed.of(spark, frame, expression.sql)
    except Exception as error:
        return SqlFault(
            expression.field, f"{expression.sql!r}: {why_not_analysed(error, frame.columns)}"
        )
    if why := found.refused():
        return SqlFault(expression.field, f"{expression.sql!r}: {why}", refused=True)
    if why := found.fault():
        return SqlFault(expression.field, f"{expression.sql!r}: {why}")
    kind, allowed = found.frame.schema[0].dataType.simpleString(), _TYPES.get(expression.kind)
    if allowed and kind not in allowed:
        how = (
            "; write `to_timestamp(…, 'yyyy-MM-dd HH:mm:ss')` or how it is written"
            if (kind, allowed[0]) == ("string", "timestamp")
            else ""
        )
        return SqlFault(
            expression.field, f"{expression.sql!r} is of type {kind}; it must be {allowed[0]}{how}"
        )
    return None
