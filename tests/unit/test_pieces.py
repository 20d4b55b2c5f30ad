"""How many bytes of neighbouring pieces share a partition of Spark's, and with it how many tasks
have something to do."""

from __future__ import annotations

import pytest

from shipper.driver.pieces import FilePiece, file_pieces, partition_bytes
from shipper.report.plan_result import PlannedFile

MB, SPLIT = 10**6, 32 * 2**20


def pieces_of(count: int, size_bytes: int) -> list[FilePiece]:
    files = [
        PlannedFile(path=f"/logs/{n:05}.log", size_bytes=size_bytes, modified_ms=0, splits=1)
        for n in range(count)
    ]
    return list(file_pieces(files, SPLIT))


def partitions(pieces: list[FilePiece], most_bytes: int) -> list[int]:
    """Bytes of each, as the reader packs them (`planInputPartitions`)."""
    found: list[int] = []
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
def test_every_task_has_something_to_read(count: int, size_bytes: int, tasks: int) -> None:
    pieces = pieces_of(count, size_bytes)
    found = partitions(pieces, partition_bytes(pieces, tasks, SPLIT))
    assert len(found) >= tasks
    assert max(found) <= max(sum(found) / tasks, 8 * 2**20)


def test_small_files_are_packed_whatever_the_number_of_tasks() -> None:
    pieces = pieces_of(10_000, 10_000)
    assert len(partitions(pieces, partition_bytes(pieces, 64, SPLIT))) <= 13
    few = pieces_of(20, 100_000)
    assert len(partitions(few, partition_bytes(few, 64, SPLIT))) == 1


def test_a_partition_is_never_more_than_a_split_or_128_mb() -> None:
    pieces = pieces_of(4_000, 10 * MB)
    assert partition_bytes(pieces, 1, SPLIT) == SPLIT
    assert partition_bytes(pieces, 1, 2**30) == 128 * 2**20
    assert partition_bytes(pieces, 1, 2**16) == 2**16, (
        "tests cut files small, and expect tasks side by side"
    )
