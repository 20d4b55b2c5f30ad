"""A pass never raises: what its tasks committed must be accounted for."""

from __future__ import annotations

import errno
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from shipper.errors import DeliveryError
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


def test_a_disk_that_is_full_for_the_folder_of_the_order_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/proc/nowhere")
    assert isinstance(run(None).error, DeliveryError)


@pytest.mark.parametrize("text", ["", "[{", '[{"task": 1, "splits": 3}]', "[3]"])
def test_torn_receipts_are_an_error_that_says_so(tmp_path: Path, text: str) -> None:
    (tmp_path / "receipts").write_text(text)
    with pytest.raises(DeliveryError, match=r"counts are not complete.*run again"):
        passes._read_receipts(tmp_path / "receipts")
