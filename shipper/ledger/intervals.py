"""Interval arithmetic on record ordinals: what is already there, and what is left."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator


class IntervalSet:
    """A set of non-negative integers, kept as sorted, disjoint, non-touching half-open intervals [first, last)."""

    __slots__ = ("_firsts", "_lasts")

    def __init__(self, intervals: Iterable[tuple[int, int]] = ()) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        for first, last in sorted(intervals):
            self.add(first, last)

    def add(self, first: int, last: int) -> None:
        """Adds [first, last); an empty interval changes nothing."""
        if first >= last:
            return
        low = bisect_left(self._lasts, first)
        high = bisect_right(self._firsts, last)
        if low < high:
            first = min(first, self._firsts[low])
            last = max(last, self._lasts[high - 1])
        self._firsts[low:high] = [first]
        self._lasts[low:high] = [last]

    def gaps(self, first: int, last: int) -> list[tuple[int, int]]:
        """The parts of [first, last) that are not in the set, in order."""
        found = []
        index = bisect_right(self._lasts, first)
        while first < last:
            if index == len(self._firsts) or self._firsts[index] >= last:
                found.append((first, last))
                break
            if self._firsts[index] > first:
                found.append((first, self._firsts[index]))
            first = self._lasts[index]
            index += 1
        return found

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(zip(self._firsts, self._lasts, strict=True))

    def __bool__(self) -> bool:
        return bool(self._firsts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IntervalSet) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"IntervalSet({list(self)})"
