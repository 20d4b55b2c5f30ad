"""Requests of `shipper replay`, kept beside the results:
``{runs_uri}/{pipeline}.replay.{id}/replay.json``."""

from __future__ import annotations

import fsspec
from pydantic import ValidationError

from shipper.config.replay import Replay
from shipper.errors import StepResultError
from shipper.report.run_folder import write_whole


def _path(runs_uri: str, pipeline: str, replay: str) -> str:
    return f"{runs_uri.rstrip('/')}/{pipeline}.replay.{replay}/replay.json"


def keep_replay(runs_uri: str, pipeline: str, replay: Replay) -> None:
    """Keep the request, before anything is sent. Raises StepResultError."""
    path = _path(runs_uri, pipeline, replay.id)
    try:
        write_whole(path, replay.model_dump_json(indent=1))
    except OSError as error:
        raise StepResultError(
            f"{path} cannot be written: {error}. Nothing was sent. Check `runs_uri` and its "
            "permissions.",
            code="SHIP-005",
        ) from error


def find_replay(runs_uri: str, pipeline: str, replay: str) -> Replay | None:
    """Read the request; None if there was none with this id. Raises StepResultError."""
    path = _path(runs_uri, pipeline, replay)
    try:
        with fsspec.open(path, "rb") as file:
            return Replay.model_validate_json(file.read())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        raise StepResultError(
            f"{path} cannot be read: {error}. Nothing was sent. Check `runs_uri` and its "
            "permissions.",
            code="SHIP-005",
        ) from error
