"""The checks of the source gate, one model each, told apart by `check`."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, StrictFloat, StrictInt, model_validator

from shipper.config.base import Model
from shipper.config.units import Seconds


class _Check(Model):
    severity: Literal["block", "warn"] = "block"
    """`block`: a check that does not hold closes the gate. `warn`: it is only reported."""


class _ContentCheck(_Check):
    on: Literal["sample", "full"] = "sample"
    """`sample`: `gates.sample_files` of the files that are about to be shipped, the same ones each time. `full`: all of them."""


class _CountCheck(_Check):
    min: StrictInt | None = Field(default=1, ge=0)
    """The fewest that are right."""
    max: StrictInt | None = Field(default=None, ge=0)
    """The most that are right; unlimited by default."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.min is None and self.max is None:
            raise ValueError("`min: null` without `max` lets every number pass; give one of them, or leave the check out")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"`min` ({self.min}) is larger than `max` ({self.max}): no number is right")
        return self


class FilesCheck(_CountCheck):
    """The number of files in the window."""

    check: Literal["files"]


class FreshnessCheck(_Check):
    """The newest file must be young enough against the window's end: a source that stopped writing is found the same hour."""

    check: Literal["freshness"]
    max_age_seconds: Seconds = Field(alias="max_age")
    """Longest time between the newest file's modification and the window's end."""


class RowsCheck(_CountCheck, _ContentCheck):
    """The number of lines."""

    check: Literal["rows"]


class NotNullCheck(_ContentCheck):
    """The share of records whose column is not null."""

    check: Literal["not_null"]
    column: str = Field(min_length=1)
    """`value`, `key`, or a column of `records.columns`."""
    min_rate: StrictFloat = Field(default=1.0, gt=0, le=1)
    """Smallest share, 0–1."""


SourceCheck = Annotated[FilesCheck | FreshnessCheck | RowsCheck | NotNullCheck, Field(discriminator="check")]
