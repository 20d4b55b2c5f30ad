"""The Spark session, with everything pinned that decides where files are cut."""

from __future__ import annotations

import os
import sys
from functools import cache

from pyspark.sql import SparkSession

from shipper.config.models import Pipeline


def session(pipeline: Pipeline) -> SparkSession:
    """The session for the pipeline's steps, one per process. Raises what Spark raises if the master cannot be reached."""
    return _session(pipeline.name, pipeline.model_dump_json())


@cache
def _session(name: str, pipeline_json: str) -> SparkSession:
    pipeline = Pipeline.model_validate_json(pipeline_json, context={"parsed": True})
    runner = pipeline.runner
    # Python data sources and workers run in what these name; the default would be whatever `python3` is on the PATH.
    os.environ.setdefault("PYSPARK_PYTHON", runner.python or sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", os.environ["PYSPARK_PYTHON"])
    builder = SparkSession.builder.appName(f"shipper {name}").master(runner.spark_master)
    settings = {
        "spark.driver.memory": runner.driver_memory,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        **({"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"} if runner.kind == "local" else {}),
        **runner.conf,
        "spark.speculation": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.files.maxPartitionBytes": str(pipeline.source.split_size_bytes),
        "spark.sql.files.openCostInBytes": "0",
        "spark.sql.files.minPartitionNum": "1",
        "spark.sql.files.ignoreCorruptFiles": "false",
        "spark.sql.files.ignoreMissingFiles": "false",
        # Listing thousands of given files: a few tasks that list many each, not one task per file.
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "32",
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
