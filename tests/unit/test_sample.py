import pytest

from shipper.driver.pieces import HEAD_LINES, sample_pieces
from shipper.report.plan_result import PlannedFile

PIECE = 1000


def files(*sizes, suffix=".log"):
    return [
        PlannedFile(path=f"{i}{suffix}", size_bytes=size, modified_ms=0, splits=1)
        for i, size in enumerate(sizes)
    ]


def places(found):
    return [(piece.file.path, piece.start // PIECE) for piece in found]


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
        found = sample_pieces(files(*sizes), count, PIECE)
        assert 1 <= len(found) <= count
        assert len({*places(found)}) == len(found)
        slices = {str(i) + ".log": -(-size // PIECE) for i, size in enumerate(sizes)}
        assert all(0 <= index < slices[path] for path, index in places(found))


def test_of_many_files_some_spread_evenly():
    assert places(sample_pieces(files(*[10] * 12), 4, PIECE)) == [
        ("0.log", 0),
        ("3.log", 0),
        ("6.log", 0),
        ("9.log", 0),
    ]


def test_of_a_large_compressed_file_its_beginning():
    small, large = files(10, 5000, suffix=".log.gz")
    first, second = sample_pieces([small, large], 2, PIECE)
    assert (first.file, second.file) == (small, large)
    assert first.most_lines > second.most_lines == HEAD_LINES
    assert places(sample_pieces(files(5000, suffix=".bz2"), 2, PIECE)) == [
        ("0.bz2", 0),
        ("0.bz2", 2),
    ], "bzip2 can be cut"
