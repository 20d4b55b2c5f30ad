"""What a lane's producer hears of its connections without anybody telling it."""

from __future__ import annotations

import socket
import time

import pytest

from shipper.producer.client import KafkaFault, LaneProducer, LaneSettings, _call


def test_a_connection_that_broke_is_noticed_though_no_call_failed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:  # takes connections and says nothing
        address = f"127.0.0.1:{server.getsockname()[1]}"
        producer = LaneProducer(LaneSettings({"bootstrap.servers": address}, 1000, "none", 10_000), "lane")
        client, _ = server.accept()
        assert not producer.lost_connection()
        client.close()
        deadline = time.monotonic() + 20
        while not producer.lost_connection():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        producer.discard()


def test_a_fatal_error_whose_cause_was_lost_is_a_fault_like_any_other() -> None:
    """confluent-kafka's calls, from time to time, when a lane is fenced while they wait."""

    def flush() -> None:
        raise SystemError("<built-in method flush> returned NULL without setting an exception")

    with pytest.raises(KafkaFault) as found:
        _call(flush)
    assert found.value.name == "_FATAL"
