"""How many bytes of neighbouring pieces share a partition of Spark's, and with it how many tasks
have something to do."""

import pytest

from shipper.driver.pieces import file_pieces, partition_bytes
from shipper.report.plan_result import PlannedFile

MB, SPLIT = 10**6, 32 * 2**20


def pieces_of(count, size_bytes):
    files = [
        PlannedFile(path=f"/logs/{n:05}.log", size_bytes=size_bytes, modified_ms=0, splits=1)
        for n in range(count)
    ]
    return list(file_pieces(files, SPLIT))


def partitions(pieces, most_bytes):
    """Bytes of each, as the reader packs them (`planInputPartitions`)."""
    found = []
    for size in (piece.end - piece.start for piece in pieces):
        if found and found[-1] + size <= most_bytes:
            found[-1] += size
        else:
            found.append(size)
    return found


@pytest.mark.parametrize(
    ("count", "size_bytes"),
    [(8, 7 * MB), (40, 1 * MB), (10_000, 10_000), (3, 2_000 * MB), (960, 1 * MB)],
)
@pytest.mark.parametrize("tasks", [1, 2, 4])
def test_every_task_has_something_to_read(count, size_bytes, tasks):
    pieces = pieces_of(count, size_bytes)
    found = partitions(pieces, partition_bytes(pieces, tasks, SPLIT))
    assert len(found) >= tasks
    assert max(found) <= max(sum(found) / tasks, 8 * 2**20)
