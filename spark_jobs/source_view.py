"""What the source gate may look at, by Spark: the window's listing, its history, and figures about lines."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from pyspark.sql import functions as F

from shipper.config.checks import SizeVsHistoryCheck
from shipper.config.models import Gates
from shipper.report.past import past_runs
from shipper.report.results import PastRun, PlannedFile, PlanResult
from spark_jobs.context import RunContext
from spark_jobs.duplicates import duplicates
from spark_jobs.listing import files_with_bom
from spark_jobs.records import gate_frame, lines
from spark_jobs.sample import Piece, pieces, sample_lines
from spark_jobs.session import setting


@dataclass
class SourceView:
    """One window, as the run's plan has it. Lines are those of the files that are left to ship."""

    context: RunContext
    plan: PlanResult
    looked_at: set[str] = field(default_factory=set)
    """``sample`` and ``full``, as far as a check asked for them."""

    @cached_property
    def left(self) -> list[PlannedFile]:
        return [file for file in self.plan.files if file.left]

    @cached_property
    def sample(self) -> list[Piece]:
        gates: Gates = self.context.pipeline.gates
        return pieces([file for file in self.left if file.size_bytes] or self.left, gates.sample_files, gates.sample_piece_bytes)

    def measure(self, scope: Literal["sample", "full"], figures: Mapping[str, str]) -> dict[str, Any]:
        """All figures in one scan. Raises what Spark raises."""
        self.looked_at.add(scope)
        context = self.context
        if scope == "sample":
            frame = sample_lines(context.spark, self.sample, context.pipeline.gates.sample_piece_bytes)
        else:
            frame = lines(context.spark, [file.path for file in self.left])
        aggregates = [F.expr(aggregate).alias(name) for name, aggregate in figures.items()]
        # One row comes back: there is nothing to adapt, and trying takes 0.15 s.
        with setting(context.spark, "spark.sql.adaptive.enabled", "false"):
            return gate_frame(frame, context.pipeline).agg(*aggregates).collect()[0].asDict()

    def history(self, check: SizeVsHistoryCheck) -> Sequence[PastRun]:
        start, length = self.plan.window_start, self.plan.window_end - self.plan.window_start

        def wanted(window: tuple[dt.datetime, dt.datetime]) -> bool:
            begins, ends = window
            same_time = begins.time() == start.time() or check.alike == "any"
            same_day = begins.weekday() == start.weekday() or check.alike != "time_of_week"
            return ends - begins == length and same_time and same_day

        return past_runs(self.context.runs_uri, self.plan.pipeline, start, most=check.runs, wanted=wanted)

    def duplicates(self) -> list[list[str]]:
        return duplicates(self.context.spark, self.plan.files)

    def marked(self) -> set[str]:
        return files_with_bom(self.context.spark, [file.path for file in self.left])

    @property
    def scope(self) -> str:
        """What was looked at, for people."""
        files = f"{len(self.left):,} files that are left to ship"
        said = []
        if "sample" in self.looked_at:
            said.append(f"sample: {len(self.sample):,} pieces of {len({piece.path for piece in self.sample}):,} of {files}")
        if "full" in self.looked_at:
            said.append(f"full: all {files}")
        return "; ".join(said) or f"listing: {len(self.plan.files):,} files"
