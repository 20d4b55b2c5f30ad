"""``shipper demo``."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

app = typer.Typer(name="demo", add_completion=False, rich_markup_mode="markdown")


@app.command(epilog="Example: `shipper demo --lines 100000` · `shipper demo --keep`")
def demo(
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave S3, Kafka and Airflow's UI up until Ctrl-C.")
    ] = False,
    lines: Annotated[int, typer.Option(min=1000, help="Log lines to write and ship.")] = 300_000,
) -> None:
    """The main job for real: S3, Kafka, Airflow's scheduler, a DAG run, the report; then the same
    window again: 0 sent."""
    from shipper_tools.demo.demo import run_demo

    raise typer.Exit(run_demo(keep=keep, lines=lines, console=Console(highlight=False)))
