"""Step `preview`: what some lines would become, read and decided as a ship does it. Asks no
cluster, and sends nothing."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain

from shipper.driver.context import RunContext
from shipper.driver.pieces import FilePiece, piece_at
from shipper.finding import warn
from shipper.report.plan_result import PlannedFile, PlanResult
from shipper.report.preview_result import PreviewResult
from shipper.runner import PLAN, PREVIEW

_FILES = 4


def preview(context: RunContext, cluster: str | None, started_at: dt.datetime) -> PreviewResult:
    """Preview the first lines of a few of the window's files, as ``cluster`` gets them. Raises
    ConfigError for SQL that a run would refuse."""
    plan = context.folder.need(PLAN, PlanResult)
    result = PreviewResult(**context.common(PREVIEW, started_at), files=len(plan.files))
    readable = [file for file in plan.files if file.size_bytes and not file.problem]
    context.start_spark_for_sql()
    with context.phases("reading"):
        chosen = list(heads(readable, context.request.lines or 1))
        result.lines = list(chain.from_iterable(context.engine.preview(chosen, cluster).values()))
    result.findings = [
        warn(f"{file.path}: {file.problem}", subject=file.path)
        for file in plan.files
        if file.problem
    ]
    if not result.lines:
        result.findings.append(warn("these files have no line"))
    return result


def heads(files: Sequence[PlannedFile], lines: int) -> Iterator[FilePiece]:
    """Yield the beginnings of a few files, spread evenly over all, with about as many lines each;
    ``lines`` in all if the files have them."""
    count = min(_FILES, len(files), lines)
    for number in range(count):
        file = files[number * len(files) // count]
        share = lines // count + (number < lines % count)
        yield replace(piece_at(file, 0, max(1, file.size_bytes)), most_lines=share)
