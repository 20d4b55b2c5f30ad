from __future__ import annotations

from collections.abc import Iterator

import pytest

from shipper.dev.kafka import KafkaServer


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    """A real broker for the whole test run. Tests share it, so each makes topics of its own."""
    with KafkaServer(tmp_path_factory.mktemp("kafka"), die_with_parent=True) as server:
        yield server
