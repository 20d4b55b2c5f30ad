"""``shipper preview``: what lines would become."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from shipper import runner, runtime
from shipper.cli.console import Config, Json, PipelineName, err, new_app, out, print_json
from shipper.cli.named import check_clusters, named_files
from shipper.cli.run_options import WindowText, chosen_window, trial
from shipper.cli.save_test import refuse_second, save_test
from shipper.config.load import load_pipeline
from shipper.config.units import plural
from shipper.errors import StepResultError
from shipper.report.preview_result import PreviewedLine, PreviewResult
from shipper.report.tested import moment
from shipper.request import RunRequest
from shipper.windows.window import Window

EPILOG = (
    "Example: `shipper preview web_access --last` · `shipper preview web_access --file "
    "logs/a.log.gz -n 100 --json` · `shipper preview web_access --last --save-test`"
)
_MOST_LINES = 1_000
_COLOURS = {"shipped": "green", "dropped": "dim", "quarantined": "yellow", "fails": "red"}

app = new_app("preview")


LastClosed = Annotated[
    bool, typer.Option("--last", help="The latest window of the schedule that has closed.")
]
Files = Annotated[
    list[str] | None,
    typer.Option(
        "--file", help="Lines of this file, wherever it lies. May be given several times."
    ),
]
AsCluster = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        help="Show the lines as this cluster gets them, if `clusters` gives it its own routes.",
    ),
]
Lines = Annotated[int, typer.Option("-n", "--lines", min=1, max=_MOST_LINES, help="How many.")]
Save = Annotated[
    bool,
    typer.Option(
        "--save-test",
        help="Also write CONFIG/tests/PIPELINE.yaml, a first file for `shipper test`, if none "
        "exists. It holds the lines.",
    ),
]


@app.command(epilog=EPILOG)
def preview(
    pipeline: PipelineName,
    window: WindowText = None,
    last: LastClosed = False,
    file: Files = None,
    cluster: AsCluster = None,
    lines: Lines = 20,
    save: Save = False,
    config: Config = Path("config"),
    as_json: Json = False,
) -> None:
    """Show lines and the records that they would become: topic, key, headers, and which lines are
    dropped or quarantined and why.

    Lines are read and judged as in a run. No cluster is asked and nothing is sent, so records that
    are too large for their topic are not recognised.
    """
    spec = load_pipeline(config, pipeline)
    check_clusters(spec, [cluster] if cluster else [])
    if save:
        refuse_second(config, pipeline)
    if file and spec.schedule is None and not window and not last:
        now = runtime.now().replace(microsecond=0)
        about = Window(now - dt.timedelta(hours=1), now)
    else:
        about = chosen_window(spec, window, last=last or not window, settle_seconds=0)
    request = RunRequest(
        source_only=True,
        brief=True,
        lines=lines,
        files=tuple(named_files(config, file)) if file else (),
    )
    steps = (runner.PLAN, f"{runner.PREVIEW}:{cluster}" if cluster else runner.PREVIEW)
    run_id = runner.new_run_id()
    job = runner.Job(spec, config, about, run_id, steps, request)
    result, code = trial(job, PreviewResult)
    if result.error:
        raise StepResultError(result.error)
    if as_json:
        print_json(result)
    else:
        _show(result)
    if save and code == 0:
        _say_saved(pipeline, *save_test(config, spec, result.lines, cluster))
    raise typer.Exit(code)


def _say_saved(pipeline: str, file: Path, cases: int, left_out: list[str]) -> None:
    err.say(
        f"{file} is written, with {plural(cases, 'case')}. Read it, then run "
        f"`shipper test {pipeline}`. It holds lines as they were read: remove everything that "
        "must not be committed."
    )
    if left_out:
        shown = ", ".join(left_out[:5])
        more = f" and {len(left_out) - 5} more" if left_out[5:] else ""
        err.say(f"Left out, because the text of a test cannot hold them: {shown}{more}.", "yellow")


def _show(result: PreviewResult) -> None:
    for line in result.lines:
        _show_line(line)
    for found in result.findings:
        err.say(found.full, "yellow")
    counts = Counter((line.outcome, line.why or line.topic) for line in result.lines)
    said = [
        f"{count} to {what}" if outcome == "shipped" else f"{count} {outcome} ({what})"
        for (outcome, what), count in sorted(counts.items())
    ]
    out.say(
        f"{plural(len(result.lines), 'line')} of {plural(result.files, 'file')}: "
        f"{', '.join(said) or 'nothing'}.",
        "bold",
    )


def _show_line(line: PreviewedLine) -> None:
    """Print a paragraph for a line, one part of the record on each row."""
    becomes = (
        f"→ {line.topic}" if line.outcome == "shipped" else f"{line.outcome}: {line.why_in_full}"
    )
    if line.outcome == "quarantined":
        becomes += f" → {line.topic}"
    where = f"{line.file.rpartition('/')[2]}:{line.record}"
    out.row(f"{where}  {becomes}", _COLOURS[line.outcome])
    parts = [("line", line.line)]
    if line.outcome == "shipped" or line.value is not None:
        value = "(null)" if line.value is None else line.value
        parts.append(("value", "(the same)" if value == line.line else value))
    if line.key is not None:
        parts.append(("key", line.key))
    parts += [("header", f"{name}={value}") for name, value in line.headers.items()]
    if line.timestamp_ms is not None:
        parts.append(("time", moment(line.timestamp_ms)))
    for name, text in parts:
        out.row(f"  {name:6} {text}")
