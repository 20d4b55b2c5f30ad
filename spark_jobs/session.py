"""The Spark session."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from pyspark import SparkConf, SparkContext
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from shipper import runtime, s3a
from shipper.config.pipeline import Pipeline
from shipper.config.properties import deciding
from shipper.errors import SparkUnavailable
from shipper.runner import why_no_spark
from shipper.terminal import say
from spark_jobs.executors import watch_executors
from spark_jobs.hadoop import tell
from spark_jobs.jvm import afterwards, java_process, spark_gateway
from spark_jobs.settings import set_environment, spark_settings

_STOPS = "stop pyspark"


def session(pipeline: Pipeline) -> SparkSession:
    """Return the session for the pipeline's steps, one per process. Raises SparkUnavailable if the
    master cannot be reached."""
    if why := why_no_spark(
        pipeline.runner
    ):  # Spark itself would try for a minute, and say that it was shut down
        raise SparkUnavailable(
            f"pipeline {pipeline.name}: {why}. Nothing was sent. Correct this, then run the "
            "window again."
        )
    for thread in runtime.threads():
        if thread.name == _STOPS:
            thread.join()
    settings = spark_settings(pipeline)
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    if not os.environ.get("SHIPPER_LOG"):
        for name in (
            "SQLQueryContextLogger",
            "DataFrameQueryContextLogger",
        ):  # hundreds of lines of Java for each error, log lines among them
            PySparkLogger.getLogger(name).setLevel(logging.CRITICAL + 1)
    on_ctrl_c = signal.getsignal(signal.SIGINT)
    try:
        set_environment(pipeline)
        if (
            SparkContext._active_spark_context is None
            and (gateway := spark_gateway(settings)) is not None
        ):
            SparkContext(
                conf=SparkConf(loadDefaults=False).setAll(list(settings.items())), gateway=gateway
            )
        spark = builder.getOrCreate()
        if url := spark.sparkContext.uiWebUrl:
            say(f"Spark's UI, as long as this step runs: {url}")
        tell(
            spark._jsc.hadoopConfiguration(), s3a.secrets(pipeline)
        )  # goes with each job to the executors; not in SparkConf, which Spark shows
        if pipeline.runner.kind != "local":
            watch_executors(spark, pipeline.runner)
        return spark
    finally:
        if runtime.current_thread() is runtime.main_thread():
            signal.signal(signal.SIGINT, on_ctrl_c)  # Spark has put its own there


def stop_session(spark: SparkSession) -> None:
    """Stop Spark, and leave what pyspark does besides to a thread: it waits up to a second for its
    own server of accumulators."""
    spark.sparkContext._jsc.stop()
    runtime.Thread(target=spark.stop, name=_STOPS, daemon=True).start()


def end_session(spark: SparkSession, within_seconds: float) -> None:
    """Stop the session from another thread; the JVM is killed if that takes longer. Never
    raises."""

    def stop() -> None:
        with contextlib.suppress(Exception):  # the JVM may be gone already
            spark.stop()

    stopper = runtime.Thread(target=stop, name="stop Spark", daemon=True)
    stopper.start()
    stopper.join(within_seconds)
    if stopper.is_alive() and (java := java_process()):
        java.kill()


@contextmanager
def quiet() -> Iterator[None]:
    """Keep these loggers from writing errors with the values that caused them into the task's
    log."""
    loggers = [
        logging.getLogger("great_expectations"),
        # Made by PySparkLogger, or else pyspark would find a plain logger under the name and fail
        # to log to it.
        PySparkLogger.getLogger("SQLQueryContextLogger"),
        PySparkLogger.getLogger("DataFrameQueryContextLogger"),
    ]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


@contextmanager
def setting(spark: SparkSession, key: str, value: object) -> Iterator[None]:
    """Set another value for one of Spark SQL's settings while the ``with`` block runs."""
    previous = spark.conf.get(key)
    spark.conf.set(key, str(value))
    with afterwards(lambda: spark.conf.set(key, str(previous))):
        yield


@contextmanager
def settings_of(spark: SparkSession, pipeline: Pipeline) -> Iterator[list[str]]:
    """Set those of the pipeline's settings that decide what a line becomes, while the ``with``
    block runs. Give the names of settings that only a session of its own takes."""
    missing = []
    with ExitStack() as settings:
        for key, value in deciding(pipeline.runner.conf).items():
            try:
                settings.enter_context(setting(spark, key, value))
            except Exception:
                missing.append(key)
        yield missing
