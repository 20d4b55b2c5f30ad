"""Certificates: clients that must show one, and a broker whose own is no longer valid."""

from __future__ import annotations

from pathlib import Path

import pytest
from shipper_tools.testing.secured_kafka import SecuredKafka

from shipper.config.cluster import Cluster
from shipper.errors import ClusterError
from shipper.kafka.client import ClusterClient

pytestmark = [pytest.mark.kafka]

PASSWORD = "of-the-test"


def client(kafka: SecuredKafka, **more: str) -> ClusterClient:
    properties = {**kafka.properties("shipper", PASSWORD), **more}
    return ClusterClient(Cluster.model_validate({"cluster": "near", "bootstrap": kafka.bootstrap, "properties": properties}))


def test_a_cluster_that_wants_certificates_is_reached_with_one_and_says_so_without(tmp_path: Path) -> None:
    with SecuredKafka(tmp_path / "kafka", {"shipper": PASSWORD}, certified=True) as kafka:
        own = client(kafka, **kafka.client_certificate("shipper"))
        own.create_topics({"seen": 2}, replication_factor=1)
        assert own.topics()["seen"] == 2
        with pytest.raises(ClusterError, match=r"(?s)near.*certificate"):
            client(kafka).topics()


def test_of_a_broker_whose_certificate_has_expired_it_is_said_that_the_certificate_is_the_reason(tmp_path: Path) -> None:
    """The client knows no more than that it cannot be verified; it does not say that it has expired."""
    with (
        SecuredKafka(tmp_path / "kafka", {"shipper": PASSWORD}, expired=True) as kafka,
        pytest.raises(ClusterError, match=r"(?s)near.*certificate verify failed"),
    ):
        client(kafka).topics()
