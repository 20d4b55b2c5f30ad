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
from shipper.report.plan_result import ClusterPlan
from shipper.report.results import CheckResult, GateResult, RunReport

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
    doubts, missing = () if dry else tuple(_doubts(report, found)), tuple(_missing(report, found))
    mend = tuple(
        Caveat(f"{account.cluster}: {text}", "notes")
        for account in found
        if account.plan
        for text in (
            [*account.plan.warnings, account.plan.problem]
            if dry and account.plan.problem
            else account.plan.warnings
        )
    )
    shipped = [account for account in found if account.outcome == "shipped"]
    headline = (
        _dry_run(found) if dry else _shipped(shipped) if shipped else _nothing(report, found)
    ) + _but_asked(report)
    if doubts:
        but = (
            "but much of it went to quarantine"
            if all("went to quarantine" in doubt.says for doubt in doubts)
            else "but the counts do not agree"
        )
        return _doubtful(f"{headline}, {but}", doubts + missing + mend)
    if missing:
        return _doubtful(f"{headline}, but not everything is delivered yet", missing + mend)
    if mend:
        return _doubtful(f"{headline}, but something needs attention", mend)
    return Verdict("shipped" if shipped else "nothing", headline)


def _doubtful(headline: str, doubts: tuple[Caveat, ...]) -> Verdict:
    remedies = dict.fromkeys(doubt.remedy for doubt in doubts if doubt.remedy)
    return Verdict("doubt", headline, remedy=" ".join(remedies) or None, doubts=doubts)


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
    lacks = [f"{account.cluster} {_lacks(account.plan)}" for account in found if account.plan]
    return (
        f"Dry run: nothing was sent; {', '.join(lacks)}" if lacks else "Dry run: nothing was sent"
    )


def _lacks(plan: ClusterPlan) -> str:
    if plan.problem:
        return "cannot be shipped to"
    return f"lacks {plural(plan.left_files, 'file')}" if plan.left_files else "lacks nothing"


def _but_asked(report: RunReport) -> str:
    """Return what a person left out of this run."""
    if report.asked is None or report.asked.plan_only:
        return ""
    said = []
    if checks := report.asked.skipped_checks:
        said.append(f"without the source check{'s' if checks[1:] else ''} {words(checks)}")
    if others := report.asked.other_clusters:
        said.append(f"{words(others)} {'were' if others[1:] else 'was'} left out, as asked")
    return "".join(f"; {text}" for text in said)


def _nothing(report: RunReport, found: list[Account]) -> str:
    if report.plan is not None and not report.plan.files:
        return "Nothing to ship: the window holds no files" + (
            " that are ready" if any(one.warns for one in report.plan.left_out) else ""
        )
    there = sorted({account.there for account in found})
    if not there or there == [0]:
        return "Nothing to ship: the window holds no records"
    if len(there) > 1:
        return "Nothing to ship: all records of the window had already been delivered"
    if there == [1]:
        return "Nothing to ship: the window's only record had already been delivered"
    return f"Nothing to ship: the window's {plural(there[0], 'record')} had already been delivered"


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
    start, end = (
        f"{utc(at):%Y-%m-%dT%H:%M:%SZ}" for at in (report.window_start, report.window_end)
    )
    again = not (
        report.plan and report.plan.reship
    )  # to reship once more is for a person to decide
    return Verdict(
        "failed",
        headline,
        stated
        or report.error
        or "No step gave a reason. Look for the step without a result, and read its log.",
        remedy,
        _command(report, f"{start}/{end}") if again else None,
        tuple(_contradictions(found)),
        first,
    )


def _gone(report: RunReport) -> list[str]:
    """Return the topics that do not hold what the ledger says, and that this run left so."""
    places = [*(report.plan.clusters if report.plan else ()), *report.ships, *report.delivery_gates]
    return sorted({lost.topic for place in places for lost in place.recreated if not lost.resent})


def _command(report: RunReport, window: str) -> str:
    if report.plan and report.plan.replay:
        return shlex.join(report.plan.replay.command)
    config = ["--config", report.config] if report.config else []
    return shlex.join(["shipper", "run", report.pipeline, "--window", window, *config])


def _what_failed(report: RunReport, found: list[Account], first: RunStep | None) -> tuple[str, str]:
    """Return headline and remedy. Claims that nothing was sent only where a step before the first
    byte says that it failed."""
    sent = sum(account.sent for account in found)
    if first is None or first.result is None:
        return _silent(report, first, sent)
    if first.cluster is None and not sent:
        where = "while planning" if first.name == "plan" else "at the source gate"
        return f"Failed {where}: nothing was sent", _AGAIN
    mine = sum(account.sent for account in found if account.cluster == first.cluster)
    if first.name == "gate_delivery":
        shipped = f": {plural(mine, 'record')} shipped" if mine else ""
        remedy = (
            f"{_STAYS if sent else _UNKNOWN} Do not trust the window until this gate has passed. "
            "Run the window again: everything is counted again."
        )
        return f"Failed at the delivery gate of {first.cluster}{shipped}", remedy
    if first.name == "ship":
        after = f", after {plural(mine, 'record')}" if mine else ""
        remedy = f"{_STAYS if sent else _UNKNOWN} {_AGAIN}"
        return (
            f"Failed while shipping to {first.cluster}{after}{_elsewhere(found, first.cluster)}",
            remedy,
        )
    stays = _STAYS if sent else _UNKNOWN
    return f"Failed at {first.title.lower()}, after {plural(sent, 'record')}", f"{stays} {_AGAIN}"


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


def _silent(report: RunReport, missing: RunStep | None, sent: int) -> tuple[str, str]:
    """Return headline and remedy of a run that failed without a step that says so: one of them was
    killed, or never began."""
    if report.plan is None and not sent:
        return "Failed before there was a plan", f"No step that sends left a result. {_AGAIN}"
    after = f", after {plural(sent, 'record')}" if sent else ""
    headline = f"Failed: no result of the step “{missing.title}”" if missing else f"Failed{after}"
    return headline, f"{_STAYS if sent else _UNKNOWN} {_AGAIN}"


def _doubts(report: RunReport, found: list[Account]) -> list[Caveat]:
    """Return the reasons not to trust a run that reports success."""
    doubts = _contradictions(found)
    for account in found:
        aside = sum(account.quarantined.values())
        if account.read and aside / account.read >= _MUCH_QUARANTINED:
            says = (
                f"{account.cluster}: {number(aside)} of {plural(account.read, 'line')} "
                f"({100 * aside / account.read:.0f} %) went to quarantine."
            )
            doubts.append(Caveat(says, "sum", _in_quarantine(report)))
        if account.outcome == "no result":
            says = (
                f"{account.cluster}: the ship step left no result, so what it delivered is unknown."
            )
            doubts.append(Caveat(says, "steps", _COUNT_ANEW))
        elif account.delivered and account.gate is None:
            says = f"{account.cluster}: the delivery gate left no result."
            doubts.append(Caveat(says, "steps", _COUNT_ANEW))
    if any(account.delivered for account in found) and report.gate_source is None:
        doubts.append(Caveat("The source gate left no result.", "steps", _COUNT_ANEW))
    for title, gate in gates(report):
        broken = [
            check.check for check in gate.checks if check.severity == "block" and not check.passed
        ]
        if broken:
            doubts.append(
                Caveat(
                    f"{title}: {words(broken)} failed, and yet the gate let the run pass.",
                    "gates",
                    _COUNT_ANEW,
                )
            )
    return doubts


def _in_quarantine(report: RunReport) -> str:
    return (
        f"`shipper quarantine show {report.pipeline}` shows what went to quarantine and why; "
        "`shipper quarantine replay` sends repaired records."
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
            doubts.append(Caveat(says, "sum", _in_quarantine(report)))
    for cluster in dict.fromkeys(gap.cluster for gap in report.gaps or ()):
        gaps = [gap for gap in report.gaps or () if gap.cluster == cluster]
        windows = (
            "1 earlier window is" if len(gaps) == 1 else f"{number(len(gaps))} earlier windows are"
        )
        doubts.append(
            Caveat(
                f"{cluster}: {windows} not complete; the first: {gaps[0].window}, {gaps[0].why}.",
                "incomplete",
                f"`shipper gaps {report.pipeline}` lists windows that are not complete; a run of "
                "such a window ships what is missing.",
            )
        )
    return doubts


def _contradictions(found: list[Account]) -> list[Caveat]:
    """Return contradictions among the figures of ships that ended well."""
    doubts = []
    for account in found:
        if account.ship is None or account.ship_failed:
            continue
        if account.gap:
            size = plural(abs(account.gap), "record")
            says = (
                f"{size} not accounted for"
                if account.gap > 0
                else f"{size} more accounted for than expected"
            )
            doubts.append(Caveat(f"{account.cluster}: {says}.", "sum", _COUNT_ANEW))
        if account.parked:
            doubts.append(
                Caveat(
                    f"{account.cluster}: {plural(account.parked, 'record')} parked and never sent.",
                    "figures",
                    "When the topic can be written to, run the window again: it ships what is "
                    "left.",
                )
            )
        wrong = [
            f"{count.name} ({disagreement(count)})" for count in account.counts if not count.agrees
        ]
        if wrong:
            doubts.append(
                Caveat(
                    f"{account.cluster}: counts disagree on {_some(wrong)}.",
                    "figures",
                    _COUNT_ANEW,
                )
            )
        differ = [topic.topic for topic in account.topics if topic.agrees == "no"]
        if differ and not wrong:
            doubts.append(
                Caveat(
                    f"{account.cluster}: the ledger and the receipts disagree on {_some(differ)}.",
                    "figures",
                    _COUNT_ANEW,
                )
            )
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
