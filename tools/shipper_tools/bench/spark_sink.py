"""Spark's own Kafka sink as a user runs it: one script, one fresh process. For ``shipper bench
cold``::

python spark_sink.py '{"input": "FOLDER", "options": {…}, "jars": "…"}'
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

_PRODUCER = {"acks": "all", "linger.ms": "100", "batch.size": "1000000"}


def producer_options(bootstrap: str, compression: str) -> dict[str, str]:
    """Return the settings of Java's producer within the sinks of others."""
    return _PRODUCER | {"bootstrap.servers": bootstrap, "compression.type": compression}


def sink_options(bootstrap: str, compression: str, topic: str) -> dict[str, str]:
    """Return the options of Spark's Kafka sink."""
    return {
        f"kafka.{key}": value for key, value in producer_options(bootstrap, compression).items()
    } | {"topic": topic}


def sink_jars(peers_folder: Path | None, say: Callable[[str], None]) -> list[Path]:
    """Return the jars in the peers' folder; none, and a word about it, if there are none."""
    jars = sorted((peers_folder / "spark").glob("*.jar")) if peers_folder else []
    if not jars:
        say("without Spark's Kafka sink: name the folder whose spark/ has its jars in --peers")
    return jars


def main() -> None:
    told = json.loads(sys.argv[1])
    builder = SparkSession.builder.master("local[2]").config("spark.jars", told["jars"])
    spark = (
        builder.config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "2g")
        .getOrCreate()
    )
    lines = spark.read.text(told["input"]).select("value")
    lines.write.format("kafka").options(**told["options"]).save()
    spark.stop()


if __name__ == "__main__":
    main()
