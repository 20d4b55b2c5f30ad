"""The source gate on real files and real Spark, without a cluster: what the gate step does between
plan and verdict."""

import datetime as dt
import gzip
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from shipper.config.pipeline import Pipeline
from shipper.driver.files import split_starts
from shipper.report.phases import Phases
from shipper.report.plan_result import PlannedFile, PlanResult
from shipper.report.results import CheckResult
from shipper.runner import READER_JAR
from spark_jobs.gates.source import judge_all
from spark_jobs.gates.source_view import SourceView
from spark_jobs.hadoop import Hadoop
from spark_jobs.listing import look_at

END = dt.datetime(2026, 11, 1, 12, tzinfo=dt.UTC)


@contextmanager
def spark_session(name: str) -> Iterator[SparkSession]:
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        # Off, so that what a test reads on stderr is Python's: Spark's executors log the values
        # that they fail on.
        "spark.log.level": "OFF",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.jars": str(READER_JAR),
    }
    builder = SparkSession.builder.master("local[2]").appName(name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


class _View(SourceView):
    """View that does not look for the files in which the faults are."""

    def where(self, scope, conditions) -> dict[str, list[tuple[str, int]]]:
        return {}


class Logs:
    """Files below a folder, planned and read as a run does it. The window is the ``hours`` before
    ``END``."""

    def __init__(self, spark: SparkSession, folder: Path, hours: int = 1, **pipeline):
        self.spark, self.root, self.hours = spark, folder, hours
        self.folder = folder / "logs"
        self.folder.mkdir()
        self.pipeline: dict[str, Any] = {
            "pipeline": "web",
            "source": "logs",
            "topic": "logs.web",
            "clusters": ["c"],
            **pipeline,
        }
        if "routes" in pipeline:
            del self.pipeline["topic"]

    def write(self, name: str, content: bytes, *, age_seconds: float = 300) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(content, mtime=0) if name.endswith(".gz") else content)
        self.set_age(name, age_seconds)
        return path

    def set_age(self, name: str, seconds: float):
        """How long before the window's end the file was written."""
        os.utime(self.folder / name, (END.timestamp() - seconds,) * 2)

    def plan(self) -> PlanResult:
        files = [
            PlannedFile(
                path=str(path),
                size_bytes=path.stat().st_size,
                modified_ms=path.stat().st_mtime_ns // 10**6,
                splits=len(split_starts(str(path), path.stat().st_size, 2**25)),
            )
            for path in sorted(self.folder.rglob("*"))
            if path.is_file()
        ]
        times = {
            "window_start": END - dt.timedelta(hours=self.hours),
            "window_end": END,
            "started_at": END,
            "finished_at": END,
        }
        return PlanResult(
            pipeline="web", run_id="r1", files=files, source_root=f"{self.folder}/", **times
        )

    def view(self, checks: Sequence[Any], plan: PlanResult | None = None) -> SourceView:
        plan = plan or self.plan()
        written = [
            check if isinstance(check, dict) else check.model_dump(by_alias=True)
            for check in checks
        ]
        gates = {"source": written, **self.pipeline.get("gates", {})}
        model = Pipeline.model_validate({**self.pipeline, "gates": gates})
        hadoop, left = Hadoop.of(self.spark), [file for file in plan.files if file.left]
        look_at(hadoop, [file for file in left if file.unknown], model.source)
        left = [file for file in left if not file.problem]
        return _View(self.spark, hadoop, model, plan, left, str(self.root / "runs"), Phases())

    def evaluation(
        self, checks: Sequence[Any], plan: PlanResult | None = None
    ) -> tuple[list[CheckResult], SourceView]:
        """``checks`` as in a pipeline's file. Suites lie below ``root``."""
        view = self.view(checks, plan)
        return judge_all(view.pipeline.gates.source, view, self.root)[0], view
