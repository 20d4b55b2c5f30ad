"""What a lane's producer hears of its connections without anybody telling it."""

from __future__ import annotations

import socket
import time

from shipper.producer.client import LaneProducer, LaneSettings


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
