"""What all checks of a gate have in common."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

from pydantic import Field, StrictFloat, StrictInt, field_validator, model_validator

from shipper.config.base import Model, refuse

Severity = Literal["block", "quarantine", "warn"]


class Check(Model):
    severity: Literal["block", "warn"] = "block"
    """`block`: a check that does not hold closes the gate. `warn`: it is only reported."""

    @field_validator("severity", mode="before")
    @classmethod
    def _quarantine_takes_records(cls, value: Any) -> Any:
        if value == "quarantine" and not issubclass(cls, RecordCheck):
            refuse([((), f"`quarantine` takes single records out; {cls.whole}: use `block` or `warn`")])
        return value

    whole: ClassVar[str] = "this check is about all of them together, and none of them is the one at fault"
    """Why it cannot have severity `quarantine`."""

    @property
    def title(self) -> str:
        """Its name with its subject, as reports and the reasons of quarantined records show it: ``not_null(host)``."""
        name, column = getattr(self, "check", type(self).__name__), getattr(self, "column", None)
        return str(name) if column is None else f"{name}({column})"


class CountCheck(Check):
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


class ContentCheck(Check):
    on: Literal["sample", "full"] = "sample"
    """`sample`: `gates.sample_files` pieces of the files that are about to be shipped, the same ones each time. `full`: all of them."""


class RateCheck(ContentCheck):
    """The share of records that are right."""

    min_rate: StrictFloat = Field(default=1.0, gt=0, le=1)
    """Smallest share of the records, 0–1."""


class RecordCheck(RateCheck):
    """A check that says of each single record whether it is right."""

    severity: Severity = "block"  # type: ignore[assignment]
    """`block`: a share below `min_rate` closes the gate. `warn`: it is only reported. `quarantine`: it is reported, and each record
    that is not right goes to the pipeline's quarantine topic instead, with the check as its reason."""

    sql_field: ClassVar[str] = "column"
    """The key that Spark's complaint about :meth:`condition` is shown at."""

    def condition(self) -> str:
        """Spark SQL, true of a record that is right (null: it is not), over `value`, `key` and the columns of `records.columns`."""
        raise NotImplementedError
