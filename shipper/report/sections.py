"""The parts of the page between the verdict and the files; each returns None where the run has nothing for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from shipper.config.units import format_bytes
from shipper.report.account import Account, Topic, steps
from shipper.report.flow import flow
from shipper.report.lanes import lanes
from shipper.report.markup import Column, Html, Row, duration, join, moment, number, plural, table, tag
from shipper.report.results import CheckResult, GateResult, RunReport
from shipper.report.timeline import timeline
from shipper.report.verdict import gates

MOST_TOPICS = 200
_LONGEST_ERROR = 20_000


def anchor(found: Sequence[Account], account: Account) -> str:
    """A cluster's place in ids on the page. Names may hold anything, so they are not used."""
    return f"c{found.index(account)}"


def sum_section(report: RunReport, found: Sequence[Account]) -> Html | None:
    shipped = [account for account in found if account.ship is not None and (account.read or account.sent or account.before)]
    if not shipped:
        return None
    files, size = (len(report.plan.files), format_bytes(report.plan.total_bytes)) if report.plan else (None, None)
    figures = (
        join([_cluster_title(found, account), flow(account, files=files, size=size, prefix=anchor(found, account))])
        for account in shipped
    )
    return tag("section", tag("h2", "Where the records went"), *figures, id="sum")


def _cluster_title(found: Sequence[Account], account: Account) -> Html | None:
    return tag("h3", account.cluster) if len(found) > 1 else None


def gates_section(report: RunReport) -> Html | None:
    left = gates(report)
    if not left:
        return None
    columns = [Column(title) for title in ("Check", "Gate", "Expected", "Observed", "Severity", "Result")]
    rows = [_check(title, check) for title, gate in left for check in gate.checks]
    scopes = [f"{title}: {_scope(gate)}." for title, gate in left if _scope(gate)]
    return tag(
        "section",
        tag("h2", "Gates"),
        table("Checks before the first byte and after the last one", columns, rows) if rows else None,
        tag("p", f"What the checks looked at. {' '.join(scopes)}") if scopes else None,
        id="gates",
    )


def _scope(gate: GateResult) -> str:
    if gate.checks or gate.status == "failed":
        return gate.scope
    return f"{gate.status} without a check{f', {gate.scope}' if gate.scope else ''}"


def _check(title: str, check: CheckResult) -> Row:
    if check.passed:
        tone, result = None, tag("span", "✓ passed", class_="good")
    elif check.severity == "warn":
        tone, result = "warn", tag("span", "! failed", class_="warn")
    else:
        tone, result = "bad", tag("span", "✗ failed", class_="bad")
    return Row([tag("code", check.check), title, check.expected, check.observed, check.severity, result], tone=tone)


def topics_section(found: Sequence[Account]) -> Html | None:
    counted = [account for account in found if account.topics]
    if not counted:
        return None
    return tag("section", tag("h2", "Records per topic"), *(part for a in counted for part in _topics(found, a)), id="topics")


def _topics(found: Sequence[Account], account: Account) -> Iterator[Html | None]:
    columns = [Column("Topic"), *(Column(t, numeric=True) for t in ("Delivered", "Before", "Ledger", "Bytes"))]
    columns.append(Column("Agree"))
    prefix = anchor(found, account)
    rows = [_topic(topic, f"{prefix}-topic-{i}") for i, topic in enumerate(account.topics[:MOST_TOPICS])]
    if len(account.topics) > 1:
        everything = sum(topic.delivered_bytes for topic in account.topics)
        total = Topic("All topics", account.delivered, everything, account.before, account.ledger)
        # Two topics that disagree in opposite directions agree in their sum: only the rows can say yes.
        rows.append(Row([total.name, *_figures(total), ""], tone="total"))
    yield _cluster_title(found, account)
    yield table(f"Records per topic on {account.cluster}", columns, rows)
    if len(account.topics) > MOST_TOPICS:
        yield tag("p", f"{plural(len(account.topics) - MOST_TOPICS, 'more topic')} in report.json.")


def _topic(topic: Topic, row_anchor: str) -> Row:
    tone = "bad" if topic.agrees == "no" else None
    return Row([tag("code", topic.name), *_figures(topic), _agree(topic)], tone=tone, anchor=row_anchor)


def _figures(topic: Topic) -> list[str]:
    ledger = number(topic.ledger) if topic.ledger is not None else "–"
    return [number(topic.delivered), number(topic.before), ledger, format_bytes(topic.delivered_bytes)]


def _agree(topic: Topic) -> Html:
    beyond = topic.beyond
    if beyond is None:
        return tag("span", "not counted", class_="dim")
    if beyond == 0:
        return tag("span", "✓ yes", class_="good")
    return tag("span", f"✗ ledger has {number(abs(beyond))} {'more' if beyond > 0 else 'fewer'}", class_="bad")


def throughput_section(found: Sequence[Account]) -> Html | None:
    ran = [(account, account.ship) for account in found if account.ship is not None]
    figures = [
        join([_cluster_title(found, account), timeline(ship, anchor(found, account)), lanes(ship, anchor(found, account))])
        for account, ship in ran
        if ship.delivered or ship.timeline
    ]
    return tag("section", tag("h2", "Throughput"), *figures, id="throughput") if figures else None


def notes(report: RunReport, found: Sequence[Account]) -> list[str]:
    """What an operator should read, with the cluster where there is more than one."""
    several = len(found) > 1
    lines = ["This run shipped anew what an earlier one had shipped (reship)."] if report.plan and report.plan.reship else []
    for account in found:
        own = [f"When planning: {account.plan.problem}"] if account.plan and account.plan.problem else []
        own += account.ship.notes if account.ship else []
        lines += [f"{account.cluster}: {note}" if several else note for note in own]
    return lines


def notes_section(report: RunReport, found: Sequence[Account]) -> Html | None:
    lines = notes(report, found)
    items = tag("ul", *(tag("li", line) for line in lines))
    return tag("section", tag("h2", "Notes"), items, id="notes") if lines else None


def steps_section(report: RunReport, cause: str | None) -> Html:
    columns = [Column("Step"), Column("Status"), Column("Started"), Column("Took", numeric=True)]
    rows, errors = [], []
    for step in steps(report):
        if step.result is None:
            rows.append(Row([step.title, tag("span", "no result", class_="dim"), "–", "–"]))
            continue
        result = step.result
        tone = "bad" if step.failed else None
        mark = {"succeeded": ("✓ succeeded", "good"), "failed": ("✗ failed", "bad"), "skipped": ("skipped", "dim")}
        said, colour = mark[result.status]
        took = duration(result.started_at, result.finished_at)
        rows.append(Row([step.title, tag("span", said, class_=colour), moment(result.started_at), took], tone=tone))
        if result.error:
            errors.append((step.title, result.error))
    return tag(
        "section",
        tag("h2", "Steps"),
        table("Steps of this run in their order", columns, rows),
        *(_error(title, error, cause) for title, error in errors),
        id="steps",
    )


def _error(title: str, error: str, cause: str | None) -> Html:
    if cause and cause.endswith(error):
        return join([tag("h3", title), tag("p", "Its error is the first cause, ", tag("a", "above", href="#verdict"), ".")])
    rest = len(error) - _LONGEST_ERROR
    more = tag("p", f"{number(rest)} more characters in report.json.") if rest > 0 else None
    return join([tag("h3", title), tag("p", error[:_LONGEST_ERROR], class_="error"), more])
