"""How long each lane of earlier runs may take to be fenced."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from shipper.delivery import takeover
from shipper.errors import ClusterError
from shipper.producer import transaction
from shipper.producer.connection import KafkaFault


class Coordinator:
    """Takes ``seconds`` for each id, on a clock of its own, and no longer than it is given."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
        self.now, self.fenced, self._seconds = 0.0, list[str](), seconds
        monkeypatch.setattr(takeover, "time", SimpleNamespace(monotonic=lambda: self.now))
        monkeypatch.setattr(takeover, "_FENCE_AT_ONCE", 1)
        monkeypatch.setattr(transaction, "fence", self.fence)

    def fence(self, settings: Any, transactional_id: str, topic: str, ends: Callable[[], float]) -> None:
        left = ends() - self.now
        self.now += min(left, self._seconds)
        if left < self._seconds:
            raise KafkaFault("_TIMED_OUT", "not answered in time")
        self.fenced.append(transactional_id)


def test_thousands_of_lanes_have_a_minute_each_and_not_one_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """128 tasks x 128 lanes of one run made every later one fail for lack of time."""
    coordinator = Coordinator(monkeypatch, seconds=40.0)
    ids = [f"web.near.{task}.{lane}" for task in range(40) for lane in range(50)]
    takeover.fence(SimpleNamespace(), ids, "_shipper.web")  # type: ignore[arg-type]
    assert coordinator.fenced == ids


def test_a_lane_that_is_not_fenced_in_its_minute_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    Coordinator(monkeypatch, seconds=70.0)
    with pytest.raises(ClusterError, match=r"cannot fence lane web\.near\.0\.0 .*Nothing was sent"):
        takeover.fence(SimpleNamespace(), ["web.near.0.0"], "_shipper.web")  # type: ignore[arg-type]
