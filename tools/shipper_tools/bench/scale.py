"""Measure how the rate of whole runs changes with tasks, files and entries of the ledger, beside
what reading, compressing and the broker cost alone on the same machine."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
import pyarrow as pa

from shipper.config.load import load_cluster, load_pipeline
from shipper.config.rules import resolve_uri
from shipper.kafka.client import ClusterClient
from shipper.ledger.codec import encode_chunk
from shipper.ledger.log import LedgerLog
from shipper.ledger.records import CHUNKS, ChunkKey, ChunkValue
from shipper.ledger.snapshot import LedgerFolder
from shipper.types import EncodedRecord, FileId, SplitId
from shipper_tools.bench import cold, one_producer
from shipper_tools.bench.files import FILES, Files
from shipper_tools.bench.machine import process_seconds
from shipper_tools.bench.plan import Scenario
from shipper_tools.bench.results import Case, Contender, Measurement
from shipper_tools.bench.spark_sink import producer_options
from shipper_tools.bench.world import World
from shipper_tools.dev.jars import Say

_TASKS, _FILES, _ENTRIES = (1, 2, 4), (10, 1_000, 100_000), (10_000, 1_000_000)
_LINES_OF_A_FILE, _LINES_OF_A_CHUNK = 40, 4
"""Fewer lines than usual have fewer files, and fewer entries in the ledger: for a try."""
_FILES_OF_A_WINDOW, CHUNKS_OF_A_FILE = 100, 10
_APPENDED_AT_ONCE = 100_000
_BLOCK_BYTES = 1_000_000
_ZSTD_LEVEL = 3
"""librdkafka's."""
ENTRY = ChunkValue(
    last=0,
    end=False,
    records=60_000,
    bytes=8_000_000,
    checksum=5506116617686914935,
    digest="62d4f14f5777",
    generation=2,
    run_id="20260101T000000-25a08f",
    window="2025-01-01T06:00:00Z/2025-01-01T07:00:00Z",
    partition=3,
)


@dataclass(frozen=True)
class _Size:
    """One row of the table: what is large in it."""

    name: str
    lines: int
    files: int = FILES
    entries: int = 0
    cores: int | None = None


def _sizes(lines: int) -> list[_Size]:
    fewer = lines // 4
    files = sorted({min(n, lines // _LINES_OF_A_FILE) for n in _FILES})
    entries = sorted({min(n, lines // _LINES_OF_A_CHUNK) for n in _ENTRIES})
    return [
        *(_Size(f"{n} task{'s' * (n > 1)}", lines, cores=n) for n in _TASKS),
        *(_Size(f"{n:,} files", fewer, files=n) for n in files),
        *(_Size(f"ledger of {n:,} chunks", fewer, entries=n) for n in entries),
    ]


def measure(
    scenario: Scenario, folder: Path, peers_folder: Path | None, say: Say
) -> Iterator[Measurement]:
    """Yield measurements: each of ours a fresh process. No round is a warm-up."""
    files = Files(folder)
    case = scenario.cases()[0].model_copy(update={"lines": None})
    sizes = _sizes(scenario.lines[0])
    for size in sizes:
        say(f"writing {size.lines:,} log lines into {size.files:,} files")
        files.folder(size.lines, size.files)
    with World(folder / "kafka") as world:
        pipelines = [_pipeline(world, files, case, size, say) for size in sizes]
        for round_number in range(1, scenario.rounds + 1):
            for size, name in zip(sizes, pipelines, strict=True):
                contender = _contender(size.name, size.lines)
                measured = Measurement(case=case, contender=contender, round=round_number)
                with world.measured(measured):
                    window = files.window(size.lines, size.files)
                    cold.run_fresh(
                        world, measured, size.lines, cold.shipper_run(files, name, window)
                    )
                measured.bytes = files.size_bytes[size.lines, size.files]
                yield measured
            yield from _alone(world, files, case, scenario.lines[0], round_number)


def _contender(name: str, lines: int) -> Contender:
    return Contender(name=f"{name}, {lines / 1e6:g}M lines", ours=True)


def _pipeline(world: World, files: Files, case: Case, size: _Size, say: Say) -> str:
    """Return a new pipeline with a topic of its own, and so many entries in its ledger."""
    topic = world.create_topic(case)
    name = files.write_pipeline(world.bootstrap(case), case, topic, cores=size.cores)
    if size.entries:
        say(f"writing a ledger of {size.entries:,} chunks")
        pipeline, cluster = load_pipeline(files.config, name), load_cluster(files.config, name)
        kept = LedgerFolder(resolve_uri(files.config, pipeline.runs_uri), name, cluster.name)
        client = ClusterClient(cluster)
        ledger = LedgerLog(client, cluster, name, kept)
        ledger.create()
        entries = _entries(name, size.entries)
        while some := list(itertools.islice(entries, _APPENDED_AT_ONCE)):
            client.append(ledger.topic, CHUNKS, some)
        LedgerLog(ClusterClient(cluster), cluster, name, kept).keep_snapshot(longer_than=0)
    return name


def _entries(pipeline: str, count: int) -> Iterator[EncodedRecord]:
    """Yield the ledger's records of earlier windows."""
    for window in range(count // (_FILES_OF_A_WINDOW * CHUNKS_OF_A_FILE)):
        for file in range(_FILES_OF_A_WINDOW):
            yield from chunks_of(pipeline, f"file:///logs/{window:06}/host-{file:03}.log")


def chunks_of(pipeline: str, path: str) -> Iterator[EncodedRecord]:
    """Yield the ledger's records of a file that was shipped, :data:`CHUNKS_OF_A_FILE` of
    ``ENTRY.records`` records each."""
    split = SplitId(FileId(path, 10_000_000, 1_795_263_712_000), 0)
    for chunk in range(CHUNKS_OF_A_FILE):
        key = ChunkKey(split, chunk * ENTRY.records, "logs.web")
        last = (chunk + 1) * ENTRY.records
        yield encode_chunk(
            pipeline, key, replace(ENTRY, last=last, end=chunk == CHUNKS_OF_A_FILE - 1)
        )


def _alone(
    world: World, files: Files, case: Case, lines: int, round_number: int
) -> Iterator[Measurement]:
    """Measure what no shipper can go below: reading the files, compressing them on one core, and
    what the broker takes for the same records from one plain producer."""
    paths = sorted(files.folder(lines).iterdir())
    codec = pa.Codec("zstd", _ZSTD_LEVEL)

    def read(_: str) -> None:
        for _block in _blocks(paths):
            pass

    def compress(_: str) -> None:
        for block in _blocks(paths):
            codec.compress(block)

    def send(topic: str) -> None:
        options = producer_options(world.bootstrap(case), case.compression)
        one_producer.send(options, topic, _lines(paths))

    steps: dict[str, Callable[[str], None]] = {
        "reading": read,
        "reading and zstd, one core": compress,
        "one plain producer, at least once": send,
    }
    for name, step in steps.items():
        of_step = Measurement(
            case=case,
            contender=_contender(name, lines),
            round=round_number,
            records=lines,
            bytes=files.size_bytes[lines, FILES],
        )
        with world.topic(case) as topic, world.measured(of_step):
            before, began = process_seconds(psutil.Process()), time.monotonic()
            step(topic)
            of_step.seconds = time.monotonic() - began
            of_step.cpu_seconds["client"] = process_seconds(psutil.Process()) - before
        yield of_step


def _blocks(paths: list[Path]) -> Iterator[bytes]:
    for path in paths:
        with path.open("rb") as file:
            while block := file.read(_BLOCK_BYTES):
                yield block


def _lines(paths: list[Path]) -> Iterator[bytes]:
    for path in paths:
        with path.open("rb") as file:
            for line in file:
                yield line[:-1]
