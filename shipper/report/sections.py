"""The parts of the page between the verdict and the files; each returns None where the run has nothing for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from shipper.config.units import format_bytes
from shipper.report.account import Account, steps
from shipper.report.counts import account_table
from shipper.report.flow import flow
from shipper.report.gaps import merged
from shipper.report.markup import Column, Html, Row, duration, folded, join, moment, number, plural, prose, table, tag
from shipper.report.plan_result import ReplayOf
from shipper.report.results import CheckResult, GateResult, RunReport, ShipResult, TopicAccount
from shipper.report.run_folder import Asked
from shipper.report.throughput import lanes, timeline
from shipper.report.verdict import checks, gates

MOST_TOPICS = 200
_MOST_GAPS = 200
_LONGEST_ERROR = 20_000


def anchor(found: Sequence[Account], account: Account) -> str:
    """A cluster's place in ids on the page. Names may hold anything, so they are not used."""
    return f"c{found.index(account)}"


def sum_section(report: RunReport, found: Sequence[Account]) -> Html | None:
    shipped = [
        account
        for account in found
        if account.ship is not None and (account.read or account.sent or account.before or account.set_aside)
    ]
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
    every = [(check, _check(title, check, f"check-{i}")) for i, (title, check) in enumerate(checks(report))]
    rows, passed = [row for check, row in every if not check.passed], [row for check, row in every if check.passed]
    scopes = [f"{title}: {_scope(gate)}." for title, gate in left if _scope(gate)]
    return tag(
        "section",
        tag("h2", "Gates"),
        table("Checks that do not hold", columns, rows) if rows else None,
        _unfolded(f"✓ {plural(len(passed), 'check')} passed", table("Checks that hold", columns, passed)) if passed else None,
        tag("p", prose(f"What the checks looked at. {' '.join(scopes)}")) if scopes else None,
        id="gates",
    )


def _unfolded(says: str, content: Html) -> Html:
    """What nobody needs to see who does not ask."""
    return tag("details", tag("summary", says), content)


def _scope(gate: GateResult) -> str:
    if gate.checks or gate.status == "failed":
        read = plural(gate.scans, "scan") + " of the content" if gate.scans else ""
        return ", ".join(part for part in (gate.scope, read) if part)
    return f"{gate.status} without a check{f', {gate.scope}' if gate.scope else ''}"


def _check(title: str, check: CheckResult, row_anchor: str) -> Row:
    if check.passed:
        tone, result = None, tag("span", "✓ passed", class_="good")
    elif check.severity in ("warn", "quarantine"):
        tone, result = "warn", tag("span", "! failed" if check.severity == "warn" else "! quarantined", class_="warn")
    else:
        tone, result = "bad", tag("span", "✗ failed", class_="bad")
    expected: str = check.expected
    if check.history:
        expected = join([expected, tag("span", _before(check.history), class_="dim more")])
    return Row(
        [tag("code", check.check), title, expected, check.observed, tag("span", check.severity), result],
        tone=tone,
        anchor=row_anchor,
    )


def _before(history: Sequence[float]) -> str:
    """``5 runs before: 11 to 13``."""
    low, high = _figure(min(history)), _figure(max(history))
    return f"{plural(len(history), 'run')} before: {low if low == high else f'{low} to {high}'}"


def _figure(value: float) -> str:
    return number(value) if value == round(value) or abs(value) >= 1000 else f"{value:.3g}"


def account_section(found: Sequence[Account]) -> Html | None:
    """Who counted what. Where no gate has compared the counts there is nothing to show."""
    counted = [account for account in found if account.counts]
    if not counted:
        return None
    parts = []
    for account in counted:
        prefix = anchor(found, account)
        content = join(account_table(account, prefix))
        if all(count.agrees for count in account.counts):
            content = _unfolded(f"✓ {plural(len(account.counts), 'figure')}, the same wherever counted", content)
        parts.append(tag("div", _cluster_title(found, account), content, id=f"{prefix}-account"))
    return tag("section", tag("h2", "Counted in independent places"), *parts, id="account")


def topics_section(found: Sequence[Account]) -> Html | None:
    counted = [account for account in found if account.topics]
    if not counted:
        return None
    return tag("section", tag("h2", "Records per topic"), *(part for a in counted for part in _topics(found, a)), id="topics")


def _topics(found: Sequence[Account], account: Account) -> Iterator[Html | None]:
    """With the ledger's and the read-back's counts, which the account of the gate shows as well, beside those of other places."""
    topics = account.topics
    optional = {"Parked": any(t.parked for t in topics), "Read back": any(t.read_back is not None for t in topics)}
    titles = ("Delivered", "Before", "Parked", "Ledger", "Read back", "Bytes")
    shown = [title for title in titles if optional.get(title, True)]
    columns = [Column("Topic"), *(Column(title, numeric=True) for title in shown), Column("Agree")]
    prefix = anchor(found, account)
    rows = [_topic(topic, shown, f"{prefix}-topic-{i}") for i, topic in enumerate(topics[:MOST_TOPICS])]
    total_row = None
    if len(topics) > 1:
        everything = sum(topic.delivered_bytes for topic in topics)
        sent = sum(topic.delivered for topic in topics)
        name = "All topics, quarantine too" if any(topic.quarantine for topic in topics) else "All topics"
        total = TopicAccount(
            topic="", delivered=sent, delivered_bytes=everything, before=account.before, ledger=account.ledger,
            read_back=_read_back(topics), parked=account.parked,
        )  # fmt: skip
        # Two topics that disagree in opposite directions agree in their sum: only the rows can say yes.
        total_row = Row([name, *_figures(total, shown), ""], tone="total")
    yield _cluster_title(found, account)
    yield folded(f"Records per topic on {account.cluster}", columns, rows, "topic", total_row)
    if len(topics) > MOST_TOPICS:
        yield tag("p", f"{plural(len(topics) - MOST_TOPICS, 'more topic')} in report.json.")


def _read_back(topics: Sequence[TopicAccount]) -> int | None:
    """None unless every topic was read."""
    counts = [topic.read_back for topic in topics if topic.read_back is not None]
    return sum(counts) if counts and len(counts) == len(topics) else None


def _topic(topic: TopicAccount, shown: Sequence[str], row_anchor: str) -> Row:
    tone = "bad" if topic.agrees == "no" or topic.parked else None
    name = tag("code", topic.topic)
    if topic.quarantine:
        name = join([name, tag("span", "quarantine", class_="dim more")])
    return Row([name, *_figures(topic, shown), _agree(topic)], tone=tone, anchor=row_anchor)


def _figures(topic: TopicAccount, shown: Sequence[str]) -> list[str]:
    counts = {"Delivered": topic.delivered, "Before": topic.before, "Parked": topic.parked}
    found = {title: number(count) for title, count in counts.items()}
    for title, count in (("Ledger", topic.ledger), ("Read back", topic.read_back)):
        found[title] = "–" if count is None else number(count)
    found["Bytes"] = format_bytes(topic.delivered_bytes)
    return [found[title] for title in shown]


def _agree(topic: TopicAccount) -> Html:
    if topic.agrees == "not counted":
        return tag("span", "not counted", class_="dim")
    if topic.agrees == "yes":
        return tag("span", "✓ yes", class_="good")
    if topic.beyond:
        says = f"ledger has {number(abs(topic.beyond))} {'more' if topic.beyond > 0 else 'fewer'}"
    else:
        off = topic.read_beyond or 0
        says = f"readers find {number(abs(off))} {'more' if off > 0 else 'fewer'}"
    return tag("span", f"✗ {says}", class_="bad")


def throughput_section(found: Sequence[Account]) -> Html | None:
    ran = [(account, account.ship) for account in found if account.ship is not None]
    figures = [
        join([_cluster_title(found, account), timeline(ship, anchor(found, account)), lanes(ship, anchor(found, account))])
        for account, ship in ran
        if ship.delivered or ship.timeline
    ]
    return tag("section", tag("h2", "Throughput"), *figures, id="throughput") if figures else None


def incomplete_section(report: RunReport) -> Html | None:
    if not report.gaps:
        return None
    rows = [
        Row([gap.cluster, gap.window, number(gap.windows), gap.why + (f": {gap.paths[0]}" if gap.paths else "")], tone="warn")
        for gap in merged(report.gaps)[:_MOST_GAPS]
    ]
    columns = [Column("Cluster"), Column("Windows from/to"), Column("Number", numeric=True), Column("Why")]
    return tag(
        "section",
        tag("h2", "Earlier windows that are not complete"),
        folded("Windows of the schedule before this one, of the last seven days", columns, rows, "row"),
        tag(
            "p",
            "All of them: ",
            tag("code", f"shipper gaps {report.pipeline}"),
            ". A run of such a window ships what is missing.",
        ),
        id="incomplete",
    )


def notes(report: RunReport, found: Sequence[Account]) -> list[str]:
    """What an operator should read, with the cluster where there is more than one."""
    several = len(found) > 1
    lines = []
    if report.plan and report.plan.reship:
        why = f": {report.plan.reship_reason}" if report.plan.reship_reason else "."
        lines.append(f"This run shipped anew what an earlier one had shipped (reship){why}")
    if report.plan and report.plan.replay:
        lines.append(_replayed(report.plan.replay))
    if report.asked:
        lines += _asked(report.asked)
    for account in found:
        own = [f"When planning: {account.plan.problem}"] if account.plan and account.plan.problem else []
        own += account.plan.warnings if account.plan else []
        own += [_late(account.ship)] if account.ship and account.ship.late_files else []
        own += [unsafe_note(account.plan.unsafe_properties)] if account.plan and account.plan.unsafe_properties else []
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
    where = f"to topics that begin with {asked.topic_prefix}" if asked.topic_prefix else "to the same topics once more"
    return f"This is replay {asked.id} of {asked.pipeline}{what}, {where}: {asked.reason}"


def _asked(asked: Asked) -> Iterator[str]:
    if asked.plan_only:
        yield "A dry run was asked for: nothing was sent, and the window does not count as shipped."
    if asked.other_clusters:
        yield f"This run was asked to ship to {', '.join(asked.clusters)} alone. What {', '.join(asked.other_clusters)} may lack is missing still."
    if asked.rate_limit:
        yield f"This run was asked to send no more than {asked.rate_limit} to each cluster."
    if asked.skipped_checks:
        yield f"Left out of the source gate, as asked: {', '.join(asked.skipped_checks)}: {asked.skip_reason}"


def _late(ship: ShipResult) -> str:
    files, windows = plural(ship.late_files, "file"), plural(ship.late_windows, "earlier window")
    return f"{files} of {windows} came late, or were left by an earlier run: {plural(ship.late_records, 'record')} of them were shipped."


def unsafe_note(names: Sequence[str]) -> str:
    return f"Set by `unsafe_properties`, with which nobody has shown that shipper's guarantees hold: {', '.join(names)}."


def notes_section(report: RunReport, found: Sequence[Account]) -> Html | None:
    lines = notes(report, found)
    items = tag("ul", *(tag("li", prose(line)) for line in lines))
    return tag("section", tag("h2", "Notes"), items, id="notes") if lines else None


def steps_section(report: RunReport, cause: str | None) -> Html:
    columns = [Column("Step"), Column("Status"), Column("Started"), Column("Took", numeric=True)]
    rows, errors, failed = [], [], False
    for i, step in enumerate(steps(report)):
        place = f"step-{i}"
        if step.result is None:
            # What follows a failure was never begun; what nothing explains was killed, or its result is lost.
            rows.append(
                Row([step.title, tag("span", "not run" if failed else "no result", class_="dim"), "–", "–"], anchor=place)
            )
            failed = True
            continue
        result = step.result
        failed = failed or step.failed
        tone = "bad" if step.failed else None
        mark = {"succeeded": ("✓ succeeded", "good"), "failed": ("✗ failed", "bad"), "skipped": ("skipped", "dim")}
        said, colour = mark[result.status]
        took = duration(result.started_at, result.finished_at)
        rows.append(Row([step.title, tag("span", said, class_=colour), moment(result.started_at), took], tone=tone, anchor=place))
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
