"""What waits, is let go or is dropped, in any order of events: nobody overtakes a chunk of the same
sequence, and nothing vanishes."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from shipper.worker.chunk import Chunk
from shipper.worker.parking import Parking, ParkingKey

TOPICS, PARTITIONS, SEQUENCES = ("a", "b"), 3, 4


def chunk(topic, sequence, number, size):
    found = Chunk(
        topic,
        [b"x"],
        size,
        b"key",
        lambda _: b"",
        f"{topic} {sequence} {number}",
        sequence=sequence,
    )
    found.serial = number
    return found


event = st.one_of(
    st.tuples(
        st.just("submit"),
        st.sampled_from(TOPICS),
        st.integers(0, SEQUENCES - 1),
        st.integers(1, 40),
    ),
    st.tuples(
        st.just("open"), st.sampled_from(TOPICS), st.integers(0, PARTITIONS - 1), st.booleans()
    ),
    st.tuples(st.just("hand back"), st.integers(0, 5)),
    st.tuples(st.just("give up"), st.integers(0, 5)),
)


@settings(max_examples=4 * settings().max_examples)
@given(st.lists(event, max_size=60))
def test_nothing_overtakes_and_nothing_vanishes(events):
    """The pool's rules without its threads: what may not go is parked, what is open is let go; the
    last chunk sent may come back."""
    parking = Parking(100)
    closed = set()
    sent = []
    submitted = []

    def place(one):
        return ParkingKey(one.topic, one.sequence % PARTITIONS)

    def send(one):
        if place(one) in closed or parking.holds_up(one, place(one)):
            parking.park(one, place(one))
        else:
            sent.append(one)

    for number, (kind, *rest) in enumerate(events):
        if kind == "submit":
            one = chunk(*rest[:2], number, rest[2])
            submitted.append(one)
            send(one)
        elif kind == "open":
            where = ParkingKey(rest[0], rest[1])
            (closed.discard if rest[2] else closed.add)(where)
            if rest[2] and where in parking.places():
                for one in parking.take(where):
                    send(one)
        elif kind == "hand back" and sent:
            # A lane works on one chunk of a sequence at a time, and what stands behind it is called
            # back.
            back = sent[-1 - rest[0] % len(sent)]
            behind = [
                one
                for one in sent
                if (one.topic, one.sequence) == (back.topic, back.sequence)
                and one.serial >= back.serial
            ]
            sent = [one for one in sent if one not in behind]
            for one in behind:
                closed.add(place(one))
                parking.park(one, place(one))
        elif kind == "give up" and parking:
            parking.give_up(parking.places()[rest[0] % len(parking.places())])

    for topic in TOPICS:
        for sequence in range(SEQUENCES):
            mine = [one.serial for one in sent if (one.topic, one.sequence) == (topic, sequence)]
            assert mine == sorted(mine)
            of_all = [one for one in submitted if (one.topic, one.sequence) == (topic, sequence)]
            waiting = [
                one.serial
                for one in parking.waiting()
                if (one.topic, one.sequence) == (topic, sequence)
            ]
            # Sent, then waiting, then dropped: each a run of its own, so that a later scan goes on
            # where this one ended.
            assert [one.serial for one in of_all][: len(mine) + len(waiting)] == mine + sorted(
                waiting
            )
    there = Counter(one.topic for one in [*sent, *parking.waiting()])
    assert there + Counter(parking.unsent) == Counter(one.topic for one in submitted)
    assert parking.bytes == sum(one.size_bytes for one in parking.waiting())
