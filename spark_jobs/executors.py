"""The executors of a Spark cluster, watched from the driver. Spark waits without end for those that
do not come."""

from __future__ import annotations

import contextlib
from typing import Any

from pyspark.sql import SparkSession

from shipper import runtime
from shipper.config.runner_options import Runner
from shipper.terminal import say

_LOOKS_EVERY_SECONDS, _FIRST_SECONDS, _AGAIN_SECONDS = 1.0, 3.0, 30.0


def watch_executors(spark: SparkSession, runner: Runner) -> None:
    """Tell on standard error what a job waits for while it has no executor, until the session ends.
    Returns at once."""

    def watch() -> None:
        with contextlib.suppress(Exception):  # the session, or its JVM, has ended
            _watch(spark.sparkContext._jsc.sc().statusTracker(), runner)

    runtime.Thread(target=watch, name="executors", daemon=True).start()


def _watch(tracker: Any, runner: Runner) -> None:
    began, tell_at = 0.0, 0.0
    while True:
        runtime.sleep(_LOOKS_EVERY_SECONDS)
        now = runtime.monotonic()
        if len(tracker.getExecutorInfos()) > 1:  # one is the driver
            if tell_at > began + _FIRST_SECONDS:
                first = (
                    "; the first task on each unpacks `runner.archive`" if runner.archive else ""
                )
                say(
                    f"Spark's executors are ready, {now - began:.0f} s after they were asked "
                    f"for{first}"
                )
            began = tell_at = 0.0
        elif not len(tracker.getActiveJobIds()):
            began = tell_at = 0.0
        elif not began:
            began, tell_at = now, now + _FIRST_SECONDS
        elif now >= tell_at:
            why = ""
            if tell_at > began + _FIRST_SECONDS:
                why = (
                    ". Either the cluster has no free cores or memory for one "
                    "(`spark.executor.cores`, `spark.executor.memory` in `runner.conf`), or "
                    "executors end as they start: the page of the master and their logs on the "
                    "workers say why"
                )
            say(
                f"waiting for Spark's executors from {runner.spark_master}, {now - began:.0f} s "
                f"now{why}"
            )
            tell_at = now + _AGAIN_SECONDS
