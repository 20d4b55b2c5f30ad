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
from shipper_tools.bench.lanes import BATCH_BYTES, BATCHES_PER_TRANSACTION, LaneAnswer, LaneJob
from shipper_tools.bench.machine import ended_children_seconds
from shipper_tools.bench.results import Case, Contender, Measurement
from shipper_tools.dev.jars import resolve_jars
from shipper_tools.dev.java import find_java
from shipper_tools.dev.kafka import JARS

_TIMEOUT_SECONDS = 240.0
_LEAST_TRANSACTIONS = 4
_RATE = re.compile(r"([0-9][0-9.,]*) rec(?:ords)?/s")
_ONE_PRODUCER = Path(__file__).with_name("one_producer.py")


class SenderFailed(ShipperError):
    """A contender did not end well."""


class Lanes:
    """shipper's lane pool: exactly once."""

    def __init__(self, lanes: int) -> None:
        name = f"shipper, {lanes} lane{'s' * (lanes > 1)} × {write_size(BATCH_BYTES)}"
        settings = (
            f"exactly once, one batch in flight per lane, {BATCHES_PER_TRANSACTION} batches per "
            "transaction"
        )
        self.contender = Contender(name=name, ours=True, settings=settings)
        self._lanes = lanes

    def send(self, bootstrap: str, topic: str, measured: Measurement, records: int) -> None:
        """Send ``records`` or, in a round that counts, more of them if a measurement needs that.
        Raises SenderFailed."""
        least = _LEAST_TRANSACTIONS if measured.round else 1
        job = LaneJob(
            bootstrap=bootstrap,
            topic=topic,
            lanes=self._lanes,
            records=records,
            least_transactions=least,
        )
        done = _run(
            [sys.executable, "-m", "shipper_tools.bench.lanes"], measured, job.model_dump_json()
        )
        answer = LaneAnswer.model_validate_json(done.stdout.splitlines()[-1])
        measured.records, measured.bytes, measured.seconds = (
            answer.records,
            answer.bytes,
            answer.seconds,
        )
        measured.opening_seconds = answer.opening_seconds


Command = Callable[[str, str, Case, int], list[str]]
"""The command that sends to a bootstrap and a topic in a case, so many records."""


@dataclass(frozen=True)
class Tool:
    """A peer's own performance tool."""

    contender: Contender
    command: Command

    def send(self, bootstrap: str, topic: str, measured: Measurement, records: int) -> None:
        """Send ``records``. The rate is the better one of what the tool prints last and what the
        clock says. Raises SenderFailed."""
        began = time.monotonic()
        done = _run(self.command(bootstrap, topic, measured.case, records), measured)
        wall_seconds = time.monotonic() - began
        said = [float(rate.replace(",", "")) for rate in _RATE.findall(done.stdout + done.stderr)]
        # What it says last leaves its start out; but Sarama's tool may end before it has said how
        # the end went.
        measured.seconds = min(
            wall_seconds, records / said[-1] if said and said[-1] > 0 else wall_seconds
        )
        measured.records, measured.bytes = records, records * (measured.case.record_bytes or 0)


Sender = Lanes | Tool


def _run(
    command: list[str], measured: Measurement, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    before, name = ended_children_seconds(), Path(command[0]).name
    try:
        done = subprocess.run(
            command,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        raise SenderFailed(f"{name} did not end within {_TIMEOUT_SECONDS:.0f} s") from late
    if done.returncode:
        raise SenderFailed(
            f"{name} failed (exit code {done.returncode}): "
            f"{(done.stdout + done.stderr).strip()[-800:]}"
        )
    measured.cpu_seconds["client"] = ended_children_seconds() - before
    return done


def _java(bootstrap: str, topic: str, case: Case, records: int) -> list[str]:
    """Java's ProducerPerformance, from the jars of the dev server, told as in the peers' run.sh."""
    properties = (
        f"bootstrap.servers={bootstrap} acks=all batch.size=1000000 linger.ms=100 "
        "buffer.memory=134217728 max.request.size=1048576"
    )
    words = (
        f"--topic {topic} --num-records {records} --throughput -1 --record-size "
        f"{case.record_bytes} --producer-props {properties}"
    )
    tool = [
        "-Xmx512m",
        "-cp",
        f"{resolve_jars(JARS)}/*",
        "org.apache.kafka.tools.ProducerPerformance",
    ]
    return [str(find_java().path), *tool, *words.split()]


def _one_producer(bootstrap: str, topic: str, case: Case, records: int) -> list[str]:
    words = f"--brokers {bootstrap} --topic {topic} --records {records} --size {case.record_bytes}"
    return [sys.executable, str(_ONE_PRODUCER), *words.split()]


def _sarama(binary: Path) -> Command:
    def command(bootstrap: str, topic: str, case: Case, records: int) -> list[str]:
        words = (
            "-required-acks -1 -flush-bytes 500000 -flush-frequency 100ms -version 2.8.0 "
            f"-max-open-requests 5 -message-load {records}"
        )
        words += (
            f" -message-size {case.record_bytes} -compression none -brokers {bootstrap} -topic "
            f"{topic}"
        )
        words += " -partition 0 -partitioner manual" if case.partitions == 1 else ""
        return [str(binary), *words.split()]

    return command


def _franz(binary: Path) -> Command:
    return lambda bootstrap, topic, case, records: [
        str(binary),
        *(
            f"-brokers {bootstrap} -topic {topic} -records {records} -compression none -size "
            f"{case.record_bytes}"
        ).split(),
    ]


def peers(folder: Path | None) -> list[Tool]:
    """Return Java's and librdkafka's, and Sarama's and franz-go's if the peers' build.sh left them
    in ``folder``."""
    librdkafka = "idempotent, 1 MB batches; librdkafka keeps one request in flight per partition"
    found: list[tuple[str, str, Command]] = [
        ("Java producer", "idempotent, 5 requests in flight, 1 MB batches", _java),
        ("librdkafka, one producer", librdkafka, _one_producer),
    ]
    if folder is not None:
        for place, name in (("sarama-1.38", "Sarama 1.38.1"), ("sarama-now", "Sarama 1.61.1")):
            if (binary := folder / place / "kafka-producer-performance").exists():
                found.append(
                    (name, "not idempotent, 5 requests in flight, 500 kB batches", _sarama(binary))
                )
        if (binary := folder / "franz").is_file():
            found.append(("franz-go", "idempotent, 1 MB batches", _franz(binary)))
    return [
        Tool(Contender(name=name, settings=settings), command) for name, settings, command in found
    ]
