"""Interval arithmetic against plain sets of integers."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from shipper.ledger.intervals import IntervalSet

interval = st.tuples(st.integers(0, 60), st.integers(0, 60)).map(
    lambda pair: (min(pair), max(pair))
)


def members(intervals):
    return {n for first, last in intervals for n in range(first, last)}


@given(st.lists(interval), interval)
def test_gaps_are_what_the_set_does_not_hold(intervals, asked):
    gaps = IntervalSet(intervals).gaps(*asked)
    assert members(gaps) == set(range(*asked)) - members(intervals)
    assert all(first < last for first, last in gaps)
    assert gaps == sorted(gaps)


@given(st.lists(interval), st.randoms())
def test_the_order_of_adding_does_not_matter(intervals, random):
    shuffled = list(intervals)
    random.shuffle(shuffled)
    one = IntervalSet(intervals)
    other = IntervalSet()
    for first, last in shuffled:
        other.add(first, last)
    assert one == other
    assert members(one) == members(intervals)


@given(st.lists(interval))
def test_intervals_are_disjoint_and_do_not_touch(intervals):
    kept = list(IntervalSet(intervals))
    assert all(before[1] < after[0] for before, after in itertools.pairwise(kept))


@given(st.lists(interval), interval)
def test_filling_the_gaps_leaves_none(intervals, asked):
    there = IntervalSet(intervals)
    for first, last in there.gaps(*asked):
        there.add(first, last)
    assert there.gaps(*asked) == []
