"""Sections of the page that show results as tables: gates, topics; and the notes of a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from shipper.config.units import format_bytes
from shipper.report.account import Account
from shipper.report.cells import Cell, TableRow
from shipper.report.markup import number, plural
from shipper.report.plan_result import ReplayOf
from shipper.report.results import CheckResult, GateResult, RunReport, ShipResult, TopicAccount
from shipper.report.run_folder import Asked
from shipper.report.verdict import checks, gates

MOST_TOPICS = 200
_NONE = "–"


def gate_tables(report: RunReport) -> dict[str, Any] | None:
    left = gates(report)
    if not left:
        return None
    every = [
        (check.passed, _check(title, check, f"check-{i}"))
        for i, (title, check) in enumerate(checks(report))
    ]
    scopes = " ".join(f"{title}: {scope}." for title, gate in left if (scope := _scope(gate)))
    held, broken = (
        [row for passed, row in every if passed],
        [row for passed, row in every if not passed],
    )
    return {"held": held, "broken": broken, "scopes": scopes}


def _scope(gate: GateResult) -> str:
    if gate.checks or gate.status == "failed":
        read = plural(gate.scans, "scan") + " of the content" if gate.scans else ""
        return ", ".join(part for part in (gate.scope, read) if part)
    return f"{gate.status} without a check{f', {gate.scope}' if gate.scope else ''}"


def _check(title: str, check: CheckResult, place: str) -> TableRow:
    if check.passed:
        tone, result = None, Cell("✓ passed", "good")
    elif check.severity in ("warn", "quarantine"):
        tone, result = (
            "warn",
            Cell("! failed" if check.severity == "warn" else "! quarantined", "warn"),
        )
    else:
        tone, result = "bad", Cell("✗ failed", "bad")
    expected = Cell(check.expected, more=_before(check.history) if check.history else "")
    cells: dict[str, str | Cell] = {
        "Check": check.check,
        "Gate": title,
        "Expected": expected,
        "Observed": check.observed,
    }
    return TableRow({**cells, "Severity": check.severity, "Result": result}, tone, place)


def _before(history: Sequence[float]) -> str:
    """Return ``5 runs before: 11 to 13``."""
    low, high = _figure(min(history)), _figure(max(history))
    return f"{plural(len(history), 'run')} before: {low if low == high else f'{low} to {high}'}"


def _figure(value: float) -> str:
    return number(value) if value == round(value) or abs(value) >= 1000 else f"{value:.3g}"


def topic_table(account: Account, prefix: str) -> dict[str, Any]:
    """Return the table of topics, with the ledger's and the read-back's counts, which the account
    of the gate shows as well, beside those of other places."""
    topics = account.topics
    columns = (
        {"Topic": "code"}
        | dict.fromkeys(("Delivered", "Before", "Parked", "Ledger", "Read back", "Bytes"), "num")
        | {"Agree": ""}
    )
    if not any(topic.parked for topic in topics):
        del columns["Parked"]
    if all(topic.read_back is None for topic in topics):
        del columns["Read back"]
    rows = [_topic(topic, f"{prefix}-topic-{i}") for i, topic in enumerate(topics[:MOST_TOPICS])]
    return {
        "account": account,
        "columns": columns,
        "rows": rows,
        "total": _total(account) if topics[1:] else [],
    }


def _topic(topic: TopicAccount, place: str) -> TableRow:
    tone = "bad" if topic.agrees == "no" or topic.parked else None
    name = Cell(topic.topic, more="quarantine" if topic.quarantine else "")
    return TableRow({"Topic": name, **_figures(topic), "Agree": _agree(topic)}, tone, place)


def _total(account: Account) -> list[TableRow]:
    """Return the row of the total, which does not say whether the counts agree: two topics that
    disagree in opposite directions agree in their sum."""
    topics = account.topics
    read = [topic.read_back for topic in topics if topic.read_back is not None]
    total = TopicAccount(
        topic="",
        delivered=sum(topic.delivered for topic in topics),
        delivered_bytes=sum(topic.delivered_bytes for topic in topics),
        before=account.before,
        ledger=account.ledger,
        read_back=sum(read) if len(read) == len(topics) else None,
        parked=account.parked,
    )
    name = (
        "All topics, quarantine too" if any(topic.quarantine for topic in topics) else "All topics"
    )
    return [TableRow({"Topic": name, **_figures(total), "Agree": ""}, "total")]


def _figures(topic: TopicAccount) -> dict[str, str]:
    found = {
        "Delivered": topic.delivered,
        "Before": topic.before,
        "Parked": topic.parked,
        "Ledger": topic.ledger,
        "Read back": topic.read_back,
    }
    return {title: _NONE if count is None else number(count) for title, count in found.items()} | {
        "Bytes": format_bytes(topic.delivered_bytes)
    }


def _agree(topic: TopicAccount) -> Cell:
    if topic.agrees == "not counted":
        return Cell("not counted", "dim")
    if topic.agrees == "yes":
        return Cell("✓ yes", "good")
    if topic.beyond:
        says = f"ledger has {number(abs(topic.beyond))} {'more' if topic.beyond > 0 else 'fewer'}"
    else:
        off = topic.read_beyond or 0
        says = f"readers find {number(abs(off))} {'more' if off > 0 else 'fewer'}"
    return Cell(f"✗ {says}", "bad")


def notes(report: RunReport, found: Sequence[Account]) -> list[str]:
    """Return notes for an operator, with the cluster if there is more than one."""
    several = len(found) > 1
    lines = []
    if report.plan and report.plan.reship:
        why = f": {report.plan.reship_reason}" if report.plan.reship_reason else "."
        lines.append(f"This run re-shipped files that an earlier run had shipped (`reship`){why}")
    if report.plan and report.plan.replay:
        lines.append(_replayed(report.plan.replay))
    if report.asked:
        lines += _asked(report.asked)
    for account in found:
        own = (
            [f"When planning: {account.plan.problem}"]
            if account.plan and account.plan.problem
            else []
        )
        own += account.plan.warnings if account.plan else []
        own += [_late(account.ship)] if account.ship and account.ship.late_files else []
        own += (
            [f"{account.plan.in_the_clear[:1].upper()}{account.plan.in_the_clear[1:]}."]
            if account.plan and account.plan.in_the_clear
            else []
        )
        own += account.ship.notes if account.ship else []
        lines += [f"{account.cluster}: {note}" if several else note for note in own]
    return lines


def _replayed(asked: ReplayOf) -> str:
    what = (
        f", of events from {asked.start:%Y-%m-%dT%H:%M:%SZ} to {asked.end:%Y-%m-%dT%H:%M:%SZ}"
        if asked.start and asked.end
        else ""
    )
    where = (
        f"to topics that begin with {asked.topic_prefix}"
        if asked.topic_prefix
        else "to the same topics once more"
    )
    return f"This is replay {asked.id} of {asked.pipeline}{what}, {where}: {asked.reason}"


def _asked(asked: Asked) -> Iterator[str]:
    if asked.plan_only:
        yield (
            "A dry run was asked for: nothing was sent, and the window does not count as shipped."
        )
    if asked.other_clusters:
        yield (
            f"This run shipped only to {', '.join(asked.clusters)}, as asked. What "
            f"{', '.join(asked.other_clusters)} may lack is still missing."
        )
    if asked.rate_limit:
        yield f"This run sent at most {asked.rate_limit} to each cluster, as asked."
    if asked.skipped_checks:
        yield (
            f"Skipped checks of the source gate, as asked: {', '.join(asked.skipped_checks)}: "
            f"{asked.skip_reason}"
        )


def _late(ship: ShipResult) -> str:
    files, windows = plural(ship.late_files, "file"), plural(ship.late_windows, "earlier window")
    return (
        f"{files} of {windows} came late, or were left by an earlier run. "
        f"{plural(ship.late_records, 'record')} of them were shipped."
    )
