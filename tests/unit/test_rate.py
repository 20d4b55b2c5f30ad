"""A cap on the rate: who may send what, and when. The time is virtual."""

import pytest

from shipper.kafka.producer import Throttled
from shipper.worker.rate import BrokerRate, RateLimit, SendSize


class Time:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now

    def wait(self, waits):
        """Wait as long as is asked for; return how long that was."""
        began = self.now
        for seconds in waits:
            self.now += seconds
        return self.now - began


@pytest.fixture
def time():
    return Time()


def transaction(rate, *sizes, most=15.0):
    return rate.transaction([SendSize(size, size) for size in sizes], most)


def test_a_transaction_begins_when_those_under_way_leave_it_enough_of_its_timeout(time):
    rate = BrokerRate(RateLimit(lambda: 1000.0, time), time)
    first, second = transaction(rate, 8_000), transaction(rate, 8_000, 1_000)
    third = transaction(rate, 10)
    time.wait(first.begin())
    waits, waiting = second.begin(), third.begin()
    assert next(waits) == pytest.approx(2.0), "17 s of the rate, and 15 may be open"
    assert next(waiting) > 0, "none overtakes"
    time.wait(first.send(0))
    first.close()
    time.wait(waits)
    second.close()
    time.wait(waiting)


def test_a_transaction_that_failed_gives_its_place_back(time):
    rate = BrokerRate(RateLimit(lambda: 1000.0, time), time)
    first, given_up, second = (transaction(rate, 14_000) for _ in range(3))
    time.wait(first.begin())
    waits = given_up.begin()
    assert next(waits) > 10
    given_up.close()
    first.close()
    assert time.wait(second.begin()) == pytest.approx(14.0)


def test_a_changed_rate_holds_at_once(time):
    rates = [1000.0]
    rate = BrokerRate(RateLimit(lambda: rates[0], time), time)
    waits = transaction(rate, 1_000).begin()
    assert next(waits) == pytest.approx(1.0)
    time.now += 0.5
    rates[0] = 100.0
    assert next(waits) > 5


def test_a_held_limit_lets_nothing_through(time):
    limit = RateLimit(lambda: 1000.0, time)
    limit.hold(6)
    assert time.wait(transaction(BrokerRate(limit, time), 100).begin()) == pytest.approx(6.1)


def throttled(time, seconds):
    return Throttled(seconds, time.now + seconds)


def learned(rate, time):
    """Have a transaction of nothing; return the rate at which it went."""
    pace = transaction(rate)
    time.wait(pace.begin())
    pace.close()
    assert rate.learned
    return rate.learned.bytes_per_second()


def test_a_quota_is_learned_from_what_brokers_throttle(time):
    """A burst of 40 MB against 1 MB/s: the broker throttles for 30 s, since 40 s of the quota are
    used and it looks back at 10."""
    rate = BrokerRate(None, time)
    for _ in range(8):
        pace = transaction(rate, 5_000_000)
        assert time.wait(pace.begin()) + time.wait(pace.send(0)) == 0
    rate.note_throttled(throttled(time, 30.0))
    pace = transaction(rate, 5_000_000)
    assert time.wait(pace.begin()) == pytest.approx(35.0), (
        "whoever sends meanwhile is only throttled for longer"
    )
    assert rate.throttled_seconds == pytest.approx(30.0)


def test_tasks_that_share_a_quota_learn_their_share(time):
    """Of 40 MB, which the broker throttles for 30 s, this task sent 10: a quarter of the quota is
    its own."""
    rate = BrokerRate(None, time)
    rate.note_sent(10_000_000)
    rate.note_throttled(throttled(time, 30.0))
    assert learned(rate, time) == pytest.approx(250_000)


def test_a_learned_rate_follows_the_quota(time):
    rate = BrokerRate(None, time)
    rate.note_sent(13_000_000)
    rate.note_throttled(throttled(time, 3.0))
    first, quiet = learned(rate, time), learned(rate, time)
    rate.note_throttled(throttled(time, 0.5))
    passing = learned(rate, time)
    rate.note_throttled(throttled(time, 4.0))
    assert [first, quiet, passing, learned(rate, time)] == pytest.approx(
        [1e6, 1.1e6, 1.1e6, 0.99e6]
    )


def test_a_short_throttling_alone_says_nothing_of_bytes(time):
    """As that of a quota on requests."""
    rate = BrokerRate(None, time)
    rate.note_sent(50_000)
    rate.note_throttled(throttled(time, 0.9))
    assert time.wait(transaction(rate, 1_000_000).begin()) == 0


def test_a_cap_holds_beside_a_quota(time):
    rate = BrokerRate(RateLimit(lambda: 1000.0, time), time)
    rate.note_sent(1_000_000)
    rate.note_throttled(throttled(time, 10.0))
    assert time.wait(transaction(rate, 500).begin()) >= 10
    assert time.wait(transaction(rate, 5_000).begin()) >= 4.5
