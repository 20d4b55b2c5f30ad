"""``shipper bench``."""

from __future__ import annotations

import datetime as dt
import json
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console
from rich.table import Table
from ruamel.yaml import YAML

from shipper.config.units import parse_duration
from shipper.errors import UsageError
from shipper_tools.bench.plan import SCENARIOS, Scenario
from shipper_tools.bench.results import BenchResult, Measurement, summarise
from shipper_tools.dev.jars import Say

T = TypeVar("T")

EPILOG = "Example: `shipper bench distance --peers ~/.cache/shipper-peers`"
_SCENARIOS_HELP = "; ".join(
    f"`{name}`: {scenario.question}" for name, scenario in SCENARIOS.items()
)
_WIDTH = 150
"""Of tables that nobody reads on a terminal."""

app = typer.Typer(name="bench", add_completion=False, rich_markup_mode="markdown")


@app.command(epilog=EPILOG)
def bench(
    scenario: Annotated[str, typer.Argument(help=_SCENARIOS_HELP)],
    rtt: Annotated[
        str | None, typer.Option(metavar="LIST", help="Round trips: `0ms,140ms`.")
    ] = None,
    lanes: Annotated[
        str | None, typer.Option(metavar="LIST", help="Ours: `8,32`; from files `auto`, too.")
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
        Path | None, typer.Option(help="Folder that the peers' build.sh filled.")
    ] = None,
    with_peers: Annotated[
        bool, typer.Option("--with-peers/--no-peers", help="Measure what is used instead, too.")
    ] = True,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="End to end and cold: of the pipeline, `delivery.chunk_size=8MB`.",
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for DATE-NAME.json and .html.")] = Path(
        "bench/results"
    ),
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON document on standard output.")
    ] = False,
) -> None:
    """Measures throughput on a real broker on this machine: bare producers, or from files to the
    topic; near or far.

    Every contender in turn, several rounds; median and spread. What it finds is kept as JSON and as
    a page with plots.
    """
    if scenario not in SCENARIOS:
        raise UsageError(f"no scenario {scenario!r}; there are {', '.join(SCENARIOS)}")
    given: dict[str, Any] = {
        "rtt_ms": _list("--rtt", rtt, lambda text: parse_duration(text) * 1000),
        "lanes": _list("--lanes", lanes, lambda text: None if text == "auto" else int(text)),
        "partitions": _list("--partitions", partitions, int),
        "lines": (lines,) if lines else None,
        "rounds": rounds,
        "seconds": seconds,
    }
    told = replace(
        SCENARIOS[scenario], **{name: value for name, value in given.items() if value is not None}
    )
    pipeline = _pipeline(settings or [])
    err = Console(stderr=True, highlight=False)

    def say(line: str) -> None:
        err.print(line, markup=False, soft_wrap=True)

    _leave(
        _run(told, lambda folder: _measured(told, folder, peers, pipeline, with_peers, say), say),
        out,
        as_json,
        say,
    )


def _measured(
    told: Scenario,
    folder: Path,
    peers: Path | None,
    pipeline: dict[str, Any],
    with_peers: bool,
    say: Say,
) -> Iterator[Measurement]:
    """Measure by the scenario's kind. These modules are slow to import, and no other command needs
    them."""
    from shipper_tools.bench import bare, cold, files

    if told.kind == "bare":
        return bare.measure(told, folder / "kafka", peers, with_peers=with_peers)
    ours = files.shipments(told, pipeline)
    if told.kind == "scale":
        from shipper_tools.bench import scale

        return scale.measure(told, folder, say)
    if told.kind == "cold":
        return cold.measure(told, folder, peers, ours, with_peers=with_peers, say=say)
    from shipper_tools.bench import end_to_end

    return end_to_end.measure(told, folder, peers, ours, with_peers=with_peers, say=say)


def _run(
    scenario: Scenario, measured: Callable[[Path], Iterator[Measurement]], say: Say
) -> BenchResult:
    from shipper_tools.bench.machine import describe

    machine, date, began = describe(), dt.datetime.now(dt.UTC), time.monotonic()
    measurements = []
    with tempfile.TemporaryDirectory(prefix="shipper-bench-") as folder:
        for measurement in measured(Path(folder)):
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


def _leave(result: BenchResult, out: Path, as_json: bool, say: Say) -> None:
    """Write the files, print the result, and end the command: with 1 if nothing was measured, or
    something of ours failed."""
    from shipper_tools.bench.page import COLUMNS, by_case, cells, render

    paths = result.write(out, render(result))
    console = Console(highlight=False, width=None if sys.stdout.isatty() else _WIDTH)
    if as_json:
        print(result.model_dump_json(indent=1, exclude_none=True))
    else:
        for case, summaries in by_case(result):
            table = Table(title=case.title, title_justify="left", box=None, pad_edge=False)
            for title in COLUMNS:
                table.add_column(title, justify="left" if title == COLUMNS[0] else "right")
            for summary in summaries:
                table.add_row(*cells(summary))
            console.print(table, "")
        for note in result.notes:
            console.print(note, style="yellow")
    say(f"{paths[0]} and {paths[1].name}")
    raise typer.Exit(
        1
        if not result.summaries or any(m.error and m.contender.ours for m in result.measurements)
        else 0
    )


def _list(option: str, text: str | None, parse: Callable[[str], T]) -> tuple[T, ...] | None:
    if text is None:
        return None
    try:
        return tuple(parse(part.strip()) for part in text.split(","))
    except ValueError as error:
        raise UsageError(f"{option} {text}: {error}") from error


def _pipeline(settings: list[str]) -> dict[str, Any]:
    """``["delivery.lanes=8"]`` → ``{"delivery": {"lanes": 8}}``"""
    from shipper_tools.bench.files import merged

    result: dict[str, Any] = {}
    for setting in settings:
        path, equals, value = setting.partition("=")
        if not equals:
            raise UsageError(f"--set {setting}: it must be KEY=VALUE, as in delivery.lanes=8")
        changes: Any = json.loads(json.dumps(YAML(typ="safe").load(value)))
        for key in reversed(path.split(".")):
            changes = {key: changes}
        result = merged(result, changes)
    return result
