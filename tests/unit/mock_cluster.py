"""librdkafka's mock cluster: brokers inside this process, which answer what a test tells them to.
No Java, and no delay."""

import ctypes
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import confluent_kafka
from confluent_kafka import Producer

_PRODUCE = 0  # ApiKey
_HEADER_BYTES = object.__basicsize__


def _library():
    folder = Path(confluent_kafka.__file__).parents[1] / "confluent_kafka.libs"
    found = ctypes.CDLL(str(next(folder.glob("librdkafka-*.so*"))))
    found.rd_kafka_handle_mock_cluster.restype = ctypes.c_void_p
    found.rd_kafka_handle_mock_cluster.argtypes = [ctypes.c_void_p]
    found.rd_kafka_mock_topic_create.argtypes = [
        ctypes.c_void_p,
        ctypes.c_char_p,
        ctypes.c_int,
        ctypes.c_int,
    ]
    found.rd_kafka_mock_topic_set_error.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int]
    found.rd_kafka_mock_push_request_errors_array.argtypes = [
        ctypes.c_void_p,
        ctypes.c_int16,
        ctypes.c_size_t,
        ctypes.c_void_p,
    ]
    found.rd_kafka_mock_broker_set_rtt.argtypes = [ctypes.c_void_p, ctypes.c_int32, ctypes.c_int]
    found.rd_kafka_test_fatal_error.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p]
    return found


def _handle(client):
    """Return the address of librdkafka's handle, see shipper.kafka.batch_call."""
    return ctypes.c_void_p.from_address(id(client) + _HEADER_BYTES).value


def fail_for_good(producer: Producer, code: int):
    """Put the producer into the state that follows a fatal error."""
    _library().rd_kafka_test_fatal_error(_handle(producer), code, b"planted")


class MockCluster:
    """``bootstrap`` serves ordinary clients."""

    def __init__(self, owner: Producer):
        self._library = _library()
        self._cluster = self._library.rd_kafka_handle_mock_cluster(_handle(owner))
        (broker,) = owner.list_topics(timeout=60).brokers.values()
        self.bootstrap = f"{broker.host}:{broker.port}"

    def create(self, topic: str, partitions: int = 1):
        assert (
            self._library.rd_kafka_mock_topic_create(self._cluster, topic.encode(), partitions, 1)
            == 0
        )

    def say_of(self, topic: str, code: int):
        """Answer questions for the topic's metadata with this error; 0: with the metadata."""
        self._library.rd_kafka_mock_topic_set_error(self._cluster, topic.encode(), code)

    def delay(self, milliseconds: int):
        """Answer every request so much later."""
        self._library.rd_kafka_mock_broker_set_rtt(self._cluster, 1, milliseconds)

    def answer_next_produce(self, *codes: int):
        """Answer the next Produce requests with these errors."""
        array = (ctypes.c_int * len(codes))(*codes)
        self._library.rd_kafka_mock_push_request_errors_array(
            self._cluster, _PRODUCE, len(codes), array
        )


@contextmanager
def mock_cluster() -> Iterator[MockCluster]:
    silent = logging.getLogger("mock cluster")
    silent.disabled = True
    owner = Producer({"test.mock.num.brokers": 1, "log_level": 3}, logger=silent)
    yield MockCluster(owner)
    del owner
