"""What a step did, in one line: the last of its log."""

from __future__ import annotations

from shipper.config.units import format_bytes
from shipper.report.markup import number, plural
from shipper.report.results import ClusterPlan, GateResult, PlanResult, RunReport, ShipResult, StepResult


def summary(result: StepResult) -> str:
    """``4,000 records sent; 120 were there before``. Empty for a step that has nothing to say beyond its state. Holds figures and names of
    the configuration, never a file's name or a line."""
    if isinstance(result, PlanResult):
        return _plan(result)
    if isinstance(result, ShipResult):
        return _ship(result)
    if isinstance(result, GateResult):
        return _gate(result)
    return (result.page or "") if isinstance(result, RunReport) else ""


def _plan(result: PlanResult) -> str:
    left_out = f", {plural(len(result.left_out), 'file')} left out" if result.left_out else ""
    found = f"{plural(len(result.files), 'file')}, {format_bytes(result.total_bytes)}{left_out}"
    return "; ".join([found, *(_cluster(cluster, bool(result.files)) for cluster in result.clusters)])


def _cluster(found: ClusterPlan, any_files: bool) -> str:
    if found.problem:
        return f"{found.cluster}: cannot be shipped to"
    if not any_files or not found.left_files:
        return f"{found.cluster}: nothing left to ship"
    return f"{found.cluster}: {plural(found.left_files, 'file')} left, {format_bytes(found.left_bytes)}"


def _ship(result: ShipResult) -> str:
    counts = [
        (result.before, "were there before"),
        (sum(result.quarantined.values()), "quarantined"),
        (sum(result.filtered.values()), "filtered"),
    ]
    return "; ".join([f"{plural(result.delivered, 'record')} sent", *(f"{number(n)} {what}" for n, what in counts if n)])


def _gate(result: GateResult) -> str:
    if not result.checks:
        return result.scope
    passed = sum(check.passed for check in result.checks)
    failed = [check.check for check in result.checks if not check.passed]
    held = f"{passed} of {plural(len(result.checks), 'check')} passed"
    return f"{held}; not: {', '.join(failed[:5])}{', …' if failed[5:] else ''}" if failed else held
