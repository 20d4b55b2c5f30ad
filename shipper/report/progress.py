"""Progress of a ship that has not ended: a small file beside its run's results, which the Shipments
page reads.

It says nothing that decides anything. The ship writes it every few seconds and removes it at its
end, when the step's result says more; one that stays is of a process that was killed.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import logging
from types import TracebackType
from typing import Literal

from shipper import runtime
from shipper.errors import StepResultError
from shipper.report.run_folder import Result, RunFolder, StepResult

_LEAVE_WITHIN_SECONDS = 5.0
_GOES_ON_EVERY = dt.timedelta(hours=12)
"""Time after which a ship says that its run goes on, well within
:data:`shipper.report.window_state.KILLED_AFTER`."""

log = logging.getLogger(__name__)


class ShipProgress(Result):
    """Committed records and bytes, by the ledger on the target cluster."""

    version: Literal[1] = 1
    cluster: str
    began: dt.datetime
    """Time of the last look at which nothing was committed: until then tasks start, and read."""
    at: dt.datetime
    records: int
    """Records since then, without dropped ones."""
    bytes: int
    """Bytes of these records, uncompressed."""
    wire_bytes: int
    """The same as sent: compressed."""
    records_per_second: float
    """Records per second since the previous file."""
    splits: int
    splits_done: int
    share: float = 0.0
    """Share of the files' bytes that is committed, from 0 to 1. Of a file whose bytes differ from
    those of its records, only whole splits count."""
    parked: tuple[str, ...] = ()
    """Topics that cannot be written to, whose records wait."""

    @property
    def seconds_left(self) -> float | None:
        """Seconds left if the rate stays as it was; None: too early to say, or all that is left
        waits for a topic."""
        if self.share <= 0.02 or (self.parked and self.splits_done == self.splits):
            return None
        seconds = (self.at - self.began).total_seconds()
        return seconds / self.share - seconds


def file_of(cluster: str) -> str:
    """Return its name in the run's folder."""
    return f"progress.{cluster}.json"


class ProgressFile:
    """Progress, written in a thread of its own: a store that does not answer holds up neither the
    ship nor its reader."""

    def __init__(self, folder: RunFolder, cluster: str) -> None:
        self._folder, self._name = folder, file_of(cluster)
        self._latest: ShipProgress | None = None
        self._told, self._over = runtime.Event(), False
        self._thread = runtime.Thread(target=self._write, name="progress-file", daemon=True)

    def tell(self, progress: ShipProgress) -> None:
        """Pass figures on, and return at once. Of several that come while one is being written, the
        last is."""
        self._latest = progress
        self._told.set()

    def __enter__(self) -> ProgressFile:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over = True
        self._told.set()
        self._thread.join(_LEAVE_WITHIN_SECONDS)

    def _write(self) -> None:
        written, said = False, runtime.now()
        while self._told.wait() and not self._over:
            self._told.clear()
            if self._latest is None or self._over:
                continue
            try:
                written = True
                self._folder.write_text(self._name, self._latest.model_dump_json() + "\n")
                if self._latest.at - said >= _GOES_ON_EVERY:
                    said = self._latest.at
                    if plan := self._folder.find("plan", StepResult):
                        others = plan.asked.other_clusters
                        self._folder.note_begin(plan.window, plan.place, others, said)
            except StepResultError as error:
                log.debug("progress is not shown: %s", error.message)
        if written:
            with contextlib.suppress(StepResultError):
                self._folder.remove(self._name)


def progress_of(folder: RunFolder, cluster: str) -> ShipProgress | None:
    """Read the progress. None: the ship has written none, or is over, or the store does not
    answer."""
    try:
        text = folder.read_text(file_of(cluster))
        return ShipProgress.model_validate_json(text) if text else None
    except (StepResultError, ValueError):  # of another version of shipper
        return None
