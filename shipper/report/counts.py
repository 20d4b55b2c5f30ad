"""The account: each figure as counted in places that do not know of each other, and which of them disagree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from shipper.report.account import Account
from shipper.report.markup import Column, Html, Row, folded, number, plural, tag, words
from shipper.report.results import Count

MOST_COUNTS = 200
_NONE = "–"


def places(count: Count) -> dict[str, int]:
    """Where the figure was counted → what was counted there."""
    found = {"Spark": count.spark, "Receipts": count.receipts, "Ledger": count.ledger, "Read-back": count.read_back}
    return {place: figure for place, figure in found.items() if figure is not None}


def astray(count: Count) -> dict[str, int]:
    """Places that disagree → by how much, against what most of the others say; without a majority all of them, against the first."""
    found = places(count)
    if count.agrees:
        return {}
    (usual, times), *_ = Counter(found.values()).most_common(1)
    base = usual if times > 1 else next(iter(found.values()))
    return {place: figure - base for place, figure in found.items() if times == 1 or figure != usual}


def disagreement(count: Count) -> str:
    """``ledger 21 fewer``; where no two places agree, what each of them says stands in the row already."""
    off = astray(count)
    if len(off) == len(places(count)):
        return f"{words([place.lower() if place != 'Spark' else place for place in off])} differ"
    return ", ".join(
        f"{place if place == 'Spark' else place.lower()} {number(abs(by))} {'more' if by > 0 else 'fewer'}"
        for place, by in off.items()
    )


def account_table(account: Account, prefix: str) -> Iterator[Html]:
    """Those that disagree first, if any do. ``prefix`` makes ids unique on the page."""
    counts = account.counts
    shown = sorted(enumerate(counts), key=lambda entry: entry[1].agrees)[:MOST_COUNTS]
    asked = [place for place in ("Spark", "Receipts", "Ledger", "Read-back") if any(place in places(count) for count in counts)]
    columns = [Column("Figure"), *(Column(place, numeric=True) for place in asked), Column("Agree")]
    rows = [_row(count, asked, f"{prefix}-count-{i}") for i, count in shown]
    yield folded(f"Each figure of {account.cluster} by the place where it was counted", columns, rows, "figure")
    if len(counts) > len(shown):
        yield tag("p", f"{plural(len(counts) - len(shown), 'more figure')} in report.json.")


def _row(count: Count, asked: Sequence[str], anchor: str) -> Row:
    found, off = places(count), astray(count)
    cells = [
        tag("strong", number(found[place]), class_="bad") if place in off else number(found[place]) if place in found else _NONE
        for place in asked
    ]
    return Row([tag("code", count.name), *cells, _agree(count)], tone=None if count.agrees else "bad", anchor=anchor)


def _agree(count: Count) -> Html:
    if not count.agrees:
        return tag("span", f"✗ {disagreement(count)}", class_="bad")
    if len(places(count)) < 2:
        return tag("span", "counted once", class_="dim")
    return tag("span", "✓ yes", class_="good")
