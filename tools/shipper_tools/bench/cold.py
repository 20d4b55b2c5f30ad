"""Files → topic as a user runs it: each contender a fresh process from start to end, with Java's and Python's start and all steps of a run.

Everything that a process starts is counted as its own: this process adopts what loses its parent, and looks at the whole family ten times a
second. So CPU seconds lack what each process used after the last look at it, a tenth of a second at most.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from shipper import runner
from shipper.config import load_pipeline
from shipper.errors import ShipperError
from shipper_tools.bench import flink
from shipper_tools.bench.bare import line_of, turned
from shipper_tools.bench.end_to_end import producer_options, sink_jars, sink_options
from shipper_tools.bench.files import Files
from shipper_tools.bench.machine import command_of, is_python_worker, process_seconds
from shipper_tools.bench.plan import SPARK_SINK, Scenario, Shipment
from shipper_tools.bench.results import Case, Contender, Measurement
from shipper_tools.bench.world import World
from shipper_tools.dev.jars import Say

_LOOKS_EVERY_SECONDS = 0.1
_MEMORY_EVERY = 5
"""Looks."""
_SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER, of prctl(2)."""
_MOST_SECONDS = 1800.0


_Told = tuple[list[str], dict[str, str]]
"""A command and its environment."""


@dataclass(frozen=True)
class _Process:
    """What is started for a contender, told the world, the files, the case, the number of lines and the topic."""

    contender: Contender
    told: Callable[[World, Files, Case, int, str], _Told]


def measure(
    scenario: Scenario, folder: Path, peers_folder: Path | None, ours: list[Shipment], *, with_peers: bool, say: Say
) -> Iterator[Measurement]:
    """No round is a warm-up: a process that has just started is what is measured."""
    contenders = [_Process(each.contender, partial(_ours, each)) for each in ours]
    cases = scenario.axes.cases()
    contenders += _peers(peers_folder, say) if with_peers else []
    ctypes.CDLL(None).prctl(_SUBREAPER, 1)
    files = Files(folder)
    for lines in dict.fromkeys(case.lines or scenario.lines for case in cases):
        say(f"writing {lines:,} log lines")
        files.folder(lines)
    with World(folder / "kafka") as world:
        for round_number in range(1, scenario.rounds + 1):
            for case in cases:
                for process in turned(contenders, round_number):
                    measured = _measure(world, files, case, case.lines or scenario.lines, process, round_number)
                    say(line_of(measured))
                    yield measured


def _peers(peers_folder: Path | None, say: Say) -> list[_Process]:
    """Those that were built."""
    found = []
    if jars := sink_jars(peers_folder, say):
        found.append(_Process(SPARK_SINK, partial(_sink, jars)))
    if built := flink.folder(peers_folder, say):
        found.append(_Process(flink.FLINK, partial(_flink, built)))
    return found


def _measure(world: World, files: Files, case: Case, lines: int, process: _Process, round_number: int) -> Measurement:
    measured = Measurement(case=case, contender=process.contender, round=round_number)
    topic = world.create_topic(case)
    command, environment = process.told(world, files, case, lines, topic)
    world.shape(case)
    before = world.cpu_seconds()
    family = _Family()
    with family:
        began = time.monotonic()
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_MOST_SECONDS)
        seconds = time.monotonic() - began
    after = world.cpu_seconds()
    measured.error = _fault(world, process, topic, lines, done)
    world.delete_topic(topic)
    if measured.error:
        return measured
    measured.records, measured.bytes, measured.seconds = lines, files.size_bytes[lines], seconds
    used = family.cpu_seconds() | {kind: after[kind] - before[kind] for kind in after}
    measured.cpu_seconds = {kind: round(spent, 2) for kind, spent in used.items()}
    measured.peak_bytes = family.peak_bytes
    return measured


def _fault(world: World, process: _Process, topic: str, lines: int, done: subprocess.CompletedProcess[str]) -> str | None:
    """Why it does not count, if it does not. Ours reports what its delivery gate has counted; a peer's topic is read."""
    says = done.stderr.strip()[-500:]
    if done.returncode:
        return f"exit code {done.returncode}: {says}"
    try:
        delivered = _delivered(done.stdout) if process.contender.ours else world.committed_in(topic)
    except ShipperError as error:
        return error.message
    return None if delivered == lines else f"{delivered:,} of {lines:,} lines delivered: {says}"


def _ours(shipment: Shipment, world: World, files: Files, case: Case, lines: int, topic: str) -> _Told:
    name = files.write_pipeline(world.bootstrap(case), case, shipment, topic, [])
    window = files.window(lines)
    command = [sys.executable, "-m", "shipper", "run", name, "--window", window, "--json", "--config", str(files.config)]
    pipeline = load_pipeline(files.config, name)
    return command, {**os.environ, **runner.environment(pipeline.runner)}


def _sink(jars: list[Path], world: World, files: Files, case: Case, lines: int, topic: str) -> _Told:
    script = Path(__file__).resolve().parent / "spark_sink.py"
    told = json.dumps(
        {"input": str(files.folder(lines)), "options": sink_options(world, case, topic), "jars": [str(jar) for jar in jars]}
    )
    return [sys.executable, str(script), told], {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}


def _flink(built: Path, world: World, files: Files, case: Case, lines: int, topic: str) -> _Told:
    return flink.command(built, files.folder(lines), topic, producer_options(world, case)), {**os.environ}


def _delivered(stdout: str) -> int:
    with contextlib.suppress(ValueError, KeyError, TypeError):
        report: dict[str, Any] = json.loads(stdout)
        return sum(topic["delivered"] for ship in report["ships"] for topic in ship["topics"] if not topic["quarantine"])
    return 0


@dataclass
class _Family:
    """All that this process starts while the ``with`` block runs, and what that starts."""

    peak_bytes: int = 0
    """Most memory at once (PSS: what is shared counts once)."""
    _cpu: dict[psutil.Process, tuple[str, float]] = field(default_factory=dict)
    """Process → its kind (exec changes it, not the clock) and seconds, as of the last look."""
    _before: set[psutil.Process] = field(default_factory=set)
    _over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> _Family:
        self._before = set(psutil.Process().children(recursive=True))
        self._thread = threading.Thread(target=self._watch, name="family", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        for process in self._members():  # adopted, and gone or going
            with contextlib.suppress(ChildProcessError):
                os.waitpid(process.pid, os.WNOHANG)

    def _members(self) -> list[psutil.Process]:
        return [process for process in psutil.Process().children(recursive=True) if process not in self._before]

    def _watch(self) -> None:
        looks = 0
        while True:
            over = self._over.wait(_LOOKS_EVERY_SECONDS)
            members = self._members()
            for process in members:
                if command := command_of(process):
                    self._cpu[process] = _kind(command), process_seconds(process)
            if looks % _MEMORY_EVERY == 0:
                self.peak_bytes = max(self.peak_bytes, sum(map(_pss, members)))
            looks += 1
            if over:
                return

    def cpu_seconds(self) -> dict[str, float]:
        found = {"driver": 0.0, "jvm": 0.0, "worker": 0.0}
        for kind, seconds in self._cpu.values():
            found[kind] += seconds
        return found


def _kind(command: list[str]) -> str:
    if is_python_worker(command):
        return "worker"
    return "jvm" if "java" in Path(command[0]).name else "driver"


def _pss(process: psutil.Process) -> int:
    try:
        return int(process.memory_full_info().pss)
    except psutil.Error:
        return 0
