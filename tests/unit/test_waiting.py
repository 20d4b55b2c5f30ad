"""How long tests wait: for as long as something moves, at the pace of the machine."""

import itertools
import os

import pytest

from tests.waiting import wait_until


def test_a_wait_goes_on_while_something_moves_and_ends_when_nothing_does():
    moves = itertools.chain(range(5), itertools.repeat(5))
    looks = itertools.count()
    with pytest.raises(AssertionError, match="not within 0 s"):
        wait_until(lambda: next(looks) < 0, 0.02, every_seconds=0.01, progress=lambda: next(moves))
    assert next(looks) >= 6, "once anew for each move"
    assert next(moves) == 5


def test_a_second_counts_less_where_many_want_a_core(monkeypatch):
    monkeypatch.setattr(os, "getloadavg", lambda: (1e9, 0.0, 0.0))
    looks = itertools.count()
    assert wait_until(lambda: next(looks) > 20, 0.001, every_seconds=0.001)
