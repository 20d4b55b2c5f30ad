"""Requests of `shipper replay`, kept beside the results:
``{runs_uri}/{pipeline}.replay.{id}/replay.json``."""

from __future__ import annotations

from pathlib import Path

from shipper.config.load import load_pipeline
from shipper.config.pipeline import Pipeline
from shipper.config.replay_request import Replay, replayed
from shipper.config.rules import REPLAY_INFIX, original, resolve_uri
from shipper.errors import UsageError
from shipper.report.run_folder import find_kept, reached
from shipper.whole_files import write_whole


def keep_replay(runs_uri: str, key: str, replay: Replay) -> None:
    """Keep the request under the pipeline's first name, before anything is sent. Raises
    StepResultError."""
    path = _path(runs_uri, key, replay.id)
    with reached(path):
        write_whole(path, replay.model_dump_json(indent=1))


def find_replay(runs_uri: str, key: str, replay: str) -> Replay | None:
    """Read the request; None if there was none with this id. Raises StepResultError."""
    path = _path(runs_uri, key, replay)
    with reached(path):
        about = "Nothing was sent. Restore the file from a backup, or begin another replay."
        return find_kept(path, Replay, about)


def load_named(config: Path, name: str) -> Pipeline:
    """Load the pipeline, or by the name `PIPELINE.replay.ID` the one that this replay derives.
    Raises ConfigError, StepResultError, and UsageError for an unknown replay."""
    own = original(name)
    pipeline = load_pipeline(config, own)
    if own == name:
        return pipeline
    runs_uri, replay = resolve_uri(config, pipeline.runs_uri), name[len(own + REPLAY_INFIX) :]
    found = find_replay(runs_uri, pipeline.key, replay)
    if found is None:
        raise unknown(runs_uri, own, replay)
    return replayed(pipeline, found)


def unknown(runs_uri: str, pipeline: str, replay: str) -> UsageError:
    return UsageError(
        f"pipeline {pipeline} has no replay {replay} in {runs_uri}. Nothing was sent. Correct the "
        "id. Without --id, `shipper replay` begins a new one.",
        code="SHIP-112",
    )


def _path(runs_uri: str, key: str, replay: str) -> str:
    return f"{runs_uri.rstrip('/')}/{key}{REPLAY_INFIX}{replay}/replay.json"
