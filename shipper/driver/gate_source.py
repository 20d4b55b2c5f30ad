"""Step `gate_source`: checks the window's files before the first byte leaves."""

from __future__ import annotations

import datetime as dt

from shipper.config.checks import ListingCheck
from shipper.driver.context import RunContext
from shipper.driver.dispositions import asks_spark
from shipper.driver.gate import close_if_needed
from shipper.driver.unreadable import cannot_be_read
from shipper.report.plan_result import PlannedFile, PlanResult
from shipper.report.results import GateResult
from shipper.runner import GATE_SOURCE, PLAN


def gate_source(context: RunContext, started_at: dt.datetime) -> GateResult:
    """Judge the source. If every cluster holds everything already, there is nothing to guard: the
    gate is skipped, and says so."""
    planned = context.folder.need(PLAN, PlanResult)
    result = GateResult(**context.common(GATE_SOURCE, started_at))
    result = _judge_source(context, planned, result)
    if result.status != "failed" or not any(file.left for file in planned.late_files):
        return result
    # An old file must not close the gate of each hour that finds it. It stays out, with a warning,
    # if the window's own files are right.
    own = _judge_source(
        context,
        planned.without_late_files(""),
        result.model_copy(update={"status": "succeeded", "error": None, "final": False}),
    )
    if own.status == "failed":
        return result
    own.late_held_back = (
        "with the late files the source gate would be closed "
        f"({next(iter(result.closing), result.error)}); repair them and run their window"
    )
    return own


def _judge_source(context: RunContext, planned: PlanResult, result: GateResult) -> GateResult:
    result = result.model_copy(update={"checks": [], "scans": 0, "scope": ""})
    checks = context.pipeline.gates.source
    may_be_empty = not planned.own_files and context.pipeline.source.when_empty == "succeed"
    if may_be_empty:
        # The window is right. Late files of other windows are still looked into.
        checks = tuple(check for check in checks if not isinstance(check, ListingCheck))
    left = _readable(context, planned)
    unread = [file for file in planned.own_files if file.left and file.problem]
    if not left and unread and not _goes_to_quarantine(context, unread):
        raise cannot_be_read(unread, "Nothing was sent.")
    nothing_left = not left and (planned.files or may_be_empty) and not _is_silent(context, planned)
    if nothing_left or not checks:
        result.status = "skipped"
        result.scope = (
            "nothing is left to ship" if nothing_left
            else "every check was skipped, as asked" if context.request.skip_checks
            else "late files alone, and no check looks into files"
        )  # fmt: skip
        return result
    if asks_spark(context.pipeline, checks):
        context.start_spark_for_sql()
    judged = context.engine.judge_source(
        checks, planned, left, context.own_runs_uri, context.config_dir, context.phases
    )
    result.checks, result.scans, result.scope = judged.checks, judged.scans, judged.scope
    for name, text in judged.documents.items():
        context.folder.write_text(name, text)
    looked = not any(file.problem and file.passing for file in left)
    return close_if_needed(result, "before the ship: nothing was sent", looked=looked)


def _is_silent(context: RunContext, planned: PlanResult) -> bool:
    """True if the window's files are all empty, and it should hold something: a source that went
    silent may still create its files."""
    return (
        context.pipeline.source.when_empty == "fail"
        and bool(planned.own_files)
        and not any(file.size_bytes for file in planned.own_files)
    )


def _goes_to_quarantine(context: RunContext, files: list[PlannedFile]) -> bool:
    """Return True if the ship deals with these files, which cannot be read."""
    return context.pipeline.source.on_unreadable == "quarantine" and not any(
        file.passing for file in files
    )


def _readable(context: RunContext, planned: PlanResult) -> list[PlannedFile]:
    """Return the files that are left to ship and can be read, as far as their beginning shows."""
    left = [file for file in planned.files if file.left]
    if unknown := [file for file in left if file.unknown]:
        context.engine.look_at(unknown)
    return [file for file in left if not file.problem]
