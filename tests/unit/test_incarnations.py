"""What the ledger says of topics that were deleted and created again."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shipper.ledger.fold import Chunks, Invalidated
from shipper.ledger.incarnations import (
    RecreatedTopic,
    compare,
    gone_ids,
    is_gone,
    sum_losses,
    topics_with_ids,
    without,
)
from shipper.ledger.records import ChunkKey
from shipper.types import FileId, SplitId
from tests.samples.ledger import chunk_value

FILE = FileId("a.log", 100, 1)
VALUE = chunk_value(last=0, end=False, records=0, bytes=1, splits=1)


def chunks(*entries, end=0, file=FILE):
    """(first, last, topic, topic id)."""
    found = Chunks("web")
    for first, last, topic, topic_id in entries:
        generation = ord(topic_id or "@")
        value = replace(
            VALUE,
            last=last,
            end=last == end,
            records=last - first,
            generation=generation,
            topic_id=topic_id,
        )
        found.add(ChunkKey(SplitId(file, 0), first, topic), value)
    return found


@pytest.mark.parametrize(
    ("topic_id", "present", "gone"),
    [
        ("A", {"t": "A"}, False),
        ("A", {"t": "B"}, True),
        ("A", {"t": None}, True),
        ("A", {"t": ""}, False),
        ("A", {}, False),
        (None, {"t": "B"}, False),
        (None, {"t": None}, False),
    ],
)
def test_a_chunk_is_gone_if_both_ids_are_known_and_differ(topic_id, present, gone):
    assert is_gone("t", topic_id, present) is gone
    assert bool(gone_ids(chunks((0, 10, "t", topic_id)), present)) is gone


def test_what_is_lost_is_named_by_topic_and_incarnation():
    held = chunks((0, 10, "t", "A"), (10, 15, "t", "B"), (15, 40, "u", "U"), end=40)
    found = compare(held, {"t": "C", "u": "U"})
    assert found.lost == [
        RecreatedTopic(topic="t", before=before, now="C", records=count, files=1)
        for before, count in (("A", 10), ("B", 5))
    ]
    assert found.lost_files == {FILE: "t"}
    assert found.gone == {"t": frozenset("AB")}
    assert topics_with_ids(held) == {"t", "u"}
    left = without(held, found.gone)
    assert left.splits[SplitId(FILE, 0)].records == 25
    assert not left.splits[SplitId(FILE, 0)].complete


_CUTS = st.lists(st.integers(1, 59), max_size=6, unique=True).map(sorted)


def _cut(cuts, start, end):
    borders = [start, *(cut for cut in cuts if start < cut < end), end]
    return list(pairwise(borders))


@given(st.data(), st.integers(0, 60), st.integers(0, 60))
def test_sending_again_what_is_gone_makes_the_file_complete_however_it_is_cut(data, b_from, c_from):
    """Three incarnations, of which each took what the ones before it had lost; the present one
    holds every record once."""
    entries = {}

    def held():
        return chunks(
            *(
                (first, last, topic, topic_id)
                for (first, topic), (last, topic_id) in entries.items()
            ),
            end=60,
        )

    def send(present, upto):
        """A run that stops at ``upto``."""
        seen = held()
        state = without(seen, compare(seen, {"t": present}).gone).splits.get(SplitId(FILE, 0))
        cuts = data.draw(_CUTS)
        there = sorted(state.intervals("t")) if state else []
        position = 0
        for part in [*there, None]:
            end = min(upto, part.first if part else 60)
            if position < end:
                entries.update(
                    {(first, "t"): (last, present) for first, last in _cut(cuts, position, end)}
                )
            position = max(position, part.end) if part else position

    send("A", 60)
    send("B", b_from)
    send("C", c_from)
    seen = held()
    before = compare(seen, {"t": "C"})
    state = without(seen, before.gone).splits.get(SplitId(FILE, 0))
    assert bool(state and state.complete) == (c_from == 60), (
        "nothing that is gone makes a file complete"
    )
    # A chunk of the present incarnation replaces one with its key, which may have been longer: the
    # rest of that counts as not sent yet.
    assert sum(loss.records for loss in before.lost) <= 60 - c_from
    send("C", 60)
    seen = held()
    after = compare(seen, {"t": "C"})
    assert after.lost == []
    state = without(seen, after.gone).splits[SplitId(FILE, 0)]
    assert state.complete
    assert sum(part.end - part.first for part in state.intervals("t")) == 60


def test_what_is_left_of_chunks_changes_apart_from_them():
    held = Chunks("web")
    for topic, topic_id in (("t", "A"), ("u", "U")):
        held.add(ChunkKey(SplitId(FILE, 0), 0, topic), replace(VALUE, topic_id=topic_id), 7)
    left = without(held, {"t": frozenset({"A"})})
    left.invalidate({FILE: Invalidated(1, frozenset())})
    assert held.committed_ms == {FILE: 7}


def test_losses_are_summed_up_and_stay_what_they_are():
    found = [
        RecreatedTopic(topic="t", before="A", now="B", records=records, files=1)
        for records in (3, 4)
    ]
    for _ in range(2):
        (one,) = sum_losses(found)
        assert (one.records, one.files, one.now) == (7, 2, "B")
