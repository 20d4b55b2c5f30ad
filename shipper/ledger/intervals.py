"""Interval arithmetic on record ordinals: the committed ones, and the missing ones; and as readable
text. Pure.

Intervals are half-open: [first, end).
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from itertools import starmap
from typing import NamedTuple

#: Most runs in one record of the ledger, which as text are some 300 kB. More runs need more
#: records.
MOST_RUNS = 20_000
_RUN = re.compile(r"(\d{1,20})(?:-(\d{1,20}))?", re.ASCII)


class Interval(NamedTuple):
    """Consecutive ordinals: [first, end). A tuple, since a record of the ledger may have
    :data:`MOST_RUNS` of them."""

    first: int
    end: int


class IntervalSet:
    """A set of non-negative integers, kept as sorted, disjoint, non-touching half-open intervals
    [first, end)."""

    __slots__ = ("_ends", "_starts")

    def __init__(self, intervals: Iterable[Interval] = ()) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        for first, end in sorted(intervals):
            self.add(first, end)

    def add(self, first: int, end: int) -> None:
        """Add [first, end); an empty interval changes nothing."""
        if first >= end:
            return
        low = bisect_left(self._ends, first)
        high = bisect_right(self._starts, end)
        if low < high:
            first = min(first, self._starts[low])
            end = max(end, self._ends[high - 1])
        self._starts[low:high] = [first]
        self._ends[low:high] = [end]

    def gaps(self, first: int, end: int) -> list[Interval]:
        """Return the parts of [first, end) that are not in the set, in order."""
        found = []
        index = bisect_right(self._ends, first)
        while first < end:
            if index == len(self._starts) or self._starts[index] >= end:
                found.append(Interval(first, end))
                break
            if self._starts[index] > first:
                found.append(Interval(first, self._starts[index]))
            first = self._ends[index]
            index += 1
        return found

    def __iter__(self) -> Iterator[Interval]:
        return starmap(Interval, zip(self._starts, self._ends, strict=True))

    def __bool__(self) -> bool:
        return bool(self._starts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IntervalSet) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"IntervalSet({list(self)})"


def encode_ordinals(intervals: Iterable[Interval]) -> str:
    """Encode ``intervals``, which are in order, as text: ``5,9-11`` are 5, 9, 10 and 11."""
    return ",".join(
        str(first) if end == first + 1 else f"{first}-{end - 1}" for first, end in intervals
    )


def decode_ordinals(text: str) -> list[Interval]:
    """Decode such a text's intervals, in their order. Raises ValueError."""
    found = []
    for part in text.split(",") if text else ():
        run = _RUN.fullmatch(part)
        if run is None:
            raise ValueError("ordinals are written 5,9-11")
        first, last = run.groups()
        found.append(Interval(int(first), int(last or first) + 1))
    return found


def ordered_runs(text: str) -> str:
    """Return such a text whose runs are in order, without a repeated ordinal, each below 2^64.
    Raises ValueError."""
    previous_end = 0
    for run in decode_ordinals(text):
        if not previous_end <= run.first < run.end < 1 << 64:
            raise ValueError("ordinals are in order")
        previous_end = run.end
    return text
