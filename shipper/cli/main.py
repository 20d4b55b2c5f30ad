"""The command line: ``shipper new · list · validate · plan · preview · gates · run · replay · gaps
· …``; ``_Commands`` has them all.

Every command that prints takes ``--json``: then standard output holds one JSON document and nothing
else. Progress, logs and errors go to standard error. Exit codes: 0 done, 1 failed run or closed
gate, 2 wrong configuration or usage, 3 done with a warning, with --strict only.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import importlib.metadata
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

from shipper import runner, runtime
from shipper.cli.against import Change, changes
from shipper.cli.console import (
    NEEDS_A_LOOK,
    Commands,
    Config,
    Json,
    PipelineName,
    Strict,
    err,
    out,
    print_json,
    refuse_retired,
)
from shipper.cli.run_options import Last, MetricsPath, WindowText, answered, asks, new_job, trial
from shipper.cli.show import run_to_report, say_killed, show_gate, show_plan
from shipper.cli.usage import usage_text
from shipper.config.cases import case_faults
from shipper.config.environment import EVERYTHING, OF_AIRFLOW
from shipper.config.load import LoadedConfig, load_all, load_pipeline
from shipper.config.units import plural
from shipper.config.yaml_file import ConfigFault, common_code
from shipper.error_codes import code_of, with_code
from shipper.errors import ConfigError, ShipperError, UsageError
from shipper.report.metrics import MetricsFile, metrics_of_run
from shipper.report.plan_result import PlanResult
from shipper.report.report_schema import schema_texts
from shipper.report.results import GateResult
from shipper.report.run_view import run_view
from shipper.request import FORM, RunRequest
from shipper.stopping import Stopped, raise_when_stopped
from shipper.terminal import log_level, replace_unencodable_characters
from shipper.whole_files import StorageError, output_file

#: Tools for developers and for trying shipper out: the extra `dev` installs them, in the package
#: shipper-tools.
_TOOLS = {
    "bench": "shipper_tools.bench.command",
    "dev": "shipper_tools.dev.commands",
    "demo": "shipper_tools.demo.command",
}


class _Commands(Commands):
    """The commands. Modules of most are imported when they are asked for: a run need not wait for
    what benchmarks and servers need."""

    #: Name → module. Its ``app`` is the group or the one command with that name.
    elsewhere: ClassVar[Mapping[str, str]] = {
        "ledger": "shipper.cli.ledger",
        "quarantine": "shipper.cli.quarantine",
        "gaps": "shipper.cli.gaps",
        "list": "shipper.cli.list",
        "dags": "shipper.cli.dags",
        "doctor": "shipper.cli.doctor",
        "preview": "shipper.cli.preview",
        "test": "shipper.cli.test",
        "replay": "shipper.cli.replay",
        "new": "shipper.cli.new",
        **(_TOOLS if find_spec("shipper_tools") else {}),
    }

    def list_commands(self, ctx: Any) -> list[str]:
        return [*super().list_commands(ctx), *self.elsewhere]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if (module := self.elsewhere.get(cmd_name)) is None:
            return super().get_command(ctx, cmd_name)
        found = typer.main.get_command(importlib.import_module(module).app)
        found.name = cmd_name  # else the help lists a single command by the name of its function
        return found

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] in _TOOLS and args[0] not in self.elsewhere:
            raise UsageError(
                f"`shipper {args[0]}` is not in this installation. To add it, install the "
                f"release's `shipper_tools-{importlib.metadata.version('shipper')}-py3-none-any"
                ".whl`.",
                code="SHIP-110",
            )
        if args and self.get_command(ctx, args[0]) is None:
            refuse_retired(ctx, args)
            # Names the command that was probably meant.
            late = {name: self.get_command(ctx, name) for name in self.elsewhere}
            self.commands = {**self.commands, **late}
        return super().resolve_command(ctx, args)


app = typer.Typer(
    name="shipper",
    cls=_Commands,
    help="Ships log files from HDFS and S3 to remote Kafka clusters, exactly once.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)


def _version(wanted: bool) -> None:
    if wanted:
        out.say(f"shipper {importlib.metadata.version('shipper')}")
        raise typer.Exit


_WrongUsage: Any = typer.BadParameter.__base__  # typer exports no more of the family


@app.callback()
def options(
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose",
            "-v",
            help=(
                "Show Spark's stack traces, and the log of lanes and of the Kafka client. The "
                "same as SHIPPER_LOG=info."
            ),
        ),
    ] = False,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Ship log files from HDFS and S3 to remote Kafka clusters, exactly once."""
    log_level()
    if verbose:
        os.environ.setdefault("SHIPPER_LOG", "info")


OfPipeline = Annotated[
    str | None,
    typer.Argument(help="Only this pipeline and its clusters.", show_default="all"),
]
Sql = Annotated[
    bool, typer.Option(help="Also let Spark analyse every SQL expression (takes seconds).")
]
RunnerPython = Annotated[
    bool,
    typer.Option(
        "--runner-python",
        help=(
            "Analyse with the program that the first pipeline names as `runner.python`. "
            "Without this option, no program of the configuration is run."
        ),
    ),
]
Secrets = Annotated[
    bool,
    typer.Option(
        help="Also check that the variables and files that the configuration refers to exist."
    ),
]
Against = Annotated[
    Path | None,
    typer.Option(
        "--against",
        metavar="OLD_CONFIG",
        help="Also show what the change from this folder means for the next runs: another "
        "transform, topics, redaction, schedule or gates, new and removed pipelines.",
    ),
]


@app.command(
    epilog="Example: `shipper validate` · `shipper validate web_access` · `shipper validate "
    "--config /etc/shipper --no-sql` · `shipper validate --against /tmp/before/config`"
)
def validate(
    pipeline: OfPipeline = None,
    config: Config = Path("config"),
    as_json: Json = False,
    sql: Sql = True,
    runner_python: RunnerPython = False,
    secrets: Secrets = True,
    against: Against = None,
    strict: Strict = False,
) -> None:
    """Check all pipelines, clusters and tests, SQL expressions included, and show every fault at
    once. Run no program that the configuration names, and import only its notifiers."""
    from shipper.driver.checks import configuration as checks

    loaded = load_all(config, leave=OF_AIRFLOW if secrets else EVERYTHING)
    if pipeline is not None:
        loaded = _only(loaded, config, pipeline)
    found = changes(against, config, pipeline) if against else None
    refused = checks.refused_properties(config, loaded)
    doubtful = [fault for _, fault in checks.doubtful_sources(config, loaded)]
    warnings = [str(warning) for warning in (*loaded.warnings, *doubtful)]
    notifiers = checks.wrong_notifiers(config, loaded)
    wrong = list[tuple[str, ConfigFault]]()
    if sql and loaded.pipelines:
        err.say("Spark analyses the SQL expressions …", "dim")
        wrong += checks.wrong_sql(config, loaded, pipeline, runner_python=runner_python)
    wrong += [] if isinstance(notifiers, str) else notifiers
    faults = [*loaded.faults, *(fault for _, fault in refused)]
    faults += [*case_faults(config, loaded, pipeline), *(fault for _, fault in wrong)]
    document = {
        "faults": [str(fault) for fault in faults],
        "places": [_place(fault) for fault in faults],
        "warnings": warnings,
        "pipelines": sorted(loaded.pipelines.keys() - {name for name, _ in wrong}),
        "clusters": sorted(loaded.clusters.keys() - {name for name, _ in refused}),
        "sql_checked": bool(sql and loaded.pipelines),
        "notifiers_checked": not isinstance(notifiers, str),
        "changes": None if found is None else [asdict(change) for change in found],
    }
    if as_json:
        print_json(document)
    else:
        _show_validated(document, loaded, faults, found or [], notifiers)
    raise typer.Exit(2 if faults else NEEDS_A_LOOK if strict and warnings else 0)


def _show_validated(
    document: dict[str, Any],
    loaded: LoadedConfig,
    faults: list[ConfigFault],
    changed: list[Change],
    notifiers: object,
) -> None:
    for fault in faults:
        err.say(str(fault), "red")
    for warning in document["warnings"]:
        err.say(f"warning: {warning}", "yellow")
    for change in changed:
        out.say(str(change))
    listed = set(loaded.faults)
    if held_up := [name for name, own in loaded.broken.items() if listed.isdisjoint(own)]:
        err.say(f"These pipelines are broken too: {', '.join(sorted(held_up))}.", "red")
    pipelines = plural(len(document["pipelines"]), "pipeline")
    right = f"{pipelines} and {plural(len(document['clusters']), 'cluster')} are right"
    if faults:
        counts = f"{plural(len(faults), 'fault')}. {right} so far."
        err.say(with_code(counts, common_code(faults)), "bold red")
        return
    unchecked = [] if document["sql_checked"] else ["SQL expressions were not analysed"]
    if not document["notifiers_checked"]:
        unchecked.append(f"notifiers were not checked: {notifiers}")
    out.say(f"✓ {right}" + (f" ({'; '.join(unchecked)})." if unchecked else "."), "green")


def _only(loaded: LoadedConfig, config: Path, name: str) -> LoadedConfig:
    """Return the configuration of one pipeline. Raises ConfigError if there is no such file."""
    if name not in loaded.pipelines and name not in loaded.broken:
        load_pipeline(config, name)
    pipelines = {name: loaded.pipelines[name]} if name in loaded.pipelines else {}
    wanted = {cluster for pipeline in pipelines.values() for cluster in pipeline.clusters}
    clusters = {cluster: model for cluster, model in loaded.clusters.items() if cluster in wanted}
    files = tuple(f"{cluster}.yaml" for cluster in wanted)
    warnings = tuple(
        found for found in loaded.warnings if found.file.endswith(("/" + name + ".yaml", *files))
    )
    return LoadedConfig(pipelines, clusters, loaded.broken.get(name, ()), loaded.broken, warnings)


def _place(fault: ConfigFault) -> dict[str, str | int | None]:
    return {
        "file": fault.file,
        "line": fault.line,
        "column": fault.column,
        "path": fault.field,
        "message": fault.message,
        "code": fault.code or ConfigError.code,
    }


@app.command(
    epilog="Example: `shipper schema` writes the files · `shipper schema --check` fails if they "
    "are out of date"
)
def schema(
    config: Config = Path("config"),
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit 1 if a file differs.")
    ] = False,
) -> None:
    """Write the JSON Schemas for editors, the schema of report.json and the option reference to
    CONFIG/schema/."""
    files = {config / "schema" / name: text for name, text in schema_texts().items()}
    stale = [path for path, text in files.items() if not path.exists() or path.read_text() != text]
    if check:
        for path in stale:
            err.say(f"{path} is out of date. Run `shipper schema`.", "red")
        raise typer.Exit(1 if stale else 0)
    for path, text in files.items():
        with output_file(path, force=True) as part:
            part.write_text(text)
    out.say(f"{len(stale)} of {plural(len(files), 'file')} were out of date. All are written.")


@app.command(
    epilog="Example: `shipper plan web_access --window 2026-11-01T06:00/2026-11-01T07:00` · "
    "`shipper plan web_access --last`"
)
@asks("scheduled", "reship", "new_ledger")
def plan(
    pipeline: PipelineName,
    window: WindowText = None,
    last: Last = False,
    config: Config = Path("config"),
    *,
    request: RunRequest,
    as_json: Json = False,
) -> None:
    """Show what a run of the window would ship, and what each cluster holds already. Sends
    nothing."""
    reason = "a plan alone" if request.reship else None
    asked = request.model_copy(update={"reship_reason": reason})
    job = new_job(pipeline, window, config, (runner.PLAN,), asked, last=last)
    result, code = trial(job, PlanResult)
    if as_json:
        print_json(result)
    else:
        show_plan(result)
    problems = [cluster.problem for cluster in result.clusters if cluster.problem]
    if result.error and not problems:
        err.say(result.error, "red")
    raise typer.Exit(code or (1 if problems else 0))


@app.command(
    epilog="Example: `shipper gates web_access --window 2026-11-01T06:00/2026-11-01T07:00`"
)
def gates(
    pipeline: PipelineName,
    window: WindowText = None,
    last: Last = False,
    config: Config = Path("config"),
    strict: Strict = False,
    as_json: Json = False,
) -> None:
    """Run the source gate alone, on all files of the window, shipped or not. Sends nothing and asks
    no cluster.

    Exit code 1 if the gate is closed.
    """
    steps, request = (runner.PLAN, runner.GATE_SOURCE), RunRequest(source_only=True)
    job = new_job(pipeline, window, config, steps, request, last=last)
    result, code = trial(job, GateResult)
    if as_json:
        print_json(result)
    else:
        show_gate(result)
    warned = not all(check.passed for check in result.checks)
    raise typer.Exit(code or (NEEDS_A_LOOK if strict and warned else 0))


@app.command(
    epilog="Example: `shipper run web_access --window 2026-11-01T06:00/2026-11-01T07:00`; again: "
    "0 sent"
)
@asks("scheduled", *FORM)
def run(
    pipeline: PipelineName,
    window: WindowText = None,
    last: Last = False,
    config: Config = Path("config"),
    *,
    request: RunRequest,
    metrics_file: MetricsPath = None,
    strict: Strict = False,
    as_json: Json = False,
) -> None:
    """Plan, gate, ship, gate again and report: the steps of the DAG, by the same code, without
    Airflow. --json prints report.json."""
    job = new_job(pipeline, window, config, (), request, last=last)
    metrics = MetricsFile(metrics_file) if metrics_file else None
    say_killed(config, job.pipeline)
    code, result = run_to_report(job, as_json=as_json)
    if not as_json and (again := answered(job, result)):
        code, result = run_to_report(again, as_json=as_json)
    try:
        if metrics:
            metrics.add(metrics_of_run(result, runtime.now()))
    except UsageError as error:  # the records are shipped, even if their figures cannot be written
        err.say(error.message, "yellow")
    warned = run_view(result).event == "warning"
    raise typer.Exit(code or (NEEDS_A_LOOK if strict and warned else 0))


def main() -> None:
    """Run the ``shipper`` command: errors become one paragraph and an exit code, never a stack
    trace."""
    replace_unencodable_characters()
    raise_when_stopped()
    try:
        code = int(app(prog_name="shipper", standalone_mode=False) or 0)
        sys.stdout.flush()
    except Stopped as stopped:
        code = _failed(stopped.message_of_command, 128 + stopped.signum)
    except ShipperError as error:
        code = _failed(error.message, error.exit_code)
    except _WrongUsage as error:
        code = _wrong_usage(error)
    except typer.Abort:
        code = 1
    except StorageError as error:
        from shipper.report.run_folder import not_reached

        found = not_reached(error, "the storage of the runs", "Run the command again.")
        code = _failed(found.message, found.exit_code)
    except OSError as error:
        code = _output_is_gone(error)
    except SystemExit as end:  # rich and typer end the process where an output has no reader
        if not isinstance(end.__context__, BrokenPipeError):
            raise
        code = _output_is_gone(end.__context__)
    sys.exit(code)


def _wrong_usage(error: Any) -> int:
    try:
        if option := getattr(error, "option_name", None):
            refuse_retired(error.ctx, [option])
    except UsageError as retired:
        return _failed(retired.message, retired.exit_code)
    return _failed(with_code(usage_text(error), UsageError.code), error.exit_code)


def _wants_json() -> bool:
    return "--json" in sys.argv


def _failed(message: str, code: int) -> int:
    """Print the error to standard error, and, if a document was asked for, to standard output
    too."""
    with contextlib.suppress(OSError):  # a terminal that was closed
        err.say(message, "red")
    try:
        if _wants_json():
            print_json({"error": message, "code": code_of(message), "exit_code": code})
        sys.stdout.flush()
    except OSError as error:
        return _output_is_gone(error)
    return code


def _output_is_gone(error: OSError) -> int:
    """Handle an output that is full, or whose reader has gone. Python would write once more at the
    end, and print an error."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    if error.errno == errno.EPIPE:
        return 128 + signal.SIGPIPE
    where = error.filename or "standard output"
    with contextlib.suppress(OSError):
        err.say(f"{where}: {error.strerror or error} [SHIP-104]", "red")
    return 1
