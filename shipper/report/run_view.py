"""One view of a run, by its report: how it ended, why, and what to do about it. Page, notice and
terminal print its fields.

A report may be judged harder than it judges itself, never softer: one with a failed step is a
failure, and one whose figures contradict each other says so (`doubt`). A green page must be right.
What is found of one cluster is said of that cluster alone.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from shipper.config.record_mapping import UNREADABLE
from shipper.config.rules import original
from shipper.config.units import number, plural
from shipper.error_codes import with_code
from shipper.errors import StepResultError
from shipper.finding import Finding, fail, ok, sentence, warn
from shipper.report.cluster_view import ClusterView, State, cluster_views, disagreement
from shipper.report.markup import words
from shipper.report.message import measured_rate, one_sentence, planned_for
from shipper.report.plan_result import IN_THE_CLEAR, LeftOut
from shipper.report.results import CheckResult, GateResult, RunReport, ShipResult
from shipper.report.run_folder import StepResult
from shipper.request import RunRequest

Event = Literal["failure", "warning", "success"]
OTHER_WINDOWS = "gaps"
"""Code of findings that are about other windows than the run's own."""
_MUCH_QUARANTINED = 0.05
"""Share of the lines from which on a run is not plainly green, whatever the pipeline allows."""
_MOST_REASONS = 5
_STAYS = "Delivered records stay delivered: they are in the ledger and are not sent again."
_UNKNOWN = "Records that were sent, if any, are in the ledger and are not sent again."
_COUNT_ANEW = "Run again: nothing is sent twice, and everything is counted again."
_LEFT_OUT = (
    "A later run takes an entry when its reason is gone. docs/reference/left-out.md says what "
    "to do about each reason."
)
_AGAIN = "Remove the cause, then run again: that ships what is left."
_DIFFER, _NOT_ALL = "the counts do not agree", "not everything is delivered yet"
#: Code of a doubt → section of the page that shows it, and what the headline says. The first come
#: first.
_DOUBTS = {
    "sum": ("sum", _DIFFER),
    "parked": ("figures", _DIFFER),
    "counts": ("figures", _DIFFER),
    "no-result": ("steps", _DIFFER),
    "let-pass": ("gates", _DIFFER),
    "much-quarantined": ("sum", "much of it went to quarantine"),
    "left-out": ("left-out", _NOT_ALL),
    "unreadable": ("sum", _NOT_ALL),
    OTHER_WINDOWS: ("incomplete", _NOT_ALL),
}
_NOTES = ("notes", "something needs attention")


@dataclass(frozen=True)
class RunStep:
    """A step that left a result or should have."""

    name: str
    cluster: str | None
    result: StepResult | None

    @property
    def key(self) -> str:
        """``ship:near``, as in the command line."""
        return f"{self.name}:{self.cluster}" if self.cluster else self.name

    @property
    def title(self) -> str:
        words = {
            "plan": "Plan",
            "gate_source": "Source gate",
            "ship": "Ship",
            "gate_delivery": "Delivery gate",
        }
        title = words[self.name]
        return f"{title}, {self.cluster}" if self.cluster else title

    @property
    def failed(self) -> bool:
        return self.result is not None and self.result.status == "failed"


def first_failure(steps: Sequence[RunStep]) -> RunStep | None:
    """Return the step that failed first, or left no result; None if all succeeded. Clusters fail
    independently of each other: of the first failure on each, take the earliest in time. A step
    without a result tells no time, so it comes last.

    ``steps``: in the order of a run."""
    bad = [step for step in steps if step.failed or step.result is None]
    shared = next((step for step in bad if step.cluster is None), None)
    firsts = {step.cluster: step for step in reversed(bad)}.values()
    timed = [(step.result.finished_at, step) for step in firsts if step.result]
    return shared or (min(timed, key=lambda found: found[0])[1] if timed else next(iter(bad), None))


def steps(report: RunReport) -> list[RunStep]:
    """Return all steps in the order of a run, with those that left no result."""
    if report.asked.plan_only:
        return [RunStep("plan", None, report.plan)]
    found = [RunStep("plan", None, report.plan), RunStep("gate_source", None, report.gate_source)]
    for one in cluster_views(report):
        found += [
            RunStep("ship", one.cluster, one.ship),
            RunStep("gate_delivery", one.cluster, one.gate),
        ]
    return found


@dataclass(frozen=True)
class RunView:
    state: State
    headline: str
    """``Failed while shipping to singapore, after 559,987 records``."""
    clusters: tuple[ClusterView, ...]
    cause: Finding | None = None
    """The first cause of a failure, as the failed step put it."""
    doubts: tuple[Finding, ...] = ()
    """Reasons not to trust the run, or not to call it done; the weightiest first."""
    warnings: tuple[Finding, ...] = ()
    """Further findings that a person may want to see: checks that only warn, and quarantine."""
    notes: tuple[Finding, ...] = ()
    remedy: str | None = None
    """State of the records, and what to do about the run as a whole."""
    command: str | None = None
    failed: RunStep | None = None
    """The step that failed first, or left no result."""
    steps: tuple[RunStep, ...] = ()
    """All steps in the order of a run, with those that left no result."""

    @property
    def event(self) -> Event:
        """The word that notices have for it."""
        if self.cause:
            return "failure"
        return "warning" if self.doubts or self.warnings else "success"

    @property
    def why(self) -> str | None:
        """The first cause, or the first warning, in one sentence; None: all is well."""
        if self.cause:
            said, step = one_sentence(self.cause.text), self.failed
            is_gate = step and isinstance(step.result, GateResult)
            return f"{step.title}: {said}" if step and is_gate else said
        return next((one_sentence(str(one)) for one in (*self.doubts, *self.warnings)), None)


def section(doubt: Finding) -> str:
    """Return the section of the page that shows it."""
    return _DOUBTS.get(doubt.code, _NOTES)[0]


def run_view(report: RunReport) -> RunView:
    clusters, every = cluster_views(report), steps(report)
    notes = tuple(_notes(report, clusters))
    warnings = tuple(_warnings(report, clusters))
    if report.status == "failed" or any(step.failed for step in every):
        source, first = report.gate_source, first_failure(every)
        doubts = tuple(_contradictions(clusters))
        headline, remedy = _what_failed(report, clusters, first)
        # To reship once more is for a person to decide.
        command = None if report.asked.reship else _command(report)
        found = RunView(
            "blocked" if source and source.is_closed else "failed", headline, (),
            _cause(report, first), doubts, (), notes, _remedy_of_gone(report) or remedy, command,
            first,
        )  # fmt: skip
    else:
        found = _ended_well(report, clusters, warnings, notes)
    judged = tuple(_judged(report, found, one) for one in clusters)
    return replace(found, clusters=judged, steps=tuple(every))


def cause_of(expected: Sequence[RunStep]) -> str | None:
    """Return the first failed or missing step, in one paragraph; None: all succeeded."""
    step = first_failure(expected)
    if step is None:
        return None
    if step.result is None:
        return with_code(
            f"step {step.key} left no result: it was killed or never ran; look at its log, and "
            "run again",
            StepResultError.code,
        )
    return f"{step.key}: {step.result.error}"


def _cause(report: RunReport, first: RunStep | None) -> Finding:
    own = first.result if first else None
    none = "No step gave a reason. Look for the step without a result, and read its log."
    return fail(
        (own and own.error) or report.error or none,
        code=(own and own.code) or "",
        cluster=(first and first.cluster) or "",
        subject=first.key if first else "",
    )


def _ended_well(
    report: RunReport,
    clusters: Sequence[ClusterView],
    warnings: tuple[Finding, ...],
    notes: tuple[Finding, ...],
) -> RunView:
    dry = report.asked.plan_only
    shipped = [one for one in clusters if one.delivered or one.quarantined]
    headline = (
        _dry_run(clusters) if dry else _shipped(shipped) if shipped else _nothing(report, clusters)
    ) + _but_asked(report)
    doubts = [] if dry else [*_contradictions(clusters), *_doubts(report, clusters)]
    doubts += _missing(report, clusters)
    doubts += [
        found
        for one in clusters
        for found in (one.plan.findings if one.plan else ())
        if found.code != IN_THE_CLEAR and found.severity in ("warn", "fail" if dry else "warn")
    ]
    rank = [*_DOUBTS]
    doubts.sort(key=lambda one: rank.index(one.code) if one.code in rank else len(rank))
    if not doubts:
        state: State = "shipped" if shipped else "nothing"
        return RunView(state, headline, (), warnings=warnings, notes=notes)
    remedies = dict.fromkeys(sentence(one.remedy) for one in doubts if one.remedy)
    headline = f"{headline}, but {_DOUBTS.get(doubts[0].code, _NOTES)[1]}"
    return RunView(
        "doubt", headline, (), None, tuple(doubts), warnings, notes, " ".join(remedies) or None
    )


def _judged(report: RunReport, run: RunView, one: ClusterView) -> ClusterView:
    """Return the cluster with its state: never better than the report says."""
    doubts = tuple(found for found in run.doubts if found.cluster in ("", one.cluster))
    here = [found for found in doubts if found.code != OTHER_WINDOWS]
    if run.state == "blocked":
        state: State = "blocked"
    elif one.failed or (run.cause and (one.ship is None or one.gate is None)):
        state = "failed"
    elif here:
        state = "doubt"
    else:
        state = "shipped" if one.delivered or one.quarantined else "nothing"
    return replace(one, state=state, doubts=doubts, line=_line(report, one))


def _line(report: RunReport, one: ClusterView) -> str:
    if report.asked.plan_only and report.plan and one.plan:
        return planned_for(one.plan, bool(report.plan.files))
    did = "shipped" if one.delivered or one.quarantined else "nothing to ship"
    if one.failed:
        did = "failed"
    elif one.is_silent:
        before = (report.plan, report.gate_source)
        ended = any(step and step.status == "failed" for step in before)
        did = "not tried" if ended else "the ship step left no result"
    counts = {"delivered": one.sent, **one.aside, "before": one.before}
    figures = [f"{number(count)} {what}" for what, count in counts.items() if count]
    return ", ".join([f"{one.cluster}: {did}", *figures])


def _shipped(shipped: Sequence[ClusterView]) -> str:
    """Return ``Shipped 1,200,000 records to each of frankfurt and singapore``; a total if they got
    different numbers."""
    total = sum(one.delivered for one in shipped)
    aside = sum(sum(one.quarantined.values()) for one in shipped)
    if not total and aside:
        return f"Shipped nothing but {plural(aside, 'quarantined record')}"
    names = [one.cluster for one in shipped]
    to = words(names) if len(names) <= 3 else f"{number(len(names))} clusters"
    if len(names) > 1 and len({one.delivered for one in shipped}) == 1:
        return f"Shipped {plural(shipped[0].delivered, 'record')} to each of {to}"
    return f"Shipped {plural(total, 'record')} to {to}{' in all' if len(names) > 1 else ''}"


def _dry_run(found: Sequence[ClusterView]) -> str:
    """Return ``Dry run: nothing was sent; frankfurt lacks 3 files, singapore lacks nothing``."""
    lacks = [
        f"{one.cluster} cannot be shipped to"
        if one.plan.problem
        else f"{one.cluster} lacks "
        + (plural(one.plan.left_files, "file") if one.plan.left_files else "nothing")
        for one in found
        if one.plan
    ]
    return "; ".join(["Dry run: nothing was sent", *([", ".join(lacks)] if lacks else [])])


def _but_asked(report: RunReport) -> str:
    """Return what a person left out of this run."""
    if report.asked.plan_only:
        return ""
    said = []
    if checks := report.asked.skip_checks:
        said.append(f"without the check{'s' if checks[1:] else ''} {words(checks)}")
    if others := report.asked.other_clusters:
        said.append(f"{words(others)} {'were' if others[1:] else 'was'} left out, as asked")
    return "".join(f"; {text}" for text in said)


def _nothing(report: RunReport, found: Sequence[ClusterView]) -> str:
    if report.plan is not None and not report.plan.files:
        return "Nothing to ship: the window holds no files" + (
            " that are ready" if any(one.warns for one in report.plan.left_out) else ""
        )
    there = {one.there for one in found}
    if not any(there):
        return "Nothing to ship: the window holds no records"
    records = plural(there.pop(), "record") if len(there) == 1 else "records"
    return f"Nothing to ship: the window's {records} had already been delivered"


def _remedy_of_gone(report: RunReport) -> str | None:
    """Return the remedy if topics do not hold what the ledger says, and this run left them so."""
    places = [*(report.plan.clusters if report.plan else ()), *report.ships, *report.delivery_gates]
    topics = sorted({lost.topic for place in places for lost in place.recreated if not lost.resent})
    return (
        (
            "By the ledger, records were delivered that no topic has any more, because "
            f"{words(topics)} {'was' if len(topics) == 1 else 'were'} deleted. Set "
            "`delivery.on_recreated: resend` and run again: exactly these records "
            "are sent. Everything else stays delivered."
        )
        if topics
        else None
    )


def _command(report: RunReport) -> str:
    again = ["run", report.pipeline, "--window", str(report.window)]
    if replay := report.asked.replay:
        again = ["replay", original(report.pipeline), "--id", replay.id]
    config = ["--config", report.config] if report.config else []
    return shlex.join(["shipper", *again, *config])


def _what_failed(
    report: RunReport, found: Sequence[ClusterView], first: RunStep | None
) -> tuple[str, str]:
    """Return headline and remedy. Claims that nothing was sent only where a step before the first
    byte says that it failed."""
    sent = sum(one.sent for one in found)
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
    mine = sum(one.sent for one in found if one.cluster == first.cluster)
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


def _elsewhere(found: Sequence[ClusterView], failed: str | None) -> str:
    """Return ``; frankfurt has everything``: one cluster's fault does not concern the others."""
    good = [
        one.cluster
        for one in found
        if one.cluster != failed and one.ship and not (one.failed or one.is_silent)
    ]
    if not good:
        return ""
    return (
        f"; {words(good) if len(good) <= 3 else f'{len(good)} other clusters'} "
        f"{'has' if len(good) == 1 else 'have'} everything"
    )


def _doubts(report: RunReport, clusters: Sequence[ClusterView]) -> Iterator[Finding]:
    """Yield the reasons not to trust a run that reports success."""
    for one in clusters:
        aside = sum(one.quarantined.values())
        if one.read and aside / one.read >= _MUCH_QUARANTINED:
            text = (
                f"{number(aside)} of {plural(one.read, 'line')} "
                f"({100 * aside / one.read:.0f} %) went to quarantine."
            )
            yield warn(text, _in_quarantine(report), "much-quarantined", one.cluster)
        if one.is_silent:
            text = "the ship step left no result, so what it delivered is unknown."
            yield warn(text, _COUNT_ANEW, "no-result", one.cluster)
        elif one.delivered and one.gate is None:
            text = "the delivery gate left no result."
            yield warn(text, _COUNT_ANEW, "no-result", one.cluster)
    if any(one.delivered for one in clusters) and report.gate_source is None:
        yield warn("The source gate left no result.", _COUNT_ANEW, "no-result")
    for _, gate in gates(report):
        if broken := [one.check for one in gate.closing]:
            text = f"{_kind(gate)}: {words(broken)} failed, and yet the gate let the run pass."
            yield warn(text, _COUNT_ANEW, "let-pass", gate.cluster or "")


def _in_quarantine(report: RunReport) -> str:
    return (
        f"`shipper quarantine show {report.pipeline}` shows what went to quarantine and why; "
        "`shipper quarantine export` writes them to a file, to correct and ship them."
    )


def _missing(report: RunReport, clusters: Sequence[ClusterView]) -> Iterator[Finding]:
    """Yield findings on the files that this run and earlier runs left unshipped."""
    left = [file for file in report.plan.left_out if file.warns] if report.plan else []
    for cluster in dict.fromkeys(name for file in left for name in file.clusters or ("",)):
        yield _left_out([file for file in left if cluster in (file.clusters or ("",))], cluster)
    for one in clusters:
        if files := one.quarantined.get(UNREADABLE, 0):
            text = (
                f"{plural(files, 'file')} could not be read; one record in quarantine stands for "
                f"{'it' if files == 1 else 'each'}."
            )
            yield warn(text, _in_quarantine(report), "unreadable", one.cluster)
    for cluster in dict.fromkeys(gap.cluster for gap in report.gaps or ()):
        gaps = [gap for gap in report.gaps or () if gap.cluster == cluster]
        are = f"{plural(len(gaps), 'earlier window')} {'is' if len(gaps) == 1 else 'are'}"
        text = f"{are} not complete; the first: {gaps[0].window}, {gaps[0].why}."
        remedy = (
            f"`shipper gaps {report.pipeline}` lists windows that are not complete; a run of such "
            "a window ships what is missing."
        )
        yield warn(text, remedy, OTHER_WINDOWS, cluster)


def _left_out(left: Sequence[LeftOut], cluster: str) -> Finding:
    count = sum(one.count for one in left)
    entry = "1 entry is" if count == 1 else f"{number(count)} entries are"
    named = "; ".join(map(str, left[:_MOST_REASONS]))
    text = f"{entry} left out: {named}{'; …' if left[_MOST_REASONS:] else ''}."
    return warn(text, _LEFT_OUT, "left-out", cluster)


def _contradictions(clusters: Sequence[ClusterView]) -> Iterator[Finding]:
    """Yield contradictions among the figures of ships that ended well."""
    for one in clusters:
        if one.ship is None or one.ship_failed:
            continue
        if one.gap:
            how = "not accounted for" if one.gap > 0 else "more accounted for than expected"
            yield warn(f"{plural(abs(one.gap), 'record')} {how}.", _COUNT_ANEW, "sum", one.cluster)
        if one.parked:
            text = f"{plural(one.parked, 'record')} parked and never sent."
            remedy = "When the topic can be written to, run again: that ships what is left."
            yield warn(text, remedy, "parked", one.cluster)
        wrong = [
            f"{count.name} ({disagreement(count)})" for count in one.counts if not count.agrees
        ]
        differ = [topic.topic for topic in one.topics if not topic.agrees]
        if wrong or differ:
            who = "counts" if wrong else "the ledger and the receipts"
            text = f"{who} disagree on {_some(wrong or differ)}."
            yield warn(text, _COUNT_ANEW, "counts", one.cluster)


def _some(names: list[str]) -> str:
    return words(names[:3] + ([f"{len(names) - 3} more"] if names[3:] else []))


def _warnings(report: RunReport, clusters: Sequence[ClusterView]) -> Iterator[Finding]:
    for _, gate in gates(report):
        for check in gate.checks:
            if check.severity == "warn" and not check.passed:
                text = f"{_kind(gate)}: {check}"
                yield warn(text, code="check", cluster=gate.cluster or "", subject=check.check)
    for one in clusters:
        if aside := sum(one.quarantined.values()):
            reasons = ", ".join(
                f"{reason} {number(count)}" for reason, count in sorted(one.quarantined.items())
            )
            text = f"{plural(aside, 'record')} quarantined ({reasons})"
            yield warn(text, code="quarantined", cluster=one.cluster)


def _kind(gate: GateResult) -> str:
    return "Delivery" if gate.cluster else "Source"


def _notes(report: RunReport, clusters: Sequence[ClusterView]) -> Iterator[Finding]:
    """Yield what an operator should know: what was asked for, and what plan and ship found."""
    if report.plan:
        yield from map(ok, _sent_again(report.asked, original(report.pipeline)))
    yield from map(ok, _asked(report.asked))
    for one in clusters:
        for found in one.plan.findings if one.plan else ():
            is_problem = found.severity == "fail"
            yield replace(found, text=f"When planning: {found.text}") if is_problem else found
        if one.ship:
            if measured := measured_rate(one.ship):
                yield ok(f"Sent {measured}", cluster=one.cluster)
            if one.ship.late_files:
                yield ok(_late(one.ship), cluster=one.cluster)
            yield from one.ship.findings


def _sent_again(asked: RunRequest, pipeline: str) -> Iterator[str]:
    if asked.reship:
        why = f": {asked.reship_reason}" if asked.reship_reason else ""
        yield f"This run re-shipped files that an earlier run had shipped (`reship`){why}"
    if replay := asked.replay:
        what = (
            f", of events from {replay.start:%Y-%m-%dT%H:%M:%SZ} to {replay.end:%Y-%m-%dT%H:%M:%SZ}"
            if replay.start and replay.end
            else ""
        )
        where = (
            f"to topics that begin with {replay.topic_prefix}"
            if replay.topic_prefix
            else "to the same topics once more"
        )
        yield f"This is replay {replay.id} of {pipeline}{what}, {where}: {replay.reason}"


def _asked(asked: RunRequest) -> Iterator[str]:
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
        yield f"A cap of {asked.rate_limit} to each cluster was asked for."
    if asked.skip_checks:
        yield (f"Skipped checks, as asked: {', '.join(asked.skip_checks)}: {asked.skip_reason}")


def _late(ship: ShipResult) -> str:
    files, windows = plural(ship.late_files, "file"), plural(ship.late_windows, "earlier window")
    return (
        f"{files} of {windows} came late, or were left by an earlier run. "
        f"{plural(ship.late_records, 'record')} of them were shipped."
    )


def checks(report: RunReport) -> list[tuple[str, CheckResult]]:
    """Return all checks that were evaluated, each with its gate's name, in the order of the page's
    table."""
    return [(title, check) for title, gate in gates(report) for check in gate.checks]


def gates(report: RunReport) -> list[tuple[str, GateResult]]:
    """Return all gates that left a result, with the name that the page gives them."""
    source = [("Source", report.gate_source)] if report.gate_source else []
    return [*source, *((f"Delivery, {gate.cluster}", gate) for gate in report.delivery_gates)]
