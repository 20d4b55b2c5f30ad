"""Pieces of files, which the reader reads as rows, and its statements on them afterwards. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from shipper.driver.files import split_hash, split_starts
from shipper.driver.recognition import PLAIN
from shipper.report.plan_result import PlannedFile

_ALL_LINES = 2**63 - 1
HEAD_LINES = 20_000
"""Lines of a sample of a large compressed file, which can be read from its beginning only."""
#: Small files share a Spark partition up to this size. Less is not worth the lanes of another task;
#: more leaves tasks idle in a slightly larger window: 55 MB in eight files were work for two tasks,
#: whatever `runner.cores` said.
_LEAST_PARTITION_BYTES, _MOST_PARTITION_BYTES = 8 * 2**20, 128 * 2**20
#: Gives tasks about equal work.
_PARTITIONS_PER_TASK = 4


@dataclass(frozen=True)
class FilePiece:
    """Bytes [start, end) of a file; its lines are those that begin in there."""

    file: PlannedFile
    start: int
    end: int
    split: int
    """Number of the split, which its rows have in the column `split`."""
    most_lines: int = _ALL_LINES


@dataclass(frozen=True)
class PieceReport:
    """Report of the reader on a piece."""

    split: int
    stored: int
    """Bytes taken from the file, as it is stored; -1 for bzip2."""
    unpacked: int
    """Bytes of lines, with their ends."""
    lines: int
    problem: str
    """Reason why not all of it could be read; empty if all was."""
    passing: bool = False
    """True if another run may read it: the file is not at fault."""
    long_bytes: int = 0
    """Bytes of `unpacked` in records that are longer than `records.max_line`."""
    padding_bytes: int = 0
    """Zeros behind the end of packed content."""


def uri_of(file: PlannedFile) -> str:
    return file.uri or file.path


def starts_of(file: PlannedFile, split_size_bytes: int) -> Sequence[int]:
    """Return the first bytes of a file's splits. Of a file of which the beginning was delivered as
    another file's, they begin behind that; a packed one, whose place there is one of its content,
    is not cut."""
    starts = split_starts(file.path, file.size_bytes, split_size_bytes)
    if not file.begins:
        return starts
    later = [start for start in starts if file.begins < start] if file.format == PLAIN else []
    return [file.begins, *later]


def file_pieces(files: Iterable[PlannedFile], split_size_bytes: int) -> Iterator[FilePiece]:
    """Yield all splits of the files, in their order."""
    for file in files:
        starts = starts_of(file, split_size_bytes)
        for start, end in pairwise([*starts, file.size_bytes]):
            yield FilePiece(file, start, end, split_hash(uri_of(file), file.id, start))


def piece_at(file: PlannedFile, start: int, size_bytes: int) -> FilePiece:
    """Return a piece of a file for a look at it, all of one that cannot be cut."""
    starts = split_starts(file.path, file.size_bytes, size_bytes)
    end = file.size_bytes if len(starts) == 1 else min(start + size_bytes, file.size_bytes)
    return FilePiece(file, start, end, split_hash(uri_of(file), file.id, start))


def partition_bytes(pieces: Iterable[FilePiece], tasks: int, split_size_bytes: int) -> int:
    """Return the number of bytes up to which neighbouring pieces share a partition. It decides
    which task reads them, and does not change the records."""
    share = sum(piece.end - piece.start for piece in pieces) // (tasks * _PARTITIONS_PER_TASK)
    return min(max(share, _LEAST_PARTITION_BYTES), split_size_bytes, _MOST_PARTITION_BYTES)


def broken_files(pieces: Sequence[FilePiece], reports: Sequence[PieceReport]) -> list[PlannedFile]:
    """Return the files that could not be read to their end; note their problems."""
    problems = {report.split: report for report in reports if report.problem}
    found = {}
    for piece in pieces if problems else ():
        if report := problems.get(piece.split):
            piece.file.problem, piece.file.passing = report.problem, report.passing
            found[piece.file.path] = piece.file
    return list(found.values())


def sample_pieces(
    files: Sequence[PlannedFile], count: int, piece_bytes: int, cut_bytes: int | None = None
) -> list[FilePiece]:
    """Choose ``count`` pieces, or fewer if there are no more. Of more files than that one each of
    some, spread evenly over the list, which is in the order of paths and so mostly of time; of
    fewer files several each, spread evenly over the file. ``cut_bytes``: where files are cut for
    it; by default into pieces. One that is not cut gives its first records."""
    chosen = (
        [files[index * len(files) // count] for index in range(count)]
        if len(files) > count
        else list(files)
    )
    found = list[FilePiece]()
    for number, file in enumerate(chosen):
        slices = len(split_starts(file.path, file.size_bytes, cut_bytes or piece_bytes))
        if slices > 1:
            # Of the pieces, as even as it goes.
            share = (count - number + len(chosen) - 1) // len(chosen)
            # One piece each: at another place of each file, so that they are not all beginnings.
            at = (
                [(2 * number + 1) * slices // (2 * len(chosen))]
                if share == 1
                else [i * slices // share for i in range(share)]
            )
            found += [piece_at(file, i * piece_bytes, piece_bytes) for i in dict.fromkeys(at)]
        else:
            whole = piece_at(file, 0, max(1, file.size_bytes))
            large = file.size_bytes > piece_bytes
            found.append(replace(whole, most_lines=HEAD_LINES) if large else whole)
    return found
