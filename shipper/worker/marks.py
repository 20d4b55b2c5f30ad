"""Rows of the reader that are no whole line: jvm/shipper/lines/ReaderFactory.java makes them.

The column MARK says so to Spark. The sink has only the column `split`, since every column more
costs each record something; so a mark is in there as well.
"""

from __future__ import annotations

from collections.abc import Container
from typing import NamedTuple

#: A name that no column of a pipeline can have.
MARK = "mark!"
#: Column in which an END row has the reader's byte counts of the piece: bytes taken from the file,
#: as it is stored, and bytes of the records, -1 if the reader cannot say; and the sum of its
#: unpacked content (shipper.ledger.sums). The sink finds them in the row's `value`.
SIZES = "sizes!"
#: Column with the number of line ends in the quotes of an invalid CSV row (too long, or with other
#: fields than the header): a stray quote makes one row of everything up to the next quote, so these
#: may be as many records. Null for every other record.
SWALLOWED = "swallowed!"
#: Columns of a block: records that cross to Python in one row, since no expression looks at them.
#: Their bytes, where each begins and the last one ends (32-bit offsets, as Arrow has them), Spark's
#: hash of each, their number, and the sum of their hashes modulo 2^64.
#: jvm/shipper/lines/Block.java makes them.
BLOCK, ENDS, HASHES, RECORDS, SUM = "block!", "ends!", "hashes!", "records!", "sum!"
#: Mark of a line that is longer than allowed; its value is its beginning.
TOO_LONG = 1
#: Mark of a piece that was not read completely: the file is damaged, gone, or not the planned one.
#: No line.
BROKEN = 2
#: Mark of a row that stands for a whole file that is quarantined. Its value is empty.
UNREADABLE = 3
#: Mark of a piece that was read completely. No line. Only a frame that is shipped has such rows.
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
