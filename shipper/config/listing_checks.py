"""The checks of the source gate that look at the listing alone: they read no file, but for `duplicate_files`."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, StrictFloat, StrictInt, field_validator, model_validator

from shipper.config.check_base import Check, CountCheck
from shipper.config.path_time import PathTime
from shipper.config.units import Bytes, Seconds, write_duration, write_size


class FilesCheck(CountCheck):
    """The number of files in the window."""

    check: Literal["files"]


class TotalBytesCheck(Check):
    """The size of all files of the window together, as stored. Give `min`, `max` or both."""

    check: Literal["total_bytes"]
    min_bytes: Bytes | None = Field(default=None, alias="min")
    """The smallest size that is right."""
    max_bytes: Bytes | None = Field(default=None, alias="max")
    """The largest size that is right."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        low, high = self.min_bytes, self.max_bytes
        if low is None and high is None:
            raise ValueError("neither `min` nor `max`: every size would pass; give one of them, or leave the check out")
        if low is not None and high is not None and low > high:
            raise ValueError(f"`min` ({write_size(low)}) is larger than `max` ({write_size(high)}): no size is right")
        return self


class FreshnessCheck(Check):
    """The newest file must be young enough against the window's end: a source that stopped writing is found the same hour."""

    check: Literal["freshness"]
    max_age_seconds: Seconds = Field(alias="max_age")
    """Longest time between the newest file's modification and the window's end."""


class FilesPerCheck(CountCheck):
    """The number of files in every part of the window: a missing hour is an error that names it, and not just a smaller sum. Parts
    are counted from the window's start; the last one may be shorter. A file without a time in its path fails the check; one whose
    time is outside the window is in no part."""

    check: Literal["files_per"]
    every_seconds: Seconds = Field(alias="every", gt=0)
    """Length of a part, such as `1h`. At least as long as the finest unit in `time`."""
    time: str | None = Field(default=None, examples=["/%Y/%m/%d/%H/", "web-%Y%m%dT%H"])
    """Where a file's path has its time (UTC): `%Y %m %d %j %H %M %S` and text between them, found at its last occurrence in the path.
    Default: what `source.path` has in `{window_start:…}`."""

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
        """Raises ValueError if the pattern's finest unit is longer than a part."""
        found = PathTime(self.time or pattern)
        if found.finest_seconds > self.every_seconds:
            raise ValueError(
                f"`every: {write_duration(self.every_seconds)}` needs a finer `time` than {found.pattern!r}, whose finest unit is "
                f"{write_duration(found.finest_seconds)}; add `%H` or `%M` to it, or make `every` longer"
            )
        return found


class SizeVsHistoryCheck(Check):
    """The window against the runs before it: how many files or bytes it has, compared with the median of earlier windows of the same
    length whose run succeeded. With fewer than `min_runs` of them it says so and holds: a first run has no history."""

    check: Literal["size_vs_history"]
    of: Literal["files", "bytes"] = "bytes"
    """What is compared: the number of files, or their size as stored."""
    runs: StrictInt = Field(default=10, ge=1, le=200)
    """How many earlier windows are looked at, the latest ones."""
    min_runs: StrictInt = Field(default=3, ge=1)
    """With fewer earlier windows than this there is nothing to compare with yet, and the check holds."""
    tolerance: StrictFloat = Field(default=0.5, gt=0, le=100)
    """How far from the median is right, as a share of it: 0.5 is half to one and a half times the median. From 1 on, nothing is too little."""
    alike: Literal["any", "time_of_day", "time_of_week"] = "any"
    """Which earlier windows count: all, those that start at the same time of day, or of the same day of the week (UTC)."""

    @model_validator(mode="after")
    def _enough_runs(self) -> Self:
        if self.min_runs > self.runs:
            raise ValueError(
                f"`min_runs` ({self.min_runs}) is larger than `runs` ({self.runs}): there would never be enough of them to compare with"
            )
        return self

    @property
    def title(self) -> str:
        return f"size_vs_history({self.of})"


class DuplicateFilesCheck(Check):
    """No two files of the window have the same content. Files of equal size are compared by their first and last 4 kB, and those
    that still agree by an MD5 of all their bytes, as stored. Empty files are not compared. An object store's etags are not used: the
    same bytes uploaded in other parts have another one."""

    check: Literal["duplicate_files"]


class NoBomCheck(Check):
    """No file begins with a UTF-8 byte order mark. It is the one thing about lines that no check of lines can see: Spark's reader takes
    the mark off the first line, and shipper puts it back. Costs one open and three bytes of every file that is left to ship."""

    check: Literal["no_bom"]


ListingCheck = (
    FilesCheck | TotalBytesCheck | FreshnessCheck | FilesPerCheck | SizeVsHistoryCheck | DuplicateFilesCheck | NoBomCheck
)
