"""Where records go that cannot be shipped: the part of a pipeline below `quarantine`."""

from __future__ import annotations

from pydantic import Field, StrictFloat, field_validator

from shipper.config.base import Model
from shipper.config.rules import check_topic, legal_topic
from shipper.config.units import Bytes

#: Why a record is in quarantine, beside the names of checks with severity `quarantine`.
UNPARSEABLE, UNROUTABLE, TOO_LARGE, TOO_MANY_TOPICS = "unparseable", "unroutable", "too_large", "too_many_topics"
#: One record for a whole file, with `source.on_unreadable: quarantine`.
UNREADABLE = "unreadable"
REASONS = (UNPARSEABLE, UNROUTABLE, TOO_LARGE, TOO_MANY_TOPICS, UNREADABLE)


class Quarantine(Model):
    """A topic for records that cannot be shipped, in place of a run that fails: what `records.parse` cannot parse, what has no legal
    topic, what is too large for its topic, and what fails a check with severity `quarantine`. Each arrives exactly once, in the
    transaction of the records around it, with headers that say why and where it came from (docs/consumer-contract.md). May be added,
    changed or removed at any time: the ledger knows record by record what is in quarantine."""

    topic: str = Field(min_length=1, examples=["quarantine.web"])
    """The topic, on every cluster of the pipeline. No route's topic; several pipelines may share it."""
    max_rate: StrictFloat = Field(default=0.01, ge=0, le=1)
    """Largest share, 0–1, of a run's records (dropped lines are none) in quarantine. A run with more fails when everything is sent:
    then the source has changed, rather than a few records of it being bad."""
    keep_bytes: Bytes = Field(default=256, alias="keep", ge=0, le=512_000)
    """How much of each record's value is kept: its first bytes. `0B` keeps nothing."""

    @field_validator("topic")
    @classmethod
    def _legal_topic(cls, value: str) -> str:
        if not legal_topic(value):
            raise ValueError(
                "a topic name has letters, digits, '.', '_' and '-' only, and at most 249 characters; no {column} here"
            )
        check_topic(value)
        return value
