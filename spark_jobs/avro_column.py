"""`records.avro` as columns: jvm/shipper/avro encodes, beside the rest of the expression, so no
value goes to Python for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from shipper.config.avro import Avro
from spark_jobs.reason import first_line

_MAGIC = b"\0"
#: A struct becomes the JSON that the reader makes of a table's row. Spark's own form of a moment
#: ends with milliseconds.
_OF_STRUCTS = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]XXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]",
}


class AvroValues:
    """Encoder of JSON objects in UTF-8, by the pipeline's schema. Raises Java's
    SchemaParseException for an invalid schema."""

    def __init__(self, spark: SparkSession, avro: Avro) -> None:
        jvm: Any = spark._jvm
        self._encoder = jvm.shipper.avro.Encoder(avro.text)

    def encoded(self, json: Column) -> Column:
        """Return the encoded value, without the header. Null of a null, and of what does not
        fit."""
        return Column(self._encoder.encoded(json._jc))

    def misfit(self, json: Column) -> Column:
        """Return why it does not fit, without its content; null if it does."""
        return Column(self._encoder.misfit(json._jc))


def struct_as_json(struct: Column) -> Column:
    return F.to_json(struct, _OF_STRUCTS)


def header(avro: Avro, ids: Mapping[str, int], topic: Callable[[], Column]) -> Column:
    """Return the header of each value, in Confluent's wire format. ``topic``: the name of a
    record's topic, for a registry that numbers a schema separately under each subject."""
    headers = {subject: _MAGIC + number.to_bytes(4, "big") for subject, number in ids.items()}
    if len(set(headers.values())) == 1:
        return F.lit(bytearray(next(iter(headers.values()))))
    before, _, behind = avro.subject.partition("{topic}")
    chosen, subject = F.lit(None).cast("binary"), F.concat(F.lit(before), topic(), F.lit(behind))
    for name, found in headers.items():
        chosen = F.when(subject == F.lit(name), F.lit(bytearray(found))).otherwise(chosen)
    return chosen


def schema_fault(spark: SparkSession, avro: Avro) -> str:
    """Return why Avro does not accept the schema; empty if it does."""
    try:
        AvroValues(spark, avro)
    except Exception as error:
        return first_line(error)
    return ""
