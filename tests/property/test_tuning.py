"""Lanes and batches are sized so that the link is full, the topic's limit holds and memory
suffices."""

import math
import random
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from shipper.driver.preflight import Preflight
from shipper.kafka.producer import LaneSettings
from shipper.worker.tuning import Following, LinkProfile, Sizing, Tuning


def tune(link, tasks, memory_bytes, **more):
    return Sizing(link, tasks, memory_bytes, **more).tune()


_links = st.builds(
    LinkProfile,
    rtt_seconds=st.floats(0.0001, 0.3),
    bandwidth_bytes_per_second=st.floats(1e6, 2e9),
    ratio=st.floats(0.9, 20),
    limit_bytes=st.integers(1, 3_000) | st.integers(3_000, 20_000_000),
    ack_seconds=st.floats(0.0, 2.0),
    partitions=st.integers(1, 64),
)


@given(_links, st.integers(1, 32), st.integers(16_000_000, 1_000_000_000))
def test_batches_fit_the_topic_and_chunks_the_memory(link, tasks, memory_bytes):
    found = tune(link, tasks, memory_bytes)
    assert found.batch_bytes <= link.limit_bytes * max(1.0, link.ratio)
    assert found.batch_bytes <= found.chunk_bytes
    assert found.lanes * found.chunk_bytes <= memory_bytes
    assert 1 <= found.lanes <= 128


@given(st.floats(0.01, 0.3), st.floats(1, 10), st.integers(1, 8))
def test_in_flight_covers_bandwidth_times_round_trip(rtt_seconds, ratio, tasks):
    link = LinkProfile(rtt_seconds, 20e6, ratio, 1_048_588)
    found = tune(link, tasks, 1_000_000_000)
    rate = min(20e6 * ratio, tasks * 80e6)
    assert tasks * found.in_flight_bytes >= min(rate, 1e9) * rtt_seconds


@given(_links, st.integers(1, 32), st.integers(1, 10**9), st.floats(2, 200))
def test_under_a_cap_a_transaction_is_sent_in_time_and_the_lanes_reach_the_cap(
    link, tasks, bytes_per_second, most_seconds
):
    capped = replace(link, cap_bytes_per_second=bytes_per_second, cap_seconds=most_seconds)
    found = tune(capped, tasks, 192_000_000)
    free = tune(link, tasks, 192_000_000)
    assert found.chunk_bytes <= max(16_000, bytes_per_second / tasks * most_seconds)
    assert found.batch_bytes <= min(free.batch_bytes, found.chunk_bytes)
    rate = min(
        bytes_per_second * link.ratio, link.bandwidth_bytes_per_second * link.ratio / tasks, 80e6
    )
    no_more = found.lanes == 128 or (found.lanes + 1) * found.chunk_bytes > 192_000_000
    assert no_more or found.in_flight_bytes >= rate * link.delay_seconds


@given(_links, st.integers(1, 32))
def test_batches_are_packed_harder_only_where_the_link_leaves_the_processor_idle(link, tasks):
    found = Sizing(link, tasks, 192_000_000, chooses_level=True).tune()
    unpacked = link.bandwidth_bytes_per_second * link.ratio / tasks
    assert (found.level == 9) == (unpacked <= 15e6)
    assert tune(link, tasks, 192_000_000).level == -1
    capped = replace(link, cap_bytes_per_second=1_000, cap_seconds=10.0)
    assert Sizing(capped, tasks, 192_000_000, chooses_level=True).tune().level == 9


@given(_links, st.integers(1, 32), st.integers(1, 10**10))
def test_a_small_window_is_divided_among_the_lanes_that_it_has_batches_for(
    link, tasks, bytes_to_send
):
    """No lane sends one more transaction while others have none: as many rounds as full chunks
    would take are enough. And a window of a few lines opens no thirteen producers."""
    full, found = (tune(link, tasks, 80_000_000, bytes_to_send=each) for each in (0, bytes_to_send))
    share = math.ceil(bytes_to_send / tasks)
    whole = not link.is_short and share <= 80_000_000
    largest = max(full.chunk_bytes, 80_000_000 // full.lanes) if whole else full.chunk_bytes
    assert found.batch_bytes == full.batch_bytes <= found.chunk_bytes <= largest
    assert 1 <= found.lanes <= full.lanes
    rounds = math.ceil(share / (full.lanes * largest))
    assert full.lanes * found.chunk_bytes * rounds >= share
    assert (found.chunk_bytes - 1) // found.batch_bytes * full.lanes * rounds < share / (
        found.batch_bytes
    ) + full.lanes * rounds
    assert found.lanes <= max(2, 2 * share / found.batch_bytes + 1)


@given(_links, st.floats(0.03, 2.0))
def test_lanes_are_sized_by_the_delay_that_they_wait_for(link, ack_seconds):
    """Metadata that come in a millisecond say nothing about acknowledgements that take a second:
    what is in flight must cover these, or be all that memory allows."""
    found = tune(replace(link, rtt_seconds=0.001, ack_seconds=ack_seconds), 2, 160_000_000)
    rate = min(link.bandwidth_bytes_per_second * link.ratio / 2, 80e6)
    no_more = found.lanes == 128 or (found.lanes + 1) * found.chunk_bytes > 160_000_000
    assert no_more or found.in_flight_bytes >= rate * ack_seconds


def test_batches_go_side_by_side_where_the_topic_has_partitions_and_the_link_is_long():
    slow = LinkProfile(0.002, 125e6, 7, 1_048_588, ack_seconds=0.4, partitions=16)
    found = tune(slow, 2, 160_000_000)
    one = tune(replace(slow, partitions=1), 2, 160_000_000)
    assert (found.side_by_side, found.slice_bytes) == (3, found.batch_bytes)
    assert (one.side_by_side, one.slice_bytes) == (1, one.chunk_bytes)
    assert found.lanes < one.lanes, "fewer connections carry the same"
    near = tune(replace(slow, ack_seconds=0.004), 2, 160_000_000)
    assert (near.side_by_side, near.lanes) == (1, 2)


def test_what_is_set_by_hand_stays():
    link = LinkProfile(0.14, 125e6, 7, 1_048_588)
    found = tune(
        link,
        2,
        192_000_000,
        lanes=5,
        batch_bytes=700_000,
        chunk_bytes=3_000_000,
        bytes_to_send=1000,
    )
    assert (found.lanes, found.batch_bytes, found.chunk_bytes) == (5, 700_000, 3_000_000)


@given(st.floats(0.00005, 0.0099), st.floats(1e7, 2e8), st.floats(1, 10), st.integers(1, 8))
def test_a_short_link_is_filled_by_fewer_bytes_in_flight_than_a_long_one(
    rtt_seconds, bandwidth_bytes_per_second, ratio, tasks
):
    """Below some milliseconds the processor is the limit, and small batches are kinder to its
    cache."""
    short, long = (
        tune(LinkProfile(rtt, bandwidth_bytes_per_second, ratio, 1_048_588), tasks, 192_000_000)
        for rtt in (rtt_seconds, 0.14)
    )
    assert (
        tasks * short.in_flight_bytes
        >= min(bandwidth_bytes_per_second * ratio, tasks * 80e6) * rtt_seconds
    )
    assert short.batch_bytes < long.batch_bytes
    assert short.lanes <= long.lanes


def test_a_topic_that_takes_next_to_nothing_gets_a_batch_that_a_client_can_be_made_with():
    """Its records are refused one by one, and the topic is named."""
    assert tune(LinkProfile(0.001, 125e6, 7.0, 100), 2, 80_000_000).batch_bytes >= 1


_NEAR = LinkProfile(0.002, 125e6, 7, 1_048_588, ack_seconds=0.004, partitions=16)


def sized_for(ack_seconds):
    sizing = Sizing(replace(_NEAR, ack_seconds=ack_seconds), 2, 160_000_000)
    return Preflight(LaneSettings({}, 1, "none", 1), sizing, sizing.tune(), {}, None)


def following(ack_seconds):
    """Return the sizes of a run whose announcement took as long as its lease."""
    ready = sized_for(ack_seconds).announced(ack_seconds)
    return Following(ready.tuning, ready.sizing)


def test_over_a_distance_as_much_is_in_flight_as_before_acknowledgements_were_measured():
    """At 140 ms 20 lanes had one batch of 2 MB each in flight, in transactions of three that took
    7 round trips; now 15 have three, in transactions that take 5."""
    found = tune(LinkProfile(0.14, 125e6, 7, 1_048_588, ack_seconds=0.14, partitions=16), 2, 2**30)
    assert (found.lanes, found.side_by_side, found.batch_bytes) == (15, 3, 2_000_000)
    assert found.in_flight_bytes > 20 * 2_000_000
    assert found.lanes * found.chunk_bytes / (5 * 0.14) >= 20 * 6_000_000 / (7 * 0.14)


def test_one_slow_acknowledgement_of_the_lease_opens_no_more_lanes_than_a_near_cluster_needs():
    ready = sized_for(0.45)
    assert ready.tuning.lanes > 20, "these are announced, and fenced by the next run"
    opened = ready.announced(0.004)
    assert opened.tuning == sized_for(0.004).tuning
    assert opened.sizing.most_lanes == opened.tuning.lanes == 2
    assert opened.sizing.link.ack_seconds == 0.004


def meet(sizes, ack_seconds, waited_share=1.0):
    """Let the lanes wait so long for half of the latest acknowledgements, and longer for the
    others."""
    for _ in range(16):
        sizes.note(ack_seconds)
        sizes.note(20 * ack_seconds)
    return sizes.follow(waited_share)


def test_acknowledgements_that_stay_as_they_were_change_nothing():
    for ack in (0.004, 0.4):
        sizes = following(ack)
        before = sizes.tuning
        assert not any(meet(sizes, ack * each) for each in (0.6, 1.0, 1.9, 1.2, 0.7))
        assert sizes.tuning == before


def test_acknowledgements_that_become_slower_put_more_in_flight_in_the_lanes_that_there_are():
    sizes = following(0.004)
    assert (sizes.tuning.lanes, sizes.tuning.in_flight_bytes) == (2, 1_000_000)
    sizes.note(0.4)
    assert not sizes.follow(1.0), "one wait is not enough"
    assert not meet(sizes, 0.4, waited_share=0.1), "the processor limits"
    assert meet(sizes, 0.4, waited_share=0.5)
    slow = sizes.tuning
    assert (slow.lanes, slow.batch_bytes, slow.side_by_side) == (2, 2_000_000, 3)
    assert slow.slice_bytes * slow.side_by_side >= slow.chunk_bytes == 48_000_000
    assert sizes.sizing.link.transaction_seconds(slow.chunk_bytes / slow.batch_bytes) < 5
    assert meet(sizes, 0.004, waited_share=0.0)
    assert replace(sizes.tuning, why="") == replace(following(0.004).tuning, why="")


def test_acknowledgements_that_become_faster_use_fewer_lanes_and_smaller_batches():
    sizes = following(0.4)
    announced = sizes.tuning.lanes
    assert announced > 20
    assert meet(sizes, 0.004, waited_share=0.0)
    assert (sizes.tuning.lanes, sizes.tuning.batch_bytes) == (2, 500_000)
    assert meet(sizes, 0.8)
    assert sizes.tuning.lanes == announced, "never more than were announced"


def test_acknowledgements_that_vary_do_not_make_the_sizes_oscillate():
    """p50 250 ms, p99 1.5 s."""
    for seed in range(20):
        rng, sizes, changes = random.Random(seed), following(0.25), 0
        for _ in range(200):
            for _ in range(rng.randint(3, 10)):
                sizes.note(rng.lognormvariate(math.log(0.25), 0.77))
            changes += sizes.follow(0.5)
        assert changes <= 2
        assert 0.06 <= sizes.sizing.link.ack_seconds <= 0.5


def test_under_a_cap_and_where_nothing_is_measured_sizes_stay():
    capped = Sizing(replace(_NEAR, cap_bytes_per_second=1_000_000, cap_seconds=30), 2, 160_000_000)
    for sizes in (Following(capped.tune(), capped), Following(Tuning(2, 1000, 1000))):
        assert not sizes.follow(1.0)
        assert not meet(sizes, 2.0)
