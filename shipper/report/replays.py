"""Requests of `shipper replay`, kept beside the results:
``{runs_uri}/{pipeline}.replay.{id}/replay.json``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from shipper.config.replay_request import Replay
from shipper.errors import StepResultError
from shipper.report.run_folder import find_kept
from shipper.whole_files import write_whole


def keep_replay(runs_uri: str, pipeline: str, replay: Replay) -> None:
    """Keep the request, before anything is sent. Raises StepResultError."""
    with _reached(runs_uri, pipeline, replay.id) as path:
        write_whole(path, replay.model_dump_json(indent=1))


def find_replay(runs_uri: str, pipeline: str, replay: str) -> Replay | None:
    """Read the request; None if there was none with this id. Raises StepResultError."""
    with _reached(runs_uri, pipeline, replay) as path:
        about = "Nothing was sent. Restore the file from a backup, or begin another replay."
        return find_kept(path, Replay, about)


@contextmanager
def _reached(runs_uri: str, pipeline: str, replay: str) -> Iterator[str]:
    path = f"{runs_uri.rstrip('/')}/{pipeline}.replay.{replay}/replay.json"
    try:
        yield path
    except OSError as error:
        raise StepResultError(
            f"{path} cannot be used: {error}. Nothing was sent. Check `runs_uri` and its "
            "permissions.",
            code="SHIP-005",
        ) from error
