"""Closed sum of one cluster as a picture: files → read → topics, each with its delivered records
and those that were there before; and below them the other records: filtered by a rule, quarantined
for a reason, or not accounted for.

The ribbons are one SVG in a box that is 100 units wide and as many em high as its rows need; the
labels are text over it, placed in per cent and em. A ribbon is as thick as its share of the
records, with a visible minimum.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from shipper.config.units import format_bytes
from shipper.report.account import Account
from shipper.report.markup import number, plural, words
from shipper.report.plan_result import PlanResult
from shipper.report.results import TopicAccount
from shipper.report.throughput import coordinate

RibbonKind = Literal["delivered", "before", "filtered", "quarantined", "parked", "lost"]

MOST_ROWS = 8
"""Rows of topics; of more topics, the smallest ones share a row, and the table below the picture
names all of them."""
MOST_RULES = 4
"""Likewise of rules and of reasons."""
_READ_X, _TOPIC_X = 30.0, 56.0
"""Left edges of the columns in per cent of the width; the files are at 0. The style sheet's grid
says the same."""
_NODE = 0.7
_RIBBONS_EM = 8.0
_THINNEST_EM = 0.15
_LINE_EM = 1.35
_GAP_EM = 0.75


@dataclass(frozen=True)
class Ribbon:
    """A number of records with one disposition."""

    kind: RibbonKind
    records: int


@dataclass(frozen=True)
class Line:
    """One row at the right of the picture."""

    name: str
    parts: tuple[Ribbon, ...]
    says: tuple[str, ...]
    href: str | None = None


def flow(account: Account, prefix: str, plan: PlanResult | None) -> dict[str, Any]:
    """Return the figure of one cluster. ``prefix`` makes its ids unique on the page."""
    lines = _lines(account, prefix)
    placed, height = _place(lines)
    says = closing(account)
    tone = (
        ""
        if account.read is None
        else "warn"
        if _unsent(account) or (account.parked and not account.gap)
        else "bad"
        if account.gap
        else "good"
    )
    described = "; ".join(f"{line.name}: {', '.join(line.says)}" for line in lines)
    bands, nodes = _ribbons(
        placed,
        account.read / ((account.read + account.unread) or 1) if account.read is not None else 1.0,
    )
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
        "height": coordinate(height),
        "placed": placed if is_picture else [],
        "bands": bands,
        "nodes": nodes,
    }


def closing(account: Account) -> str:
    """Return ``1,200 read + 300 not read = 900 delivered + 500 before + 100 filtered``; with ≠ if
    the sum does not close."""
    right = [f"{number(account.delivered)} delivered", f"{number(account.before)} before"]
    right += [f"{number(count)} {what}" for what, count in _aside(account) if count]
    right += [f"{number(account.unconfirmed)} without a receipt"] if account.unconfirmed else []
    if account.read is None:
        return f"Counted: {words(right)}"
    left = f"{number(account.read)} read" + (
        f" + {number(account.unread)} not read" if account.unread else ""
    )
    return f"{left} {'=' if account.gap == 0 else '≠'} {' + '.join(right)}"


def _unsent(account: Account) -> bool:
    """True if records are missing because the ship failed before it sent them."""
    return account.ship_failed and account.gap > 0


def _aside(account: Account) -> list[tuple[str, int]]:
    filtered, quarantined = sum(account.filtered.values()), sum(account.quarantined.values())
    return [("filtered", filtered), ("quarantined", quarantined), ("parked", account.parked)]


def _verdict(account: Account) -> Iterator[str]:
    """Yield the verdict on the sum, which follows the sum."""
    if account.read is None:
        yield ". The step failed, and Spark's own count of the records was lost with it."
    elif account.gap == 0:
        yield (
            ". Every line is accounted for, but not all were sent."
            if account.parked
            else ". The sum closes."
        )
    else:
        size = number(abs(account.gap))
        yield (
            f": {size} not sent. Neither receipts nor the ledger have them, so the next run "
            "sends them."
            if _unsent(account)
            else f": {size} are not accounted for."
            if account.gap > 0
            else f": {size} more than there should be."
        )
    if account.parked:
        yield (
            " Parked records were read but not sent: their topic could not be written to until "
            "the end."
        )
    if account.unread_files:
        yield (
            f" {plural(account.unread_files, 'file')} needed no reading: the ledger held all of it."
        )
    if account.ledger is not None:
        yield f" After the run the ledger holds {plural(account.ledger, 'record')} of the window."


def _head(account: Account, plan: PlanResult | None) -> list[tuple[str, list[str]]]:
    """Return the sum of each column above the picture, with its details below."""
    files, size = (
        (plural(len(plan.files), "file"), [format_bytes(plan.total_bytes)])
        if plan
        else ("Files", [])
    )
    read = number(account.read) if account.read is not None else "?"
    unread = [f"+ {number(account.unread)} not read"] if account.unread else []
    before = [f"{number(account.before)} before"] if account.before or not account.sent else []
    aside = [f"{number(count)} {what}" for what, count in _aside(account) if count]
    return [
        (files, size),
        (read, ["records read", *unread]),
        (f"{number(account.sent)} delivered", [*before, *aside]),
    ]


def _lines(account: Account, prefix: str) -> list[Line]:
    """Return topics, the largest first; then filtered and quarantined records; then differences
    that need an explanation."""
    topics = [topic for topic in account.topics if not topic.quarantine or topic.before]
    alone = topics if len(topics) <= MOST_ROWS else topics[: MOST_ROWS - 1]
    places = {topic.topic: f"#{prefix}-topic-{i}" for i, topic in enumerate(account.topics)}
    lines = [
        line for topic in alone if (line := _line(topic.topic, [topic], places[topic.topic])).parts
    ]
    rest = topics[len(alone) :]
    if (
        rest
        and (line := _line(f"{number(len(rest))} more topics", rest, places[rest[0].topic])).parts
    ):
        lines.append(line)
    lines += _set_aside(
        account.filtered, "filtered", "rules", f"#{prefix}-account" if account.counts else None
    )
    aside = next((places[topic.topic] for topic in account.topics if topic.quarantine), None)
    lines += _set_aside(account.quarantined, "quarantined", "reasons", aside)
    if account.unconfirmed:
        says = f"{number(account.unconfirmed)} by the ledger"
        lines.append(
            Line("Without a receipt", (Ribbon("delivered", account.unconfirmed),), (says,))
        )
    if account.gap > 0:
        lines.append(
            Line(
                "Not sent" if _unsent(account) else "Not accounted for",
                (Ribbon("lost", account.gap),),
                (plural(account.gap, "record"),),
            )
        )
    return lines


def _line(name: str, topics: Sequence[TopicAccount], href: str) -> Line:
    sums: list[tuple[RibbonKind, int]] = [
        ("delivered", sum(t.delivered for t in topics if not t.quarantine)),
        ("before", sum(t.before for t in topics)),
        ("parked", sum(t.parked for t in topics)),
    ]
    parts = tuple(Ribbon(kind, records) for kind, records in sums if records)
    return Line(
        name, parts, tuple(f"{number(part.records)} {part.kind}" for part in parts), href=href
    )


def _set_aside(
    counts: Mapping[str, int], kind: RibbonKind, many: str, href: str | None
) -> Iterator[Line]:
    """Yield a row for each rule or reason, the largest first; the smallest ones share one."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    alone = ordered if len(ordered) <= MOST_RULES else ordered[: MOST_RULES - 1]
    for name, count in alone:
        yield Line(name, (Ribbon(kind, count),), (f"{number(count)} {kind}",), href=href)
    if rest := ordered[len(alone) :]:
        total = sum(count for _, count in rest)
        yield Line(
            f"{number(len(rest))} more {many}",
            (Ribbon(kind, total),),
            (f"{number(total)} {kind}",),
            href=href,
        )


@dataclass(frozen=True)
class _Placed:
    line: Line
    y: float
    height: float
    """Height of the label or of the ribbons, whichever is more."""
    thick: tuple[float, ...]

    @property
    def label_y(self) -> str:
        """Centred in its row, as the ribbons are."""
        return coordinate(self.y + (self.height - _LINE_EM * (1 + len(self.line.says))) / 2)


def _place(lines: Sequence[Line]) -> tuple[list[_Placed], float]:
    """Place rows from top to bottom, in em; return them and the height of them all."""
    total = sum(part.records for line in lines for part in line.parts) or 1
    placed, y = [], 0.0
    for line in lines:
        thick = tuple(max(_THINNEST_EM, _RIBBONS_EM * part.records / total) for part in line.parts)
        height = max(_LINE_EM * (1 + len(line.says)), sum(thick))
        placed.append(_Placed(line, y, height, thick))
        y += height + _GAP_EM
    return placed, max(y - _GAP_EM, 0.0)


def _ribbons(
    placed: Sequence[_Placed], read_share: float
) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """Return bands and nodes. The middle column holds the lines that were read, and below them the
    others.

    Ribbons start at the top and only fall, since each row is at least as high as its ribbons: so no
    ribbon crosses another.
    """
    thick_all = sum(sum(row.thick) for row in placed)
    thick_read = thick_all * read_share
    bands, nodes = [], [_node("files", 0.0, 0.0, thick_all)]
    for kind, y, thick in (
        ("read", 0.0, thick_read),
        ("before", thick_read, thick_all - thick_read),
    ):
        if thick:
            bands.append(_band(kind, _NODE, y, _READ_X, y, thick))
            nodes.append(_node(kind, _READ_X, y, thick))
    source = 0.0
    for row in placed:
        target = row.y + (row.height - sum(row.thick)) / 2
        for part, thick in zip(row.line.parts, row.thick, strict=True):
            bands.append(_band(part.kind, _READ_X + _NODE, source, _TOPIC_X, target, thick))
            nodes.append(_node(part.kind, _TOPIC_X, target, thick))
            source += thick
            target += thick
    return bands, nodes


def _band(kind: str, x0: float, y0: float, x1: float, y1: float, thick: float) -> dict[str, str]:
    left, bend, right = map(coordinate, (x0, (x0 + x1) / 2, x1))
    top0, top1, low0, low1 = map(coordinate, (y0, y1, y0 + thick, y1 + thick))
    top = f"M{left} {top0}C{bend} {top0} {bend} {top1} {right} {top1}"
    return {"kind": kind, "path": f"{top}V{low1}C{bend} {low1} {bend} {low0} {left} {low0}Z"}


def _node(kind: str, x: float, y: float, thick: float) -> dict[str, str]:
    return {"kind": kind, "x": coordinate(x), "y": coordinate(y), "height": coordinate(thick)}
