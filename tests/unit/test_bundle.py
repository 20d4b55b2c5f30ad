"""Chunks of bundles count lines, and are not compared by what is in them."""

from __future__ import annotations

from shipper.worker.chunk import Chunk


def test_what_waits_or_is_sent_again_is_counted_in_lines() -> None:
    bundles = Chunk(
        "t", [b"a\nb\nc", b"d"], 6, b"key", lambda partition, topic_id: b"", "a.log", lines=4
    )
    alone = Chunk("t", [b"a", None], 1, b"key", lambda partition, topic_id: b"", "a.log")
    assert [chunk.counted for chunk in (bundles, alone)] == [4, 2]
    assert sum(chunk.counted for chunk in (bundles, alone)) == 6
    bundles.drop_records()
    assert bundles.counted == 4


def test_a_chunk_is_equal_to_itself_alone() -> None:
    """A transaction of a thousand topics was compared field by field, each chunk with each, while
    the pool was locked."""

    class Values(list[bytes]):
        def __eq__(self, other: object) -> bool:
            raise AssertionError("compared by what is in it")

        __hash__ = None  # type: ignore[assignment]

    one, other = (
        Chunk("t", Values([b"a"]), 1, b"key", lambda partition, topic_id: b"", "label")
        for _ in range(2)
    )
    assert one != other
    assert other not in [one]
    assert len({one, other}) == 2
