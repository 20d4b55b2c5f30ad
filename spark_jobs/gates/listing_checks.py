"""Findings of the checks of the listing."""

from __future__ import annotations

import datetime as dt
import math
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from shipper.config.checks import (
    DuplicateFilesCheck,
    FilesCheck,
    FilesPerCheck,
    FreshnessCheck,
    ListingCheck,
    NoBomCheck,
    SizeVsHistoryCheck,
    TotalBytesCheck,
)
from shipper.config.rules import pattern_of_source
from shipper.config.units import format_bytes, listed, plural, write_duration
from shipper.driver.gate import between, figure, rate, size
from shipper.report.plan_result import PlanResult
from shipper.report.results import PastRun
from spark_jobs.gates.figures import Bound, CheckFigures

if TYPE_CHECKING:
    from spark_jobs.gates.source_view import SourceView

_MOST_PARTS = 100_000


def look(check: ListingCheck, view: SourceView) -> tuple[str, Callable[[], CheckFigures]]:
    """Return what the check expects, and how to find what it observes, which raises what the
    history or the comparison of files raises: then the check cannot be evaluated. Late files of
    other windows do not count."""
    plan = view.plan
    match check:
        case FilesCheck():
            count = len(plan.own_files)
            bound = Bound(count, check.min, check.max)
            return (
                between(figure(check.min), figure(check.max), "files"),
                lambda: CheckFigures((bound,), plural(count, "file")),
            )
        case TotalBytesCheck():
            return (
                between(size(check.min_bytes), size(check.max_bytes)),
                lambda: _total_bytes(check, plan),
            )
        case FreshnessCheck():
            age = write_duration(check.max_age_seconds)
            return (
                f"newest file ≤ {age} before the window's end",
                lambda: _freshness(check, plan),
            )
        case FilesPerCheck():
            files = between(figure(check.min), figure(check.max), "files")
            return (
                f"{files} in every {write_duration(check.every_seconds)}",
                lambda: _files_per(check, view),
            )
        case SizeVsHistoryCheck():
            return (
                f"median of the last {check.runs} runs ± {rate(check.tolerance)}",
                lambda: _size_vs_history(check, plan, view.history(check)),
            )
        case DuplicateFilesCheck():
            return "no two files with the same content", lambda: _duplicate_files(view)
        case NoBomCheck():
            return "no file begins with a byte order mark", lambda: _no_bom(view)


def _total_bytes(check: TotalBytesCheck, plan: PlanResult) -> CheckFigures:
    total = sum(file.size_bytes for file in plan.own_files)
    bound = Bound(total, check.min_bytes, check.max_bytes)
    return CheckFigures((bound,), f"{format_bytes(total)} ({total:,} bytes)")


def _freshness(check: FreshnessCheck, plan: PlanResult) -> CheckFigures:
    if not plan.own_files:
        return CheckFigures((), "no files")
    age_ms = round(plan.window_end.timestamp() * 1000) - max(
        file.modified_ms for file in plan.own_files
    )
    # Rounded up, so that a figure beyond the limit never looks like the limit.
    age = write_duration(math.ceil(abs(age_ms / 1000)))
    observed = f"newest file {age} {'before' if age_ms >= 0 else 'after'} the window's end"
    return CheckFigures((Bound(age_ms, max=round(check.max_age_seconds * 1000)),), observed)


def _files_per(check: FilesPerCheck, view: SourceView) -> CheckFigures:
    plan, every = view.plan, dt.timedelta(seconds=check.every_seconds)
    parts = math.ceil((plan.window_end - plan.window_start) / every)
    if parts > _MOST_PARTS:
        raise ValueError(
            f"the window has {parts:,} parts of {write_duration(check.every_seconds)}, more than "
            f"{_MOST_PARTS:,}"
        )
    where = check.path_time(pattern_of_source(view.pipeline.source.path) or "")
    times = [where.find(file.path) for file in plan.own_files]
    inside = [at for at in times if at is not None and plan.window_start <= at < plan.window_end]
    counts = Counter((at - plan.window_start) // every for at in inside)
    numbers = [counts[part] for part in range(parts)]
    timeless = sum(at is None for at in times)

    wrong = [
        part for part, count in enumerate(numbers) if not Bound(count, check.min, check.max).holds
    ]
    starts = [
        f"{plan.window_start + part * every:%Y-%m-%dT%H:%MZ} has {numbers[part]:,}"
        for part in wrong
    ]
    words = [
        f"{len(wrong):,} of {plural(parts, 'part')} wrong: {listed(starts)}"
        if wrong
        else f"right in {plural(parts, 'part')}"
    ]
    if timeless:
        words.append(f"{plural(timeless, 'file')} without a time in the path")
    if outside := len(times) - timeless - len(inside):
        words.append(f"{plural(outside, 'file')} outside the window")
    return CheckFigures(
        (
            Bound(min(numbers), check.min, check.max),
            Bound(max(numbers), check.min, check.max),
            Bound(timeless, max=0),
        ),
        "; ".join(words),
    )


def _size_vs_history(
    check: SizeVsHistoryCheck, plan: PlanResult, runs: Sequence[PastRun]
) -> CheckFigures:
    of_bytes = check.of == "bytes"
    now = sum(file.size_bytes for file in plan.own_files) if of_bytes else len(plan.own_files)
    history = tuple(float(run.bytes if of_bytes else run.files) for run in runs)
    shown = format_bytes(now) if of_bytes else plural(now, "file")
    if len(runs) < check.min_runs:
        had = (
            f"{plural(len(runs), 'earlier run')}, {check.min_runs} are needed"
            if runs
            else "no earlier run"
        )
        return CheckFigures(
            (Bound(len(runs), max=check.min_runs - 1),),
            f"{shown}; no history to compare with yet ({had})",
            history,
        )
    median = statistics.median(history)
    low, high = median * (1 - check.tolerance), median * (1 + check.tolerance)
    usual = format_bytes(median) if of_bytes else f"{median:,.12g} files"
    ratio = f", {now / median:.2f} times that" if median else ""
    return CheckFigures(
        (Bound(now, low, high),),
        f"{shown}; median of {plural(len(runs), 'run')} {usual}{ratio}",
        history,
    )


def _duplicate_files(view: SourceView) -> CheckFigures:
    if not view.plan.own_files:
        return CheckFigures((), "no files")
    groups = view.duplicates()
    doubled = sum(len(group) - 1 for group in groups)
    names = [" = ".join(_shown(path, view) for path in group) for group in groups]
    observed = (
        f"{plural(doubled, 'file')} with the content of another: {listed(names)}"
        if doubled
        else "all contents differ"
    )
    return CheckFigures((Bound(doubled, max=0),), observed)


def _no_bom(view: SourceView) -> CheckFigures:
    if not view.plan.own_files:
        return CheckFigures((), "no files")
    marked = view.marked()
    names = sorted(_shown(path, view) for path in marked)
    observed = f"{plural(len(marked), 'file')} with one: {listed(names)}" if marked else "none"
    return CheckFigures((Bound(len(marked), max=0),), observed)


def _shown(path: str, view: SourceView) -> str:
    """Return the path below the source's root: base names repeat from hour to hour."""
    return path.removeprefix(view.plan.source_root).lstrip("/")
