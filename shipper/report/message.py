"""Plain texts of a run's outcome: the headline and the first cause in one sentence; and a step's
result in one line."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from shipper.config.units import format_bytes, format_duration
from shipper.error_codes import code_of, with_code, without_code
from shipper.report.account import Account, RunStep, accounts
from shipper.report.markup import number, plural, words
from shipper.report.notes import measured_rate
from shipper.report.plan_result import ClusterPlan, PlanResult
from shipper.report.results import CheckResult, GateResult, RunReport, ShipResult, TopicAccount
from shipper.report.run_folder import StepResult
from shipper.report.verdict import checks, verdict

Ending = Literal["failure", "warning", "success"]
_MOST_LINES = 20
LONGEST = 400
"""Characters of a cause."""
_RATE_AFTER_SECONDS = 1.0
"""Seconds of sending below which a rate would be a guess."""
_END_OF_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z`“\"(])")


@dataclass(frozen=True)
class Message:
    ending: Ending
    headline: str
    """``Failed while shipping to singapore, after 559,987 records``."""
    cause: str | None
    """First cause of a failure, or the first warning, in one sentence; None: all is well."""
    step: RunStep | None
    """The step that failed first, or left no result."""
    clusters: tuple[str, ...]
    """One line for each cluster."""


def message(report: RunReport) -> Message:
    found, ending = accounts(report), verdict(report)
    dry = report.plan if report.asked and report.asked.plan_only else None
    clusters = tuple(
        _planned_for(account.plan, bool(dry.files))
        if dry and account.plan
        else cluster_line(account, tried=ships_began(report))
        for account in found
    )
    if ending.state == "failed":
        cause = _closed(report, ending.failed) or (
            one_sentence(ending.cause) if ending.cause else None
        )
        return Message("failure", ending.headline, cause, ending.failed, clusters)
    warnings = [*(doubt.says for doubt in ending.doubts), *_warnings(report, found)]
    cause = one_sentence(warnings[0]) if warnings else None
    return Message("warning" if warnings else "success", ending.headline, cause, None, clusters)


def ships_began(report: RunReport) -> bool:
    """Return False if the plan failed or the source gate is closed."""
    return all(
        step is None or step.status != "failed" for step in (report.plan, report.gate_source)
    )


def one_sentence(text: str) -> str:
    """Return the first sentence of ``text`` on one line, cut if longer than :data:`LONGEST`, with
    the code of ``text``."""
    plain = without_code(" ".join(text.split()))
    sentence = _END_OF_SENTENCE.split(plain, maxsplit=1)[0]
    short = sentence if len(sentence) <= LONGEST else f"{sentence[: LONGEST - 1]}…"
    return with_code(short, code_of(text))


def _closed(report: RunReport, step: RunStep | None) -> str | None:
    """Return the first failed check of a closed gate, which says more than that the gate is closed,
    with the code of the gate's error."""
    if step is None or not isinstance(step.result, GateResult):
        return None
    broken = [
        check for check in step.result.checks if check.severity == "block" and not check.passed
    ]
    if not broken:
        return None
    others = words([check.check for check in broken[1:]])
    more = f"; so is {others}" if len(broken) == 2 else f"; so are {others}" if others else ""
    expected, observed = (
        " ".join(text.split()) for text in (broken[0].expected, broken[0].observed)
    )
    closed = f"{step.title}: {broken[0].check}: expected {expected}, observed {observed}{more}"
    return with_code(one_sentence(closed), code_of(step.result.error))


def _warnings(report: RunReport, found: list[Account]) -> list[str]:
    says = [
        f"{title}: {check.check}: expected {check.expected}, observed {check.observed}"
        for title, check in checks(report)
        if check.severity == "warn" and not check.passed
    ]
    for account in found:
        aside = sum(account.quarantined.values())
        if aside:
            reasons = ", ".join(
                f"{reason} {number(count)}" for reason, count in sorted(account.quarantined.items())
            )
            says.append(f"{account.cluster}: {plural(aside, 'record')} quarantined ({reasons})")
    return says


def cluster_line(account: Account, *, tried: bool = True) -> str:
    """Return ``frankfurt: shipped, 1,224,291 delivered, 13 quarantined, 1,250 before``. ``tried``:
    False if the run ended before its first ship."""
    said = {
        "shipped": "shipped",
        "nothing": "nothing to ship",
        "failed": "failed",
        "no result": "the ship step left no result" if tried else "not tried",
    }
    counts = [
        (account.sent, "delivered"),
        (sum(account.filtered.values()), "filtered"),
        (sum(account.quarantined.values()), "quarantined"),
        (account.parked, "parked"),
        (account.before, "before"),
    ]
    return ", ".join(
        [
            f"{account.cluster}: {said[account.outcome]}",
            *(f"{number(n)} {what}" for n, what in counts if n),
        ]
    )


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
        lines = [
            f"left out: {file.entries()}: {file.reason}"
            for file in sorted(result.left_out, key=lambda file: not file.warns)
        ]
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
        [found, *(_planned_for(cluster, bool(result.files)) for cluster in result.clusters)]
    )


def _planned_for(found: ClusterPlan, any_files: bool) -> str:
    if found.problem:
        return f"{found.cluster}: cannot be shipped to"
    if not any_files or not found.left_files:
        return f"{found.cluster}: nothing left to ship"
    return (
        f"{found.cluster}: {plural(found.left_files, 'file')} left, "
        f"{format_bytes(found.left_bytes)}"
    )


def _ship(result: ShipResult) -> str:
    files = (
        f" of {plural(len(result.files) - result.unread_files, 'file')}"
        if result.delivered and result.files
        else ""
    )
    rate = ""
    if result.delivered and result.ship_seconds >= _RATE_AFTER_SECONDS:
        took = format_duration(result.ship_seconds)
        rate = f" in {took} ({number(result.delivered / result.ship_seconds)} records/s)"
    if measured := measured_rate(result):
        rate += f", {measured}"
    parts = [f"{plural(result.delivered, 'record')}{files} sent{rate}"]
    if result.are_receipts_lost:
        held = result.ledger_records
        known = "could not be asked" if held is None else f"holds {plural(held, 'record')} of it"
        parts = [f"the number of sent records is unknown; the ledger {known}"]
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


def _gate(result: GateResult) -> str:
    without = result.asked.skipped_checks if result.asked and result.cluster is None else []
    left_out = f"; left out, as asked: {', '.join(without)}" if without else ""
    if not result.checks:
        return result.scope + left_out
    passed = sum(check.passed for check in result.checks)
    failed = [check.check for check in result.checks if not check.passed]
    held = f"{passed} of {plural(len(result.checks), 'check')} passed"
    return (
        f"{held}; not: {', '.join(failed[:5])}{', …' if failed[5:] else ''}" if failed else held
    ) + left_out
