"""What each step of a run leaves behind: one JSON file per step, in the run's folder, always, also when it failed.

::

    {runs_uri}/{pipeline}/{start}--{end}/{run_id}/
        plan.json                       PlanResult
        gate_source.json                GateResult
        ship.{cluster}.json             ShipResult
        gate_delivery.{cluster}.json    GateResult
        report.json  report.html        RunReport, and the page for people

A step reads its predecessors' results and nothing else. Each result names its run, so that one left over from an
earlier run of the same window is never taken for this one's.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import errno
import re
import secrets
from collections.abc import Iterator, Mapping
from typing import Literal, TypeVar

import fsspec
from pydantic import BaseModel, ConfigDict, ValidationError

from shipper.errors import StepResultError, UsageError, why_system
from shipper.ledger.records import Void
from shipper.types import FileId

Status = Literal["succeeded", "failed", "skipped"]


class Result(BaseModel):
    model_config = ConfigDict(extra="forbid")


def write_checksum(checksum: int) -> str:
    """Modulo 2^64, in 16 hex digits."""
    return f"{checksum % (1 << 64):016x}"


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
    """One paragraph: what happened and what to do. Set exactly when `status` is failed."""
    final: bool = False
    """Whether trying a failed step again, unchanged, cannot help."""
    started_at: dt.datetime
    finished_at: dt.datetime
    phases: dict[str, float] = {}
    """What the step spent its time on, in seconds. The first step of a process also says how long Python took to begin, before `started_at`."""


class PlannedFile(Result):
    """One file of the window, as listed."""

    path: str
    uri: str = ""
    """The path as Spark's `_metadata.file_path` writes it, percent-encoded."""
    size_bytes: int
    modified_ms: int
    """Milliseconds since the epoch, as the file system says."""
    splits: int
    left: bool = True
    """Whether any cluster lacks a part of it."""
    late_window: str | None = None
    """START/END of the window that it belongs to, of a file that came late: a run of the schedule found it when it looked back."""
    late_for: list[str] = []
    """The clusters that lack a part of it and are to get it in this run, of a file that came late. The others leave it alone."""
    format: str = ""
    """By its first bytes: `plain`, `gzip`, `bzip2`, `zstd`, `lz4`. Empty: nobody looked, since no cluster lacks it."""
    bom: bool = False
    """Whether its content begins with a UTF-8 byte order mark."""
    problem: str = ""
    """Why it cannot be read, with the remedy."""

    def left_out(self, why: str) -> LeftOut:
        """As a late file that the run does without after all."""
        return LeftOut(
            path=self.path, reason=why, warns=True, window=self.late_window, clusters=self.late_for,
            size_bytes=self.size_bytes, modified_ms=self.modified_ms,
        )  # fmt: skip

    @property
    def unknown(self) -> bool:
        """Whether nobody has looked at its beginning."""
        return bool(self.size_bytes and not self.format and not self.problem)


class LeftOut(Result):
    """A file that is in the folders that were listed but not in the run, and why."""

    path: str
    reason: str
    warns: bool = False
    """Whether somebody should hear of it: the file belongs to a window and nobody has shipped it yet."""
    window: str | None = None
    """START/END of the window that it belongs to; None: the run's own."""
    clusters: list[str] = []
    """Those that do not get it; empty: none does."""
    size_bytes: int | None = None
    """None: it was being written, so it will have another size."""
    modified_ms: int = 0


class LookedBack(Result):
    """What a run of the schedule found in the folders of the windows before its own."""

    start: dt.datetime
    """Begin of the first window that was looked at."""
    windows: int
    folders: int
    """Those that the run's own window does not touch."""
    files: int = 0
    """Files there that are done being written, shipped or not."""
    empty: list[str] = []
    """Windows whose folders hold no file at all."""


class ClusterPlan(Result):
    """What one cluster already holds of the window, and what is left."""

    cluster: str
    problem: str | None = None
    """Why nothing can be shipped there right now (unreachable, topic missing, transform changed, …), with the remedy."""
    missing_topics: list[str] = []
    unsafe_properties: list[str] = []
    """Names of `unsafe_properties` that the cluster's file sets."""
    warnings: list[str] = []
    """What should be mended there before it costs data, such as a ledger with one replica."""
    complete_files: int = 0
    """Files whose every record is on the cluster, by the ledger."""
    partial_files: int = 0
    left_files: int = 0
    late_files: int = 0
    """Of `left_files`: those that came late."""
    left_bytes: int = 0
    """Bytes of the files that are left, as stored. Of a partial file all of them are read again, and only the rest is sent."""
    records_there: int = 0
    """Records of this window's files that the ledger holds."""
    to_fence: dict[str, tuple[int, int]] = {}
    """Name of the cluster → (tasks, lanes per task) of earlier runs that may have been open when this was planned."""
    rtt_ms: float | None = None
    """Measured round trip to the cluster, in milliseconds."""
    lanes: int | None = None
    """Per task; with `batch_bytes` and `chunk_bytes` what the next ship would use, by the link as measured now."""
    batch_bytes: int | None = None
    chunk_bytes: int | None = None
    tuning: str = ""
    """Why, in one paragraph."""
    looks_back_to: dt.datetime | None = None
    """Begin of the first window before the run's own whose files were held against this cluster's ledger; None: of none."""
    notes: list[str] = []
    """Sentences an operator should read."""


class PlanResult(StepResult):
    step: str = "plan"
    source: str = ""
    """The folders that were listed, as a pattern."""
    source_root: str = ""
    """The part of it in front of the first placeholder or glob, as the files' paths begin: what is behind it says which file it is."""
    transform_digest: str = ""
    reship: bool = False
    reship_id: str = ""
    """Names the reship: whoever asks with the same name again finishes it and begins none. Empty: the run's id."""
    reship_reason: str = ""
    """Why it was asked for, in the words of whoever asked."""
    files: list[PlannedFile] = []
    """All of the window, shipped or not; and of the windows before it, those that some cluster lacks."""
    left_out: list[LeftOut] = []
    looked_back: LookedBack | None = None
    """None: the run did not look back."""
    sample_ratio: float = 1.0
    """How well the beginning of some files compresses: uncompressed bytes per compressed byte."""
    long_lines: bool = False
    """Whether a line of over 64 kB was seen there."""
    topics: list[str] = []
    """Topics known before reading; those with a `{column}` keep their placeholder."""
    clusters: list[ClusterPlan] = []

    @property
    def own_files(self) -> list[PlannedFile]:
        """Those of the run's own window."""
        return [file for file in self.files if file.late_window is None]

    @property
    def late_files(self) -> list[PlannedFile]:
        return [file for file in self.files if file.late_window is not None]

    def without_late_files(self, why: str) -> PlanResult:
        """The plan of a run that leaves them out after all."""
        left_out = [file.left_out(why) for file in self.late_files]
        return self.model_copy(update={"files": self.own_files, "left_out": [*self.left_out, *left_out]})

    def files_for(self, cluster: str) -> list[PlannedFile]:
        """What a ship to the cluster is about."""
        return [file for file in self.files if file.late_window is None or cluster in file.late_for]

    @property
    def asker(self) -> str:
        """In whose name files are shipped anew: the reship's if it has one of its own, else the run's."""
        return self.reship_id or self.run_id

    def reshipped(self, voids: Mapping[FileId, Void]) -> list[FileId]:
        """Files that the ledger says were declared void in the same name before: they are shipped anew once."""
        return [file for file, void in voids.items() if self.asker in void.asked_by]

    @property
    def total_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)

    @property
    def bytes_to_read(self) -> int:
        """About what the files that some cluster lacks unpack to: real logs compress about 7:1."""
        return sum(file.size_bytes * (1 if file.format in ("", "plain") else 7) for file in self.files if file.left)

    @property
    def total_splits(self) -> int:
        return sum(file.splits for file in self.files)


class CheckResult(Result):
    """One check of a gate. Holds figures only, never a log line."""

    check: str
    """Name with its subject, such as `not_null(value)`."""
    severity: Literal["block", "quarantine", "warn"]
    """`quarantine`: records that fail it go to the quarantine topic, and it never closes the gate."""
    passed: bool
    expected: str
    observed: str
    history: list[float] = []
    """What the runs before had, oldest first, for a check that compares with them."""


class GateResult(StepResult):
    """`gate_source` or `gate_delivery`."""

    cluster: str | None = None
    checks: list[CheckResult] = []
    scope: str = ""
    """What was looked at, such as `4 of 120 files`."""
    late_held_back: str | None = None
    """Of the source gate: why the late files stay out of the run. With them a check would not hold; the window's own files are right."""
    scans: int = 0
    """How often Great Expectations had the content read."""


def as_gated(plan: PlanResult, gate: GateResult) -> PlanResult:
    """The plan as the source gate left it: what is shipped."""
    return plan.without_late_files(gate.late_held_back) if gate.late_held_back else plan


class TopicAccount(Result):
    """Records of one topic in one run, each counted in its own place."""

    topic: str
    quarantine: bool = False
    """Whether it is the quarantine topic: what it got is quarantined, and in no sum of what was delivered."""
    delivered: int = 0
    """Sent by this run, by the receipts of the Spark tasks."""
    delivered_bytes: int = 0
    """Of these, the bytes of values and keys, uncompressed."""
    before: int = 0
    """On the cluster before this run, by the ledger: skipped, or in files that were not even read."""
    ledger: int | None = None
    """Of this window's files, in the ledger after the run, read anew. None: not counted yet."""
    read_back: int | None = None
    """What a read_committed consumer found in the topic of what this ship sent. None: not asked for."""
    parked: int = 0
    """Read and not sent, since the topic could not be written to until the end."""

    @property
    def beyond(self) -> int | None:
        """What the ledger holds beyond the receipts' count. None: the ledger was not counted."""
        return None if self.ledger is None else self.ledger - self.delivered - self.before

    @property
    def read_beyond(self) -> int | None:
        """What a consumer found beyond what this run sent, by the receipts. None: nobody read the topic."""
        return None if self.read_back is None else self.read_back - self.delivered

    @property
    def agrees(self) -> Literal["yes", "no", "not counted"]:
        """Whether the ledger's and the read-back's counts are the receipts'."""
        if self.beyond or self.read_beyond:
            return "no"
        return "not counted" if self.beyond is None and self.read_beyond is None else "yes"


class FileAccount(Result):
    """One file on one cluster. records = filtered + quarantined + delivered + before, unless the run failed."""

    path: str
    records: int
    """Lines read; of a file that was not read, what the ledger holds of it."""
    delivered: int
    before: int
    filtered: dict[str, int] = {}
    """Rule of `records.drop` → lines that it took out."""
    quarantined: dict[str, int] = {}
    """Reason → records that this run sent to the quarantine topic."""
    seconds: float = 0.0
    """What the Spark tasks spent on it: reading, and waiting for a free lane. Splits that were read side by side add up."""
    unread: bool = False
    """Not even read, because the ledger held all of it."""
    checksums: dict[str, str] = {}
    """Topic → checksum of what this run delivered there, by the tasks: the sum of xxhash64(value), modulo 2^64, in 16 hex digits."""

    @property
    def missing(self) -> int:
        """Read, and in none of the other counts: parked or failed."""
        return self.records - self.delivered - self.before - sum(self.filtered.values()) - sum(self.quarantined.values())


class Count(Result):
    """One figure of the account, as counted in places that do not know of each other. None: not counted there."""

    name: str
    """`read`, `filtered: RULE`, `quarantined: REASON`, or a topic."""
    spark: int | None = None
    """By Spark's own observation, before and after each filter, in the run's first pass."""
    receipts: int | None = None
    """By the tasks, record by record as they sent them."""
    ledger: int | None = None
    """In the ledger, read anew after the ship."""
    read_back: int | None = None
    """In the topic, by a consumer that shares no code with the producer."""

    @property
    def agrees(self) -> bool:
        return len({self.spark, self.receipts, self.ledger, self.read_back} - {None}) <= 1


class TimelinePoint(Result):
    """What was committed in one interval that ends at `at`, by the ledger's broker timestamps."""

    at: dt.datetime
    records: int
    bytes: int


class LanePoint(Result):
    """What the lanes of all tasks did in a second."""

    at: dt.datetime
    in_flight_bytes: int
    """Uncompressed, of transactions under way."""
    wire_bytes: int
    """Sent since the point before, compressed, protocol included."""
    busy_lanes: int
    waited: float
    """Share of the time since the point before that readers waited for a lane, 0 to 1: near 1 the link or the brokers are the limit,
    near 0 the reading is."""
    parked_records: int = 0
    reopened: int = 0
    """Lanes that were thrown away and opened anew since the point before."""


class LaneAccount(Result):
    """What one lane of one task did in the whole ship."""

    task: int
    lane: int
    transactions: int
    """Committed."""
    bytes: int
    """Of records delivered, uncompressed."""
    busy_seconds: float
    """With a transaction under way; the rest of the ship's time it waited for the reader."""
    reopened: int = 0
    """How often it was thrown away and opened anew."""


class ShipResult(StepResult):
    step: str = "ship"
    cluster: str
    generation: int = 0
    """The ship's number in the ledger: the offset of its record. A higher one fences all lower ones."""
    chunks_end: int = 0
    """Offset in the ledger's chunk partition behind what was there before this ship sent anything."""
    tasks: int = 0
    lanes: int = 0
    """Lanes per task."""
    read: int = 0
    """Lines that Spark read, by its own observation."""
    unread: int = 0
    """Records of files that were not even read, because the ledger held all of them.
    read + unread = filtered + quarantined + delivered + before."""
    unread_files: int = 0
    late_files: int = 0
    """Files of earlier windows that this run had to ship, since they came late or an earlier run did not get to them."""
    late_windows: int = 0
    """The windows that these belong to."""
    late_records: int = 0
    """Of `delivered`, those of late files."""
    filtered: dict[str, int] = {}
    """Rule of `records.drop` → lines it took out, by the receipts."""
    quarantined: dict[str, int] = {}
    """Reason → records that this run sent to the quarantine topic, by the receipts."""
    settled: dict[str, int] = {}
    """Reason → records of the files that were read which belong there and were dealt with before, by the receipts."""
    observed: dict[str, int] = {}
    """Spark's own count of the same, by name as in `Count`: `read`, `filtered: RULE`, `quarantined: REASON`."""
    ends_before: dict[str, list[int]] | None = None
    """Topic → per partition, the offset behind its last record just before this ship sent anything: where a read-back begins. -1: the
    partition had no leader to ask. None: not taken, since nothing was left to ship or `gates.delivery` has no `read_back`."""
    checksum: str | None = None
    """Of the values of all lines that Spark read and that are to be shipped, by its own observation; as in FileAccount. None: not asked
    for (`gates.delivery` has no `checksum`), or the job failed."""
    checksum_added: str | None = None
    """What the tasks added to it: byte order marks, which Spark's reader drops, put back; taken off, what only they found unfit to ship."""
    topics: list[TopicAccount] = []
    files: list[FileAccount] = []
    ship_seconds: float = 0.0
    """From the first byte read to the last commit, without Spark's start."""
    task_retries: int = 0
    guarantee: Literal["exactly_once", "at_least_once"] = "exactly_once"
    tuning: str = ""
    """How lanes and batches were sized, and why."""
    wire_bytes: int = 0
    """Sent to the cluster, compressed, protocol included."""
    parked: dict[str, int] = {}
    """Topic → records that had to wait for it at some time."""
    possible_duplicates: int = 0
    """At least once: records that were sent again after a fault."""
    lane_reopened: int = 0
    """How often a lane was thrown away and opened anew (abort, timeout, broker gone)."""
    timeline: list[TimelinePoint] = []
    lane_timeline: list[LanePoint] = []
    lane_accounts: list[LaneAccount] = []
    """Each lane of each task, in their order."""
    notes: list[str] = []
    """Sentences an operator should read: took over a dead run's lease, waited for a topic, …"""

    @property
    def delivered(self) -> int:
        return sum(topic.delivered for topic in self.topics if not topic.quarantine)

    @property
    def before(self) -> int:
        """On the cluster already, in the quarantine topic too."""
        return sum(topic.before for topic in self.topics)


class LeftFile(Result):
    """A file that was left behind, as it was then."""

    path: str
    size_bytes: int | None = None
    """None: it was being written, so it has another size by now."""
    modified_ms: int = 0


class Uncovered(Result):
    """A window of which something is not on the cluster, as far as the run knows."""

    window: str
    """START/END."""
    why: str
    files: list[LeftFile] = []
    """Those that were left out; empty: there was nothing to ship where something should be."""

    @property
    def paths(self) -> list[str]:
        return [file.path for file in self.files]


class Coverage(Result):
    """What of the schedule is complete on the cluster when the run's delivery gate has passed: [start, end) without `uncovered`."""

    start: dt.datetime
    end: dt.datetime
    uncovered: list[Uncovered] = []


class DeliveryGateResult(GateResult):
    step: str = "gate_delivery"
    cluster: str
    coverage: Coverage | None = None
    """None: by a shipper that did not say; then it is the run's window."""
    topics: list[TopicAccount] = []
    """The ship step's account with `ledger` and `read_back` filled in."""
    account: list[Count] = []
    """Each figure as counted in independent places."""


class PastRun(Result):
    """An earlier run of the pipeline that succeeded, as a point of its history."""

    window_start: dt.datetime
    window_end: dt.datetime
    run_id: str
    files: int
    bytes: int
    records: int
    """Lines of the window: read, or there already."""
    seconds: float
    """From the plan's start to the report's end."""


class Gap(Result):
    """A window of the schedule that is not complete on a cluster."""

    cluster: str
    window: str
    """START/END."""
    why: str
    paths: list[str] = []
    """Files of it that no run has shipped, as far as they are known."""
    windows: int = 1
    """How many windows of the schedule it stands for."""


class RunReport(StepResult):
    """Everything about one run; `report.json`. The page shows nothing that is not in here."""

    step: str = "report"
    owner: str = ""
    plan: PlanResult | None = None
    gate_source: GateResult | None = None
    ships: list[ShipResult] = []
    delivery_gates: list[DeliveryGateResult] = []
    history: list[PastRun] = []
    """The runs of this pipeline's other windows before this one, oldest first."""
    gaps: list[Gap] | None = None
    """Windows of the schedule before this run's that are not complete; of the last seven days, and 200 at most. None: not known."""
    first_cause: str | None = None
    """The first failed or missing step, in one paragraph; None: the run succeeded. `status` and `error` say the same (of the run: reports
    written before 1.0 had the report's own there)."""
    page: str | None = None
    """Where the HTML page lies."""
    config: str | None = None
    """The configuration's folder, where it is not `config` below the folder that the run was started in."""


R = TypeVar("R", bound=StepResult)


_STAMP = "%Y%m%dT%H%M%SZ"
_RUN_ID = re.compile(r"[A-Za-z0-9](?:\.?[\w-]){0,99}", re.ASCII)


class _Begun(BaseModel):
    """What any step's result says of its beginning."""

    started_at: dt.datetime


def write_whole(target: str, text: str) -> None:
    """To any URL that fsspec knows. On object stores a put is atomic; elsewhere a rename makes it so.

    There are file systems whose rename leaves a file alone that is there already, some without a word (WebHDFS answers false, which fsspec
    does not look at). So the part must be gone afterwards; else the target is removed first, and for a moment nothing is there."""
    fs, path = fsspec.core.url_to_fs(target)
    fs.makedirs(path.rsplit("/", 1)[0], exist_ok=True)
    part = f"{path}.{secrets.token_hex(4)}.part"  # two that write the same file at once must not meet in one part
    fs.pipe_file(part, text.encode())
    try:
        fs.mv(part, path)
    except OSError:
        if not fs.exists(path):
            raise
    fs.invalidate_cache()
    if not fs.exists(part):
        return
    fs.rm_file(path)
    fs.mv(part, path)
    fs.invalidate_cache()
    if fs.exists(part):
        raise OSError(errno.EIO, "it is there already and cannot be replaced", path)


class RunFolder:
    """The folder of one run. Any file system that fsspec knows; results are written whole or not at all."""

    def __init__(self, runs_uri: str, pipeline: str, start: dt.datetime, end: dt.datetime, run_id: str) -> None:
        if not _RUN_ID.fullmatch(run_id):
            raise UsageError(
                f"{run_id!r} is no run id: letters, digits, `.`, `_` and `-`, beginning with a letter or digit; it names a folder"
            )
        self.run_id = run_id
        self.uri = f"{runs_uri.rstrip('/')}/{pipeline}/{self.name_of(start, end)}/{run_id}"

    @staticmethod
    def name_of(start: dt.datetime, end: dt.datetime) -> str:
        """Of a window's folder."""
        return f"{start.strftime(_STAMP)}--{end.strftime(_STAMP)}"

    @staticmethod
    def window_of(name: str) -> tuple[dt.datetime, dt.datetime] | None:
        """Of a window's folder by its name; None for any other."""
        start, _, end = name.partition("--")
        try:
            first, last = (dt.datetime.strptime(stamp, _STAMP).replace(tzinfo=dt.UTC) for stamp in (start, end))
        except ValueError:
            return None
        return (first, last) if first < last else None

    def path(self, name: str) -> str:
        return f"{self.uri}/{name}"

    @contextlib.contextmanager
    def _reached(self) -> Iterator[None]:
        """Raises StepResultError for whatever stands between this process and the folder."""
        try:
            yield
        except (OSError, ValueError, ImportError) as error:
            # fsspec says so of a scheme that it does not know, and of one whose package is not installed.
            why = why_system(error) if isinstance(error, OSError) else str(error)
            raise StepResultError(
                f"the run's folder {self.uri} cannot be used: {why}. See `runs_uri`; nothing can be shipped without it."
            ) from error

    def make(self) -> None:
        """So that what stands in the way is known before anything is done. Raises StepResultError."""
        with self._reached():
            fs, path = fsspec.core.url_to_fs(self.uri)
            fs.makedirs(path, exist_ok=True)

    def write_text(self, name: str, text: str) -> str:
        """Returns the path. Raises StepResultError."""
        with self._reached():
            write_whole(self.path(name), text)
        return self.path(name)

    def read_text(self, name: str) -> str | None:
        """None if there is no such file. Raises StepResultError."""
        with self._reached():
            fs, path = fsspec.core.url_to_fs(self.path(name))
            try:
                return bytes(fs.cat_file(path)).decode()
            except (FileNotFoundError, NotADirectoryError):
                return None

    def write(self, name: str, result: StepResult) -> str:
        return self.write_text(f"{name}.json", result.model_dump_json(indent=1) + "\n")

    def has_later(self, name: str, started_at: dt.datetime) -> bool:
        """Whether an attempt that began later has left a result: then an earlier one that wakes up must not write over it."""
        text = self.read_text(f"{name}.json")
        try:
            return text is not None and _Begun.model_validate_json(text).started_at > started_at
        except ValidationError:
            return False

    def find(self, name: str, kind: type[R]) -> R | None:
        """The result of a step, or None if it left none. Raises StepResultError if it is not this run's or unreadable."""
        text = self.read_text(f"{name}.json")
        if text is None:
            return None
        try:
            result = kind.model_validate_json(text)
        except ValidationError as error:
            raise StepResultError(f"{self.path(name)}.json cannot be read as {kind.__name__}: {error}") from error
        if result.run_id != self.run_id:
            raise StepResultError(f"{self.path(name)}.json is of run {result.run_id}, not of {self.run_id}: run it again")
        return result

    def need(self, name: str, kind: type[R]) -> R:
        """The result of a step that must have succeeded. Raises StepResultError if it is missing or failed."""
        result = self.find(name, kind)
        if result is None:
            raise StepResultError(f"step {name} left no result in {self.uri}: it did not run or was killed; run it first")
        if result.status == "failed":
            raise StepResultError(f"step {name} failed: {result.error}")
        return result
