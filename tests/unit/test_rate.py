"""A cap on the rate: who may send what, and when."""

from __future__ import annotations

import math
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from shipper.kafka.producer import Throttled
from shipper.worker.rate import BrokerRate, Pace, RateLimit


def never() -> float:
    return math.inf


def test_transactions_take_turns_and_are_sent_evenly() -> None:
    limit = RateLimit(lambda: 1000.0)
    first, second = limit.turn(500, never), limit.turn(10_000, never)
    assert second.begins == first.begins + 0.5 <= time.monotonic()
    paces = [second.after(sent) - second.begins for sent in (0, 2_500, 10_000)]
    assert paces == pytest.approx([0.0, 2.5, 10.0])


def test_who_is_to_stop_waits_no_longer_for_its_turn() -> None:
    limit = RateLimit(lambda: 1.0)
    limit.turn(1_000_000, never)
    stop_at = time.monotonic() + 0.5
    with ThreadPoolExecutor() as lanes:
        paces = list(lanes.map(lambda _: limit.turn(1, lambda: stop_at), range(3)))
    assert len(paces) == 3


def test_a_transaction_that_would_be_open_for_too_long_begins_later() -> None:
    """It has 10 s of the cap, and may be open for 4 of them: the first six seconds' bytes go at
    once when it begins."""
    pace = Pace(100.0, 10.0, 1000)
    assert pace.begin_at(4.0) == 106.0
    assert pace.after(600) == 106.0
    assert pace.begin_at(20.0) == 100.0


def test_a_pause_is_not_made_up_for_by_a_burst() -> None:
    limit = RateLimit(lambda: 1000.0)
    limit.turn(1, never)
    time.sleep(0.3)
    assert limit.turn(1000, never).begins >= time.monotonic() - 0.2


def throttled(seconds: float) -> Throttled:
    return Throttled(seconds, time.monotonic() + seconds)


def test_a_quota_is_learned_from_what_brokers_throttle() -> None:
    """A burst of 40 MB against 1 MB/s: the broker throttles for 30 s, since 40 s of the quota are
    used and it looks back at 10."""
    rate = BrokerRate(None)
    for _ in range(8):
        assert rate.turn(5_000_000, never).seconds == 0
        rate.note_sent(5_000_000)
    rate.note_throttled(throttled(30.0))
    soon = time.monotonic()
    assert rate._resume_at == pytest.approx(soon + 30, abs=1), (
        "whoever sends meanwhile is only throttled for longer"
    )
    pace = rate.turn(5_000_000, lambda: soon)
    assert pace.seconds == pytest.approx(5.0)
    assert rate.throttled_seconds == pytest.approx(30.0)


def test_tasks_that_share_a_quota_learn_their_share() -> None:
    """Of 40 MB, which the broker throttles for 30 s, this task sent 10: a quarter of the quota is
    its own."""
    rate = BrokerRate(None)
    rate.note_sent(10_000_000)
    rate.note_throttled(throttled(30.0))
    assert rate.turn(5_000_000, time.monotonic).seconds == pytest.approx(20.0)


def test_a_learned_rate_follows_the_quota() -> None:
    rate = BrokerRate(None)
    rate.note_sent(13_000_000)
    rate.note_throttled(throttled(3.0))
    now = time.monotonic()
    first, quiet = (rate.turn(1_000_000, lambda: now).seconds for _ in range(2))
    rate.note_throttled(throttled(0.5))
    passing = rate.turn(1_000_000, lambda: now).seconds
    rate.note_throttled(throttled(4.0))
    assert [first, quiet, passing, rate.turn(1_000_000, lambda: now).seconds] == pytest.approx(
        [1, 1 / 1.1, 1 / 1.1, 1 / 0.99]
    )


def test_a_short_throttling_alone_says_nothing_of_bytes() -> None:
    """As that of a quota on requests."""
    rate = BrokerRate(None)
    rate.note_sent(50_000)
    rate.note_throttled(throttled(0.9))
    assert rate.turn(1_000_000, never).seconds == 0


def test_a_cap_holds_beside_a_quota() -> None:
    rate = BrokerRate(RateLimit(lambda: 1000.0))
    rate.note_sent(1_000_000)
    rate.note_throttled(throttled(10.0))
    assert rate.turn(500, time.monotonic).seconds == 0.5
