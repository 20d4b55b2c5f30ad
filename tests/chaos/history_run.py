"""What one run of a history is to do, and how shipper does it. All that the history knows of
shipper's inside is in this module."""

from __future__ import annotations

import datetime as dt
import json
import logging
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import xxhash

from shipper.config.cluster import Cluster
from shipper.config.pipeline import Pipeline
from shipper.driver import ship as ship_step
from shipper.driver.context import RunContext
from shipper.driver.pieces import PieceReport
from shipper.kafka.client import ClusterClient
from shipper.kafka.producer import LaneProducer
from shipper.kafka.transaction import Transactions
from shipper.ledger import archive as archive_step
from shipper.ledger.log import CONTROL_NOW, LedgerLog, ask_state
from shipper.ledger.snapshot import LedgerFolder
from shipper.ledger.takeover import transactional_id
from shipper.report.plan_result import ClusterPlan, PlannedFile, PlanResult
from shipper.report.results import GateResult
from shipper.report.run_folder import RunFolder
from shipper.windows.window import Window
from shipper.worker import task as sink_task
from shipper.worker.order import ShipOrder
from shipper.worker.receipt import Receipt
from tests.chaos.history_model import LINE_BYTES, QUARANTINE, SPLIT_BYTES, FileVersion, Record
from tests.chaos.ship_numbered import NumberedEngine, NumberedJob

if TYPE_CHECKING:
    from tests.chaos.history_processes import Leader

CLUSTER = "one"
_EPOCH = dt.datetime(2026, 9, 1, tzinfo=dt.UTC)
_ATTEMPTS = 4
_SLICE = 32
#: How the column `split` says that a split ends (both: shipper.worker.marks), and that its reading
#: does.
_SECOND, _LOWEST = 1 << 62, -(1 << 63)


@dataclass(frozen=True)
class Strike:
    """A signal that the run's processes get at a point of the protocol."""

    point: str
    """A key of :data:`WORKER_POINTS` or :data:`DRIVER_POINTS`."""
    victim: str
    """``worker`` (the process that gets there), ``driver`` (its tasks go on), or ``all``."""
    nth: int = 1
    """The how many-th time that the process gets there."""
    number: int = signal.SIGKILL


@dataclass(frozen=True)
class Piece:
    """Place in a file at which a fault happens."""

    path: str
    start: int
    ordinal: int


@dataclass(frozen=True)
class RunSpec:
    """Job of one run, and the faults in it."""

    kind: str
    """``ship``, ``archive``, ``snapshot``."""
    run_id: str
    pipeline: str
    bootstrap: str
    topics: tuple[str, ...]
    """Two for records, and the quarantine."""
    folder: str
    """The history's: results and ledgers go to ``runs`` in it, and ``source.json`` says which files
    are there."""
    windows: tuple[int, int] = (0, 1)
    """Numbers of hours, [first, end)."""
    files: tuple[FileVersion, ...] = ()
    reship: str | None = None
    """Id of a reship."""
    archive_before: int = 0
    """Number of an hour."""
    tasks: int = 2
    lanes: int = 2
    chunk_bytes: int = 12_000
    batch_bytes: int = 6_000
    records_per_second: float = 1e9
    """How fast each task reads."""
    strikes: tuple[Strike, ...] = ()
    pauses: tuple[tuple[str, float], ...] = ()
    """Method of Transactions or LaneProducer, and the seconds that it waits first."""
    cut_off: tuple[int, int] = (0, 0)
    """Number of attempts of task 0 whose stream breaks off, and the number of batches before it
    does."""
    broken: tuple[Piece, ...] = ()
    """Places at which the reader fails, in every attempt."""
    socket_timeout_ms: int = 2_500

    @property
    def runs(self) -> str:
        return f"{self.folder}/runs"


class Point(NamedTuple):
    """A point of the protocol."""

    of: Any
    """A class or a module."""
    name: str
    """A method or function of it."""
    when: str
    """``before``, ``during`` or ``after`` a call."""


#: In a task's process, or that of an archive.
WORKER_POINTS = {
    "before a transaction begins": Point(Transactions, "begin", "before"),
    "after a transaction has begun": Point(Transactions, "begin", "after"),
    "after records are produced": Point(LaneProducer, "flush", "before"),
    "after records are acknowledged": Point(Transactions, "commit", "before"),
    "during a commit": Point(Transactions, "commit", "during"),
    "after a commit": Point(Transactions, "commit", "after"),
    "before a lane opens": Point(Transactions, "open", "before"),
    "after a lane has opened": Point(Transactions, "open", "after"),
}
#: In the driver's process.
DRIVER_POINTS = {
    "before takeover": Point(ship_step, "take_over", "before"),
    "after takeover": Point(ship_step, "take_over", "after"),
    "before the control partition is written": Point(LedgerLog, "write_control", "before"),
    "after the control partition is written": Point(LedgerLog, "write_control", "after"),
    "before invalidations are written": Point(ship_step.ClusterShip, "_invalidate", "before"),
    "after invalidations are written": Point(ship_step.ClusterShip, "_invalidate", "after"),
    "after the scan": Point(ship_step, "scan", "after"),
    "before a deciding read": Point(LedgerLog, "_write_barriers", "before"),
}


def announce(**event: Any) -> None:
    """Append to the run's events, of which several threads and processes tell: a line at once."""
    os.write(1, (json.dumps(event) + "\n").encode())


def owner(method: str) -> type:
    """Return the class that has the method: records are the producer's, a transaction is
    :class:`Transactions`'."""
    return Transactions if hasattr(Transactions, method) else LaneProducer


def cluster_of(spec: RunSpec) -> Cluster:
    return Cluster.model_validate(
        {
            "cluster": CLUSTER,
            "bootstrap": spec.bootstrap,
            "properties": {"socket.timeout.ms": spec.socket_timeout_ms},
        }
    )


def pipeline_of(spec: RunSpec) -> Pipeline:
    return Pipeline.model_validate(
        {
            "pipeline": spec.pipeline,
            "source": {"path": "history", "split_size": f"{SPLIT_BYTES}B", "on_replaced": "reship"},
            "routes": [{"when": "true", "topic": spec.topics[0]}, {"topic": spec.topics[1]}],
            "quarantine": {
                "topic": spec.topics[QUARANTINE],
                "max_rate": 1.0,
                "keep": f"{LINE_BYTES}B",
            },
            "clusters": [CLUSTER],
            "delivery": {
                "chunk_size": f"{spec.chunk_bytes}B",
                "batch_size": f"{spec.batch_bytes}B",
                "lanes": spec.lanes,
                "lease": "1s",
                "lease_wait": "30s",
                "metadata_wait": "30s",
                "transaction_timeout": "10s",
            },
            "runner": {"cores": spec.tasks},
            "runs_uri": spec.runs,
        }
    )


def window_of(first: int, end: int) -> Window:
    return Window(_EPOCH + dt.timedelta(hours=first), _EPOCH + dt.timedelta(hours=end))


def perform(spec: RunSpec, leader: Leader) -> dict[str, Any]:
    """Do what the run is asked for. Return what it says of itself; ``error`` is None if it
    succeeded. Raise ShipperError."""
    if spec.kind == "ship":
        return _ship(spec, leader)
    pipeline, cluster = pipeline_of(spec), cluster_of(spec)
    client, folder = ClusterClient(cluster), LedgerFolder(spec.runs, spec.pipeline, CLUSTER)
    ledger = LedgerLog(client, cluster, spec.pipeline, folder)
    ledger.lies_at(None, pipeline.source.formerly)
    if spec.kind == "archive":
        before = window_of(0, spec.archive_before).end
        moved = archive_step.archive(ledger, folder, cluster, pipeline, before, spec.run_id, _say)
        return {"error": None, "moved": moved.moved}
    ledger.keep_snapshot(longer_than=0)
    return {"error": None}


def _say(text: str) -> None:
    logging.getLogger("history").info(text)


def _ship(spec: RunSpec, leader: Leader) -> dict[str, Any]:
    window = window_of(*spec.windows)
    folder = RunFolder(spec.runs, spec.pipeline, window.start, window.end, spec.run_id)
    context = RunContext(
        pipeline=pipeline_of(spec),
        clusters={CLUSTER: cluster_of(spec)},
        config_dir=Path(),
        window=window,
        folder=folder,
        engine=HistoryEngine(spec, leader),  # type: ignore[arg-type]
    )
    times = {"started_at": _now(), "finished_at": _now()}
    files = [_planned(spec, file) for file in spec.files]
    plan = PlanResult(
        **context.common("plan"),
        **times,
        transform_digest=context.pipeline.transform_digest(),
        files=files,
        reship=spec.reship is not None,
        reship_id=spec.reship or "",
        clusters=[
            ClusterPlan(cluster=CLUSTER, to_fence={CLUSTER: (2, 2)}, generation=_planned_at(spec))
        ],
    )
    folder.write("plan", plan)
    folder.write("gate_source", GateResult(**context.common("gate_source"), **times))
    result = ship_step.ship(context, CLUSTER, _now())
    folder.write(f"ship.{CLUSTER}", result)
    error = None if result.status == "succeeded" else result.error
    return {
        "error": error,
        "delivered": result.delivered,
        "before": result.before,
        "complete_files": result.unread_files,
    }


def _planned_at(spec: RunSpec) -> int:
    """Return the ledger's latest generation, as a plan notes it."""
    ledger = LedgerLog(ClusterClient(cluster_of(spec)), cluster_of(spec), spec.pipeline)
    return ledger.look(CONTROL_NOW).generation if ledger.exists() else -1


def _planned(spec: RunSpec, file: FileVersion) -> PlannedFile:
    late = (
        None
        if spec.windows[0] <= file.window < spec.windows[1]
        else str(window_of(file.window, file.window + 1))
    )
    return PlannedFile(
        path=file.path,
        uri=file.path,
        size_bytes=file.size_bytes,
        modified_ms=file.modified_ms,
        splits=len(file.born),
        format="plain",
        late_window=late,
        late_for=(CLUSTER,) if late else (),
    )


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


@dataclass
class Answer:
    """Result that a task attempt returns to its driver."""

    receipt: Receipt | None = None
    reports: list[PieceReport] = field(default_factory=list)
    error: str = ""


class HistoryEngine(NumberedEngine):
    """An engine that reads the files of a history, as far as they still are what was planned."""

    def __init__(self, spec: RunSpec, leader: Leader) -> None:
        self._spec, self._leader = spec, leader

    def job(
        self, order: ShipOrder, cluster: Cluster, files: Sequence[PlannedFile], *, long_lines: bool
    ) -> NumberedJob:
        announce(event="shipping", generation=order.generation)
        reports: list[PieceReport] = []
        return NumberedJob(
            lambda cancelled: self._run_all(order, cluster, cancelled, reports), reports
        )

    def _run_all(
        self,
        order: ShipOrder,
        cluster: Cluster,
        cancelled: threading.Event,
        reports: list[PieceReport],
    ) -> tuple[list[Receipt], Exception | None]:
        receipts: list[Receipt] = []
        failures: list[Exception] = []

        def run(task: int) -> None:
            for attempt in range(_ATTEMPTS):
                if cancelled.is_set():
                    break
                answer = self._leader.run_task(self._spec, order, cluster, task, attempt, cancelled)
                if answer.receipt is not None:
                    receipts.append(answer.receipt)
                    reports.extend(answer.reports)
                    return
                announce(event="failed", task=task, attempt=attempt, error=answer.error)
            failures.append(
                RuntimeError("the job was cancelled" if cancelled.is_set() else answer.error)
            )

        with ThreadPoolExecutor(self._spec.tasks) as pool:
            list(pool.map(run, range(self._spec.tasks)))
        return receipts, failures[0] if failures else None


def work(spec: RunSpec, order: ShipOrder, cluster: Cluster, task: int, attempt: int) -> Answer:
    """Make one task attempt, in its own process."""
    reader = Reader(spec, order, task, attempt)
    receipt = sink_task.ship_task(
        order, cluster, reader.batches(), task, task + spec.tasks * attempt, attempt
    )
    if reader.cut_off:
        return Answer(
            error="the reader failed"
        )  # as Spark says a moment after the stream has ended
    return Answer(receipt, reader.reports)


class Reader:
    """A task's share of the splits in the sink's columns, as Spark and the reader in Java make
    them."""

    def __init__(self, spec: RunSpec, order: ShipOrder, task: int, attempt: int) -> None:
        self._spec, self._order, self._task = spec, order, task
        self._most_batches = spec.cut_off[1] if task == 0 and attempt < spec.cut_off[0] else None
        self._files = {(file.path, file.state): file for file in spec.files}
        self._broken = {(piece.path, piece.start): piece.ordinal for piece in spec.broken}
        self.reports: list[PieceReport] = []
        self.cut_off = False

    def batches(self) -> Iterator[pa.RecordBatch]:
        for count, batch in enumerate(self._all_batches()):
            if count == self._most_batches:
                self.cut_off = True
                return
            yield batch

    def _all_batches(self) -> Iterator[pa.RecordBatch]:
        began, made = time.monotonic(), 0
        mine = [
            entry
            for index, entry in enumerate(self._order.splits.items())
            if index % self._spec.tasks == self._task
        ]
        for number, split in mine:
            file = self._files[
                split.id.file.path, (split.id.file.size_bytes, split.id.file.modified_ms)
            ]
            records, place = file.split(split.id.start), (file.path, split.id.start)
            end = self._broken.get(place, len(records))
            problem = "it is damaged" if place in self._broken else ""
            for first in range(0, end, _SLICE):
                if not self._is_there(file):
                    end, problem = first, "it is not the file that was planned, or gone"
                    break
                part = records[first : min(first + _SLICE, end)]
                yield self._batch(number, part)
                made += len(part)
                time.sleep(
                    max(0.0, began + made / self._spec.records_per_second - time.monotonic())
                )
            if place in self._broken:
                announce(event="not read whole", path=file.path, start=split.id.start)
            yield self._mark(~(number ^ _LOWEST) if problem else number ^ _SECOND)
            read = end * LINE_BYTES
            self.reports.append(
                PieceReport(
                    number,
                    read,
                    read,
                    end,
                    problem,
                    passing=bool(problem) and place not in self._broken,
                )
            )

    def _is_there(self, file: FileVersion) -> bool:
        """Look at the source now: a history may replace or remove a file at any moment."""
        there = json.loads((Path(self._spec.folder) / "source.json").read_text()).get(file.path)
        return there is not None and tuple(there) == file.state

    def _batch(self, split: int, records: Sequence[Record]) -> pa.RecordBatch:
        values = [record.value for record in records]
        hashes = [xxhash.xxh64_intdigest(value, 42) for value in values]
        return pa.RecordBatch.from_pydict(
            {
                "split": pa.array([split] * len(values), pa.int64()),
                "value": pa.array(values, pa.binary()),
                "checksum": pa.array(
                    [value - (1 << 64) if value >= 1 << 63 else value for value in hashes],
                    pa.int64(),
                ),
                "topic": pa.array(
                    [record.topic if record.has_topic else -1 for record in records], pa.int32()
                ),
            }
        )

    def _mark(self, split: int) -> pa.RecordBatch:
        """Make a row that is no line; see shipper.worker.marks."""
        return pa.RecordBatch.from_pydict(
            {
                "split": pa.array([split], pa.int64()),
                "value": pa.nulls(1, pa.binary()),
                "checksum": pa.nulls(1, pa.int64()),
                "topic": pa.nulls(1, pa.int32()),
            }
        )


def lane_id(spec: RunSpec, task: int, lane: int) -> str:
    """Return the lane's transactional.id."""
    return transactional_id(spec.pipeline, CLUSTER, task, lane)


def said_of(spec: RunSpec, record: Record, files: Sequence[FileVersion]) -> list[str]:
    """Return what the ledger says of a record: invalidations of its file, and chunks of its split
    around it."""
    pipeline, cluster = pipeline_of(spec), cluster_of(spec)
    ledger = LedgerLog(
        ClusterClient(cluster),
        cluster,
        spec.pipeline,
        LedgerFolder(spec.runs, spec.pipeline, CLUSTER),
    )
    ledger.lies_at(None, pipeline.source.formerly)
    state = ledger.look(ask_state([record.path]), 30)
    said = [f"{file}: {over}" for file, over in state.invalidated.items()]
    for split, found in state.chunks.splits.items():
        if split.start == record.start:
            near = {
                key: chunk
                for key, chunk in found.chunks.items()
                if key.first <= record.ordinal < max(chunk.last, key.first + 1)
            }
            said.append(f"{split}: end {found.end}, complete {found.complete}")
            said += [f"  {key}: {chunk}" for key, chunk in near.items()]
    return said
