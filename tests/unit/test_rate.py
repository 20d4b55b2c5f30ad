"""A cap on the rate: who may send what, and when."""

from __future__ import annotations

import time

import pytest

from shipper.worker.rate import NoLimit, Pace, RateLimit


def test_transactions_take_turns_and_are_sent_evenly() -> None:
    limit = RateLimit(lambda: 1000.0)
    first, second = limit.book(10_000), limit.book(5_000)
    assert second.begins == first.begins + 10.0
    assert [first.after(sent) - first.begins for sent in (0, 2_500, 10_000)] == [0.0, 2.5, 10.0]
    assert second.seconds == 5.0


def test_a_transaction_that_would_be_open_for_too_long_begins_later() -> None:
    """It has 10 s of the cap, and may be open for 4 of them: the first six seconds' bytes go at once when it begins."""
    pace = Pace(100.0, 10.0, 1000)
    assert pace.begin_at(4.0) == 106.0
    assert pace.after(600) == 106.0
    assert pace.begin_at(20.0) == 100.0


def test_a_pause_is_not_made_up_for_by_a_burst() -> None:
    limit = RateLimit(lambda: 1000.0)
    limit.book(1)
    time.sleep(0.5)
    assert limit.book(1000).begins >= time.monotonic() - 0.2


@pytest.mark.parametrize("size", [0, 1000])
def test_without_a_cap_everything_may_go_at_once(size: int) -> None:
    pace = NoLimit().book(size)
    assert pace.begin_at(0.0) < time.monotonic()
    assert pace.after(size) < time.monotonic()
