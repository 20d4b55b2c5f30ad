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

from shipper.config.units import parse_duration, parse_size
from shipper.errors import UsageError
from shipper_tools.bench.plan import SCENARIOS, Axes, Scenario, merged
from shipper_tools.bench.results import BenchResult, Measurement, Summary, summarise
from shipper_tools.dev.jars import Say

_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
T = TypeVar("T")

EPILOG = (
    "Examples: `shipper bench distance --peers ~/.cache/shipper-peers` · `shipper bench bare --rtt 0ms,50ms,140ms --lanes 8,32` · "
    "`shipper bench ship --rtt 140ms --lines 1000000 --set delivery.lanes=8 --also 'bundles: {records: {bundle: {max_bytes: 64kB}}}'`"
)
_SCENARIOS_HELP = "; ".join(f"`{name}`: {scenario.question}" for name, scenario in SCENARIOS.items())

app = typer.Typer(name="bench", add_completion=False, rich_markup_mode="markdown")
_WIDTH = 150
"""Of tables that nobody reads on a terminal."""


@app.command(epilog=EPILOG)
def bench(
    scenario: Annotated[str, typer.Argument(help=_SCENARIOS_HELP)],
    rtt: Annotated[str | None, typer.Option(metavar="LIST", help="Round trips: `0ms,140ms`.")] = None,
    request_delay: Annotated[str | None, typer.Option(metavar="LIST", help="The broker's time per request: `20ms`.")] = None,
    lanes: Annotated[str | None, typer.Option(metavar="LIST", help="Ours: `8,32`; `auto` end to end.")] = None,
    batch: Annotated[str | None, typer.Option(metavar="LIST", help="Ours, uncompressed: `500kB,1MB`; `auto` end to end.")] = None,
    codec: Annotated[str | None, typer.Option(metavar="LIST", help="`none,zstd`.")] = None,
    partitions: Annotated[str | None, typer.Option(metavar="LIST", help="`1,16`.")] = None,
    topics: Annotated[str | None, typer.Option(metavar="LIST", help="`1,4`; bare and ours only.")] = None,
    record_size: Annotated[str | None, typer.Option(metavar="LIST", help="Bare: `1kB,logs`.")] = None,
    replicas: Annotated[int | None, typer.Option(help="1 (one broker) or 3 (three).")] = None,
    rounds: Annotated[int | None, typer.Option(min=1, help="Besides a warm-up.")] = None,
    seconds: Annotated[float | None, typer.Option(min=0.1, help="Bare: about how long a measurement sends.")] = None,
    records: Annotated[int | None, typer.Option(min=1, help="Bare: so many for everyone, in place of --seconds.")] = None,
    lines: Annotated[int | None, typer.Option(min=8, help="End to end and cold: lines in the files.")] = None,
    peers: Annotated[Path | None, typer.Option(help="Folder that the peers' build.sh filled.")] = None,
    with_peers: Annotated[bool, typer.Option("--with-peers/--no-peers", help="Measure what is used instead, too.")] = True,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="End to end: of the pipeline, `delivery.lanes=8`.")
    ] = None,
    also: Annotated[
        str | None, typer.Option(metavar="YAML", help="End to end: more contenders, `NAME: {changes to the pipeline}`.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for DATE-NAME.json and .html.")] = Path("bench/results"),
    name: Annotated[str | None, typer.Option(help="In place of the scenario's name, in the files' names.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """Measures throughput on a real broker on this machine: bare producers, or from files to the topic; near or far.

    Every contender in turn, several rounds; median and spread. What it finds is kept as JSON and as a page with plots.
    """
    if scenario not in SCENARIOS:
        raise UsageError(f"no scenario {scenario!r}; there are {', '.join(SCENARIOS)}")
    given = {
        "rtt_ms": _list("--rtt", rtt, _milliseconds),
        "request_delay_ms": _list("--request-delay", request_delay, _milliseconds),
        "lanes": _list("--lanes", lanes, _count),
        "batch_bytes": _list("--batch", batch, _size),
        "compression": _list("--codec", codec, _codec),
        "partitions": _list("--partitions", partitions, int),
        "topics": _list("--topics", topics, int),
        "record_bytes": _list("--record-size", record_size, _size),
        "lines": (lines,) if lines and SCENARIOS[scenario].axes.lines != (None,) else None,
        "replicas": replicas,
    }
    told = SCENARIOS[scenario].told(_axes(SCENARIOS[scenario].axes, given), rounds=rounds, seconds=seconds, lines=lines)
    pipeline, more = _pipeline(settings or []), _also(also)
    err = Console(stderr=True, highlight=False)

    def say(line: str) -> None:
        err.print(line, markup=False, soft_wrap=True)

    result = _run(told, name or scenario, lambda folder: _measured(told, folder, peers, pipeline, more, with_peers, records, say))
    _leave(result, out, as_json, say)


def _measured(
    told: Scenario,
    folder: Path,
    peers: Path | None,
    pipeline: dict[str, Any],
    also: dict[str, dict[str, Any]],
    with_peers: bool,
    records: int | None,
    say: Say,
) -> Iterator[Measurement]:
    """By the scenario's kind. What measures is slow to import, and no other command needs it."""
    from shipper_tools.bench import bare, cold, end_to_end

    if told.kind == "bare":
        return bare.measure(told, folder / "kafka", peers, with_peers=with_peers, records=records, say=say)
    ours = end_to_end.shipments(told, pipeline, also)
    measure = cold.measure if told.kind == "cold" else end_to_end.measure
    return measure(told, folder, peers, ours, with_peers=with_peers, say=say)


def _leave(result: BenchResult, out: Path, as_json: bool, say: Say) -> None:
    """Files, and the result on standard output. Ends the command: 1 if nothing was measured, or something of ours failed."""
    from shipper_tools.bench.page import render

    paths = result.write(out, render(result))
    if as_json:
        print(result.model_dump_json(indent=1, exclude_none=True))
    else:
        _show(result, Console(highlight=False, width=None if sys.stdout.isatty() else _WIDTH))
    say(f"{paths[0]} and {paths[1].name}")
    raise typer.Exit(1 if not result.summaries or any(m.error and m.contender.ours for m in result.measurements) else 0)


def _run(scenario: Scenario, name: str, measured: Callable[[Path], Iterator[Measurement]]) -> BenchResult:
    from shipper_tools.bench.machine import describe

    machine, date, began = describe(), dt.datetime.now(dt.UTC), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="shipper-bench-") as folder:
        measurements = list(measured(Path(folder)))
    summaries = summarise(measurements)
    failed = sum(1 for m in measurements if m.error)
    notes = [f"Failed measurements: {failed} of {len(measurements)}."] if failed else []
    if machine.load_before > machine.cores / 4:
        notes.append("The machine was busy with something else when this began; take the figures for lower bounds.")
    return BenchResult(
        name=name,
        question=scenario.question,
        date=date,
        took_seconds=round(time.monotonic() - began, 1),
        arguments=_without_paths(sys.argv[2:]),
        machine=machine,
        notes=notes,
        verdicts=[target.verdict(summaries) for target in scenario.targets],
        summaries=summaries,
        measurements=measurements,
    )


def _without_paths(words: list[str]) -> list[str]:
    """What was told, without where things are on this machine."""
    return [re.sub(r"(^|=)(?:/|~|\.{1,2}/).*", r"\1…", word) for word in words]


def _axes(known: Axes, given: dict[str, Any]) -> Axes:
    """The scenario's axes with those that were given in their place."""
    return replace(known, **{field: value for field, value in given.items() if value is not None})


def _milliseconds(text: str) -> float:
    return parse_duration(text) * 1000


def _size(text: str) -> int | None:
    return None if text in ("logs", "auto") else parse_size(text)


def _codec(text: str) -> str:
    if text not in _CODECS:
        raise ValueError(f"Kafka knows {', '.join(_CODECS)}")
    return text


def _count(text: str) -> int | None:
    return None if text == "auto" else int(text)


def _list(option: str, text: str | None, parse: Callable[[str], T]) -> tuple[T, ...] | None:
    if text is None:
        return None
    try:
        return tuple(parse(part.strip()) for part in text.split(","))
    except ValueError as error:
        raise UsageError(f"{option} {text}: {error}") from error


def _pipeline(settings: list[str]) -> dict[str, Any]:
    """``["delivery.lanes=8"]`` → ``{"delivery": {"lanes": 8}}``"""
    result: dict[str, Any] = {}
    for setting in settings:
        path, equals, value = setting.partition("=")
        if not equals:
            raise UsageError(f"--set {setting}: it must be KEY=VALUE, as in delivery.lanes=8")
        changes: Any = _yaml(value)
        for key in reversed(path.split(".")):
            changes = {key: changes}
        result = merged(result, changes)
    return result


def _also(text: str | None) -> dict[str, dict[str, Any]]:
    found = _yaml(text) if text else {}
    if not isinstance(found, dict) or not all(isinstance(changes, dict) for changes in found.values()):
        raise UsageError(f"--also {text}: it must be NAME: {{changes to the pipeline}}")
    return found


def _yaml(text: str) -> Any:
    return json.loads(json.dumps(YAML(typ="safe").load(text)))


def _show(result: BenchResult, out: Console) -> None:
    for case in dict.fromkeys(summary.case for summary in result.summaries):
        table = Table(title=case.title, title_justify="left", box=None, pad_edge=False)
        for title in (
            "contender",
            "rec/s",
            "lowest",
            "highest",
            "MB/s",
            "client CPU s/M",
            "broker CPU s/M",
            "× best peer",
            "peak MB",
        ):
            table.add_column(title, justify="left" if title == "contender" else "right")
        for summary in result.summaries:
            if summary.case == case:
                table.add_row(*_cells(summary))
        out.print(table)
        out.print()
    for verdict in result.verdicts:
        mark = "[green]✓[/]" if verdict.reached else "[red]✗[/]"
        out.print(
            f"{mark} {verdict.question}: {'–' if verdict.found is None else f'{verdict.found:,g}'} (asked: {verdict.asked})"
        )
    for note in result.notes:
        out.print(note, style="yellow")


def _cells(summary: Summary) -> list[str]:
    rate, times = summary.records_per_second, summary.times_best_peer
    rates = [f"{value:,.0f}" for value in (rate.median, rate.lowest, rate.highest)]
    broker = summary.cpu_seconds_per_million.get("broker", 0.0)
    figures = [f"{summary.megabytes_per_second:.1f}", f"{summary.client_cpu_per_million:.2f}", f"{broker:.2f}"]
    peak = summary.peak_bytes
    return [summary.contender.name, *rates, *figures, f"{times:.2f}" if times else "", f"{peak / 1e6:,.0f}" if peak else ""]
