"""``shipper bench``."""

from __future__ import annotations

import datetime as dt
import re
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from pydantic import ValidationError
from rich.console import Console
from rich.table import Table

from shipper.config.units import parse_duration
from shipper.errors import UsageError
from shipper.whole_files import output_file, refuse_existing
from shipper_tools.bench.plan import SCENARIOS, Scenario
from shipper_tools.bench.results import BenchResult, Measurement, summarise
from shipper_tools.dev.jars import Say

T = TypeVar("T")

EPILOG = "Example: `shipper bench distance --peers ~/.cache/shipper-peers`"
_SCENARIOS_HELP = "; ".join(
    f"`{name}`: {scenario.question}" for name, scenario in SCENARIOS.items()
)
_WIDTH = 170
"""Of tables that nobody reads on a terminal."""

app = typer.Typer(name="bench", add_completion=False, rich_markup_mode="markdown")


@app.command(epilog=EPILOG)
def bench(
    scenario: Annotated[
        str,
        typer.Argument(
            metavar="SCENARIO|RESULT.json",
            help=f"{_SCENARIOS_HELP}. A kept result is shown, and nothing is measured.",
        ),
    ],
    rtt: Annotated[
        str | None, typer.Option(metavar="LIST", help="Round trips: `0ms,140ms`.")
    ] = None,
    ack: Annotated[
        str | None,
        typer.Option(metavar="LIST", help="Delays of acknowledgements alone: `0ms,400ms`."),
    ] = None,
    partitions: Annotated[str | None, typer.Option(metavar="LIST", help="`1,16`.")] = None,
    rounds: Annotated[int | None, typer.Option(min=1, help="Besides a warm-up.")] = None,
    seconds: Annotated[
        float | None, typer.Option(min=0.1, help="Bare: about how long a measurement sends.")
    ] = None,
    lines: Annotated[
        int | None, typer.Option(min=8, help="From files: lines in them; of scale, the most.")
    ] = None,
    peers: Annotated[
        Path | None, typer.Option(help="Folder with the peers that were built.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for DATE-NAME.json.")] = Path("bench/results"),
    page: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="Draw a page with plots; a new file.")
    ] = None,
) -> None:
    """Measure throughput on a real broker on this machine: bare producers, or from files to the
    topic; near or far.

    Every contender in turn, several rounds; median and spread. The result is kept as JSON.
    """
    if page:
        refuse_existing(page)
    if scenario.endswith(".json"):
        if any(
            value is not None for value in (rtt, ack, partitions, rounds, seconds, lines, peers)
        ):
            text = "A kept result is not measured again. Leave the options of a measurement out."
            raise UsageError(text, code="SHIP-102")
        _show(_kept(Path(scenario)), page)
        return
    if scenario not in SCENARIOS:
        raise UsageError(f"no scenario {scenario!r}; there are {', '.join(SCENARIOS)}")
    given: dict[str, Any] = {
        "rtt_ms": _list("--rtt", rtt, lambda text: parse_duration(text) * 1000),
        "ack_ms": _list("--ack", ack, lambda text: parse_duration(text) * 1000),
        "partitions": _list("--partitions", partitions, int),
        "lines": (lines,) if lines else None,
        "rounds": rounds,
        "seconds": seconds,
    }
    told = replace(
        SCENARIOS[scenario], **{name: value for name, value in given.items() if value is not None}
    )
    err = Console(stderr=True, highlight=False)

    def say(line: str) -> None:
        err.print(line, markup=False, soft_wrap=True)

    result = _run(told, peers, say)
    say(str(result.write(out)))
    _show(result, page)
    ours_failed = any(m.error and m.contender.ours for m in result.measurements)
    raise typer.Exit(1 if not result.summaries or ours_failed else 0)


def _run(scenario: Scenario, peers: Path | None, say: Say) -> BenchResult:
    """Measure, by the module of the scenario's kind: these are slow to import, and no other command
    needs them."""
    from shipper_tools.bench.machine import describe

    kind = import_module(f"shipper_tools.bench.{scenario.kind}")
    machine, date, began = describe(), dt.datetime.now(dt.UTC), time.monotonic()
    measurements: list[Measurement] = []
    with tempfile.TemporaryDirectory(prefix="shipper-bench-") as folder:
        for measurement in kind.measure(scenario, Path(folder), peers, say):
            say(measurement.line)
            measurements.append(measurement)
    failed = sum(1 for m in measurements if m.error)
    notes = [f"Failed measurements: {failed} of {len(measurements)}."] if failed else []
    if machine.load_before > machine.cores / 4:
        notes.append(
            "The machine was busy with something else when this began; take the figures for lower "
            "bounds."
        )
    return BenchResult(
        name=scenario.name,
        question=scenario.question,
        date=date,
        took_seconds=round(time.monotonic() - began, 1),
        # What was told, without where things are on this machine.
        arguments=[re.sub(r"(^|=)(?:/|~|\.{1,2}/).*", r"\1…", word) for word in sys.argv[2:]],
        machine=machine,
        notes=notes,
        summaries=summarise(measurements),
        measurements=measurements,
    )


def _kept(path: Path) -> BenchResult:
    """Read a result that was kept. Raises UsageError."""
    try:
        return BenchResult.model_validate_json(path.read_bytes())
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from error
    except ValidationError as error:
        raise UsageError(f"{path} is no result of `shipper bench`.") from error


def _show(result: BenchResult, page: Path | None) -> None:
    """Print the tables, and write the page. Raises UsageError for a page that exists."""
    from shipper_tools.bench.page import COLUMNS, by_case, cells, render

    if page is not None:
        with output_file(page) as part:
            part.write_text(render(result), encoding="utf-8")
    console = Console(highlight=False, width=None if sys.stdout.isatty() else _WIDTH)
    for case, summaries in by_case(result):
        table = Table(title=case.title, title_justify="left", box=None, pad_edge=False)
        for title in COLUMNS:
            table.add_column(title, justify="left" if title == COLUMNS[0] else "right")
        for summary in summaries:
            table.add_row(*cells(summary))
        console.print(table, "")
    for note in result.notes:
        console.print(note, style="yellow")


def _list(option: str, text: str | None, parse: Callable[[str], T]) -> tuple[T, ...] | None:
    if text is None:
        return None
    try:
        return tuple(parse(part.strip()) for part in text.split(","))
    except ValueError as error:
        raise UsageError(f"{option} {text}: {error}") from error
