"""Files → Spark → topic, shipper's ship step and Spark's own Kafka sink in turn, in one Spark
session of this process.

It runs the steps of ``shipper run`` by the same code; each measurement is a window of its own, with
files of its own, as an hourly run would be.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
from pyspark.sql import SparkSession

from shipper import runner
from shipper.config import load_cluster, load_pipeline, resolve_uri
from shipper.driver.context import RunContext
from shipper.driver.run import run_steps
from shipper.report.results import ShipResult
from shipper.report.run_folder import RunFolder
from shipper.runner import GATE_DELIVERY, GATE_SOURCE, PLAN, SHIP, new_run_id
from shipper.windows.window import parse_window
from shipper_tools.bench import spark_sink
from shipper_tools.bench.files import FILES, Files
from shipper_tools.bench.machine import process_seconds
from shipper_tools.bench.plan import OURS, SPARK_SINK, Scenario, turned
from shipper_tools.bench.results import Case, Contender, Measurement
from shipper_tools.bench.world import World
from shipper_tools.dev.jars import Say
from spark_jobs.engine import SparkEngine
from spark_jobs.session import session

_Ship = Callable[[SparkSession, Measurement], None]
"""Sends all lines of the case, and fills the measurement."""


def measure(
    scenario: Scenario, folder: Path, peers_folder: Path | None, say: Say
) -> Iterator[Measurement]:
    """Yield measurements. Round 0 is the warm-up: the first job of a Spark session takes twice as
    long."""
    jars = spark_sink.sink_jars(peers_folder, say)
    files = Files(folder)
    for lines in scenario.lines:
        say(f"writing {lines:,} log lines")
        files.folder(lines)
    with World(folder / "kafka") as world:
        contenders: dict[Case, list[tuple[Contender, _Ship]]] = {}
        for case in scenario.cases():
            bootstrap, topic = world.bootstrap(case), world.create_topic(case)
            contenders[case] = [(OURS, _ours(files, bootstrap, case, topic, jars))]
            if jars:
                topic = world.create_topic(case)
                contenders[case].append((SPARK_SINK, _sink(files, bootstrap, case, topic)))
        with _spark(files) as spark:
            for round_number in range(scenario.rounds + 1):
                for case in scenario.cases():
                    for contender, ship in turned(contenders[case], round_number):
                        measured = Measurement(case=case, contender=contender, round=round_number)
                        with world.measured(measured):
                            ship(spark, measured)
                        if not measured.error and measured.records != case.lines:
                            measured.error = (
                                f"{measured.records:,} of {case.lines:,} lines were delivered"
                            )
                        measured.bytes = files.size_bytes[case.lines or 0, FILES]
                        yield measured


@contextmanager
def _spark(files: Files) -> Iterator[SparkSession]:
    """Open one session for all measurements: the pipelines run alike."""
    pipeline = load_pipeline(files.config, files.pipelines[0])
    os.environ.update(runner.environment(pipeline.runner))
    logging.getLogger("shipper").setLevel(logging.WARNING)
    spark = session(pipeline)
    try:
        yield spark
    finally:
        spark.stop()


def _ours(files: Files, bootstrap: str, case: Case, topic: str, jars: list[Path]) -> _Ship:
    name = files.write_pipeline(bootstrap, case, topic, jars)
    pipeline, cluster = load_pipeline(files.config, name), load_cluster(files.config, name)

    def ship(spark: SparkSession, measured: Measurement) -> None:
        """Plan and gate, then the ship step against the clock, then the gate that must close the
        sum."""
        window = parse_window(files.window(case.lines or 0))
        folder = RunFolder(
            resolve_uri(files.config, pipeline.runs_uri),
            name,
            window.start,
            window.end,
            new_run_id(),
        )

        def run(*steps: str) -> int:
            """Run them as a process of their own would, but in this session: connected to
            nobody."""
            engine = SparkEngine(pipeline, spark=spark)
            return run_steps(
                RunContext(pipeline, {name: cluster}, files.config, window, folder, engine), steps
            )

        if run(PLAN, GATE_SOURCE):
            measured.error = f"plan or source gate of {name} failed"
            return
        with _clock(measured):
            run(f"{SHIP}:{name}")
        result = folder.need(f"{SHIP}.{name}", ShipResult)
        measured.records = result.delivered
        if result.status == "failed" or run(f"{GATE_DELIVERY}:{name}"):
            measured.error = result.error or "the delivery gate is closed"

    return ship


def _sink(files: Files, bootstrap: str, case: Case, topic: str) -> _Ship:
    options = spark_sink.sink_options(bootstrap, case.compression, topic)
    source = str(files.folder(case.lines or 0))

    def ship(spark: SparkSession, measured: Measurement) -> None:
        """Spark counts nothing here: what it was given is taken for delivered if its job did not
        fail."""
        with _clock(measured):
            spark_sink.write(spark, source, options)
        measured.records = case.lines or 0

    return ship


@contextmanager
def _clock(measured: Measurement) -> Iterator[None]:
    before, began = _cpu_seconds(), time.monotonic()
    yield
    measured.seconds = time.monotonic() - began
    measured.cpu_seconds |= {
        kind: seconds - before[kind] for kind, seconds in _cpu_seconds().items()
    }


def _cpu_seconds() -> dict[str, float]:
    """Return the CPU seconds until now of this process, of its JVM, and of Spark's Python workers,
    also of those that the JVM has seen end."""
    me = psutil.Process()
    jvms = [
        child for child in me.children() if "org.apache.spark.deploy.SparkSubmit" in child.cmdline()
    ]
    java = sum(map(process_seconds, jvms))
    below = [process for jvm in jvms for process in jvm.children(recursive=True)]
    workers = sum(process_seconds(each, with_reaped=True) for each in [*jvms, *below]) - java
    return {"driver": process_seconds(me), "jvm": java, "worker": workers}
