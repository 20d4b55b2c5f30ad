"""A topic as a plain consumer of confluent-kafka reads it, read_committed, with nothing of
shipper's between."""

import time
from collections.abc import Iterator

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition


def read_committed(bootstrap: str, topic: str, partition: int) -> list[bytes]:
    """Values, in the order of their offsets."""
    return [message.value() for message in read_messages(bootstrap, topic, partition)]


def read_messages(
    bootstrap: str, topic: str, partition: int, patience_seconds: float = 30
) -> Iterator[Message]:
    """Up to what was the end when it was first seen, of open transactions, too.

    Silence, or the end that a read_committed reader is told, would not do: a transaction's commit
    is acknowledged before its markers are in the partitions, so that for some milliseconds what was
    committed is not yet seen.
    """
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "of-the-test",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
    }
    consumer = Consumer(
        {**settings, "enable.partition.eof": True, "isolation.level": "read_committed"}
    )
    where = TopicPartition(topic, partition, 0)
    consumer.assign([where])
    deadline = time.monotonic() + patience_seconds
    position, end, last = 0, -1, None
    try:
        while position < end or end < 0:
            assert time.monotonic() < deadline, (
                f"{topic}-{partition}: got to {position} of {end}, {last}: is a transaction open?"
            )
            if (message := consumer.poll(1)) is None:
                continue
            if (error := message.error()) is None:
                position = message.offset() + 1
                deadline = time.monotonic() + patience_seconds
                yield message
                continue
            if error.code() != KafkaError._PARTITION_EOF:
                last = error
                continue
            position = message.offset()
            if end < 0:
                end = consumer.get_watermark_offsets(where, cached=True)[1]
    finally:
        consumer.close()
