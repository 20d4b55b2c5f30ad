"""The parking: chunks that wait in memory until their topic can be written to, and the gate that
sends them there."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterable
from typing import NamedTuple

from shipper import runtime
from shipper.config.units import listed, plural
from shipper.errors import ClusterRefuses, TopicMissing
from shipper.kafka.outcomes import GRANT_SECONDS
from shipper.kafka.topics import Topics
from shipper.worker.chunk import Chunk

#: Topics in a message; log lines may have made many.
_NAMED = 10


class ParkingKey(NamedTuple):
    """Topic, and maybe partition, that a chunk waits for."""

    topic: str
    partition: int | None = None
    """Partition that a chunk waits for because it keeps its order. None: any that can be written to
    will do."""

    def __str__(self) -> str:
        return (
            self.topic if self.partition is None else f"{self.topic} (partition {self.partition})"
        )


class Parking:
    """Chunks by place, in the order in which they were submitted. Its owner holds its own lock
    around every call.

    A chunk without room, or for a place that was given up, stays unsent. So does a later chunk that
    must not overtake it, even if the place recovers: a later scan or run sends them in their order.
    """

    def __init__(self, most_bytes: int) -> None:
        self.bytes = 0
        self.given_up: set[ParkingKey] = set()
        self.parked_records: dict[str, int] = {}
        """Topic → records that were ever parked."""
        self.unsent: dict[str, int] = {}
        """Topic → records that were not sent."""
        self._most_bytes = most_bytes
        self._waiting: dict[ParkingKey, list[Chunk]] = {}
        self._since: dict[ParkingKey, float] = {}
        self._broken: dict[tuple[str, int], int] = {}
        """(topic, sequence) → serial of the first chunk that stayed unsent."""

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def __contains__(self, place: ParkingKey) -> bool:
        """Return True if a chunk waits for the place."""
        return place in self._waiting

    def places(self) -> list[ParkingKey]:
        """Return the places that chunks wait for, the earliest chunk's first."""
        return sorted(self._waiting, key=lambda place: self._waiting[place][0].serial)

    def records(self) -> dict[str, int]:
        """Return topic → number of records that wait for it."""
        found: dict[str, int] = {}
        for place, chunks in self._waiting.items():
            found[place.topic] = found.get(place.topic, 0) + sum(chunk.records for chunk in chunks)
        return found

    def waiting(self) -> list[Chunk]:
        return [chunk for chunks in self._waiting.values() for chunk in chunks]

    def waited_seconds(self, place: ParkingKey) -> float:
        """Return the seconds since the first chunk came that still waits for the place, or others
        that waited with it."""
        return runtime.monotonic() - self._since[place]

    def holds_up(self, chunk: Chunk, place: ParkingKey) -> bool:
        """Return True if the chunk must be parked, too: its place was given up, or it must not
        overtake a chunk that waits or was not sent."""
        others_wait = chunk.sequence is not None and (
            place in self._waiting or ParkingKey(place.topic) in self._waiting
        )
        return others_wait or self._stays_unsent(chunk, place)

    def has_room_for(self, chunk: Chunk, place: ParkingKey) -> bool:
        """Return True if the chunk may be parked. Also True for a chunk that will not be sent."""
        return self._fits(chunk) or self._stays_unsent(chunk, place)

    def _fits(self, chunk: Chunk) -> bool:
        return self.bytes + chunk.held_bytes <= self._most_bytes or not self._waiting

    def _stays_unsent(self, chunk: Chunk, place: ParkingKey) -> bool:
        return place in self.given_up or self._comes_behind_unsent(chunk)

    def park(self, chunk: Chunk, place: ParkingKey) -> None:
        self.parked_records[chunk.topic] = self.parked_records.get(chunk.topic, 0) + chunk.records
        if self._stays_unsent(chunk, place) or not self._fits(chunk):
            self._leave_unsent(chunk)
            return
        bisect.insort(
            self._waiting.setdefault(place, []), chunk, key=lambda waiting: waiting.serial
        )
        self._since.setdefault(place, runtime.monotonic())
        self.bytes += chunk.held_bytes

    def take(self, place: ParkingKey, count: int | None = None) -> list[Chunk]:
        """Take the first ``count`` chunks; all, if None."""
        waiting = self._waiting[place]
        count = len(waiting) if count is None else count
        self._keep(place, waiting[count:])
        return waiting[:count]

    def give_up(self, place: ParkingKey) -> None:
        self.given_up.add(place)
        for chunk in self.take(place):
            self._leave_unsent(chunk)

    def _keep(self, place: ParkingKey, chunks: list[Chunk]) -> None:
        self.bytes -= sum(chunk.held_bytes for chunk in self._waiting[place]) - sum(
            chunk.held_bytes for chunk in chunks
        )
        if chunks:
            self._waiting[place] = chunks
        else:
            del self._waiting[place], self._since[place]

    def _comes_behind_unsent(self, chunk: Chunk) -> bool:
        return chunk.sequence is not None and chunk.serial > self._broken.get(
            (chunk.topic, chunk.sequence), chunk.serial
        )

    def _leave_unsent(self, chunk: Chunk) -> None:
        self.unsent[chunk.topic] = self.unsent.get(chunk.topic, 0) + chunk.records
        chunk.drop_records()
        if chunk.sequence is None or self._comes_behind_unsent(chunk):
            return
        self._broken[chunk.topic, chunk.sequence] = chunk.serial
        for place in [place for place in self._waiting if place.topic == chunk.topic]:
            behind = [
                c
                for c in self._waiting[place]
                if c.sequence == chunk.sequence and c.serial > chunk.serial
            ]
            if behind:
                self._keep(place, [c for c in self._waiting[place] if c not in behind])
            for one in behind:
                self._leave_unsent(one)


class Admission:
    """Decision which chunks may be sent now, and which wait and until when: topics' states and
    parked chunks, taken together. Its owner holds its own lock around every call."""

    def __init__(self, topics: Topics, parking_bytes: int, deadline_seconds: float) -> None:
        self._topics = topics
        self._deadline_seconds = deadline_seconds
        self._grant_seconds = min(GRANT_SECONDS, deadline_seconds)
        self.parking = Parking(parking_bytes)
        self._probes: set[Chunk] = set()
        self._forbidden: set[ParkingKey] = set()
        """Places that were given up because an ACL is missing."""

    def may_go_to(self, chunk: Chunk) -> tuple[int, ...]:
        """Return the partitions that the chunk may be sent to right now; none if the chunk has
        to wait, behind others or for its topic. Submitting, sending and releasing all use this
        answer."""
        if not chunk.records:
            return (0,)  # it goes to the ledger alone
        place = self._place(chunk)
        if chunk in self._probes:
            return self._topics.known_partitions(*place)
        if self.parking.holds_up(chunk, place) or (
            chunk.sequence is not None and place.partition is None
        ):
            return ()
        return self._topics.partitions(*place)

    def _place(self, chunk: Chunk) -> ParkingKey:
        if chunk.sequence is None:
            return ParkingKey(chunk.topic)
        return ParkingKey(
            chunk.topic,
            self._topics.sticky_partition(chunk.topic, chunk.sequence, chunk.sticky_partition),
        )

    def admit(
        self, chunks: Iterable[Chunk], wait_until: Callable[[Callable[[], bool]], object]
    ) -> list[Chunk]:
        """Park the chunks that may not be sent right now; return the others. While there is no room
        it waits, by calling ``wait_until`` with what must come true; that lets go of the owner's
        lock meanwhile."""
        going = []
        for chunk in chunks:
            if not self.may_go_to(chunk):
                wait_until(lambda chunk=chunk: self._should_not_wait(chunk))  # type: ignore[misc]
            if self.may_go_to(chunk):
                going.append(chunk)
            else:
                self.park(chunk)
        return going

    def _should_not_wait(self, chunk: Chunk) -> bool:
        """Return True if waiting for room before parking the chunk makes no sense: there is
        room, or there will be none soon. Reading on makes sense only while something can be
        sent. While some parked chunks will go in a moment, since their topic may be usable,
        there is room soon."""
        if self.parking.has_room_for(chunk, self._place(chunk)):
            return True
        topics = self._topics
        return topics.any_usable() and not any(
            topics.may_be_usable(*place) for place in self.parking.places()
        )

    def park(self, chunk: Chunk) -> None:
        if chunk in self._probes:
            self._probes.discard(chunk)
            self._topics.not_probed(chunk.topic)
        self.parking.park(chunk, self._place(chunk))
        self._topics.wake()

    def let_go(self) -> list[Chunk]:
        """Return the chunks that waited and may be sent now, in their order. What waited too long
        is given up."""
        going: list[Chunk] = []
        for place in self.parking.places():
            if place not in self.parking:
                continue  # all that waited there came after what was just given up
            if self._topics.partitions(*place):
                going += self.parking.take(place)
            elif self._topics.forbidden_seconds(place.topic) > self._grant_seconds:
                self._forbidden.add(place)
                self.parking.give_up(place)
            elif self._waited_too_long(place):
                self.parking.give_up(place)
            elif self._topics.probe(*place):
                probe = self.parking.take(place, 1)
                self._probes.update(probe)
                going += probe
        return going

    def _waited_too_long(self, place: ParkingKey) -> bool:
        waited = self._topics.unusable_seconds(place.topic)
        if place.partition is not None:
            waited = max(waited, self.parking.waited_seconds(place))
        return waited > self._deadline_seconds

    def delivered(self, chunks: Iterable[Chunk]) -> None:
        self._probes.difference_update(chunks)

    def raise_given_up(self) -> None:
        """Raise TopicMissing if a topic could not be written to until the deadline, or
        ClusterRefuses if an ACL was missing for all of them."""
        places = sorted(self.parking.given_up, key=str)
        if not places:
            return
        names = listed(places, _NAMED)
        reasons = "; ".join(
            f"{place}: {self._topics.why_unusable(*place)}" for place in places[:_NAMED]
        )
        given_up = {place.topic for place in places}
        others = {
            topic: count for topic, count in self.parking.unsent.items() if topic not in given_up
        }
        left = (
            "Records that found no room to wait were not sent either: "
            f"{plural(sum(others.values()), 'record')} of {listed([*others], _NAMED)}. "
            if others
            else ""
        )
        if self._forbidden >= self.parking.given_up:
            raise ClusterRefuses(
                f"the user may not write to topic {names}, and the right was not granted "
                f"within {self._grant_seconds:g} s: {reasons}. "
                f"{left}Everything else was sent. Grant the right to the user in the cluster's "
                "`properties`. `shipper doctor` shows what else is missing. Then run again: "
                "only what is left is sent."
            )
        raise TopicMissing(
            f"topic {names} could not be written to within {self._deadline_seconds:g} s "
            f"(`delivery.metadata_wait`): {reasons}. {left}Everything else was sent. Create "
            "the topic, or check its name and its ACLs. Then run again: only what is left is "
            "sent."
        )
