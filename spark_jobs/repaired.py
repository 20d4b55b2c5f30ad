"""Records that a person repaired, judged and redacted by the frame of a ship."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from shipper.config.pipeline import Pipeline
from shipper.driver.dispositions import quarantine_checks, reasons, rules
from shipper.driver.repaired import judges_lines
from shipper.report.repaired import RepairedRecord
from spark_jobs.frame import RECORD_NUMBER, SPLIT_START, disposition, with_columns
from spark_jobs.redact import redaction

_ENCODED = (
    "its value is Avro with something that `records.redact` takes out, and encoded bytes cannot be "
    "redacted; repair the file, and run its window again"
)
_GIVEN = StructType(
    [
        StructField("value", BinaryType()),
        StructField("file_path", StringType()),
        StructField("file_name", StringType()),
        StructField(SPLIT_START, LongType()),
        StructField(RECORD_NUMBER, LongType()),
    ]
)


def judge(spark: SparkSession, pipeline: Pipeline, records: Sequence[RepairedRecord]) -> None:
    """Note why a record is not to be sent, and reduce each record to the parts that may leave."""
    if judges_lines(pipeline):
        _decide(spark, pipeline, [record for record in records if record.value is not None])
    if pipeline.records.redact:
        _redact(spark, pipeline, records)


def _decide(spark: SparkSession, pipeline: Pipeline, records: Sequence[RepairedRecord]) -> None:
    rows = [
        (each.value, each.file, each.file.rpartition("/")[2], each.split, each.record)
        for each in records
    ]
    # A cast leaves bytes that are no UTF-8 as they are, as the reader does.
    frame = spark.createDataFrame(rows, _GIVEN).withColumn("value", F.col("value").cast("string"))
    frame = with_columns(frame, pipeline)
    if pipeline.records.key is not None and quarantine_checks(pipeline):
        frame = frame.withColumn("key", F.expr(pipeline.records.key))
    decided = disposition(pipeline)
    assert decided is not None  # there are reasons
    first = len(rules(pipeline))
    for record, (number,) in zip(records, frame.select(decided).collect(), strict=True):
        if number is not None and number >= first:
            record.why = f"it would go to quarantine again as {reasons(pipeline)[number - first]}"


def _redact(spark: SparkSession, pipeline: Pipeline, records: Sequence[RepairedRecord]) -> None:
    """Redact all values, keys and headers as rows of one column."""
    parts = [
        part
        for each in records
        for part in (each.value, each.key, *(value for _, value in each.headers))
    ]
    frame = spark.createDataFrame(
        [(part,) for part in parts], StructType([StructField("part", BinaryType())])
    )
    redacted = redaction(spark, pipeline.records.redact)(F.col("part"))
    left = iter(
        [None if row[0] is None else bytes(row[0]) for row in frame.select(redacted).collect()]
    )
    for each in records:
        value = next(left)
        if pipeline.records.avro is not None and value != each.value:
            each.why = _ENCODED
        each.value, each.key = value, next(left)
        each.headers = [(name, next(left) or b"") for name, _ in each.headers]
