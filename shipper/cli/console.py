"""Output of commands to the terminal: all output is text and never markup; and the options that
many commands share.

File names, topics and log lines come from outside. Each printed string goes through
:func:`shipper.terminal.visible`, in tables too; a caller that wants a colour passes a style.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import BaseModel
from rich.console import Console
from rich.measure import Measurement
from rich.table import Column, Table
from rich.text import Text
from typer.core import TyperGroup

from shipper.config import retired
from shipper.errors import UsageError
from shipper.terminal import visible

_WIDTH_OF_A_PIPE = 200
"""Number of columns, so large that no line is wrapped."""

Config = Annotated[
    Path,
    typer.Option(
        "--config",
        envvar="SHIPPER_CONFIG",
        help="Folder with `pipelines/` and `clusters/`.",
        show_default=True,
    ),
]
PipelineName = Annotated[str, typer.Argument(help="Name of the pipeline.")]
ClusterName = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        help="One of its clusters.",
        show_default="all; the only one, where one is needed",
    ),
]
Strict = Annotated[
    bool,
    typer.Option("--strict", help="Exit with 3 instead of 0 if there is a warning."),
]
NEEDS_A_LOOK = 3
"""Exit code of a finished command that left a warning, under --strict."""
Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]


class Terminal(Console):
    """A console on which text of others is harmless, and lines that people may want to copy are not
    cut."""

    def __init__(self, *, stderr: bool = False) -> None:
        stream = sys.stderr if stderr else sys.stdout
        width = None if stream.isatty() else _WIDTH_OF_A_PIPE
        super().__init__(stderr=stderr, highlight=False, markup=False, emoji=False, width=width)

    def render_str(self, text: str, **settings: Any) -> Text:
        """Make every string visible, those in tables too; rich calls this for each."""
        return super().render_str(
            visible(text, keep="\n"), **{**settings, "markup": False, "emoji": False}
        )

    def say(self, text: str, style: str | None = None) -> None:
        """Print a paragraph; the terminal wraps it."""
        self.print(text, style=style, soft_wrap=True)

    def row(self, text: str, style: str | None = None) -> None:
        """Print one row, cut at the terminal's width."""
        shown = visible(text)
        if len(shown) > self.width:
            shown = shown[: self.width - 1] + "…"
        self.print(shown, style=style, no_wrap=True, overflow="ellipsis", crop=True)

    def say_more(self, total: int, shown: int, advice: str) -> None:
        """Say how many are not shown, if any."""
        if total > shown:
            self.say(f"… and {total - shown:,} more; {advice}.")

    def show(self, rows: Table) -> None:
        """Print the table if it fits; without its frame if that fits; else each row as a paragraph.
        Nothing is cut."""
        if self._fits(rows):
            self.print(rows)
            return
        rows.box, rows.padding, rows.pad_edge = None, (0, 1, 0, 0), False
        if self._fits(rows):
            self.print(rows)
            return
        names = [str(column.header) for column in rows.columns]
        for cells in zip(*(column.cells for column in rows.columns), strict=True):
            first, *others = [str(cell) for cell in cells]
            self.say(f"{names[0]} {first}".strip())
            self.say(
                "  "
                + ", ".join(
                    f"{name} {cell}" for name, cell in zip(names[1:], others, strict=True) if cell
                )
            )

    def _fits(self, rows: Table) -> bool:
        wide = self.options.update(max_width=100_000)
        return Measurement.get(self, wide, rows).maximum <= self.width


out, err = Terminal(), Terminal(stderr=True)
"""Standard output, for results, and standard error, for progress and problems."""


class Commands(TyperGroup):
    """A group of commands, which names the successor of a retired one."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and self.get_command(ctx, args[0]) is None:
            refuse_retired(ctx, args)
        return super().resolve_command(ctx, args)


def refuse_retired(ctx: Any, arguments: list[str]) -> None:
    """Raise UsageError if ``arguments``, behind the commands of ``ctx``, begin with something that
    was retired."""
    above = list[str]()
    while ctx.parent:
        ctx, above = ctx.parent, [ctx.info_name, *above]
    if found := retired.instead_of_command(["shipper", *above, *arguments]):
        command, instead = found
        raise UsageError(
            f"`{command}` no longer exists. Nothing was done. {instead}", code=retired.CODE
        )


def new_app(name: str, about: str = "") -> typer.Typer:
    """Return the Typer of a command or, with ``about``, of a group of commands."""
    return typer.Typer(
        name=name,
        cls=Commands,
        help=about or None,
        no_args_is_help=bool(about),
        add_completion=False,
        rich_markup_mode="markdown",
    )


def table(*names: str) -> Table:
    """Make a table with columns of these names; those after a ``>`` hold numbers. See
    :meth:`Terminal.show`."""
    columns = [
        Column(
            name.removeprefix(">"),
            justify="right" if name.startswith(">") else "left",
            overflow="fold",
        )
        for name in names
    ]
    return Table(*columns)


def print_json(document: object) -> None:
    """Print one JSON document, in ASCII: right in every encoding, and without a character that a
    terminal would act on."""
    if isinstance(document, BaseModel):  # json.dumps takes six times as long
        print(document.model_dump_json(indent=1, ensure_ascii=True))
    else:
        print(json.dumps(document, indent=1))
