"""Spark and Java behind :class:`shipper.driver.engine.Engine`: their start and end, and their
answers to the driver.

Modules that import pyspark are imported when they are first needed: a run with nothing to ship asks
Java about files, and no more (docs/adr/0014).
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from shipper import runtime, s3a
from shipper.config.cluster import Cluster
from shipper.config.content_checks import SourceCheck
from shipper.config.pipeline import Pipeline
from shipper.driver.dispositions import asks_spark
from shipper.driver.engine import (
    Engine,
    Listed,
    ShipJob,
    SourceJudged,
    ToSum,
)
from shipper.driver.files import ListedFile
from shipper.driver.pieces import FilePiece, broken_files, file_pieces
from shipper.errors import ShipperError
from shipper.finding import Finding
from shipper.report.phases import Phases
from shipper.report.plan_result import PlannedFile, PlanResult
from shipper.report.preview_result import PreviewedLine
from shipper.windows.window import Window
from shipper.worker.order import ShipOrder
from spark_jobs import listing, reason
from spark_jobs.hadoop import Hadoop
from spark_jobs.jvm import end_java
from spark_jobs.settings import SPARK_MINOR, set_environment, spark_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_STOPS_WITHIN_SECONDS = 4.0


class SparkEngine(Engine):
    version = SPARK_MINOR

    def __init__(
        self,
        pipeline: Pipeline,
        *,
        judges: bool = False,
        ships: bool = False,
        spark: SparkSession | None = None,
    ) -> None:
        """Make the engine. ``judges``, ``ships``: whether this process judges a source gate that
        asks Great Expectations, or ships, so that modules for that are loaded while Spark starts.
        ``spark``: an existing session, which is not stopped."""
        self._pipeline = pipeline
        self._judges, self._ships = judges, ships
        self._given = spark
        self._started: SparkSession | None = None
        self._files: Hadoop | None = None
        self._begun: runtime.Thread | None = None
        self._refused: ShipperError | None = None
        """Error with which the start in the background ended."""
        self._stopped: runtime.Event | None = None
        """Set when Spark has started; None if no step has asked for Spark."""
        self._is_sql_safe = False
        self._requests: dict[str, int] = {}

    # Begin and end

    @property
    def _hadoop(self) -> Hadoop:
        """Access to files; it needs no Spark."""
        if (found := self._files) is None:
            if (spark := self._session) is not None:
                found = Hadoop.of(spark)
            else:
                set_environment(self._pipeline)
                found = Hadoop.start(spark_settings(self._pipeline), s3a.secrets(self._pipeline))
            self._files = found
        return found

    @property
    def _session(self) -> SparkSession | None:
        return self._given or self._started

    @property
    def _spark(self) -> SparkSession:
        assert self._session is not None, "Spark was not started"
        return self._session

    def start_java(self) -> None:
        assert self._hadoop

    def begin(self) -> None:
        def try_to_start() -> None:
            try:
                self._start()
            except ShipperError as error:  # a second try would end alike
                self._refused = error
            except Exception:
                return  # `start` tries again, and says what is wrong

        if self._session is None and self._begun is None:
            self._begun = runtime.Thread(target=try_to_start, name="start Spark", daemon=True)
            self._begun.start()

    def start(self) -> None:
        if self._begun is not None:
            self._begun.join()
        if self._refused is not None:
            raise self._refused
        if self._session is None:
            self._start()

    def _start(self) -> None:
        if self._judges:
            # Great Expectations takes seconds to import, and so does Java to start, in another
            # process. What is wrong with the import is said where the gate imports it.
            runtime.Thread(target=_import_gates, name="import gates").start()
        from spark_jobs.session import session

        self._started = spark = session(self._pipeline)
        if self._ships:
            from spark_jobs.sink import start_workers

            runtime.Thread(
                target=start_workers,
                args=(spark, self._pipeline.tasks),
                name="start workers",
                daemon=True,
            ).start()
        self._files = None  # it may have been of another JVM

    def begin_to_stop(self) -> None:
        def stop(stopped: runtime.Event) -> None:
            try:
                if self._begun is not None:  # by a step that then had no need of it
                    self._begun.join()
                if self._started is not None:
                    from spark_jobs.session import stop_session

                    spark, self._started = self._started, None
                    with contextlib.suppress(Exception):  # Java may be gone, as the step has said
                        stop_session(spark)
            finally:
                stopped.set()

        if self._stopped is None and (self._started is not None or self._begun is not None):
            self._stopped = runtime.Event()
            runtime.Thread(
                target=stop, args=(self._stopped,), name="stop Spark", daemon=True
            ).start()

    def stop(self) -> None:
        self.begin_to_stop()
        if self._stopped is not None:
            self._stopped.wait()

    def abandon(self) -> None:
        """Abandon Java. A call into the JVM that was interrupted leaves its connection in the
        middle of an answer, so another thread asks, on a connection of its own."""
        spark, self._started, self._given = self._session, None, None
        if spark is None:
            end_java()
        else:
            from spark_jobs.session import end_session

            end_session(spark, _STOPS_WITHIN_SECONDS)

    # Files

    def list_files(
        self, paths: Sequence[str], *, most: int, modified: Window | None = None
    ) -> Listed:
        return listing.list_files(self._hadoop, paths, self._pipeline, most=most, modified=modified)

    def missing(self, paths: Sequence[str]) -> list[str]:
        return [path for path in paths if listing.is_missing(self._hadoop, path)]

    def qualified_folder(self, folder: str) -> str:
        return listing.qualified_folder(self._hadoop, folder)

    def look_at(self, files: Sequence[PlannedFile]) -> None:
        listing.look_at(self._hadoop, files, self._pipeline.source)

    def sum_up(self, files: Sequence[ToSum]) -> None:
        listing.sum_up(self._hadoop, files, self._pipeline.source)

    def look_for(self, paths: Sequence[str]) -> dict[str, ListedFile | None]:
        return listing.look_for(self._hadoop, paths, self._pipeline.source.wait_seconds)

    def take_sample(self, plan: PlanResult) -> str:
        return listing.take_sample(self._hadoop, plan, self._pipeline)

    def source_requests(self) -> dict[str, int]:
        spark = self._session
        hadoop = self._files or (Hadoop.of(spark) if spark is not None else None)
        if hadoop is None or not s3a.reads_s3(self._pipeline):
            return {}
        bucket = "/".join(self._pipeline.source.path.split("/")[:3])
        with contextlib.suppress(
            Exception
        ):  # figures for people: no reason for a step that succeeded to fail
            now, before = listing.requests(hadoop, f"{bucket}/"), self._requests
            self._requests = now
            if any(now.get(kind, 0) < count for kind, count in before.items()):
                before = {}  # of another JVM
            return {
                kind: more for kind, count in now.items() if (more := count - before.get(kind, 0))
            }
        return {}

    # Lines

    def refuse_unsafe_sql(self, config_dir: Path) -> None:
        from spark_jobs.expressions import refuse_unsafe_sql

        if not self._is_sql_safe:
            refuse_unsafe_sql(self._spark, self._pipeline, config_dir)
            self._is_sql_safe = True

    def judge_source(
        self,
        checks: Sequence[SourceCheck],
        plan: PlanResult,
        left: Sequence[PlannedFile],
        runs_uri: str,
        config_dir: Path,
        phases: Phases,
    ) -> SourceJudged:
        from spark_jobs.gates.source import judge_all
        from spark_jobs.gates.source_view import SourceView

        spark = self._spark if asks_spark(self._pipeline, checks) else None
        view = SourceView(spark, self._hadoop, self._pipeline, plan, left, runs_uri, phases)
        results, documents = judge_all(checks, view, config_dir)
        return SourceJudged(results, view.scans, view.scope, documents)

    def read_through(self, files: Sequence[PlannedFile]) -> None:
        from spark_jobs.reader import LineLimits, reading

        split_size = self._pipeline.split_size_bytes
        pieces = list(file_pieces(files, split_size))
        limits = LineLimits.of(self._pipeline)
        with reading(self._spark, pieces, limits, partition_bytes=split_size) as read:
            read.frame.count()
            broken_files(pieces, read.reports())

    def preview(
        self, pieces: Sequence[FilePiece], cluster: str | None
    ) -> dict[int, list[PreviewedLine]]:
        from spark_jobs.preview_lines import preview

        return preview(
            self._spark, self._pipeline.on(cluster) if cluster else self._pipeline, pieces
        )

    def job(
        self, order: ShipOrder, cluster: Cluster, files: Sequence[PlannedFile], *, long_lines: bool
    ) -> ShipJob:
        from spark_jobs.job import SparkJob

        return SparkJob(
            self._spark,
            self._pipeline.on(cluster.name),
            order,
            cluster,
            files,
            long_lines=long_lines,
        )

    def cause(self, error: Exception) -> Finding:
        return reason.of_exception(error)


def _import_gates() -> None:
    with contextlib.suppress(Exception):
        import_module("spark_jobs.gates.judging")
