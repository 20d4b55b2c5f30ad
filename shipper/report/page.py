"""A run's report as one HTML page that needs nothing else: no network, no script, no fonts of its own.

The order is the reader's: how did it end and what do I do; where did the records go; do the independent counts agree;
how fast was it; then the lists. The page shows nothing that is not in the report, and the same report gives the same
page. A section is a function from the report to markup; a new one is a new line in :func:`render`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import resources
from urllib.parse import quote

from shipper.config.units import format_bytes
from shipper.report.account import Account, RunStep, accounts, steps
from shipper.report.counts import MOST_COUNTS
from shipper.report.files import FileRow, files_section, left_out_section, place_of_file, shown_files
from shipper.report.history import history_section
from shipper.report.markup import Html, duration, join, moment, number, plural, prose, tag, utc, window
from shipper.report.plan_result import PlanResult
from shipper.report.results import RunReport
from shipper.report.sections import (
    MOST_TOPICS,
    account_section,
    anchor,
    gates_section,
    incomplete_section,
    notes,
    notes_section,
    steps_section,
    sum_section,
    throughput_section,
    topics_section,
)
from shipper.report.times import times_section
from shipper.report.verdict import Caveat, State, Verdict, checks, verdict

_BADGES: dict[State, tuple[str, str]] = {
    "shipped": ("✓", "Succeeded"),
    "nothing": ("✓", "Succeeded"),
    "doubt": ("!", "Look into this"),
    "failed": ("✗", "Failed"),
}
_ICON_COLOURS: dict[State, str] = {"shipped": "#1a7f4b", "nothing": "#6b8577", "doubt": "#b26a00", "failed": "#c0362c"}
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""Nothing is loaded and no script runs, even if some hostile text ever got through as markup."""
_LONGEST_CAUSE = 4_000
_MOST_PLACES = 6


def render(report: RunReport) -> str:
    """The page. Takes any report, whatever is missing in it: the page of a failed run matters most."""
    found = accounts(report)
    ending = verdict(report)
    main = tag(
        "main",
        _verdict_section(report, found, ending),
        _facts(report),
        sum_section(report, found),
        gates_section(report),
        account_section(found),
        topics_section(found),
        throughput_section(found),
        history_section(report, found),
        files_section(report, found),
        left_out_section(report),
        incomplete_section(report),
        notes_section(report, found),
        times_section(report),
        steps_section(report, ending.cause),
    )
    body = tag("body", _header(report), main, _footer(report), class_=ending.state)
    return f"<!doctype html>\n{tag('html', _head(report, ending), body, lang='en')}\n"


def _head(report: RunReport, ending: Verdict) -> Html:
    style = resources.files("shipper.report").joinpath("style.css").read_text(encoding="utf-8")
    dot = f'<circle cx="4" cy="4" r="4" fill="{_ICON_COLOURS[ending.state]}"/>'
    icon = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 8 8">{dot}</svg>'
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"{report.pipeline} {window(report.window_start, report.window_end)}: {ending.headline}"),
        tag("link", rel="icon", href=f"data:image/svg+xml,{quote(icon)}"),
        tag("style", Html(style)),
    )


def _header(report: RunReport) -> Html:
    return tag(
        "header",
        tag("p", tag("b", report.pipeline), class_="pipeline"),
        tag("p", window(report.window_start, report.window_end)),
        tag("p", "run ", tag("code", report.run_id)),
    )


def _verdict_section(report: RunReport, found: Sequence[Account], ending: Verdict) -> Html:
    mark, badge = _BADGES[ending.state]
    cause = ending.cause
    if cause and len(cause) > _LONGEST_CAUSE:
        cause = f"{cause[:_LONGEST_CAUSE]}… (the rest is in report.json)"
    return tag(
        "section",
        tag("p", tag("span", mark, aria_hidden="true"), f" {badge}", class_="badge"),
        tag("h1", ending.headline),
        _titled("Why", tag("p", prose(cause), class_="error")) if cause else None,
        _titled("What now", tag("p", prose(ending.remedy))) if ending.remedy else None,
        _titled("Again", tag("p", tag("code", ending.command), class_="command")) if ending.command else None,
        _places(report, found, ending),
        tag("ul", *(_doubt(doubt) for doubt in ending.doubts), class_="doubts") if ending.doubts else None,
        tag("ul", *(_cluster(account) for account in found), class_="clusters") if len(found) > 1 else None,
        _pointers(report, found),
        id="verdict",
    )


def _titled(title: str, part: Html) -> Html:
    return tag("div", tag("h2", title), part, class_="part")


def _places(report: RunReport, found: Sequence[Account], ending: Verdict) -> Html | None:
    links = [tag("a", says, href=f"#{place}") for says, place in _cause_at(report, found, ending)]
    return tag("p", "Look at ", join(links, " · "), class_="pointers") if links else None


def _cause_at(report: RunReport, found: Sequence[Account], ending: Verdict) -> list[tuple[str, str]]:
    """Where on the page the first cause of a failure is shown: the check, the topic, the file, the figure, or else the step. What is there, and
    the id of the element; at most :data:`_MOST_PLACES`, the closest first."""
    step = ending.failed
    if step is None:
        return []
    if step.name in ("gate_source", "gate_delivery"):
        near = [*_failed_checks(report, step), *_wrong_figures(found, step)]
    else:
        files = shown_files(report, found)
        near = [*_troubled_topics(found, step, ending.cause), *_troubled_files(files, step, ending.cause)]
    index = next(i for i, other in enumerate(steps(report)) if (other.name, other.cluster) == (step.name, step.cluster))
    return [*near[: _MOST_PLACES - 1], (f"step {step.title.lower()}", f"step-{index}")]


def _failed_checks(report: RunReport, step: RunStep) -> Iterator[tuple[str, str]]:
    title = "Source" if step.cluster is None else f"Delivery, {step.cluster}"
    for i, (gate, check) in enumerate(checks(report)):
        if gate == title and check.severity == "block" and not check.passed:
            yield f"check {check.check}", f"check-{i}"


def _wrong_figures(found: Sequence[Account], step: RunStep) -> Iterator[tuple[str, str]]:
    for account in found:
        if account.cluster == step.cluster:
            wrong = [i for i, count in enumerate(account.counts) if not count.agrees]
            for i in wrong[:MOST_COUNTS]:
                yield f"count of {account.counts[i].name}", f"{anchor(found, account)}-count-{i}"


def _troubled_topics(found: Sequence[Account], step: RunStep, cause: str | None) -> Iterator[tuple[str, str]]:
    """Those with parked records, and those that the cause names."""
    for account in found:
        if account.cluster == step.cluster:
            for i, topic in enumerate(account.topics[:MOST_TOPICS]):
                if topic.parked or (cause and f" {topic.topic} " in f" {cause} ".replace(",", " ").replace(":", " ")):
                    yield f"topic {topic.topic}", f"{anchor(found, account)}-topic-{i}"


def _troubled_files(files: Sequence[FileRow], step: RunStep, cause: str | None) -> Iterator[tuple[str, str]]:
    """Those that the cause names, and those of which something is missing."""
    for i, file in enumerate(files):
        if (file.missing and file.cluster == step.cluster) or (cause and file.path in cause):
            yield f"file {file.path.rpartition('/')[2]}", place_of_file(i)


def _doubt(doubt: Caveat) -> Html:
    return tag("li", prose(doubt.says), " ", tag("a", "Show", href=f"#{doubt.section}"))


def _cluster(account: Account) -> Html:
    """One line of the verdict where a run has several clusters."""
    sent, there = plural(account.sent, "record"), plural(account.there, "record")
    if account.outcome == "shipped":
        mark, tone, says = (
            "✓",
            "good",
            f"{sent} shipped"
            + (f", {number(sum(account.quarantined.values()))} quarantined" if account.quarantined else "")
            + (f", {number(account.before)} were there before" if account.before else ""),
        )
    elif account.outcome == "nothing":
        mark, tone, says = "✓", "good", f"nothing to ship, {there} there"
    elif account.outcome == "failed":
        mark, tone, says = "✗", "bad", "failed" + (f", {sent} delivered" if account.sent else "")
    else:
        mark, tone, says = "–", "dim", "not shipped to: the step did not run"
    return tag("li", tag("span", mark, class_=tone, aria_hidden="true"), " ", tag("b", account.cluster), f": {says}")


def _pointers(report: RunReport, found: Sequence[Account]) -> Html | None:
    """Links to what a reader of a green verdict should still see."""
    warnings = sum(not check.passed and check.severity == "warn" for _, check in checks(report))
    aside = sum(sum(account.quarantined.values()) for account in found)
    remarks = len(notes(report, found))
    left_out = report.plan.left_out_in_words() if report.plan else ""
    links = [
        tag("a", plural(warnings, "warning"), href="#gates") if warnings else None,
        tag("a", f"{plural(aside, 'record')} quarantined", href="#sum") if aside else None,
        tag("a", plural(remarks, "note"), href="#notes") if remarks else None,
        tag("a", left_out, href="#left-out") if left_out else None,
    ]
    return tag("p", join(links, " · "), class_="pointers") if any(links) else None


def _facts(report: RunReport) -> Html:
    began, ended = report.started_at, report.finished_at
    results = [step for step in (report.plan, report.gate_source, *report.ships, *report.delivery_gates) if step]
    if results:
        # The report step's own times say only how long the report took.
        began = min(utc(at) for at in (began, *(step.started_at for step in results)))
    took = duration(began, ended)
    plan = report.plan
    facts: list[tuple[str, str | None]] = [
        ("Owner", report.owner or None),
        ("Source", _source(plan) if plan and plan.source else None),
        ("Files", f"{number(len(plan.files))}, {format_bytes(plan.total_bytes)}" if plan else None),
        ("Of these late", number(len(plan.late_files)) if plan and plan.late_files else None),
        ("Looked back", f"{plural(plan.looked_back.windows, 'window')}" if plan and plan.looked_back else None),
        ("Cluster", plan.clusters[0].cluster if plan and len(plan.clusters) == 1 else None),
        ("Ran", join([moment(began), f", {took}"])),
    ]
    return tag("dl", *(tag("div", tag("dt", name), tag("dd", value)) for name, value in facts if value), class_="facts")


def _source(plan: PlanResult) -> Html:
    """The folder that was looked into; the pattern that named it, where it is another."""
    start = first_folder(plan)
    if start == plan.source:
        return tag("code", plan.source)
    return join([tag("code", start), tag("span", "by ", tag("code", plan.source), class_="dim more")])


def first_folder(plan: PlanResult) -> str:
    """The pattern with the date of the window's beginning; the pattern itself if it cannot be filled in."""
    try:
        return plan.source.format(window_start=utc(plan.window_start), window_end=utc(plan.window_end))
    except (KeyError, ValueError, IndexError, AttributeError):
        return plan.source


def _footer(report: RunReport) -> Html:
    data = tag("a", "report.json", href="report.json")
    return tag("footer", tag("p", "Written by shipper at ", moment(report.finished_at), ". The same as data: ", data, "."))
