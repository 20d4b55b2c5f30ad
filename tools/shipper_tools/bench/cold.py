"""Files → topic as a user runs it: each contender a fresh process from start to end, with Java's
and Python's start and all steps of a run."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

from shipper import runner
from shipper.config.load import load_pipeline
from shipper.errors import ShipperError
from shipper_tools.bench import bare, flink, spark_sink
from shipper_tools.bench.files import FILES, Files
from shipper_tools.bench.machine import ended_children_seconds, process_seconds
from shipper_tools.bench.plan import OURS, SPARK_SINK, Scenario, turned
from shipper_tools.bench.results import Case, Contender, Measurement
from shipper_tools.bench.senders import Sender, peers
from shipper_tools.bench.world import World
from shipper_tools.dev.jars import Say

_LOOKS_EVERY_SECONDS = 0.5
_SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER, of prctl(2)."""
_MOST_SECONDS = 1800.0
_PRODUCED = 600_000
"""Lines that each bare producer sends."""
_Told = tuple[list[str], dict[str, str]]
"""A command and its environment."""
_Process = tuple[Contender, Callable[[str, Case, str], _Told]]
"""A contender, and what starts it, told the bootstrap, the case and the topic."""


def measure(
    scenario: Scenario, folder: Path, peers_folder: Path | None, say: Say
) -> Iterator[Measurement]:
    """Yield measurements. No round is a warm-up: a process that has just started is what is
    measured."""
    files = Files(folder)
    for lines in scenario.lines:
        say(f"writing {lines:,} log lines")
        files.folder(lines)
    processes = [_ours(files), *_peers(files, peers_folder, say)]
    producers, average = list[Sender](), 0.0
    if scenario.producers:
        some = files.some_lines(folder / "lines.txt", min(scenario.lines))
        average = some.stat().st_size / some.read_bytes().count(b"\n") - 1
        producers = peers(peers_folder, some)
    with World(folder / "kafka") as world:
        for round_number in range(1, scenario.rounds + 1):
            for case in scenario.cases():
                for contender, told in turned(processes, round_number):
                    measured = Measurement(case=case, contender=contender, round=round_number)
                    with world.topic(case) as topic, world.measured(measured):
                        lines, command = case.lines or 0, told(world.bootstrap(case), case, topic)
                        run_fresh(world, measured, lines, command, topic)
                    measured.bytes = files.size_bytes[lines, FILES]
                    yield measured
                for sender in turned(producers, round_number):
                    measured = bare.measure_one(world, sender, case, _PRODUCED, round_number)
                    measured.bytes = int(measured.records * average)
                    measured.shipping_seconds = measured.seconds
                    yield measured


def run_fresh(
    world: World, measured: Measurement, lines: int, told: _Told, topic: str = ""
) -> None:
    """Run a command as a fresh process, and fill the measurement; it failed if not all ``lines``
    were delivered. ``topic``: where a peer's are counted."""
    command, environment = told
    # What loses its parent becomes a child of this process, so that its CPU seconds are counted
    # here when it has ended.
    ctypes.CDLL(None).prctl(_SUBREAPER, 1)
    before, used = ended_children_seconds(), set(psutil.Process().children(recursive=True))
    with _watched(measured, used) as unwaited:
        began = time.monotonic()
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=_MOST_SECONDS
        )
        measured.seconds = time.monotonic() - began
    # The children of one that ends become orphans in their turn.
    while orphans := set(psutil.Process().children()) - used:
        for orphan in orphans:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(orphan.pid, 0)
                unwaited.pop(orphan.pid, None)
    measured.cpu_seconds["client"] = ended_children_seconds() - before + sum(unwaited.values())
    says = done.stderr.strip()[-500:]
    if done.returncode:
        measured.error = f"exit code {done.returncode}: {says}"
        return
    try:  # ours reports what its delivery gate has counted; a peer's topic is read
        if measured.contender.ours:
            measured.records, measured.shipping_seconds = _delivered(done.stdout)
        else:
            measured.records = world.committed_in(topic)
        if measured.records != lines:
            measured.error = f"{measured.records:,} of {lines:,} lines delivered: {says}"
    except ShipperError as error:
        measured.error = error.message


@contextlib.contextmanager
def _watched(measured: Measurement, others: set[psutil.Process]) -> Iterator[dict[int, float]]:
    """Watch all processes that start in the ``with`` block, twice a second: note the most memory
    (PSS: shared memory counts once) of all at once. Yield process → CPU seconds as last seen, of
    those whose parent does not wait for them, as Spark's daemon for its Python workers: nobody else
    counts these."""
    over, unwaited = threading.Event(), dict[int, float]()

    def watch() -> None:
        while not over.wait(_LOOKS_EVERY_SECONDS):
            members = set(psutil.Process().children(recursive=True)) - others
            measured.peak_bytes = max(measured.peak_bytes or 0, sum(map(_pss, members)))
            for member in members:
                with contextlib.suppress(psutil.Error, OSError):
                    if _ignores_children(member.ppid()):
                        unwaited[member.pid] = process_seconds(member)

    thread = threading.Thread(target=watch, name="watch", daemon=True)
    thread.start()
    yield unwaited
    over.set()
    thread.join()


def _ignores_children(pid: int) -> bool:
    """Return True if the process ignores SIGCHLD: its children leave nothing to wait for."""
    ignored = re.search(r"^SigIgn:\s*(\w+)", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return bool(ignored and int(ignored[1], 16) >> (signal.SIGCHLD - 1) & 1)


def _pss(process: psutil.Process) -> int:
    try:
        return int(process.memory_full_info().pss)
    except psutil.Error:
        return 0


def _ours(files: Files) -> _Process:
    def told(bootstrap: str, case: Case, topic: str) -> _Told:
        name = files.write_pipeline(bootstrap, case, topic)
        return shipper_run(files, name, files.window(case.lines or 0))

    return OURS, told


def shipper_run(files: Files, pipeline: str, window: str) -> _Told:
    """Return the command ``shipper run``, and its environment."""
    words = ["run", pipeline, "--window", window, "--json", "--config", str(files.config)]
    environment = runner.environment(load_pipeline(files.config, pipeline).runner)
    return [sys.executable, "-m", "shipper", *words], {**os.environ, **environment}


def _peers(files: Files, peers_folder: Path | None, say: Say) -> list[_Process]:
    """Return those that were built."""
    jars, built = spark_sink.sink_jars(peers_folder, say), flink.folder(peers_folder, say)

    def sink(bootstrap: str, case: Case, topic: str) -> _Told:
        options = spark_sink.sink_options(bootstrap, case.compression, topic)
        told = {
            "input": str(files.folder(case.lines or 0)),
            "options": options,
            "jars": ",".join(map(str, jars)),
        }
        return [sys.executable, spark_sink.__file__, json.dumps(told)], {
            **os.environ,
            "SPARK_LOCAL_IP": "127.0.0.1",
        }

    def sink_of_flink(bootstrap: str, case: Case, topic: str) -> _Told:
        assert built is not None
        options = spark_sink.producer_options(bootstrap, case.compression)
        return flink.command(built, files.folder(case.lines or 0), topic, options), {**os.environ}

    found: list[_Process] = [(SPARK_SINK, sink)] if jars else []
    return [*found, (flink.FLINK, sink_of_flink)] if built else found


def _delivered(stdout: str) -> tuple[int, float | None]:
    """Return the records that were delivered, and the seconds of shipping."""
    with contextlib.suppress(ValueError, KeyError, TypeError):
        ships = json.loads(stdout)["ships"]
        delivered = sum(
            topic["delivered"]
            for ship in ships
            for topic in ship["topics"]
            if not topic["quarantine"]
        )
        return delivered, sum(ship["ship_seconds"] for ship in ships) or None
    return 0, None
