"""Delivery gates that closed, kept beside the results until a later gate finds that the records
agree, or a person opens them: ``{runs_uri}/{pipeline}/closed/{window}.{cluster}.json``.

A run that finds nothing to ship has nothing to compare, so its own figures say nothing of what an
earlier run sent.
"""

from __future__ import annotations

import datetime as dt

from pydantic import Field

from shipper.report.results import CheckResult, ShipResult
from shipper.report.run_folder import Result, RunFolder, find_kept, names_in
from shipper.types import FileId
from shipper.whole_files import file_system, remove, write_whole
from shipper.windows.window import Window


class ClosedGate(Result):
    """A delivery gate that closed, with what it takes to count again what the ship sent."""

    at: dt.datetime
    ship: ShipResult
    """The ship's result, without what is for people."""
    files: list[FileId]
    ends: dict[str, list[int]] | None = None
    """Topic → per partition, the offset behind its last record when the gate looked; None: nobody
    knows."""
    failed: list[CheckResult] = Field(default_factory=list)
    """Checks that closed the gate."""

    @property
    def run_id(self) -> str:
        return self.ship.run_id


class ClosedGates(Result):
    """Those of one window on one cluster, oldest first."""

    version: int = 1
    gates: list[ClosedGate] = Field(default_factory=list)


class ClosedGatesFolder:
    """Folder of a pipeline's closed delivery gates. Raises OSError where it cannot be reached."""

    def __init__(self, runs_uri: str, pipeline: str, cluster: str) -> None:
        self._uri = f"{runs_uri.rstrip('/')}/{pipeline}/closed"
        self._cluster = cluster

    def _file(self, window: Window) -> str:
        name = RunFolder.name_of(window)
        return f"{self._uri}/{name}.{self._cluster}.json"

    def find(self, window: Window) -> list[ClosedGate]:
        """Return the window's closed gates. Raises StepResultError for a damaged file."""
        about = (
            "It names the delivery gates of this window that closed. Restore it from a backup. Or "
            "delete it, if you know that what was sent is right."
        )
        found = find_kept(self._file(window), ClosedGates, about)
        return found.gates if found else []

    def add(self, window: Window, gate: ClosedGate) -> None:
        """Keep a gate, instead of an earlier attempt at it."""
        others = [
            each for each in self.find(window) if each.ship.generations != gate.ship.generations
        ]
        kept = ClosedGates(gates=[*others, gate])
        write_whole(self._file(window), kept.model_dump_json(indent=1), durable=True)

    def forget(self, window: Window) -> None:
        """Forget the window's gates: they are open."""
        remove(self._file(window))

    def windows(self) -> list[Window]:
        """Return the windows that have a closed gate."""
        fs, path = file_system(self._uri)
        fs.invalidate_cache()
        end = f".{self._cluster}.json"
        names = [name.removesuffix(end) for name in names_in(fs, path) if name.endswith(end)]
        return [window for name in names if (window := RunFolder.window_of(name))]


def without_pictures(ship: ShipResult) -> ShipResult:
    """Return the result without what only people look at."""
    return ship.model_copy(update={"timeline": [], "findings": [], "phases": {}})
