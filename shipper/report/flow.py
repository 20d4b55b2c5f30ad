"""Closed sum of one cluster, and where the records went: a bar for each topic, with its delivered
records and those that were there before; and below them the other records: filtered by a rule,
quarantined for a reason, or not accounted for. All bars are to the same scale.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from shipper.report.cluster_view import ClusterView
from shipper.report.markup import number, plural, words
from shipper.report.times import bar

MOST_TOPICS, MOST_RULES = 8, 4
"""Bars of topics, of rules and of reasons. The smallest ones share the last bar; the tables name
all of them."""


def flow(account: ClusterView) -> dict[str, Any]:
    """Return the figure of one cluster."""
    lines = list(_lines(account))
    tone = ""
    if account.read is not None:
        unsent = _unsent(account) or (account.parked and not account.gap)
        tone = "warn" if unsent else "bad" if account.gap else "good"
    whole = sum(parts.total() for _, parts in lines)
    bars = [
        bar(name, [(kind, n, f"{number(n)} {kind}") for kind, n in parts.items()], whole)
        for name, parts in lines
    ]
    # Where all records went one way, the sum says it.
    is_one_way = len(lines) == 1 and len(lines[0][1]) == 1
    return {
        "account": account,
        "says": closing(account),
        "tone": tone,
        "verdict": "".join(_verdict(account)),
        "bars": [] if is_one_way else bars,
    }


def closing(account: ClusterView) -> str:
    """Return ``1,200 read + 300 not read = 900 delivered + 500 before + 100 filtered``; with ≠ if
    the sum does not close."""
    right = [f"{number(account.delivered)} delivered", f"{number(account.before)} before"]
    right += _aside(account)
    right += [f"{number(account.unconfirmed)} without a receipt"] if account.unconfirmed else []
    if account.read is None:
        return f"Counted: {words(right)}"
    unread = f" + {number(account.unread)} not read" if account.unread else ""
    sign = "=" if account.gap == 0 else "≠"
    return f"{number(account.read)} read{unread} {sign} {' + '.join(right)}"


def _unsent(account: ClusterView) -> bool:
    """True if records are missing because the ship failed before it sent them."""
    return account.ship_failed and account.gap > 0


def _aside(account: ClusterView) -> list[str]:
    return [f"{number(count)} {what}" for what, count in account.aside.items()]


def _verdict(account: ClusterView) -> Iterator[str]:
    """Yield the verdict on the sum, which follows the sum."""
    size = number(abs(account.gap))
    if account.read is None:
        yield ". The step failed, and Spark's own count of the records was lost with it."
    elif _unsent(account):
        yield f": {size} not sent, by receipts and ledger. The next run sends them."
    elif account.gap:
        yield f": {size} {'are not accounted for' if account.gap > 0 else 'more than expected'}."
    elif account.parked:
        yield ". Every line is accounted for, but not all were sent."
    else:
        yield ". The sum closes."
    if account.parked:
        yield " Parked: the topic could not be written to until the end."
    if account.unread_files:
        yield (
            f" {plural(account.unread_files, 'file')} needed no reading: the ledger held all of it."
        )
    if account.ledger is not None:
        yield f" After the run the ledger holds {plural(account.ledger, 'record')} of the window."


def _lines(account: ClusterView) -> Iterator[tuple[str, Counter[str]]]:
    """Yield topics, the largest first; then filtered and quarantined records; then differences
    that need an explanation: name and kind → records."""
    topics = [
        (
            topic.topic,
            Counter(
                delivered=0 if topic.quarantine else topic.delivered,
                before=topic.before,
                parked=topic.parked,
            ),
        )
        for topic in account.topics
    ]
    yield from _folded(topics, MOST_TOPICS, "topics")
    for kind, counts, many in (
        ("filtered", account.filtered, "rules"),
        ("quarantined", account.quarantined, "reasons"),
    ):
        ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        yield from _folded([(name, Counter({kind: n})) for name, n in ordered], MOST_RULES, many)
    if account.unconfirmed:
        yield "Without a receipt", Counter(delivered=account.unconfirmed)
    if account.gap > 0:
        name = "Not sent" if _unsent(account) else "Not accounted for"
        yield name, Counter(missing=account.gap)


def _folded(
    rows: Sequence[tuple[str, Counter[str]]], most: int, many: str
) -> Iterator[tuple[str, Counter[str]]]:
    """Yield each row that has records; the last ones as one."""
    rows = [(name, +parts) for name, parts in rows if any(parts.values())]
    alone = rows if len(rows) <= most else rows[: most - 1]
    yield from alone
    if rest := rows[len(alone) :]:
        yield f"{number(len(rest))} more {many}", sum((of for _, of in rest), Counter[str]())
