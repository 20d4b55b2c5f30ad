"""Checks of a window before its first byte is sent and of a run after its last byte: what all
checks have in common, the checks of the listing, which read no line, and those of the delivery. The
checks of lines are in content_checks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, StrictBool, StrictFloat, StrictInt, field_validator, model_validator

from shipper.config.rules import Fault, Model, PathTime, check_ascending, pattern_of_source, refuse
from shipper.config.units import Bytes, Seconds, write_duration, write_size


@dataclass(frozen=True)
class PipelineFacts:
    """Properties of the pipeline that a check may need. None if a property is unknown, because its
    own setting is faulty."""

    columns: Sequence[str] | None
    """`value`, `key` if there is one, and what `records` makes."""
    source_path: str | None
    topics: Sequence[str] | None
    """Topics of the routes, with their ``{column}``."""
    quarantines: bool | None
    """True if there is a `quarantine`."""
    empty_succeeds: bool | None
    """True for `source.when_empty: succeed`: a window without files skips the gate."""


class GateCheck(Model):
    """Check at either gate."""

    severity: Literal["block", "warn"] = "block"
    """`block`: a check that does not hold closes the gate. `warn`: it is only reported."""

    @property
    def title(self) -> str:
        """Name with its subject, as reports and the reasons of quarantined records show it:
        ``not_null(host)``."""
        name, column = getattr(self, "check", type(self).__name__), getattr(self, "column", None)
        return str(name) if column is None else f"{name}({column})"

    def faults(self, facts: PipelineFacts) -> Iterator[Fault]:
        """Yield contradictions with the rest of the pipeline."""
        yield from ()


class SourceGateCheck(GateCheck):
    """Check that must hold before the first byte is sent."""

    whole: ClassVar[str] = (
        "the check is about all records together, and no single record is at fault"
    )
    """Reason why it cannot have severity `quarantine`; empty for one that can."""

    @field_validator("severity", mode="before")
    @classmethod
    def _quarantine_takes_records(cls, value: Any) -> Any:
        if value == "quarantine" and cls.whole:
            refuse(
                [((), f"`quarantine` takes single records out; {cls.whole}: use `block` or `warn`")]
            )
        return value


class CountCheck(SourceGateCheck):
    """A number of files or lines that lies between two bounds."""

    min: StrictInt | None = Field(default=1, ge=0)
    """The fewest that are right."""
    max: StrictInt | None = Field(default=None, ge=0)
    """The most that are right; unlimited by default."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        check_ascending({"min": self.min, "max": self.max})
        return self


class FilesCheck(CountCheck):
    """The number of files in the window."""

    check: Literal["files"]

    def faults(self, facts: PipelineFacts) -> Iterator[Fault]:
        if facts.empty_succeeds and self.min == 1 and self.max is None:
            yield (
                ("min",),
                "`source.when_empty: succeed` lets a window without files pass before this check; "
                "remove one of the two",
            )


class TotalBytesCheck(SourceGateCheck):
    """The size of all files of the window together, as stored. Give `min`, `max` or both."""

    check: Literal["total_bytes"]
    min_bytes: Bytes | None = Field(default=None, alias="min")
    """The smallest size that is right."""
    max_bytes: Bytes | None = Field(default=None, alias="max")
    """The largest size that is right."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        check_ascending({"min": self.min_bytes, "max": self.max_bytes}, write_size)
        return self


class FreshnessCheck(SourceGateCheck):
    """Age of the newest file, compared with the window's end: a source that stopped writing is
    found the same hour."""

    check: Literal["freshness"]
    max_age_seconds: Seconds = Field(alias="max_age")
    """Longest time between the newest file's modification and the window's end."""


class FilesPerCheck(CountCheck):
    """The number of files in every part of the window: a missing hour is an error that names it,
    and not just a smaller sum. Parts are counted from the window's start; the last one may be
    shorter. A file without a time in its path fails the check; one whose time is outside the window
    is in no part."""

    check: Literal["files_per"]
    every_seconds: Seconds = Field(alias="every", gt=0)
    """Length of a part, such as `1h`. At least as long as the finest unit in `time`."""
    time: str | None = Field(default=None, examples=["/%Y/%m/%d/%H/", "web-%Y%m%dT%H"])
    """Place of the time (UTC) in a file's path: `%Y %m %d %j %H %M %S` and text between them, found
    at its last occurrence in the path. Default: what `source.path` has in `{window_start:…}`."""

    @field_validator("time")
    @classmethod
    def _readable_time(cls, value: str | None) -> str | None:
        if value is not None:
            PathTime(value)
        return value

    @model_validator(mode="after")
    def _fine_enough(self) -> Self:
        if self.time is not None:
            self.path_time(self.time)
        return self

    def path_time(self, pattern: str) -> PathTime:
        """Return where a path has its time: as `time` says, else as ``pattern`` does. Raises
        ValueError if its finest unit is longer than a part."""
        found = PathTime(self.time or pattern)
        if found.finest_seconds > self.every_seconds:
            raise ValueError(
                f"`every: {write_duration(self.every_seconds)}` needs a finer `time` than "
                f"{found.pattern!r}, whose finest unit is "
                f"{write_duration(found.finest_seconds)}; add `%H` or `%M` to it, or make "
                "`every` longer"
            )
        return found

    def faults(self, facts: PipelineFacts) -> Iterator[Fault]:
        if self.time is not None or facts.source_path is None:
            return
        pattern = pattern_of_source(facts.source_path)
        if pattern is None:
            why = "`time` is needed: `source.path` does not show where a file's path has its time"
            yield (), why
            return
        try:
            self.path_time(pattern)
        except ValueError as error:
            yield (), f"`time` is taken from `source.path` ({pattern!r}): {error}"


class SizeVsHistoryCheck(SourceGateCheck):
    """Size of the window compared with earlier runs: its number of files or bytes against the
    median of earlier windows of the same length whose run succeeded. With fewer than `min_runs` of
    them, the check says so and holds, because a first run has no history."""

    check: Literal["size_vs_history"]
    of: Literal["files", "bytes"] = "bytes"
    """Figure to compare: the number of files, or their size as stored."""
    runs: StrictInt = Field(default=10, ge=1, le=200)
    """Number of earlier windows to compare with, the latest ones."""
    min_runs: StrictInt = Field(default=3, ge=1)
    """Smallest number of earlier windows to compare with. With fewer, the check holds."""
    tolerance: StrictFloat = Field(default=0.5, gt=0, le=100)
    """Allowed distance from the median, as a share of it: 0.5 allows half to one and a half times
    the median. From 1 on, no window is too small."""
    alike: Literal["any", "time_of_day", "time_of_week"] = "any"
    """Earlier windows that count: all, those that start at the same time of day, or of the same day
    of the week (UTC)."""

    @model_validator(mode="after")
    def _enough_runs(self) -> Self:
        if self.min_runs > self.runs:
            raise ValueError(f"`min_runs` ({self.min_runs}) is larger than `runs` ({self.runs})")
        return self

    @property
    def title(self) -> str:
        return f"size_vs_history({self.of})"


class DuplicateFilesCheck(SourceGateCheck):
    """No two files of the window have the same content. Files of equal size are compared by their
    first and last 4 kB, and if those are equal, by an MD5 of all their bytes, as stored. Empty
    files are not compared. ETags of an object store are not used: the same bytes, uploaded in other
    parts, have another ETag."""

    check: Literal["duplicate_files"]


class NoBomCheck(SourceGateCheck):
    """No file begins with a UTF-8 byte order mark. No check of lines can see the mark: Spark's
    reader removes it from the first line, and shipper puts it back. Costs one open and three bytes
    of every file that is left to ship."""

    check: Literal["no_bom"]


ListingCheck = (
    FilesCheck
    | TotalBytesCheck
    | FreshnessCheck
    | FilesPerCheck
    | SizeVsHistoryCheck
    | DuplicateFilesCheck
    | NoBomCheck
)


class SumClosesCheck(GateCheck):
    """Lines read = filtered + quarantined + delivered + already there, for the cluster and for each
    file. Each of these figures, and the records of each topic, must be the same by Spark's own
    count, by the tasks' receipts and in the ledger, read again. Costs a read of the ledger."""

    check: Literal["sum_closes"]


class ChecksumCheck(GateCheck):
    """The sum of xxhash64(value) over all records, modulo 2^64: what Spark computed from the lines
    = what the ledger holds of them; and for each file and topic, what the tasks computed = what the
    ledger says of this run's chunks. Costs Spark an aggregate in the same scan, and only if it is
    asked for."""

    check: Literal["checksum"]


class QuarantineRateCheck(GateCheck):
    """The share of the lines read in this run that went to the quarantine topic. Needs
    `quarantine`, whose own `max_rate` fails the ship itself; this one may be stricter, or only
    warn."""

    check: Literal["quarantine_rate"]
    max_rate: StrictFloat = Field(ge=0, le=1)
    """Largest share, 0–1."""

    def faults(self, facts: PipelineFacts) -> Iterator[Fault]:
        if facts.quarantines is False:
            yield ("check",), "needs `quarantine`: without it no record goes there"


class ReadBackCheck(GateCheck):
    """The topics hold the sent records, as seen by a `read_committed` consumer that shares no code
    with the producer. It reads from where each partition ended before this run's first byte to the
    present end. Not for compacted topics, which forget records."""

    check: Literal["read_back"]
    mode: Literal["offsets", "sample", "full"] = "sample"
    """`full`: every partition is read; records are counted and their values hashed, per partition
    where the ledger knows it, and per topic. `sample`: a quarter of each topic's partitions, others
    for another window; all of them for records with keys, since the ledger does not know which
    partition these went to. `offsets`: nothing is read; the partitions must have moved on by at
    least as many offsets as records were sent. `sample` and `full` need the right to read the
    topics."""
    shared: StrictBool = False
    """True if other producers, such as another pipeline, write to these topics too. The check
    cannot tell their records apart, so it only checks for *at least as many*, and compares no
    checksums: another producer's record may make up for a missing one."""
    timeout_seconds: Seconds = Field(default=180.0, alias="timeout", ge=1)
    """Longest time without a record, after which the check cannot be evaluated. A `read_committed`
    consumer waits at an open transaction, so make this longer than the transaction timeout of
    everybody who writes to the topic."""


DeliveryCheck = Annotated[
    SumClosesCheck | ChecksumCheck | QuarantineRateCheck | ReadBackCheck,
    Field(discriminator="check"),
]
