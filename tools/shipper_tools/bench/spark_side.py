"""The Spark side of ``shipper bench``: one measurement per line on standard input, one JSON document back for each.

::

    {"do": "ship", "pipeline": "p0", "window": "START/END"}                    the steps of `shipper run`; the ship step is timed
    {"do": "kafka_sink", "input": "FOLDER", "options": {…}, "records": N}      Spark's own Kafka sink on text files

It ends with standard input.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

import psutil
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from shipper.config import load_cluster, load_pipeline, resolve_uri
from shipper.driver.context import RunContext
from shipper.driver.run import run_steps
from shipper.report.results import ShipResult
from shipper.report.run_folder import RunFolder
from shipper.runner import GATE_DELIVERY, GATE_SOURCE, PLAN, SHIP, new_run_id
from shipper.windows.window import parse_window
from shipper_tools.bench.machine import command_of, is_python_worker, process_seconds
from spark_jobs.engine import SparkEngine
from spark_jobs.session import session


def ship(config: Path, spark: SparkSession, name: str, window_text: str) -> dict[str, Any]:
    """Plan and gate, then the ship step against the clock, then the gate that must close the sum."""
    pipeline, window = load_pipeline(config, name), parse_window(window_text)
    folder = RunFolder(resolve_uri(config, pipeline.runs_uri), name, window.start, window.end, new_run_id())
    clusters = {cluster: load_cluster(config, cluster) for cluster in pipeline.clusters}

    def run(*steps: str) -> int:
        """As a process of its own would, but for Spark: connected to nobody."""
        engine = SparkEngine(pipeline, spark=spark)
        return run_steps(RunContext(pipeline, clusters, config, window, folder, engine), steps)

    cluster = pipeline.clusters[0]
    if run(PLAN, GATE_SOURCE):
        return {"error": f"plan or source gate of {name} failed"}
    measured = _measured(lambda: run(f"{SHIP}:{cluster}"))
    result = folder.need(f"{SHIP}.{cluster}", ShipResult)
    if result.status == "failed" or run(f"{GATE_DELIVERY}:{cluster}"):
        return {"error": result.error or "the delivery gate is closed"}
    went = ", ".join(f"{name} {seconds:.2f}" for name, seconds in result.phases.items())
    note = f"{result.lanes} lanes × {result.tasks} tasks; s: {went}"
    return measured | {"records": result.delivered, "task_seconds": result.ship_seconds, "note": note}


def kafka_sink(spark: SparkSession, source: str, options: dict[str, str], records: int) -> dict[str, Any]:
    """Spark counts nothing here: what it was given is taken for delivered, as its job did not fail."""
    frame = spark.read.text(source).select(F.col("value"))
    measured = _measured(lambda: frame.write.format("kafka").options(**options).save())
    return measured | {"records": records, "worker_peak_bytes": None}  # the workers that there are have nothing to do with it


def _measured(work: Callable[[], object]) -> dict[str, Any]:
    before, began = _cpu_seconds(), time.monotonic()
    work()
    seconds, after = time.monotonic() - began, _cpu_seconds()
    used = {"driver": 0.0, "jvm": 0.0, "worker": 0.0}
    for (kind, pid), until in after.items():
        used[kind] += max(0.0, until - before.get((kind, pid), 0.0))
    return {"seconds": seconds, "cpu_seconds": used, "worker_peak_bytes": _worker_peak_bytes()}


def _cpu_seconds() -> dict[tuple[str, int], float]:
    """Until now, by kind and process: this one, its JVM, and Spark's daemons of Python workers, each with all workers that it had
    (a daemon may end, and another one take its place)."""
    me = psutil.Process()
    used = {("driver", me.pid): process_seconds(me)}
    below = me.children(recursive=True)
    of_daemon: dict[int, int] = {}
    for process in below:
        if "pyspark.daemon" in command_of(process):
            of_daemon |= dict.fromkeys((process.pid, *_pids_below(process)), process.pid)
    for process in below:
        account = ("worker", of_daemon[process.pid]) if process.pid in of_daemon else ("jvm", process.pid)
        seconds = process_seconds(process, with_reaped_children=process.pid in of_daemon)
        used[account] = used.get(account, 0.0) + seconds
    return used


def _pids_below(process: psutil.Process) -> list[int]:
    try:
        return [child.pid for child in process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _worker_peak_bytes() -> int | None:
    """Linux keeps a process' peak of resident memory, and psutil does not pass it on."""
    peaks = []
    for process in psutil.Process().children(recursive=True):
        if is_python_worker(command_of(process)):
            with suppress(OSError):
                status = Path(f"/proc/{process.pid}/status").read_text()
                peaks += [int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM")]
    return max(peaks, default=None)


def _obey(config: Path, spark: SparkSession, command: dict[str, Any]) -> dict[str, Any]:
    if command["do"] == "ship":
        return ship(config, spark, command["pipeline"], command["window"])
    return kafka_sink(spark, command["input"], command["options"], command["records"])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m shipper_tools.bench.spark_side", description=__doc__)
    parser.add_argument("--config", type=Path, required=True, help="folder with pipelines/ and clusters/")
    config = parser.parse_args().config
    answers = _private_stdout()
    pipelines = [load_pipeline(config, path.stem) for path in sorted((config / "pipelines").glob("*.yaml"))]
    # One JVM for all measurements, with room for the tasks of each.
    spark = session(max(pipelines, key=lambda pipeline: pipeline.runner.cores), much_work=True)
    try:
        for line in sys.stdin:
            try:
                answer = _obey(config, spark, json.loads(line))
            except Exception as error:
                answer = {"error": f"{type(error).__name__}: {str(error)[:2000]}"}
            print(json.dumps(answer), file=answers, flush=True)
    finally:
        spark.stop()


def _private_stdout() -> TextIO:
    """Standard output for answers alone; what anybody else prints there, the JVM too, goes to standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return answers


if __name__ == "__main__":
    main()
