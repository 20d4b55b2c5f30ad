"""Chunks, and how a transaction's chunks are cut into batches. Pure."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

#: What a record costs in a batch beside its key and value: lengths, offset and timestamp differences (Kafka's record format, v2).
RECORD_OVERHEAD_BYTES = 20


@dataclass(eq=False)
class Chunk:
    """Records of one topic that are delivered together, with the ledger record that says so. Equal to itself alone."""

    topic: str
    """Empty for a chunk without records: then only the ledger record is written."""
    values: Sequence[bytes | None]
    """Sliced batch by batch, so it may make its objects when it is asked for them."""
    size_bytes: int
    """Of values and keys."""
    ledger_key: bytes
    ledger_value: Callable[[int | None], bytes]
    """Given the partition that all records without a key went to (None if each has a key, or there is none)."""
    label: str
    """For people: which file and which records."""
    keys: Sequence[bytes | None] | None = None
    headers: Sequence[list[tuple[str, bytes]]] | None = None
    timestamps_ms: Sequence[int] | None = None
    some_without_key: bool = True
    """Records without a key go to one partition, chunk by chunk; those with one where Java's producer would put them."""
    sequence: int | None = None
    """Chunks of the same sequence keep their order in a partition, also across retries: they share a lane and a partition."""
    home: int | None = None
    """The partition that earlier chunks of its sequence went to, if there are any; the pool chooses one for a sequence that begins."""
    receipt: Any = None
    """The caller's own note; it comes back with the outcome."""
    lines: int | None = None
    """What its records count as, if they are bundles of lines; None: each counts as one."""
    partition: int | None = None
    """Chosen by the lane that sends it."""
    records: int = field(init=False)
    """Kafka records in it; stays when the records themselves are dropped."""
    serial: int = field(init=False, default=0)
    """The pool's: in which order chunks were submitted."""
    delivered: bool = field(init=False, default=False)
    """The pool's: it is certainly in Kafka."""

    def __post_init__(self) -> None:
        self.records = len(self.values)

    @property
    def counted(self) -> int:
        """Records, or the lines in them: what people are told."""
        return self.records if self.lines is None else self.lines

    @property
    def needs_partition(self) -> bool:
        return self.some_without_key and self.records > 0

    def packed(self, first: int, behind: int) -> Iterator[tuple[Any, int]] | None:
        """The values as they lie in memory, if they can be had so: see PackedValues."""
        packed = getattr(self.values, "packed", None)
        return packed(first, behind) if packed is not None and self.partition is not None else None

    def drop_records(self) -> None:
        """Frees the memory; what identifies the chunk stays."""
        self.values, self.keys, self.headers, self.timestamps_ms = (), None, None, None


class Piece(NamedTuple):
    """Records [first, behind) of a chunk."""

    chunk: Chunk
    first: int
    behind: int


def rounds(chunks: Sequence[Chunk], batch_bytes: Callable[[str], int]) -> Iterator[list[Piece]]:
    """Cuts a transaction into rounds, each with about one batch for every partition that it writes to, in the order of the chunks.

    ``batch_bytes``: topic → size. A partition's batches are of equal size, and up to a tenth larger than that: each takes a round
    trip, so a small one at the end would cost as much as a full one. Sizes are judged by the chunk's average record; a batch
    that comes out larger than the producer's ``batch.size`` is cut by librdkafka, so a wrong guess costs a round trip and nothing else.
    """
    queues: dict[tuple[str, int | None], deque[Piece]] = {}
    bytes_of: dict[tuple[str, int | None], float] = {}
    for chunk in chunks:
        if len(chunk.values):
            target = chunk.topic, chunk.partition
            queues.setdefault(target, deque()).append(Piece(chunk, 0, len(chunk.values)))
            bytes_of[target] = bytes_of.get(target, 0.0) + _per_record(chunk) * chunk.records
    rooms = {target: size / math.ceil(size / (1.1 * batch_bytes(target[0]))) for target, size in bytes_of.items()}
    while queues:
        batch: list[Piece] = []
        for target, waiting in list(queues.items()):
            room = rooms[target]
            while waiting and room > 0:
                chunk, first, behind = waiting.popleft()
                per_record = _per_record(chunk)
                stop = min(behind, first + max(1, math.ceil(room / per_record)))
                batch.append(Piece(chunk, first, stop))
                room -= (stop - first) * per_record
                if stop < behind:
                    waiting.appendleft(Piece(chunk, stop, behind))
                    break
            if not waiting:
                del queues[target]
        yield batch


def _per_record(chunk: Chunk) -> float:
    return chunk.size_bytes / chunk.records + RECORD_OVERHEAD_BYTES


def isolating_rounds(chunks: Sequence[Chunk], limits: Mapping[str, int]) -> Iterator[list[Piece]]:
    """Rounds of one piece each, in which a record that could be too large for its topic is alone: if one of these is refused,
    the record itself is too large. ``limits``: topic → bytes that always fit. Looks at every record."""
    for chunk in chunks:
        limit = limits.get(chunk.topic, 0)
        first, room = 0, limit
        for index, value in enumerate(chunk.values[:]):
            size = len(value or b"") + RECORD_OVERHEAD_BYTES + (len(chunk.keys[index] or b"") if chunk.keys else 0)
            if size > room and index > first:
                yield [Piece(chunk, first, index)]
                first, room = index, limit
            room -= size
        if first < len(chunk.values):
            yield [Piece(chunk, first, len(chunk.values))]
