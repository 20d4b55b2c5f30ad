"""The parking: chunks that wait in memory until their topic can be written to."""

from __future__ import annotations

import bisect
import time
from typing import NamedTuple

from shipper.worker.chunk import Chunk


class Place(NamedTuple):
    """Where a chunk is to go."""

    topic: str
    partition: int | None = None
    """Of a chunk that keeps its order: it waits for this one. None: any that can be written to will do."""

    def __str__(self) -> str:
        return self.topic if self.partition is None else f"{self.topic} (partition {self.partition})"


class Parking:
    """Chunks by place, in the order in which they were submitted. Its owner holds its own lock around every call.

    What finds no room, or a place that was given up, is dropped; and what comes behind a dropped chunk and must not overtake it is
    dropped as well, whatever becomes of the place: a later pass or run sends them in their order.
    """

    def __init__(self, most_bytes: int) -> None:
        self.bytes = 0
        self.given_up: set[Place] = set()
        self.parked_records: dict[str, int] = {}
        """Topic → records that were parked at some time, whatever became of them."""
        self.dropped: dict[str, int] = {}
        """Topic → records that were dropped."""
        self._most_bytes = most_bytes
        self._waiting: dict[Place, list[Chunk]] = {}
        self._since: dict[Place, float] = {}
        self._broken: dict[tuple[str, int], int] = {}
        """(topic, sequence) → serial of the first chunk that was dropped."""

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def __contains__(self, place: Place) -> bool:
        """Whether somebody waits for it."""
        return place in self._waiting

    def places(self) -> list[Place]:
        """Those that somebody waits for, the earliest chunk's first."""
        return sorted(self._waiting, key=lambda place: self._waiting[place][0].serial)

    def records(self) -> dict[str, int]:
        """Topic → records that wait for it."""
        found: dict[str, int] = {}
        for place, chunks in self._waiting.items():
            found[place.topic] = found.get(place.topic, 0) + sum(chunk.counted for chunk in chunks)
        return found

    def waiting(self) -> list[Chunk]:
        return [chunk for chunks in self._waiting.values() for chunk in chunks]

    def waited_seconds(self, place: Place) -> float:
        """Since the first chunk came that still waits for it, or others that waited with it."""
        return time.monotonic() - self._since[place]

    def holds_up(self, chunk: Chunk, place: Place) -> bool:
        """Whether the chunk has to come here too: nobody waits any more for its place, or it must not overtake what waits or was dropped."""
        if chunk.sequence is None:
            return place in self.given_up
        others_wait = place in self._waiting or Place(place.topic) in self._waiting
        return others_wait or place in self.given_up or self._comes_behind_dropped(chunk)

    def has_room_for(self, chunk: Chunk, place: Place) -> bool:
        """True for one that is going to be dropped anyway."""
        fits = self.bytes + chunk.size_bytes <= self._most_bytes or not self._waiting
        return fits or place in self.given_up or self._comes_behind_dropped(chunk)

    def park(self, chunk: Chunk, place: Place) -> None:
        self.parked_records[chunk.topic] = self.parked_records.get(chunk.topic, 0) + chunk.counted
        full = self.bytes + chunk.size_bytes > self._most_bytes and self._waiting
        if full or place in self.given_up or self._comes_behind_dropped(chunk):
            self._drop(chunk)
            return
        bisect.insort(self._waiting.setdefault(place, []), chunk, key=lambda waiting: waiting.serial)
        self._since.setdefault(place, time.monotonic())
        self.bytes += chunk.size_bytes

    def take(self, place: Place, count: int | None = None) -> list[Chunk]:
        """Lets the first ``count`` chunks go; all, if None."""
        waiting = self._waiting[place]
        count = len(waiting) if count is None else count
        self._keep(place, waiting[count:])
        return waiting[:count]

    def give_up(self, place: Place) -> None:
        self.given_up.add(place)
        for chunk in self.take(place):
            self._drop(chunk)

    def _keep(self, place: Place, chunks: list[Chunk]) -> None:
        self.bytes -= sum(chunk.size_bytes for chunk in self._waiting[place]) - sum(chunk.size_bytes for chunk in chunks)
        if chunks:
            self._waiting[place] = chunks
        else:
            del self._waiting[place], self._since[place]

    def _comes_behind_dropped(self, chunk: Chunk) -> bool:
        return chunk.sequence is not None and chunk.serial > self._broken.get((chunk.topic, chunk.sequence), chunk.serial)

    def _drop(self, chunk: Chunk) -> None:
        self.dropped[chunk.topic] = self.dropped.get(chunk.topic, 0) + chunk.counted
        chunk.drop_records()
        if chunk.sequence is None or self._comes_behind_dropped(chunk):
            return
        self._broken[chunk.topic, chunk.sequence] = chunk.serial
        for place in [place for place in self._waiting if place.topic == chunk.topic]:
            behind = [c for c in self._waiting[place] if c.sequence == chunk.sequence and c.serial > chunk.serial]
            if behind:
                self._keep(place, [c for c in self._waiting[place] if c not in behind])
            for one in behind:
                self._drop(one)
