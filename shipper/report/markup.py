"""HTML by plain functions: what is not markup already is escaped on its way in, so no caller can forget it.

File names, error texts and topics come from outside and may be hostile. :func:`tag` escapes every child that is not
:class:`Html`, and every attribute. Characters that a reader cannot see (control characters, overrides of the writing
direction, lone surrogates) are shown by their code.
"""

from __future__ import annotations

import datetime as dt
import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from shipper.config.units import format_duration
from shipper.terminal import visible

FIRST_ROWS = 20
"""What is shown of a long table before it is unfolded."""
_VOID = frozenset({"br", "link", "meta"})


class Html(str):
    """Text that is markup already."""

    __slots__ = ()


def text(value: str) -> Html:
    """Escaped, for an element's content or an attribute's value."""
    if isinstance(value, Html):
        return value
    return Html(html.escape(visible(value.replace("\r\n", "\n"), keep="\n")))


def prose(value: str) -> Html:
    """A sentence of ours, with what stands between backticks as code. A lone backtick stays one."""
    if isinstance(value, Html):
        return value
    parts = value.split("`")
    if len(parts) % 2 == 0:
        return text(value)
    return join(tag("code", part) if i % 2 else part for i, part in enumerate(parts))


def join(parts: Iterable[str | None], between: str = "") -> Html:
    return Html(text(between).join(text(part) for part in parts if part is not None))


def tag(name: str, /, *children: str | None, **attributes: str | bool | None) -> Html:
    """One element. ``class_`` means ``class``, ``aria_label`` means ``aria-label``; None and False leave an attribute out."""
    words = [name]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        attribute = key.rstrip("_").replace("_", "-")
        words.append(attribute if value is True else f'{attribute}="{text(value)}"')
    if name in _VOID:
        return Html(f"<{' '.join(words)}>")
    return Html(f"<{' '.join(words)}>{join(children)}</{name}>")


def number(count: int | float) -> str:
    """``1234567`` → ``"1,234,567"``."""
    return f"{round(count):,}"


def plural(count: int, one: str, many: str | None = None) -> str:
    """``(1, "file")`` → ``"1 file"``, ``(1200, "file")`` → ``"1,200 files"``."""
    return f"{number(count)} {one if count == 1 else many or one + 's'}"


def words(names: Sequence[str]) -> str:
    """``["a", "b", "c"]`` → ``"a, b and c"``."""
    return " and ".join([*([", ".join(names[:-1])] if names[1:] else []), *names[-1:]])


def utc(at: dt.datetime) -> dt.datetime:
    """Step results are in UTC; one without a zone is taken to be, too."""
    return at.replace(tzinfo=dt.UTC) if at.tzinfo is None else at.astimezone(dt.UTC)


def clock(at: dt.datetime) -> str:
    """``"11:00"``, or ``"11:00:07"`` where the seconds say something."""
    at = utc(at)
    return f"{at:%H:%M:%S}" if at.second else f"{at:%H:%M}"


def moment(at: dt.datetime) -> Html:
    """``2026-11-21 11:00:07 UTC`` as a ``time`` element."""
    at = utc(at)
    return tag("time", f"{at:%Y-%m-%d %H:%M:%S} UTC", datetime=f"{at:%Y-%m-%dT%H:%M:%SZ}")


def duration(start: dt.datetime, end: dt.datetime) -> str:
    """``"1m5s"``; clocks of two machines may disagree, and then it is 0."""
    return format_duration(max(0.0, (utc(end) - utc(start)).total_seconds()))


def window(start: dt.datetime, end: dt.datetime) -> str:
    """``"2026-11-21 11:00–12:00 UTC"``; with both dates where they differ."""
    start, end = utc(start), utc(end)
    if start.date() == end.date():
        return f"{start:%Y-%m-%d} {clock(start)}–{clock(end)} UTC"
    return f"{start:%Y-%m-%d} {clock(start)} – {end:%Y-%m-%d} {clock(end)} UTC"


@dataclass(frozen=True)
class Column:
    title: str
    numeric: bool = False


@dataclass(frozen=True)
class Row:
    """Cells in the order of the columns; the first one names the row. ``tone`` colours it: ``bad``, ``warn`` or ``total``."""

    cells: Sequence[str]
    tone: str | None = None
    anchor: str | None = None


def table(caption: str, columns: Sequence[Column], rows: Iterable[Row]) -> Html:
    """A table that becomes a list of cards on a phone.

    The style sheet changes ``display`` there, which takes the meaning of a table away from it in some browsers' trees
    for screen readers; the explicit roles give it back. ``data-label`` is the column's title beside each cell.
    """
    head = join(tag("th", c.title, scope="col", role="columnheader", class_=_cell_class(c)) for c in columns)
    body = join(_row(columns, row) for row in rows)
    return tag(
        "table",
        tag("caption", caption),
        tag("thead", tag("tr", head, role="row"), role="rowgroup"),
        tag("tbody", body, role="rowgroup"),
        role="table",
    )


def folded(caption: str, columns: Sequence[Column], rows: Sequence[Row], noun: str, total: Row | None = None) -> Html:
    """A table of which all but the first :data:`FIRST_ROWS` rows are folded away; ``total`` stays below the first ones. A link to
    a row that is folded away unfolds it."""
    first, rest = rows[:FIRST_ROWS], rows[FIRST_ROWS:]
    if not rest:
        return table(caption, columns, [*first, total] if total else first)
    more = tag("summary", plural(len(rest), f"more {noun}"))
    return join(
        [
            table(caption, columns, [*first, total] if total else first),
            tag("details", more, table(f"{caption}, the rest", columns, rest)),
        ]
    )


def _row(columns: Sequence[Column], row: Row) -> Html:
    first = tag("th", row.cells[0], scope="row", role="rowheader")
    rest = (
        tag("td", cell, role="cell", class_=_cell_class(column), data_label=column.title)
        for column, cell in zip(columns[1:], row.cells[1:], strict=True)
    )
    return tag("tr", first, *rest, role="row", class_=row.tone, id=row.anchor)


def _cell_class(column: Column) -> str | None:
    return "num" if column.numeric else None
