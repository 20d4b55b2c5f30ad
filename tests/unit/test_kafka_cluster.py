from __future__ import annotations

import pytest

from tests.chaos.kafka_cluster import transaction_partition

JAVA_SAYS = [
    ("web0.three.0.1", 3),
    ("web1.three.0.1", 44),
    ("web2.three.0.1", 15),
    ("web3.three.0.1", 22),
    ("web4.three.0.1", 37),
    ("web5.three.0.1", 0),
    ("web6.three.0.1", 9),
    ("web7.three.0.1", 18),
    ("polygenelubricants", 0),
]


@pytest.mark.parametrize(("transactional_id", "partition"), JAVA_SAYS)
def test_a_transactional_id_has_its_coordinator_where_kafka_says(transactional_id, partition):
    """Expected values: org.apache.kafka.common.utils.Utils.abs(id.hashCode()) % 50, run in Java."""
    assert transaction_partition(transactional_id, 50) == partition
