"""Bare producers, each a process that sends a number of records and says how long it took: ours, and what is used instead."""

from __future__ import annotations

import re
import resource
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from shipper.config.units import write_size
from shipper.errors import ShipperError
from shipper.kafka.limits import DEFAULT_LIMIT_BYTES
from shipper_tools.bench.lanes import LaneAnswer, LaneJob
from shipper_tools.bench.records import log_lines
from shipper_tools.bench.results import Case, Contender
from shipper_tools.dev.jars import resolve_jars
from shipper_tools.dev.java import find_java
from shipper_tools.dev.kafka import JARS

MAX_MESSAGE_BYTES = DEFAULT_LIMIT_BYTES
"""The broker's default, which topics of the bench have."""
LEDGER_TOPIC = "bench-ledger"
_TIMEOUT_SECONDS = 240.0
_LEAST_TRANSACTIONS = 4
_BATCH_BYTES = 1_000_000
_PAYLOAD_LINES = 200_000
_RATE = re.compile(r"([0-9][0-9.,]*) rec(?:ords)?/s")


class SenderFailed(ShipperError):
    """A contender did not end well."""


@dataclass(frozen=True)
class Sending:
    records: int
    seconds: float
    cpu_seconds: float
    """Of the process, its start included."""
    bytes: int
    opening_seconds: float | None = None
    note: str = ""


class Sender(ABC):
    """One way to get records into a topic."""

    contender: Contender
    first_records: int = 60_000
    """For the warm-up, when nobody knows yet how fast it is."""

    @abstractmethod
    def cannot(self, case: Case) -> str | None:
        """Why it cannot take part in a case."""

    @abstractmethod
    def send(self, bootstrap: str, topic: str, case: Case, records: int, *, warming: bool) -> Sending:
        """Sends ``records`` or, unless ``warming`` up, more of them if a measurement needs that. Raises SenderFailed."""


class Lanes(Sender):
    """shipper's lane pool: exactly once."""

    def __init__(self, lanes: int, batches_per_transaction: int) -> None:
        self._transaction = batches_per_transaction
        name = f"shipper, {lanes} lane{'s' * (lanes > 1)} × {write_size(_BATCH_BYTES)}"
        told = f"exactly once, one batch in flight per lane, {batches_per_transaction} batches per transaction"
        self.contender = Contender(name=name, ours=True, lanes=lanes, settings=told)
        self._lanes = lanes

    def cannot(self, case: Case) -> str | None:
        return None

    def send(self, bootstrap: str, topic: str, case: Case, records: int, *, warming: bool) -> Sending:
        job = LaneJob(
            bootstrap=bootstrap,
            topic=topic,
            ledger_topic=LEDGER_TOPIC,
            max_message_bytes=MAX_MESSAGE_BYTES,
            lanes=self._lanes,
            batch_bytes=_BATCH_BYTES,
            batches_per_transaction=self._transaction,
            compression=case.compression,
            record_bytes=case.record_bytes,
            records=records,
            least_transactions=1 if warming else _LEAST_TRANSACTIONS,
        )
        done, cpu_seconds = _run([sys.executable, "-m", "shipper_tools.bench.lanes"], job.model_dump_json())
        answer = LaneAnswer.model_validate_json(done.stdout.splitlines()[-1])
        note = f"{answer.sending_cpu_seconds:.2f} of the client's CPU seconds while sending"
        note += f"; {answer.reopened} lanes were opened anew" if answer.reopened else ""
        return Sending(answer.records, answer.seconds, cpu_seconds, answer.bytes, answer.opening_seconds, note)


Command = Callable[[str, str, Case, int], list[str]]


class Tool(Sender):
    """A peer's own performance tool. Its rate is the better one of what it prints last and what the clock says."""

    def __init__(self, name: str, settings: str, command: Command, codecs: Sequence[str], *, sends_lines: bool) -> None:
        self.contender = Contender(name=name, settings=settings)
        self._command = command
        self._codecs = codecs
        self._sends_lines = sends_lines

    def cannot(self, case: Case) -> str | None:
        if case.record_bytes is None and not self._sends_lines:
            return "cannot send log lines"
        return None if case.compression in self._codecs else f"knows no {case.compression}"

    def send(self, bootstrap: str, topic: str, case: Case, records: int, *, warming: bool) -> Sending:
        began = time.monotonic()
        done, cpu_seconds = _run(self._command(bootstrap, topic, case, records))
        wall_seconds = time.monotonic() - began
        said = [float(rate.replace(",", "")) for rate in _RATE.findall(done.stdout + done.stderr)]
        # What it says last leaves its start out; but Sarama's tool may end before it has said how the end went.
        seconds = min(wall_seconds, records / said[-1] if said and said[-1] > 0 else wall_seconds)
        return Sending(records, seconds, cpu_seconds, records * (case.record_bytes or _payload_line_bytes()))


def _run(command: list[str], stdin: str = "") -> tuple[subprocess.CompletedProcess[str], float]:
    """A process that ended well, and its CPU seconds."""
    before = _children_seconds()
    try:
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=False)
    except subprocess.TimeoutExpired as late:
        raise SenderFailed(f"{Path(command[0]).name} did not end within {_TIMEOUT_SECONDS:.0f} s") from late
    if done.returncode:
        raise SenderFailed(
            f"{Path(command[0]).name} failed (exit code {done.returncode}): {(done.stdout + done.stderr).strip()[-800:]}"
        )
    return done, _children_seconds() - before


def _children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


_payload_folder: list[tempfile.TemporaryDirectory[str]] = []


def _payload() -> Path:
    """A file of log lines for tools that read one, made when the first of them asks."""
    if not _payload_folder:
        _payload_folder.append(tempfile.TemporaryDirectory(prefix="shipper-bench-"))
        Path(_payload_folder[0].name, "lines").write_bytes(b"\n".join(log_lines(1, _PAYLOAD_LINES)) + b"\n")
    return Path(_payload_folder[0].name, "lines")


def _payload_line_bytes() -> int:
    return _payload().stat().st_size // _PAYLOAD_LINES - 1


def java() -> Sender:
    """Java's ProducerPerformance, from the jars of the dev server, told as in the peers' run.sh."""
    launcher = find_java()
    folder = resolve_jars(JARS)

    def command(bootstrap: str, topic: str, case: Case, records: int) -> list[str]:
        size = ["--record-size", str(case.record_bytes)] if case.record_bytes else ["--payload-file", str(_payload())]
        properties = {
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "batch.size": "1000000",
            "linger.ms": "100",
            "buffer.memory": "134217728",
            "max.request.size": "1048576",
            "compression.type": case.compression,
        }
        tool = [str(launcher.path), "-Xmx512m", "-cp", f"{folder}/*", "org.apache.kafka.tools.ProducerPerformance"]
        given = [f"{key}={value}" for key, value in properties.items()]
        sends = ["--topic", topic, "--num-records", str(records), "--throughput", "-1"]
        return [*tool, *sends, *size, "--producer-props", *given]

    told = "idempotent, 5 requests in flight, 1 MB batches"
    return Tool("Java producer", told, command, ("none", "gzip", "snappy", "lz4", "zstd"), sends_lines=True)


def _sarama(binary: Path, name: str) -> Sender:
    def command(bootstrap: str, topic: str, case: Case, records: int) -> list[str]:
        words = f"-required-acks -1 -flush-bytes 500000 -flush-frequency 100ms -version 2.8.0 -max-open-requests 5 -message-load {records}"
        words += f" -message-size {case.record_bytes} -compression {case.compression} -brokers {bootstrap} -topic {topic}"
        words += " -partition 0 -partitioner manual" if case.partitions == 1 else ""
        return [str(binary), *words.split()]

    told = "not idempotent, 5 requests in flight, 500 kB batches"
    return Tool(name, told, command, ("none", "gzip", "snappy", "lz4"), sends_lines=False)


def _franz(binary: Path) -> Sender:
    def command(bootstrap: str, topic: str, case: Case, records: int) -> list[str]:
        what = ["-size", str(case.record_bytes)] if case.record_bytes else ["-lines", str(_payload())]
        where = ["-brokers", bootstrap, "-topic", topic]
        return [str(binary), *where, "-records", str(records), "-compression", case.compression, *what]

    return Tool("franz-go", "idempotent, 1 MB batches", command, ("none", "zstd"), sends_lines=True)


def one_producer() -> Sender | None:
    """One idempotent producer of librdkafka's, by the script in bench/ (in a checkout only)."""
    script = Path(__file__).resolve().parents[3] / "bench" / "one_producer.py"
    if not script.exists():
        return None

    def command(bootstrap: str, topic: str, case: Case, records: int) -> list[str]:
        what = ["--size", str(case.record_bytes)] if case.record_bytes else ["--lines", str(_payload())]
        return [
            *(sys.executable, str(script), "--brokers", bootstrap, "--topic", topic, "--records", str(records)),
            *("--compression", case.compression, *what),
        ]

    told = "idempotent, 1 MB batches; librdkafka keeps one request in flight per partition"
    return Tool("librdkafka, one producer", told, command, ("none", "gzip", "snappy", "lz4", "zstd"), sends_lines=True)


def peers(folder: Path | None) -> list[Sender]:
    """Those that are here: Java's always, librdkafka's in a checkout, Sarama's and franz-go's if ``folder`` has them."""
    found: list[Sender | None] = [java(), one_producer()]
    if folder is not None:
        for binary, name in (("sarama-1.38", "Sarama 1.38.1"), ("sarama-now", "Sarama 1.61.1")):
            path = folder / binary / "kafka-producer-performance"
            found.append(_sarama(path, name) if path.exists() else None)
        found.append(_franz(folder / "franz") if (folder / "franz").is_file() else None)
    return [sender for sender in found if sender is not None]
