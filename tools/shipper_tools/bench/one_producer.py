"""A peer for the benchmark: one idempotent producer of confluent-kafka, as most people would set it
up. Prints its rate."""

import argparse
import itertools
import os
import sys
import time

from confluent_kafka import Producer

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--brokers", required=True)
parser.add_argument("--topic", required=True)
parser.add_argument("--records", type=int, required=True)
parser.add_argument("--size", type=int, default=1000, help="bytes per record, random")
arguments = parser.parse_args()

values = [os.urandom(arguments.size) for _ in range(1000)]
failed = []
producer = Producer(
    {
        "bootstrap.servers": arguments.brokers,
        "enable.idempotence": True,
        "batch.size": 1_000_000,
        "batch.num.messages": 1_000_000,
        "linger.ms": 100,
        "queue.buffering.max.kbytes": 131_072,
        "delivery.report.only.error": True,
        "on_delivery": lambda error, message: failed.append(error),
    }
)
began = time.monotonic()
for value in itertools.islice(itertools.cycle(values), arguments.records):
    while True:
        try:
            producer.produce(arguments.topic, value)
            break
        except BufferError:
            producer.poll(0.05)
left = producer.flush(120)
seconds = time.monotonic() - began
if failed or left:
    sys.exit(f"{len(failed)} records failed, {left} were not acknowledged")
print(f"librdkafka: {arguments.records / seconds:.0f} rec/s")
