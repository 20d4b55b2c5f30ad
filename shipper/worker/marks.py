"""Rows of the reader that are no whole line: jvm/shipper/lines/ReaderFactory.java makes them.

The column MARK says so to Spark. The sink has only the column `split`, since every column more
costs each record something; so a mark is in there as well.
"""

from __future__ import annotations

from collections.abc import Container
from typing import NamedTuple

#: A name that no column of a pipeline can have.
MARK = "mark!"
#: The column in which an END row has what the reader says of the piece's bytes, as two numbers:
#: those that it took from the file, as it is stored, and those of the records. -1 where the reader
#: cannot say. The sink finds them in the row's `value`.
SIZES = "sizes!"
#: The column that says of a row of CSV that is none (too long, or with other fields than the
#: header) how many line ends stand in its quotes: a stray quote makes one row of all up to the next
#: quote, so these may be as many records. Null for every other record.
SWALLOWED = "swallowed!"
#: Columns of a block: records that cross to Python in one row, since no expression looks at them.
#: Their bytes, where each begins and the last one ends (32-bit offsets, as Arrow has them), Spark's
#: hash of each, their number, and the sum of their hashes modulo 2^64.
#: jvm/shipper/lines/Block.java makes them.
BLOCK, ENDS, HASHES, RECORDS, SUM = "block!", "ends!", "hashes!", "records!", "sum!"
#: A line that is longer than allowed; its value is its beginning.
TOO_LONG = 1
#: What was read of the piece is not all of it: the file is damaged, gone, or not the one that was
#: planned. No line.
BROKEN = 2
#: Stands for a whole file that is quarantined. Its value is empty.
UNREADABLE = 3
#: What was read of the piece is all of it. No line. Only a frame that is shipped has such rows.
END = 4

_LOWEST = -(1 << 63)
_SECOND = 1 << 62


class Unmarked(NamedTuple):
    """Meaning of a row's column `split`."""

    split: int
    mark: int | None


def decode_mark(number: int, splits: Container[int]) -> Unmarked:
    """Decode the column. ``splits``: those that exist."""
    if number not in splits:
        if ~number in splits:
            return Unmarked(~number, TOO_LONG)
        if ~number ^ _LOWEST in splits:
            return Unmarked(~number ^ _LOWEST, BROKEN)
        if number ^ _LOWEST in splits:
            return Unmarked(number ^ _LOWEST, UNREADABLE)
        if number ^ _SECOND in splits:
            return Unmarked(number ^ _SECOND, END)
    return Unmarked(number, None)
