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
