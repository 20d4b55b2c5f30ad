"""Result of planning: the files of the window, and what each cluster lacks of them. The fields are
published: see schema.py."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import Field, WithJsonSchema

from shipper.finding import Finding, ok
from shipper.ledger.control import LaneCounts
from shipper.ledger.fold import Invalidated
from shipper.ledger.incarnations import RecreatedTopic
from shipper.report.run_folder import Result, StepResult
from shipper.types import FileId

Limit = Literal["source", "processor", "acknowledgements", "bandwidth", "rate_limit", "quota"]
IN_THE_CLEAR = "in-the-clear"
"""Code of the warning that records, or passwords too, can be read on their way to a cluster."""
#: What a pair is in JSON.
_TWO_NUMBERS: dict[str, Any] = {
    "type": "array",
    "prefixItems": [{"type": "integer"}] * 2,
    "minItems": 2,
    "maxItems": 2,
}


class KnownFile(Result):
    """A file, told from every other one."""

    path: str
    size_bytes: int
    modified_ms: int
    """Milliseconds since the epoch, as the file system says."""

    @cached_property
    def id(self) -> FileId:
        """Identity; asked some ten times of each file of a plan."""
        return FileId(self.path, self.size_bytes, self.modified_ms)


class Beginning(Result):
    """First bytes of a file's content."""

    length: int
    sum: str = ""
    """Sum as the ledger has it (`LENGTH:CRC32CRC32C`); empty if the content is shorter."""
    ends_line: bool = False
    """True if a line ends there."""
    whole: bool = False
    """True if nothing follows."""


class PlannedFile(KnownFile):
    """One file of the window, as listed."""

    uri: str = ""
    """The path as Spark's `_metadata.file_path` writes it, percent-encoded."""
    etag: str = ""
    """ETag from an object store; empty if there is none."""
    splits: int
    left: bool = True
    """True if any cluster lacks a part of it."""
    tick: str | None = None
    """START/END of the tick of the schedule that it belongs to, where the run's window has several;
    None: the window is one."""
    late_window: str | None = None
    """START/END of the window that it belongs to, of a file that came late: a run of the schedule
    found it when it looked back."""
    not_for: tuple[str, ...] = ()
    """The clusters for which it is left out, as `left_out` says."""
    late_for: tuple[str, ...] = ()
    """The clusters that lack a part of it and are to get it in this run, of a file that came late.
    The others leave it alone."""
    missing_on: tuple[str, ...] = ()
    """The clusters that lack a part of it. A cluster that could not be asked lacks what no earlier
    run is known to have delivered."""
    format: str = ""
    """Format by the first bytes: `plain`, `gzip`, `bzip2`, `zstd`, `lz4`, `snappy`, `parquet`, ….
    Empty: not read, since no cluster lacks the file."""
    bom: bool = False
    """True if the content begins with a UTF-8 byte order mark."""
    head: str = ""
    """Length and xxh64 of the first bytes of its content, 1,024 at most, by which it is recognised
    under another name. Empty: not read."""
    beginnings: list[Beginning] = Field(default_factory=list)
    """Sums of first bytes of its content: of all of it, of a small plain file, and of those that
    were compared with files that begin alike."""
    begins: Annotated[int, Field(exclude=True)] = 0
    """Bytes of its content that were delivered as another file's, as a ship decides: its own splits
    begin there."""
    problem: str = ""
    """Reason why the file cannot be read, with the remedy."""
    passing: bool = False
    """True if another run may read it, because the file is not at fault: out of reach (a DataNode
    is down), or replaced since the plan."""

    @property
    def unpacked_bytes(self) -> int:
        """About how many bytes it unpacks to: real logs compress about 7:1."""
        return self.size_bytes * (1 if self.format in ("", "plain") else 7)

    def left_out(self, why: str) -> LeftOut:
        """Return it as a file that the run does without after all."""
        return LeftOut(
            path=self.path,
            reason=why,
            warns=True,
            window=self.late_window or self.tick,
            clusters=list(self.late_for),
            size_bytes=self.size_bytes,
            modified_ms=self.modified_ms,
        )

    @property
    def unknown(self) -> bool:
        """True if its first bytes were not read."""
        return bool(self.size_bytes and not self.format and not self.problem)


class LeftOut(Result):
    """Entries of the listed folders which are not in the run, and why: a file, or an entry that
    cannot be shipped, by folder and reason."""

    path: str
    reason: str
    code: str = ""
    """The reason for programs, as in docs/reference/left-out.md: `hidden`, `dangling-link`,
    `unsettled`, …. Empty: a late file that the run does without."""
    count: int = 1
    """Entries that it stands for: all of the same folder and reason. `path` is the first by
    name."""
    more: list[str] = []
    """Paths of a few of the others."""
    warns: bool = False
    """True if the entry needs attention: the file belongs to a window and has not been shipped
    yet."""
    window: str | None = None
    """START/END of the tick of the schedule that it belongs to; None: the run's window."""
    clusters: list[str] = []
    """Clusters that do not get it; empty: none does."""
    size_bytes: int | None = None
    """Size in bytes; None: it was being written, so it will have another size."""
    modified_ms: int = 0

    def __str__(self) -> str:
        """Return ``/logs/a.log and 3 more: still being written``."""
        more = f" and {self.count - 1:,} more" if self.count > 1 else ""
        return f"{self.path}{more}: {self.reason}"


class LookedBack(Result):
    """Folders of earlier windows, as a scheduled run found them."""

    start: dt.datetime
    """Begin of the first window that was looked at."""
    windows: int
    folders: int
    """Number of folders that the run's own window does not touch."""
    files: int = 0
    """Files there that are done being written, shipped or not."""


class OfCluster(Result):
    """Result of a step on one cluster."""

    cluster: str
    findings: list[Finding] = []
    """What a person should know, each with the cluster's name: `fail` says why nothing can be
    shipped there right now (unreachable, topic missing, transform changed, …), `warn` what should
    be repaired before it costs data, and `ok` what happened."""

    def note(self, *texts: str, code: str) -> None:
        """Add what happened, once."""
        found = (ok(text, code=code, cluster=self.cluster) for text in texts if text)
        self.findings += [one for one in found if one not in self.findings]


class Forecast(Result):
    """Expected limit and cost of a ship, for the bytes as the files have them: rules of
    `records.drop`, and what a record is made of, change them."""

    bytes: int
    """Bytes to send at most, uncompressed. A packed file counts as if it unpacked 7 : 1."""
    wire_bytes: int
    """Bytes on the wire, if they compress as those of that ship, or as the sample."""
    cpu_seconds: float
    """CPU time in core-seconds."""
    measured_by: str | None = None
    """Run whose ship these figures go by; null: no ship of the pipeline to the cluster took long
    enough, and `cpu_seconds` is by shipper's benchmark of plain lines."""
    bytes_per_second: float | None = None
    """Uncompressed; null: not known before a ship has told."""
    seconds: float | None = None
    """Seconds from the first byte to the last commit; null: not known."""
    limited_by: Limit | None = None
    """Limit by the words of a ship's `limited_by`; null: not known, or the ship is too short to
    tell."""


class ClusterPlan(OfCluster):
    """Files of the window that one cluster already holds, and those that it lacks."""

    topics: list[str] = []
    """Topics, if the cluster's routes differ from the pipeline's own: as `topics` of the plan."""
    transform_digest: str = ""
    """Digest of the records as this cluster gets them."""
    asked: bool = True
    """False if nobody could ask the cluster what it holds."""
    missing_topics: list[str] = []
    recreated: list[RecreatedTopic] = []
    """Topics that do not hold what the ledger says, since they were deleted after it was
    delivered."""
    complete_files: int = 0
    """Files whose every record is on the cluster, by the ledger."""
    partial_files: int = 0
    left_files: int = 0
    late_files: int = 0
    """Number of late files among `left_files`."""
    left_bytes: int = 0
    """Bytes of the files that are left, as stored. Of a partial file all of them are read again,
    and only the rest is sent."""
    records_there: int = 0
    """Records of this window's files that the ledger holds."""
    recognised: list[RecognisedFile] = []
    to_fence: dict[str, Annotated[LaneCounts, WithJsonSchema(_TWO_NUMBERS)]] = {}
    """Name of the cluster → (tasks, lanes per task) of earlier runs that may have been open when
    this was planned."""
    generation: int | None = None
    """The latest generation in the ledger when this was planned, -1 before the first ship; null if
    the ledger was not asked."""
    rtt_ms: float | None = None
    """Measured round trip to the cluster, in milliseconds: of a request that a broker answers from
    memory."""
    ack_ms: float | None = None
    """Time until the latest ship's records were acknowledged at its begin, in milliseconds; null
    before the first ship. Every ship measures it anew."""
    lanes: int | None = None
    """Number of lanes per task; with `batch_bytes` and `chunk_bytes` what the next ship would use,
    by the link as measured now."""
    batch_bytes: int | None = None
    chunk_bytes: int | None = None
    tuning: str = ""
    """Reason for these sizes, in one paragraph."""
    forecast: Forecast | None = None
    """Expected limit and cost of the next ship; null: nothing is left, or nothing can be said."""
    looks_back_to: dt.datetime | None = None
    """Begin of the first window before the run's own whose files were held against this cluster's
    ledger; None: of none."""
    committed: dict[str, dt.datetime] = {}
    """START/END of a tick before the run's window → when the last of its files that are complete
    was committed, by the ledger. Of the newest 100 ticks that have such a file."""

    @property
    def problem(self) -> Finding | None:
        """Why nothing can be shipped there right now, with the remedy; None: nothing speaks against
        it."""
        return next((found for found in self.findings if found.severity == "fail"), None)


class RecognisedFile(KnownFile):
    """A file of this run that was delivered under another name, or when it was shorter, as the sum
    of its content says. Every ship decides anew."""

    original: KnownFile
    """The file as which it was delivered."""
    complete: bool
    """True if all of it was delivered; else the rest is shipped."""


class PlanResult(StepResult):
    step: str = "plan"
    source: str = ""
    """The folders that were listed, as a pattern."""
    source_root: str = ""
    """Part of the path in front of the first placeholder or glob, as the files' paths begin: the
    rest of a path identifies the file."""
    transform_digest: str = ""
    files: list[PlannedFile] = []
    """Files of the window, shipped or not; and of the windows before it, those that some cluster
    lacks."""
    left_out: list[LeftOut] = []
    empty: list[str] = []
    """START/END of the ticks of the schedule, of the window and of those that were looked back at,
    whose folders hold no file that is wanted."""
    over_until: dt.datetime | None = None
    """End of the ticks of the window that were over when a run by hand was planned; None: all
    were, or there is no schedule."""
    looked_back: LookedBack | None = None
    """Folders of earlier windows; None: the run did not look back."""
    sample_ratio: float = 1.0
    """Ratio of compression at the beginning of some files: uncompressed bytes per compressed
    byte."""
    long_lines: bool = False
    """True if a line of over 64 kB was seen there."""
    topics: list[str] = []
    """Topics known before reading; those with a `{column}` keep their placeholder."""
    clusters: list[ClusterPlan] = []

    def of_cluster(self, cluster: str) -> ClusterPlan:
        """Return the cluster's part; an empty one for a plan that asked no cluster."""
        none = ClusterPlan(cluster=cluster, asked=False)
        return next((each for each in self.clusters if each.cluster == cluster), none)

    def digest_for(self, cluster: str) -> str:
        """Return the digest of the transform, as the cluster is to have the records."""
        return self.of_cluster(cluster).transform_digest or self.transform_digest

    @property
    def own_files(self) -> list[PlannedFile]:
        """Files of the run's own window."""
        return [file for file in self.files if file.late_window is None]

    @property
    def late_files(self) -> list[PlannedFile]:
        return [file for file in self.files if file.late_window is not None]

    def without_late_files(self, why: str) -> PlanResult:
        """Return the plan of a run that leaves late files out after all."""
        left_out = [file.left_out(why) for file in self.late_files]
        return self.model_copy(
            update={"files": self.own_files, "left_out": [*self.left_out, *left_out]}
        )

    def files_for(self, cluster: str) -> list[PlannedFile]:
        """Return the files that a ship to the cluster is about."""
        return [file for file in self.seen_by(cluster) if cluster not in file.not_for]

    def seen_by(self, cluster: str) -> list[PlannedFile]:
        """Return these, and the files that are left out there: one of them may be what lay at the
        path of another."""
        return [
            file
            for file in self.files
            if file.late_window is None or cluster in (*file.late_for, *file.not_for)
        ]

    @property
    def asker(self) -> str:
        """Run id under which files are re-shipped: the reship's own id if it has one, else the
        run's."""
        return self.asked.reship_id or self.run_id

    def reshipped(self, invalidated: Mapping[FileId, Invalidated]) -> list[FileId]:
        """Return the files that were invalidated under the same name before: they are shipped again
        once."""
        return [file for file, over in invalidated.items() if self.asker in over.asked_by]

    def left_out_by_weight(self) -> list[LeftOut]:
        """Return what was left out; first what needs attention."""
        return sorted(self.left_out, key=lambda one: not one.warns)

    def left_out_in_words(self) -> str:
        """Return ``2 entries left out (1 unsettled, 1 hidden)``; empty if there are none."""
        counts = Counter[str]()
        for one in self.left_out_by_weight():
            counts[one.code or "late"] += one.count
        total = sum(counts.values())
        each = ", ".join(f"{count:,} {code}" for code, count in counts.items())
        return (
            f"{total:,} {'entry' if total == 1 else 'entries'} left out ({each})" if total else ""
        )

    @property
    def total_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)

    @property
    def bytes_to_read(self) -> int:
        """About what the files that some cluster lacks unpack to."""
        return sum(file.unpacked_bytes for file in self.files if file.left)

    @property
    def total_splits(self) -> int:
        return sum(file.splits for file in self.files)
