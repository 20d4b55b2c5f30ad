"""Runs that were killed left no report: the next command that looks writes it.

A process that runs a whole run leaves a note of itself beside the index of the Shipments page, a
disk of this machine, and removes it in the end. A note whose process is gone is of a run that was
killed. Airflow's runs need none: there the report is a task of its own.
"""

from __future__ import annotations

import contextlib
import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, ValidationError, model_validator

from shipper.config.pipeline import Pipeline
from shipper.driver.context import RunContext
from shipper.errors import ShipperError
from shipper.processes import ProcessId
from shipper.report.results import RunReport
from shipper.report.run_folder import RunFolder
from shipper.request import RunRequest
from shipper.runner import REPORT, Job, how_it_ended, run_job
from shipper.shipments.feed import index_path
from shipper.whole_files import write_whole
from shipper.windows.window import Window, parse_window


class _Note(BaseModel):
    host: str
    pid: int
    started: str
    window: str
    request: RunRequest

    @model_validator(mode="before")
    @classmethod
    def _of_earlier_release(cls, note: dict[str, Any]) -> dict[str, Any]:
        """Take a note that held clusters and replay alone."""
        kept = {name: note[name] for name in ("clusters", "replay") if note.get(name)}
        return {"request": kept} | note

    def may_run(self) -> bool:
        return self.host != socket.gethostname() or ProcessId(self.pid, self.started).alive()


def _notes(config_dir: Path, pipeline: str) -> Path:
    index = index_path(config_dir)
    return index.with_name(f"{index.name}.running") / pipeline


@contextlib.contextmanager
def noted(context: RunContext, pipeline: str) -> Iterator[None]:
    """Keep a note of this process for the length of the block. A note that cannot be written harms
    no run. ``pipeline``: the name in the configuration; a replay's is another."""
    note = None
    with contextlib.suppress(OSError, ShipperError):
        note = _notes(context.config_dir, pipeline) / f"{context.folder.run_id}.json"
        me = ProcessId.of(os.getpid())
        said = _Note(
            host=socket.gethostname(),
            pid=me.pid,
            started=me.started,
            window=str(context.window),
            request=context.request,
        )
        write_whole(str(note), said.model_dump_json())
    try:
        yield
    finally:
        if note:
            with contextlib.suppress(OSError):
                note.unlink()


class KilledRun(NamedTuple):
    """Run that was killed on this machine and left no report."""

    run_id: str
    window: Window
    report: RunReport | None
    """Report that was written now; None: it could not be, and the next command tries again."""
    why: str = ""


def report_killed(config_dir: Path, pipeline: Pipeline) -> Iterator[KilledRun]:
    """Write the report of each run of the pipeline that was killed on this machine."""
    with contextlib.suppress(OSError, ShipperError):
        for path in sorted(_notes(config_dir, pipeline.name).glob("*.json")):
            with contextlib.suppress(OSError, ValidationError):
                note = _Note.model_validate_json(path.read_text())
                if not note.may_run():
                    yield from _report(config_dir, pipeline, path, note)


def _report(config_dir: Path, pipeline: Pipeline, path: Path, note: _Note) -> Iterator[KilledRun]:
    window, run_id = parse_window(note.window), path.stem
    clusters = tuple(name for name in note.request.clusters if name in pipeline.clusters)
    request = note.request.model_copy(update={"clusters": clusters})
    job = Job(pipeline, config_dir, window, run_id, (REPORT,), request)
    folder = RunFolder.of(job)
    try:
        if folder.find(REPORT, RunReport) is None:
            with tempfile.TemporaryFile() as said:
                code = run_job(job, stdout=said, stderr=said)
                said.seek(0)
                last = said.read().decode(errors="replace").strip().rpartition("\n")[2]
            report = folder.find(REPORT, RunReport)
            why = "" if report else f"the step {how_it_ended(code)}: {last}"
            yield KilledRun(run_id, window, report, why)
            if report is None:
                return
        path.unlink()
    except ShipperError as error:
        yield KilledRun(run_id, window, None, error.message)
