"""Output of `shipper plan`, `gates` and `run`."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from rich.text import Text

from shipper import runner
from shipper.cli.console import err, out, print_json, table
from shipper.config.pipeline import Pipeline
from shipper.config.units import format_bytes, plural
from shipper.errors import StepResultError
from shipper.finding import Finding
from shipper.report.message import details, summary
from shipper.report.plan_result import ClusterPlan, PlanResult
from shipper.report.results import GateResult, RunReport
from shipper.report.run_folder import RunFolder
from shipper.report.run_view import run_view
from shipper.report.throughput import foretold
from shipper.stopping import Stopped

_SHOWN = 20
_STYLES = {"warn": "yellow", "fail": "red"}
#: State of a run → mark and colour of its headline.
_MARKS = {
    "shipped": ("✓", "green"),
    "nothing": ("✓", "green"),
    "doubt": ("!", "yellow"),
    "failed": ("✗", "red"),
    "blocked": ("✗", "red"),
}


def show_plan(result: PlanResult) -> None:
    if result.status == "failed" and not result.files:
        return
    window = result.window
    late = f" ({len(result.late_files):,} of them late)" if result.late_files else ""
    size = (
        f"{plural(len(result.files), 'file')}{late}, {format_bytes(result.total_bytes)}, "
        f"{plural(result.total_splits, 'split')}"
    )
    out.say(f"{result.pipeline} {window}   {size}", "bold")
    out.say(
        f"from {result.source}  to {', '.join(result.topics)}  transform {result.transform_digest}"
    )
    if result.left_out:
        out.say(result.left_out_in_words())
        for one in result.left_out_by_weight()[:_SHOWN]:
            out.say(f"  {one}", "yellow" if one.warns else None)
    if result.looked_back:
        back = result.looked_back
        out.say(
            f"looked back to {back.start:%Y-%m-%dT%H:%M:%SZ}: {plural(back.windows, 'window')}, "
            f"{plural(back.files, 'file')}"
        )
    clusters = table(
        "cluster",
        ">files there",
        ">begun",
        ">left",
        ">bytes left",
        ">records there",
        "missing topics",
    )
    for cluster in result.clusters:
        clusters.add_row(*_plan_row(cluster))
    out.show(clusters)
    files = table("file", ">bytes", ">splits")
    for file in result.files[:_SHOWN]:
        files.add_row(file.path, f"{file.size_bytes:,}", str(file.splits))
    out.show(files)
    out.say_more(len(result.files), _SHOWN, "--json lists all")
    for cluster in result.clusters:
        if cluster.tuning:
            out.say(f"{cluster.cluster}: {cluster.tuning}")
        if cluster.forecast:
            out.say(f"{cluster.cluster}: {foretold(cluster.forecast)}")
    for cluster in result.clusters:
        show_findings(cluster.findings)


def show_findings(found: Iterable[Finding]) -> None:
    """Show each finding, with what to do about it."""
    for one in found:
        terminal, style = (out, None) if one.severity == "ok" else (err, _STYLES[one.severity])
        terminal.say(one.text if one.severity == "fail" else f"{one.cluster}: {one.full}", style)


def _plan_row(cluster: ClusterPlan) -> list[str]:
    missing = ", ".join(cluster.missing_topics) or "—"
    if cluster.problem and not cluster.missing_topics:
        return [cluster.cluster, "?", "?", "?", "?", "?", "?"]
    counts = (cluster.complete_files, cluster.partial_files, cluster.left_files)
    return [
        cluster.cluster,
        *(f"{n:,}" for n in counts),
        format_bytes(cluster.left_bytes),
        f"{cluster.records_there:,}",
        missing,
    ]


def show_gate(result: GateResult) -> None:
    window = result.window
    scans = (
        "no scan of the lines"
        if not result.scans
        else f"{plural(result.scans, 'scan')} of the lines"
    )
    out.say(
        f"{result.pipeline} {window}   {result.scope or 'nothing was looked at'}   {scans}", "bold"
    )
    checks = table("", "check", "severity", "expected", "observed")
    for check in result.checks:
        mark = (
            Text("✓", "green")
            if check.passed
            else Text("✗", "red")
            if check.severity == "block"
            else Text("!", "yellow")
        )
        checks.add_row(mark, check.check, check.severity, check.expected, check.observed)
    if result.checks:
        out.show(checks)
    if result.error:
        err.say(result.error, "red")
    elif result.status == "skipped":
        out.say(f"skipped: {result.scope}")
    else:
        out.say("✓ The gate is open.", "green")


def say_killed(config: Path, pipeline: Pipeline) -> None:
    """Write the reports that killed runs of the pipeline owe, and say where they lie."""
    from shipper.driver.killed import report_killed

    for run in report_killed(config, pipeline):
        now = (
            f"Its report was written now: {run.report.page}"
            if run.report
            else f"It cannot be written now ({run.why}). The next command tries again."
        )
        err.say(
            f"Run {run.run_id} of window {run.window} was killed and wrote no report. {now}",
            "yellow",
        )


def run_to_report(job: runner.Job, *, as_json: bool) -> tuple[int, RunReport]:
    """Run all steps of a run, and print its report. Return the exit code, too. Raises
    StepResultError for a run without a report, Stopped."""
    stopped: Stopped | None = None
    folder, rest = RunFolder.of(job), job.request.how_to_finish(job.pipeline.name)
    folder.make()
    try:
        # spark-submit sends its child's standard error to standard output
        code = runner.run_job(job, stdout=sys.stderr.buffer)
    except Stopped as error:
        code, stopped = 128 + error.signum, error
    result = folder.find(runner.REPORT, RunReport)
    if result is None and stopped:
        stopped.there, stopped.rest = "What it sent until then is in the ledger", rest
        raise stopped
    if result is None:
        folder.try_to_write()  # or this is why there is no report, and its remedy the better one
        say_killed(job.config_dir, job.pipeline)
        why = StepResultError(
            f"the run {runner.how_it_ended(code)} and wrote no report itself. Its last lines "
            "above say why. What was sent is in the ledger. "
            f"{rest}. See {folder.uri}."
        )
        result = folder.find(runner.REPORT, RunReport) if as_json else None
        if result is None:
            raise why
        err.say(why.message, "red")
        code = why.exit_code
    if as_json:
        print_json(result)
        show_cause(result)
    else:
        show_run(result)
    return code, result


def show_run(result: RunReport) -> None:
    if result.asked.plan_only and result.plan:
        show_plan(result.plan)
        out.say("A dry run: nothing was sent, and the window does not count as shipped.", "bold")
    for ship in result.ships:
        for line in (*details(ship), summary(ship)):
            out.say(f"{ship.cluster}: {line}")
        show_findings(ship.findings)
    _show_closed(result)
    run = run_view(result)
    mark, style = _MARKS[run.state]
    out.say(f"{mark} {run.headline}", style)
    show_cause(result)
    out.say(f"report: {result.page}")


def show_cause(result: RunReport) -> None:
    """Show why the run failed, or why it ended as a warning. Also beside JSON: standard error is
    what cron sends by mail."""
    if result.error:
        err.say(f"FAILED  {result.error}", "bold red")
    for doubt in () if result.error else run_view(result).doubts:
        err.say(f"WARNING  {doubt}", "yellow")


def _show_closed(result: RunReport) -> None:
    """Show a closed gate's findings, line by line: its message names five at most."""
    closed = table("gate", "check that does not hold", "expected", "observed")
    for gate in filter(None, (result.gate_source, *result.delivery_gates)):
        for check in gate.checks:
            if not check.passed:
                closed.add_row(
                    f"{gate.step} {gate.cluster or ''}".strip(),
                    check.check,
                    check.expected,
                    check.observed,
                )
    if closed.row_count:
        err.show(closed)
