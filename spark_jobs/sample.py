"""The ranges of files that a `sample` is: the same ones each time, and cheap also where a file is
huge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from shipper.driver.files import split_starts
from shipper.driver.pieces import FilePiece, piece_at
from shipper.report.plan_result import PlannedFile

#: Of a compressed file larger than a piece, which can be read from its beginning only.
HEAD_LINES = 20_000


@dataclass(frozen=True)
class SampleRange:
    """A file, or the part of one that begins at ``index × piece_bytes``; ``index`` None: all of it,
    or its first lines."""

    path: str
    index: int | None = None
    head: bool = False


def sample_ranges(
    files: Sequence[PlannedFile], count: int, piece_bytes: int, cut_bytes: int | None = None
) -> list[SampleRange]:
    """Choose ``count`` ranges, or fewer if there are no more. Of more files than that one each of
    some, spread evenly over the list, which is in the order of paths and so mostly of time; of
    fewer files several each, spread evenly over the file. ``cut_bytes``: where files are cut for
    it; by default into pieces. One that is not cut gives its first records."""
    chosen = (
        [files[index * len(files) // count] for index in range(count)]
        if len(files) > count
        else list(files)
    )
    found = []
    for number, file in enumerate(chosen):
        slices = len(split_starts(file.path, file.size_bytes, cut_bytes or piece_bytes))
        if slices > 1:
            share = (count - number + len(chosen) - 1) // len(
                chosen
            )  # of the pieces, as even as it goes
            # One piece each: at another place of each file, so that they are not all beginnings.
            at = (
                [(2 * number + 1) * slices // (2 * len(chosen))]
                if share == 1
                else [i * slices // share for i in range(share)]
            )
            found += [SampleRange(file.path, index) for index in dict.fromkeys(at)]
        else:
            found.append(SampleRange(file.path, head=file.size_bytes > piece_bytes))
    return found


def to_read(
    chosen: Sequence[SampleRange], files: Sequence[PlannedFile], piece_bytes: int
) -> list[FilePiece]:
    """Return the pieces as the reader takes them. Of ``files`` they were chosen."""
    of_path = {file.path: file for file in files}
    return [_to_read(piece, of_path[piece.path], piece_bytes) for piece in chosen]


def _to_read(piece: SampleRange, file: PlannedFile, piece_bytes: int) -> FilePiece:
    if piece.index is not None:
        return piece_at(file, piece.index * piece_bytes, piece_bytes)
    whole = piece_at(file, 0, max(1, file.size_bytes))
    return replace(whole, most_lines=HEAD_LINES) if piece.head else whole
