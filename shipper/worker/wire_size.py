"""Estimates of what records take on the wire, made before they are compressed and sent."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from shipper import runtime
from shipper.worker.chunk import Chunk

#: A slice is compressed whole if it has no more bytes, and otherwise this much of it.
_SAMPLE_BYTES, _PLACES = 131_072, 4
#: Headers of a batch and of its request, about.
_OVERHEAD_BYTES = 200
#: Bytes of a record besides key, value and headers, about.
_FRAMING_BYTES = 6
#: Share of the earlier batches in the correction, with each further one.
_KEPT = 0.8
_LEAST_FACTOR, _MOST_FACTOR = 0.5, 2.0
#: Names of pyarrow's codecs.
_CODECS = {"gzip": "gzip", "snappy": "snappy", "lz4": "lz4_raw", "zstd": "zstd"}


class WireSize:
    """Estimates for one pool of lanes: from the records themselves, to be corrected by what earlier
    batches really took. The plan's sample says nothing of the next chunk."""

    def __init__(self, compression: str) -> None:
        self._codec = _CODECS.get(compression)
        self._lock = runtime.Lock()
        self._estimated = self._sent = 1.0
        """Decaying sums."""

    def estimate(self, chunk: Chunk, first: int, end: int) -> float:
        """Return the bytes that records [first, end) of the chunk take on the wire, about."""
        average = chunk.record_bytes + _FRAMING_BYTES
        whole = average * (end - first)
        if self._codec is not None:
            sample = b"".join(_sample(chunk, first, end, max(1, int(_SAMPLE_BYTES / average))))
            packed = pa.compress(sample, self._codec, asbytes=True)
            whole *= len(packed) / max(1, len(sample))
        return _OVERHEAD_BYTES + whole

    def factor(self) -> float:
        """Return what estimates are to be multiplied by, as earlier batches have shown."""
        with self._lock:
            return min(_MOST_FACTOR, max(_LEAST_FACTOR, self._sent / self._estimated))

    def learn(self, estimated_bytes: float, sent_bytes: float) -> None:
        """Take note of what batches of this estimate really took."""
        with self._lock:
            self._estimated = _KEPT * self._estimated + estimated_bytes
            self._sent = _KEPT * self._sent + sent_bytes


def _sample(chunk: Chunk, first: int, end: int, most: int) -> Iterator[bytes]:
    """Yield records, framed as Kafka does, from some places: ``most`` in all; of a long record the
    beginning."""
    places = 1 if end - first <= most else _PLACES
    for place in range(places):
        begin = first + (end - first) * place // places
        stop = min(end, begin + max(1, most // places))
        values = chunk.values[begin:stop]
        keys = chunk.keys[begin:stop] if chunk.keys else [None] * len(values)
        headers = chunk.headers[begin:stop] if chunk.headers else [()] * len(values)
        for number, (value, key, pairs) in enumerate(zip(values, keys, headers, strict=True)):
            framing = (len(value or b"") & 255, 0, number & 255, 0, 0, len(key or b"") & 255)
            parts = [part for name, text in pairs for part in (name.encode(), text or b"")]
            yield b"".join((bytes(framing), key or b"", (value or b"")[:_SAMPLE_BYTES], *parts))
