"""Spark's own Kafka sink as a user runs it: one script, one fresh process. For ``shipper bench cold``::

python bench_sink.py '{"input": "FOLDER", "options": {…}, "jars": […]}'
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F


def main() -> None:
    told = json.loads(sys.argv[1])
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", ",".join(told["jars"]))
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "2g")
        .getOrCreate()
    )
    spark.read.text(told["input"]).select(F.col("value")).write.format("kafka").options(**told["options"]).save()
    spark.stop()


if __name__ == "__main__":
    main()
