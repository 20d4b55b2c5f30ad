"""Results of a run's steps after planning, and the report of them all. The fields are published:
see schema.py."""

from __future__ import annotations

import datetime as dt
from typing import Literal

from shipper.ledger.incarnations import RecreatedTopic
from shipper.report.plan_result import Limit, OfCluster, PlanResult
from shipper.report.run_folder import Result, StepResult


def write_checksum(checksum: int) -> str:
    """Write the checksum modulo 2^64, in 16 hex digits."""
    return f"{checksum % (1 << 64):016x}"


class CheckResult(Result):
    """One check of a gate. Holds figures only, never a log line."""

    check: str
    """Name with its subject, such as `not_null(value)`."""
    severity: Literal["block", "quarantine", "warn"]
    """`quarantine`: records that fail it go to the quarantine topic, and it never closes
    the gate."""
    passed: bool
    expected: str
    observed: str
    history: list[float] = []
    """Figures of earlier runs, oldest first, for a check that compares with them."""
    evaluated: bool = True
    """False if nobody knows whether it holds: then it blocks."""

    @property
    def kind(self) -> str:
        """Name without the subject."""
        return self.check.partition("(")[0]

    @property
    def blocks(self) -> bool:
        """True if it closes its gate."""
        return self.severity == "block" and not self.passed

    def __str__(self) -> str:
        return f"{self.check}: expected {self.expected}, observed {self.observed}"


class GateResult(StepResult):
    """`gate_source` or `gate_delivery`."""

    cluster: str | None = None
    checks: list[CheckResult] = []
    scope: str = ""
    """Extent of the look, such as `4 of 120 files`."""
    late_held_back: str | None = None
    """Reason why the late files stay out of the run (source gate). With them a check would not
    hold; the window's own files are right."""
    scans: int = 0
    """Number of times that Great Expectations had the content read."""

    @property
    def closing(self) -> list[CheckResult]:
        """Checks that close it."""
        return [check for check in self.checks if check.blocks]

    @property
    def is_closed(self) -> bool | None:
        """True if a check closed it; None: it could not be evaluated."""
        if self.status != "failed":
            return False
        return bool(self.closing) if self.checks else None


def apply_gate(plan: PlanResult, gate: GateResult) -> PlanResult:
    """Return the plan after the source gate: the files that are shipped."""
    return plan.without_late_files(gate.late_held_back) if gate.late_held_back else plan


class TopicAccount(Result):
    """Records of one topic in one run, each counted in its own place."""

    topic: str
    quarantine: bool = False
    """True for the quarantine topic: its records are quarantined, and not part of any sum of
    delivered records."""
    delivered: int = 0
    """Sent by this run, by the receipts of the Spark tasks."""
    delivered_bytes: int = 0
    """Bytes of values and keys of these records, uncompressed."""
    before: int = 0
    """Records on the cluster before this run, by the ledger: skipped, or in files that were not
    even read."""
    ledger: int | None = None
    """Records of this window's files in the ledger after the run, read again. None: not counted
    yet."""
    read_back: int | None = None
    """Records of this ship that a read_committed consumer found in the topic. None: not asked
    for."""
    parked: int = 0
    """Read and not sent, since the topic could not be written to until the end."""
    earlier: int = 0
    """Records among `before` that an earlier attempt of this very run sent, by the ledger."""
    earlier_bytes: int = 0
    """Bytes of values and keys of these records, uncompressed."""

    @property
    def agrees(self) -> bool:
        """False if the ledger or the read-back counted other than the receipts."""
        of_window = self.delivered + self.before
        return self.ledger in (None, of_window) and self.read_back in (None, self.delivered)


class FileAccount(Result):
    """One file on one cluster. records = filtered + quarantined + delivered + before, unless the
    run failed."""

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
    """Seconds that Spark's tasks spent on it: reading, and waiting for a free lane. Splits that
    were read side by side add up."""
    unread: bool = False
    """True if it was not even read, because the ledger held all of it."""
    checksums: dict[str, str] = {}
    """Topic → checksum of the records that this run delivered there, by the tasks: the sum of
    xxhash64(value), modulo 2^64, in 16 hex digits."""

    @property
    def missing(self) -> int:
        """Lines that were read and are in none of the other counts: parked or failed."""
        return (
            self.records
            - self.delivered
            - self.before
            - sum(self.filtered.values())
            - sum(self.quarantined.values())
        )


class Count(Result):
    """One figure of the account, as counted in places that do not know of each other. None: not
    counted there."""

    name: str
    """`read`, `filtered: RULE`, `quarantined: REASON`, or a topic."""
    spark: int | None = None
    """Count of Spark's own observation, before and after each filter, in the run's first pass."""
    receipts: int | None = None
    """Count of the tasks, record by record as they sent them."""
    ledger: int | None = None
    """Count in the ledger, read again after the ship."""
    read_back: int | None = None
    """Count in the topic, by a consumer that shares no code with the producer."""

    @property
    def agrees(self) -> bool:
        return len({self.spark, self.receipts, self.ledger, self.read_back} - {None}) <= 1


class TimelinePoint(Result):
    """Records committed in one interval that ends at `at`, by the ledger's broker timestamps."""

    at: dt.datetime
    records: int
    bytes: int


class ShipResult(StepResult, OfCluster):
    step: str = "ship"
    generation: int = 0
    """The ship's number in the ledger: the offset of its record. A higher one fences all lower
    ones."""
    later_generations: list[int] = []
    """Each further pass over the files has a number of its own."""
    chunks_end: int = 0
    """Offset in the ledger's chunk partition behind the last record before this ship."""
    ledger_end: int = 0
    """Offset there behind the last record that this ship knows of. Whoever judges the ship reads at
    least as far: a broker that leads no more, and does not know it, has less."""
    tasks: int = 0
    lanes: int = 0
    """Lanes per task."""
    read: int = 0
    """Lines that Spark read, by its own observation."""
    unread: int = 0
    """Records of files that were not even read, because the ledger held all of them.
    read + unread = filtered + quarantined + delivered + before."""
    unread_files: int = 0
    by_earlier_attempts: int = 0
    """Records already committed that an earlier attempt of this very run had sent: one that was
    killed, or was cleared."""
    late_files: int = 0
    """Files of earlier windows that this run had to ship, since they came late or an earlier run
    did not get to them."""
    late_windows: int = 0
    """The windows that these belong to."""
    late_records: int = 0
    """Delivered records of late files."""
    filtered: dict[str, int] = {}
    """Rule of `records.drop` → lines it took out, by the receipts."""
    quarantined: dict[str, int] = {}
    """Reason → records that this run sent to the quarantine topic, by the receipts."""
    settled: dict[str, int] = {}
    """Reason → records of the files that were read which belong there and were dealt with before,
    by the receipts."""
    observed: dict[str, int] = {}
    """Spark's own count of the same, by name as in `Count`: `read`, `filtered: RULE`, `quarantined:
    REASON`."""
    ends_before: dict[str, list[int]] | None = None
    """Topic → per partition, the offset behind its last record just before this ship sent anything:
    where a read-back begins. -1: the partition had no leader to ask. None: not taken, since nothing
    was left to ship or `gates.delivery` has no `read_back`."""
    checksum: str | None = None
    """Checksum of the values of all lines that Spark read and that are to be shipped, by its own
    observation; as in FileAccount. None: not asked for (`gates.delivery` has no `checksum`), or the
    job failed."""
    checksum_added: str | None = None
    """Difference that the tasks made: byte order marks, which Spark's reader drops, are put back;
    records that only the tasks found unfit to ship are taken off."""
    recreated: list[RecreatedTopic] = []
    """Topics that did not hold what the ledger says, since they were deleted before the ship, or
    during it."""
    topic_ids: dict[str, str] = {}
    """Topic → its id when the ship took over, as far as brokers tell."""
    gone_topic_ids: dict[str, list[str]] = {}
    """Topic → ids of earlier topics of that name whose chunks in the ledger counted as not
    there."""
    topics: list[TopicAccount] = []
    files: list[FileAccount] = []
    are_receipts_lost: bool = False
    """True if tasks ended without a receipt: then the counts by receipts are those of the others,
    and nobody knows by them how many records were sent."""
    ledger_records: int | None = None
    """Records of this ship that the ledger held at its end, asked if receipts are lost. None: not
    asked, or no answer."""
    ship_seconds: float = 0.0
    """Seconds from the first byte read to the last commit, without Spark's start."""
    cpu_seconds: float = 0.0
    """CPU time of the Spark tasks, in core-seconds: their Python processes, and Java's threads that
    read for them."""
    limited_by: Limit | None = None
    """Thing that held the ship up most: reading (`source`), the processors, the delay of
    acknowledgements, the cluster's `bandwidth`, a `rate_limit`, or a broker's `quota`. None: it was
    too short to tell."""
    task_retries: int = 0
    guarantee: Literal["exactly_once", "at_least_once"] = "exactly_once"
    rtt_ms: float | None = None
    """Round trip of a request that a broker answers from memory, in milliseconds."""
    ack_ms: float | None = None
    """Time until a record is acknowledged, in milliseconds, by which the lanes were sized."""
    held_ack_ms: float | None = None
    """The same as the lanes met it at the end of the ship. None: they sent too little."""
    tuning: str = ""
    """Sizes of lanes and batches, with their reason."""
    wire_bytes: int = 0
    """Sent to the cluster, compressed, protocol included."""
    rate_limit_bytes: int | None = None
    """Cap that held for the ship, in bytes per second on the wire; None: no cap."""
    earlier_wire_bytes: int = 0
    """The same of the earlier attempts of this very run, as far as they left a result."""
    parked: dict[str, int] = {}
    """Topic → records that had to wait for it at some time."""
    possible_duplicates: int = 0
    """Records that may be there twice, at most, if this run or the one before it shipped at least
    once; the notes name their chunks."""
    lane_reopened: int = 0
    """Number of times that a lane was reopened (abort, timeout, broker gone)."""
    timeline: list[TimelinePoint] = []

    @property
    def generations(self) -> list[int]:
        return [self.generation, *self.later_generations]

    @property
    def delivered(self) -> int:
        return sum(topic.delivered for topic in self.topics if not topic.quarantine)

    @property
    def bytes(self) -> int:
        """Bytes of values and keys that this run sent, uncompressed; in quarantine, too."""
        return sum(topic.delivered_bytes for topic in self.topics)

    @property
    def before(self) -> int:
        """Records already committed, in the quarantine topic too."""
        return sum(topic.before for topic in self.topics)


class LeftFile(Result):
    """A file that was left behind, as it was then."""

    path: str
    size_bytes: int | None = None
    """Size in bytes; None: it was being written, so it has another size by now."""
    modified_ms: int = 0


class Uncovered(Result):
    """A window of which something is not on the cluster, as far as the run knows."""

    window: str
    """START/END."""
    why: str
    files: list[LeftFile] = []
    """Files that were left out; empty: there was nothing to ship, although there should be."""

    @property
    def paths(self) -> list[str]:
        return [file.path for file in self.files]


class Coverage(Result):
    """Part of the schedule that is complete on the cluster when the run's delivery gate has passed:
    [start, end) without `uncovered`."""

    start: dt.datetime
    end: dt.datetime
    looked_at: dt.datetime | None = None
    """Place of the plan among the steps of all runs; None: no plan looked."""
    asked: bool = True
    """False if nobody could ask the cluster what it holds. Then files that were known to be missing
    stay so."""
    uncovered: list[Uncovered] = []
    committed: dict[str, dt.datetime] = {}
    """START/END of a tick → when the last of its records that the run knows of was committed, by
    the ledger."""


class CompleteWindow(Result):
    """A window of the schedule that is complete on the cluster."""

    start: dt.datetime
    end: dt.datetime
    records: int = 0
    """Records there of those of its files that were in the run's plan: of an earlier window, its
    late files alone."""
    sent: int = 0
    """Records among these that this run sent."""


class DeliveryGateResult(GateResult):
    step: str = "gate_delivery"
    cluster: str
    recreated: list[RecreatedTopic] = []
    """Topics that were deleted after this run, or a run before it, had delivered records of the
    window to them."""
    coverage: Coverage | None = None
    """Coverage; None if the gate could not be evaluated."""
    complete: list[CompleteWindow] = []
    """Windows that are complete with this run: its own ones, and earlier ones that were not
    complete without it."""
    topics: list[TopicAccount] = []
    """The ship step's account with `ledger` and `read_back` filled in."""
    offsets: dict[str, list[tuple[int, int]]] = {}
    """Topic → per partition, begin and end of the offsets between which all records of this ship
    lie, and perhaps records of others. Begin -1: the partition had no leader to ask. Empty without
    a `read_back`."""
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
    """Seconds from the plan's start to the report's end."""


class Gap(Result):
    """A window of the schedule that is not complete on a cluster."""

    cluster: str
    window: str
    """START/END."""
    why: str
    paths: list[str] = []
    """Files of it that no run has shipped, as far as they are known."""
    windows: int = 1
    """Number of windows of the schedule that it stands for."""

    def __str__(self) -> str:
        """Return ``too young: /logs/a.log and 2 more``."""
        more = f" and {len(self.paths) - 1:,} more" if self.paths[1:] else ""
        return f"{self.why}: {self.paths[0]}{more}" if self.paths else self.why


class RunReport(StepResult):
    """Report on one run; `report.json`. The page shows nothing that is not in here. `status` and
    `error` are the run's: the first failed or missing step."""

    step: str = "report"
    owner: str = ""
    plan: PlanResult | None = None
    gate_source: GateResult | None = None
    ships: list[ShipResult] = []
    delivery_gates: list[DeliveryGateResult] = []
    history: list[PastRun] = []
    """The runs of this pipeline's other windows before this one, oldest first."""
    gaps: list[Gap] | None = None
    """Windows of the schedule before this run's that are not complete; of the last seven days, and
    200 at most. None: not known."""
    fresh_until: dict[str, dt.datetime] = {}
    """Cluster → end of the latest window that is over and complete there, by this run or an earlier
    one. A cluster without a known one is left out."""
    page: str | None = None
    """Path of the HTML page."""
    config: str | None = None
    """The configuration's folder, where it is not `config` below the folder that the run was
    started in."""
