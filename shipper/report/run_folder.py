"""Results of a run's steps: one JSON file per step, in the run's folder, always, also when the step
failed.

::

    {runs_uri}/{pipeline}/{start}--{end}/{run_id}/
        plan.json                       PlanResult
        gate_source.json                GateResult
        ship.{cluster}.json             ShipResult
        gate_delivery.{cluster}.json    GateResult
        progress.{cluster}.json         ShipProgress, only while the ship runs
        report.json  report.html        RunReport, and the page for people
        attempts/{name}.{begun}.json    the same results, each attempt's own

A step reads its predecessors' results and nothing else. Fields that another version of shipper left
in a result are passed over, but for a step that builds on the result: it refuses what it does not
know. Of several attempts of a step the one that
began last counts, whichever wrote last: see :meth:`RunFolder.write`. Each result names its run, so
that one left over from an earlier run of the same window is never taken for this one's.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from shipper.config.replay_request import replayed
from shipper.error_codes import code_of
from shipper.errors import StepResultError, UsageError, is_not_allowed, why_system
from shipper.request import RunRequest
from shipper.whole_files import file_system, read_text, remove, write_whole
from shipper.windows.window import Window

if TYPE_CHECKING:
    import fsspec

    from shipper.runner import Job

Status = Literal["succeeded", "failed", "skipped"]
Extra = Literal["ignore", "forbid"]
R = TypeVar("R", bound="StepResult")
M = TypeVar("M", bound=BaseModel)
_STAMP = "%Y%m%dT%H%M%SZ"
_ATTEMPTS, _ATTEMPT_STAMP = "attempts", "%Y%m%dT%H%M%S%fZ"
SENT_UNTIL_THEN = "What was sent until then, if anything, is in the ledger."
_RUN_ID = re.compile(r"[A-Za-z0-9](?:\.?[\w-]){0,99}", re.ASCII)


class Result(BaseModel):
    model_config = ConfigDict(extra="forbid")


class StepResult(Result):
    """Common to all steps. Times are UTC."""

    version: Literal[1] = 1
    step: str
    pipeline: str
    window_start: dt.datetime
    window_end: dt.datetime
    run_id: str
    status: Status = "succeeded"
    error: str | None = None
    """One paragraph: what happened and what to do, with the code at its end. Set exactly when
    `status` is failed."""
    code: str | None = None
    """Code of `error`, such as `SHIP-303`."""
    final: bool = False
    """True if trying a failed step again, unchanged, cannot help."""
    fails_again: bool = False
    """True if later runs would fail likewise, so that none looks back at the window by itself."""
    started_at: dt.datetime
    finished_at: dt.datetime
    placed_at: dt.datetime | None = None
    """Place of the step among those of all runs: when it began or, if the clock of another machine
    is ahead, just after what its runs had left by then. None: `started_at`."""
    asked: Annotated[RunRequest, BeforeValidator(lambda told: told or {})] = Field(
        default_factory=RunRequest
    )
    """Request, besides the window."""
    phases: dict[str, float] = {}
    """Phase of the step → seconds. The first step of a process also says how long Python took to
    begin, before `started_at`."""
    source_requests: dict[str, int] = {}
    """Requests of the step to the object store that the files lie in: `LIST`, `HEAD`, `GET`. Of a
    step that succeeded, and of its driver alone where Spark's tasks run in other processes."""

    @property
    def window(self) -> Window:
        return Window(self.window_start, self.window_end)

    @property
    def place(self) -> dt.datetime:
        return self.placed_at or self.started_at


def names_in(fs: fsspec.AbstractFileSystem, path: str) -> list[str]:
    """Return the names in a folder; none if there is no such folder. Raises OSError."""
    try:
        return [str(entry).rstrip("/").rpartition("/")[2] for entry in fs.ls(path, detail=False)]
    except (FileNotFoundError, NotADirectoryError):
        return []


def find_kept(url: str, kind: type[M], about: str) -> M | None:
    """Read a file that is kept beside the runs; None if there is none. ``about``: what it holds,
    and what to do if it cannot be read. Raises StepResultError, OSError."""
    fs, path = file_system(url)
    try:
        return kind.model_validate_json(bytes(fs.cat_file(path)), extra="ignore")
    except FileNotFoundError:
        return None
    except ValidationError as error:
        raise StepResultError(f"{url} cannot be read. {about}", code="SHIP-007") from error


@contextlib.contextmanager
def reached(what: str, meanwhile: str = "Nothing was sent.") -> Iterator[None]:
    """Raise StepResultError for whatever stands between this process and ``what`` of `runs_uri`.
    ``meanwhile``: what became of the data."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise not_reached(error, what, meanwhile) from error


def not_reached(
    error: OSError | ValueError, what: str, meanwhile: str = "Nothing was sent."
) -> StepResultError:
    """Return the error for what stands between this process and ``what`` of `runs_uri`. Another try
    may help, unless the system does not allow it. ``meanwhile``: what became of the data."""
    found = StepResultError(
        f"{what} cannot be used: {why_system(error)}. {meanwhile} Check `runs_uri` and its "
        "permissions.",
        code="SHIP-005",
    )
    found.retriable = not (isinstance(error, OSError) and is_not_allowed(error))
    if not found.retriable:
        found.exit_code = UsageError.exit_code
    return found


class RunFolder:
    """The folder of one run. Any file system that fsspec knows; results are written whole or not at
    all."""

    def __init__(self, runs_uri: str, pipeline: str, window: Window, run_id: str) -> None:
        if not _RUN_ID.fullmatch(run_id):
            raise UsageError(
                f"{run_id!r} is not a valid run id. It names a folder: use letters, digits, "
                "`.`, `_` and `-`, and begin with a letter or digit."
            )
        self.run_id, self._beside = run_id, (runs_uri, pipeline)
        self._left_before: dt.datetime | None = None
        """Last moment, by whatever clock, at which a run had left a record before the step
        began."""
        self.uri = f"{runs_uri.rstrip('/')}/{pipeline}/{self.name_of(window)}/{run_id}"

    @classmethod
    def of(cls, job: Job) -> RunFolder:
        """Return the folder of the job's run."""
        replay = job.request.replay
        pipeline = replayed(job.pipeline, replay) if replay else job.pipeline
        return cls(job.results_uri, pipeline.key, job.window, job.run_id)

    @staticmethod
    def name_of(window: Window) -> str:
        """Return the name of a window's folder."""
        return f"{window.start:{_STAMP}}--{window.end:{_STAMP}}"

    @staticmethod
    def window_of(name: str) -> Window | None:
        """Return the window of a folder's name; None for any other."""
        try:
            start, end = (
                dt.datetime.strptime(stamp, _STAMP).replace(tzinfo=dt.UTC)
                for stamp in name.split("--")
            )
        except ValueError:
            return None
        return Window(start, end) if start < end else None

    def path(self, name: str) -> str:
        return f"{self.uri}/{name}"

    def _reached(self) -> contextlib.AbstractContextManager[None]:
        return reached(f"the run's folder {self.uri}", SENT_UNTIL_THEN)

    def make(self) -> None:
        """Make the folder, so that obstacles are known before anything is done. Raises
        StepResultError."""
        with self._reached():
            fs, path = file_system(self.uri)
            fs.makedirs(path, exist_ok=True)

    def try_to_write(self) -> None:
        """Write a file and remove it. Raises StepResultError if nothing can be written."""
        self.write_text(".try", "shipper")
        self.remove(".try")

    def write_text(self, name: str, text: str) -> str:
        """Write a file, and return its path. Raises StepResultError."""
        with self._reached():
            write_whole(self.path(name), text)
        return self.path(name)

    def read_text(self, name: str) -> str | None:
        """Read a file; None if there is no such file. Raises StepResultError."""
        with self._reached():
            try:
                return read_text(self.path(name))
            except NotADirectoryError:
                return None

    def remove(self, name: str) -> None:
        """Remove a file. Nothing happens if there is no such file. Raises StepResultError."""
        with self._reached():
            remove(self.path(name))

    def begin(self, name: str, now: dt.datetime) -> dt.datetime:
        """Return when an attempt of a step begins: now, or just after the attempt whose result is
        there, if that one's clock was ahead. What the step leaves beside the runs comes after what
        lies there now, whatever the clocks of workers say."""
        from shipper.report.window_records import last_written

        with contextlib.suppress(OSError, ValueError):
            self._left_before = last_written(*self._beside)
        with contextlib.suppress(StepResultError, ValidationError):
            if (text := self.read_text(f"{name}.json")) is not None:
                before = StepResult.model_validate_json(text, extra="ignore")
                return _after(before.started_at, now)
        return now

    def _place(self, at: dt.datetime) -> dt.datetime:
        return _after(self._left_before, at)

    def write(self, name: str, result: StepResult) -> str:
        """Write an attempt's result, and make that of the latest attempt the step's; and beside the
        runs, what the step learned of windows. Return the path of the step's result.

        No file system here has a conditional write. So each attempt keeps its result under a name
        of its own, and each writer of the step's result looks afterwards whether a later attempt
        has come: of two that write at the same time, the last one to look sees both. An attempt
        that dies before it looks leaves the wrong result behind, which :meth:`find` sees.
        """
        result.code = code_of(result.error)
        if (place := self._place(result.started_at)) > result.started_at:
            result.placed_at = place
        mine, text = _attempt_file(name, result.started_at), result.model_dump_json(indent=1) + "\n"
        self.write_text(mine, text)
        path, written = self.path(f"{name}.json"), ""
        while (latest := self._latest(name)) != written:
            self.write_text(
                f"{name}.json", text if latest in ("", mine) else self.read_text(latest) or ""
            )
            written = latest
        # It knows the results of all steps, which know this module.
        from shipper.report.window_records import records_of, write_records

        with self._reached():
            write_records(*self._beside, records_of(result))
        return path

    def note_begin(
        self,
        window: Window,
        at: dt.datetime,
        others: Sequence[str],
        still_at: dt.datetime | None = None,
    ) -> None:
        """Note beside the runs that the run begins; with ``still_at``, that it has not ended by
        then: a ship may take days. Raises StepResultError."""
        from shipper.report.window_records import begun, write_records

        place = at if still_at else self._place(at)
        with self._reached():
            record = begun(window, self.run_id, place, others, still_at or at)
            write_records(*self._beside, [record])

    def find_later(self, name: str, result: R) -> R | None:
        """Return the step's result if an attempt that began after ``result``'s left one. Does not
        read ``result`` again. Raises StepResultError."""
        if self._latest(name) <= _attempt_file(name, result.started_at):
            return None
        return self.find(name, type(result))

    def _latest(self, name: str) -> str:
        """Return the file of the attempt that began last, of those that left a result; empty if
        none did. Raises StepResultError."""
        with self._reached():
            fs, path = file_system(self.path(_ATTEMPTS))
            fs.invalidate_cache()
            found = names_in(fs, path)
        ours = re.compile(re.escape(name) + r"\.\d{8}T\d{12}Z\.json", re.ASCII)
        return max((f"{_ATTEMPTS}/{each}" for each in found if ours.fullmatch(each)), default="")

    def find(self, name: str, kind: type[R], extra: Extra = "ignore") -> R | None:
        """Return the result of a step, or None if it left none. ``extra``: what to do about fields
        that this version does not know. Raises StepResultError if it is not this run's or
        unreadable."""
        text = self.read_text(f"{name}.json")
        if text is None:
            return None
        result = self._parsed(name, kind, text, extra)
        if (latest := self._latest(name)) > _attempt_file(name, result.started_at) and (
            text := self.read_text(latest)
        ):
            result = self._parsed(name, kind, text, extra)
        if result.run_id != self.run_id:
            raise StepResultError(
                f"{self.path(name)}.json belongs to run {result.run_id}, not to {self.run_id}. "
                "Run the step again.",
                code="SHIP-004",
            )
        return result

    def glance(self, name: str, kind: type[R]) -> R | None:
        """Return the result of a step; None also if it cannot be read: its details are worth less
        than what they are for."""
        with contextlib.suppress(StepResultError):
            return self.find(name, kind)
        return None

    def _parsed(self, name: str, kind: type[R], text: str, extra: Extra) -> R:
        try:
            return kind.model_validate_json(text, extra=extra)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(map(str, first["loc"])) or "text"
            raise StepResultError(
                f"{self.path(name)}.json cannot be read as {kind.__name__}: {where}: "
                f"{first['msg']}. It is damaged, or of another version of shipper. Run the step "
                "again.",
                code="SHIP-004",
            ) from error

    def need(self, name: str, kind: type[R]) -> R:
        """Return the result of a step that must have succeeded. Raises StepResultError if it is
        missing or failed."""
        result = self.find(name, kind, extra="forbid")
        if result is None:
            raise StepResultError(
                f"step {name} left no result in {self.uri}: the step did not run or was "
                "killed. Run it first."
            )
        if result.status == "failed":
            raise StepResultError(f"step {name} failed: {result.error}")
        return result


def _after(moment: dt.datetime | None, now: dt.datetime) -> dt.datetime:
    """Return ``now``; just after ``moment`` if that is not before."""
    return max(now, moment + dt.timedelta(microseconds=1)) if moment else now


def _attempt_file(name: str, started_at: dt.datetime) -> str:
    return f"{_ATTEMPTS}/{name}.{started_at.astimezone(dt.UTC).strftime(_ATTEMPT_STAMP)}.json"
