"""The account: each figure as counted in places that do not know of each other, and which of them
disagree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from shipper.report.account import Account
from shipper.report.cells import Cell, TableRow
from shipper.report.markup import number, words
from shipper.report.results import Count

MOST_COUNTS = 200
_NONE = "–"


def places(count: Count) -> dict[str, int]:
    """Return place → figure that was counted there."""
    found = {
        "Spark": count.spark,
        "Receipts": count.receipts,
        "Ledger": count.ledger,
        "Read-back": count.read_back,
    }
    return {place: figure for place, figure in found.items() if figure is not None}


def astray(count: Count) -> dict[str, int]:
    """Return places that disagree → difference to what most of the others say; without a majority
    all of them, compared with the first."""
    found = places(count)
    if count.agrees:
        return {}
    (usual, times), *_ = Counter(found.values()).most_common(1)
    base = usual if times > 1 else next(iter(found.values()))
    return {
        place: figure - base for place, figure in found.items() if times == 1 or figure != usual
    }


def disagreement(count: Count) -> str:
    """Return ``ledger 21 fewer``; empty if no two places agree, because the row shows all figures
    already."""
    off = astray(count)
    if len(off) == len(places(count)):
        return f"{words([place.lower() if place != 'Spark' else place for place in off])} differ"
    return ", ".join(
        f"{place if place == 'Spark' else place.lower()} {number(abs(by))} "
        f"{'more' if by > 0 else 'fewer'}"
        for place, by in off.items()
    )


def counted(account: Account, prefix: str) -> dict[str, Any]:
    """Return the table of an account's figures; those that disagree first, if any do. ``prefix``
    makes ids unique on the page."""
    counts = account.counts
    shown = sorted(enumerate(counts), key=lambda entry: entry[1].agrees)[:MOST_COUNTS]
    asked = [
        place
        for place in ("Spark", "Receipts", "Ledger", "Read-back")
        if any(place in places(count) for count in counts)
    ]
    return {
        "account": account,
        "prefix": prefix,
        "total": len(counts),
        "agree": all(count.agrees for count in counts),
        "columns": {"Figure": "code"} | dict.fromkeys(asked, "num") | {"Agree": ""},
        "rows": [_row(count, asked, f"{prefix}-count-{i}") for i, count in shown],
    }


def _row(count: Count, asked: Sequence[str], place: str) -> TableRow:
    found, off = places(count), astray(count)
    cells: dict[str, str | Cell] = {
        where: Cell(number(found[where]), "bad" if where in off else "")
        if where in found
        else _NONE
        for where in asked
    }
    return TableRow(
        {"Figure": count.name, **cells, "Agree": _agree(count)},
        None if count.agrees else "bad",
        place,
    )


def _agree(count: Count) -> Cell:
    if not count.agrees:
        return Cell(f"✗ {disagreement(count)}", "bad")
    if len(places(count)) < 2:
        return Cell("counted once", "dim")
    return Cell("✓ yes", "good")
