"""Files → Spark → topic, shipper's ship step and Spark's own Kafka sink in turn, in one Spark session.

The Spark side is a process, ``python -m shipper_tools.bench.spark_side``, which carries out one measurement per line that it is told, so that
distance and turns are decided here. It runs the steps of ``shipper run`` by the same code; each measurement is a window of its
own, with files of its own (hard links), as an hourly run would be.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from shipper import runner
from shipper.config import load_pipeline
from shipper.config.load import references
from shipper.errors import ShipperError
from shipper_tools.bench.bare import line_of, turned
from shipper_tools.bench.files import Files
from shipper_tools.bench.plan import SPARK_SINK, Scenario, Shipment, merged
from shipper_tools.bench.results import Case, Contender, Measurement
from shipper_tools.bench.world import World
from shipper_tools.dev.jars import Say

_STOP_SECONDS = 10.0
_PRODUCER = {"acks": "all", "linger.ms": "100", "batch.size": "1000000"}


class BenchJobFailed(ShipperError):
    """The Spark side did not do what it was told."""


def shipments(scenario: Scenario, pipeline: Mapping[str, Any]) -> list[Shipment]:
    """One for each number of lanes, on top of ``pipeline``."""
    found = []
    for lanes in scenario.axes.lanes:
        told = f"{lanes} lanes" if lanes else "sized by shipper"
        settings = "; ".join(part for part in ("exactly once", told, json.dumps(pipeline) if pipeline else "") if part)
        contender = Contender(name=f"shipper, {told}" if lanes else "shipper", ours=True, lanes=lanes, settings=settings)
        found.append(Shipment(contender, merged(pipeline, {"delivery": {"lanes": lanes}} if lanes else {})))
    return found


def sink_jars(peers_folder: Path | None, say: Say) -> list[Path]:
    """Of Spark's Kafka sink, as the peers' build.sh left them; none, and a word about it, if it did not."""
    jars = sorted((peers_folder / "spark").glob("*.jar")) if peers_folder else []
    if not jars:
        say("without Spark's Kafka sink: name the folder of the peers' build.sh in --peers")
    return jars


def producer_options(world: World, case: Case) -> dict[str, str]:
    """For Java's producer within the sinks of others."""
    return _PRODUCER | {"bootstrap.servers": world.bootstrap(case), "compression.type": case.compression}


def sink_options(world: World, case: Case, topic: str) -> dict[str, str]:
    """For Spark's Kafka sink."""
    return {f"kafka.{key}": value for key, value in producer_options(world, case).items()} | {"topic": topic}


def measure(
    scenario: Scenario, folder: Path, peers_folder: Path | None, ours: list[Shipment], *, with_peers: bool, say: Say
) -> Iterator[Measurement]:
    """Round 0 is the warm-up: the first job of a Spark session takes twice as long."""
    jars = sink_jars(peers_folder, say) if with_peers else []
    say(f"writing {scenario.lines:,} log lines")
    files = Files(folder)
    files.folder(scenario.lines)
    contenders: list[Shipment | None] = [*ours, *([None] if jars else [])]
    cases = scenario.axes.cases()
    with World(folder / "kafka") as world:
        bench = _Bench(folder, world, scenario, files, [str(jar) for jar in jars])
        for case in cases:
            bench.prepare(case, contenders)
        with bench.job():
            for round_number in range(scenario.rounds + 1):
                for case in cases:
                    for contender in turned(contenders, round_number):
                        measured = bench.measure(case, contender, round_number)
                        say(line_of(measured))
                        yield measured


class _Bench:
    def __init__(self, folder: Path, world: World, scenario: Scenario, files: Files, jars: list[str]) -> None:
        self._folder, self._world, self._scenario, self._files, self._jars = folder, world, scenario, files, jars
        self._topics: dict[tuple[Case, Contender], str] = {}
        self._pipelines: dict[tuple[Case, Contender], str] = {}
        self._process: subprocess.Popen[str] | None = None

    def prepare(self, case: Case, contenders: list[Shipment | None]) -> None:
        """Topics, and a pipeline with its cluster for each contender of ours."""
        for contender in contenders:
            key = (case, contender.contender if contender else SPARK_SINK)
            self._topics[key] = self._world.create_topic(case)
            if contender is not None:
                bootstrap = self._world.bootstrap(case)
                self._pipelines[key] = self._files.write_pipeline(bootstrap, case, contender, self._topics[key], self._jars)

    def _referred(self) -> set[str]:
        """Names of variables that the files refer to."""
        return {found.name for name in self._files.pipelines for found in references(self._files.config, name)}

    @contextmanager
    def job(self) -> Iterator[None]:
        pipeline = load_pipeline(self._files.config, self._files.pipelines[0])
        self._process = subprocess.Popen(
            [
                pipeline.runner.python or sys.executable,
                "-m",
                "shipper_tools.bench.spark_side",
                "--config",
                str(self._files.config),
            ],
            env=runner.environment(pipeline.runner, self._referred()),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=(self._folder / "spark.log").open("w"),
            text=True,
            start_new_session=True,
        )
        try:
            yield
        finally:
            assert self._process.stdin is not None
            self._process.stdin.close()  # it stops Spark and ends
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_STOP_SECONDS)
            runner.stop_job(self._process, pipeline.runner)

    def measure(self, case: Case, shipment: Shipment | None, round_number: int) -> Measurement:
        contender = shipment.contender if shipment else SPARK_SINK
        measured = Measurement(case=case, contender=contender, round=round_number)
        command = self._ship_command(case, contender) if shipment else self._sink_command(case)
        self._world.shape(case)
        before = self._world.cpu_seconds()
        answer = self._tell(command)
        after = self._world.cpu_seconds()
        if "error" in answer:
            measured.error = str(answer["error"])
            return measured
        if answer["records"] != self._scenario.lines:
            measured.error = f"{answer['records']:,} of {self._scenario.lines:,} lines were delivered"
            return measured
        measured.records, measured.bytes = answer["records"], self._files.size_bytes[self._scenario.lines]
        measured.seconds, measured.task_seconds = answer["seconds"], answer.get("task_seconds")
        measured.worker_peak_bytes = answer.get("worker_peak_bytes")
        measured.note = answer.get("note", "")
        used = answer["cpu_seconds"] | {kind: after[kind] - before[kind] for kind in after}
        measured.cpu_seconds = {kind: round(seconds, 2) for kind, seconds in used.items()}
        return measured

    def _ship_command(self, case: Case, contender: Contender) -> dict[str, Any]:
        window = self._files.window(self._scenario.lines)
        return {"do": "ship", "pipeline": self._pipelines[case, contender], "window": window}

    def _sink_command(self, case: Case) -> dict[str, Any]:
        return {
            "do": "kafka_sink",
            "input": str(self._files.folder(self._scenario.lines)),
            "options": sink_options(self._world, case, self._topics[case, SPARK_SINK]),
            "records": self._scenario.lines,
        }

    def _tell(self, command: dict[str, Any]) -> dict[str, Any]:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(command) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        if not line:
            words = (self._folder / "spark.log").read_text(errors="replace").strip()[-1500:]
            raise BenchJobFailed(f"the Spark side of the benchmark ended (exit code {process.poll()}): {words}")
        answer: dict[str, Any] = json.loads(line)
        return answer
