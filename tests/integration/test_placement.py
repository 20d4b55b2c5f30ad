"""Keyed records lie where Java's producer puts them: consumers that join topics by partition rely
on it."""

import random
import subprocess
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from shipper_tools.dev.jars import resolve_jars
from shipper_tools.dev.kafka_tools import JARS

from shipper.config.cluster import Cluster
from shipper.java import find_java
from shipper.kafka.client import ClusterClient
from shipper.kafka.connection import connection
from shipper.kafka.producer import LaneSettings
from shipper.worker.chunk import Chunk
from shipper.worker.order import LaneOptions
from shipper.worker.pool import LanePool

pytestmark = [pytest.mark.kafka]

_KEYS = 10_000
_COUNTS = (1, 2, 3, 7, 16, 50)


def random_keys():
    """Of every length that murmur2 treats on its own, with every byte; long ones, text of several
    scripts, the empty one."""
    rng = random.Random(20261101)
    texts = ["client", "Grüße", "日本語", "ключ", "🙂", "10.0.0.", "a b", "\t", "{}"]
    keys = {b""} | {
        bytes([byte]) * length for byte in (0, 127, 128, 255) for length in range(1, 10)
    }
    keys |= {rng.randbytes(rng.randrange(1_000, 20_000)) for _ in range(100)}
    while len(keys) < _KEYS // 2:
        keys.add(rng.randbytes(rng.randrange(40)))
    while len(keys) < _KEYS:
        keys.add(f"{rng.choice(texts)}{rng.randrange(10**6)}".encode())
    return sorted(keys)


def shipped(kafka, name, keys, count):
    """Value → partition of records that a lane has written, a record for each key, valued by the
    key's number."""
    cluster = Cluster(name="c", bootstrap=kafka.bootstrap)
    topic, ledger = f"{name}-{count}", f"{name}-{count}-ledger"
    ClusterClient(cluster).create_topics({topic: count, ledger: 1}, replication_factor=1)
    values = [b"%d" % number for number in range(len(keys))]
    options = LaneOptions(
        LaneSettings(connection(cluster), 500_000, "zstd", 30_000), ledger, 0, deadline_seconds=60
    )
    with LanePool(options, [f"{topic}.0"], set) as pool:
        pool.open()
        pool.submit(
            [
                Chunk(
                    topic,
                    values,
                    1_000_000,
                    b"key",
                    lambda partition, topic_id: b"value",
                    name,
                    keys=keys,
                )
            ]
        )
        pool.drain()
        assert pool.close(20).delivered == 1
    return placed(kafka, topic, count, len(keys))


def placed(kafka, topic, count, records):
    """Value → partition of all ``records``. A partition's end says nothing: the commit may be told
    before all of its markers are written."""
    settings = {
        "bootstrap.servers": kafka.bootstrap,
        "group.id": "test",
        "auto.offset.reset": "earliest",
    }
    consumer = Consumer(settings | {"enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(count)])
    found = {}
    try:
        while len(found) < records:
            message = consumer.poll(30)
            assert message is not None, f"{topic} has {len(found)} records"
            assert message.error() is None
            found[message.value() or b""] = message.partition() or 0
    finally:
        consumer.close()
    return found


def test_ten_thousand_keys_of_any_bytes_lie_where_javas_partitioner_says(kafka, tmp_path):
    java = find_java()
    modules = subprocess.run(
        [java.path, "--list-modules"], capture_output=True, text=True, check=True
    ).stdout
    if "jdk.compiler" not in modules:
        pytest.skip(
            f"{java.path} is a runtime without a compiler; the other test asks Java's own producer"
        )
    keys = random_keys()
    (tmp_path / "keys").write_text("".join(f"{key.hex()}\n" for key in keys))
    source = Path(__file__).with_name("Place.java")
    command = [
        str(java.path),
        "-cp",
        f"{resolve_jars(JARS)}/*",
        str(source),
        str(tmp_path / "keys"),
        *map(str, _COUNTS),
    ]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    java_says = [[int(partition) for partition in line.split()] for line in lines]
    assert len(java_says) == _KEYS
    for index, count in enumerate(_COUNTS):
        found = shipped(kafka, "any", [*keys], count)
        assert [found[b"%d" % number] for number in range(_KEYS)] == [
            partitions[index] for partitions in java_says
        ], count
        assert len(set(found.values())) == count


def test_records_without_a_key_go_to_one_partition_chunk_by_chunk_beside_keyed_ones(kafka):
    keys = [b"client" if number % 2 else None for number in range(1000)]
    found = shipped(kafka, "mixed", keys, 16)
    assert len({found[b"%d" % number] for number in range(0, 1000, 2)}) == 1
    assert len({found[b"%d" % number] for number in range(1, 1000, 2)}) == 1
