"""Two cluster files that lead to one Kafka cluster (C5)."""

from types import SimpleNamespace

import pytest

from shipper.driver.plan import _refuse_shared_ledgers
from shipper.errors import ClusterRefuses


def asked(name, cluster_id, topic="_shipper.web"):
    return SimpleNamespace(name=name, ledger_place=(cluster_id, topic))


def test_two_names_of_one_cluster_need_two_ledgers():
    with pytest.raises(ClusterRefuses) as refused:
        _refuse_shared_ledgers([asked("main", "a"), asked("far", "b"), asked("pii", "a")])
    assert refused.value.code == "SHIP-411"
    assert "main and pii" in refused.value.message


@pytest.mark.parametrize(
    "clusters",
    [
        [asked("main", "a"), asked("pii", "a", "_shipper.pii")],
        [asked("main", "a"), asked("far", "b")],
        [asked("main", ""), asked("far", "")],  # nobody could ask
    ],
)
def test_clusters_that_differ_or_did_not_answer_are_shipped(clusters):
    _refuse_shared_ledgers(clusters)
