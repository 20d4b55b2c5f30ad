"""What a split's chunks say of it, at least once: runs that nobody could fence may cut it
differently, and commit the same records a second time."""

from hypothesis import given
from hypothesis import strategies as st

from shipper.ledger.fold import ChunkOfSplit, Chunks, SplitState
from shipper.ledger.intervals import IntervalSet
from shipper.ledger.records import ChunkKey
from shipper.types import FileId, SplitId
from tests.samples.ledger import chunk_value

SPLIT = SplitId(FileId("/logs/a.log", 100, 1), 0)
TOPICS = ("a", "b")
cuts = st.tuples(st.integers(0, 11), st.integers(1, 12), st.sampled_from(TOPICS))


def commit(chunks, topics, first, last, topic):
    last = min(last, len(topics))
    records = topics[first:last].count(topic)
    value = chunk_value(last=last, end=last == len(topics), records=records)
    chunks.add(ChunkKey(SPLIT, first, topic), value)


def there(state, topics):
    """Ordinals whose records lie in their topic, by all chunks that were ever committed."""
    return {
        n
        for of, value in state.chunks.items()
        for n in range(of.first, value.last)
        if topics[n] == of.topic
    }


@given(st.lists(st.sampled_from(TOPICS), min_size=1, max_size=12), st.lists(cuts, max_size=8))
def test_a_split_counts_as_complete_exactly_when_no_record_is_missing(topics, committed):
    chunks = Chunks("web")
    for first, size, topic in committed:
        if first < len(topics):
            commit(chunks, topics, first, first + size, topic)
    state = chunks.splits.setdefault(SPLIT, SplitState())
    assert not state.complete or there(state, topics) == set(range(len(topics)))
    # The next ship sends what no chunk that counts has, and nothing is left behind it.
    for topic in TOPICS:
        for gap in IntervalSet(state.intervals(topic)).gaps(0, len(topics)):
            commit(chunks, topics, gap.first, gap.end, topic)
    assert chunks.splits[SPLIT].complete
    assert there(chunks.splits[SPLIT], topics) == set(range(len(topics)))


def test_a_chunk_that_shares_records_with_an_earlier_one_does_not_count():
    chunks = Chunks("web")
    commit(chunks, ["a"] * 12, 0, 8, "a")
    commit(chunks, ["a"] * 12, 4, 8, "a")
    state = chunks.splits[SPLIT]
    assert (state.lines, list(state.counted)) == (8, [ChunkOfSplit(0, "a")])
    commit(chunks, ["a"] * 12, 8, 12, "a")
    assert state.complete, "and it fits although twelve records and four more were sent"
