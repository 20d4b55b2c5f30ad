"""Delivery gates that closed, kept beside the results until a later gate finds that the records
agree, or a person opens them:
``{runs_uri}/{pipeline}/closed/{window}~{generation}.{cluster}.json``.

A run that finds nothing to ship has nothing to compare, so its own figures say nothing of what an
earlier run sent.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

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
    """Content of a file: one gate. Earlier releases kept all of a window in one file, oldest
    first."""

    version: int = 1
    gates: list[ClosedGate] = Field(default_factory=list)


class ClosedGatesFolder:
    """Folder of a pipeline's closed delivery gates. Each has a file of its own: gates that close
    and open at the same time leave each other alone. Raises OSError where it cannot be reached."""

    def __init__(self, runs_uri: str, pipeline: str, cluster: str) -> None:
        self._uri = f"{runs_uri.rstrip('/')}/{pipeline}/closed"
        self._end = f".{cluster}.json"

    def find(self, window: Window) -> list[ClosedGate]:
        """Return the window's closed gates, oldest first. Raises StepResultError for a damaged
        file."""
        files = sorted(self._read(window).items())  # an earlier release's first
        gates = {gate.ship.generation: gate for _, kept in files for gate in kept.gates}
        return [gates[generation] for generation in sorted(gates)]

    def add(self, window: Window, gate: ClosedGate) -> None:
        """Keep a gate, instead of an earlier attempt at it."""
        name = f"{RunFolder.name_of(window)}~{gate.ship.generation}{self._end}"
        text = ClosedGates(gates=[gate]).model_dump_json(indent=1)
        write_whole(f"{self._uri}/{name}", text, durable=True)

    def forget(self, window: Window, gates: Sequence[ClosedGate]) -> None:
        """Forget gates of the window, as :meth:`find` returned them: they are open."""
        over = {gate.ship.generation for gate in gates}
        for url, kept in self._read(window).items():
            if over.issuperset(gate.ship.generation for gate in kept.gates):
                remove(url)

    def windows(self) -> list[Window]:
        """Return the windows that have a closed gate."""
        return sorted({*self._names().values()}, key=str)

    def _names(self) -> dict[str, Window]:
        fs, path = file_system(self._uri)
        fs.invalidate_cache()
        ours = [name for name in names_in(fs, path) if name.endswith(self._end)]
        windows = {
            name: RunFolder.window_of(name.removesuffix(self._end).partition("~")[0])
            for name in ours
        }
        return {name: window for name, window in windows.items() if window}

    def _read(self, window: Window) -> dict[str, ClosedGates]:
        about = (
            "It names delivery gates of this window that closed. Restore it from a backup. Or "
            "delete it, if you know that what was sent is right."
        )
        urls = [f"{self._uri}/{name}" for name, of in self._names().items() if of == window]
        found = {url: find_kept(url, ClosedGates, about) for url in urls}
        return {url: kept for url, kept in found.items() if kept}


def without_pictures(ship: ShipResult) -> ShipResult:
    """Return the result without what only people look at."""
    return ship.model_copy(update={"timeline": [], "findings": [], "phases": {}})
