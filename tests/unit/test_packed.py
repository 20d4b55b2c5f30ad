"""Values as Arrow keeps them, handed to librdkafka without a broker."""

import ctypes
import logging
from pathlib import Path

import confluent_kafka
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shipper.kafka.batch_call import PackedProduce, library
from shipper.kafka.producer import LaneProducer, LaneSettings
from shipper.worker.chunk import LazyColumn

_QUEUE_FULL = -184


def found_library():
    return library(
        Path(confluent_kafka.__file__).parents[1],
        confluent_kafka.libversion()[1],
        confluent_kafka.__version__,
    )


@pytest.fixture
def producer():
    """Of a broker that is not there, with room for 1,000 records."""
    settings = {
        "bootstrap.servers": "127.0.0.1:1",
        "linger.ms": 5000,
        "queue.buffering.max.messages": 1000,
    }
    return confluent_kafka.Producer(settings, logger=logging.getLogger("no broker"))


@pytest.fixture
def packed(producer):
    librdkafka = found_library()
    assert librdkafka, "the wheel's librdkafka is where packed.py looks for it"
    made = PackedProduce(producer, librdkafka)
    yield made
    producer.purge(True, True, True)
    producer.flush(1)
    made.close()


def test_a_library_of_another_version_is_not_used():
    version, binding = confluent_kafka.libversion()[1], confluent_kafka.__version__
    assert library(Path(confluent_kafka.__file__).parents[1], 1, binding) is None
    assert library(Path(__file__).parent, version, binding) is None


def test_a_confluent_kafka_with_which_it_was_not_tried_sends_records_one_by_one(monkeypatch):
    settings = LaneSettings({"bootstrap.servers": "127.0.0.1:1"}, 1000, "none", 10_000)
    assert LaneProducer(settings, "one")._packed is not None
    monkeypatch.setattr(confluent_kafka, "__version__", "2.99.0")
    assert LaneProducer(settings, "two")._packed is None


def test_the_handle_is_the_producer_s(packed, producer):
    values = LazyColumn(pa.chunked_array([[b"one", b"", b"three"], [b"four"]], pa.binary()))
    assert [packed.produce("topic", 0, *part) for part in values.packed(0, 4) or ()] == [
        (3, 0),
        (1, 0),
    ]
    for _ in range(996):  # of the room for 1,000, four are taken
        producer.produce("topic", b"", None, 0)
    with pytest.raises(BufferError):
        producer.produce("topic", b"", None, 0)


def test_a_full_queue_takes_the_first_and_says_so(packed, producer):
    values = LazyColumn(pa.chunked_array([[b"%d" % n for n in range(1500)]], pa.binary()))
    [(offsets, address)] = values.packed(0, 1500) or ()
    assert packed.produce("topic", 0, offsets, address) == (1000, _QUEUE_FULL)
    producer.purge(True, True, True)
    producer.flush(1)
    assert packed.produce("topic", 0, offsets[1000:], address) == (500, 0)


@given(st.lists(st.lists(st.binary(max_size=20), max_size=8), max_size=5), st.data())
def test_packed_values_are_those_of_the_slice(parts, data):
    whole = pa.chunked_array(
        [pa.array([b"x", *part], pa.binary()).slice(1) for part in parts], pa.binary()
    )
    column = LazyColumn(whole)
    first = data.draw(st.integers(0, len(whole)))
    end = data.draw(st.integers(first, len(whole)))
    found = []
    for offsets, address in column.packed(first, end) or ():
        for start, stop in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
            found.append(ctypes.string_at(address + start, stop - start))
    assert found == column[first:end]


def test_nulls_are_not_packed():
    assert LazyColumn(pa.chunked_array([[b"one", None]], pa.binary())).packed(0, 2) is None
    assert LazyColumn(pa.chunked_array([[b"one", None]], pa.binary())).packed(0, 1) is not None
