"""Which chunks may be sent right now, and which wait, and until when: what the topics say and what is parked, taken together."""

from __future__ import annotations

from collections.abc import Iterable

from shipper.kafka.topics import Topics
from shipper.worker.chunk import Chunk
from shipper.worker.parking import Parking, Place

#: Topics in a message; log lines may have made many.
_NAMED = 10


class Admission:
    """Its owner holds its own lock around every call."""

    def __init__(self, topics: Topics, parking_bytes: int, deadline_seconds: float) -> None:
        self._topics = topics
        self._deadline_seconds = deadline_seconds
        self.parking = Parking(parking_bytes)
        self._probes: set[Chunk] = set()

    def may_go_to(self, chunk: Chunk) -> tuple[int, ...]:
        """The partitions that the chunk may be sent to right now; nothing if it has to wait, behind others or for its topic. The one answer
        to that question, for who hands a chunk over, who sends it, and who lets go what waits."""
        if not chunk.records:
            return (0,)  # it goes to the ledger alone
        place = self._place(chunk)
        if chunk in self._probes:
            return self._topics.known_partitions(*place)
        if self.parking.holds_up(chunk, place) or (chunk.sequence is not None and place.partition is None):
            return ()
        return self._topics.partitions(*place)

    def _place(self, chunk: Chunk) -> Place:
        if chunk.sequence is None:
            return Place(chunk.topic)
        return Place(chunk.topic, self._topics.home(chunk.topic, chunk.sequence, chunk.home))

    def should_not_wait(self, chunk: Chunk) -> bool:
        """Whether it makes no sense to wait for room before the chunk is parked: there is some, or there is none soon. Reading on makes
        sense only while something can be sent; and while some of what is parked goes in a moment, since its topic may be usable,
        there is room soon."""
        if self.parking.has_room_for(chunk, self._place(chunk)):
            return True
        topics = self._topics
        return topics.any_usable() and not any(topics.may_be_usable(*place) for place in self.parking.places())

    def park(self, chunk: Chunk) -> None:
        if chunk in self._probes:
            self._probes.discard(chunk)
            self._topics.not_probed(chunk.topic)
        self.parking.park(chunk, self._place(chunk))

    def let_go(self) -> list[Chunk]:
        """Those that waited and may be sent now, in their order. What waited too long is given up."""
        going: list[Chunk] = []
        for place in self.parking.places():
            if place not in self.parking:
                continue  # all that waited there came behind what was just given up
            if self._topics.partitions(*place):
                going += self.parking.take(place)
            elif self._waited_too_long(place):
                self.parking.give_up(place)
            elif self._topics.probe(*place):
                probe = self.parking.take(place, 1)
                self._probes.update(probe)
                going += probe
        return going

    def _waited_too_long(self, place: Place) -> bool:
        waited = self._topics.unusable_seconds(place.topic)
        if place.partition is not None:
            waited = max(waited, self.parking.waited_seconds(place))
        return waited > self._deadline_seconds

    def delivered(self, chunks: Iterable[Chunk]) -> None:
        self._probes.difference_update(chunks)

    def missing_message(self) -> str | None:
        """What could not be written to until the deadline; None if nothing was given up."""
        places = sorted(self.parking.given_up, key=str)
        if not places:
            return None
        names = _some(map(str, places))
        reasons = "; ".join(f"{place}: {self._topics.why_unusable(*place)}" for place in places[:_NAMED])
        given_up = {place.topic for place in places}
        others = {topic: count for topic, count in self.parking.dropped.items() if topic not in given_up}
        left = (
            f"Not sent either, since there was no room to let them wait: {sum(others.values()):,} records of {_some(others)}. "
            if others
            else ""
        )
        return (
            f"topic {names} could not be written to within {self._deadline_seconds:g} s "
            f"(`delivery.metadata_wait`): {reasons}. {left}Everything else was sent. Create it, or check its name and the ACLs; "
            "then run again: only what is left will be sent."
        )


def _some(names: Iterable[str]) -> str:
    found = list(names)
    return ", ".join(found[:_NAMED]) + (f" and {len(found) - _NAMED:,} more" if len(found) > _NAMED else "")
