"""Question about a closed source gate (`gates.on_closed: ask`), at a terminal and in Airflow: its
answers, and the facts that a person decides by."""

from __future__ import annotations

from collections.abc import Sequence

from shipper.config.pipeline import Pipeline
from shipper.config.units import format_bytes, plural
from shipper.report.plan_result import PlanResult
from shipper.report.results import GateResult
from shipper.request import CLOSED_GATE, skippable

SHIP_ANYWAY, SKIP_FAILED, LEAVE = "Ship all the same", "Skip the failed checks", "Leave it"
"""Answers to a closed source gate (`gates.on_closed: ask`)."""


def failed_checks(gate: GateResult, pipeline: Pipeline) -> list[str]:
    """Return the checks that close the gate; empty if one of them cannot be skipped."""
    failed = [check.check for check in gate.closing]
    return failed if set(failed) <= set(skippable(pipeline)) else []


def skips_for(answer: str, failed: Sequence[str], pipeline: Pipeline) -> tuple[str, ...]:
    """Return the checks that the run skips by the answer; none for :data:`LEAVE`."""
    if answer == SHIP_ANYWAY:
        return tuple(name for name in skippable(pipeline) if name != CLOSED_GATE)
    return tuple(failed) if answer == SKIP_FAILED else ()


def question(gate: GateResult, planned: PlanResult) -> str:
    """Return the facts that a person decides by: what failed, and how much is concerned."""
    left = [file for file in planned.files if file.left]
    size = sum(file.size_bytes for file in left)
    found = [f"- {check}" for check in gate.checks if not check.passed]
    rows = f"{plural(len(left), 'file')} of {format_bytes(size)} would be shipped."
    return "\n".join([*found, "", f"{rows} Judged by: {gate.scope}."])
