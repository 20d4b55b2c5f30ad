"""What the source gate may look at, by Spark: the window's listing, its history, and figures about
lines."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from shipper.config.checks import SizeVsHistoryCheck
from shipper.config.content_checks import Gates
from shipper.config.pipeline import WHOLE_FILES_BYTES, Pipeline
from shipper.config.rules import sql_column
from shipper.driver.pieces import broken_files, file_pieces
from shipper.driver.unreadable import cannot_be_read
from shipper.report.past_runs import past_runs
from shipper.report.phases import Phases
from shipper.report.plan_result import PlannedFile, PlanResult
from shipper.report.results import PastRun
from shipper.windows.window import Window
from shipper.worker.marks import BROKEN, MARK
from spark_jobs.duplicates import duplicates
from spark_jobs.frame import gate_frame
from spark_jobs.hadoop import Hadoop
from spark_jobs.reader import LineLimits, reading
from spark_jobs.sample import SampleRange, sample_ranges, to_read
from spark_jobs.session import setting

#: Of a line that is too long to be a record, a check sees the beginning.
_KEPT_OF_LONG_LINES_BYTES = 256

_FILES_COMPARED = 200
"""With the most records at fault; a few of them are named."""


@dataclass
class SourceView:
    """One window, as the run's plan has it. Lines are those of the files that are left to ship and
    can be read."""

    spark: SparkSession
    hadoop: Hadoop
    pipeline: Pipeline
    plan: PlanResult
    left: Sequence[PlannedFile]
    runs_uri: str
    """Where the reports of earlier runs are."""
    phases: Phases
    looked_at: set[str] = field(default_factory=set)
    """``sample`` and ``full``, as far as a check asked for them."""

    @cached_property
    def sample(self) -> list[SampleRange]:
        gates: Gates = self.pipeline.gates
        files = [file for file in self.left if file.size_bytes] or self.left
        at_any_line = (
            self.pipeline.source.format in ("text", "jsonl")
            and self.pipeline.records.starts_with is None
        )
        cut_bytes = gates.sample_piece_bytes if at_any_line else WHOLE_FILES_BYTES
        return sample_ranges(files, gates.sample_files, gates.sample_piece_bytes, cut_bytes)

    def measure(
        self, scope: Literal["sample", "full"], figures: Mapping[str, str]
    ) -> dict[str, Any]:
        """All figures in one scan. Raises what Spark raises, and SourceError for files that cannot
        be read if the pipeline wants all or nothing, or if nothing else was read; else they have
        the lines that could be read, and the ship will say so."""
        aggregates = [F.expr(aggregate).alias(name) for name, aggregate in figures.items()]
        with self._scanning(), self._lines(scope) as lines:
            found: dict[str, Any] = (
                gate_frame(lines, self.pipeline).agg(*aggregates).collect()[0].asDict()
            )
        bad = [file for file in self.plan.files if file.left and file.problem]
        if bad and (self.pipeline.source.on_unreadable == "fail" or not found.get("rows")):
            raise cannot_be_read(bad, "Nothing was sent.")
        return found

    def where(
        self, scope: Literal["sample", "full"], conditions: Mapping[str, str]
    ) -> dict[str, list[tuple[str, int]]]:
        """The files with the most records for which each condition is true. Raises what Spark
        raises."""
        counts = [
            F.expr(f"count_if({condition})").alias(name) for name, condition in conditions.items()
        ]
        total = functools.reduce(operator.add, (F.col(f"`{name}`") for name in conditions))
        with self._scanning(), self._lines(scope) as lines:
            of_file = (
                gate_frame(lines, self.pipeline, "file_path").groupBy("file_path").agg(*counts)
            )
            rows = [
                row.asDict()
                for row in of_file.orderBy(total.desc(), "file_path")
                .limit(_FILES_COMPARED)
                .collect()
            ]
        return {
            name: [
                (unquote(row["file_path"]), row[name])
                for row in sorted(rows, key=lambda row: -row[name])
                if row[name]
            ]
            for name in conditions
        }

    @contextmanager
    def _scanning(self) -> Iterator[None]:
        # Few rows come back: there is nothing to adapt, and trying takes 0.15 s.
        with setting(self.spark, "spark.sql.adaptive.enabled", "false"), self.phases("scanning"):
            yield

    @contextmanager
    def _lines(self, scope: Literal["sample", "full"]) -> Iterator[DataFrame]:
        """What can be read of them. Notes what is wrong with the files that cannot."""
        self.looked_at.add(scope)
        pipeline = self.pipeline
        if scope == "sample":
            pieces, bytes_each = (
                to_read(self.sample, self.left, pipeline.gates.sample_piece_bytes),
                pipeline.gates.sample_piece_bytes,
            )
        else:
            pieces, bytes_each = (
                list(file_pieces(self.left, pipeline.split_size_bytes)),
                pipeline.split_size_bytes,
            )
        limits = LineLimits.of(pipeline, _KEPT_OF_LONG_LINES_BYTES)
        with reading(self.spark, pieces, limits, partition_bytes=bytes_each) as read:
            yield read.frame.where(~F.col(sql_column(MARK)).eqNullSafe(BROKEN))
            broken_files(pieces, read.reports())

    def history(self, check: SizeVsHistoryCheck) -> Sequence[PastRun]:
        start, length = self.plan.window_start, self.plan.window_end - self.plan.window_start

        def wanted(window: Window) -> bool:
            same_time = window.start.time() == start.time() or check.alike == "any"
            same_day = window.start.weekday() == start.weekday() or check.alike != "time_of_week"
            return window.end - window.start == length and same_time and same_day

        return past_runs(
            self.runs_uri,
            self.pipeline.key,
            start,
            most=check.runs,
            wanted=wanted,
            names=self.pipeline.names,
        )

    def duplicates(self) -> list[list[str]]:
        return duplicates(self.hadoop, self.plan.own_files)

    def marked(self) -> set[str]:
        return {file.path for file in self.left if file.bom}

    @property
    def scope(self) -> str:
        """What was looked at, for people."""
        files = f"{len(self.left):,} files that are left to ship"
        said = []
        if "sample" in self.looked_at:
            said.append(
                f"sample: {len(self.sample):,} pieces of "
                f"{len({piece.path for piece in self.sample}):,} of {files}"
            )
        if "full" in self.looked_at:
            said.append(f"full: all {files}")
        return "; ".join(said) or f"listing: {len(self.plan.own_files):,} files"
