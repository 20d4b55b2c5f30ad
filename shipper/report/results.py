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

import datetime as dt
from typing import Literal, TypeVar

import fsspec
from pydantic import BaseModel, ConfigDict, ValidationError

from shipper.errors import StepResultError

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


class LeftOut(Result):
    """A file that is in the window's folders but not in the run, and why."""

    path: str
    reason: str


class ClusterPlan(Result):
    """What one cluster already holds of the window, and what is left."""

    cluster: str
    problem: str | None = None
    """Why nothing can be shipped there right now (unreachable, topic missing, transform changed, …), with the remedy."""
    missing_topics: list[str] = []
    complete_files: int = 0
    """Files whose every record is on the cluster, by the ledger."""
    partial_files: int = 0
    left_files: int = 0
    left_bytes: int = 0
    """Bytes of the files that are left, as stored. Of a partial file all of them are read again, and only the rest is sent."""
    records_there: int = 0
    """Records of this window's files that the ledger holds."""
    rtt_ms: float | None = None
    """Measured round trip to the cluster, in milliseconds."""
    lanes: int | None = None
    """Per task; with `batch_bytes` and `chunk_bytes` what the next ship would use, by the link as measured now."""
    batch_bytes: int | None = None
    chunk_bytes: int | None = None
    tuning: str = ""
    """Why, in one paragraph."""


class PlanResult(StepResult):
    step: str = "plan"
    source: str = ""
    """The folders that were listed, as a pattern."""
    transform_digest: str = ""
    reship: bool = False
    files: list[PlannedFile] = []
    left_out: list[LeftOut] = []
    sample_ratio: float = 1.0
    """How well the beginning of some files compresses: uncompressed bytes per compressed byte."""
    long_lines: bool = False
    """Whether a line of over 64 kB was seen there."""
    topics: list[str] = []
    """Topics known before reading; those with a `{column}` keep their placeholder."""
    clusters: list[ClusterPlan] = []

    @property
    def total_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)

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
    scans: int = 0
    """How often Great Expectations had the content read."""


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


class DeliveryGateResult(GateResult):
    step: str = "gate_delivery"
    cluster: str
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
    first_cause: str | None = None
    """The first failed or missing step, in one paragraph; None: the run succeeded. (`status` is the report's own.)"""
    page: str | None = None
    """Where the HTML page lies."""


R = TypeVar("R", bound=StepResult)


_STAMP = "%Y%m%dT%H%M%SZ"


class RunFolder:
    """The folder of one run. Any file system that fsspec knows; results are written whole or not at all."""

    def __init__(self, runs_uri: str, pipeline: str, start: dt.datetime, end: dt.datetime, run_id: str) -> None:
        self.run_id = run_id
        self.uri = f"{runs_uri.rstrip('/')}/{pipeline}/{start.strftime(_STAMP)}--{end.strftime(_STAMP)}/{run_id}"

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

    def write_text(self, name: str, text: str) -> str:
        """Returns the path. On object stores a put is atomic; elsewhere a rename makes it so."""
        target = self.path(name)
        fs, path = fsspec.core.url_to_fs(target)
        fs.makedirs(path.rsplit("/", 1)[0], exist_ok=True)
        part = f"{path}.part"
        fs.pipe_file(part, text.encode())
        fs.mv(part, path)
        return target

    def read_text(self, name: str) -> str | None:
        """None if there is no such file."""
        fs, path = fsspec.core.url_to_fs(self.path(name))
        try:
            return bytes(fs.cat_file(path)).decode()
        except FileNotFoundError:
            return None

    def write(self, name: str, result: StepResult) -> str:
        return self.write_text(f"{name}.json", result.model_dump_json(indent=1) + "\n")

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
