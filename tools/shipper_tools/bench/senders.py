"""Bare producers, which are used instead: each a process that sends lines of a file."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from shipper.java import find_java
from shipper_tools.bench.machine import ended_children_seconds
from shipper_tools.bench.results import Case, Contender, Measurement
from shipper_tools.bench.world import World
from shipper_tools.dev.jars import resolve_jars
from shipper_tools.dev.kafka_tools import JARS

_TIMEOUT_SECONDS = 240.0
# Options of the peers' tools; each has a command of its own.
_JAVA = (
    "--topic {topic} --num-records {records} --throughput -1 --payload-file {lines} "
    "--producer-props bootstrap.servers={bootstrap} acks=all batch.size=1000000 linger.ms=100 "
    "buffer.memory=134217728 max.request.size=1048576 compression.type={compression}"
)
_OURS = (
    "--brokers {bootstrap} --topic {topic} --records {records} --compression {compression} "
    "--lines {lines}"
)
_FRANZ = _OURS.replace("--", "-")
_RATE = re.compile(r"([0-9][0-9.,]*) rec(?:ords)?/s")


@dataclass(frozen=True)
class Sender:
    """Contender, and the command that sends lines of a file."""

    contender: Contender
    command: list[str]
    options: str
    lines: Path

    def measure(self, world: World, case: Case, records: int, round_number: int) -> Measurement:
        """Send so many records to a new topic."""
        measured = Measurement(case=case, contender=self.contender, round=round_number)
        with world.topic(case) as topic, world.measured(measured):
            self._send(world.bootstrap(case), topic, measured, records)
            arrived = world.records_in(topic, case.partitions)
            if not measured.error and arrived < records:
                measured.error = f"{records} records sent, but the topic ends at {arrived}"
        return measured

    def _send(self, bootstrap: str, topic: str, measured: Measurement, records: int) -> None:
        """Fill the measurement. The rate is the better one of what the tool prints last, which
        leaves its start out, and what the clock says."""
        told = {"bootstrap": bootstrap, "topic": topic, "records": records, "lines": self.lines}
        told["compression"] = measured.case.compression
        command = [*self.command, *self.options.format(**told).split()]
        before, began = ended_children_seconds(), time.monotonic()
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            measured.error = f"it did not end within {_TIMEOUT_SECONDS:.0f} s"
            return
        measured.seconds = time.monotonic() - began
        measured.cpu_seconds["client"] = ended_children_seconds() - before
        if done.returncode:
            says = (done.stdout + done.stderr).strip()[-800:]
            measured.error = f"exit code {done.returncode}: {says}"
            return
        rates = [float(rate.replace(",", "")) for rate in _RATE.findall(done.stdout)]
        if rates and rates[-1] > 0:
            measured.seconds = min(measured.seconds, records / rates[-1])
        measured.records = records


def peers(folder: Path | None, lines: Path) -> list[Sender]:
    """Return Java's producer (from the jars of the dev server) and librdkafka's, as most people
    would set them up, and a producer of franz-go if it was built in ``folder``."""
    java = [str(find_java().path), "-Xmx512m", "-cp", f"{resolve_jars(JARS)}/*"]
    found = [
        (
            "Java producer",
            "idempotent, 5 requests in flight, 1 MB batches",
            [*java, "org.apache.kafka.tools.ProducerPerformance"],
            _JAVA,
        ),
        (
            "librdkafka, one producer",
            "idempotent, 1 MB batches; librdkafka keeps one request in flight per partition",
            [sys.executable, "-m", "shipper_tools.bench.one_producer"],
            _OURS,
        ),
    ]
    if folder and (folder / "franz").is_file():
        command = [str(folder / "franz")]
        found.append(("franz-go", "idempotent, 1 MB batches", command, _FRANZ))
    return [
        Sender(Contender(name=name, settings=settings), command, options, lines)
        for name, settings, command, options in found
    ]
