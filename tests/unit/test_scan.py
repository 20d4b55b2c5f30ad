"""A scan never raises: what its tasks committed must be accounted for."""

import errno
import threading
from types import SimpleNamespace

import pytest

from shipper.driver.scan import scan
from shipper.errors import ClusterRefuses, DeliveryError, Superseded
from shipper.finding import fail
from shipper.worker.receipt import Receipt

FULL = OSError(errno.ENOSPC, "No space left on device", "/tmp/shipper-1/order")


class Failing:
    """An engine whose job fails when a task is done, or is not even made."""

    def __init__(self, makes_a_job=True):
        self._makes_a_job = makes_a_job

    def job(self, *_, **__):
        if not self._makes_a_job:
            raise FULL
        return SimpleNamespace(run=self._run, stop=lambda: None, read_so_far=lambda: None)

    def _run(self, found):
        found.receipts = [Receipt(0, wire_bytes=7)]
        raise FULL

    def cause(self, error):
        return fail(str(error.strerror) if isinstance(error, OSError) else "?")


def failed(engine, *, superseded=False, refused=None):
    told = threading.Event()
    if superseded:
        told.set()
    any_other = SimpleNamespace(
        name="c", cluster="c", pipeline="web", seal="", superseded=told, refused=refused,
        chunks_end=0, splits={},
    )  # fmt: skip
    context = SimpleNamespace(engine=engine, folder=None, clusters={"c": any_other})
    return scan(context, any_other, any_other, any_other, [], long_lines=False)


@pytest.mark.parametrize("makes_a_job", [True, False])
def test_a_full_disk_is_the_outcome_of_a_scan(makes_a_job):
    error = failed(Failing(makes_a_job)).error
    assert type(error) is DeliveryError
    assert "the Spark job failed: No space left on device." in error.message


def test_what_was_done_before_a_job_failed_is_kept():
    found = failed(Failing())
    assert [receipt.wire_bytes for receipt in found.receipts] == [7]
    assert found.are_receipts_lost, "other tasks may have sent more"


def test_a_job_that_was_stopped_for_a_later_run_says_that():
    assert type(failed(Failing(), superseded=True).error) is Superseded


def test_a_job_that_was_stopped_since_the_ledger_may_not_be_written_says_that():
    refused = ClusterRefuses("cannot write to the ledger")
    assert failed(Failing(), superseded=True, refused=refused).error is refused
