"""The pieces of files that a `sample` is: the same ones each time, and cheap also where a file is
huge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from shipper.driver.files import split_starts
from shipper.driver.pieces import FilePiece, piece_at
from shipper.report.plan_result import PlannedFile

#: Of a compressed file larger than a piece, which can be read from its beginning only.
HEAD_LINES = 20_000


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
            share = (count - number + len(chosen) - 1) // len(
                chosen
            )  # of the pieces, as even as it goes
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
