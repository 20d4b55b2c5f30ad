"""The Spark session, with everything pinned that decides where files are cut."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from shipper.config.models import Pipeline

_FEW_ARENAS = ("MALLOC_ARENA_MAX", "2")


def session(pipeline: Pipeline) -> SparkSession:
    """The session for the pipeline's steps, one per process. Raises what Spark raises if the master cannot be reached."""
    runner = pipeline.runner
    # Python data sources and workers run in what these name; the default would be whatever `python3` is on the PATH.
    os.environ.setdefault("PYSPARK_PYTHON", runner.python or sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", os.environ["PYSPARK_PYTHON"])
    # Many lanes in many of glibc's arenas keep 60 MB more per worker than they use (measured over 140 ms).
    os.environ.setdefault(*_FEW_ARENAS)
    builder = SparkSession.builder.appName(f"shipper {pipeline.name}").master(runner.spark_master)
    settings = {
        "spark.driver.memory": runner.driver_memory,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}",
        # By default Java and Python must have found each other after 15 s, which a busy machine does not always let them.
        "spark.python.authenticate.socketTimeout": "120s",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "4000",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        **({"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"} if runner.kind == "local" else {}),
        f"spark.executorEnv.{_FEW_ARENAS[0]}": _FEW_ARENAS[1],
        **runner.conf,
        "spark.speculation": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.files.maxPartitionBytes": str(pipeline.split_size_bytes),
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
