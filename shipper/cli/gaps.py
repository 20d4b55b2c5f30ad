"""``shipper gaps``: which windows of a schedule are not complete, and where."""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Callable
from getpass import getuser
from pathlib import Path
from typing import Annotated

import typer

from shipper import runtime
from shipper.cli.console import Config, Json, PipelineName, err, new_app, out, print_json, table
from shipper.cli.open_ledger import moment_or_age, open_ledgers
from shipper.cli.run_options import MetricsPath, asked_window
from shipper.cli.show import say_killed
from shipper.cli.topic_state import PresentEntries
from shipper.config import load_pipeline, resolve_uri
from shipper.config.load import pipeline_names
from shipper.config.pipeline import Pipeline
from shipper.errors import ShipperError, UsageError
from shipper.ledger.inventory import Inventory
from shipper.report.gaps import (
    find_gaps,
    merged,
    read_beginnings,
    read_last_run,
    stands_still,
    standstill_in_words,
)
from shipper.report.late import Told, fresh_until, overdue, windows_of
from shipper.report.markup import plural
from shipper.report.metrics import MetricsFile, metrics_of_pipeline
from shipper.report.renamed import perhaps_formerly
from shipper.report.results import Gap
from shipper.report.window_records import accept, read_records
from shipper.report.window_state import contains
from shipper.windows.expression import FORMS
from shipper.windows.schedule import Ticks
from shipper.windows.window import Window

EPILOG = (
    "Example: `shipper gaps web_access` · `shipper gaps web_access --since 7d --json` · in a "
    "crontab `shipper gaps web_access --alert` · `shipper gaps web_access --accept "
    '2026-11-01T06:00/2026-11-01T07:00 --reason "the host was down"`'
)

app = new_app("gaps")


@app.command(epilog=EPILOG)
def gaps(
    pipeline: PipelineName,
    since: Annotated[
        str | None,
        typer.Option(
            help="A date, or an age such as 7d: the first window to look at.",
            show_default="the schedule's first run",
        ),
    ] = None,
    window: Annotated[
        str | None,
        typer.Option(
            "--window",
            help=f"Only the windows of the schedule within this one: {FORMS}.",
            show_default="all",
        ),
    ] = None,
    config: Config = Path("config"),
    alert: Annotated[
        bool,
        typer.Option(
            "--alert",
            help="For cron: only what nobody was told yet, by a notice or by this command: overdue "
            "windows, and a schedule without a run for longer than two ticks. A window is overdue "
            "after `schedule.deliver_within`; without it, when its files have settled and the "
            "window's length has passed again. Prints nothing and exits with 0 if there are none.",
        ),
    ] = False,
    accept_window: Annotated[
        str | None,
        typer.Option(
            "--accept",
            help=f"Nothing more will come of the windows within this one: {FORMS}. They count as "
            "complete on all clusters from now on. A later run that finds a file of them takes "
            "that back. Needs --reason.",
        ),
    ] = None,
    reason: Annotated[
        str | None,
        typer.Option("--reason", help="Why, for --accept. Kept with your name and the time."),
    ] = None,
    metrics_file: MetricsPath = None,
    as_json: Json = False,
) -> None:
    """List the windows of the schedule that are not complete on a cluster: no run, a failed run, or
    a file that was left behind.

    What runs noted in `runs_uri` decides, and the ledger for windows without a note. No source is
    listed, so a file that came after the last run that looked is not included. Exit code 1 if there
    are any, or if the schedule stands still.
    """
    spec = load_pipeline(config, pipeline)
    if spec.schedule is None:
        raise UsageError(
            f"pipeline {pipeline} has no `schedule`, so no window is due and none can be missing.",
            code="SHIP-105",
        )
    if accept_window or reason:
        _accept(config, spec, accept_window, reason)
        return
    metrics = MetricsFile(metrics_file) if metrics_file else None
    say_killed(config, spec, err)
    runs_uri = resolve_uri(config, spec.runs_uri)
    if since and window:
        raise UsageError("--since and --window contradict each other; choose one", code="SHIP-102")
    asked = asked_window(spec, window) if window else None
    first = dict.fromkeys(spec.clusters, asked.start) if asked else _since(spec, runs_uri, since)
    earlier = None if since or asked or spec.formerly else _earlier(config, spec, runs_uri)
    if earlier:  # the earlier pipeline may have left a gap that no run of this name knows
        ended = fresh_until(runs_uri, earlier, spec.clusters, runtime.now())
        first = {cluster: min(at, ended.get(cluster, at)) for cluster, at in first.items()}
    until = runtime.now() - dt.timedelta(seconds=spec.source.settle_seconds)
    windows = [
        tick
        for tick in Ticks(spec.schedule).windows(min(first.values()), until)
        if tick.end <= until and (asked is None or contains(asked, tick))
    ]
    if asked and not windows:
        raise UsageError(
            f"--window {window}: no window of the schedule lies in it and has settled by now"
        )
    records = read_records(runs_uri, spec.key, windows[0].start if windows else until)
    problems: list[str] = []
    wanted = find_gaps(windows, records, first, _ledgers(config, pipeline, problems))
    told = Told(runs_uri, spec.key)
    now = runtime.now()
    if metrics:
        metrics.add(
            metrics_of_pipeline(
                pipeline,
                spec.clusters,
                wanted,
                fresh_until(runs_uri, spec.key, spec.clusters, now),
                now,
            )
        )
    last = read_last_run(runs_uri, spec.key)
    stands = stands_still(
        spec.schedule,
        spec.source.settle_seconds,
        last,
        lambda tick: any(contains(record.window, tick) for record in records),
        now,
    )
    if alert:
        if last and last.window in told.of("standstill"):
            stands = False
        known = told.of("late")
        since_run = last.schedule_since if last else None
        wanted = [
            gap
            for gap in overdue(spec, wanted, since_run, now)
            if windows_of([gap])[0] not in known
        ]
    found = merged(wanted)
    if as_json:
        document = {
            "pipeline": pipeline,
            "since": {cluster: at.isoformat() for cluster, at in first.items()},
            "windows": len(windows),
            "gaps": [gap.model_dump() for gap in found],
            "stands_still_since": last.window_end.isoformat() if last and stands else None,
            "perhaps_formerly": earlier,
            "problems": problems,
        }
        print_json(document)
    else:
        if last and stands:
            out.say(standstill_in_words(last), "red")
        if found or not alert:
            _show(found, len(windows), min(first.values()))
            if earlier and found:
                err.say(
                    f"Pipeline {earlier} has no file any more, and shipped the same "
                    f"source. If {pipeline} is its new name, write `formerly: "
                    f"{earlier}` into its file before you run one of these windows. "
                    "Then nothing is shipped twice."
                )
            for problem in problems:
                err.say(problem, "red")
    if alert:
        told.add("late", windows_of(wanted), runtime.now())
        if last and stands:
            told.add("standstill", [last.window], runtime.now())
    raise typer.Exit(1 if found or stands else 0)


def _accept(config: Path, spec: Pipeline, window: str | None, reason: str | None) -> None:
    if not window or not (reason or "").strip():
        raise UsageError(
            "--accept and --reason belong together: which windows, and why nothing more will come "
            "of them.",
            code="SHIP-102",
        )
    asked = asked_window(spec, window)
    ticks = (
        [
            tick
            for tick in Ticks(spec.schedule).windows(asked.start, asked.end)
            if contains(asked, tick)
        ]
        if spec.schedule
        else []
    )
    if not ticks or ticks[-1].end > runtime.now():
        raise UsageError(f"--accept {window}: no window of the schedule that is over lies in it")
    stretch = Window(ticks[0].start, ticks[-1].end)
    accept(resolve_uri(config, spec.runs_uri), spec.key, stretch, why=reason or "", who=getuser())
    out.say(f"✓ Accepted as complete: {plural(len(ticks), 'window')}, {stretch}.", "green")


def _earlier(config: Path, spec: Pipeline, runs_uri: str) -> str | None:
    """Return the earlier pipeline; None also if the folder of results cannot be listed: then the
    beginning is that of this name."""
    source, present = resolve_uri(config, spec.source.path), pipeline_names(config) or {spec.name}
    try:
        return perhaps_formerly(runs_uri, source, present)
    except OSError:
        return None


def _since(spec: Pipeline, runs_uri: str, asked: str | None) -> dict[str, dt.datetime]:
    """Return cluster → begin of the first window to look at."""
    if asked is not None:
        return dict.fromkeys(spec.clusters, moment_or_age(asked, "--since"))
    began = read_beginnings(runs_uri, spec.key)
    start = spec.schedule.start if spec.schedule else None
    found = {
        name: at for name in spec.clusters if (at := began.get(name, start if not began else None))
    }
    if not found:
        raise UsageError(
            f"pipeline {spec.name} has no `schedule.start`, and no scheduled run has left a "
            f"result in {runs_uri}, so the start of its schedule is unknown. Give the start "
            "with --since.",
            code="SHIP-106",
        )
    return found


def _ledgers(config: Path, pipeline: str, problems: list[str]) -> Callable[[str], Inventory | None]:
    """Return a function that reads the ledger of a cluster, at most once. A ledger that cannot be
    read is a problem, and has no findings."""

    @functools.cache
    def read(cluster: str) -> Inventory | None:
        try:
            [ledger] = open_ledgers(config, pipeline, cluster)
            inventory = Inventory()
            for of_path in PresentEntries(ledger).of(ledger.read()):
                inventory.add(of_path, ledger.pipeline.key)
        except ShipperError as error:
            problems.append(error.message)
            return None
        return inventory

    return read


def _show(found: list[Gap], windows: int, since: dt.datetime) -> None:
    looked = f"{plural(windows, 'window')} since {since:%Y-%m-%dT%H:%M:%SZ}"
    if not found:
        out.say(
            f"✓ Nothing is missing: {looked}, all complete on every cluster, by the last run "
            "that looked at each.",
            "green",
        )
        return
    rows = table("cluster", "from/to", ">windows", "why")
    for gap in found:
        more = f" and {len(gap.paths) - 1:,} more" if len(gap.paths) > 1 else ""
        rows.add_row(
            gap.cluster,
            gap.window,
            f"{gap.windows:,}",
            gap.why + (f": {gap.paths[0]}{more}" if gap.paths else ""),
        )
    out.show(rows)
    total = sum(gap.windows for gap in found)
    out.say(
        f"{plural(total, 'gap')} in {looked}. To ship what is missing, run the window: `shipper "
        "run … --window FROM/TO`."
    )
