"""The first thing on the page: how the run ended, why, and what to do about it.

A report may be judged harder than it judges itself, never softer: one with a failed step or a first
cause is a failure, and one whose figures contradict each other says so (`doubt`). A green page must
be right.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Literal, NamedTuple

from shipper.config.records import UNREADABLE
from shipper.report.account import (
    Account,
    RunStep,
    accounts,
    disagreement,
    first_failure,
    steps,
)
from shipper.report.markup import number, plural, utc, words
from shipper.report.results import CheckResult, GateResult, RunReport
from shipper.windows.window import Window

State = Literal["shipped", "nothing", "doubt", "failed"]
_MUCH_QUARANTINED = 0.05
"""Share of the lines from which on a run is not plainly green, whatever the pipeline allows."""
_MOST_REASONS = 5
_STAYS = "Delivered records stay delivered: they are in the ledger and are not sent again."
_UNKNOWN = "Records that were sent, if any, are in the ledger and are not sent again."
_COUNT_ANEW = "Run the window again: nothing is sent twice, and everything is counted again."
_LEFT_OUT = (
    "A later run takes an entry when its reason is gone. docs/reference/left-out.md says what "
    "to do about each reason."
)
_AGAIN = "Remove the cause, then run the window again: it ships what is left."


class Caveat(NamedTuple):
    """Reason not to trust a run, and the section of the page that shows it."""

    says: str
    section: str
    remedy: str = ""
    """Remedy, in sentences; empty if ``says`` contains it."""
    cluster: str = ""
    """Cluster that it is about; empty: all."""


@dataclass(frozen=True)
class Verdict:
    state: State
    headline: str
    cause: str | None = None
    """The first cause of a failure, in one paragraph with the remedy, as the failed step put it."""
    remedy: str | None = None
    """State of the records, and what to do about the run as a whole."""
    command: str | None = None
    doubts: tuple[Caveat, ...] = ()
    failed: RunStep | None = None
    """The step that failed first, or left no result."""


def verdict(report: RunReport) -> Verdict:
    found = accounts(report)
    if (
        report.status == "failed"
        or report.first_cause
        or any(step.failed for step in steps(report))
    ):
        return _failed(report, found)
    dry = bool(report.asked and report.asked.plan_only)
    shipped = [account for account in found if account.outcome == "shipped"]
    headline = (
        _dry_run(found) if dry else _shipped(shipped) if shipped else _nothing(report, found)
    ) + _but_asked(report)
    doubts = () if dry else tuple(_doubts(report, found))
    missing = tuple(_missing(report, found))
    mend = tuple(
        Caveat(f"{account.cluster}: {text}", "notes", cluster=account.cluster)
        for account in found
        if account.plan
        for text in (*account.plan.warnings, account.plan.problem if dry else None)
        if text
    )
    if not (doubts or missing or mend):
        return Verdict("shipped" if shipped else "nothing", headline)
    but = "something needs attention"
    if doubts and all("went to quarantine" in doubt.says for doubt in doubts):
        but = "much of it went to quarantine"
    elif doubts:
        but = "the counts do not agree"
    elif missing:
        but = "not everything is delivered yet"
    every = doubts + missing + mend
    remedies = dict.fromkeys(caveat.remedy for caveat in every if caveat.remedy)
    return Verdict(
        "doubt", f"{headline}, but {but}", remedy=" ".join(remedies) or None, doubts=every
    )


def _shipped(shipped: list[Account]) -> str:
    """Return ``Shipped 1,200,000 records to each of frankfurt and singapore``; a total if they got
    different numbers."""
    total = sum(account.delivered for account in shipped)
    aside = sum(sum(account.quarantined.values()) for account in shipped)
    if not total and aside:
        return f"Shipped nothing but {plural(aside, 'quarantined record')}"
    names = [account.cluster for account in shipped]
    to = words(names) if len(names) <= 3 else f"{number(len(names))} clusters"
    if len(names) > 1 and len({account.delivered for account in shipped}) == 1:
        return f"Shipped {plural(shipped[0].delivered, 'record')} to each of {to}"
    return f"Shipped {plural(total, 'record')} to {to}{' in all' if len(names) > 1 else ''}"


def _dry_run(found: list[Account]) -> str:
    """Return ``Dry run: nothing was sent; frankfurt lacks 3 files, singapore lacks nothing``."""
    lacks = [
        f"{account.cluster} cannot be shipped to"
        if account.plan.problem
        else f"{account.cluster} lacks "
        + (plural(account.plan.left_files, "file") if account.plan.left_files else "nothing")
        for account in found
        if account.plan
    ]
    return "; ".join(["Dry run: nothing was sent", *([", ".join(lacks)] if lacks else [])])


def _but_asked(report: RunReport) -> str:
    """Return what a person left out of this run."""
    if report.asked is None or report.asked.plan_only:
        return ""
    said = []
    if checks := report.asked.skipped_checks:
        said.append(f"without the check{'s' if checks[1:] else ''} {words(checks)}")
    if others := report.asked.other_clusters:
        said.append(f"{words(others)} {'were' if others[1:] else 'was'} left out, as asked")
    return "".join(f"; {text}" for text in said)


def _nothing(report: RunReport, found: list[Account]) -> str:
    if report.plan is not None and not report.plan.files:
        return "Nothing to ship: the window holds no files" + (
            " that are ready" if any(one.warns for one in report.plan.left_out) else ""
        )
    there = {account.there for account in found}
    if not any(there):
        return "Nothing to ship: the window holds no records"
    records = plural(there.pop(), "record") if len(there) == 1 else "records"
    return f"Nothing to ship: the window's {records} had already been delivered"


def _failed(report: RunReport, found: list[Account]) -> Verdict:
    first = first_failure(steps(report))
    own = first.result.error if first and first.result else None
    # `first_cause` names its step, which the headline does here.
    stated = own if own and (report.first_cause or own).endswith(own) else report.first_cause
    headline, remedy = _what_failed(report, found, first)
    if topics := _gone(report):
        remedy = (
            "By the ledger, records were delivered that no topic has any more, because "
            f"{words(topics)} {'was' if len(topics) == 1 else 'were'} deleted. Set "
            "`delivery.on_recreated: resend` and run the window again: exactly these records "
            "are sent. Everything else stays delivered."
        )
    # To reship once more is for a person to decide.
    command = None if report.plan and report.plan.reship else _command(report)
    none = "No step gave a reason. Look for the step without a result, and read its log."
    cause = stated or report.error or none
    doubts = tuple(_contradictions(found))
    return Verdict("failed", headline, cause, remedy, command, doubts, first)


def _gone(report: RunReport) -> list[str]:
    """Return the topics that do not hold what the ledger says, and that this run left so."""
    places = [*(report.plan.clusters if report.plan else ()), *report.ships, *report.delivery_gates]
    return sorted({lost.topic for place in places for lost in place.recreated if not lost.resent})


def _command(report: RunReport) -> str:
    if report.plan and report.plan.replay:
        return shlex.join(report.plan.replay.command)
    window = str(Window(utc(report.window_start), utc(report.window_end)))
    config = ["--config", report.config] if report.config else []
    return shlex.join(["shipper", "run", report.pipeline, "--window", window, *config])


def _what_failed(report: RunReport, found: list[Account], first: RunStep | None) -> tuple[str, str]:
    """Return headline and remedy. Claims that nothing was sent only where a step before the first
    byte says that it failed."""
    sent = sum(account.sent for account in found)
    after = f", after {plural(sent, 'record')}" if sent else ""
    remedy = f"{_STAYS if sent else _UNKNOWN} {_AGAIN}"
    if first is None or first.result is None:  # a step was killed, or never began
        if report.plan is None and not sent:
            return "Failed before there was a plan", f"No step that sends left a result. {_AGAIN}"
        return (
            f"Failed: no result of the step “{first.title}”" if first else f"Failed{after}"
        ), remedy
    if first.cluster is None:
        where = "while planning" if first.name == "plan" else "at the source gate"
        return f"Failed {where}{after or ': nothing was sent'}", remedy if sent else _AGAIN
    mine = sum(account.sent for account in found if account.cluster == first.cluster)
    records = plural(mine, "record")
    if first.name == "gate_delivery":
        shipped = f": {records} shipped" if mine else ""
        distrust = "Do not trust the window until this gate has passed."
        return (
            f"Failed at the delivery gate of {first.cluster}{shipped}",
            f"{_STAYS if sent else _UNKNOWN} {distrust} {_COUNT_ANEW}",
        )
    elsewhere = _elsewhere(found, first.cluster)
    after = f", after {records}" if mine else ""
    return f"Failed while shipping to {first.cluster}{after}{elsewhere}", remedy


def _elsewhere(found: list[Account], failed: str | None) -> str:
    """Return ``; frankfurt has everything``: one cluster's fault does not concern the others."""
    good = [
        account.cluster
        for account in found
        if account.cluster != failed and account.outcome in ("shipped", "nothing") and account.ship
    ]
    if not good:
        return ""
    return (
        f"; {words(good) if len(good) <= 3 else f'{len(good)} other clusters'} "
        f"{'has' if len(good) == 1 else 'have'} everything"
    )


def _doubts(report: RunReport, found: list[Account]) -> list[Caveat]:
    """Return the reasons not to trust a run that reports success."""
    doubts, silent = _contradictions(found), list[tuple[str, str]]()
    for account in found:
        aside = sum(account.quarantined.values())
        if account.read and aside / account.read >= _MUCH_QUARANTINED:
            says = (
                f"{account.cluster}: {number(aside)} of {plural(account.read, 'line')} "
                f"({100 * aside / account.read:.0f} %) went to quarantine."
            )
            doubts.append(Caveat(says, "sum", _in_quarantine(report), account.cluster))
        if account.outcome == "no result":
            says = "the ship step left no result, so what it delivered is unknown."
            silent.append((f"{account.cluster}: {says}", account.cluster))
        elif account.delivered and account.gate is None:
            says = f"{account.cluster}: the delivery gate left no result."
            silent.append((says, account.cluster))
    if any(account.delivered for account in found) and report.gate_source is None:
        silent.append(("The source gate left no result.", ""))
    doubts += [Caveat(says, "steps", _COUNT_ANEW, cluster) for says, cluster in silent]
    for title, gate in gates(report):
        if broken := [
            one.check for one in gate.checks if one.severity == "block" and not one.passed
        ]:
            says = f"{title}: {words(broken)} failed, and yet the gate let the run pass."
            doubts.append(Caveat(says, "gates", _COUNT_ANEW, gate.cluster or ""))
    return doubts


def _in_quarantine(report: RunReport) -> str:
    return (
        f"`shipper quarantine show {report.pipeline}` shows what went to quarantine and why; "
        "`shipper quarantine export` writes them to a file, to correct and ship them."
    )


def _missing(report: RunReport, found: list[Account]) -> list[Caveat]:
    """Return caveats on the files that this run and earlier runs left unshipped."""
    left = [file for file in report.plan.left_out if file.warns] if report.plan else []
    doubts = []
    if left:
        count = sum(one.count for one in left)
        entry = "1 entry is" if count == 1 else f"{number(count)} entries are"
        named = "; ".join(f"{one.entries()}: {one.reason}" for one in left[:_MOST_REASONS])
        says = f"{entry} left out: {named}{'; …' if left[_MOST_REASONS:] else ''}."
        doubts.append(Caveat(says, "left-out", _LEFT_OUT))
    for account in found:
        if files := account.quarantined.get(UNREADABLE, 0):
            each = "it" if files == 1 else "each"
            says = (
                f"{account.cluster}: {plural(files, 'file')} could not be read; one record in "
                f"quarantine stands for {each}."
            )
            doubts.append(Caveat(says, "sum", _in_quarantine(report), account.cluster))
    for cluster in dict.fromkeys(gap.cluster for gap in report.gaps or ()):
        gaps = [gap for gap in report.gaps or () if gap.cluster == cluster]
        are = f"{plural(len(gaps), 'earlier window')} {'is' if len(gaps) == 1 else 'are'}"
        says = f"{cluster}: {are} not complete; the first: {gaps[0].window}, {gaps[0].why}."
        remedy = (
            f"`shipper gaps {report.pipeline}` lists windows that are not complete; a run of such "
            "a window ships what is missing."
        )
        doubts.append(Caveat(says, "incomplete", remedy, cluster))
    return doubts


def _contradictions(found: list[Account]) -> list[Caveat]:
    """Return contradictions among the figures of ships that ended well."""
    doubts = []
    for account in found:
        if account.ship is None or account.ship_failed:
            continue
        if account.gap:
            how = "not accounted for" if account.gap > 0 else "more accounted for than expected"
            says = f"{account.cluster}: {plural(abs(account.gap), 'record')} {how}."
            doubts.append(Caveat(says, "sum", _COUNT_ANEW, account.cluster))
        if account.parked:
            says = f"{account.cluster}: {plural(account.parked, 'record')} parked and never sent."
            remedy = (
                "When the topic can be written to, run the window again: it ships what is left."
            )
            doubts.append(Caveat(says, "figures", remedy, account.cluster))
        wrong = [
            f"{count.name} ({disagreement(count)})" for count in account.counts if not count.agrees
        ]
        differ = [topic.topic for topic in account.topics if topic.agrees == "no"]
        if wrong or differ:
            who = "counts" if wrong else "the ledger and the receipts"
            says = f"{account.cluster}: {who} disagree on {_some(wrong or differ)}."
            doubts.append(Caveat(says, "figures", _COUNT_ANEW, account.cluster))
    return doubts


def _some(names: list[str]) -> str:
    return words(names[:3] + ([f"{len(names) - 3} more"] if names[3:] else []))


def checks(report: RunReport) -> list[tuple[str, CheckResult]]:
    """Return all checks that were evaluated, each with its gate's name, in the order of the page's
    table."""
    return [(title, check) for title, gate in gates(report) for check in gate.checks]


def gates(report: RunReport) -> list[tuple[str, GateResult]]:
    """Return all gates that left a result, with the name that the page gives them."""
    source = [("Source", report.gate_source)] if report.gate_source else []
    return [*source, *((f"Delivery, {gate.cluster}", gate) for gate in report.delivery_gates)]
