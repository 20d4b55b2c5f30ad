"""A step's result in one line, and its findings in some."""

from __future__ import annotations

import re

from shipper.config.units import format_bytes, format_duration, number, plural
from shipper.error_codes import code_of, with_code, without_code
from shipper.report.plan_result import ClusterPlan, PlanResult
from shipper.report.results import CheckResult, GateResult, RunReport, ShipResult, TopicAccount
from shipper.report.run_folder import StepResult

_MOST_LINES = 20
LONGEST = 400
"""Characters of a cause."""
_RATE_AFTER_SECONDS = 1.0
"""Seconds of sending below which a rate would be a guess."""
_END_OF_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z`“\"(])")


def one_sentence(text: str) -> str:
    """Return the first sentence of ``text`` on one line, cut if longer than :data:`LONGEST`, with
    the code of ``text``."""
    plain = without_code(" ".join(text.split()))
    sentence = _END_OF_SENTENCE.split(plain, maxsplit=1)[0]
    short = sentence if len(sentence) <= LONGEST else f"{sentence[: LONGEST - 1]}…"
    return with_code(short, code_of(text))


def summary(result: StepResult) -> str:
    """Return one line on a step, the last of its log: ``4,000 records sent; 120 were there
    before``. Empty for a step that has no result beyond its state. Holds figures and names of the
    configuration, never a file's name or a line."""
    if isinstance(result, PlanResult):
        return _plan(result)
    if isinstance(result, ShipResult):
        return _ship(result)
    if isinstance(result, GateResult):
        return _gate(result)
    return (result.page or "") if isinstance(result, RunReport) else ""


def details(result: StepResult) -> list[str]:
    """Return a step's findings, with a line for each figure that a user may look for: the records
    of each topic, each failed check. They come before the step's own line."""
    lines, what = list[str](), ""
    if isinstance(result, PlanResult):
        lines = [f"left out: {one}" for one in result.left_out_by_weight()]
        what = "entries"
    elif isinstance(result, ShipResult):
        lines = [_topic(topic) for topic in result.topics if topic.delivered or topic.parked]
        what = "topics"
    elif isinstance(result, GateResult):
        lines = [_check(check) for check in result.checks if not check.passed]
        what = "checks"
    more = [f"… and {len(lines) - _MOST_LINES:,} more {what}"] if lines[_MOST_LINES:] else []
    return [*lines[:_MOST_LINES], *more]


def _topic(topic: TopicAccount) -> str:
    parked = f", {number(topic.parked)} parked and not sent" if topic.parked else ""
    return (
        f"topic {topic.topic}: {plural(topic.delivered, 'record')} sent, "
        f"{format_bytes(topic.delivered_bytes)}{parked}"
    )


def _check(check: CheckResult) -> str:
    expected, observed = (one_sentence(text) for text in (check.expected, check.observed))
    word = "FAILED" if check.severity == "block" else "WARN"
    return f"{word} check {check.check}: expected {expected}, observed {observed}"


def _plan(result: PlanResult) -> str:
    left_out = result.left_out_in_words()
    found = (
        f"{plural(len(result.files), 'file')}, "
        f"{format_bytes(result.total_bytes)}{left_out and f', {left_out}'}"
    )
    return "; ".join(
        [found, *(planned_for(cluster, bool(result.files)) for cluster in result.clusters)]
    )


def planned_for(found: ClusterPlan, any_files: bool) -> str:
    if found.problem:
        return f"{found.cluster}: cannot be shipped to"
    if not any_files or not found.left_files:
        return f"{found.cluster}: nothing left to ship"
    return (
        f"{found.cluster}: {plural(found.left_files, 'file')} left, "
        f"{format_bytes(found.left_bytes)}"
    )


def _ship(result: ShipResult) -> str:
    sent_of = sum(file.delivered > 0 for file in result.files)
    files = f" of {plural(sent_of, 'file')}" if sent_of else ""
    rate = ""
    if result.delivered and result.ship_seconds >= _RATE_AFTER_SECONDS:
        took = format_duration(result.ship_seconds)
        rate = f" in {took} ({number(result.delivered / result.ship_seconds)} records/s)"
    if measured := measured_rate(result):
        rate += f", {measured}"
    parts = [f"{plural(result.delivered, 'record')}{files} sent{rate}"]
    if result.are_receipts_lost:
        held = result.ledger_records
        known = "" if held is None else f"; the ledger holds {plural(held, 'record')} of it"
        parts = [f"the number of sent records is unknown{known}"]
    if result.late_files:
        late = plural(result.late_records, "record")
        parts.append(f"{late} of these from {plural(result.late_files, 'late file')}")
    if result.before:
        parts.append(f"{number(result.before)} were there before")
    if result.by_earlier_attempts:
        parts[-1] += f", {number(result.by_earlier_attempts)} by an earlier attempt of this run"
    for what, counts in (("quarantined", result.quarantined), ("filtered", result.filtered)):
        if total := sum(counts.values()):
            named = ", ".join(f"{name} {number(count)}" for name, count in counts.items())
            parts.append(f"{number(total)} {what} ({named})")
    return "; ".join(parts)


def measured_rate(ship: ShipResult) -> str:
    """Return the measured rate beside the cap that held; nothing without a cap."""
    if not (ship.rate_limit_bytes and ship.wire_bytes and ship.ship_seconds):
        return ""
    rate, cap = format_bytes(ship.wire_bytes / ship.ship_seconds), ship.rate_limit_bytes
    return f"{rate}/s on the wire, at a cap of {format_bytes(cap)}/s"


def _gate(result: GateResult) -> str:
    without = result.asked.skip_checks if result.cluster is None else ()
    left_out = f"; left out, as asked: {', '.join(without)}" if without else ""
    if not result.checks:
        return result.scope + left_out
    passed = sum(check.passed for check in result.checks)
    failed = [check.check for check in result.checks if not check.passed]
    held = f"{passed} of {plural(len(result.checks), 'check')} passed"
    return (
        f"{held}; not: {', '.join(failed[:5])}{', …' if failed[5:] else ''}" if failed else held
    ) + left_out
