"""A transaction is cut into rounds: every record once, in order, and about one batch per partition
at a time."""

from hypothesis import given
from hypothesis import strategies as st

from shipper.kafka.limits import RECORD_OVERHEAD_BYTES
from shipper.worker.chunk import Chunk
from shipper.worker.lane import batches, isolating_batches

_chunk = st.builds(
    lambda topic, partition, sizes, beside: Chunk(
        topic,
        [b"x" * size for size in sizes],
        sum(sizes),
        b"key",
        lambda _: b"value",
        "label",
        partition=partition,
        headers=[[("h", b"x" * beside)]] * len(sizes) if beside else None,
    ),
    st.sampled_from(["a", "b"]),
    st.integers(-1, 2),
    st.lists(st.integers(0, 50), max_size=40),
    st.sampled_from([0, 10, 400]),
)


def _most_bytes(chunk: Chunk, index: int) -> int:
    """Most bytes of a record in a batch."""
    headers = chunk.headers[index] if chunk.headers else []
    own = len(chunk.values[index] or b"") + sum(len(name) + len(value) for name, value in headers)
    return own + 4 * len(headers) + RECORD_OVERHEAD_BYTES


@given(st.lists(_chunk, max_size=8), st.integers(1, 2000))
def test_every_record_once_in_order_and_one_batch_per_partition_at_a_time(chunks, batch_bytes):
    sent = {}
    order = {}
    for batch in batches(chunks, lambda _: batch_bytes):
        assert batch
        room = {}
        for chunk, first, end in batch:
            assert sent.get(id(chunk), 0) == first < end
            sent[id(chunk)] = end
            target = chunk.topic, chunk.partition
            seen = order.setdefault(target, [])
            if not seen or seen[-1] != id(chunk):
                seen.append(id(chunk))
            count = len(chunk.values)
            per_record = sum(_most_bytes(chunk, index) for index in range(count)) / count
            assert room.get(target, 0) < 1.1 * batch_bytes, (
                "a second batch for a partition that has one"
            )
            room[target] = room.get(target, 0) + (end - first) * per_record
            assert room[target] <= 1.1 * batch_bytes + per_record
    assert sent == {id(chunk): len(chunk.values) for chunk in chunks if chunk.values}
    for target, seen in order.items():
        assert seen == [
            id(chunk)
            for chunk in chunks
            if chunk.values and (chunk.topic, chunk.partition) == target
        ]


@given(st.integers(1, 5000), st.integers(1000, 50_000))
def test_no_small_batch_is_left_for_the_end(records, batch_bytes):
    chunk = Chunk(
        "a", [b"x" * 100] * records, 100 * records, b"key", lambda _: b"value", "label", partition=0
    )
    sizes = [end - first for [(_, first, end)] in batches([chunk], lambda _: batch_bytes)]
    assert len(sizes) <= -(-records * (100 + RECORD_OVERHEAD_BYTES) // batch_bytes)
    assert max(sizes) - min(sizes) <= len(sizes)


@given(st.lists(_chunk, max_size=5), st.integers(1, 300))
def test_a_record_that_could_be_too_large_is_alone(chunks, limit):
    sent = {}
    for [(chunk, first, end)] in isolating_batches(chunks, {"a": limit, "b": limit}):
        assert sent.get(id(chunk), 0) == first < end
        sent[id(chunk)] = end
        size = sum(_most_bytes(chunk, index) for index in range(first, end))
        assert size <= limit or end - first == 1
    assert sent == {id(chunk): len(chunk.values) for chunk in chunks if chunk.values}
