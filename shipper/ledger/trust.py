"""A person vouches for a file of which a ship has read other bytes than it has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from shipper.config.pipeline import Pipeline
from shipper.errors import UsageError
from shipper.ledger.lease import HeldLease
from shipper.ledger.log import LedgerLog
from shipper.ledger.records import Doubt, encode_doubt
from shipper.ledger.state import all_doubts

_READ_WAIT_SECONDS = 60.0


def vouch_for(ledger: LedgerLog, pipeline: Pipeline, path: str, signed: str, run_id: str, say: Callable[[str], None]) -> Doubt:
    """``signed``: who, when and why. Raises UsageError for a file that is not in doubt; LeaseHeld, ClusterError."""
    delivery = pipeline.delivery
    with HeldLease(ledger, run_id, delivery.lease_seconds, delivery.lease_wait_seconds, say) as lease:
        doubts = all_doubts(ledger.records(wait_seconds=_READ_WAIT_SECONDS))
        of_path = [(file, doubt) for file, doubt in doubts.items() if file.path == path]
        if not of_path:
            listed = ", ".join(sorted({file.path for file in doubts})[:10]) or "none"
            raise UsageError(f"cluster {ledger.cluster}: {path} is not in doubt; in doubt are: {listed}. Nothing was changed.")
        vouched = [encode_doubt(ledger.pipeline, file, replace(doubt, trusted=signed)) for file, doubt in of_path]
        ledger.write_control([lease.held(), *vouched])
    return of_path[-1][1]
