"""Closed sum of one cluster as a picture: files → read → topics, each with its delivered records
and those that were there before; and below them the other records: filtered by a rule, quarantined
for a reason, or not accounted for.

The ribbons are one SVG in a box that is 100 units wide and as many em high as its rows need; the
labels are text over it, placed in per cent and em. A ribbon is as thick as its share of the
records, with a visible minimum.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from shipper.config.units import format_bytes, number, plural
from shipper.report.cluster_view import ClusterView
from shipper.report.markup import words
from shipper.report.plan_result import PlanResult
from shipper.report.throughput import coordinate

MOST_TOPICS, MOST_RULES = 8, 4
"""Rows of topics, of rules and of reasons. The smallest ones share the last row; the tables name
all of them."""
_READ_X, _TOPIC_X = 30.0, 56.0
"""Left edges of the columns in per cent of the width; the files are at 0. The style sheet's grid
says the same."""
_NODE = 0.7
_RIBBONS_EM = 8.0
_THINNEST_EM = 0.15
_LINE_EM = 1.35
_GAP_EM = 0.75


class Line(NamedTuple):
    """One row at the right of the picture."""

    name: str
    parts: Sequence[tuple[str, int]]
    """Kind and records of each ribbon."""
    remark: str = ""
    """Text in place of the kind."""

    @property
    def says(self) -> list[str]:
        return [f"{number(records)} {self.remark or kind}" for kind, records in self.parts]


def flow(account: ClusterView, prefix: str, plan: PlanResult | None) -> dict[str, Any]:
    """Return the figure of one cluster. ``prefix`` makes its ids unique on the page."""
    lines = list(_lines(account))
    says = closing(account)
    tone = ""
    if account.read is not None:
        unsent = _unsent(account) or (account.parked and not account.gap)
        tone = "warn" if unsent else "bad" if account.gap else "good"
    described = "; ".join(f"{line.name}: {', '.join(line.says)}" for line in lines)
    # One way from here to there is no picture; the sum says it.
    is_picture = len(lines) > 1 or any(len(line.parts) > 1 for line in lines)
    return {
        "account": account,
        "prefix": prefix,
        "head": _head(account, plan),
        "says": says,
        "tone": tone,
        "verdict": "".join(_verdict(account)),
        "described": f"{says}. {described}.",
        **(_picture(lines, account) if is_picture else {"labels": []}),
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


def _head(account: ClusterView, plan: PlanResult | None) -> list[tuple[str, list[str]]]:
    """Return the sum of each column above the picture, with its details below."""
    read = number(account.read) if account.read is not None else "?"
    unread = [f"+ {number(account.unread)} not read"] if account.unread else []
    before = [f"{number(account.before)} before"] if account.before or not account.sent else []
    return [
        (plural(len(plan.files), "file"), [format_bytes(plan.total_bytes)])
        if plan
        else ("Files", []),
        (read, ["records read", *unread]),
        (f"{number(account.sent)} delivered", [*before, *_aside(account)]),
    ]


def _lines(account: ClusterView) -> Iterator[Line]:
    """Yield topics, the largest first; then filtered and quarantined records; then differences
    that need an explanation."""
    topics = [
        (
            topic.topic,
            [
                ("delivered", 0 if topic.quarantine else topic.delivered),
                ("before", topic.before),
                ("parked", topic.parked),
            ],
        )
        for topic in account.topics
    ]
    yield from _folded(topics, MOST_TOPICS, "topics")
    for kind, counts, many in (
        ("filtered", account.filtered, "rules"),
        ("quarantined", account.quarantined, "reasons"),
    ):
        ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        yield from _folded([(name, [(kind, n)]) for name, n in ordered], MOST_RULES, many)
    if account.unconfirmed:
        yield Line("Without a receipt", [("delivered", account.unconfirmed)], "by the ledger")
    if account.gap > 0:
        name = "Not sent" if _unsent(account) else "Not accounted for"
        yield Line(name, [("lost", account.gap)], "records")


def _folded(
    rows: Sequence[tuple[str, list[tuple[str, int]]]], most: int, many: str
) -> Iterator[Line]:
    """Yield a line for each row that has records; the last ones share one."""
    rows = [(name, parts) for name, parts in rows if any(records for _, records in parts)]
    alone = rows if len(rows) <= most else rows[: most - 1]
    rest = rows[len(alone) :]
    sums = dict[str, int]()
    for kind, records in (part for _, parts in rest for part in parts):
        sums[kind] = sums.get(kind, 0) + records
    shown = [*alone, (f"{number(len(rest))} more {many}", [*sums.items()])] if rest else alone
    for name, parts in shown:
        yield Line(name, [(kind, records) for kind, records in parts if records])


def _picture(lines: Sequence[Line], account: ClusterView) -> dict[str, Any]:
    """Place the lines from top to bottom, in em, with their labels, bands and nodes. The middle
    column holds the lines that were read, and below them the others.

    Ribbons start at the top and only fall, since each row is at least as high as its ribbons: so no
    ribbon crosses another.
    """
    total = sum(records for line in lines for _, records in line.parts) or 1
    thick = [
        [max(_THINNEST_EM, _RIBBONS_EM * records / total) for _, records in line.parts]
        for line in lines
    ]
    thick_all = sum(map(sum, thick))
    share = 1.0
    if account.read is not None:
        share = account.read / ((account.read + account.unread) or 1)
    bands, nodes, labels = [], [_node("files", 0.0, 0.0, thick_all)], []
    for kind, y, height in (
        ("read", 0.0, thick_all * share),
        ("before", thick_all * share, thick_all * (1 - share)),
    ):
        if height:
            bands.append(_band(kind, _NODE, y, _READ_X, y, height))
            nodes.append(_node(kind, _READ_X, y, height))
    source = top = 0.0
    for line, ribbons in zip(lines, thick, strict=True):
        label = _LINE_EM * (1 + len(line.parts))
        height = max(label, sum(ribbons))
        labels.append({"line": line, "y": coordinate(top + (height - label) / 2)})
        target = top + (height - sum(ribbons)) / 2
        for (kind, _), width in zip(line.parts, ribbons, strict=True):
            bands.append(_band(kind, _READ_X + _NODE, source, _TOPIC_X, target, width))
            nodes.append(_node(kind, _TOPIC_X, target, width))
            source += width
            target += width
        top += height + _GAP_EM
    return {"labels": labels, "height": coordinate(top - _GAP_EM), "bands": bands, "nodes": nodes}


def _band(kind: str, x0: float, y0: float, x1: float, y1: float, thick: float) -> dict[str, str]:
    left, bend, right = map(coordinate, (x0, (x0 + x1) / 2, x1))
    top0, top1, low0, low1 = map(coordinate, (y0, y1, y0 + thick, y1 + thick))
    top = f"M{left} {top0}C{bend} {top0} {bend} {top1} {right} {top1}"
    return {"kind": kind, "path": f"{top}V{low1}C{bend} {low1} {bend} {low0} {left} {low0}Z"}


def _node(kind: str, x: float, y: float, thick: float) -> dict[str, str]:
    return {"kind": kind, "x": coordinate(x), "y": coordinate(y), "height": coordinate(thick)}
