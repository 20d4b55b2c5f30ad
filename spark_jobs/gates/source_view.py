"""View of the source gate: the window's listing, its history, and figures about lines."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from shipper.config.checks import SizeVsHistoryCheck
from shipper.config.content_checks import Gates
from shipper.config.pipeline import WHOLE_FILES_BYTES, Pipeline
from shipper.config.rules import sql_column
from shipper.config.units import plural
from shipper.driver.pieces import FilePiece, broken_files, file_pieces, sample_pieces
from shipper.driver.unreadable import cannot_be_read
from shipper.report.past_runs import past_runs
from shipper.report.phases import Phases
from shipper.report.plan_result import PlannedFile, PlanResult
from shipper.report.results import PastRun
from shipper.windows.window import Window
from shipper.worker.marks import BROKEN, MARK
from spark_jobs.duplicates import duplicates
from spark_jobs.gates.content import Scope
from spark_jobs.hadoop import Hadoop
from spark_jobs.reader import LineLimits, count_records, reading

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession

#: Of a line that is too long to be a record, a check sees the beginning.
_KEPT_OF_LONG_LINES_BYTES = 256

_FILES_COMPARED = 200
"""Files to compare: those with the most records at fault, of which a few are named."""


@dataclass
class SourceView:
    """One window, as the run's plan has it. Lines are those of the files that are left to ship and
    can be read."""

    spark: SparkSession | None
    """Session; None if no check needs its SQL (:func:`shipper.driver.dispositions.asks_spark`):
    then only the number of rows in the sample is asked for."""
    hadoop: Hadoop
    pipeline: Pipeline
    plan: PlanResult
    left: Sequence[PlannedFile]
    runs_uri: str
    """Place of the reports of earlier runs."""
    phases: Phases
    looked_at: set[str] = field(default_factory=set)
    """``sample`` and ``full``, as far as a check asked for them."""
    scans: int = 0
    """Number of times that lines were read."""

    @cached_property
    def sample(self) -> list[FilePiece]:
        gates: Gates = self.pipeline.gates
        files = [file for file in self.left if file.size_bytes] or self.left
        at_any_line = (
            self.pipeline.source.format in ("text", "jsonl")
            and self.pipeline.source.verbatim
            and self.pipeline.records.starts_with is None
        )
        cut_bytes = gates.sample_piece_bytes if at_any_line else WHOLE_FILES_BYTES
        return sample_pieces(files, gates.sample_files, gates.sample_piece_bytes, cut_bytes)

    def measure(self, scope: Scope, figures: Mapping[str, str]) -> dict[str, Any]:
        """Measure all figures in one scan. Raises what Spark raises, and SourceError for files that
        cannot be read if the pipeline wants all or nothing, or if nothing else was read; else they
        have the lines that could be read, and the ship will say so."""
        found = self._counted(scope) if self.spark is None else self._scanned(scope, figures)
        bad = [file for file in self.plan.files if file.left and file.problem]
        if bad and (self.pipeline.source.on_unreadable == "fail" or not found.get("rows")):
            raise cannot_be_read(bad, "Nothing was sent.")
        return found

    def _counted(self, scope: Scope) -> dict[str, Any]:
        with self.phases("counting"):
            pieces, _ = self._pieces(scope)
            reports = count_records(self.hadoop, pieces, LineLimits.of(self.pipeline))
            broken_files(pieces, reports)
        return {"rows": sum(report.lines for report in reports)}

    def _scanned(self, scope: Scope, figures: Mapping[str, str]) -> dict[str, Any]:
        from pyspark.sql import functions as F

        aggregates = [F.expr(aggregate).alias(name) for name, aggregate in figures.items()]
        with self._records(scope) as frame:
            return frame.agg(*aggregates).collect()[0].asDict()

    def pandas(self, scope: Scope, most: int) -> pd.DataFrame:
        """Return the first ``most`` records with their columns, in this process. Raises what Spark
        raises."""
        from pyspark.sql import functions as F

        with self._records(scope) as frame:
            # Of any other column the reader would make blocks of records, not records.
            records = self.pipeline.records
            names = ["value", *(["key"] if records.key is not None else []), *records.named_columns]
            frame = frame.select(*map(sql_column, names)).limit(most)
            return frame.select(
                *(
                    F.make_valid_utf8(sql_column(name)).alias(name)
                    if kind == "string"
                    else F.col(sql_column(name))
                    for name, kind in frame.dtypes
                )
            ).toPandas()

    def where(
        self, scope: Scope, conditions: Mapping[str, str]
    ) -> dict[str, list[tuple[str, int]]]:
        """Return the files with the most records for which each condition is true. Raises what
        Spark raises."""
        from pyspark.sql import functions as F

        counts = [
            F.expr(f"count_if({condition})").alias(name) for name, condition in conditions.items()
        ]
        total = functools.reduce(operator.add, (F.col(f"`{name}`") for name in conditions))
        with self._records(scope, "file_path") as frame:
            of_file = frame.groupBy("file_path").agg(*counts).orderBy(total.desc(), "file_path")
            rows = [row.asDict() for row in of_file.limit(_FILES_COMPARED).collect()]
        return {
            name: [
                (unquote(row["file_path"]), row[name])
                for row in sorted(rows, key=lambda row: -row[name])
                if row[name]
            ]
            for name in conditions
        }

    def _pieces(self, scope: Scope) -> tuple[list[FilePiece], int]:
        """Return the pieces of the files, and the most bytes that one has."""
        self.looked_at.add(scope)
        self.scans += 1
        if scope == "sample":
            size = self.pipeline.gates.sample_piece_bytes
            return self.sample, size
        size = self.pipeline.split_size_bytes
        return list(file_pieces(self.left, size)), size

    @contextmanager
    def _records(self, scope: Scope, *more: str) -> Iterator[DataFrame]:
        """Yield the lines that can be read, with their columns; ``more`` as in :func:`gate_frame`.
        Notes the faults of files that cannot be read."""
        from pyspark.sql import functions as F

        from spark_jobs.frame import gate_frame
        from spark_jobs.session import quiet, setting

        assert self.spark is not None, "a check uses SQL"
        pieces, bytes_each = self._pieces(scope)
        limits = LineLimits.of(self.pipeline, _KEPT_OF_LONG_LINES_BYTES)
        # Few rows come back: there is nothing to adapt, and trying takes 0.15 s. Spark's errors
        # quote the values that caused them.
        with (
            setting(self.spark, "spark.sql.adaptive.enabled", "false"),
            quiet(),
            self.phases("scanning"),
            reading(self.spark, pieces, limits, partition_bytes=bytes_each) as read,
        ):
            lines = read.frame.where(~F.col(sql_column(MARK)).eqNullSafe(BROKEN))
            yield gate_frame(lines, self.pipeline, *more)
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
        """Description of the examined lines, for people."""
        files = f"{plural(len(self.left), 'file')} left to ship"
        said = []
        if "sample" in self.looked_at:
            said.append(
                f"sample: {plural(len(self.sample), 'piece')} of "
                f"{len({piece.file.path for piece in self.sample}):,} of {files}"
            )
        if "full" in self.looked_at:
            said.append(f"full: {'all' if len(self.left) > 1 else 'the'} {files}")
        return "; ".join(said) or f"listing: {plural(len(self.plan.own_files), 'file')}"
