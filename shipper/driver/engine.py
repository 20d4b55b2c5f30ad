"""Interface between the driver and the engine that reads: all that a run asks of Spark and Java,
and all that comes back.

``spark_jobs.spark_engine.SparkEngine`` is the implementation; ``tests/chaos/ship_numbered.py`` has
one that makes records instead of reading them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from shipper.config.cluster import Cluster
    from shipper.config.content_checks import SourceCheck
    from shipper.driver.files import ListedFile
    from shipper.driver.pieces import FilePiece, PieceReport
    from shipper.errors import ShipperError
    from shipper.finding import Finding
    from shipper.report.phases import Phases
    from shipper.report.plan_result import PlannedFile, PlanResult
    from shipper.report.preview_result import PreviewedLine
    from shipper.report.results import CheckResult
    from shipper.windows.window import Window
    from shipper.worker.order import ShipOrder
    from shipper.worker.receipt import Receipt


@dataclass(frozen=True)
class Listed:
    """Result of a listing."""

    files: list[ListedFile]
    """Entries of the listed folders: also those that no run takes, as ``left`` says."""
    too_many: bool = False
    """The listing stopped when it had found more than asked for."""
    problems: Mapping[str, str] = field(default_factory=dict)
    """Listed path → why it cannot be listed. ``files`` has the files under the other paths."""


class ToSum(NamedTuple):
    """File of which some beginnings are to be summed up."""

    file: PlannedFile
    lengths: Sequence[int]


class SourceJudged(NamedTuple):
    """Findings of the source gate's checks."""

    checks: list[CheckResult]
    scans: int = 0
    """Number of scans of the files."""
    scope: str = ""
    """Scope of the look, for people."""
    documents: Mapping[str, str] = {}
    """Texts for the run's folder, by name: what Great Expectations says of suites."""


@dataclass
class Scan:
    """Result of one job over files, complete or not. If ``error`` is set, the receipts say what was
    done until the error."""

    read: int = 0
    """Lines, by the engine's own count."""
    checksum: int | None = None
    """Checksum of the values to be shipped, by the engine's own sum, if the pipeline asks for
    it."""
    observed: dict[str, int] = field(default_factory=dict)
    """Name as in ShipResult → lines that a rule or reason took, by the engine's own count."""
    receipts: list[Receipt] = field(default_factory=list)
    cpu_seconds: float = 0.0
    """CPU time of the engine's own threads that read for the tasks."""
    reports: list[PieceReport] = field(default_factory=list)
    """Reports of the reader on each split that it read to an end, good or bad."""
    error: ShipperError | None = None
    are_receipts_lost: bool = False
    """True if the job ended with an error: tasks that were under way left no receipt."""

    @property
    def records(self) -> int:
        """Lines, by the tasks' count."""
        return sum(split.records for receipt in self.receipts for split in receipt.splits.values())

    @property
    def unsent(self) -> dict[str, int]:
        """Topic → records that were read and not sent, since it could not be written to."""
        found: dict[str, int] = {}
        for receipt in self.receipts:
            for topic, count in receipt.unsent.items():
                found[topic] = found.get(topic, 0) + count
        return found


class ShipJob(Protocol):
    """Reads files, turns lines into records, and ships what an order says is missing."""

    def run(self, scan: Scan) -> None:
        """Run the job and fill ``scan`` as far as it gets, with the receipts of finished tasks also
        when it fails. Raises whatever went wrong first."""

    def stop(self) -> None:
        """End a ``run`` in another thread, which then raises."""

    def read_so_far(self) -> object:
        """Return the progress in any form: only a change of it matters. For another thread."""


class Engine(Protocol):
    """Engine of one pipeline and one process. What asks about files needs Java alone, which starts
    on first use; what reads lines or analyses SQL needs Spark (:meth:`start`)."""

    version: str
    """Spark's minor version. The ledger has it, because another version may make other records of
    the same lines."""

    def start_java(self) -> None:
        """Start Java, or wait for it if it is starting."""

    def begin(self) -> None:
        """Start Spark in a thread, for a step that will most likely need it and has other work
        meanwhile. Questions about files are answered as before. A failed start raises when Spark is
        needed."""

    def start(self) -> None:
        """Start Spark if it has not been started, and wait for it. Raises Spark's own errors."""

    def begin_to_stop(self) -> None:
        """Begin to stop, in a thread, when no step needs Spark any more: it takes most of a
        second."""

    def stop(self) -> None:
        """Stop, and wait for the end of all that this engine has started."""

    def abandon(self) -> None:
        """End all that runs, whatever the main thread was in the middle of. Never raises."""

    def list_files(
        self, paths: Sequence[str], *, most: int, modified: Window | None = None
    ) -> Listed:
        """List the entries under ``paths`` (folders or globs; one that does not exist holds none),
        each file once; stop beyond ``most`` whose name fits `source.include`. ``modified``: those
        that were last modified in there alone. Raises SourceUnreachable if nothing can be asked."""

    def missing(self, paths: Sequence[str]) -> list[str]:
        """Return those of ``paths`` at which nothing lies. A glob, and a path about which nothing
        can be asked, is never one of them. Never raises."""

    def qualified_folder(self, folder: str) -> str:
        """Return ``folder`` as paths of files in it begin, with a slash at its end; empty for
        none."""

    def look_at(self, files: Sequence[PlannedFile]) -> None:
        """Note the format and the head of each file by its first bytes, or why the file cannot be
        read."""

    def look_for(self, paths: Sequence[str]) -> Mapping[str, ListedFile | None]:
        """Return the present file at each path; None: there is none. Raises SourceUnreachable."""

    def sum_up(self, files: Sequence[ToSum]) -> None:
        """Read the beginnings of files' content, of the given lengths, each file once and without
        Spark, and note their sums. Notes the faults of files that cannot be read."""

    def take_sample(self, plan: PlanResult) -> str:
        """Look at the beginning of a few files, and note what the plan says of a sample. Return why
        none of them could be read; empty if one could."""

    def source_requests(self) -> Mapping[str, int]:
        """Return how often an object store was asked since the last call, by kind (`LIST`, `HEAD`,
        `GET`), as far as this process's Java knows; empty for other file systems. Never raises."""

    def refuse_unsafe_sql(self, config_dir: Path) -> None:
        """Raise ConfigError for expressions that Spark would accept and that would break the
        promises. Looks once: they are the same in each step of a process."""

    def judge_source(
        self,
        checks: Sequence[SourceCheck],
        plan: PlanResult,
        left: Sequence[PlannedFile],
        runs_uri: str,
        config_dir: Path,
        phases: Phases,
    ) -> SourceJudged:
        """Judge the listing, and lines of the files ``left``, by ``checks``. Spark is started if a
        check needs it. ``runs_uri``: where the reports of earlier runs are; ``config_dir``: where
        suites are; ``phases``: where the time of scans is noted. Never raises for a check that
        cannot be evaluated: such a check blocks. Notes the faults of files that cannot be read."""

    def read_through(self, files: Sequence[PlannedFile]) -> None:
        """Read files to their end, and note why some cannot be read."""

    def preview(
        self, pieces: Sequence[FilePiece], cluster: str | None
    ) -> Mapping[int, list[PreviewedLine]]:
        """Return the lines of each piece, by its split, and the records that these lines would
        become on ``cluster``, or by the pipeline's own routes. Notes the faults of files that
        cannot be read."""

    def job(
        self, order: ShipOrder, cluster: Cluster, files: Sequence[PlannedFile], *, long_lines: bool
    ) -> ShipJob:
        """Make the job, without starting it."""

    def cause(self, error: Exception) -> Finding:
        """Return why reading or shipping failed, in words that hold no log content. It has no code
        if shipper does not know the cause."""
