"""Bare producers of random records, each a process that sends a number of them: ours, and what is
used instead."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from shipper.config.units import write_size
from shipper.errors import ShipperError
from shipper.java import find_java
from shipper_tools.bench.lanes import BATCH_BYTES, BATCHES_PER_TRANSACTION, LaneAnswer, LaneJob
from shipper_tools.bench.machine import ended_children_seconds
from shipper_tools.bench.results import Contender, Measurement
from shipper_tools.dev.jars import resolve_jars
from shipper_tools.dev.kafka_tools import JARS

_TIMEOUT_SECONDS = 240.0
_LEAST_TRANSACTIONS = 4
# Options of the peers' tools; each has a command of its own.
_JAVA = (
    "--topic {topic} --num-records {records} --throughput -1 {what} --producer-props "
    "bootstrap.servers={bootstrap} acks=all batch.size=1000000 linger.ms=100 "
    "buffer.memory=134217728 max.request.size=1048576 compression.type={compression}"
)
_ONE_PRODUCER = (
    "--brokers {bootstrap} --topic {topic} --records {records} --compression {compression} {what}"
)
_SARAMA = (
    "-required-acks -1 -flush-bytes 500000 -flush-frequency 100ms -version 2.8.0 "
    "-max-open-requests 5 -message-load {records} {what} -compression none "
    "-brokers {bootstrap} -topic {topic} -partition 0 -partitioner manual"
)
_FRANZ = "-brokers {bootstrap} -topic {topic} -records {records} -compression {compression} {what}"
_RATE = re.compile(r"([0-9][0-9.,]*) rec(?:ords)?/s")


class SenderFailed(ShipperError):
    """A contender did not end well."""


@dataclass(frozen=True)
class Sender:
    """Contender, and how it sends a number of records to a bootstrap and a topic: it fills the
    measurement, or raises SenderFailed."""

    contender: Contender
    send: Callable[[str, str, Measurement, int], None]


def lanes(count: int) -> Sender:
    """shipper's lane pool: exactly once."""
    contender = Contender(
        name=f"shipper, {count} lane{'s' * (count > 1)} × {write_size(BATCH_BYTES)}",
        ours=True,
        settings=f"exactly once, one batch in flight per lane, {BATCHES_PER_TRANSACTION} batches "
        "per transaction",
    )

    def send(bootstrap: str, topic: str, measured: Measurement, records: int) -> None:
        """Send more records in a round that counts, if a measurement needs that."""
        least = _LEAST_TRANSACTIONS if measured.round else 1
        job = LaneJob(
            bootstrap=bootstrap,
            topic=topic,
            lanes=count,
            records=records,
            least_transactions=least,
        )
        command = [sys.executable, "-m", "shipper_tools.bench.lanes"]
        said = _run(command, measured, job.model_dump_json())
        answer = LaneAnswer.model_validate_json(said.splitlines()[-1])
        measured.records, measured.bytes = answer.records, answer.bytes
        measured.seconds, measured.opening_seconds = answer.seconds, answer.opening_seconds

    return Sender(contender, send)


def peers(folder: Path | None, lines: Path | None = None) -> list[Sender]:
    """Return Java's producer (from the jars of the dev server) and librdkafka's, as most people
    would set them up, and what was built in ``folder``: Sarama's own tool and a producer of
    franz-go. ``lines``: a file whose lines they send; None: random records. Sarama's tool sends
    nothing else."""
    java = [str(find_java().path), "-Xmx512m", "-cp", f"{resolve_jars(JARS)}/*"]
    found = [
        _peer(
            "Java producer",
            "idempotent, 5 requests in flight, 1 MB batches",
            [*java, "org.apache.kafka.tools.ProducerPerformance"],
            _JAVA,
            f"--payload-file {lines}" if lines else "--record-size {size}",
        ),
        _peer(
            "librdkafka, one producer",
            "idempotent, 1 MB batches; librdkafka keeps one request in flight per partition",
            [sys.executable, "-m", "shipper_tools.bench.one_producer"],
            _ONE_PRODUCER,
            f"--lines {lines}" if lines else "--size {size}",
        ),
    ]
    sarama = "not idempotent, 5 requests in flight, 500 kB batches"
    some = "" if lines else "-message-size {size}"
    of_lines = f"-lines {lines}" if lines else "-size {size}"
    for name, settings, place, options, what in (
        ("Sarama 1.38.1", sarama, "sarama-1.38/kafka-producer-performance", _SARAMA, some),
        ("Sarama 1.61.1", sarama, "sarama-now/kafka-producer-performance", _SARAMA, some),
        ("franz-go", "idempotent, 1 MB batches", "franz", _FRANZ, of_lines),
    ):
        if folder and what and (folder / place).is_file():
            found.append(_peer(name, settings, [str(folder / place)], options, what))
    return found


def _peer(name: str, settings: str, command: list[str], options: str, what: str) -> Sender:
    """Return a peer. ``what``: the options that say which records it sends."""

    def send(bootstrap: str, topic: str, measured: Measurement, records: int) -> None:
        """The rate is the better one of what the tool prints last, which leaves its start out, and
        what the clock says."""
        case, began = measured.case, time.monotonic()
        size = case.record_bytes or 0
        told = {"bootstrap": bootstrap, "topic": topic, "records": records, "size": size}
        told |= {"compression": case.compression, "what": what.format(size=size)}
        said = _run([*command, *options.format(**told).split()], measured)
        measured.seconds = time.monotonic() - began
        rates = [float(rate.replace(",", "")) for rate in _RATE.findall(said)]
        if rates and rates[-1] > 0:
            measured.seconds = min(measured.seconds, records / rates[-1])
        measured.records, measured.bytes = records, records * size

    return Sender(Contender(name=name, settings=settings), send)


def _run(command: list[str], measured: Measurement, stdin: str = "") -> str:
    """Return what the process prints, and note its CPU seconds."""
    before, name = ended_children_seconds(), Path(command[0]).name
    try:
        done = subprocess.run(
            command, input=stdin, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS
        )
    except subprocess.TimeoutExpired as late:
        raise SenderFailed(f"{name} did not end within {_TIMEOUT_SECONDS:.0f} s") from late
    said = done.stdout + done.stderr
    if done.returncode:
        raise SenderFailed(f"{name} failed (exit code {done.returncode}): {said.strip()[-800:]}")
    measured.cpu_seconds["client"] = ended_children_seconds() - before
    return done.stdout
