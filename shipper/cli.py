"""The command line: ``shipper validate · schema · plan · gates · run · ledger · quarantine · dev · demo``.

Every command that prints takes ``--json``: then standard output holds one JSON document and nothing else. Progress, logs and
errors go to standard error. Exit codes: 0 done, 1 failed run or closed gate, 2 wrong configuration or usage.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from shipper import runner
from shipper.bench.command import EPILOG as BENCH_EXAMPLES
from shipper.bench.command import bench
from shipper.config import ConfigFault, LoadedConfig, generated_files, load_all, load_pipeline, locate, resolve_uri
from shipper.config.units import format_bytes, format_duration
from shipper.dev.commands import app as dev_app
from shipper.errors import ShipperError, StepResultError, UsageError
from shipper.ledger_commands import app as ledger_app
from shipper.plan.window import Window, parse_window
from shipper.quarantine_commands import app as quarantine_app
from shipper.report import schema as report_schema
from shipper.report.markup import plural
from shipper.report.results import ClusterPlan, GateResult, PlanResult, RunFolder, RunReport

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)

app = typer.Typer(
    name="shipper",
    help="Ships log files from HDFS and S3 to remote Kafka clusters, exactly once.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
app.add_typer(ledger_app, name="ledger", help="What a cluster holds of a pipeline: look, check, copy, tidy up.")
app.add_typer(quarantine_app, name="quarantine", help="Records that could not be shipped: list, look, send repaired ones.")
app.add_typer(dev_app, name="dev", help="Real servers for development, on this machine.")

app.command(epilog=BENCH_EXAMPLES)(bench)

Config = Annotated[Path, typer.Option("--config", help="Folder with `pipelines/` and `clusters/`.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]
WindowText = Annotated[str, typer.Option("--window", help="START/END, ISO 8601, UTC unless it says otherwise.")]
Reship = Annotated[bool, typer.Option("--reship", help="Send files again that are there already; readers will see them twice.")]


@app.command(epilog="Example: `shipper validate` · `shipper validate --config /etc/shipper --no-sql`")
def validate(
    config: Config = Path("config"),
    as_json: Json = False,
    sql: Annotated[bool, typer.Option(help="Also let Spark analyse every SQL expression (takes seconds).")] = True,
) -> None:
    """Checks all pipelines and clusters, SQL expressions included, and shows every fault at once."""
    loaded = load_all(config)
    faults = list(loaded.faults)
    sql_checked = bool(sql and loaded.pipelines)
    if sql_checked:
        faults += _sql_faults(config, loaded)
    if as_json:
        print(
            json.dumps(
                {"faults": [str(fault) for fault in faults], "pipelines": sorted(loaded.pipelines), "sql_checked": sql_checked}
            )
        )
    else:
        for fault in faults:
            err.print(str(fault), style="red", markup=False, soft_wrap=True)
        count = f"{len(loaded.pipelines)} pipelines and {len(loaded.clusters)} clusters"
        if faults:
            err.print(f"[bold red]{len(faults)} faults.[/] {count} are right so far.")
        else:
            out.print(f"[green]✓[/] {count} are right" + ("." if sql_checked else " (SQL expressions were not analysed)."))
    raise typer.Exit(2 if faults else 0)


def _sql_faults(config: Path, loaded: LoadedConfig) -> list[ConfigFault]:
    """Spark's own analysis of the expressions, in the environment of the first pipeline's runner."""
    job_runner = next(iter(loaded.pipelines.values())).runner
    command = [job_runner.python or sys.executable, "-m", "spark_jobs", "--config", str(config), "check"]
    try:
        done = subprocess.run(
            command, env=runner.environment(job_runner), stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
        failed, said = done.returncode != 0, done.stderr.decode(errors="replace")
    except OSError as error:
        failed, said = True, str(error)
    if failed:
        tail = said.strip().splitlines()[-1:] or ["no output"]
        raise UsageError(
            f"SQL expressions could not be analysed: {command[0]} -m spark_jobs failed ({tail[0]}). Install shipper[spark] there, name "
            "another environment in `runner.python`, or leave them out with --no-sql."
        )
    found: dict[str, list[tuple[str, str]]] = json.loads(done.stdout)
    return [locate(config, name, field, message) for name, faults in found.items() for field, message in faults]


@app.command(epilog="Example: `shipper schema` writes the files · `shipper schema --check` fails if they are out of date")
def schema(
    config: Config = Path("config"),
    check: Annotated[bool, typer.Option("--check", help="Write nothing; exit 1 if a file differs.")] = False,
) -> None:
    """Writes the JSON Schemas that editors complete from, that of report.json, and the option reference, to CONFIG/schema/."""
    folder = config / "schema"
    files = {**generated_files(), report_schema.NAME: report_schema.report_schema_text()}
    stale = [name for name, text in files.items() if not (folder / name).exists() or (folder / name).read_text() != text]
    if check:
        for name in stale:
            err.print(f"{folder / name} is out of date; run `shipper schema`", style="red")
        raise typer.Exit(1 if stale else 0)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    out.print(f"{len(stale)} of {len(files)} files in {folder} were out of date and are written.")


@app.command(epilog="Example: `shipper plan web_access --window 2026-11-01T06:00/2026-11-01T07:00`")
def plan(
    pipeline: Annotated[str, typer.Argument(help="Name of the pipeline.")],
    window: WindowText,
    config: Config = Path("config"),
    reship: Reship = False,
    as_json: Json = False,
) -> None:
    """Shows what a run of the window would ship, and what each cluster holds already. Sends nothing."""
    with tempfile.TemporaryDirectory(prefix="shipper-plan-") as folder:
        job, run_folder = _job(pipeline, window, config, (runner.PLAN,), reship=reship, runs_uri=folder)
        code = runner.run_job(job, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        result = run_folder.find(runner.PLAN, PlanResult)
    if result is None:
        raise StepResultError(_left_no_result("plan", job, code))
    if as_json:
        print(result.model_dump_json(indent=1))
    else:
        _show_plan(result)
    problems = [cluster.problem for cluster in result.clusters if cluster.problem]
    if result.error and not problems:
        err.print(result.error, style="red", markup=False, soft_wrap=True)
    raise typer.Exit(code or (1 if problems else 0))


def _left_no_result(what: str, job: runner.Job, code: int) -> str:
    return f"the {what}'s process ended with code {code} and left no result; run `{' '.join(job.command())}` to see why"


def _show_plan(result: PlanResult) -> None:
    if result.status == "failed" and not result.files:
        return
    window = Window(result.window_start, result.window_end)
    size = f"{len(result.files):,} files, {format_bytes(result.total_bytes)}, {result.total_splits:,} splits"
    out.print(f"[bold]{result.pipeline}[/] {window}   {size}")
    out.print(f"from {result.source}  to topics {', '.join(result.topics)}  transform {result.transform_digest}", markup=False)
    if result.left_out:
        out.print(
            f"{len(result.left_out)} files left out; the first: {result.left_out[0].path}: {result.left_out[0].reason}",
            markup=False,
        )
    table = Table(
        "cluster", *(_right(name) for name in ("files there", "begun", "left", "bytes left", "records there")), "missing topics"
    )
    for cluster in result.clusters:
        table.add_row(*_plan_row(cluster))
    out.print(table)
    files = Table("file", *(_right(name) for name in ("bytes", "splits")))
    for file in result.files[:20]:
        files.add_row(file.path, f"{file.size_bytes:,}", str(file.splits))
    out.print(files)
    if len(result.files) > 20:
        out.print(f"… and {len(result.files) - 20:,} more; --json lists all.")
    for cluster in result.clusters:
        if cluster.tuning:
            out.print(f"{cluster.cluster}: {cluster.tuning}", markup=False, soft_wrap=True)
    for cluster in result.clusters:
        if cluster.problem:
            err.print(cluster.problem, style="red", markup=False, soft_wrap=True)


def _right(name: str) -> Any:
    from rich.table import Column

    return Column(name, justify="right")


def _plan_row(cluster: ClusterPlan) -> list[str]:
    missing = ", ".join(cluster.missing_topics) or "—"
    if cluster.problem and not cluster.missing_topics:
        return [cluster.cluster, "?", "?", "?", "?", "?", "?"]
    counts = (cluster.complete_files, cluster.partial_files, cluster.left_files)
    return [cluster.cluster, *(f"{n:,}" for n in counts), format_bytes(cluster.left_bytes), f"{cluster.records_there:,}", missing]


@app.command(epilog="Example: `shipper gates web_access --window 2026-11-01T06:00/2026-11-01T07:00`")
def gates(
    pipeline: Annotated[str, typer.Argument(help="Name of the pipeline.")],
    window: WindowText,
    config: Config = Path("config"),
    as_json: Json = False,
) -> None:
    """Runs the source gate alone, on all files of the window, shipped or not. Sends nothing and asks no cluster.

    Exit code 1 if the gate is closed.
    """
    with tempfile.TemporaryDirectory(prefix="shipper-gates-") as folder:
        steps = (runner.PLAN, runner.GATE_SOURCE)
        job, run_folder = _job(pipeline, window, config, steps, reship=False, runs_uri=folder, source_only=True)
        code = runner.run_job(job, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        result = run_folder.find(runner.GATE_SOURCE, GateResult)
        if result is None:
            plan = run_folder.find(runner.PLAN, PlanResult)
            raise StepResultError((plan and plan.error) or _left_no_result("gate", job, code))
    if as_json:
        print(result.model_dump_json(indent=1))
    else:
        _show_gate(result)
    raise typer.Exit(code)


def _show_gate(result: GateResult) -> None:
    window = Window(result.window_start, result.window_end)
    scans = "no scan of the lines" if not result.scans else f"{plural(result.scans, 'scan')} of the lines"
    out.print(f"[bold]{result.pipeline}[/] {window}   {result.scope or 'nothing was looked at'}   {scans}")
    table = Table("", "check", "severity", "expected", "observed")
    for check in result.checks:
        mark = "[green]✓[/]" if check.passed else "[red]✗[/]" if check.severity == "block" else "[yellow]![/]"
        table.add_row(mark, *(escape(text) for text in (check.check, check.severity, check.expected, check.observed)))
    if result.checks:
        out.print(table)
    if result.error:
        err.print(result.error, style="red", markup=False, soft_wrap=True)
    elif result.status == "skipped":
        out.print(f"skipped: {result.scope}")
    else:
        out.print("[green]✓[/] The gate is open.")


@app.command(epilog="Example: `shipper run web_access --window 2026-11-01T06:00/2026-11-01T07:00`; again: 0 sent")
def run(
    pipeline: Annotated[str, typer.Argument(help="Name of the pipeline.")],
    window: WindowText,
    config: Config = Path("config"),
    reship: Reship = False,
    as_json: Json = False,
) -> None:
    """Plans, gates, ships, gates again and reports: the steps of the DAG, by the same code, without Airflow."""
    steps = tuple(runner.step_names(load_pipeline(config, pipeline).clusters))
    job, folder = _job(pipeline, window, config, steps, reship=reship)
    code = runner.run_job(job, stdout=sys.stderr.buffer)  # spark-submit sends its child's standard error there
    result = folder.find(runner.REPORT, RunReport)
    if result is None:
        raise StepResultError(
            f"the run's process ended with code {code} and left no report in {folder.uri}; run the window again"
        )
    if as_json:
        print(json.dumps(_accounting(result), indent=1))
    else:
        _show_run(result)
    raise typer.Exit(code)


def _accounting(result: RunReport) -> dict[str, Any]:
    ledger = {(gate.cluster, topic.topic): topic.ledger for gate in result.delivery_gates for topic in gate.topics}
    clusters = {
        ship.cluster: {
            "status": ship.status,
            "error": ship.error,
            "read": ship.read,
            "unread": ship.unread,
            "delivered": ship.delivered,
            "before": ship.before,
            "filtered": ship.filtered,
            "quarantined": ship.quarantined,
            "ship_seconds": ship.ship_seconds,
            "topics": {
                topic.topic: {
                    "delivered": topic.delivered,
                    "before": topic.before,
                    "bytes": topic.delivered_bytes,
                    "ledger": ledger.get((ship.cluster, topic.topic)),
                }
                for topic in ship.topics
            },
        }
        for ship in result.ships
    }
    status = "failed" if result.first_cause else "succeeded"
    return {
        "pipeline": result.pipeline,
        "window": str(Window(result.window_start, result.window_end)),
        "run_id": result.run_id,
        "status": status,
        "error": result.first_cause,
        "clusters": clusters,
        "report": result.page,
    }


def _show_run(result: RunReport) -> None:
    table = Table("cluster", "topic", *(_right(name) for name in ("delivered", "before", "bytes")))
    for ship in result.ships:
        for topic in ship.topics:
            table.add_row(
                ship.cluster, topic.topic, f"{topic.delivered:,}", f"{topic.before:,}", format_bytes(topic.delivered_bytes)
            )
    if table.row_count:
        out.print(table)
    for ship in result.ships:
        rate = (
            f" in {format_duration(ship.ship_seconds)}: {ship.delivered / ship.ship_seconds:,.0f} records/s"
            if ship.ship_seconds
            else ""
        )
        out.print(f"{ship.cluster}: {ship.delivered:,} records sent{rate}; {ship.before:,} were there before.")
        for what, counts in (("filtered", ship.filtered), ("quarantined", ship.quarantined)):
            if counts:
                named = ", ".join(f"{name} {count:,}" for name, count in counts.items())
                out.print(f"{ship.cluster}: {sum(counts.values()):,} {what}: {named}", markup=False, soft_wrap=True)
    _show_closed(result)
    if result.first_cause:
        err.print(f"FAILED  {result.first_cause}", style="bold red", markup=False, soft_wrap=True)
    out.print(f"report: {result.page}", markup=False, soft_wrap=True)


def _show_closed(result: RunReport) -> None:
    """What a closed gate found, line by line: its message names five at most."""
    table = Table("gate", "check that does not hold", "expected", "observed")
    for gate in filter(None, (result.gate_source, *result.delivery_gates)):
        for check in gate.checks:
            if not check.passed:
                found = (f"{gate.step} {gate.cluster or ''}".strip(), check.check, check.expected, check.observed)
                table.add_row(*(Text(words) for words in found))
    if table.row_count:
        err.print(table)


def _job(
    name: str,
    window: str,
    config: Path,
    steps: tuple[str, ...],
    *,
    reship: bool,
    runs_uri: str | None = None,
    source_only: bool = False,
) -> tuple[runner.Job, RunFolder]:
    parsed = parse_window(window)
    pipeline = load_pipeline(config, name)
    job = runner.Job(pipeline, config, parsed.start, parsed.end, runner.new_run_id(), steps, reship, runs_uri, source_only)
    uri = runs_uri or resolve_uri(config, pipeline.runs_uri)
    return job, RunFolder(uri, name, parsed.start, parsed.end, job.run_id)


@app.command(epilog="Example: `shipper demo --lines 100000` · `shipper demo --keep`")
def demo(
    keep: Annotated[bool, typer.Option("--keep", help="Leave Kafka and Airflow's UI up until Ctrl-C.")] = False,
    lines: Annotated[int, typer.Option(min=1000, help="Log lines to write and ship.")] = 300_000,
) -> None:
    """The main job for real: Kafka, Airflow's scheduler, a DAG run, the report; then the same window again: 0 sent."""
    from shipper.demo.demo import run_demo

    raise typer.Exit(run_demo(keep=keep, lines=lines, console=out))


def main() -> None:
    """Entry point of the ``shipper`` command: errors become one paragraph and an exit code, never a stack trace."""
    try:
        app()
    except ShipperError as error:
        err.print(error.message, style="red", markup=False, soft_wrap=True)
        sys.exit(error.exit_code)
