"""A ship without Spark, to be killed: :func:`main` gets a Numbered as JSON.

The ship step is the real one (lease, takeover, what remains, account), and so is the sink's writer
in each task. Only Spark is not there: records are made instead of read, each task attempt runs in a
process of its own, and a task whose process dies or raises gets another attempt, four in all, as
with Spark. That starts in two seconds instead of ten.

Standard output is one JSON document per line: what started, with process numbers, and how it ended.
"""

from __future__ import annotations

import datetime as dt
import json
import logging
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pyarrow as pa
import xxhash

from shipper.config.cluster import Cluster
from shipper.driver import ship as ship_step
from shipper.driver.context import RunContext
from shipper.driver.engine import Scan
from shipper.driver.pieces import PieceReport
from shipper.errors import ShipperError
from shipper.finding import Finding, fail
from shipper.kafka.producer import LaneProducer
from shipper.kafka.transaction import Transactions
from shipper.report.plan_result import ClusterPlan, PlannedFile, PlanResult
from shipper.report.results import GateResult, ShipResult
from shipper.report.run_folder import RunFolder
from shipper.request import RunRequest
from shipper.windows.window import parse_window
from shipper.worker import task as sink_task
from shipper.worker.order import ShipOrder
from shipper.worker.receipt import Receipt
from tests.chaos.numbered import Numbered, value_of

_WINDOW = "2026-11-01T00:00/2026-11-02T00:00"
_MODIFIED_MS = 1_793_491_200_000
_ATTEMPTS = 4
_SLICE = 200


def announce(**event: Any):
    # In one write: tasks announce side by side, and print() writes the end of a line by itself.
    sys.stdout.write(f"{json.dumps(event)}\n")
    sys.stdout.flush()


# The driver's side


def ship(numbered: Numbered, run_tasks: RunTasks) -> ShipResult:
    """The ship step with ``run_tasks`` in Spark's place. Raises ShipperError for what was found
    before anything was sent."""
    context = _context(numbered, NumberedEngine(numbered, run_tasks))
    _write_earlier_steps(context, numbered)
    result = ship_step.ship(context, "three", _now())
    context.folder.write("ship.three", result)
    return result


class NumberedEngine:
    """In Spark's place: it makes records, and reads none."""

    version = "4.2"

    def __init__(self, numbered: Numbered, run_tasks: RunTasks):
        self._numbered, self._run_tasks = numbered, run_tasks

    def begin(self):
        pass

    def start(self):
        pass

    def abandon(self):
        pass

    def look_at(self, files: Sequence[PlannedFile]):
        pass

    def source_requests(self) -> dict[str, int]:
        return {}

    def refuse_unsafe_sql(self, config_dir: Path):
        pass

    def job(
        self, order: ShipOrder, cluster: Cluster, files: Sequence[PlannedFile], *, long_lines: bool
    ) -> NumberedJob:
        announce(event="shipping", generation=order.generation)
        options = replace(order.lane_options, parking_bytes=self._numbered.parking_bytes)
        order = replace(order, lane_options=options)
        numbered = self._numbered
        reports = [
            PieceReport(split, numbered.split_bytes, numbered.split_bytes, numbered.records, "")
            for split in order.splits
        ]
        return NumberedJob(
            lambda cancelled: self._run_tasks(numbered, order, cluster, cancelled), reports
        )

    def cause(self, error: Exception) -> Finding:
        return fail(f"{type(error).__name__}: {error}")


class NumberedJob:
    def __init__(
        self,
        run_tasks: Callable[[threading.Event], tuple[list[Receipt], Exception | None]],
        reports: list[PieceReport],
    ):
        """``reports``: what the reader says of every split, once all of them are read."""
        self._run_tasks = run_tasks
        self._reports = reports
        self._cancelled = threading.Event()

    def run(self, scan: Scan):
        scan.receipts, error = self._run_tasks(self._cancelled)
        scan.read = scan.records
        if error is not None:
            raise error
        scan.reports = self._reports

    def stop(self):
        self._cancelled.set()

    def read_so_far(self) -> object:
        return None


def _context(numbered, engine):
    window = parse_window(_WINDOW)
    folder = RunFolder(numbered.runs, numbered.name, window, numbered.run_id)
    return RunContext(
        pipeline=numbered.pipeline,
        clusters={"three": numbered.cluster},
        config_dir=Path(),
        window=window,
        folder=folder,
        engine=engine,  # type: ignore[arg-type]
    )


def _write_earlier_steps(context, numbered):
    files = [
        PlannedFile(
            path=path,
            uri=path,
            size_bytes=numbered.file_bytes,
            modified_ms=_MODIFIED_MS,
            splits=numbered.splits,
            format="plain",
        )
        for path in numbered.file_paths
    ]
    times = {"started_at": _now(), "finished_at": _now()}
    digest = context.pipeline.transform_digest()
    clusters = [
        ClusterPlan(cluster="three", to_fence={"three": (numbered.tasks, 2)})
    ]  # a guess, as any plan's
    plan = PlanResult(
        **{**context.common("plan"), "asked": RunRequest(reship=numbered.reship)},
        **times,
        transform_digest=digest,
        files=files,
        clusters=clusters,
    )
    context.folder.write("plan", plan)
    context.folder.write("gate_source", GateResult(**context.common("gate_source"), **times))


def _now():
    return dt.datetime.now(dt.UTC)


#: Runs all tasks; returns their receipts and what made the job fail, if it did.
RunTasks = Callable[
    [Numbered, ShipOrder, Cluster, threading.Event], tuple[list[Receipt], Exception | None]
]


def in_processes(
    numbered: Numbered, order: ShipOrder, cluster: Cluster, cancelled: threading.Event
) -> tuple[list[Receipt], Exception | None]:
    """Each task attempt in a process of its own, all tasks at once."""
    receipts = []
    failures = []

    def run(task):
        for attempt in range(_ATTEMPTS):
            if cancelled.is_set():
                failures.append(RuntimeError("the job was cancelled"))
                return
            done, value = _attempt(numbered, order, cluster, task, attempt, cancelled)
            if done:
                receipts.append(value)
                return
            announce(event="failed", task=task, attempt=attempt, error=str(value))
        failures.append(value)

    with ThreadPoolExecutor(numbered.tasks) as pool:
        list(pool.map(run, range(numbered.tasks)))
    return receipts, failures[0] if failures else None


def _attempt(numbered, order, cluster, task, attempt, cancelled):
    """(True, receipt), or (False, what was raised). A forked process of a server that never had
    threads."""
    processes = multiprocessing.get_context("forkserver")
    here, there = processes.Pipe()
    process = processes.Process(target=work, args=(numbered, order, cluster, task, attempt, there))
    process.start()
    there.close()
    announce(event="task", task=task, attempt=attempt, pid=process.pid)
    try:
        while not here.poll(0.2):
            if cancelled.is_set():
                process.kill()
        return here.recv()
    except EOFError:
        process.join()
        return False, RuntimeError(f"the process of task {task} died: exit code {process.exitcode}")
    finally:
        process.join()
        here.close()


# A task's side


def work(
    numbered: Numbered,
    order: ShipOrder,
    cluster: Cluster,
    task: int,
    attempt: int,
    answer: Connection,
):
    """One task attempt, in its own process."""
    _set_up_logging()
    for method, seconds in numbered.pauses.items():
        slow_down(method, seconds)
    try:
        answer.send((True, write(numbered, order, cluster, task, attempt)))
    except BaseException as error:
        answer.send(
            (False, RuntimeError(f"{type(error).__module__}.{type(error).__name__}: {error}"))
        )


def write(
    numbered: Numbered, order: ShipOrder, cluster: Cluster, task: int, attempt: int
) -> Receipt:
    """What the sink's writer does in one task."""
    of_all = task + numbered.tasks * attempt
    return sink_task.ship_task(
        order, cluster, batches(numbered, order, task), task, of_all, attempt
    )


def batches(numbered: Numbered, order: ShipOrder, task: int) -> Iterator[pa.RecordBatch]:
    """The task's share of the splits, in the sink's columns, at the pace of
    ``records_per_second``."""
    began, made = time.monotonic(), 0
    mine = [
        (number, split.id)
        for index, (number, split) in enumerate(order.splits.items())
        if index % numbered.tasks == task
    ]
    for number, split in mine:
        for first in range(0, numbered.records, _SLICE):
            ordinals = range(first, min(first + _SLICE, numbered.records))
            yield _batch(numbered, number, split.file.path, split.start, ordinals)
            made += len(ordinals)
            time.sleep(max(0.0, began + made / numbered.records_per_second - time.monotonic()))
        yield _end(numbered, number)


def _batch(numbered, split, path, start, ordinals):
    values = [value_of(path, start, ordinal) for ordinal in ordinals]
    checksums = [_signed(xxhash.xxh64_intdigest(value, 42)) for value in values]
    columns = {
        "split": pa.array([split] * len(values), pa.int64()),
        "value": pa.array(values, pa.binary()),
        "checksum": pa.array(checksums, pa.int64()),
    }
    if len(numbered.topics) > 1:
        columns["topic"] = pa.array(
            [numbered.topic_of(ordinal) for ordinal in ordinals], pa.int32()
        )
    return pa.RecordBatch.from_pydict(columns)


def _end(numbered, split):
    """The row that says that the split ends, as the reader makes it."""
    columns = {
        "split": pa.array([split ^ 1 << 62], pa.int64()),
        "value": pa.nulls(1, pa.binary()),
        "checksum": pa.nulls(1, pa.int64()),
    }
    if len(numbered.topics) > 1:
        columns["topic"] = pa.nulls(1, pa.int32())
    return pa.RecordBatch.from_pydict(columns)


def _signed(value):
    return value - (1 << 64) if value >= 1 << 63 else value


def slow_down(method: str, seconds: float):
    of = owner(method)
    original = getattr(of, method)

    def slow(self, *arguments):
        time.sleep(seconds)
        return original(self, *arguments)

    setattr(of, method, slow)


def owner(method: str) -> type:
    """Records are the producer's; where a transaction begins and ends, :class:`Transactions`'."""
    return Transactions if method in ("begin", "commit") else LaneProducer


def _set_up_logging():
    logging.basicConfig(
        level="INFO",
        format="%(asctime)s %(process)d %(levelname)s %(name)s: %(message)s",
        stream=sys.stderr,
    )


def main() -> int:
    """0: everything was shipped. 1: it was not, and the last line on standard output says why.

    To be called from ``python -c``: of a module that runs as ``__main__`` every task's process
    would make another copy."""
    numbered = Numbered.from_json(sys.argv[1])
    _set_up_logging()
    multiprocessing.get_context("forkserver").set_forkserver_preload(["tests.chaos.ship_numbered"])
    announce(event="started", pid=os.getpid())
    try:
        result = ship(numbered, in_processes)
    except ShipperError as error:
        announce(
            event="ended", error=error.message, kind=type(error).__name__, retriable=error.retriable
        )
        return 1
    counts = {
        "delivered": result.delivered,
        "before": result.before,
        "read": result.read,
        "unread": result.unread,
    }
    announce(
        event="ended",
        error=result.error,
        **counts,
        lane_reopened=result.lane_reopened,
        task_retries=result.task_retries,
    )
    return 0 if result.status == "succeeded" else 1
