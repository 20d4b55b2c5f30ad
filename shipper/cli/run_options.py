"""Options of commands that make a run: those of its request (:mod:`shipper.request`), and its
window; and the job with these options."""

from __future__ import annotations

import datetime as dt
import functools
import inspect
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from getpass import getuser
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast

import click
import typer
from pydantic.fields import FieldInfo

from shipper import runner, runtime
from shipper.cli.console import err
from shipper.config.load import load_pipeline
from shipper.config.pipeline import Pipeline
from shipper.errors import StepResultError, UsageError
from shipper.gate_question import (
    LEAVE,
    SHIP_ANYWAY,
    SKIP_FAILED,
    failed_checks,
    question,
    skips_for,
)
from shipper.report.plan_result import PlanResult
from shipper.report.results import RunReport
from shipper.report.run_folder import RunFolder, StepResult
from shipper.request import RunRequest, contradiction
from shipper.windows.expression import FORMS, is_relative, parse_expression
from shipper.windows.ticks import Ticks
from shipper.windows.window import Window

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

C = TypeVar("C", bound=Callable[..., None])
R = TypeVar("R", bound=StepResult)


def flag_of(field: str) -> str:
    """Return the option that sets the field of a request."""
    if field == "reship_reason":
        return "--reason"
    several = isinstance(RunRequest.model_fields[field].default, tuple)
    return f"--{(field.removesuffix('s') if several else field).replace('_', '-')}"


def asks(*fields: str) -> Callable[[C], C]:
    """Return a decorator that gives a command, in place of its parameter ``request``, an option for
    each field of a request."""

    def decorated(command: C) -> C:
        signature = inspect.signature(command, eval_str=True)
        options = [_option(name, RunRequest.model_fields[name]) for name in fields]
        own = [one for name, one in signature.parameters.items() if name != "request"]

        @functools.wraps(command)
        def run(**given: Any) -> None:
            asked = {name: given.pop(name) for name in fields}
            asked = {name: value for name, value in asked.items() if value is not None}
            command(**given, request=RunRequest(**asked))

        parameters = sorted([*options, *own], key=lambda each: each.kind)
        run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in parameters}
        return cast(C, run)

    return decorated


def _option(name: str, field: FieldInfo) -> inspect.Parameter:
    kind, default, help = field.annotation, field.default, field.description or ""
    if isinstance(default, tuple):
        kind, default, help = list[str] | None, None, f"{help} May be given several times."
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[kind, typer.Option(flag_of(name), help=help)],
    )


def asked_window(pipeline: Pipeline, text: str) -> Window:
    """Return the window that --window names, in one of :data:`FORMS`; print it if the option writes
    it in another way. Raises WindowError."""
    zone = pipeline.schedule.timezone if pipeline.schedule else "UTC"
    window = parse_expression(text, zone)
    clock = f", by the clock of {zone}" if is_relative(text) else ""
    if text != str(window):
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
    request: RunRequest,
    *,
    last: bool = False,
) -> runner.Job:
    """Make a job; without ``steps``, of all that the request needs. Raises UsageError for options
    that contradict each other, WindowError, ConfigError."""
    pipeline = load_pipeline(config, name)
    settle_seconds = pipeline.source.settle_seconds
    parsed = chosen_window(pipeline, window, last=last, settle_seconds=settle_seconds)
    if request.scheduled and pipeline.schedule is None:
        raise UsageError(
            f"--scheduled: pipeline {name} has no `schedule`, so no windows come before this "
            "one. Leave the option out.",
            code="SHIP-105",
        )
    if request.scheduled and request.reship:
        raise UsageError(
            "--scheduled and --reship contradict each other: a run that re-ships files does "
            "not look back. Choose one.",
            code="SHIP-102",
        )
    if fault := contradiction(request, pipeline, flag_of):
        raise UsageError(fault)
    return runner.Job(
        pipeline,
        config,
        parsed,
        runner.new_run_id(),
        steps or runner.steps_of(pipeline, request),
        request.model_copy(update={"brief": True}),
    )


def trial(job: runner.Job, kind: type[R]) -> tuple[R, int]:
    """Run a job whose results are kept for as long as it takes. Return the result of its last step,
    and the exit code. Raises StepResultError if there is no result."""
    with tempfile.TemporaryDirectory(prefix="shipper-trial-") as folder:
        job = replace(job, request=job.request.model_copy(update={"runs_uri": folder}))
        results = RunFolder.of(job)
        code = runner.run_job(job, stdout=sys.stderr.buffer)
        if result := results.find(job.steps[-1].replace(":", "."), kind):
            return result, code
        plan = results.find(runner.PLAN, PlanResult)
    how = f"the {job.steps[-1]} {runner.how_it_ended(code)} and left no result."
    last = f"{how} Its last lines above say why. Nothing was sent."
    raise StepResultError((plan and plan.error) or last)


def answered(job: runner.Job, report: RunReport) -> runner.Job | None:
    """Ask at the terminal what becomes of a closed source gate (`gates.on_closed: ask`), and return
    the run that the answer wants. None: nobody is to be asked, or it is to be left."""
    gate, planned, spec = report.gate_source, report.plan, job.pipeline
    asks = spec.gates.on_closed == "ask" and not job.request.skip_checks and sys.stdin.isatty()
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
    request = job.request.model_copy(update={"skip_checks": skips, "skip_reason": why})
    return replace(job, run_id=runner.new_run_id(), request=request)
