"""What the client of a cluster says when nobody can know, without a broker."""

from __future__ import annotations

from typing import Any

import pytest

from shipper.config.cluster import Cluster
from shipper.config.pipeline import Pipeline
from shipper.driver.preflight import is_transactional
from shipper.errors import ClusterError, OutcomeUnknown
from shipper.kafka import admin as module
from shipper.kafka.client import ClusterClient
from shipper.kafka.connection import KafkaFault

CLUSTER = Cluster.model_validate({"cluster": "far", "bootstrap": "127.0.0.1:1"})


class Silent:
    """A producer that hears nothing, neither that a record is there nor that it is not."""

    def produce(self, *record: Any, **callbacks: Any) -> None:
        pass

    def flush(self, timeout_seconds: float) -> int:
        return 1


def test_a_write_that_was_not_acknowledged_is_not_taken_for_written(monkeypatch: pytest.MonkeyPatch) -> None:
    client = ClusterClient(CLUSTER)
    monkeypatch.setattr(client, "_log_producer", lambda topic: Silent())
    with pytest.raises(OutcomeUnknown, match="2 of 2 records for ledger were not acknowledged"):
        client.append("ledger", 0, [(b"a", b""), (b"b", b"")])


def _pipeline() -> Pipeline:
    fields = {"pipeline": "web", "source": {"path": "logs"}, "topic": "t", "clusters": ["far"]}
    return Pipeline.model_validate({**fields, "delivery": {"guarantee": "prefer_exactly_once"}})


@pytest.mark.parametrize("fault", ["_UNSUPPORTED_FEATURE", "UNSUPPORTED_VERSION"])
def test_a_cluster_without_transactions_is_one_that_says_so(monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    asked: list[str] = []

    def fence(settings: Any, transactional_id: str, *rest: Any) -> None:
        asked.append(transactional_id)
        raise KafkaFault(fault, "")

    monkeypatch.setattr(module, "fence", fence)
    assert not is_transactional(ClusterClient(CLUSTER), CLUSTER, _pipeline(), "t")
    assert asked == ["web.far.preflight"]


@pytest.mark.parametrize("fault", ["_TIMED_OUT", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS", "_TRANSPORT"])
def test_a_coordinator_that_is_slow_does_not_make_a_run_promise_less(monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    def fence(*arguments: Any) -> None:
        raise KafkaFault(fault, "")

    monkeypatch.setattr(module, "fence", fence)
    with pytest.raises(ClusterError, match="cannot tell whether it has transactions") as found:
        is_transactional(ClusterClient(CLUSTER), CLUSTER, _pipeline(), "t")
    assert found.value.retriable
