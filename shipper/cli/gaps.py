"""``shipper gaps``: which windows of a schedule are not complete, and where."""

from __future__ import annotations

import contextlib
import datetime as dt
import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from getpass import getuser
from pathlib import Path
from typing import Annotated, Any

import typer

from shipper import runtime
from shipper.cli.console import Config, Json, PipelineName, err, new_app, out, print_json, table
from shipper.cli.open_ledger import moment_or_age, open_one
from shipper.cli.run_options import MetricsPath, asked_window
from shipper.cli.show import say_killed
from shipper.cli.topic_state import PresentEntries
from shipper.config.load import load_pipeline, pipeline_names
from shipper.config.pipeline import Pipeline
from shipper.config.rules import original, resolve_uri
from shipper.config.schedule import Schedule
from shipper.config.units import plural
from shipper.errors import ShipperError, UsageError
from shipper.ledger.inventory import Inventory
from shipper.report.incomplete import (
    LastRun,
    by_schedule,
    find_gaps,
    merged,
    read_schedule,
    stands_still,
    standstill_in_words,
)
from shipper.report.late import Told, fresh_until, newest, overdue, windows_of
from shipper.report.metrics import MetricsFile, metrics_of_pipeline
from shipper.report.past_runs import window_names
from shipper.report.plan_result import PlanResult
from shipper.report.results import Gap
from shipper.report.run_folder import names_in
from shipper.report.window_records import accept, read_records
from shipper.report.window_state import contains
from shipper.runner import PLAN
from shipper.whole_files import file_system
from shipper.windows.expression import FORMS
from shipper.windows.ticks import Ticks
from shipper.windows.window import Window

EPILOG = (
    "Example: `shipper gaps web_access` · `shipper gaps web_access --since 7d --json` · in a "
    "crontab `shipper gaps web_access --alert` · `shipper gaps web_access --accept "
    '2026-11-01T06:00/2026-11-01T07:00 --reason "the host was down"`'
)

app = new_app("gaps")

Since = Annotated[
    str | None,
    typer.Option(
        help="A date, or an age such as 7d: the first window to look at.",
        show_default="the schedule's first run",
    ),
]
Within = Annotated[
    str | None,
    typer.Option(
        "--window",
        help=f"Only the windows of the schedule within this one: {FORMS}.",
        show_default="all",
    ),
]
Alert = Annotated[
    bool,
    typer.Option(
        "--alert",
        help="For cron: only what nobody was told yet, by a notice or by this command: overdue "
        "windows, and a schedule without a run for longer than two ticks. A window is overdue "
        "after `schedule.deliver_within`; without it, when its files have settled and the "
        "window's length has passed again. Prints nothing and exits with 0 if there are none.",
    ),
]
Accept = Annotated[
    str | None,
    typer.Option(
        "--accept",
        help=f"Nothing more will come of the windows within this one: {FORMS}. They count as "
        "complete on all clusters from now on. A later run that finds a file of them takes "
        "that back. Needs --reason.",
    ),
]
Reason = Annotated[
    str | None,
    typer.Option("--reason", help="Why, for --accept. Kept with your name and the time."),
]


@app.command(epilog=EPILOG)
def gaps(
    pipeline: PipelineName,
    since: Since = None,
    window: Within = None,
    config: Config = Path("config"),
    alert: Alert = False,
    accept_window: Accept = None,
    reason: Reason = None,
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
    if accept_window or reason:
        if since or window or alert or metrics_file:
            raise UsageError(
                "--accept looks at no gaps, so it takes no --since, --window, --alert or "
                "--metrics-file. Nothing was accepted. Run `shipper gaps` a second time for these.",
                code="SHIP-102",
            )
        _accept(config, spec, accept_window, reason, as_json=as_json)
        return
    if since and window:
        raise UsageError("--since and --window contradict each other; choose one", code="SHIP-102")
    if window and metrics_file:
        raise UsageError(
            "--metrics-file tells of all windows, and --window looks at one; choose one",
            code="SHIP-102",
        )
    metrics = MetricsFile(metrics_file) if metrics_file else None
    say_killed(config, spec)
    looked = _look(config, spec, since, window)
    if metrics:
        now, runs_uri = runtime.now(), resolve_uri(config, spec.runs_uri)
        fresh = fresh_until(runs_uri, spec.key, spec.clusters, now)
        metrics.add(metrics_of_pipeline(pipeline, spec.clusters, looked.gaps, fresh, now))
    told = Told(resolve_uri(config, spec.runs_uri), spec.key)
    if alert:
        looked = _untold(spec, looked, told)
    if as_json:
        print_json(looked.document(pipeline))
    else:
        if looked.stands_since:
            out.say(standstill_in_words(looked.stands_since), "red")
        if looked.gaps or not alert:
            _show(pipeline, looked)
    if alert:
        told.add("late", windows_of(looked.gaps), runtime.now())
        if looked.stands_since:
            told.add("standstill", [looked.stands_since.window], runtime.now())
    raise typer.Exit(1 if looked.gaps or looked.stands_since else 0)


@dataclass(frozen=True)
class _Looked:
    """Findings of a look at the windows of a schedule."""

    first: dict[str, dt.datetime]  # cluster → begin of the first window looked at
    windows: list[Window]
    gaps: list[Gap]
    last: LastRun | None
    stands_since: LastRun | None  # the last run, if the schedule stands still since
    earlier: str | None  # an earlier name that this pipeline may have had
    problems: list[str]

    def document(self, pipeline: str) -> dict[str, Any]:
        stands = self.stands_since
        return {
            "pipeline": pipeline,
            "since": {cluster: at.isoformat() for cluster, at in self.first.items()},
            "windows": len(self.windows),
            "gaps": [gap.model_dump() for gap in merged(self.gaps)],
            "stands_still_since": stands.window_end.isoformat() if stands else None,
            "perhaps_formerly": self.earlier,
            "problems": self.problems,
        }


def _look(config: Path, spec: Pipeline, since: str | None, window: str | None) -> _Looked:
    schedule, now = _schedule(spec), runtime.now()
    runs_uri = resolve_uri(config, spec.runs_uri)
    asked = asked_window(spec, window) if window else None
    first = dict.fromkeys(spec.clusters, asked.start) if asked else _since(spec, runs_uri, since)
    earlier = None if since or asked or spec.formerly else _earlier(config, spec, runs_uri)
    if earlier:  # the earlier pipeline may have left a gap that no run of this name knows
        ended = fresh_until(runs_uri, earlier, spec.clusters, now)
        first = {cluster: min(at, ended.get(cluster, at)) for cluster, at in first.items()}
    until = now - dt.timedelta(seconds=spec.source.settle_seconds)
    begin = min(first.values())
    windows = [
        tick
        for tick in Ticks(schedule).windows(begin, until)
        if begin <= tick.start and tick.end <= until and (asked is None or contains(asked, tick))
    ]
    if asked and not windows:
        raise UsageError(
            f"--window {window}: no window of the schedule lies in it and has settled by now"
        )
    records = read_records(runs_uri, spec.key, windows[0].start if windows else until)
    problems: list[str] = []
    found = find_gaps(windows, records, first, _ledgers(config, spec.name, problems))
    last = read_schedule(runs_uri, spec.key).last_run
    stands = stands_still(
        schedule,
        spec.source.settle_seconds,
        last,
        lambda tick: any(contains(record.window, tick) for record in records),
        now,
    )
    return _Looked(first, windows, found, last, last if stands else None, earlier, problems)


def _untold(spec: Pipeline, looked: _Looked, told: Told) -> _Looked:
    """Keep what is overdue and what nobody was told yet."""
    last, stands, known = looked.last, looked.stands_since, told.of("late")
    late = overdue(spec, looked.gaps, last.schedule_since if last else None, runtime.now())
    return replace(
        looked,
        gaps=[gap for gap in late if windows_of([gap])[0] not in known],
        stands_since=None if stands and stands.window in told.of("standstill") else stands,
    )


def _schedule(spec: Pipeline) -> Schedule:
    if spec.schedule is None:
        raise UsageError(
            f"pipeline {spec.name} has no `schedule`, so no window is due and none can be missing.",
            code="SHIP-105",
        )
    return spec.schedule


def _accept(
    config: Path, spec: Pipeline, window: str | None, reason: str | None, *, as_json: bool
) -> None:
    if not window or not (reason or "").strip():
        raise UsageError(
            "--accept and --reason belong together: which windows, and why nothing more will come "
            "of them.",
            code="SHIP-102",
        )
    asked = asked_window(spec, window)
    of_schedule = Ticks(_schedule(spec)).windows(asked.start, asked.end)
    ticks = [tick for tick in of_schedule if contains(asked, tick)]
    if not ticks or ticks[-1].end > runtime.now():
        raise UsageError(f"--accept {window}: no window of the schedule that is over lies in it")
    stretch = Window(ticks[0].start, ticks[-1].end)
    accept(resolve_uri(config, spec.runs_uri), spec.key, stretch, why=reason or "", who=getuser())
    if as_json:
        document = {"pipeline": spec.name, "accepted": str(stretch), "windows": len(ticks)}
        print_json(document)
    else:
        out.say(f"✓ Accepted as complete: {plural(len(ticks), 'window')}, {stretch}.", "green")


def _earlier(config: Path, spec: Pipeline, runs_uri: str) -> str | None:
    """Return the pipeline without a file whose last run listed the same source; None if there is
    none, or more than one, or if the results cannot be listed."""
    source, present = resolve_uri(config, spec.source.path), pipeline_names(config) or {spec.name}
    with contextlib.suppress(OSError):
        names = names_in(*file_system(runs_uri))
        gone = [name for name in names if original(name) == name and name not in present]
        found = [name for name in gone if _source_of(runs_uri, name) == source]
        return found[0] if len(found) == 1 else None
    return None


def _source_of(runs_uri: str, pipeline: str) -> str | None:
    windows = window_names(runs_uri, pipeline)
    last = max(windows, key=lambda window: window.end, default=None)
    folder = newest(runs_uri, pipeline, last) if last else None
    plan = folder.glance(PLAN, PlanResult) if folder else None
    return plan.source if plan else None


def _since(spec: Pipeline, runs_uri: str, asked: str | None) -> dict[str, dt.datetime]:
    """Return cluster → begin of the first window to look at."""
    if asked is not None:
        return dict.fromkeys(spec.clusters, moment_or_age(asked, "--since"))
    schedule = _schedule(spec)
    began = by_schedule(read_schedule(runs_uri, spec.key).first_window, schedule)
    start = schedule.start
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
            ledger = open_one(config, pipeline, cluster)
            inventory = Inventory()
            for of_path in PresentEntries(ledger).of(ledger.read()):
                inventory.add(of_path, ledger.pipeline.key)
        except ShipperError as error:
            problems.append(error.message)
            return None
        return inventory

    return read


def _show(pipeline: str, looked: _Looked) -> None:
    found = merged(looked.gaps)
    since = min(looked.first.values())
    shown = f"{plural(len(looked.windows), 'window')} since {since:%Y-%m-%dT%H:%M:%SZ}"
    if found:
        _show_gaps(pipeline, found, shown)
        if looked.earlier:
            err.say(
                f"Pipeline {looked.earlier} has no file any more, and shipped the same "
                f"source. If {pipeline} is its new name, write `formerly: "
                f"{looked.earlier}` into its file before you run one of these windows. "
                "Then nothing is shipped twice."
            )
    else:
        out.say(
            f"✓ Nothing is missing: {shown}, all complete on every cluster, by the last run "
            "that looked at each.",
            "green",
        )
    for problem in looked.problems:
        err.say(problem, "red")


def _show_gaps(pipeline: str, found: list[Gap], looked: str) -> None:
    rows = table("cluster", "from/to", ">windows", "why")
    for gap in found:
        rows.add_row(gap.cluster, gap.window, f"{gap.windows:,}", str(gap))
    out.show(rows)
    total = sum(gap.windows for gap in found)
    out.say(
        f"{plural(total, 'gap')} in {looked}. To ship what is missing, run the window: `shipper "
        f"run {pipeline} --window FROM/TO`."
    )
