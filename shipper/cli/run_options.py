"""Options of `shipper run` for one run, as in :class:`shipper.runner.JobOptions`; and the job with
these options."""

from __future__ import annotations

import datetime as dt
import sys
from dataclasses import replace
from getpass import getuser
from pathlib import Path
from typing import Annotated, Any

import click
import typer

from shipper import runner, runtime
from shipper.asked import (
    LEAVE,
    SHIP_ANYWAY,
    SKIP_FAILED,
    contradiction,
    dry_runs_uri,
    failed_checks,
    question,
    skips_for,
)
from shipper.cli.console import err
from shipper.config import load_pipeline
from shipper.config.pipeline import Pipeline
from shipper.errors import UsageError, WindowError
from shipper.report.results import RunReport
from shipper.report.run_folder import RunFolder
from shipper.runner import help_of
from shipper.windows.expression import FORMS, is_relative, parse_expression
from shipper.windows.schedule import Ticks
from shipper.windows.window import Window, parse_window

Scheduled = Annotated[
    bool,
    typer.Option(
        "--scheduled",
        help=(
            "Act as a scheduled run: also ship late files of earlier windows (`source.lookback`)."
        ),
    ),
]
Reship = Annotated[
    bool,
    typer.Option(
        "--reship",
        help="Send every file of the window again, whole. Consumers will see duplicates. Needs "
        "--reason.",
    ),
]
NewLedger = Annotated[
    bool,
    typer.Option(
        "--new-ledger",
        help="Continue although the ledger is gone or was recreated: every file counts as not "
        "shipped.",
    ),
]
ReshipReason = Annotated[
    str | None,
    typer.Option("--reason", help="Reason for --reship: kept in the ledger and the report."),
]
OfClusters = Annotated[
    list[str] | None,
    typer.Option("--cluster", help=f"{help_of('to_clusters')} May be given several times."),
]
RateLimit = Annotated[str | None, typer.Option("--rate-limit", help=help_of("rate_limit"))]
SkipChecks = Annotated[
    list[str] | None,
    typer.Option("--skip-check", help=f"{help_of('skip_checks')} May be given several times."),
]
SkipReason = Annotated[str | None, typer.Option("--skip-reason", help=help_of("skip_reason"))]
PlanOnly = Annotated[bool, typer.Option("--plan-only", help=help_of("plan_only"))]

MetricsPath = Annotated[
    Path | None,
    typer.Option(
        "--metrics-file",
        help="Add the figures to this file, NAME.prom, for the textfile collector of "
        "Prometheus' node_exporter.",
        show_default=False,
    ),
]

WindowText = Annotated[
    str | None,
    typer.Option(
        "--window",
        help=f"{FORMS}. UTC unless it says otherwise; `yesterday` and `last …` by the clock of "
        "the schedule's time zone.",
        show_default=False,
    ),
]
Last = Annotated[
    bool,
    typer.Option(
        "--last",
        help=(
            "Instead of --window: the latest closed window of the schedule whose files have "
            "settled."
        ),
    ),
]

#: Name in Airflow's form → name on this command line.
_FLAGS = {
    "`reship_reason`": "--reason",
    "`reship`": "--reship",
    "`skip_checks`": "--skip-check",
    "`skip_reason`": "--skip-reason",
    "`rate_limit`": "--rate-limit",
    "`plan_only`": "--plan-only",
}


def asked_window(pipeline: Pipeline, text: str) -> Window:
    """Return the window that --window names, in one of :data:`FORMS`; print it if the option does
    not write it out. Raises WindowError."""
    try:
        return parse_window(text)
    except WindowError:
        zone = pipeline.schedule.timezone if pipeline.schedule else "UTC"
        window = parse_expression(text, zone)
    clock = f", by the clock of {zone}" if is_relative(text) else ""
    err.say(f"--window {text} is {window}{clock}", "dim")
    return window


def chosen_window(
    pipeline: Pipeline, window: str | None, *, last: bool, settle_seconds: float
) -> Window:
    """Return the window of --window, or of --last: the latest that had closed ``settle_seconds``
    ago. Raises UsageError, WindowError."""
    if window and last:
        raise UsageError("--window and --last contradict each other. Choose one.", code="SHIP-102")
    if window:
        return asked_window(pipeline, window)
    if not last:
        raise UsageError(
            "no window was given. Give --window START/END, or --last for the latest window of "
            "the schedule."
        )
    if pipeline.schedule is None:
        raise UsageError(
            f"Pipeline {pipeline.name} has no `schedule`, so it has no latest window. Name the "
            "window with --window.",
            code="SHIP-105",
        )
    settled = runtime.now() - dt.timedelta(seconds=settle_seconds)
    return Ticks(pipeline.schedule).last_closed(settled)


def new_job(
    name: str,
    window: str | None,
    config: Path,
    steps: tuple[str, ...],
    *,
    last: bool = False,
    **told: Any,
) -> tuple[runner.Job, RunFolder]:
    """Make a job. ``told``: :class:`shipper.runner.JobOptions`. Raises UsageError for options that
    contradict each other, WindowError, ConfigError."""
    pipeline = load_pipeline(config, name)
    settle_seconds = pipeline.source.settle_seconds
    parsed = chosen_window(pipeline, window, last=last, settle_seconds=settle_seconds)
    job = runner.Job(
        pipeline, config, parsed.start, parsed.end, runner.new_run_id(), steps, brief=True, **told
    )
    if job.scheduled and pipeline.schedule is None:
        raise UsageError(
            f"--scheduled: pipeline {name} has no `schedule`, so no windows come before this "
            "one. Leave the option out.",
            code="SHIP-105",
        )
    if job.scheduled and job.reship:
        raise UsageError(
            "--scheduled and --reship contradict each other: a run that re-ships files does "
            "not look back. Choose one.",
            code="SHIP-102",
        )
    if fault := contradiction(job, pipeline):
        for of_form, flag in _FLAGS.items():
            fault = fault.replace(of_form, flag)
        raise UsageError(fault)
    if job.plan_only:
        job = replace(job, runs_uri=dry_runs_uri(job))
    return job, RunFolder(job.results_uri, pipeline.key, parsed.start, parsed.end, job.run_id)


def answered(job: runner.Job, report: RunReport) -> tuple[runner.Job, RunFolder] | None:
    """Ask at the terminal what becomes of a closed source gate (`gates.on_closed: ask`), and return
    the run that the answer wants. None: nobody is to be asked, or it is to be left."""
    gate, planned, spec = report.gate_source, report.plan, job.pipeline
    asks = spec.gates.on_closed == "ask" and not job.skip_checks and sys.stdin.isatty()
    if not asks or not gate or not planned or gate.status != "failed":
        return None
    if not (failed := failed_checks(gate, spec)):
        return None
    err.say(f"The source gate is closed. Nothing was sent.\n{question(gate, planned)}")
    answers = (SHIP_ANYWAY, SKIP_FAILED, LEAVE)
    for number, text in enumerate(answers, 1):
        err.say(f"  {number}  {text}")
    choice = click.prompt("Which", default=3, type=click.IntRange(1, 3), err=True)
    skips = skips_for(answers[choice - 1], failed, spec)
    if not skips:
        return None
    reason = click.prompt("Reason", err=True)
    why = f"{answers[choice - 1]}: {reason} ({getuser()}, {runtime.now():%Y-%m-%d %H:%M} UTC)"
    again = replace(job, run_id=runner.new_run_id(), skip_checks=skips, skip_reason=why)
    window = job.window_start, job.window_end
    return again, RunFolder(again.results_uri, spec.key, *window, again.run_id)
