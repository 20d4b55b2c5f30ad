"""Requests of `shipper replay`, kept beside the results:
``{runs_uri}/{pipeline}.replay.{id}/replay.json``."""

from __future__ import annotations

from shipper.config.replay_request import Replay
from shipper.config.rules import REPLAY_INFIX
from shipper.report.run_folder import find_kept, reached
from shipper.whole_files import write_whole


def keep_replay(runs_uri: str, pipeline: str, replay: Replay) -> None:
    """Keep the request, before anything is sent. Raises StepResultError."""
    path = _path(runs_uri, pipeline, replay.id)
    with reached(path):
        write_whole(path, replay.model_dump_json(indent=1))


def find_replay(runs_uri: str, pipeline: str, replay: str) -> Replay | None:
    """Read the request; None if there was none with this id. Raises StepResultError."""
    path = _path(runs_uri, pipeline, replay)
    with reached(path):
        about = "Nothing was sent. Restore the file from a backup, or begin another replay."
        return find_kept(path, Replay, about)


def _path(runs_uri: str, pipeline: str, replay: str) -> str:
    return f"{runs_uri.rstrip('/')}/{pipeline}{REPLAY_INFIX}{replay}/replay.json"
