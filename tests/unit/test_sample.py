import pytest

from shipper.report.plan_result import PlannedFile
from spark_jobs.sample import SampleRange, sample_ranges

PIECE = 1000


def files(*sizes, suffix=".log"):
    return [
        PlannedFile(path=f"{i}{suffix}", size_bytes=size, modified_ms=0, splits=1)
        for i, size in enumerate(sizes)
    ]


def places(found):
    return [(piece.path, piece.index) for piece in found]


@pytest.mark.parametrize("count", [1, 3, 4, 7, 100])
def test_there_are_never_more_pieces_than_asked_for_and_none_twice(count):
    for sizes in (
        [10],
        [10, 5000],
        [5000],
        [10**6, 20],
        [900] * 50,
        [4000] * 9,
        [10**6, 1001, 999],
    ):
        found = sample_ranges(files(*sizes), count, PIECE)
        assert 1 <= len(found) <= count
        assert len(set(found)) == len(found)
        slices = {str(i) + ".log": -(-size // PIECE) for i, size in enumerate(sizes)}
        assert all(piece.index is None or 0 <= piece.index < slices[piece.path] for piece in found)


def test_of_many_files_some_spread_evenly():
    assert places(sample_ranges(files(*[10] * 12), 4, PIECE)) == [
        ("0.log", None),
        ("3.log", None),
        ("6.log", None),
        ("9.log", None),
    ]


def test_of_a_large_compressed_file_its_beginning():
    small, large = files(10, 5000, suffix=".log.gz")
    assert sample_ranges([small, large], 2, PIECE) == [
        SampleRange("0.log.gz"),
        SampleRange("1.log.gz", head=True),
    ]
    assert places(sample_ranges(files(5000, suffix=".bz2"), 2, PIECE)) == [
        ("0.bz2", 0),
        ("0.bz2", 2),
    ], "bzip2 can be cut"
