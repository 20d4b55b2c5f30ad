"""The Spark session, with everything pinned that decides where files are cut."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from shipper.config.models import Pipeline

#: A worker fills and frees tens of megabytes a second. glibc gives freed memory back to the kernel at once, and 4 kB at a time is a fault for
#: each page when it is taken again: up to 75,000 faults per million lines. Kept, and in huge pages (glibc 2.35 or later), a worker needs 10 % less
#: CPU near and far (measured: 0.87 and 1.37 instead of 0.98 and 1.50 s per million lines). Many arenas would keep 60 MB more.
_MALLOC = {
    "arena_max": 2,
    "hugetlb": 1,
    "trim_threshold": 1 << 30,
    "top_pad": 16 << 20,
    "mmap_threshold": 32 << 20,  # else 128 kB, once trim_threshold is given
}
MAX_PARTITION_BYTES = "spark.sql.files.maxPartitionBytes"
_TUNABLES = ":".join(f"glibc.malloc.{name}={value}" for name, value in _MALLOC.items())


def session(pipeline: Pipeline) -> SparkSession:
    """The session for the pipeline's steps, one per process. Raises what Spark raises if the master cannot be reached."""
    runner = pipeline.runner
    # Python data sources and workers run in what these name; the default would be whatever `python3` is on the PATH.
    os.environ.setdefault("PYSPARK_PYTHON", runner.python or sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", os.environ["PYSPARK_PYTHON"])
    os.environ.setdefault("GLIBC_TUNABLES", _TUNABLES)  # for workers on this machine
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
        "spark.executorEnv.GLIBC_TUNABLES": _TUNABLES,
        **runner.conf,
        "spark.speculation": "false",
        "spark.sql.session.timeZone": "UTC",
        MAX_PARTITION_BYTES: str(pipeline.split_size_bytes),
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


@contextmanager
def setting(spark: SparkSession, key: str, value: object) -> Iterator[None]:
    """Another value for one of Spark SQL's settings while the ``with`` block runs."""
    previous = spark.conf.get(key)
    spark.conf.set(key, str(value))
    try:
        yield
    finally:
        spark.conf.set(key, str(previous))
