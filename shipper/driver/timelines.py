"""Times of chunks, as the ledger has them. Pure."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping, Sequence

from shipper.ledger.fold import Chunks
from shipper.ledger.records import Entry
from shipper.report.results import TimelinePoint
from shipper.types import FileId

_MOST_POINTS = 240
"""A step of less than two pixels of the report's plot shows nothing."""


def timeline(committed: Sequence[Entry], generations: Collection[int]) -> list[TimelinePoint]:
    """Return what ``generations`` committed over time, in at most 240 intervals of a second or
    more, by the broker's timestamps."""
    points = [
        (chunk.timestamp_ms, chunk.value)
        for chunk in committed
        if chunk.value.generation in generations and chunk.value.records and chunk.key.topic
    ]
    if not points:
        return []
    first, last = min(at for at, _ in points), max(at for at, _ in points)
    width_ms = max(1000, -(-(last - first + 1) // _MOST_POINTS))
    counts = [[0, 0] for _ in range((last - first) // width_ms + 1)]
    for at, value in points:
        counts[(at - first) // width_ms][0] += value.records
        counts[(at - first) // width_ms][1] += value.bytes

    def moment(index: int) -> dt.datetime:
        return dt.datetime.fromtimestamp((first + (index + 1) * width_ms) / 1000, dt.UTC)

    return [
        TimelinePoint(at=moment(index), records=records, bytes=size)
        for index, (records, size) in enumerate(counts)
    ]


def last_commits(chunks: Chunks, files: Mapping[FileId, str]) -> dict[str, dt.datetime]:
    """Return tick → when the last record of its ``files`` was committed, by the broker's clock.
    ``files``: file → the tick that it belongs to."""
    found: dict[str, int] = {}
    for file, tick in files.items():
        if (at := chunks.committed_ms.get(file)) is not None:
            found[tick] = max(at, found.get(tick, at))
    return {tick: dt.datetime.fromtimestamp(at / 1000, dt.UTC) for tick, at in found.items()}
