"""One run as its steps see it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from shipper.config import resolve_uri
from shipper.config.models import Cluster, Pipeline
from shipper.delivery.ledger_folder import LedgerFolder
from shipper.plan.files import split_starts
from shipper.plan.window import Window
from shipper.report.results import PlannedFile, PlanResult, RunFolder
from shipper.terms import FileId
from spark_jobs.session import session


@dataclass
class RunContext:
    """The pipeline with its clusters, the window, and the folder of the run."""

    pipeline: Pipeline
    clusters: Mapping[str, Cluster]
    config_dir: Path
    window: Window
    folder: RunFolder
    reship: bool = False
    source_only: bool = False
    """Whether the plan asks no cluster: every file of the window is then left to ship, as far as anyone knows."""
    has_gate: bool = False
    """Whether a gate is among the steps that this process runs."""
    _spark: SparkSession | None = field(default=None, repr=False)

    @property
    def spark(self) -> SparkSession:
        """Started on first use: a step that finds nothing to do never pays for it."""
        if self._spark is None:
            if self.has_gate:
                # Great Expectations takes seconds to import, and so does Java to start, in another process. What is wrong with the
                # import is said where the gate imports it.
                threading.Thread(target=import_module, args=("spark_jobs.gates",), name="import gates").start()
            self._spark = session(self.pipeline)
        return self._spark

    def stop_spark(self) -> None:
        if self._spark is not None:
            self._spark.stop()
            self._spark = None

    @property
    def runs_uri(self) -> str:
        """The pipeline's own, wherever this run's results go: `shipper plan` and `gates` leave them in a temporary folder."""
        return resolve_uri(self.config_dir, self.pipeline.runs_uri)

    def ledger_folder(self, cluster: str) -> LedgerFolder:
        return LedgerFolder(self.runs_uri, self.pipeline.name, cluster)

    def common(self, step: str) -> dict[str, Any]:
        """The fields that every step result begins with."""
        return {
            "step": step,
            "pipeline": self.pipeline.name,
            "window_start": self.window.start,
            "window_end": self.window.end,
            "run_id": self.folder.run_id,
        }

    def splits_of(self, plan: PlanResult) -> dict[FileId, range]:
        return {file_id(file): self.split_starts(file_id(file)) for file in plan.files}

    def split_starts(self, file: FileId) -> range:
        return split_starts(file.path, file.size_bytes, self.pipeline.split_size_bytes)


def file_id(file: PlannedFile) -> FileId:
    return FileId(file.path, file.size_bytes, file.modified_ms)


def say(text: str) -> None:
    """Progress, for people and for Airflow's task log. Standard output belongs to `--json`."""
    print(text, file=sys.stderr, flush=True)
