"""``shipper list``: the pipelines, and the time until which each cluster has their records."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import typer

from shipper import runtime
from shipper.cli.console import Config, Json, err, new_app, out, print_json, table
from shipper.config.environment import EVERYTHING
from shipper.config.load import load_all
from shipper.config.pipeline import Pipeline
from shipper.config.rules import resolve_uri
from shipper.config.units import plural
from shipper.config.yaml_file import common_code
from shipper.error_codes import with_code
from shipper.errors import ShipperError, why_system
from shipper.report.late import fresh_until

EPILOG = "Example: `shipper list` · `shipper list --json`"

app = new_app("list")


@app.command(epilog=EPILOG)
def list_(config: Config = Path("config"), as_json: Json = False) -> None:
    """List the pipelines: schedule, source, topics, and for each cluster the end of the latest
    complete window.

    The files in CONFIG and the results in `runs_uri` are read; no cluster is asked. Exit code 2 if
    a file is wrong, 1 if results cannot be read.
    """
    loaded = load_all(config, EVERYTHING)
    problems: list[str] = []
    shown = [_about(config, pipeline, problems) for _, pipeline in sorted(loaded.pipelines.items())]
    if as_json:
        print_json(
            {
                "pipelines": shown,
                "broken": sorted(loaded.broken),
                "problems": [*map(str, loaded.faults), *problems],
            }
        )
    else:
        if shown or not loaded.faults:
            _show(shown)
        for problem in [*map(str, loaded.faults), *problems]:
            err.say(problem, "red")
        if loaded.faults:
            counts = f"{plural(len(loaded.faults), 'fault')} in {config}."
            err.say(with_code(counts, common_code(loaded.faults)), "bold red")
    raise typer.Exit(2 if loaded.faults else 1 if problems else 0)


def _about(config: Path, pipeline: Pipeline, problems: list[str]) -> dict[str, Any]:
    fresh: dict[str, dt.datetime] = {}
    try:
        fresh = fresh_until(
            resolve_uri(config, pipeline.runs_uri),
            pipeline.key,
            pipeline.clusters,
            runtime.now(),
        )
    except (OSError, ValueError, ShipperError) as error:
        problems.append(
            f"{pipeline.name}: its results in {pipeline.runs_uri} cannot be read: "
            f"{why_system(error)}"
        )
    return {
        "pipeline": pipeline.name,
        "owner": pipeline.owner,
        "description": pipeline.description,
        "schedule": pipeline.schedule.cron if pipeline.schedule else None,
        "source": pipeline.source.path,
        "topics": list(dict.fromkeys(route.topic for _, route in pipeline.all_routes())),
        "clusters": {
            name: fresh[name].isoformat() if name in fresh else None for name in pipeline.clusters
        },
    }


def _show(shown: list[dict[str, Any]]) -> None:
    rows = table("pipeline", "schedule", "source", "topics", "cluster: there until")
    for one in shown:
        until = (
            f"{name}: {at[:16] + 'Z' if at else 'nothing yet'}"
            for name, at in one["clusters"].items()
        )
        rows.add_row(
            one["pipeline"],
            one["schedule"] or "by hand",
            one["source"],
            "\n".join(one["topics"]),
            "\n".join(until),
        )
    if shown:
        out.show(rows)
    out.say(f"{plural(len(shown), 'pipeline')}.")
