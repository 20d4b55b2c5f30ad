"""One scan of files by a job that ships, watched; and why it failed, if it did."""

from __future__ import annotations

from collections.abc import Sequence

from shipper.driver.context import RunContext
from shipper.driver.engine import Engine, Scan
from shipper.driver.ledger_progress import Progress
from shipper.errors import DeliveryError, ShipperError, Superseded, error_named
from shipper.ledger.lease import HeldLease
from shipper.ledger.log import LedgerLog
from shipper.report.plan_result import PlannedFile
from shipper.report.progress import ProgressFile
from shipper.worker.order import ShipOrder
from shipper.worker.receipt import unseal_error


def scan(
    context: RunContext,
    ledger: LedgerLog,
    lease: HeldLease,
    order: ShipOrder,
    files: Sequence[PlannedFile],
    *,
    long_lines: bool,
) -> Scan:
    """Run the job. Never raises, because committed records must be accounted for after any error.
    The job is stopped when the lease's run is superseded, or when it makes no progress any more.
    Its progress is in the run's folder meanwhile."""
    engine, found, stalled = context.engine, Scan(), None
    cluster = context.clusters[order.cluster]
    try:
        job = engine.job(order, cluster, files, long_lines=long_lines)
        file = ProgressFile(context.folder, cluster.name)
        progress = Progress(ledger, order, lease.superseded, job.stop, job.read_so_far, file.tell)
        try:
            with file, progress:
                job.run(found)
        finally:
            stalled = progress.stalled
    except Exception as error:
        found.are_receipts_lost = True
        found.error = (
            stalled
            or lease.refused
            or why_failed(engine, error, order, superseded=lease.superseded.is_set())
        )
    for receipt in found.receipts:
        if receipt.error and found.error is None:
            found.error = error_named(receipt.error_kind, receipt.error)
    return found


def why_failed(
    engine: Engine, error: Exception, order: ShipOrder, *, superseded: bool
) -> ShipperError:
    if isinstance(error, ShipperError):
        return error
    if superseded:
        return Superseded(
            f"a later run of pipeline {order.pipeline} took over. This run stopped and sends "
            "nothing more. Let the later run finish, then run again."
        )
    if told := unseal_error(str(error), order.seal):
        return told
    cause = engine.cause(error)
    return DeliveryError(
        f"the Spark job failed: {cause.text}. What was committed is in the ledger. Run again: only "
        "the rest is sent.",
        code=cause.code,
    )
