"""The checks of the delivery gate, one model each, told apart by `check`. They look at a cluster's whole run, after the last byte."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StrictBool, StrictFloat

from shipper.config.base import Model
from shipper.config.units import Seconds


class _DeliveryCheck(Model):
    severity: Literal["block", "warn"] = "block"
    """`block`: a check that does not hold closes the gate. `warn`: it is only reported."""


class SumClosesCheck(_DeliveryCheck):
    """Lines read = filtered + quarantined + delivered + there before, for the cluster and for each file; and each of these figures, and
    the records of each topic, are the same by Spark's own count, by the tasks' receipts and in the ledger, read anew. Costs a read of the
    ledger."""

    check: Literal["sum_closes"]


class ChecksumCheck(_DeliveryCheck):
    """The sum of xxhash64(value) over all records, modulo 2^64: what Spark computed from the lines = what the ledger holds of them; and
    for each file and topic, what the tasks computed = what the ledger says of this run's chunks. Costs Spark an aggregate in the same
    pass (docs/accounting.md has the figure), and only if it is asked for."""

    check: Literal["checksum"]


class QuarantineRateCheck(_DeliveryCheck):
    """The share of the lines read in this run that went to the quarantine topic. Needs `quarantine`, whose own `max_rate` fails the ship
    itself; this one may be stricter, or only warn."""

    check: Literal["quarantine_rate"]
    max_rate: StrictFloat = Field(ge=0, le=1)
    """Largest share, 0–1."""


class ReadBackCheck(_DeliveryCheck):
    """What lies in the topics is what was sent, as a `read_committed` consumer sees it that shares no code with the producer. It begins
    where each partition ended before this run's first byte and goes to the end as of now. Not for compacted topics, which forget records."""

    check: Literal["read_back"]
    mode: Literal["offsets", "sample", "full"] = "sample"
    """`full`: every partition is read; records are counted and their values hashed, per partition where the ledger knows it, and per
    topic. `sample`: a quarter of each topic's partitions, others for another window; all of them for records with keys, since the
    ledger does not know which partition these went to. `offsets`: nothing is read; the partitions must have moved on by at least as many
    offsets as records were sent. `sample` and `full` need the right to read the topics."""
    shared: StrictBool = False
    """Whether other producers write to these topics too (another pipeline is one). Then nobody can tell whose records are whose, so only
    *at least as many* can be checked, and no checksums: a record that is missing may be made up for by somebody else's."""
    timeout_seconds: Seconds = Field(default=180.0, alias="timeout", ge=1)
    """Longest time without a record, after which the check cannot be evaluated. A `read_committed` reader waits at a transaction that is
    open: let it be longer than that of everybody who writes to the topic."""


DeliveryCheck = Annotated[SumClosesCheck | ChecksumCheck | QuarantineRateCheck | ReadBackCheck, Field(discriminator="check")]
