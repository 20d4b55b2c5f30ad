"""Records that a person repaired, between `shipper quarantine replay` and the Spark side. They hold
log lines, and are kept nowhere."""

from __future__ import annotations

from pydantic import ConfigDict, Field

from shipper.report.run_folder import Result, StepResult

#: In the run's folder: what is to be judged.
TO_JUDGE = "to_judge.json"


class RepairedRecord(Result):
    """One record, on its way in as it was repaired, on its way out as it may leave."""

    model_config = ConfigDict(extra="forbid", ser_json_bytes="base64", val_json_bytes="base64")

    file: str
    split: int
    record: int
    value: bytes | None
    key: bytes | None
    headers: list[tuple[str, bytes]]
    why: str | None = None
    """Reason why it is not to be sent."""


class RepairedResult(StepResult):
    model_config = ConfigDict(extra="forbid", ser_json_bytes="base64", val_json_bytes="base64")

    step: str = "repaired"
    records: list[RepairedRecord] = Field(default_factory=list)
