"""Calls of librdkafka that confluent-kafka does not have: the batch call, for values that lie one
behind the other in memory, as Arrow keeps them, and the dump of a producer's state.

confluent-kafka takes one Python object and one call per record: 0.55 to 0.7 µs each, with the
interpreter's lock held. One call for an Arrow array takes 0.15 µs per record, without the lock
(measured: docs/adr/0008). Both calls need librdkafka's handle in the Producer: the first field
behind the object's header (``Handle`` in confluent_kafka.h, ever since 0.9).
"""

from __future__ import annotations

import ctypes
import os
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

#: Version of confluent-kafka with which this was tested: the handle's place is not a public
#: interface (docs/understand/foundations.md).
_TRIED = ("2.16.",)
_COPY = 2  # RD_KAFKA_MSG_F_COPY
_HEADER_BYTES = object.__basicsize__
#: rd_kafka_message_t, as numpy writes a struct of C.
_MESSAGE = [
    ("err", "i4"), ("rkt", "u8"), ("partition", "i4"), ("payload", "u8"), ("len", "u8"),
    ("key", "u8"), ("key_len", "u8"), ("offset", "i8"), ("private", "u8"),
]  # fmt: skip


class PackedArray(NamedTuple):
    """Values one behind the other in memory."""

    offsets: Any
    """A numpy array of int32 with one entry more than there are values."""
    address: int
    """Address of offset 0."""


class Queued(NamedTuple):
    """Outcome of handing over some values."""

    taken: int
    """The first so many were queued."""
    code: int
    """Error of librdkafka about the next value; 0: none."""


@cache
def library(folder: Path, version: int, binding: str) -> ctypes.CDLL | None:
    """Return the librdkafka that comes with confluent-kafka (in ``folder``), if it is ``version``.
    None if it is linked otherwise, or if this code was not tested with the confluent-kafka version
    ``binding``. Records then go one by one, and states are not known."""
    if not binding.startswith(_TRIED):
        return None
    for path in sorted(folder.glob("confluent_kafka.libs/librdkafka-*.so*")):
        found = ctypes.CDLL(str(path))
        found.rd_kafka_topic_new.restype = ctypes.c_void_p
        found.rd_kafka_topic_new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        found.rd_kafka_topic_destroy.argtypes = [ctypes.c_void_p]
        found.rd_kafka_topic_destroy.restype = None
        found.rd_kafka_produce_batch.argtypes = [
            ctypes.c_void_p,
            ctypes.c_int32,
            ctypes.c_int,
            ctypes.c_void_p,
            ctypes.c_int,
        ]
        found.rd_kafka_dump.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
        found.rd_kafka_dump.restype = None
        if found.rd_kafka_version() == version:
            return found
    return None


def state_of(producer: object, librdkafka: ctypes.CDLL) -> str:
    """Return the text that librdkafka's ``rd_kafka_dump`` writes: brokers and partitions, with what
    was sent to each until now."""
    libc = ctypes.CDLL(None)
    libc.fdopen.restype = ctypes.c_void_p
    libc.fflush.argtypes = libc.fclose.argtypes = [ctypes.c_void_p]
    file = os.memfd_create("state")
    stream = libc.fdopen(file, b"w")
    librdkafka.rd_kafka_dump(stream, _handle_of(producer))
    libc.fflush(stream)
    text = os.pread(file, os.fstat(file).st_size, 0)
    libc.fclose(stream)
    return text.decode(errors="replace")


def _handle_of(producer: object) -> int | None:
    return ctypes.c_void_p.from_address(id(producer) + _HEADER_BYTES).value


class PackedProduce:
    """Batch interface of one producer. ``close`` it before the producer goes: librdkafka waits for
    its topics."""

    def __init__(self, producer: object, librdkafka: ctypes.CDLL) -> None:
        self._library = librdkafka
        self._handle = _handle_of(producer)
        self._topics: dict[str, int] = {}

    def produce(self, topic: str, partition: int, offsets: Any, address: int) -> Queued:
        """Queue copies of the values."""
        import numpy as np  # who has packed values has numpy, and nobody else needs it

        messages = np.zeros(len(offsets) - 1, np.dtype(_MESSAGE, align=True))
        starts = offsets.astype(np.uint64)
        messages["payload"] = np.uint64(address) + starts[:-1]
        messages["len"] = starts[1:] - starts[:-1]
        handle = self._topic(topic)
        taken = int(
            self._library.rd_kafka_produce_batch(
                handle, partition, _COPY, messages.ctypes.data, len(messages)
            )
        )
        failed = np.flatnonzero(messages["err"])
        return (
            Queued(taken, 0)
            if len(failed) == 0
            else Queued(int(failed[0]), int(messages["err"][failed[0]]))
        )

    def _topic(self, name: str) -> int:
        if name not in self._topics:
            if not (handle := self._library.rd_kafka_topic_new(self._handle, name.encode(), None)):
                raise ValueError(f"librdkafka takes no topic named {name!r}")
            self._topics[name] = handle
        return self._topics[name]

    def close(self) -> None:
        for handle in self._topics.values():
            self._library.rd_kafka_topic_destroy(handle)
        self._topics.clear()
