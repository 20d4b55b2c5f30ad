"""Cells and rows of the page's tables; ``page.html.j2`` turns them into markup."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple


class Cell(NamedTuple):
    """A cell that is more than its text."""

    text: str
    tone: str = ""
    more: str = ""
    """A second, quieter line."""
    title: str = ""
    """Shown when a pointer rests on it."""


@dataclass(frozen=True)
class TableRow:
    """Cells by the title of their column. ``tone`` colours the row: ``bad``, ``warn`` or
    ``total``."""

    cells: Mapping[str, str | Cell]
    tone: str | None = None
    id: str | None = None
