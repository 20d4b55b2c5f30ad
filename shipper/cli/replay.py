"""``shipper replay``: ships records again on purpose."""

from __future__ import annotations

import dataclasses
import datetime as dt
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from shipper import runner, runtime
from shipper.cli.console import Config, Json, PipelineName, err, new_app
from shipper.cli.named import check_clusters, named_files
from shipper.cli.run_options import asked_window
from shipper.cli.show import run_to_report
from shipper.config.load import load_pipeline
from shipper.config.pipeline import Pipeline
from shipper.config.replay_request import Replay, replayed
from shipper.config.rules import resolve_uri
from shipper.config.units import parse_rate
from shipper.errors import UsageError
from shipper.report.replays import find_replay, keep_replay, unknown
from shipper.request import RunRequest
from shipper.windows.expression import FORMS
from shipper.windows.window import Window, parse_moment

EPILOG = (
    "Example: `shipper replay web_access --from 2026-11-01T06:20 --to 2026-11-01T06:40 "
    "--topic-prefix again. --rate 5MB/s --reason 'consumer lost its state'`; one that did not "
    "end: `shipper replay web_access --id ID`"
)
app = new_app("replay")

Reason = Annotated[
    str | None,
    typer.Option("--reason", help="Reason, for the records' headers and the report."),
]
From = Annotated[
    str | None,
    typer.Option("--from", help="Replay records from this time on, by `records.timestamp`."),
]
To = Annotated[str | None, typer.Option("--to", help="… and before this.")]
Where = Annotated[
    str | None,
    typer.Option(
        "--window",
        help=f"Where to look for files: {FORMS}.",
        show_default="from --from to --to",
    ),
]
Files = Annotated[
    list[str] | None,
    typer.Option(
        "--files", help="Replay this file instead of a window's. May be given several times."
    ),
]
TopicPrefix = Annotated[
    str,
    typer.Option(
        "--topic-prefix",
        help="Prefix of each topic's name. The topics must exist.",
        show_default="the same topics",
    ),
]
Rate = Annotated[
    str | None,
    typer.Option(
        "--rate",
        help="Most bytes per second to each cluster, such as 5MB/s; with --id, from now on.",
    ),
]
OfClusters = Annotated[
    list[str] | None,
    typer.Option(
        "--cluster", help="One of its clusters; may be given several times.", show_default="all"
    ),
]
Id = Annotated[
    str | None,
    typer.Option("--id", help="Continue this replay: send what is missing of it."),
]
Yes = Annotated[
    bool,
    typer.Option("--yes", help="Confirm that consumers of the same topics will see duplicates."),
]


@app.command(epilog=EPILOG)
def replay(
    pipeline: PipelineName,
    reason: Reason = None,
    start: From = None,
    end: To = None,
    window: Where = None,
    files: Files = None,
    topic_prefix: TopicPrefix = "",
    rate: Rate = None,
    cluster: OfClusters = None,
    id: Id = None,
    yes: Yes = False,
    config: Config = Path("config"),
    as_json: Json = False,
) -> None:
    """Ship a range of event time, a window or some files once more: to the same topics, or to
    others.

    A replay is a run with its own place in the ledger: with the same --id it sends the missing
    records, and nothing twice.
    """
    spec = load_pipeline(config, pipeline)
    runs_uri = resolve_uri(config, spec.runs_uri)
    before = find_replay(runs_uri, spec.key, id) if id else None
    asked = _Asked(id, reason, start, end, window, files, topic_prefix, rate, cluster)
    wanted = _again(before, asked) if before else _new(config, spec, runs_uri, asked)
    derived = replayed(spec, wanted)
    if before is None and not topic_prefix and not yes:
        _confirm(spec)
    if wanted != before:
        keep_replay(runs_uri, spec.key, wanted)
    job = runner.Job(
        spec,
        config,
        Window(wanted.window_start, wanted.window_end),
        runner.new_run_id(),
        tuple(runner.step_names(tuple(derived.clusters))),
        RunRequest(replay=wanted, files=wanted.files, brief=True),
    )
    err.say(f"replay {wanted.id}")
    code, _ = run_to_report(job, as_json=as_json)
    if code:
        err.say(f"replay {wanted.id} is not complete. {wanted.how_to_finish(pipeline)}.", "red")
    raise typer.Exit(code)


@dataclass(frozen=True)
class _Asked:
    """The command's options that say what to replay."""

    id: str | None
    reason: str | None
    start: str | None
    end: str | None
    window: str | None
    files: list[str] | None
    topic_prefix: str
    rate: str | None
    clusters: list[str] | None

    def names_records(self) -> bool:
        return any(dataclasses.asdict(replace(self, id=None, rate=None)).values())


def _again(before: Replay, asked: _Asked) -> Replay:
    if asked.names_records():
        raise UsageError(
            f"replay {asked.id} exists already and fixes what is replayed. Nothing was sent. To "
            "send what is missing of it, give only --id and --rate.",
            code="SHIP-112",
        )
    return before.model_copy(update={"rate_limit": _rate(asked.rate)}) if asked.rate else before


def _new(config: Path, spec: Pipeline, runs_uri: str, asked: _Asked) -> Replay:
    if asked.id and not asked.names_records() and not asked.rate:
        raise unknown(runs_uri, spec.name, asked.id)
    times = _times(asked.start, asked.end)
    if not asked.reason:
        raise UsageError(
            "--reason is missing. Nothing was sent. Say why the records are replayed: their "
            "headers and the report carry the reason."
        )
    check_clusters(spec, asked.clusters or ())
    files = named_files(config, asked.files or ())
    window = _window(spec, times, asked.window, files)
    try:
        return Replay(
            id=asked.id or runner.new_run_id().lower(),
            reason=asked.reason,
            start=times.start if times else None,
            end=times.end if times else None,
            topic_prefix=asked.topic_prefix,
            rate_limit=_rate(asked.rate),
            clusters=tuple(asked.clusters or ()),
            window_start=window.start,
            window_end=window.end,
            files=tuple(files),
        )
    except ValueError as error:
        raise UsageError(
            f"--id {asked.id} is not valid. Use lower-case letters, digits and '-', and at most "
            "40 characters."
        ) from error


def _times(start: str | None, end: str | None) -> Window | None:
    if (start is None) != (end is None):
        raise UsageError("--from and --to belong together. Give both.")
    return Window(parse_moment(start), parse_moment(end)) if start and end else None


def _window(
    spec: Pipeline, times: Window | None, window: str | None, files: list[str] | None
) -> Window:
    if window and files:
        raise UsageError(
            "--window and --files contradict each other: a replay covers either the files of "
            "a window or the named files. Choose one.",
            code="SHIP-102",
        )
    if window:
        return asked_window(spec, window)
    if times:
        return times
    if not files:
        raise UsageError(
            "it is not said what to replay. Give --from and --to, a --window, or --files."
        )
    hour = runtime.now().replace(minute=0, second=0, microsecond=0)
    return Window(hour, hour + dt.timedelta(hours=1))


def _rate(text: str | None) -> int | None:
    try:
        return None if text is None else parse_rate(text)
    except ValueError as error:
        raise UsageError(f"--rate {text}: {error}") from error


def _confirm(spec: Pipeline) -> None:
    topics = ", ".join(dict.fromkeys(route.topic for route in spec.routes))
    what = f"Consumers of {topics} will see these records once more."
    if not sys.stdin.isatty():
        raise UsageError(
            f"{what} Nothing was sent. Confirm with --yes, or send to other topics with "
            "--topic-prefix.",
            code="SHIP-109",
        )
    typer.confirm(f"{what} Go on?", abort=True, err=True)
