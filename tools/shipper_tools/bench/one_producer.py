"""A peer for the benchmark: one producer of confluent-kafka. As a program, it is idempotent, as
most people would set it up, sends random records or the lines of a file, and
prints its rate."""

from __future__ import annotations

import argparse
import itertools
import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer

_IDEMPOTENT = {
    "enable.idempotence": True,
    "linger.ms": 100,
    "queue.buffering.max.kbytes": 131_072,
}


def send(options: Mapping[str, object], topic: str, values: Iterable[bytes]) -> float:
    """Return the seconds from the first record to the last acknowledgement. Raises RuntimeError if
    a record was not acknowledged."""
    failed: list[KafkaError] = []

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failed.append(error)

    producer = Producer(
        {
            **options,
            "batch.size": 1_000_000,
            "batch.num.messages": 1_000_000,
            "delivery.report.only.error": True,
            "on_delivery": on_delivery,
        }
    )
    began = time.monotonic()
    for value in values:
        while True:
            try:
                producer.produce(topic, value)
                break
            except BufferError:
                producer.poll(0.05)
    left = producer.flush(120)
    if failed or left:
        raise RuntimeError(f"{len(failed)} records failed, {left} were not acknowledged")
    return time.monotonic() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--brokers", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--records", type=int, required=True)
    parser.add_argument("--size", type=int, default=1000, help="bytes per record, random")
    parser.add_argument("--lines", type=Path, help="a file of lines to send instead")
    parser.add_argument("--compression", default="none")
    asked = parser.parse_args()
    some = (
        asked.lines.read_bytes().splitlines()
        if asked.lines
        else [os.urandom(asked.size) for _ in range(1000)]
    )
    values = itertools.islice(itertools.cycle(some), asked.records)
    told = {"bootstrap.servers": asked.brokers, "compression.type": asked.compression}
    seconds = send(_IDEMPOTENT | told, asked.topic, values)
    print(f"librdkafka: {asked.records / seconds:.0f} rec/s")


if __name__ == "__main__":
    main()
