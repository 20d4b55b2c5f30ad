"""``shipper diff``: consequences of a change of the configuration, before it is merged."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shipper.cli.console import Config, Json, err, new_app, out, print_json
from shipper.config import LoadedConfig, load_all
from shipper.config.environment import EVERYTHING
from shipper.config.load import hash_keys
from shipper.config.pipeline import Pipeline
from shipper.errors import ConfigError
from shipper.report.changes import (
    Change,
    ClusterChanges,
    ConfigChanges,
    PipelineChanges,
    compare_clusters,
    compare_pipelines,
    new_pipeline,
    removed_pipeline,
)
from shipper.report.markup import plural, words

EPILOG = (
    "Example: `git worktree add /tmp/before main && shipper diff /tmp/before/config` · `shipper "
    "diff old/ --config new/ --json`"
)

app = new_app("diff")


@app.command(epilog=EPILOG)
def diff(
    old: Annotated[Path, typer.Argument(help="Folder with the earlier configuration.")],
    config: Config = Path("config"),
    as_json: Json = False,
) -> None:
    """Show what a change of the configuration means for the next runs: another transform, topics,
    redaction, schedule, gates. CONFIG is the new configuration.

    No server is asked, and no secret is needed. Exit code 2 if a file is wrong, else 0.
    """
    found = _compared(old, config)
    if as_json:
        print_json(found)
    else:
        _show(found)


def _loaded(folder: Path) -> LoadedConfig:
    """Load a folder. Raise ConfigError with all its faults."""
    loaded = load_all(folder, EVERYTHING)
    if loaded.faults:
        raise ConfigError("\n".join(map(str, loaded.faults)))
    return loaded


def _compared(old: Path, new: Path) -> ConfigChanges:
    before, now = _loaded(old), _loaded(new)
    pairs = {
        name: _predecessor(pipeline, before, now)
        for name, pipeline in sorted(now.pipelines.items())
    }
    went_on = {found.name for found in pairs.values() if found}
    removed = [one for name, one in sorted(before.pipelines.items()) if name not in went_on]
    pipelines, unchanged = list[PipelineChanges](), list[str]()
    for name, was in pairs.items():
        if was is None:
            pipelines.append(new_pipeline(now.pipelines[name], removed))
            continue
        keys = hash_keys(old, was.name), hash_keys(new, name)
        other_keys = len(keys[0]) == len(keys[1]) and keys[0] != keys[1]
        found = compare_pipelines(was, now.pipelines[name], other_keys=other_keys)
        if found is None:
            unchanged.append(name)
        else:
            pipelines.append(found)
    clusters = [
        ClusterChanges(cluster=name, changes=changes)
        for name in sorted(now.clusters.keys() & before.clusters.keys())
        if (changes := compare_clusters(before.clusters[name], now.clusters[name]))
    ]
    pipelines += map(removed_pipeline, removed)
    return ConfigChanges(pipelines=pipelines, clusters=clusters, unchanged=unchanged)


def _predecessor(pipeline: Pipeline, before: LoadedConfig, now: LoadedConfig) -> Pipeline | None:
    """Return the earlier version of a pipeline: by its name, or by a name that it had formerly."""
    if pipeline.name in before.pipelines:
        return before.pipelines[pipeline.name]
    names = [name for name in pipeline.formerly if name not in now.pipelines]
    return next((before.pipelines[name] for name in names if name in before.pipelines), None)


def _show(found: ConfigChanges) -> None:
    for pipeline in found.pipelines:
        out.say(pipeline.pipeline, "bold")
        for effect in pipeline.effects:
            kind = effect.kind.replace("_", " ")
            where = f" ({words(effect.clusters)})" if effect.clusters else ""
            out.say(f"  {kind}{where}: {effect.text}", _style(effect.kind))
        _show_changes(pipeline.changes)
    for cluster in found.clusters:
        out.say(f"cluster {cluster.cluster}", "bold")
        _show_changes(cluster.changes)
    total = plural(len(found.pipelines), "pipeline")
    err.say(
        f"{total} changed, {len(found.unchanged)} unchanged; "
        f"{plural(len(found.clusters), 'cluster')} changed.",
        "bold",
    )


def _style(kind: str) -> str | None:
    return "yellow" if kind in ("transform", "redaction", "removed") else None


def _show_changes(changes: list[Change]) -> None:
    for change in changes:
        out.say(f"  {change.field}", "dim")
        for text in change.before:
            out.say(f"    - {text}", "red")
        for text in change.after:
            out.say(f"    + {text}", "green")
