"""A pass never raises: what its tasks committed must be accounted for."""

from __future__ import annotations

import errno
import threading
from types import SimpleNamespace
from typing import Any

from spark_jobs import passes


class Full:
    """Spark on a machine whose disk is full."""

    def __getattr__(self, name: str) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device", "/tmp/shipper-1/order")


def run(spark: Any) -> passes.PassOutcome:
    any_other: Any = SimpleNamespace(spark=spark, pipeline="web", seal="", superseded=threading.Event())
    return passes.run_pass(any_other, any_other, any_other, any_other, any_other, [], False)


def test_a_full_disk_is_the_outcome_of_a_pass() -> None:
    assert run(Full()).error is not None
