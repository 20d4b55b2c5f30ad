"""Look of a job's process at its environment, without shipping anything: for `shipper doctor`.
Prints one JSON document."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

from shipper import runtime
from shipper.config.pipeline import Pipeline
from shipper.config.rules import resolve_uri
from shipper.driver.bounds import refuse_outside
from shipper.driver.files import select
from shipper.driver.unreadable import cannot_list
from shipper.errors import ShipperError, SourceError
from shipper.windows.window import Window, source_paths
from spark_jobs import class_data
from spark_jobs.hadoop import Hadoop
from spark_jobs.jvm import begin_java
from spark_jobs.reason import first_line, of_exception
from spark_jobs.settings import set_environment, spark_settings
from spark_jobs.spark_engine import SparkEngine

_MOST_FILES = 10_000


def look(config_dir: Path, pipeline: Pipeline, window: Window) -> int:
    """Print Spark's and Java's versions, and the files of ``window``: ``java_error`` if no Java
    starts, ``source_error`` if they cannot be listed, ``problem`` if the first of them cannot be
    read. On a Spark cluster, print a second document with the findings of tasks there. Returns 0:
    the faults are in the last document."""
    settings = spark_settings(pipeline)
    set_environment(pipeline)
    impatient = pipeline.source.model_copy(update={"wait_seconds": 0.0})
    pipeline = pipeline.model_copy(update={"source": impatient})
    paths = source_paths(resolve_uri(config_dir, pipeline.source.path), window)
    found: dict[str, Any] = {
        "spark": version("pyspark"),
        "folder": paths[-1],
    }
    try:
        begin_java(settings)
        found["class_data"] = class_data.archive() is not None
        found["java"] = str(
            Hadoop.start(settings, {}).jvm.java.lang.System.getProperty("java.version")
        )
    except ShipperError as error:
        print(json.dumps({**found, "java_error": error.message}))
        return 0
    except Exception as error:
        print(json.dumps({**found, "java_error": first_line(error)}))
        return 0
    try:
        found |= _files(config_dir, SparkEngine(pipeline), pipeline, paths)
    except SourceError as error:
        found["source_error"] = error.message
    print(json.dumps(found), flush=True)
    if pipeline.runner.kind != "local":
        print(json.dumps({**found, **_executors(pipeline)}))
    return 0


def _executors(pipeline: Pipeline) -> dict[str, Any]:
    """Return what tasks find on the cluster: ``executors``, or ``executor_error``."""
    from spark_jobs.session import session
    from spark_jobs.sink import look_at_executors

    try:
        spark = session(pipeline)
        found = look_at_executors(spark)
        spark.stop()
        return {"executors": found}
    except Exception as error:
        return {"executor_error": of_exception(error).text}


def _files(
    config_dir: Path, engine: SparkEngine, pipeline: Pipeline, paths: list[str]
) -> dict[str, Any]:
    source = pipeline.source
    found_files = engine.list_files(paths, most=_MOST_FILES)
    refuse_outside(config_dir, engine, found_files)
    for path, why in found_files.problems.items():
        raise cannot_list(pipeline.name, [path], why)
    listed = [file for file in found_files.files if not file.left]
    taken, left_out = select(
        found_files.files, settle_seconds=source.settle_seconds, now=runtime.now()
    )
    found: dict[str, Any] = {
        "files": len(taken),
        "left_out": sum(one.file.count for one in left_out),
    }
    if listed:
        found["newest_ms"] = max(file.id.modified_ms for file in listed)
    if taken:
        first = taken[0].planned()
        engine.look_at([first])
        found["problem"] = f"{first.path}: {first.problem}" if first.problem else None
    return found
